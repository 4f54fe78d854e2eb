"""The GPU file of a run's machine, with the changes that the run made: what a what-if on it starts from.

A run keeps the numbers that it used and, in words, what was changed. The file of the same name with the same changes is
the run's machine where it gives the same numbers, bit for bit; where it does not, there is none.
"""

import re
from dataclasses import fields
from typing import Any

import numpy as np

from ..content.gpu import GpuFile, load_gpu
from ..errors import UserError
from ..runs import OpenRun

_CHANGE = re.compile(r"^(?P<name>[a-z0-9_.]+): \S+ -> \S+ \((?P<text>[^(),]+)(, rounded to a whole number)?\)$")
_FOLLOWS = "follows "


def overrides_of(changes: tuple[str, ...]) -> dict[str, str]:
    """What `load_gpu` changes, from the lines in which a GPU file says what was changed (`GpuFile.changes`); what
    follows another number comes along by itself."""
    found = {}
    for line in changes:
        match = _CHANGE.match(line)
        if match and not match["text"].startswith(_FOLLOWS):
            found[match["name"]] = match["text"]
    return found


def machine_of(run: OpenRun) -> tuple[GpuFile, dict[str, str]] | None:
    """The run's machine and its overrides; None where today's file does not give the run's numbers."""
    job, overrides = run.job, overrides_of(run.job.gpu_changes)
    try:
        gpu = load_gpu(job.gpu_name, overrides)
        bound = gpu.bind(job.problem.dtype, run.accumulator, job.space.family, clock=job.clock)
    except (UserError, OSError, ValueError):
        return None
    return (gpu, overrides) if same_record(bound, job.gpu) else None


def same_record(one: Any, other: Any) -> bool:
    """Whether two records of a machine hold the same numbers."""
    return all(
        same_record(a, b) if hasattr(a, "__dataclass_fields__") else _same_leaf(a, b)
        for a, b in ((getattr(one, field.name), getattr(other, field.name)) for field in fields(one))
    )


def _same_leaf(a: Any, b: Any) -> bool:
    if a is None or b is None:
        return a is None and b is None
    return np.array_equal(np.asarray(a, np.float32), np.asarray(b, np.float32))
