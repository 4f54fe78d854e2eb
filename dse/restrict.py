"""Sub-spaces: which entries of which axes a restriction keeps, and the text form of restrictions (`tile_m=64,128`)."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from .axis import Axis
from .errors import UserError, unknown

LONGEST_RANGE = 2**16


@dataclass(frozen=True)
class Between:
    """All allowed values from `low` to `high`, both included (`tile_n=64:128`)."""

    low: int
    high: int

    def __str__(self) -> str:
        return f"{self.low}:{self.high}"


Wanted: TypeAlias = int | str | Between
Restrictions: TypeAlias = Mapping[str, "Wanted | Sequence[Wanted]"]


def parse_axis(text: str) -> tuple[str, tuple[Wanted, ...]]:
    """Read one restriction as it stands on the command line.

    `tile_m=64,128` lists values, `tile_n=64:256` means all allowed values from 64 to 256, `tile_n=64:256:64` means 64,
    128, 192 and 256; they mix (`stages=2,4:6`). What is no number is a label (`raster=along_m:4`) or the name of a code
    (`epilogue=overlapped`).

    Returns:
        The name left of `=` and what is wanted of it.

    Raises:
        UserError: no name, no values, or a range that runs backwards.
    """
    name, equals, values = text.partition("=")
    name = name.strip()
    words = [word.strip() for word in values.split(",")]
    if not equals or not name or not all(words):
        raise UserError(f"cannot read the axis {text!r}: write NAME=VALUE,VALUE,... or NAME=FROM:TO:STEP")
    return name, tuple(wanted for word in words for wanted in _read_word(name, word))


def parse_axes(texts: Iterable[str]) -> dict[str, tuple[Wanted, ...]]:
    """Read several restrictions, e.g. all `--axis` options of a command; the same name twice is an error."""
    restrictions: dict[str, tuple[Wanted, ...]] = {}
    for text in texts:
        name, wanted = parse_axis(text)
        if name in restrictions:
            raise UserError(f"axis {name!r} is given twice: write {name}=VALUE,VALUE,... once")
        restrictions[name] = wanted
    return restrictions


def restrict_axes(
    axes: Sequence[Axis],
    restrictions: Restrictions,
    fixed: Mapping[str, int],
    codes: Mapping[str, Sequence[str]],
    space: str,
) -> tuple[Axis, ...]:
    """Keep the entries that agree with every restriction; order within an axis stays.

    Args:
        axes: the axes of the whole space.
        restrictions: name of an axis (wanted: labels, or values of an axis that sets one field) or of a schedule field
            inside an axis (wanted: values of that field) -> what to keep of it.
        fixed: fields that have one value in the whole space; wanting just that value is allowed.
        codes: field -> the names of its values 0, 1, ...; wanted values may use them.
        space: what to call the space in errors.

    Raises:
        UserError: an unknown name, a value that is not there, or nothing left of an axis.
    """
    kept: dict[str, list[int]] = {axis.name: list(range(axis.radix)) for axis in axes}
    asked: dict[str, list[str]] = {axis.name: [] for axis in axes}
    for name, wanted in restrictions.items():
        entries = _as_list(wanted)
        if not entries:
            raise UserError(f"axis {name!r} of the space {space} is restricted to nothing: give at least one value")
        if name in fixed:
            _check_fixed(name, entries, fixed[name], codes, space)
            continue
        axis = _axis_that_sets(axes, name, fixed, space)
        chosen = _digits_of(axis, name, entries, codes, space)
        asked[axis.name].append(f"{name}={','.join(str(entry) for entry in entries)}")
        kept[axis.name] = [digit for digit in kept[axis.name] if digit in chosen]
        if not kept[axis.name]:
            raise UserError(
                f"axis {axis.name!r} of the space {space} has no value left: {' and '.join(asked[axis.name])} "
                f"contradict each other; its values: {', '.join(axis.labels)}"
            )
    return tuple(axis.keep(kept[axis.name]) for axis in axes)


def code_value(field: str, wanted: object, codes: Mapping[str, Sequence[str]]) -> object:
    """The number behind a code's name or a number written as text; anything else as it is."""
    if isinstance(wanted, str):
        names = codes.get(field, ())
        if wanted in names:
            return list(names).index(wanted)
        if re.fullmatch(r"\d{1,20}", wanted):
            return int(wanted)
    return wanted


def _read_word(name: str, word: str) -> tuple[Wanted, ...]:
    if re.fullmatch(r"\d{1,20}", word):
        return (int(word),)
    if not re.fullmatch(r"\d{1,20}:\d{1,20}(:\d{1,20})?", word):
        return (word,)
    low, high, *step = (int(part) for part in word.split(":"))
    if low > high or step == [0]:
        raise UserError(f"axis {name!r}: the range {word!r} is empty: write FROM:TO or FROM:TO:STEP with FROM <= TO")
    if step and (high - low) // step[0] > LONGEST_RANGE:
        raise UserError(f"axis {name!r}: the range {word!r} lists more than {LONGEST_RANGE} values: take a larger STEP")
    return tuple(range(low, high + 1, step[0])) if step else (Between(low, high),)


def _as_list(wanted: object) -> list:
    return list(wanted) if isinstance(wanted, Iterable) and not isinstance(wanted, str) else [wanted]


def _axis_that_sets(axes: Sequence[Axis], name: str, fixed: Mapping[str, int], space: str) -> Axis:
    for axis in axes:
        if axis.name == name or name in axis.fields:
            return axis
    known = {axis.name for axis in axes} | {field for axis in axes for field in axis.fields} | set(fixed)
    raise unknown("axis", name, known, f"of the space {space}")


def _digits_of(
    axis: Axis, name: str, entries: Sequence, codes: Mapping[str, Sequence[str]], space: str
) -> frozenset[int]:
    by_field = name in axis.fields
    column = axis.column(name) if by_field else axis.labels
    chosen: set[int] = set()
    missing = []
    for entry in entries:
        if isinstance(entry, Between) and by_field:
            found = [digit for digit, value in enumerate(column) if entry.low <= int(value) <= entry.high]
        else:
            value = code_value(name, entry, codes) if by_field else str(entry)
            found = [digit for digit, have in enumerate(column) if have == value]
        chosen.update(found)
        if not found:
            missing.append(str(entry))
    if missing:
        raise UserError(
            f"{name} = {', '.join(missing)} is not in the space {space}; allowed: {_allowed(name, column, codes)}"
        )
    return frozenset(chosen)


def _allowed(name: str, column: Sequence, codes: Mapping[str, Sequence[str]]) -> str:
    names = codes.get(name)
    return ", ".join(
        names[value] if names and isinstance(value, int) else str(value) for value in dict.fromkeys(column)
    )


def _check_fixed(name: str, entries: Sequence, value: int, codes: Mapping[str, Sequence[str]], space: str) -> None:
    for entry in entries:
        agrees = entry.low <= value <= entry.high if isinstance(entry, Between) else False
        if not agrees and code_value(name, entry, codes) != value:
            raise UserError(
                f"{name} = {entry} is not in the space {space}; allowed: {_allowed(name, [value], codes)} "
                "(fixed in this space)"
            )
