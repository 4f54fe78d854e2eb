"""The user's own candidates: from a Python file with Triton configs, JSON or CSV to schedules with their origin."""

import csv
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .content.files import home_expanded
from .errors import UserError
from .schedule_text import FIELDS, WORDS, distinct_raster, parse_schedule
from .stand_in import run_file
from .triton_config import TritonConfig, TritonGpu, config_from, is_triton, schedule_of

SUFFIXES = (".py", ".json", ".csv")


@dataclass(frozen=True)
class Candidate:
    """One candidate of the user's.

    Attributes:
        name: where it stands, e.g. "configs[3]" or "line 4".
        family: the instruction family it runs on.
        schedule: field -> number.
        unused: names that the candidate gives and the model does not use.
    """

    name: str
    family: str
    schedule: Mapping[str, int]
    unused: tuple[str, ...] = ()


def read_candidates(
    source: str | Path | Sequence[Any], problem: Any, gpu: TritonGpu, family: str | None = None
) -> list[Candidate]:
    """Reads candidates.

    Args:
        source: path of a .py file (which is run: every module-level list of `triton.Config` and every autotuned kernel
            counts), of a .json file (a list of objects) or of a .csv file; or a list of Config objects, mappings and
            schedule texts. An object is either a Triton config, flat (BLOCK_M, num_warps, ...), or a schedule.
        problem: the user's problem.
        gpu: families and SMs.
        family: of candidates that are schedules; None: the GPU's fastest.

    Raises:
        UserError: an unreadable file, nothing in it, or an entry that is no candidate; the message says where.
    """
    entries = _entries(source) if isinstance(source, (str, Path)) else _listed("candidates", list(source))
    if not entries:
        raise UserError(f"{source} holds no candidate: a list of at least one is needed")
    return [_candidate(name, entry, problem, gpu, family) for name, entry in entries]


def _entries(source: str | Path) -> list[tuple[str, Any]]:
    path = home_expanded(source)
    if path.suffix not in SUFFIXES:
        raise UserError(f"{path} is none of {', '.join(SUFFIXES)}: a Python file with Triton configs, JSON or CSV")
    if not path.is_file():
        raise UserError(f"no file of candidates at {path}")
    return {".py": _from_python, ".json": _from_json, ".csv": _from_csv}[path.suffix](path)


def _from_python(path: Path) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    seen: set[int] = set()
    for name, value in run_file(path).items():
        if name.startswith("__"):
            continue
        configs = getattr(value, "configs", value)
        listed = list(configs) if isinstance(configs, (list, tuple)) else [configs]
        for place, config in enumerate(listed):
            if _is_config(config) and id(config) not in seen:
                seen.add(id(config))
                found.append((f"{name}[{place}]" if isinstance(configs, (list, tuple)) else name, config))
    if not found:
        raise UserError(
            f"{path} binds no list of triton.Config at module level: where a function makes them, add a line such as "
            "configs = get_configs()"
        )
    return found


def _from_json(path: Path) -> list[tuple[str, Any]]:
    try:
        content = json.loads(path.read_text(encoding="utf-8-sig"))
    except (ValueError, OSError, RecursionError) as error:
        raise UserError(f"{path} is not readable JSON: {error}") from None
    if not isinstance(content, list):
        raise UserError(f"{path} must hold a list of objects, one a candidate, not {type(content).__name__}")
    return _listed("entry ", content)


def _from_csv(path: Path) -> list[tuple[str, Any]]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file, skipinitialspace=True)
            rows = [(reader.line_num, row) for row in reader]
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8 text: byte {error.start}") from None
    except (OSError, csv.Error) as error:
        raise UserError(f"cannot read {path}: {error}") from None
    for line, row in rows:
        if None in row:
            raise UserError(f"{path}, line {line}: more values than line 1 names columns")
    return [
        (f"line {line}", {name.strip(): value for name, value in row.items() if value not in ("", None)})
        for line, row in rows
    ]


def _listed(name: str, content: list[Any]) -> list[tuple[str, Any]]:
    return [
        (f"{name}[{place}]" if not name.endswith(" ") else f"{name}{place}", at) for place, at in enumerate(content)
    ]


def _is_config(value: Any) -> bool:
    return isinstance(getattr(value, "kwargs", None), dict) and hasattr(value, "num_warps")


def _candidate(name: str, entry: Any, problem: Any, gpu: TritonGpu, family: str | None) -> Candidate:
    if _is_config(entry):
        launch = {key: getattr(entry, key) for key in ("num_warps", "num_stages", "num_ctas") if hasattr(entry, key)}
        return _from_config(name, config_from({**entry.kwargs, **launch}, name), problem, gpu)
    if isinstance(entry, Mapping) and isinstance(entry.get("kwargs"), Mapping):
        entry = {**entry["kwargs"], **{key: value for key, value in entry.items() if key != "kwargs"}}
    if isinstance(entry, Mapping) and is_triton(entry):
        return _from_config(name, config_from(entry, name), problem, gpu)
    if not isinstance(entry, (Mapping, str)):
        raise UserError(f"{name} is {entry!r}: neither a Triton config nor a schedule")
    chosen = family or gpu.families[0]
    unused: tuple[str, ...] = ()
    if isinstance(entry, Mapping):
        unused = tuple(str(key) for key in entry if key not in WORDS and key not in FIELDS and key != "family")
        chosen = str(entry.get("family", chosen))
        entry = {key: value for key, value in entry.items() if key in WORDS or key in FIELDS}
    try:
        schedule = parse_schedule(entry, chosen)
    except UserError as error:
        raise UserError(f"{name}: {error}") from None
    return Candidate(name, chosen, distinct_raster(schedule, problem.m, problem.n), unused)


def _from_config(name: str, config: TritonConfig, problem: Any, gpu: TritonGpu) -> Candidate:
    try:
        family, schedule = schedule_of(config, problem, gpu)
    except UserError as error:
        raise UserError(f"{name}: {error}") from None
    return Candidate(name, family, schedule, config.unused)
