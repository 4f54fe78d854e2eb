"""Optuna's samplers as a searcher: ask and tell in batches, infeasible schedules as a constraint."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.study import StudyDirection
from optuna.trial import TrialState

from ..axis import Axis
from .candidates import Candidates, GpuAxis, SearchSpace

CONSTRAINT = "infeasible"  # 0: the schedule can run, 1: it cannot
GPU_PREFIX = "gpu."
MAKERS: dict[str, Callable[[int], optuna.samplers.BaseSampler]] = {
    "tpe": lambda seed: optuna.samplers.TPESampler(seed=seed),
    "nsga2": lambda seed: optuna.samplers.NSGAIISampler(seed=seed),
    "random": lambda seed: optuna.samplers.RandomSampler(seed=seed),
}


class OptunaSearcher:
    """A `dse.search.Searcher` on an Optuna study.

    An axis that sets one field to rising values is an integer parameter (its position), so that a sampler can use the
    order; any other axis is categorical, by label.

    Args:
        space: what is chosen.
        objectives: how many are minimised.
        sampler: "tpe", "nsga2" or "random".
        seed: of the sampler.
        first: indices of schedules to try first.

    Attributes:
        study: the Optuna study, for `optuna.visualization` and the dashboard.
    """

    def __init__(self, space: SearchSpace, objectives: int, sampler: str, seed: int, first: Sequence[int] = ()) -> None:
        self._space = space
        self._distributions = _distributions(space)
        self._trials: list[optuna.Trial] = []
        verbosity = optuna.logging.get_verbosity()
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self.study = optuna.create_study(
            directions=[StudyDirection.MINIMIZE] * objectives, sampler=MAKERS[sampler](seed)
        )
        for index in first:
            self.study.enqueue_trial(_parameters(space, space.schedules.digits(index)))
        optuna.logging.set_verbosity(verbosity)

    def ask(self, count: int) -> Candidates:
        """See `dse.search.Searcher`."""
        self._trials = [self.study.ask(self._distributions) for _ in range(count)]
        digits = np.array(
            [[_digit(axis, trial.params) for axis in self._space.schedules.axes] for trial in self._trials]
        )
        gpu = {
            axis.name: np.array([trial.params[GPU_PREFIX + axis.name] for trial in self._trials], float)
            for axis in self._space.gpu
        }
        return Candidates(digits, gpu)

    def tell(self, values: np.ndarray, feasible: np.ndarray) -> None:
        """See `dse.search.Searcher`."""
        for trial, row, fits in zip(self._trials, values, feasible, strict=True):
            if not np.isfinite(row).all():
                self.study.tell(trial, state=TrialState.FAIL)
                continue
            trial.set_constraint(CONSTRAINT, 0.0 if fits else 1.0)
            self.study.tell(trial, [float(value) for value in row])


def _distributions(space: SearchSpace) -> dict[str, BaseDistribution]:
    schedules = {axis.name: _axis_distribution(axis) for axis in space.schedules.axes if axis.radix > 1}
    return schedules | {GPU_PREFIX + axis.name: _gpu_distribution(axis) for axis in space.gpu}


def _axis_distribution(axis: Axis) -> BaseDistribution:
    return IntDistribution(0, axis.radix - 1) if _is_ordered(axis) else CategoricalDistribution(axis.labels)


def _gpu_distribution(axis: GpuAxis) -> BaseDistribution:
    if axis.low is None or axis.high is None:
        return CategoricalDistribution(axis.values)
    return FloatDistribution(axis.low, axis.high, log=axis.log)


def _is_ordered(axis: Axis) -> bool:
    values = [entry[0] for entry in axis.values]
    return len(axis.fields) == 1 and values == sorted(values)


def _digit(axis: Axis, parameters: dict[str, Any]) -> int:
    if axis.radix == 1:
        return 0
    value = parameters[axis.name]
    return int(value) if _is_ordered(axis) else axis.labels.index(value)


def _parameters(space: SearchSpace, digits: Sequence[int]) -> dict[str, Any]:
    return {
        axis.name: digit if _is_ordered(axis) else axis.labels[digit]
        for axis, digit in zip(space.schedules.axes, digits, strict=True)
        if axis.radix > 1
    }
