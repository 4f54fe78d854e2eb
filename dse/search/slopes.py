"""By how much objectives move with the GPU's numbers: the derivatives of the model, by `jax.grad`.

    slope = d log objective / d log number

The schedule is held; where it is tuned, that is the slope of the tuned objective too (the envelope theorem). A chosen
number may move several of the model's numbers: how they follow it is found once, in the middle of the ranges. Numbers
that the model takes whole, in waves and residents (what decides what fits), have no derivative that means anything: for
them it is the change over some 10 % to either side. Quantities of the GPU are differenced likewise, and so is a slope
that float32 cannot hold.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ..columns import cost_columns
from ..compiled import jit
from ..fitting import DECIDES_WHAT_FITS
from ..job import CostModel
from .candidates import GpuAxis, SearchSpace
from .evaluate import compiled_batch
from .goals import Goals
from .machines import Machines, stacked
from .moves import ends, nearest, place_in, share_of

ARC = 1.1  # factor to either side, for what has no derivative
TINY = 1e-30
LANES = 16  # one compiled shape for up to seven differenced axes


class Slopes:
    """Slopes of the objectives for (schedule, GPU).

    Args:
        model: the cost model.
        problems: the model's records of the problems, float32.
        weights: how often each counts.
        space: the GPU axes.
        goals: objectives.
        machines: the GPUs.

    Attributes:
        evaluations: of the model so far; one with its derivatives counts as one.
    """

    def __init__(
        self,
        model: CostModel,
        problems: Sequence[Any],
        weights: Sequence[float],
        space: SearchSpace,
        goals: Goals,
        machines: Machines,
    ) -> None:
        self._model, self._problems, self._weights = model, problems, np.asarray(weights, float)
        self._axes, self._goals, self._machines = space.gpu, goals, machines
        self.evaluations = 0
        own = {quantity.name for quantity in goals.quantities}
        self._costs = tuple(name for name in goals.objectives if name not in own)
        self._follow = [self._following(axis) for axis in self._axes]
        self._whole = [
            any(np.any(np.asarray(follows[name]) != 0) for name in DECIDES_WHAT_FITS if name in follows)
            for follows in self._follow
        ]

    def objectives(self, schedules: Sequence[Mapping[str, float]], numbers: np.ndarray) -> np.ndarray:
        """float64[objectives, GPU axes] for one schedule a problem, on the GPU with float64[GPU axes] numbers."""
        found = np.zeros((len(self._goals.objectives), len(self._axes)))
        costs = self._of_costs(schedules, numbers) if self._costs else found[:0]
        for place, name in enumerate(self._goals.objectives):
            found[place] = costs[self._costs.index(name)] if name in self._costs else self.quantity(name, numbers)
        return found

    def quantity(self, name: str, numbers: np.ndarray) -> np.ndarray:
        """float64[GPU axes]: slopes of a quantity of the GPU."""
        place = [own.name for own in self._machines.quantities].index(name)
        found = np.zeros(len(self._axes))
        for at in range(len(self._axes)):
            low, high = self._sides(at, numbers)
            if high[at] > low[at]:
                less, more = (self._machines.quantities_of(self._named(side))[place] for side in (low, high))
                found[at] = _arc(less, more, low[at], high[at])
        return found

    def _of_costs(self, schedules: Sequence[Mapping[str, float]], numbers: np.ndarray) -> np.ndarray:
        total, slopes = np.zeros(len(self._costs)), np.zeros((len(self._costs), len(self._axes)))
        for problem, weight, schedule in zip(self._problems, self._weights, schedules, strict=True):
            values, own = self._of_problem(problem, schedule, numbers)
            total += weight * values
            slopes += weight * values[:, None] * own
        return slopes / np.maximum(total, TINY)[:, None]

    def _of_problem(
        self, problem: Any, schedule: Mapping[str, float], numbers: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        record = self._machines.record(self._named(numbers))
        fields = {name: np.float32(value) for name, value in schedule.items()}
        values, by_leaf = _compiled_slopes(self._model, self._costs)(fields, problem, record)
        self.evaluations += 1
        slopes = np.zeros((len(self._costs), len(self._axes)))
        for at, follows in enumerate(self._follow):
            if not self._whole[at]:
                for name, share in follows.items():
                    leaf = np.asarray(getattr(by_leaf, name), float).reshape(len(self._costs), -1)
                    slopes[:, at] += (leaf * np.ravel(share)).sum(axis=1)
        finite = np.asarray(np.isfinite(slopes).all(axis=0))
        differenced = [at for at in range(len(self._axes)) if self._whole[at] or not finite[at]]
        if differenced:
            self._add_arcs(slopes, differenced, fields, problem, numbers)
        return np.asarray(values, float), slopes

    def _add_arcs(
        self, slopes: np.ndarray, axes: Sequence[int], fields: Mapping[str, Any], problem: Any, numbers: np.ndarray
    ) -> None:
        """A side on which the schedule cannot run is left out; then the slope is that of the other."""
        points = [numbers, *(side for at in axes for side in self._sides(at, numbers))]
        lanes = max(LANES, 1 << (len(points) - 1).bit_length())
        machines = stacked([self._machines.record(self._named(point)) for point in points], lanes)
        many = {name: np.full(lanes, value, np.float32) for name, value in fields.items()}
        costs = compiled_batch(self._model, True)(many, problem, machines)
        self.evaluations += len(points)
        runs = np.asarray(costs["reason"]) == 0
        slopes[:, list(axes)] = 0.0
        for place, at in enumerate(axes):
            low, high = (1 + 2 * place + side if runs[1 + 2 * place + side] else 0 for side in (0, 1))
            if points[high][at] > points[low][at]:
                for row, name in enumerate(self._costs):
                    own = np.asarray(costs[name], float)
                    slopes[row, at] = _arc(own[low], own[high], points[low][at], points[high][at])

    def _sides(self, at: int, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        axis = self._axes[at]
        found = []
        for factor in (1 / ARC, ARC):
            moved = numbers.copy()
            moved[at] = np.clip(numbers[at] * factor, *ends(axis))
            if axis.values:
                moved[at] = nearest(axis, share_of(axis, moved[at : at + 1]))[0]
                if moved[at] == numbers[at]:
                    moved[at] = _next_value(axis, float(numbers[at]), factor > 1)
            found.append(moved)
        return found[0], found[1]

    def _following(self, axis: GpuAxis) -> dict[str, np.ndarray]:
        """Which of the record's numbers move with a chosen one: name -> d log of it / d log of the chosen one."""
        middle = np.array([float(place_in(other, np.array([0.5]))[0]) for other in self._axes])
        at = self._axes.index(axis)
        low, high = self._sides(at, middle)
        if high[at] <= low[at] or low[at] <= 0:
            return {}
        less, more = (self._machines.record(self._named(side)) for side in (low, high))
        found = {}
        for name, before in vars(less).items():
            after = getattr(more, name)
            if before is None or not isinstance(before, np.ndarray | np.generic | float):
                continue
            before, after = np.asarray(before, float), np.asarray(after, float)
            if np.any(before != after):
                with np.errstate(divide="ignore", invalid="ignore"):
                    share = np.log(after / before) / np.log(high[at] / low[at])
                found[name] = np.where(np.isfinite(share), share, 0.0)
        return found

    def _named(self, numbers: np.ndarray) -> dict[str, float]:
        return {axis.name: float(value) for axis, value in zip(self._axes, numbers, strict=True)}


