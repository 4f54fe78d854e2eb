"""The one error class users see: a message that names the thing, the value, what is allowed and the fix."""

import difflib
from collections.abc import Iterable


class UserError(ValueError):
    """Bad input. The command line prints the message without a traceback and exits with code 2."""


def unknown(kind: str, name: str, known: Iterable[str], fix: str = "") -> UserError:
    """An error for a name that is not among `known`, with the nearest known name.

    Args:
        kind: what the name is of, e.g. "GPU".
        name: what the user wrote.
        known: all names that would be right.
        fix: what else the user can do, a sentence part.
    """
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    parts = [f"unknown {kind} {name!r}; known: {', '.join(names)}"]
    if near:
        parts.append(f"did you mean {near[0]!r}?")
    if fix:
        parts.append(fix)
    return UserError("; ".join(parts))
