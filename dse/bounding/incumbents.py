"""The best schedules and the front found so far, which bounds are held against, and what may still belong to them.

All comparisons are strict and take values less rounding (`dse.bounding.lower_bound.lowered`): what ties with the k-th
best or equals a point of the front may matter.
"""

import threading

import numpy as np

from ..front import Front, non_dominated
from ..job import SweepJob
from ..topk import TopK
from .evaluate import Evaluated

GUARDS = 256  # points of the front that others are held against on the way; in the end all are
HELD = 2**21  # schedules that may matter, before those that no longer do are let go


class Incumbents:
    """What evaluated schedules have shown of a job. Threads may share it.

    Attributes:
        front: of all schedules evaluated.
        guards: some points of it, the best of each objective among them.
        tried: schedules evaluated.
        hopeless: so many may matter that leaving out the others saves nothing.
    """

    def __init__(self, job: SweepJob) -> None:
        self._objectives = len(job.objectives)
        self._rank_column = job.columns.index(job.rank_by)
        self._scouted, self._top = TopK.empty(job.top, 0), TopK.empty(job.top, 0)
        self.front = Front.empty(self._objectives, 1)
        self.guards = self.front.values
        self._positions: list[np.ndarray] = []  # of schedules that may matter
        self._lowest: list[np.ndarray] = []  # their values less rounding
        self._held = 0
        self._lock = threading.Lock()
        self.tried = 0
        self.hopeless = False

    @property
    def threshold(self) -> float:
        """The k-th best value found; infinite before there are so many."""
        return min(self._scouted.threshold, self._top.threshold)

    @property
    def best(self) -> float | None:
        """The best value found; None: none yet."""
        return float(self._top.values[0]) if len(self._top.values) else None

    def may_matter(self, lowest: np.ndarray, front: np.ndarray) -> np.ndarray:
        """Whether something with these values, or larger ones, may be among the best or on the front, bool[n].

        Args:
            lowest: float32[n, columns] as the job's columns.
            front: float32[points, objectives], `guards` or all points of `front`.
        """
        return (lowest[:, self._rank_column] <= self.threshold) | ~_dominated(lowest[:, : self._objectives], front)

    def add(self, found: Evaluated, seen_again: bool = False) -> None:
        """Takes evaluated schedules; with `seen_again` they come once more later, and then count."""
        edge = found.runs & self.may_matter(found.lowest, self.guards)
        values, positions = found.values[edge], found.positions[edge]
        objectives = values[:, : self._objectives]
        best = non_dominated(objectives)
        near = values[:, self._rank_column] <= self.threshold
        ranked = positions[near], values[near, self._rank_column]
        with self._lock:
            self.tried += len(found.runs)
            if seen_again:  # the same schedule must not count twice
                self._scouted = self._scouted.add(*ranked)
            else:
                self._top = self._top.add(*ranked)
                self._hold(positions, found.lowest[edge])
            self.front = self.front.add(positions[best], objectives[best])
            self.guards = _spread(self.front.values, GUARDS)

    def worth_evaluating(self) -> np.ndarray:
        """Positions from the job's start on of all schedules that may be among the best or on the front, ascending."""
        if not self._positions:
            return np.zeros(0, np.int64)
        positions, lowest = np.concatenate(self._positions), np.concatenate(self._lowest)
        near = np.flatnonzero(self.may_matter(lowest, self.guards))
        return np.sort(positions[near[self.may_matter(lowest[near], self.front.values)]])

    def _hold(self, positions: np.ndarray, lowest: np.ndarray) -> None:
        self._positions.append(positions)
        self._lowest.append(lowest)
        self._held += len(positions)
        if self._held > HELD:  # most of them were only as good as what was known then
            positions, lowest = np.concatenate(self._positions), np.concatenate(self._lowest)
            still = self.may_matter(lowest, self.guards)
            self._positions, self._lowest, self._held = [positions[still]], [lowest[still]], int(still.sum())
            self.hopeless = self._held > HELD // 2


def _spread(front: np.ndarray, count: int) -> np.ndarray:
    """At most about so many points of a front, sorted by its objectives in order; the best of each objective among
    them."""
    if len(front) <= count:
        return front
    places = np.linspace(0, len(front) - 1, count).astype(int)
    return front[np.unique([*places, *front.argmin(axis=0)])]


def _dominated(lowest: np.ndarray, front: np.ndarray) -> np.ndarray:
    """Which rows some point of the front is nowhere worse than and somewhere better, bool[rows]."""
    columns = [np.ascontiguousarray(column) for column in lowest.T]
    alive = np.arange(len(lowest))
    for point in front:
        no_worse, equal = True, True
        for value, column in zip(point, columns, strict=True):
            no_worse = (value <= column) & no_worse
            equal = (value == column) & equal
        beaten = no_worse & ~np.asarray(equal)
        if beaten.any():
            alive = alive[~beaten]
            columns = [column[~beaten] for column in columns]
    found = np.ones(len(lowest), bool)
    found[alive] = False
    return found
