"""A front of a chosen size: the few points that stand for all others best."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from .errors import UserError

MATRIX_ROWS = 1500  # fronts up to this size are compared pair by pair: a second or two


@dataclass(frozen=True)
class Representatives:
    """Points of a front that stand for the rest.

    Attributes:
        places: their rows, ascending.
        epsilon: every row has a representative that is at most this much worse in every objective: 0.03 is 3 %.
        at_least: no choice of so many rows gets below this; equal to `epsilon` where the choice is the best there is.
    """

    places: tuple[int, ...]
    epsilon: float
    at_least: float

    @property
    def exact(self) -> bool:
        """Whether no other choice of so many rows is better."""
        return self.at_least >= self.epsilon

    def sentence(self) -> str:
        """`these 12 are within 3.1 % of every point of the front in every objective`."""
        count = len(self.places)
        who = "this one is" if count == 1 else f"these {count} are"
        how = "" if self.exact else f" (no {count} are within less than {100 * self.at_least:.2g} %)"
        return f"{who} within {100 * self.epsilon:.2g} % of every point of the front in every objective{how}"


def representatives(values: Any, size: int) -> Representatives:
    """Chooses rows so that the worst ratio of a row's nearest representative to the row is least: the multiplicative
    epsilon indicator of Zitzler et al. (2003), less one.

    For two objectives the choice is the best there is: what a point covers is then an interval of the sorted front, so
    for a given epsilon going through the front once finds the fewest points (Bringmann, Friedrich, Klitzke 2014), and
    epsilon is bisected down to the last bit. For more objectives the farthest point is taken again and again
    (Gonzalez 1985) and each is then moved to the best place of its cluster; up to `MATRIX_ROWS` rows the greedy set
    cover is tried for every epsilon as well, and the better choice counts. The bound `at_least` holds for every choice:
    where no row covers two of `size` + 1 points within epsilon, more than `size` rows are needed.

    Args:
        values: float[rows, objectives], a front. A value of 0 is within any percentage of 0 only.
        size: how many rows, at least 1; all distinct rows where there are no more.

    Raises:
        UserError: a size below 1, no rows, or a negative or infinite value.
    """
    values = np.asarray(values, np.float64)
    if size < 1:
        raise UserError(f"size = {size} is not allowed: 1 or more representatives")
    if not values.size or not np.isfinite(values).all() or (values < 0).any():
        raise UserError("a front of a chosen size needs at least one point, and finite objectives from 0 on")
    distinct, first = np.unique(values, axis=0, return_index=True)
    with np.errstate(divide="ignore"):
        logs = np.log(distinct)
    if len(distinct) <= size:
        chosen, at_least = np.arange(len(distinct)), 0.0
    elif values.shape[1] <= 2:
        chosen = _fewest_of_two(logs, size)
        at_least = np.inf
    else:
        chosen, at_least = _clustered(logs, size)
        if len(logs) <= MATRIX_ROWS:
            chosen, at_least = _matched(_excess(logs, logs), size, chosen, at_least)
    reached = _covered(logs, chosen).max()
    epsilon = float(np.expm1(reached))
    return Representatives(
        tuple(int(place) for place in np.sort(first[chosen])), epsilon, min(epsilon, float(np.expm1(at_least)))
    )


def _excess(candidates: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Log of the worst ratio of candidate to point, [candidates, points]; 0 over 0 is 1."""
    worst = np.full((len(candidates), len(points)), -np.inf)
    for mine, theirs in zip(candidates.T, points.T, strict=True):
        with np.errstate(invalid="ignore"):
            worst = np.maximum(worst, np.nan_to_num(mine[:, None] - theirs[None, :], nan=0.0, posinf=np.inf))
    return worst


