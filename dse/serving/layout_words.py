"""Layouts in words: `tp=8 pp=2 batch=64`, and degrees read from what users write."""

from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import Any

from ..errors import UserError, unknown
from .layouts import FIELDS, PLACEMENTS

NAMES: dict[str, tuple[str, ...]] = {  # of codes 0, 1, ...
    "placement": tuple(".".join(order) for order in PLACEMENTS),
    "exchange": ("all_gather", "all_to_all"),
    "overlap": ("none", "two_batches", "fused"),
}
SWITCHES = ("sequence_parallel",)
FROM_ZERO = ("chunk", *SWITCHES, *NAMES)
ALWAYS = ("tp", "batch")  # said even where they are 1
DEGREES = tuple(name for name in FIELDS if name not in ("batch", "chunk"))
LARGEST = 2**24
MOST_VALUES = 256


def layout_text(layout: Mapping[Any, Any], leave_out: Sequence[str] = ()) -> str:
    """The degrees that are not 1 (or the first of their names), in the order of `FIELDS`.

    Args:
        layout: of `FIELDS`, numbers; what else it holds is not looked at.
        leave_out: fields that are not said.
    """
    said = []
    for name in FIELDS:
        value = int(layout[name])
        if name not in leave_out and (name in ALWAYS or value != int(name not in FROM_ZERO)):
            said.append(f"{name}={value_text(name, value)}")
    return " ".join(said)


def value_text(name: str, value: int) -> str:
    """A field's value: a number, or its name."""
    return NAMES[name][value] if name in NAMES else str(value)


def read_values(name: str, given: Any) -> tuple[int, ...]:
    """Values of a degree: a number, a name, a text with commas between several, or a sequence of these.

    Raises:
        UserError: a name that is not known, or no whole number in the range.
    """
    parts = given.split(",") if isinstance(given, str) else [given] if not isinstance(given, Sequence) else given
    if not parts or len(parts) > MOST_VALUES:
        raise UserError(f"{name}: {len(parts)} values are given; 1 to {MOST_VALUES} are allowed")
    return tuple(dict.fromkeys(_value(name, part) for part in parts))


def _value(name: str, given: Any) -> int:
    part: Any = given
    if isinstance(given, str):
        word = given.strip()
        if name in NAMES and not word.isdecimal():
            if word not in NAMES[name]:
                raise unknown(name, word, NAMES[name])
            return NAMES[name].index(word)
        part = int(word) if word.isascii() and word.isdecimal() and len(word) < 10 else word
    elif isinstance(given, bool) and name in SWITCHES:
        part = int(given)
    least = int(name not in FROM_ZERO)
    most = len(NAMES[name]) - 1 if name in NAMES else 1 if name in SWITCHES else LARGEST
    whole = isinstance(part, Integral) and not isinstance(part, bool)
    if not whole or not least <= int(part) <= most:
        allowed = f"one of {', '.join(NAMES[name])}" if name in NAMES else f"a whole number from {least} to {most}"
        raise UserError(f"{name} = {part!r} is not allowed: {allowed}")
    return int(part)
