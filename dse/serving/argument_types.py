"""Arguments of Python callers that are of a wrong type, told in one line."""

import os
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import Any

from ..content.layout_study import SERVICE_KEYS
from ..errors import UserError, unknown

OPTIONAL = ("fabric", "dtype", "experts_dtype", "kv_dtype")  # may be None
FILES = ("model", "gpu", "fabric", "engine")  # may be paths
_KINDS = {str: "a text", bool: "True or False", (int, float): "a number"}


def check_types(words: Mapping[str, Any]) -> None:
    """Checks names and types of what `dse.serving.asked.ask_service` is given; whole numbers are checked where their
    range is.

    Raises:
        UserError: an unknown name, or a value of another type.
    """
    known = [name for name in SERVICE_KEYS if name != "name"]
    for name, value in words.items():
        if name not in known:
            raise unknown("argument of a service", name, known)
        kind = SERVICE_KEYS[name]
        fits = isinstance(value, (str, os.PathLike)) if name in FILES else isinstance(value, kind)
        if kind == (int, float):
            fits = isinstance(value, Real) and not isinstance(value, bool)
        if kind in _KINDS and not fits and not (value is None and name in OPTIONAL):
            said = "the name or the path of a file" if name in FILES else _KINDS[kind]  # type: ignore[index]
            raise UserError(f"{name} = {value!r} is not allowed: {said}")


def whole(value: Any) -> Any:
    """NumPy's whole numbers as Python's; all else as it is."""
    return int(value) if isinstance(value, Integral) and not isinstance(value, bool) else value


def texts(name: str, given: Any) -> tuple[str, ...]:
    """One text, or several.

    Raises:
        UserError: something else.
    """
    found = (given,) if isinstance(given, str) else given
    if not isinstance(found, Sequence) or not all(isinstance(text, str) for text in found):
        raise UserError(f"{name} = {given!r} is not allowed: a text, or a list of texts")
    return tuple(found)
