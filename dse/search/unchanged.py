"""The GPU as it is, beside which a search over a GPU's numbers is read: its first trial where the ranges hold it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, nan
from typing import Any

import numpy as np

from ..content.gpu import GpuFile
from ..content.gpu_fields import FIELDS
from ..content.hardware_axis import current_value
from ..content.overrides import CLOCK
from ..errors import UserError
from ..fitting import fitting
from ..job import SweepJob
from ..space import Space
from ..tuning import tune
from .candidates import Candidates, GpuAxis, SearchSpace
from .goals import Goals
from .parameters import GPU_PREFIX, schedule_parameters

AFFORDABLE = 1_000_000  # schedules that are swept for it; of larger spaces a preset is
PRESET = "quick"


@dataclass(frozen=True)
class Unchanged:
    """The GPU without the changes that a search makes.

    Attributes:
        numbers: its own, of the axes that are searched; NaN for one that it has no single number for.
        schedule: index of the schedule that it is evaluated with; None where its schedules are swept as a trial's are.
        how: in words, which schedule that is.
        evaluations: that finding it took.
    """

    numbers: Mapping[str, float]
    schedule: int | None
    how: str
    evaluations: int = 0

    def candidate(self, space: SearchSpace) -> Candidates:
        """It as a batch of one."""
        own = space.schedules
        digits = own.digits(self.schedule) if own and self.schedule is not None else ()
        known = all(isfinite(value) for value in self.numbers.values())
        gpu = {name: np.array([value], float) for name, value in self.numbers.items()} if known else {}
        return Candidates(np.array([digits], np.int64).reshape(1, len(space.radices)), gpu)

    def trial(self, space: SearchSpace) -> list[dict[str, Any]]:
        """Its parameters as a trial to begin with, where the ranges hold it; else its schedule's, if it has one."""
        schedule = schedule_parameters(space.schedules, self.candidate(space).digits[0].tolist())
        if not all(_holds(axis, self.numbers[axis.name]) for axis in space.gpu):
            return [schedule] if schedule else []
        return [schedule | {GPU_PREFIX + name: value for name, value in self.numbers.items()}]


def unchanged(
    job: SweepJob, gpu: GpuFile, axes: Sequence[str], inner: str | None, smaller: Callable[[str], Space]
) -> Unchanged | None:
    """The GPU as it is, with its fastest schedule: of all, or of the preset `quick` where the space is large; None
    where that has none, or nothing runs.

    Args:
        job: problem, GPU and space.
        gpu: its file.
        axes: names of the numbers that are searched.
        inner: as in `dse.search.run_search`.
        smaller: the space restricted to a preset, by its name.
    """
    numbers = {name: _number(gpu, name) for name in axes}
    if inner:
        return Unchanged(numbers, None, "its fastest schedule")
    how, space = "its fastest schedule", job.space
    try:
        if space.size > AFFORDABLE:
            how, space = f"its fastest schedule of the preset {PRESET}", smaller(PRESET)
        schedules = fitting(space, [job.problem], [job.gpu])
        best = tune(schedules, [(job.problem, job.gpu)])
        if best.index[0] < 0:
            return None
        fields = schedules.schedules(best.place)[0]
        own = {name: value for name, value in fields.items() if name in job.space.fields}
        return Unchanged(numbers, job.space.index_of_schedule(own), how, best.evaluations)
    except UserError:  # no such preset, nothing of it fits, or it is not part of the space
        return None


def costs_of(goals: Goals, columns: Mapping[str, np.ndarray]) -> dict[str, float]:
    """Latency, objectives and what limits are on, by their names, of a batch of one."""
    names = list(dict.fromkeys(("latency_s", *goals.objectives, *(limit.name for limit in goals.limits))))
    runs = int(columns["reason"][0]) == 0
    own = {quantity.name for quantity in goals.quantities}
    values = zip(names, goals.columns(names), strict=True)
    return {name: float(columns[column][0]) if runs or name in own else nan for name, column in values}


def _number(gpu: GpuFile, name: str) -> float:
    field = FIELDS.get(name)
    if name != CLOCK and (field is None or field.listed):
        return nan
    return float(current_value(gpu, name))


def _holds(axis: GpuAxis, number: float) -> bool:
    if axis.low is None or axis.high is None:
        return number in axis.values
    return axis.low <= number <= axis.high
