"""Implementations: named numbers of a library's kernel that are not the GPU's, a table a GPU.

`hardware/implementations/<kernel>/<name>.toml` holds `text`, `[sources]` (short name -> what it stands for) and a table
a GPU, each number `{ value, kind, source }` as in GPU files; a table `[all]` holds what does not depend on the GPU.
`hardware/implementations/<kernel>/_fields.toml` declares the numbers: a table each with `text`, `unit`, `default` (that
of a bare ideal kernel, the implementation "none") and, where it is not zero and infinity, `least` and `most`.

A number that a table leaves out has its default.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from ..errors import UserError, unknown
from .datum import Datum, parse_datum
from .files import content_files, find_content
from .gpu_fields import Field
from .overrides import factor_of
from .toml import Problems, did_you_mean, is_number, read_toml

FOLDER = "hardware/implementations"
NONE = "none"  # a bare ideal kernel: every number at its default
EVERY_GPU = "all"
_FIELD_KEYS = ("text", "unit", "default", "least", "most")
_OWN_KEYS = ("text", "sources")


@dataclass(frozen=True)
class Implementation:
    """One file.

    Attributes:
        kernel: whose numbers they are.
        name: of the file, without ending.
        text: what it is, one line.
        gpus: GPU (or "all") -> number -> where it comes from.
        path: of the file.
    """

    kernel: str
    name: str
    text: str
    gpus: Mapping[str, Mapping[str, Datum]]
    path: Path


def load_implementation(
    kernel: str,
    name: str,
    gpu_names: str | Sequence[str],
    overrides: Mapping[str, str | float] | None = None,
) -> dict[str, float]:
    """The numbers of an implementation on a GPU.

    Args:
        kernel: e.g. "attention".
        name: of the implementation; "none": the defaults.
        gpu_names: of the GPU, then of the files that it builds on (`GpuFile.bases`): the first with a table counts.
        overrides: what-if changes, number -> "2x", "+10%" or a number in its unit.

    Returns:
        Every declared number, in the order of `_fields.toml`; empty where the kernel declares none.

    Raises:
        UserError: an unknown implementation, one without a table for the GPU (the message says which GPUs it has), an
            override of an unknown number, or all problems of a file in one message.
    """
    fields = implementation_fields(kernel)
    numbers = {field: float(about.default or 0.0) for field, about in fields.items()}
    if name != NONE:
        chain = (gpu_names,) if isinstance(gpu_names, str) else tuple(gpu_names)
        found = read_implementation(kernel, name)
        known = [gpu for gpu in found.gpus if gpu != EVERY_GPU]
        gpu = next((gpu for gpu in chain if gpu in known), None)
        if gpu is None:
            raise UserError(
                f"implementation {name!r} of {kernel} has no numbers for the GPU {chain[0]!r}; it has "
                f"{', '.join(known) or 'none'}; add a table [{chain[0]}] to {found.path}, or take --implementation none"
            )
        for table in (found.gpus.get(EVERY_GPU, {}), found.gpus[gpu]):
            numbers |= {field: datum.number for field, datum in table.items()}
    for field, change in (overrides or {}).items():
        numbers[field] = _changed(kernel, fields, field, change, numbers)
    return numbers


def implementation_defaults(kernel: str) -> dict[str, float]:
    """The numbers of a bare ideal kernel."""
    return load_implementation(kernel, NONE, ())


def list_implementations(kernel: str) -> tuple[str, ...]:
    """Names of a kernel's implementations: the packaged ones and those in the folders of `DSE_PATH`; "none" first."""
    return (NONE, *(name for name in content_files(f"{FOLDER}/{kernel}") if not name.startswith("_")))


def implementation_fields(kernel: str) -> dict[str, Field]:
    """The numbers that a kernel's implementations may have, in the order of its `_fields.toml`; none without one.

    Raises:
        UserError: all problems of the file in one message.
    """
    path = content_files(f"{FOLDER}/{kernel}").get("_fields")
    return {} if path is None else dict(_declared(path, path.stat().st_mtime_ns))


