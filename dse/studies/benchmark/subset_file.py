"""A part of a user's file of candidates as a file of the same kind, or as JSON."""

import ast
import csv
import io
import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...candidate_files import is_triton_config
from ...content.files import home_expanded
from ...cutlass_call import CutlassCall
from ...errors import UserError
from ...text import one_line

_LAUNCH = ("num_warps", "num_stages", "num_ctas", "maxnreg", "ir_override")


def subset_text(
    source: str | Path, entries: Sequence[tuple[str, Any]], kept: Collection[str], suffix: str, remark: str = ""
) -> str:
    """The kept entries, in the order of the file.

    A table keeps its columns, a JSON list its objects and a script its other lines as they are. A Python file is
    written anew, as module-level lists of the same names: what made the configs need not be repeatable.

    Args:
        source: the file that the entries come from.
        entries: (name, entry) of all, as `dse.candidate_files.read_entries` gives them.
        kept: names of those wanted.
        suffix: of the file that is written: the source's own, or ".json".
        remark: a line for the head of a Python file.

    Raises:
        UserError: another suffix, or entries that JSON cannot hold.
    """
    path = home_expanded(source)
    if suffix not in (path.suffix, ".json"):
        raise UserError(f"a part of {path.name} is written as {path.suffix} or .json, not as {suffix or 'no suffix'}")
    chosen = [(name, entry) for name, entry in entries if name in kept]
    if suffix == ".json":
        lines = [json.dumps(_plain(name, entry)) for name, entry in chosen]
        return "[\n" + ",\n".join(f" {line}" for line in lines) + "\n]\n"
    if suffix == ".csv":
        return _table(path, kept)
    return _script(path, entries, kept) if suffix == ".sh" else _module(chosen, remark)


def _table(path: Path, kept: Collection[str]) -> str:
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    with path.open(newline="", encoding="utf-8-sig") as given:
        reader = csv.reader(given, skipinitialspace=True)
        writer.writerow(next(reader))
        writer.writerows(row for row in reader if f"line {reader.line_num}" in kept)
    return file.getvalue()


def _script(path: Path, entries: Sequence[tuple[str, Any]], kept: Collection[str]) -> str:
    lines = path.read_text(encoding="utf-8").splitlines()
    dropped: set[int] = set()
    for name, _ in entries:
        if name in kept:
            continue
        at = int(name.removeprefix("line ")) - 1
        if _is_comment(lines, at - 1) and not _is_comment(lines, at - 2):
            dropped.add(at - 1)  # one comment above a call is the call's
        dropped.add(at)
        while lines[at].rstrip().endswith("\\") and at + 1 < len(lines):
            at += 1
            dropped.add(at)
    return "\n".join(line for at, line in enumerate(lines) if at not in dropped) + "\n"


def _is_comment(lines: Sequence[str], at: int) -> bool:
    return 0 <= at < len(lines) and lines[at].lstrip().startswith("#")


def _module(chosen: Sequence[tuple[str, Any]], remark: str) -> str:
    lists: dict[str, list[str]] = {}
    imports: set[str] = set()
    for name, entry in chosen:
        text, needs = _triton(entry) if is_triton_config(entry) else _dictionary(entry)
        imports |= needs
        lists.setdefault(name.partition("[")[0], []).append(f"    {text},")
    lines = [f"# {one_line(remark)}"] if remark else []
    lines += [*sorted(imports), ""] if imports else []
    for name, members in lists.items():
        lines += [f"{name} = [", *members, "]"]
    return "\n".join(lines) + "\n"


def _triton(config: Any) -> tuple[str, set[str]]:
    options = {key: getattr(config, key) for key in _LAUNCH if getattr(config, key, None) is not None}
    options |= {key: value for key, value in getattr(config, "options", {}).items() if value is not None}
    own = {key: value for key, value in config.kwargs.items() if _is_literal(value)}
    written = {key: repr(value) for key, value in options.items() if _is_literal(value)}
    left = [str(key) for key in (*config.kwargs, *options) if key not in own and key not in written]
    if getattr(config, "pre_hook", None) is not None:
        left.append("pre_hook")
    text = ", ".join([repr(own), *(f"{key}={value}" for key, value in written.items())])
    return f"{_by_hand(left)}triton.Config({text})", {"import triton"}


def _dictionary(config: Mapping[str, Any]) -> tuple[str, set[str]]:
    items, needs, left = [], set(), []
    for key, value in config.items():
        if type(value).__name__ == "GemmWarpPolicy":
            items.append(f"{key!r}: T.GemmWarpPolicy.{value.name}")
            needs.add("import tilelang.language as T")
        elif _is_literal(value):
            items.append(f"{key!r}: {value!r}")
        else:
            left.append(str(key))
    return _by_hand(left) + "{" + ", ".join(items) + "}", needs


def _by_hand(left: Sequence[str]) -> str:
    """The comment above an entry some of whose values have no text in Python: objects, functions, infinities."""
    names = one_line(", ".join(dict.fromkeys(left)))
    return f"# {names}: set again by hand\n    " if left else ""


def _is_literal(value: Any) -> bool:
    """Whether Python reads the value's text back as the value."""
    try:
        return ast.literal_eval(repr(value)) == value
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return False


def _plain(name: str, entry: Any) -> Any:
    if isinstance(entry, CutlassCall):
        raise UserError("profiler calls are no JSON candidates: write the part as .sh")
    if is_triton_config(entry):
        launch = {key: getattr(entry, key) for key in _LAUNCH if getattr(entry, key, None) is not None}
        entry = {**entry.kwargs, **launch}
    if isinstance(entry, Mapping):
        entry = {str(key): getattr(value, "name", value) for key, value in entry.items()}
    try:
        json.dumps(entry)
    except TypeError:
        raise UserError(f"{name} holds what JSON cannot: write the part in the file's own format") from None
    return entry