def _next_value(axis: GpuAxis, number: float, up: bool) -> float:
    beyond = [value for value in axis.values if (value > number if up else value < number)]
    return (min(beyond) if up else max(beyond)) if beyond else number


def _arc(less: float, more: float, low: float, high: float) -> float:
    if less <= 0 or more <= 0 or low <= 0:
        return 0.0
    return float(np.log(more / less) / np.log(high / low))


@lru_cache(maxsize=16)
def _compiled_slopes(model: CostModel, names: tuple[str, ...]) -> Any:
    """`slopes(schedule, problem, gpu)`: values [names], and a record of d log value / d log leaf, [names, ...] each."""
    import jax
    import jax.numpy as jnp

    def values_of(gpu: Any, schedule: dict[str, Any], problem: Any) -> Any:
        costs = cost_columns(model.cost(problem, model.schedule(schedule), gpu))
        return jnp.stack([jnp.asarray(costs[name], jnp.float32) for name in names])

    def slopes(schedule: dict[str, Any], problem: Any, gpu: Any) -> tuple[Any, Any]:
        values, pull = jax.vjp(lambda own: values_of(own, schedule, problem), gpu)
        rows = [pull(jnp.zeros(len(names)).at[row].set(1.0))[0] for row in range(len(names))]
        weighted = [
            jax.tree.map(lambda slope, leaf, value=value: slope * leaf / jnp.maximum(value, TINY), row, gpu)
            for row, value in zip(rows, values, strict=True)
        ]
        return values, jax.tree.map(lambda *leaves: jnp.stack(leaves), *weighted)

    return jit(slopes)
