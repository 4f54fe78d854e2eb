"""A few hundred schedules that stand for a space while GPUs are searched: the best of a few GPUs of the ranges."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ..compiled import jit
from ..errors import UserError
from ..job import CostModel
from ..schedule_set import ScheduleSet
from .candidates import Candidates, SearchSpace
from .machines import stacked
from .moves import place_in

SEEDS = 9  # GPUs that are swept for the list
DRAWN = 64  # GPUs that they are chosen from
LANES = 128  # the list is filled up to a multiple: one that grows a little is not compiled anew
OF_EACH = 48  # schedules that each of them, and each problem, gives


class Shortlist:
    """Schedules that stand for a space: the best of a few GPUs, each swept.

    Args:
        schedules: the space's, that fit some GPU.
        model: the cost model.
        problems: the model's records of the problems.
        seeds: the records of the GPUs that are swept.

    Raises:
        UserError: no schedule can run on any of them.
    """

    def __init__(self, schedules: ScheduleSet, model: CostModel, problems: Sequence[Any], seeds: Sequence[Any]) -> None:
        self._model, self._problems, self._schedules, self._spent = model, problems, schedules, 0
        best = []
        for gpu in seeds:
            for problem in problems:
                latency_s = schedules.values(problem, gpu)[0]
                self._spent += len(latency_s)
                most = min(OF_EACH, len(latency_s))
                near = np.argpartition(latency_s, most - 1)[:most]
                best.append(near[np.isfinite(latency_s[near])])
        self._place = np.zeros(0, np.int64)
        self.extend(np.concatenate(best), 0)
        if not len(self._place):
            raise UserError("no schedule of the space can run on the GPUs searched: widen the space or the GPU's axes")

    def extend(self, place: np.ndarray, spent: int) -> None:
        """Adds schedules, by their places in the set, that so many evaluations found."""
        self._spent += spent
        self._place = np.union1d(self._place, place.reshape(-1))
        size = -(-max(len(self._place), 1) // LANES) * LANES
        columns = self._schedules.fields(np.resize(self._place, size)) if len(self._place) else {}
        self._fields = {name: values.astype(np.float32) for name, values in columns.items()}

    def spend(self) -> int:
        """Evaluations that making the list took; the next time 0."""
        spent, self._spent = self._spent, 0
        return spent

    def tune(self, gpus: list[Any]) -> tuple[np.ndarray, int]:
        """int64[problems, gpus] places of the list's fastest in the set, and evaluations."""
        machines = stacked(gpus, 1 << max(len(gpus) - 1, 0).bit_length())
        latencies = _compiled_list(self._model)
        kept = slice(0, len(gpus)), slice(0, len(self._place))
        rows = [np.asarray(latencies(self._fields, problem, machines))[kept] for problem in self._problems]
        return self._place[np.stack(rows).argmin(axis=2)], len(self._place) * len(gpus) * len(rows)


@lru_cache(maxsize=16)
def _compiled_list(model: CostModel) -> Any:
    """`latencies(schedules, problem, gpus)`: float32[gpus, schedules], infinite where one cannot run."""
    import jax
    import jax.numpy as jnp

    def one(schedule: dict[str, Any], problem: Any, gpu: Any) -> Any:
        cost = model.cost(problem, model.schedule(schedule), gpu)
        return jnp.where(cost.reason == 0, cost.latency_s, jnp.inf).astype(jnp.float32)

    return jit(jax.vmap(jax.vmap(one, in_axes=(0, None, None)), in_axes=(None, None, 0)))


def seed_gpus(space: SearchSpace, keeps: Callable[[Candidates], np.ndarray]) -> Candidates:
    """A few GPUs spread over the ranges, those within the limits (`keeps`: bool[n]) first."""
    count = len(space.gpu)
    ratio = 2.0
    for _ in range(40):
        ratio = (1.0 + ratio) ** (1.0 / (count + 1))  # the golden ratio of so many dimensions
    shares = (0.5 + np.arange(DRAWN)[:, None] * ratio ** -np.arange(1.0, count + 1)) % 1.0
    numbers = {axis.name: place_in(axis, shares[:, at]) for at, axis in enumerate(space.gpu)}
    drawn = Candidates(np.zeros((DRAWN, 0), np.int64), numbers)
    first = np.argsort(~keeps(drawn), kind="stable")[:SEEDS]
    return Candidates(drawn.digits[first], {name: values[first] for name, values in numbers.items()})