def _covered(logs: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    return _excess(logs[chosen], logs).min(axis=0)


def _fewest_of_two(logs: np.ndarray, size: int) -> np.ndarray:
    """Rows are sorted by the first objective and, being a front, fall in the last."""
    low, high = 0.0, float(np.max(_excess(logs[:1], logs)))
    best = _walk(logs, high)
    while True:
        middle = low + (high - low) / 2 if np.isfinite(high) else max(2 * low, 1.0)
        if not low < middle < high:
            return best
        found = _walk(logs, middle)
        if len(found) <= size:
            best, high = found, middle
        elif middle > 1e4:  # beyond the largest ratio of floats: zeros that no percentage reaches
            return best
        else:
            low = middle


def _walk(logs: np.ndarray, epsilon: float) -> np.ndarray:
    """The fewest rows that cover all others within epsilon."""
    x, y, chosen, at = logs[:, 0], logs[:, -1], [], 0
    while at < len(logs):
        own = at + int(np.searchsorted(x[at:] - x[at], epsilon, side="right")) - 1 if np.isfinite(x[at]) else at
        chosen.append(own)
        reach = y[own] - y[own:] if np.isfinite(y[own]) else np.zeros(len(y) - own)
        at = own + int(np.searchsorted(reach, epsilon, side="right"))
    return np.array(chosen)


def _clustered(logs: np.ndarray, size: int) -> tuple[np.ndarray, float]:
    chosen = [int(np.argmin(_excess_to_ideal(logs)))]
    while len(chosen) <= size:
        chosen.append(int(_covered(logs, np.array(chosen)).argmax()))
    at_least = _shared_excess(logs, np.array(chosen))
    places = np.array(chosen[:size])
    reached = _covered(logs, places).max()
    while True:
        moved = _recentred(logs, places)
        now = _covered(logs, moved).max()
        if now >= reached:
            return np.unique(places), at_least
        places, reached = moved, now


def _excess_to_ideal(logs: np.ndarray) -> np.ndarray:
    return _excess(logs, logs.min(axis=0, keepdims=True))[:, 0]


def _recentred(logs: np.ndarray, places: np.ndarray) -> np.ndarray:
    nearest = _excess(logs[places], logs).argmin(axis=0)
    moved = places.copy()
    for cluster in range(len(places)):
        own = np.flatnonzero(nearest == cluster)
        if len(own):
            least = logs[own].min(axis=0, keepdims=True)  # within e of the least is within e of all
            moved[cluster] = int(_excess(logs, least)[:, 0].argmin())
    return moved


def _shared_excess(logs: np.ndarray, places: np.ndarray) -> float:
    """The least excess at which any one row covers two of these."""
    least = np.inf
    for at, place in enumerate(places[:-1]):
        both = np.minimum(logs[place], logs[places[at + 1 :]])
        least = min(least, float(_excess(logs, both).min()))
    return least


def _matched(excess: np.ndarray, size: int, chosen: np.ndarray, at_least: float) -> tuple[np.ndarray, float]:
    """A better choice by greedy set covers, and a better bound by packings, where there are any."""
    steps = np.unique(excess)
    low, high = 0, int(np.searchsorted(steps, excess[chosen].min(axis=0).max()))
    while low < high:  # the greedy cover need not shrink as epsilon grows: what is found holds all the same
        middle = (low + high) // 2
        found = _greedy_cover(excess <= steps[middle], size)
        if found is None:
            low = middle + 1
        else:
            chosen, high = found, middle
    low, high = 0, int(np.searchsorted(steps, excess[chosen].min(axis=0).max()))
    while low < high:
        middle = (low + high) // 2
        if _packed_more_than(excess <= steps[middle], size):
            low = middle + 1
        else:
            high = middle
    return chosen, max(at_least, float(steps[low]))


def _greedy_cover(covers: np.ndarray, size: int) -> np.ndarray | None:
    """Rows that cover all, each the one that adds most; None where that takes more than `size`."""
    left, chosen = np.ones(covers.shape[1], bool), []
    while left.any():
        if len(chosen) == size:
            return None
        chosen.append(int(covers[:, left].sum(axis=1).argmax()))
        left &= ~covers[chosen[-1]]
    return np.array(chosen)


def _packed_more_than(covers: np.ndarray, size: int) -> bool:
    """Whether more than `size` points are found of which no row covers two."""
    counted = covers.astype(np.float32)
    shared = counted.T @ counted > 0
    left, packed = np.ones(len(shared), bool), 0
    for place in np.argsort(shared.sum(axis=0), kind="stable"):
        if left[place]:
            packed += 1
            left &= ~shared[place]
    return packed > size
