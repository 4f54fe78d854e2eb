"""How much better than a choice of kernels another of as many can be, and which kernels cannot be part of a better one.

Lagrangian relaxation of "every shape is served once" (Cornuejols, Fisher and Nemhauser, 1977). With a multiplier u_s a
shape, kernel j brings at most

    r_j = sum over s of min(0, w_s c_sj - u_s),

and no k kernels have a mean regret below L(u) = sum of u_s + the k smallest r_j. With u_s = w_s times the regret of a
choice this is the online bound of submodular maximisation (the choice, less its k largest marginal gains); subgradient
steps make it larger. They run over the kernels that matter; a bound that is reported is computed over all kernels.

Where L(u) with kernel j forced in exceeds what is already reached, no better choice holds j.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .greedy import Instance

ROUNDS, STEPS, CORE, PROMISING = 6, 250, 1500, 500
TIGHT = 1e-7  # a gap in mean regret that is none: predictions are float32
ROUNDING = 1e-10  # of sums in double precision


@dataclass(frozen=True, eq=False)
class MeanBound:
    """What is known of all choices of k kernels.

    Attributes:
        regret: no choice has a smaller mean regret.
        survivors: int64, kernels that can be part of a better choice than the one given, ascending; with those of the
            choice itself.
        promising: int64, a few hundred kernels, the smallest r_j first: the first k of them are a start for swaps that
            greedy choice would not find.
    """

    regret: float
    survivors: np.ndarray
    promising: np.ndarray


def mean_bound(given: Instance, chosen: Sequence[int], kernels: int) -> MeanBound:
    """Bounds every choice of so many kernels.

    Args:
        given: the instance.
        chosen: a good choice, of at most so many kernels.
        kernels: how many.
    """
    weight = given.weight
    multiplier = weight * given.cost[:, list(chosen)].min(axis=1)
    reached = float(multiplier.sum())
    best, reduced = _bound(given, multiplier, kernels)
    best_multiplier = multiplier
    core = np.unique(np.concatenate([list(chosen), np.argsort(reduced, kind="stable")[:CORE]])).astype(np.int64)
    for _ in range(ROUNDS):
        cost = weight[:, None] * given.cost[:, core].astype(np.float64)
        multiplier = _ascended(cost, best_multiplier, kernels, reached)
        value, reduced_now = _bound(given, multiplier, kernels)
        ranked = np.argsort(reduced_now, kind="stable")[: CORE // 2]
        news = np.setdiff1d(ranked, core)
        if value > best:
            best, best_multiplier, reduced = value, multiplier, reduced_now
        if reached - best <= TIGHT or not len(news):
            break
        core = np.concatenate([core, news])
    survivors = _survivors(reduced, best, reached, kernels, chosen)
    return MeanBound(min(max(best, 0.0), reached), survivors, np.argsort(reduced, kind="stable")[:PROMISING])


def _bound(given: Instance, multiplier: np.ndarray, kernels: int) -> tuple[float, np.ndarray]:
    """L(u), and every kernel's r_j, over all kernels."""
    reduced = np.zeros(given.cost.shape[1])
    for price, weight, row in zip(multiplier, given.weight, given.cost, strict=True):
        reduced += np.minimum(0, weight * row.astype(np.float64) - price)
    least = np.partition(reduced, kernels - 1)[:kernels] if kernels < len(reduced) else reduced
    return float(multiplier.sum() + least.sum()), reduced


def _ascended(cost: np.ndarray, start: np.ndarray, kernels: int, reached: float) -> np.ndarray:
    """Multipliers of a large L(u) over the kernels of `cost`, by subgradient steps towards `reached`."""
    now, best_at, best = start.copy(), start, -np.inf
    pace, stalled = 1.0, 0
    kernels = min(kernels, cost.shape[1])
    for _ in range(STEPS):
        slack = np.minimum(0, cost - now[:, None])
        reduced = slack.sum(axis=0)
        picked = np.argpartition(reduced, kernels - 1)[:kernels]
        value = now.sum() + reduced[picked].sum()
        if value > best + TIGHT:
            best, best_at, stalled = value, now.copy(), 0
        else:
            stalled += 1
        if stalled >= 12:
            pace, stalled, now = pace / 2, 0, best_at.copy()
            continue
        direction = 1 - (slack[:, picked] < 0).sum(axis=1)
        length = float((direction**2).sum())
        if not length or reached - value <= TIGHT or pace < 1e-3:
            break
        now = now + pace * (reached - value) / length * direction
    return best_at


def _survivors(reduced: np.ndarray, bound: float, reached: float, kernels: int, chosen: Sequence[int]) -> np.ndarray:
    if kernels >= len(reduced):
        return np.arange(len(reduced))
    last = np.partition(reduced, kernels - 1)[kernels - 1]
    # forced in, a kernel takes the place of the last of the k best
    kept = np.flatnonzero(bound + np.maximum(reduced - last, 0) <= reached + ROUNDING)
    return np.union1d(kept, list(chosen)).astype(np.int64)
