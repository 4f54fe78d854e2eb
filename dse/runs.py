"""Finished runs opened again: their tables, and the job they ran, so that any of their schedules can be evaluated.

Beside the tables a run folder holds `question.json`: the problem, the GPU's numbers and the space's axes as they were,
so that a run stays readable when a GPU file or a space file changes later.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .axis import Axis
from .content.files import home_expanded
from .errors import UserError
from .job import SweepJob
from .kernels.registry import get_kernel
from .provenance import describe_problem, hash_of_model, record_hash
from .question import Question
from .read_run import read_run
from .run_files import QUESTION_FILE, replace_file
from .space import Space

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class OpenRun:
    """A run's tables and its job.

    Attributes:
        path: the folder.
        job: problem, GPU and space as they were.
        accumulator: accumulator type.
        families: the GPU's instruction families for the type and accumulator, fastest first.
        top, front: the tables, as in `SweepResult`.
        summary: counts, ties, provenance.
        stale: whether the model's code has changed since; then numbers evaluated now differ from the tables.
    """

    path: Path
    job: SweepJob
    accumulator: str
    families: tuple[str, ...]
    top: "pd.DataFrame"
    front: "pd.DataFrame"
    summary: Mapping[str, Any]
    stale: bool


def save_question(asked: Question, job: SweepJob, folder: str | os.PathLike[str]) -> None:
    """Writes what `open_run` needs beside the tables.

    Raises:
        UserError: the folder cannot be written (disk full, no permission).
    """
    space = job.space
    content = {
        "problem": describe_problem(job.problem),
        "accumulator": asked.accumulator,
        "families": asked.gpu.families(asked.problem.dtype, asked.accumulator),
        "gpu_name": job.gpu_name,
        "gpu_changes": list(job.gpu_changes),
        "clock": job.clock,
        "gpu": _numbers(job.gpu),
        "objectives": list(job.objectives),
        "rank_by": job.rank_by,
        "space": {
            "name": space.name,
            "kernel": space.kernel,
            "family": space.family,
            "dtype": space.dtype,
            "axes": [
                {"name": axis.name, "fields": axis.fields, "values": axis.values, "labels": axis.labels}
                for axis in space.axes
            ],
            "fixed": dict(space.fixed),
            "codes": {name: list(words) for name, words in space.codes.items()},
        },
    }
    replace_file(Path(folder) / QUESTION_FILE, json.dumps(content).encode())


def open_run(path: str | os.PathLike[str]) -> OpenRun:
    """Opens a run folder.

    Raises:
        UserError: the folder holds no finished run, or a file in it is missing or damaged.
    """
    where = home_expanded(path)
    if not where.is_dir():
        raise UserError(f"no run at {where}: give the folder that dse sweep wrote (its last lines name it)")
    run = read_run(where)
    try:
        content = json.loads((where / QUESTION_FILE).read_text())
        job = SweepJob(
            _space(content["space"]),
            get_kernel(content["space"]["kernel"]).problem_of(content["problem"]),
            _record(content["gpu"]),
            gpu_name=content["gpu_name"],
            gpu_changes=tuple(content.get("gpu_changes", ())),  # older runs have neither
            clock=content.get("clock", "boost"),
            objectives=tuple(content["objectives"]),
            rank_by=content["rank_by"],
        )
        accumulator, families = str(content["accumulator"]), tuple(content["families"])
    except UserError as error:  # a kernel that is not there, or is broken
        raise UserError(f"{where / QUESTION_FILE}: {error}") from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{where / QUESTION_FILE} is missing or damaged ({error}): run the sweep again") from error
    made = run.summary["provenance"]
    if (job.space.hash, record_hash(job.gpu)) != (made["space_hash"], made["gpu_hash"]):
        raise UserError(f"{where / QUESTION_FILE} is of another run than the tables beside it: run the sweep again")
    stale = hash_of_model(job.model) != made["model_hash"]
    return OpenRun(where, job, accumulator, families, run.top, run.front, run.summary, stale)


def _space(content: Mapping[str, Any]) -> Space:
    axes = [
        Axis(at["name"], tuple(at["fields"]), tuple(tuple(entry) for entry in at["values"]), tuple(at["labels"]))
        for at in content["axes"]
    ]
    codes = {name: tuple(words) for name, words in content["codes"].items()}
    names = (content[name] for name in ("name", "kernel", "family", "dtype"))
    return Space(*names, axes=tuple(axes), fixed=content["fixed"], codes=codes)


def _numbers(record: Any) -> Any:
    if is_dataclass(record):
        return {field.name: _numbers(getattr(record, field.name)) for field in fields(record)}
    return None if record is None else record.tolist()


def _record(content: Mapping[str, Any]) -> Any:
    from jaxmodel.machine import Gpu, Mma

    return Gpu(**{name: Mma(**value) if name == "mma" else value for name, value in content.items()})
