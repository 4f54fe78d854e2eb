"""Candidates as Optuna's parameters: distributions, parameters of a candidate, candidates of parameters.

An axis that sets one field to rising values is an integer parameter (its position), so that a sampler can use the
order; any other axis is categorical, by label. A number of the GPU is `gpu.<name>`: a float, or categorical where
values are listed.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution

from ..axis import Axis
from ..space import Space
from .candidates import Candidates, GpuAxis, SearchSpace

GPU_PREFIX = "gpu."


def distributions(space: SearchSpace) -> dict[str, BaseDistribution]:
    """Parameter -> distribution; axes with one entry have none."""
    schedules = {axis.name: _axis_distribution(axis) for axis in _axes(space) if axis.radix > 1}
    return schedules | {GPU_PREFIX + axis.name: _gpu_distribution(axis) for axis in space.gpu}


def candidates_of(space: SearchSpace, parameters: Sequence[Mapping[str, Any]]) -> Candidates:
    """Candidates from parameters, one mapping each."""
    digits = [[_digit(axis, own) for axis in _axes(space)] for own in parameters]
    gpu = {
        axis.name: np.array([own[GPU_PREFIX + axis.name] for own in parameters], float).reshape(len(parameters))
        for axis in space.gpu
    }
    return Candidates(np.array(digits, np.int64).reshape(len(parameters), len(space.radices)), gpu)


def parameters_of(space: SearchSpace, candidates: Candidates) -> list[dict[str, Any]]:
    """Parameters of candidates."""
    found = [schedule_parameters(space.schedules, row) for row in candidates.digits.tolist()]
    for name, values in candidates.gpu.items():
        for own, value in zip(found, values.tolist(), strict=True):
            own[GPU_PREFIX + name] = value
    return found


def schedule_parameters(space: Space | None, digits: Sequence[int]) -> dict[str, Any]:
    """The part of the parameters that is of the schedule."""
    return {
        axis.name: digit if is_ordered(axis) else axis.labels[digit]
        for axis, digit in zip(space.axes if space else (), digits, strict=True)
        if axis.radix > 1
    }


def is_ordered(axis: Axis) -> bool:
    """Whether the axis sets one field to rising values."""
    values = [entry[0] for entry in axis.values]
    return len(axis.fields) == 1 and values == sorted(values)


def _axes(space: SearchSpace) -> tuple[Axis, ...]:
    return space.schedules.axes if space.schedules else ()


def _axis_distribution(axis: Axis) -> BaseDistribution:
    return IntDistribution(0, axis.radix - 1) if is_ordered(axis) else CategoricalDistribution(axis.labels)


def _gpu_distribution(axis: GpuAxis) -> BaseDistribution:
    if axis.low is None or axis.high is None:
        return CategoricalDistribution(axis.values)
    return FloatDistribution(axis.low, axis.high, log=axis.log)


def _digit(axis: Axis, parameters: Mapping[str, Any]) -> int:
    if axis.radix == 1:
        return 0
    value = parameters[axis.name]
    return int(value) if is_ordered(axis) else axis.labels.index(value)
