"""The entries of a user's file of candidates: Python with Triton or TileLang configs, JSON, CSV, profiler calls."""

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .content.files import home_expanded
from .cutlass_kernel import read_script
from .errors import UserError
from .stand_in import run_file
from .tilelang_config import is_tilelang

SUFFIXES = (".py", ".json", ".csv", ".sh")


def read_entries(source: str | Path) -> list[tuple[str, Any]]:
    """What the file holds, (where it stands, what stands there) a candidate, in the order of the file.

    Args:
        source: path of a .py file (which is run: every module-level list of `triton.Config`, every autotuned kernel and
            every module-level list of dictionaries with TileLang's parameters counts), of a .json file (a list of
            objects), of a .csv file or of a .sh file with calls of CUTLASS's profiler.

    Returns:
        Names such as "configs[3]", "entry 4" or "line 4", none twice; entries are `triton.Config` (or a stand-in),
        dictionaries, texts or `dse.cutlass_call.CutlassCall`. Empty where a JSON list or a table is.

    Raises:
        UserError: an unreadable file, or one of another kind.
    """
    path = home_expanded(source)
    if path.suffix not in SUFFIXES:
        raise UserError(
            f"{path} is none of {', '.join(SUFFIXES)}: a Python file with Triton or TileLang configs, JSON, CSV or "
            "calls of CUTLASS's profiler"
        )
    if not path.is_file():
        raise UserError(f"no file of candidates at {path}")
    readers = {".py": _from_python, ".json": _from_json, ".csv": _from_csv, ".sh": _from_script}
    return readers[path.suffix](path)


def listed_entries(name: str, content: Sequence[Any]) -> list[tuple[str, Any]]:
    """Entries of a list: `name[0]`, or `entry 0` for a name that ends in a space."""
    return [
        (f"{name}[{place}]" if not name.endswith(" ") else f"{name}{place}", at) for place, at in enumerate(content)
    ]


def is_triton_config(value: Any) -> bool:
    """Whether this is a `triton.Config`, Triton's or the stand-in's."""
    return isinstance(getattr(value, "kwargs", None), dict) and hasattr(value, "num_warps")


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
            f"{path} binds no list of triton.Config at module level, nor of TileLang's dictionaries (block_M, ..., "
            "thread_num): where a function makes them, add a line such as configs = get_configs()"
        )
    return found


def _is_config(value: Any) -> bool:
    return is_triton_config(value) or (isinstance(value, Mapping) and is_tilelang(value))


def _from_json(path: Path) -> list[tuple[str, Any]]:
    try:
        content = json.loads(path.read_text(encoding="utf-8-sig"))
    except (ValueError, OSError, RecursionError) as error:
        raise UserError(f"{path} is not readable JSON: {error}") from None
    if not isinstance(content, list):
        raise UserError(f"{path} must hold a list of objects, one a candidate, not {type(content).__name__}")
    return listed_entries("entry ", content)


def _from_csv(path: Path) -> list[tuple[str, Any]]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file, skipinitialspace=True)
            rows = [(reader.line_num, row) for row in reader]
            columns = [name.strip() for name in reader.fieldnames or ()]
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8 text: byte {error.start}") from None
    except (OSError, csv.Error) as error:
        raise UserError(f"cannot read {path}: {error}") from None
    repeated = next((name for place, name in enumerate(columns) if name in columns[:place]), None)
    if repeated:
        raise UserError(f"{path}, line 1: the column {repeated} is there twice: keep one")
    for line, row in rows:
        if None in row:
            raise UserError(f"{path}, line {line}: more values than line 1 names columns")
    return [
        (f"line {line}", {name.strip(): value for name, value in row.items() if value not in ("", None)})
        for line, row in rows
    ]


def _from_script(path: Path) -> list[tuple[str, Any]]:
    try:
        calls = read_script(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read {path}: {error}") from None
    except UserError as error:
        raise UserError(f"{path}, {error}") from None
    if not calls:
        raise UserError(f"{path} holds no call of CUTLASS's profiler with --kernels=NAME")
    return [(f"line {line}", call) for line, call in calls]
