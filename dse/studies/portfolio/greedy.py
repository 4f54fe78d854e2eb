"""Which few kernels a library ships: chosen to lose least against the best kernel of every shape.

The regret of a shape is its latency with the best chosen kernel over its latency with the best kernel of all, less 1.
Minimised is the weighted mean of the regrets or the largest of them.

* Mean: what k kernels save against having none is monotone and submodular (facility location), so that greedy choice
  saves at least 1 - 1/e of what the best choice saves (Nemhauser, Wolsey and Fisher, 1978). One-swap local search
  (Teitz and Bart, 1968) follows. How far from the best the result can be at most is computed for the data at hand,
  which also gives a second start for swaps: `bound.py`.
* Worst: kernels keep every shape within a regret t where they cover the shapes (`kernel_cover.py`). Greedy cover
  takes at most 1 + 1/2 + ... + 1/d times as many as needed, d the most shapes that one covers (Chvatal, 1979); t
  is bisected.

`dse.studies.portfolio.exact` finds the best choice by integer programming.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .kernel_cover import cover_sets

REGRETS = ("mean", "worst")
POOL_PER_SHAPE, POOL_PER_STEP = 40, 150  # kernels that swaps look at: the fastest of each shape, the best of each step
GAIN_LEAST = 1e-9  # of a swap, in mean regret
DEAR = 1e6  # what a shape costs that is not within a limit


@dataclass(frozen=True, eq=False)
class Instance:
    """A choice to be made.

    Attributes:
        regret: float32[shapes, kernels], infinite where a kernel cannot run a shape; 0 in each row at least once.
        weight: float64[shapes], positive, 1 in all.
    """

    regret: np.ndarray
    weight: np.ndarray

    @cached_property
    def cost(self) -> np.ndarray:
        """The regrets with a finite price in place of the infinite ones: one makes a mean larger than any without."""
        finite = np.isfinite(self.regret)
        price = (2 * float(self.regret.max(initial=0, where=finite)) + 1) / self.weight
        return np.where(finite, self.regret, price.astype(np.float32)[:, None])

    def regrets(self, chosen: Sequence[int]) -> np.ndarray:
        """float64[shapes]: of each shape with its best chosen kernel; infinite where none can run."""
        return self.regret[:, list(chosen)].min(axis=1).astype(np.float64)

    def mean(self, chosen: Sequence[int]) -> float:
        """The weighted mean of `regrets`."""
        return float(self.weight @ self.regrets(chosen))

    def worst(self, chosen: Sequence[int]) -> float:
        """The largest of `regrets`."""
        return float(self.regrets(chosen).max())


def instance(latency_s: np.ndarray, weight: Sequence[float] | np.ndarray) -> Instance:
    """The choice for these latencies.

    Args:
        latency_s: [shapes, kernels], infinite where a kernel cannot run; every shape has one that can.
        weight: positive, one a shape, of any sum.
    """
    best = latency_s.min(axis=1, keepdims=True)
    weights = np.asarray(weight, np.float64)
    return Instance((latency_s / best - 1).astype(np.float32), weights / weights.sum())


def choose_mean(given: Instance, kernels: int) -> list[tuple[int, ...]]:
    """The choices of 1, 2, ... kernels of small mean regret; a larger one is never worse.

    Each is the better of the greedy one and the one before with its best addition, after swaps. It may hold fewer
    kernels than asked for where more save nothing.

    Args:
        given: the instance.
        kernels: at most how many.
    """
    pool, order = _greedy(given, kernels)
    cost = given.cost[:, pool].astype(np.float64) * given.weight[:, None]
    place = {kernel: at for at, kernel in enumerate(pool.tolist())}
    found: list[tuple[int, ...]] = []
    before: list[int] = []
    for count in range(1, len(order) + 1):
        starts = [[place[kernel] for kernel in order[:count]], [*before, _best_addition(cost, before)]]
        start = min(starts, key=lambda chosen: _value(cost, chosen))
        before = _swapped(cost, start)
        found.append(tuple(int(pool[at]) for at in before))
    return found + found[-1:] * (kernels - len(found))


def choose_worst(given: Instance, start: Sequence[int], kernels: int) -> tuple[tuple[int, ...], float]:
    """A choice of so many kernels of small worst regret, and a bound: no such choice has a smaller one.

    Args:
        given: the instance.
        start: a choice to be no worse than.
        kernels: at most how many.
    """
    levels = np.unique(given.regret[given.regret <= np.float32(given.worst(start))])
    good, low, high = list(start), 0, len(levels) - 1
    proven = 0  # levels below this one are out of reach
    while low < high:
        middle = (low + high) // 2
        sets = cover_sets(given.regret, float(levels[middle]))
        cover = sets.greedy()
        if len(cover) <= kernels:
            good, high = cover, middle
        else:
            low = middle + 1
            if len(cover) > kernels * sets.harmonic:
                proven = max(proven, middle + 1)
    limit = max(given.worst(good), 0.0)
    return polished(given, good, limit, kernels), float(levels[min(proven, len(levels) - 1)])


def swapped(given: Instance, chosen: Sequence[int], pool: np.ndarray) -> tuple[int, ...]:
    """A choice of as many kernels after one-swap local search, for a small mean regret.

    Args:
        given: the instance.
        chosen: the start.
        pool: kernels to swap in, those of the start among them.
    """
    cost = given.cost[:, pool].astype(np.float64) * given.weight[:, None]
    place = {kernel: at for at, kernel in enumerate(pool.tolist())}
    return tuple(int(pool[at]) for at in _swapped(cost, [place[kernel] for kernel in chosen]))


def polished(given: Instance, chosen: Sequence[int], limit: float, kernels: int) -> tuple[int, ...]:
    """A choice of no more kernels, still within the worst regret `limit`, with a smaller mean regret by swaps."""
    small = np.where(given.regret <= np.float32(limit), given.regret, np.inf)
    pool = np.unique(np.concatenate([list(chosen), *_fastest_of_each_shape(small, POOL_PER_SHAPE)])).astype(np.int64)
    cost = np.where(np.isfinite(small[:, pool]), small[:, pool] * given.weight[:, None], DEAR)
    place = {kernel: at for at, kernel in enumerate(pool.tolist())}
    now = [place[kernel] for kernel in chosen]
    while len(now) < kernels:
        now.append(_best_addition(cost, now))
    return tuple(int(pool[at]) for at in _swapped(cost, now))


def _greedy(given: Instance, kernels: int) -> tuple[np.ndarray, list[int]]:
    """Kernels worth looking at, and the greedy order."""
    cost, weight = given.cost, given.weight
    pool = [np.concatenate(_fastest_of_each_shape(given.regret, POOL_PER_SHAPE))]
    have = (cost.max() + 1) / weight
    order: list[int] = []
    for _ in range(min(kernels, cost.shape[1])):
        gain = np.zeros(cost.shape[1])
        for now, share, row in zip(have, weight, cost, strict=True):
            gain += share * np.maximum(now - row, 0)
        best = int(gain.argmax())
        if order and gain[best] <= 0:
            break
        order.append(best)
        pool.append(np.argsort(-gain, kind="stable")[:POOL_PER_STEP])
        have = np.minimum(have, cost[:, best])
    return np.unique(np.concatenate(pool)), order


def _fastest_of_each_shape(regret: np.ndarray, count: int) -> list[np.ndarray]:
    if regret.shape[1] <= count:
        return [np.arange(regret.shape[1])]
    return [np.argpartition(row, count)[:count] for row in regret]


def _value(cost: np.ndarray, chosen: Sequence[int]) -> float:
    return float(cost[:, list(chosen)].min(axis=1).sum())


def _best_addition(cost: np.ndarray, chosen: Sequence[int]) -> int:
    have = cost[:, list(chosen)].min(axis=1) if len(chosen) else np.full(len(cost), cost.max() + 1.0)
    return int(np.maximum(have[:, None] - cost, 0).sum(axis=0).argmax())


def _swapped(cost: np.ndarray, chosen: Sequence[int]) -> list[int]:
    """The choice after the best single swap, again and again until none helps."""
    now = list(chosen)
    value = _value(cost, now)
    while True:
        best = (value - GAIN_LEAST, -1, -1)
        for out in range(len(now)):
            rest = now[:out] + now[out + 1 :]
            new = _best_addition(cost, rest)
            best = min(best, (_value(cost, [*rest, new]), out, new))
        value, out, new = best
        if out < 0:
            return now
        now[out] = new
