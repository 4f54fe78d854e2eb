"""The loop of branch and bound: chunks of blocks are bounded by several threads, and what gets past is evaluated.

First the most promising blocks of chunks from all over the space are evaluated, so that the bounds are tight before the
bulk comes. Then every chunk is taken once, its blocks in ascending order of their bounds.
"""

import threading
import time
from collections.abc import Callable

import numpy as np

from ..executors.worker import ChunkRunner
from ..front import choose_pivots, non_dominated
from ..job import SweepJob
from ..progress import Reporter, Snapshot
from ..reduce import Bounds
from ..shared_work import share_work
from ..state import Collector
from .evaluate import POINTS, evaluate
from .incumbents import Incumbents

SCOUTS = 16  # chunks of bounds over the whole space, whose most promising blocks are evaluated first
FIRST_POINTS = 2**14  # schedules evaluated of them


class BlockQueue:
    """The blocks of a job that wait for their bounds.

    Args:
        job: what is swept.
        bounds: the sweep over its blocks (`dse.bounding.lower_bound.bounding_job`).
        length: schedules of a block.

    Attributes:
        found: what has been found on the way.
    """

    def __init__(self, job: SweepJob, bounds: SweepJob, length: int) -> None:
        self.found = Incumbents(job)
        self._job, self._length = job, length
        self._runner = ChunkRunner(bounds)
        self._chunks = list(self._runner.chunks(bounds.start, bounds.end))
        self._rank_column = job.columns.index(job.rank_by)
        self._pivots = choose_pivots(self.found.front.values, np.zeros(0))
        self._seen = 0  # blocks
        self._lock = threading.Lock()

    def scout(self) -> float:
        """Evaluates the most promising blocks of chunks all over the space.

        Returns:
            the share of these chunks' blocks that get past the bounds then.
        """
        places = np.unique(np.linspace(0, len(self._chunks) - 1, SCOUTS).astype(int))
        bounded = [self._bounded(place) for place in places]
        blocks, values = (np.concatenate(parts) for parts in zip(*bounded, strict=True))
        objectives = values[:, : len(self._job.objectives)]
        many = max(FIRST_POINTS // self._length, 1)
        best = np.argsort(values[:, self._rank_column], kind="stable")[:many]
        edge = np.flatnonzero(non_dominated(objectives)) if len(values) else best
        self._evaluate(np.unique(blocks[np.concatenate([best, edge[:many]])]), seen_again=True)
        self._pivots = choose_pivots(self.found.front.values, objectives)
        looked_at = sum(stop - start for start, stop in (self._chunks[place] for place in places))
        return float(self.found.may_matter(values, self.found.front.values).sum()) / looked_at

    def work(self, workers: int | None, report: Reporter) -> None:
        """Bounds every chunk, and evaluates what gets past the bounds.

        Args:
            workers: threads; None: one a usable core.
            report: gets snapshots that count schedules.
        """
        began = time.perf_counter()

        def snapshot(finished: bool = False) -> Snapshot:
            seconds = time.perf_counter() - began
            total, done = self._job.candidates, min(self._seen * self._length, self._job.candidates)
            return Snapshot(
                done=done,
                total=total,
                seconds=seconds,
                rate=done / max(seconds, 1e-9),
                best=self.found.best,
                best_name=self._job.rank_by,
                front=len(self.found.front.positions),
                finished=finished,
                phase="bounding",
            )

        share_work(range(len(self._chunks)), self._settle, lambda: report(snapshot()), workers)
        report(snapshot(finished=True))

    def _settle(self, place: int, stopped: Callable[[], bool]) -> None:
        """One chunk of blocks, the best first."""
        if self.found.hopeless:
            return
        blocks, values = self._bounded(place)
        order = np.argsort(values[:, self._rank_column], kind="stable")
        blocks, values = blocks[order], values[order]
        step = max(POINTS // self._length, 1)
        for first in range(0, len(blocks), step):
            if stopped():
                return
            some = slice(first, first + step)
            alive = self.found.may_matter(values[some], self.found.guards)
            self._evaluate(blocks[some][alive])
        start, stop = self._chunks[place]
        with self._lock:
            self._seen += stop - start

    def _bounded(self, place: int) -> tuple[np.ndarray, np.ndarray]:
        """Blocks of a chunk that may matter, from the job's start on, and their bounds."""
        start, stop = self._chunks[place]
        caught = _Caught()
        self._runner.run(start, stop, Bounds(np.float32(self.found.threshold), self._pivots), caught)
        return caught.positions, caught.values

    def _evaluate(self, blocks: np.ndarray, seen_again: bool = False) -> None:
        if not len(blocks):
            return
        positions = (blocks[:, None] * self._length + np.arange(self._length)).ravel()
        self.found.add(evaluate(self._job, positions[positions < self._job.candidates]), seen_again)


class _Caught(Collector):
    """Takes what gets past the bounds of one chunk."""

    def __init__(self) -> None:
        self.positions, self.values = np.zeros(0, np.int64), np.zeros((0, 0), np.float32)

    def add(self, start: int, stop: int, counts: np.ndarray, positions: np.ndarray, values: np.ndarray) -> None:
        """See `Collector.add`."""
        self.positions, self.values = positions, values
