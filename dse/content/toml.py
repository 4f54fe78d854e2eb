"""Reading TOML, and collecting every problem of a file into one message."""

import difflib
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ..errors import UserError


def read_toml(path: Path) -> dict[str, Any]:
    """The parsed file.

    Raises:
        UserError: unreadable file, text that is not UTF-8, or a syntax error (with its line and column).
    """
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8 text: byte {error.start}") from error
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{path} is not valid TOML: {error}") from error


class Problems:
    """What is wrong with a file (or with a set of overrides), said all at once.

    Example:
        problems = Problems("my_gpu.toml")
        problems.add("engine.sm_count", "is missing")
        problems.raise_if_any()  # UserError: my_gpu.toml: 1 problem\\n  engine.sm_count: is missing
    """

    def __init__(self, what: str):
        self.what = what
        self.lines: list[str] = []

    def add(self, where: str, text: str) -> None:
        """Notes one problem at a dotted place of the file."""
        self.lines.append(f"{where}: {text}")

    def raise_if_any(self) -> None:
        """Raises one UserError that lists all problems, if there are any."""
        if self.lines:
            count = f"{len(self.lines)} problem{'s' if len(self.lines) > 1 else ''}"
            raise UserError("\n  ".join([f"{self.what}: {count}", *self.lines]))


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A sentence part with the nearest known name ("; did you mean 'x'?"), or nothing."""
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f"; did you mean {near[0]!r}?" if near else ""


def is_number(value: Any) -> bool:
    """True for an int or a float; TOML's booleans are not numbers."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)
