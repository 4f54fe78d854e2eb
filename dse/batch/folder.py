"""The folder of a batch: what was asked, and a file of the best schedules for each part of the work.

`best/gpu=NAME/kernel=NAME/part-00000.parquet`, hive partitions as duckdb, pandas and pyarrow read them; `batch.json`
says what was asked, so that the same command goes on where it was stopped and another one is refused.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ..batch_files import BEST, part_path, read_question
from ..content.files import home_expanded
from ..errors import UserError
from ..kernels.problem import FABRIC_NUMBERS, NUMBERS
from ..kernels.registry import get_kernel
from ..platform import cpu_type
from ..provenance import SCHEMA_VERSION, hash_of_model, how_made, record_hash
from ..run_files import BATCH_FILE, SUMMARY_FILE, UNFINISHED, write_json
from ..store import count_rows, write_rows
from ..trust import packaged_residuals
from .plan import Part, Plan

if TYPE_CHECKING:
    import pyarrow as pa

SHOWN = 3  # problems that a message names
FABRIC_OF = ", fabric "  # between a GPU and the name of what joins several


class BatchFolder:
    """A batch's folder, opened for writing.

    Args:
        path: made where it does not exist.
        plan: the work.
        top: schedules kept of each problem.
        overwrite: remove the batch that the folder holds.
        command_line: how a user would run this again.

    Raises:
        UserError: the folder cannot be written, holds something else, or a batch that asked something else; the message
            says what changed.
    """

    def __init__(
        self, path: str | os.PathLike[str], plan: Plan, top: int, overwrite: bool = False, command_line: str = ""
    ) -> None:
        self.path = home_expanded(path)
        self._command_line = command_line
        asked = question_of(plan, top)
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            used = any(not file.match(UNFINISHED) for file in self.path.iterdir())
        except OSError as error:
            raise UserError(
                f"cannot use the folder {self.path}: {error.strerror}; choose another folder (--out)"
            ) from error
        if used and not (self.path / BATCH_FILE).exists():
            raise UserError(
                f"the folder {self.path} is not empty and holds no batch (no {BATCH_FILE}): choose another "
                "folder (--out)"
            )
        if used and overwrite:
            self._remove()
        elif used:
            changed = changes(read_question(self.path), asked)
            if changed:
                raise UserError(
                    f"the batch in {self.path} asked something else, results would not mix: {'; '.join(changed)}; "
                    "choose another folder (--out), or replace it (--overwrite, in Python overwrite=True)"
                )
        for litter in self.path.glob(f"{BEST}/gpu=*/kernel=*/.*.tmp"):  # of a writer that was killed
            litter.unlink(missing_ok=True)
        self._asked = asked
        if not used or overwrite:
            write_json(self.path / BATCH_FILE, asked)

    def is_done(self, part: Part) -> bool:
        """Whether a part's file is there and whole."""
        return count_rows(part_path(self.path, part_name(part))) is not None

    def write(self, part: Part, table: "pa.Table") -> None:
        """Writes a part's file, whole or not at all.

        Raises:
            UserError: it cannot be written (disk full, no permission).
        """
        path = part_path(self.path, part_name(part))
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(
                f"cannot write {path}: {error.strerror}; make room or choose another folder (--out)"
            ) from error
        write_rows(path, table, self._provenance(part))

    def write_summary(self, content: Mapping[str, Any]) -> None:
        """Writes what the batch found as a whole, beside how it was made."""
        write_json(self.path / SUMMARY_FILE, {**content, "provenance": how_made(self._command_line)})

    def _provenance(self, part: Part) -> dict[str, Any]:
        job = part.cases[0].job
        return {
            "schema_version": SCHEMA_VERSION,
            "gpu": part.gpu,
            "gpu_hash": record_hash(job.gpu),
            "gpu_changes": list(job.gpu_changes),
            "clock": job.clock,
            "kernel": part.kernel,
            "space": part.space.name,
            "space_hash": part.space.hash,
            "space_size": str(part.space.size),
            "family": part.space.family,
            "dtype": part.space.dtype,
            "model_hash": hash_of_model(job.model),
            "residuals": self._asked["residuals"],
            "rank_by": job.rank_by,
            "top": self._asked["top"],
            **how_made(self._command_line),
        }

    def _remove(self) -> None:
        files = [*self.path.glob(f"{BEST}/gpu=*/kernel=*/*"), self.path / SUMMARY_FILE, self.path / BATCH_FILE]
        for file in files:
            file.unlink(missing_ok=True)
        for folder in sorted(self.path.glob(f"{BEST}/**/"), reverse=True):
            if not any(folder.iterdir()):
                folder.rmdir()