def read_implementation(kernel: str, name: str) -> Implementation:
    """The file of an implementation, checked.

    Raises:
        UserError: no such file (with the nearest name), or all its problems in one message.
    """
    known = list_implementations(kernel)
    if name not in known:
        raise unknown(
            f"implementation of {kernel}", name, known, f"or add {FOLDER}/{kernel}/{name}.toml to a folder of DSE_PATH"
        )
    path = find_content("implementation", f"{FOLDER}/{kernel}", name)
    content, problems, fields = read_toml(path), Problems(str(path)), implementation_fields(kernel)
    sources = content.get("sources", {})
    if not isinstance(sources, dict) or not all(isinstance(text, str) for text in sources.values()):
        problems.add("sources", "must be a table of texts, short name -> what it stands for")
        sources = {}
    if not isinstance(content.get("text", ""), str):
        problems.add("text", f"must be text, not {content['text']!r}")
    gpus = {
        gpu: _table(gpu, table, fields, sources, problems) for gpu, table in content.items() if gpu not in _OWN_KEYS
    }
    problems.raise_if_any()
    return Implementation(kernel, name, str(content.get("text", "")), gpus, path)


@lru_cache(maxsize=64)
def _declared(path: Path, _changed_ns: int) -> Mapping[str, Field]:
    problems = Problems(str(path))
    fields = {name: _field(name, table, problems) for name, table in read_toml(path).items()}
    problems.raise_if_any()
    return {name: field for name, field in fields.items() if field is not None}


def _table(
    gpu: str, table: Any, fields: Mapping[str, Field], sources: dict[str, str], problems: Problems
) -> dict[str, Datum]:
    if not isinstance(table, dict):
        problems.add(gpu, f"must be a table of a GPU's numbers, [{gpu}]")
        return {}
    found = {}
    for name, raw in table.items():
        if name not in fields:
            known = ", ".join(fields) or "none: the kernel has no _fields.toml"
            problems.add(
                f"{gpu}.{name}", f"is not a number of an implementation{did_you_mean(name, fields)}; known: {known}"
            )
            continue
        datum = parse_datum(raw, f"{gpu}.{name}", fields[name], sources, problems)
        if datum is not None:
            found[name] = datum
    return found


def _field(name: str, table: Any, problems: Problems) -> Field | None:
    before = len(problems.lines)
    if not isinstance(table, dict):
        problems.add(name, "must be a table with text, unit and default")
        return None
    for key in table:
        if key not in _FIELD_KEYS:
            problems.add(name, f"{key!r} is not a key{did_you_mean(key, _FIELD_KEYS)}; known: {', '.join(_FIELD_KEYS)}")
    for key in ("text", "unit"):
        if not isinstance(table.get(key), str):
            problems.add(name, f"{key} is missing: say it in words")
    for key in ("default", "least", "most"):
        if not is_number(table.get(key, 0.0)):
            problems.add(name, f"{key} must be a number, not {table[key]!r}")
    if "default" not in table:
        problems.add(name, "default is missing: that of a bare ideal kernel")
    if len(problems.lines) > before:
        return None
    low, high = float(table.get("least", 0.0)), float(table.get("most", math.inf))
    field = Field(name, "", table["unit"], table["text"], low, high, positive=False, default=float(table["default"]))
    if not field.accepts(float(table["default"])):
        problems.add(name, f"default is {table['default']!r}; allowed: {field.allowed()}")
    return field


def _changed(
    kernel: str, fields: Mapping[str, Field], name: str, change: str | float, numbers: Mapping[str, float]
) -> float:
    if name not in fields:
        raise unknown(f"number of an implementation of {kernel}", name, fields)
    where = f"implementation.{name}"
    factor = factor_of(change) if isinstance(change, str) else None
    try:
        value = numbers[name] * factor if factor is not None else float(change)
    except ValueError:
        value = math.nan
    if not fields[name].accepts(value):
        raise UserError(f"{where} = {change!r}; allowed: {fields[name].allowed()}, or a change such as 2x or +10%")
    return value
