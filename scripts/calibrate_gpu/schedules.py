"""Lists of schedules as `dse` leaves them, as configs that a Triton matmul can run."""

import csv
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dse.candidates import read_candidates
from dse.content.files import home_expanded
from dse.content.gpu import GpuFile
from dse.errors import UserError
from dse.kernels.gemm import GemmProblem
from dse.schedule_text import FIELDS
from dse.triton_config import TritonConfig, TritonGpu, config_of

SUFFIXES = (".parquet", ".json", ".csv", ".py")
OPTIONS = (
    *("BLOCK_M", "BLOCK_N", "BLOCK_K", "GROUP_M", "SPLIT_K", "NUM_SMS"),
    *("num_warps", "num_stages", "num_ctas"),
)
_ABSENT = {"GROUP_M": 1, "SPLIT_K": 1, "NUM_SMS": 0}  # NUM_SMS 0: one program a tile


@dataclass(frozen=True)
class Planned:
    """One schedule to run on one shape.

    Attributes:
        name: where it stands in the list.
        config: what Triton is given.
        family: the instruction family it compiles to.
        schedule: the model's fields.
    """

    name: str
    config: TritonConfig
    family: str
    schedule: Mapping[str, int]

    @property
    def options(self) -> dict[str, int]:
        """Every option in the order of OPTIONS, absent ones as what their absence means."""
        return options_of(self.config)

    @property
    def key(self) -> str:
        """The options as text: what joins a measurement with a prediction."""
        return key_of(self.options)


def options_of(config: TritonConfig) -> dict[str, int]:
    """A config's options by name, in the order of OPTIONS."""
    given = {name.upper(): value for name, value in config.options().items()}
    return {name: int(given.get(name.upper(), _ABSENT.get(name, 0))) for name in OPTIONS}


def key_of(options: Mapping[str, Any]) -> str:
    """`BLOCK_M=128 ... num_ctas=1`."""
    return " ".join(f"{name}={int(options[name])}" for name in OPTIONS)


def plan(
    source: str | Path, problem: GemmProblem, gpu: GpuFile, family: str | None = None
) -> tuple[list[Planned], dict[str, int]]:
    """The schedules of a list that Triton can run, each once, in the list's order.

    Args:
        source: top.parquet of a run, the JSON of `dse top --json` or a list of schedules or Triton configs, CSV, or the
            Python module of `dse export --to triton`.
        problem: one shape.
        gpu: decides how Triton compiles a dot.
        family: of rows that do not say theirs; None: the GPU's fastest.

    Returns:
        The schedules, and what Triton cannot express -> how many were left out for it.

    Raises:
        UserError: an unreadable list, or one of which nothing can be run.
    """
    families = gpu.families(problem.dtype)
    about = TritonGpu(families, int(gpu["sm_count"]))
    path = home_expanded(source)
    entries: Any = path if path.suffix == ".py" else _records(path)
    planned: dict[str, Planned] = {}
    left: Counter[str] = Counter()
    for candidate in read_candidates(entries, problem, about, family):
        config = config_of(candidate.schedule, candidate.family, problem, about)
        if isinstance(config, str):
            left[config] += 1
            continue
        one = Planned(candidate.name, config, candidate.family, candidate.schedule)
        planned.setdefault(one.key, one)
    if not planned:
        why = "; ".join(f"{count} with {what}" for what, count in left.most_common())
        raise UserError(
            f"{path}: Triton can run none of its schedules on {problem.shape} ({why}); sweep with --preset triton"
        )
    return list(planned.values()), dict(left.most_common())


def _records(path: Path) -> list[dict[str, Any]]:
    if path.suffix not in SUFFIXES:
        raise UserError(f"{path} is none of {', '.join(SUFFIXES)}")
    if not path.is_file():
        raise UserError(f"no list of schedules at {path}")
    readers = {".parquet": _from_parquet, ".json": _from_json, ".csv": _from_csv}
    try:
        rows = readers[path.suffix](path)
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be read: {error}") from None
    if not rows or not all(isinstance(row, dict) for row in rows):
        raise UserError(f"{path} holds no list of schedules, one object or row each")
    return [_schedule_only(row) for row in rows]


def _schedule_only(row: dict[str, Any]) -> dict[str, Any]:
    """A row of a result table says what was predicted too, some of it under names that a schedule has (smem_bytes)."""
    if "tile_m" not in row:
        return {name: value for name, value in row.items() if value not in ("", None)}
    return {name: row[name] for name in (*FIELDS, "family") if row.get(name) not in ("", None)}


def _from_parquet(path: Path) -> list[dict[str, Any]]:
    import pandas as pd

    frame = pd.read_parquet(path)
    return [{str(name): value for name, value in row.items()} for row in frame.to_dict("records")]


def _from_json(path: Path) -> list[Any]:
    content = json.loads(path.read_text(encoding="utf-8-sig"))
    return content if isinstance(content, list) else []


def _from_csv(path: Path) -> list[dict[str, Any]]:
    with path.open(newline="", encoding="utf-8-sig") as file:
        return [
            {str(name): value for name, value in row.items()} for row in csv.DictReader(file, skipinitialspace=True)
        ]