def part_name(part: Part) -> dict[str, Any]:
    """What names a part's file."""
    return {"gpu": part.gpu, "kernel": part.kernel, "number": part.number}


def question_of(plan: Plan, top: int) -> dict[str, Any]:
    """What decides a batch's files bit for bit, as JSON has it: two runs share a folder where all of it is equal."""
    import jax

    residuals = packaged_residuals()
    numbers: dict[str, dict[str, str]] = {name: {} for name in plan.gpus}
    spaces: dict[str, str] = {}
    kernels: dict[str, str] = {}
    for part in plan.parts:
        space, gpu = part.space, part.cases[0].job.gpu
        about = f"{part.kernel}, {space.family}, {space.dtype}"
        if about not in numbers[part.gpu]:
            numbers[part.gpu][about] = record_hash(gpu)
        spaces[about] = space.hash
        if part.kernel not in kernels:
            kernels[part.kernel] = hash_of_model(get_kernel(part.kernel))
    content = {
        "schema_version": SCHEMA_VERSION,
        "top": top,
        "gpus": numbers,
        "spaces": spaces,
        "models": kernels,
        "implementations": _implementations(plan),
        "residuals": residuals.hash if residuals else None,
        "cpu": cpu_type(),
        "device": jax.devices()[0].device_kind,
        "rows": [asdict(row) for row in plan.rows],
        "parts": [
            {**part_name(part), "rows": [place for case in part.cases for place in case.rows]} for part in plan.parts
        ],
    }
    return json.loads(json.dumps(content))


def changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """What differs between two questions, in words, one entry a difference."""
    found = []
    words = {"gpus": "the numbers of the GPU {}", "spaces": "the space of {}", "models": "the model's code for {}"}
    for name in new:
        before, now = old.get(name), new[name]
        if before == now:
            continue
        if name == "rows":
            found.append(_row_changes([_text(row) for row in before or []], [_text(row) for row in now]))
        elif name == "parts":
            found += [] if found else ["how the work is cut into files changed"]
        elif name in words and isinstance(before, dict) and list(before) == list(now):
            found += [f"{words[name].format(key)} changed" for key in now if before[key] != now[key]]
        elif name in words and isinstance(before, dict):
            found.append(f"{name} were {', '.join(before) or 'none'}, are {', '.join(now)}")
        elif name == "implementations":
            found += _implementation_changes(before, now)
        else:
            found.append(f"{name} was {before!r}, is {now!r}")
    return found


def _implementations(plan: Plan) -> str:
    numbers: dict[str, Any] = {}
    for part in plan.parts:
        for problem in (case.job.problem for case in part.cases):
            if getattr(problem, NUMBERS, ()):
                numbers[f"{part.gpu} {problem.implementation}"] = list(getattr(problem, NUMBERS))
            if getattr(problem, FABRIC_NUMBERS, ()):
                numbers[f"{part.gpu}{FABRIC_OF}{problem.fabric}"] = list(getattr(problem, FABRIC_NUMBERS))
    return json.dumps(numbers, sort_keys=True)


def _implementation_changes(before: Any, now: str) -> list[str]:
    """Only of what both questions ask about: other GPUs or kernels bring numbers of their own, which did not change."""
    old, new = json.loads(before or "{}"), json.loads(now)
    moved = [key for key in old.keys() & new if old[key] != new[key]]
    fabrics = [key for key in moved if FABRIC_OF in key]
    said = ["the implementations' numbers changed"] if len(moved) > len(fabrics) else []
    return said + (["the fabrics' numbers changed"] if fabrics else [])


def _text(row: Mapping[str, Any]) -> str:
    return json.dumps(row, sort_keys=True)


def _row_changes(before: list[str], now: list[str]) -> str:
    gone, new = [row for row in before if row not in set(now)], [row for row in now if row not in set(before)]
    parts = [
        f"{len(rows)} problem(s) {what}: {', '.join(json.loads(row)['name'] for row in rows[:SHOWN])}"
        + (", ..." if len(rows) > SHOWN else "")
        for rows, what in ((new, "came"), (gone, "went"))
        if rows
    ]
    return ", ".join(parts) or "the order of the problems changed"
