"""Which ranges of a space a sweep must evaluate to find its exact best and front: branch and bound over blocks.

A block is a run of neighbouring schedules that differ in the launch order alone. Its lower bound costs a fraction of
one evaluation and holds for all of them. A block is left out when its bound is worse than the k-th best schedule found
and dominated by one on the front found, strictly, rounding included; or when nothing of it can run. The blocks that
remain are evaluated, which tightens both, and what may still matter in the end is given back as ranges for an ordinary
sweep.
"""

import bisect
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from ..compiled import jit
from ..executors.worker import ChunkRunner, chunk_lanes
from ..front import Front, choose_pivots, non_dominated
from ..job import CostModel, SweepJob
from ..platform import configure_jax, usable_cores
from ..progress import Progress, Snapshot, reporter
from ..reduce import Bounds
from ..state import Collector, Range, joined_ranges
from ..topk import TopK
from .lower_bound import bounding_job, lowered

SCOUTS = 16  # chunks of bounds over the whole space, whose most promising blocks are evaluated first
FIRST_POINTS = 2**14  # schedules evaluated of them
POINTS = 2**14  # schedules evaluated at once later
GUARDS = 256  # points of the front that others are held against on the way; in the end all are
HELD = 2**21  # schedules that may matter, before those that no longer do are let go
GIVE_UP = 0.2  # of the scouts' blocks get past the bounds: trying them would cost more than the sweep saves


@dataclass(frozen=True)
class Pruned:
    """What is left of a job.

    Attributes:
        ranges: [start, stop) of indices to evaluate, ascending, whole chunks of a sweep.
        skipped: the rest of the job's range; nothing in it can be among the best or on the front.
        blocks: how many bounds were computed.
        block_length: schedules of a block.
        tried: schedules evaluated to tighten the bounds; those that may matter are evaluated again by the sweep.
    """

    ranges: tuple[Range, ...]
    skipped: tuple[Range, ...]
    blocks: int
    block_length: int
    tried: int


def prune(job: SweepJob, workers: int | None = None, progress: Progress = None) -> Pruned:
    """The ranges that hold every schedule of a job's best (ties included) and of its front.

    Args:
        job: what is swept; `dse.bounding.lower_bound.BOUNDED` and `EXACT` are the objectives that have bounds.
        workers: threads; None: one a usable core.
        progress: as in `dse.sweep.run_sweep`; counts schedules.

    Raises:
        UserError: see `bounding_job`.
    """
    configure_jax()
    bounds, length = bounding_job(job)
    search = _Search(job, bounds, length)
    if search.scout() > GIVE_UP:
        return Pruned(((job.start, job.end),), (), 0, length, search.tried)
    threads = [threading.Thread(target=search.work, daemon=True) for _ in range(workers or usable_cores())]
    search.watch(threads, reporter(progress))
    if search.hopeless:
        return Pruned(((job.start, job.end),), (), bounds.candidates, length, search.tried)
    ranges = _whole_chunks(job, search.worth_evaluating())
    return Pruned(ranges, _rest(job, ranges), bounds.candidates, length, search.tried)


class _Search:
    def __init__(self, job: SweepJob, bounds: SweepJob, length: int) -> None:
        self.job, self.bounds, self.length = job, bounds, length
        self.runner = ChunkRunner(bounds)
        self.chunks = list(self.runner.chunks(bounds.start, bounds.end))
        self.rank_column = job.columns.index(job.rank_by)
        self.scouted, self.top = TopK.empty(job.top, 0), TopK.empty(job.top, 0)
        self.front = Front.empty(len(job.objectives), 1)
        self.pivots = choose_pivots(self.front.values, np.zeros(0))
        self.guards = self.front.values
        self.points: list[np.ndarray] = []  # positions that may matter
        self.lowest: list[np.ndarray] = []  # their values less rounding
        self.held = 0
        self.hopeless = False
        self.tried = self.seen = 0
        self.lock = threading.Lock()
        self.waiting: Iterator[int] = iter(range(len(self.chunks)))
        self.stop = False
        self.failures: list[BaseException] = []

    def scout(self) -> float:
        """Evaluates the most promising blocks of chunks all over the space: bounds are tight before the bulk comes.

        Returns:
            the share of these chunks' blocks that get past the bounds then.
        """
        places = np.unique(np.linspace(0, len(self.chunks) - 1, SCOUTS).astype(int))
        found = [self._bounded(place) for place in places]
        blocks, values = (np.concatenate(parts) for parts in zip(*found, strict=True))
        many = max(FIRST_POINTS // self.length, 1)
        best = np.argsort(values[:, self.rank_column], kind="stable")[:many]
        edge = np.flatnonzero(non_dominated(values[:, : len(self.job.objectives)])) if len(values) else best
        self._evaluate(np.unique(blocks[np.concatenate([best, edge[:many]])]), keep=False)
        self.pivots = choose_pivots(self.front.values, values[:, : len(self.job.objectives)])
        looked_at = sum(stop - start for start, stop in (self.chunks[place] for place in places))
        return float(self._may_matter(values, self.front.values).sum()) / looked_at

    def work(self) -> None:
        """Bounds chunk after chunk, and evaluates what gets past them."""
        try:
            while not self.stop and (place := self._next()) is not None:
                blocks, values = self._bounded(place)
                order = np.argsort(values[:, self.rank_column], kind="stable")
                blocks, values = blocks[order], values[order]
                step = max(POINTS // self.length, 1)
                for first in range(0, len(blocks), step):
                    some = slice(first, first + step)
                    alive = self._may_matter(values[some], self.guards)
                    self._evaluate(blocks[some][alive], keep=True)
                start, stop = self.chunks[place]
                with self.lock:
                    self.seen += stop - start
        except BaseException as error:
            self.failures.append(error)
            self.stop = True

    def watch(self, threads: list[threading.Thread], report: Any) -> None:
        """Runs the threads until they end."""
        began = time.perf_counter()

        def snapshot(finished: bool = False) -> Snapshot:
            seconds = time.perf_counter() - began
            total, done = self.job.candidates, min(self.seen * self.length, self.job.candidates)
            best = float(self.top.values[0]) if len(self.top.values) else None
            front = len(self.front.positions)
            return Snapshot(done, total, seconds, done / max(seconds, 1e-9), best, self.job.rank_by, front, finished)

        for thread in threads:
            thread.start()
        try:
            for thread in threads:
                while thread.is_alive():
                    thread.join(0.1)
                    report(snapshot())
        finally:
            self.stop = True
            for thread in threads:
                thread.join()
        if self.failures:
            raise self.failures[0]
        report(snapshot(finished=True))

    def worth_evaluating(self) -> np.ndarray:
        """Positions from the job's start on of all schedules that may be among the best or on the front."""
        if not self.points:
            return np.zeros(0, np.int64)
        positions, lowest = np.concatenate(self.points), np.concatenate(self.lowest)
        near = np.flatnonzero(self._may_matter(lowest, self.guards))
        return np.sort(positions[near[self._may_matter(lowest[near], self.front.values)]])

    @property
    def threshold(self) -> float:
        """The k-th best value found."""
        return min(self.scouted.threshold, self.top.threshold)

    def _next(self) -> int | None:
        with self.lock:
            return next(self.waiting, None)

    def _bounded(self, place: int) -> tuple[np.ndarray, np.ndarray]:
        """Blocks of a chunk that may matter, from the job's start on, and their bounds."""
        start, stop = self.chunks[place]
        caught = _Caught()
        self.runner.run(start, stop, Bounds(np.float32(self.threshold), self.pivots), caught)
        return caught.positions, caught.values

    def _may_matter(self, lowest: np.ndarray, front: np.ndarray) -> np.ndarray:
        """Whether something with these values, or larger ones, may be among the best or on the front."""
        objectives = lowest[:, : len(self.job.objectives)]
        return (lowest[:, self.rank_column] <= self.threshold) | ~_dominated(objectives, front)

    def _evaluate(self, blocks: np.ndarray, keep: bool) -> None:
        if not len(blocks):
            return
        positions = (blocks[:, None] * self.length + np.arange(self.length)).ravel()
        positions = positions[positions < self.job.candidates]
        values, lowest, runs = _evaluated(self.job, positions)
        edge = runs & self._may_matter(lowest, self.guards)
        some, others = values[edge], positions[edge]
        objectives = some[:, : len(self.job.objectives)]
        best = non_dominated(objectives)
        near = some[:, self.rank_column] <= self.threshold
        with self.lock:
            self.tried += len(runs)
            if keep:
                self.top = self.top.add(others[near], some[near, self.rank_column])
                self._hold(others, lowest[edge])
            else:  # seen again later: the same schedule must not count twice
                self.scouted = self.scouted.add(others[near], some[near, self.rank_column])
            self.front = self.front.add(others[best], objectives[best])
            self.guards = _spread(self.front.values, GUARDS)

    def _hold(self, positions: np.ndarray, lowest: np.ndarray) -> None:
        self.points.append(positions)
        self.lowest.append(lowest)
        self.held += len(positions)
        if self.held > HELD:  # most of them were only as good as what was known then
            positions, lowest = np.concatenate(self.points), np.concatenate(self.lowest)
            still = self._may_matter(lowest, self.guards)
            self.points, self.lowest, self.held = [positions[still]], [lowest[still]], int(still.sum())
            self.hopeless = self.held > HELD // 2
            self.stop = self.stop or self.hopeless


class _Caught(Collector):
    """Takes what gets past the bounds of one chunk."""

    def __init__(self) -> None:
        self.positions, self.values = np.zeros(0, np.int64), np.zeros((0, 0), np.float32)

    def add(self, start: int, stop: int, counts: np.ndarray, positions: np.ndarray, values: np.ndarray) -> None:
        """See `Collector.add`."""
        self.positions, self.values = positions, values


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


def _evaluated(job: SweepJob, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The sweep's columns of schedules, float32[n, columns], the same less rounding, and which of them can run."""
    evaluate = _compiled(job.model, job.columns)
    schedules = {name: values.astype(np.float32) for name, values in _rows(job, positions).items()}
    blocks = []
    for first in range(0, len(positions), POINTS):
        some = {name: np.resize(values[first : first + POINTS], POINTS) for name, values in schedules.items()}
        used = min(POINTS, len(positions) - first)
        blocks.append(np.asarray(evaluate(some, job.problem_arrays, job.gpu))[:, :used])
    found = np.concatenate(blocks, axis=1)
    many = len(job.columns)
    values, lowest = (np.ascontiguousarray(part.T) for part in (found[:many], found[many:-1]))
    return values, lowest, (found[-1] == 0) & np.isfinite(values).all(axis=1)


def _rows(job: SweepJob, positions: np.ndarray) -> dict[str, np.ndarray]:
    if job.end < 2**63:
        return job.space.rows(positions + job.start)
    return job.space.rows([job.start + int(position) for position in positions])


@lru_cache(maxsize=16)
def _compiled(model: CostModel, columns: tuple[str, ...]) -> Any:
    import jax.numpy as jnp

    def evaluate(schedules: dict[str, Any], problem: Any, gpu: Any) -> Any:
        cost = model.cost(problem, model.schedule(schedules), gpu)
        least = lowered(cost)
        wanted = [*(getattr(cost, name) for name in columns), *(getattr(least, name) for name in columns), cost.reason]
        return jnp.stack([jnp.broadcast_to(jnp.asarray(value, jnp.float32), (POINTS,)) for value in wanted])

    return jit(evaluate)


def _whole_chunks(job: SweepJob, positions: np.ndarray) -> tuple[Range, ...]:
    """The chunks of an ordinary sweep that hold these schedules."""
    import jax

    lanes = chunk_lanes(job, jax.devices()[0])
    starts = [at for at, _ in job.space.split(getattr(job.model, "compiled_fields", ()))]
    ranges: list[Range] = []
    for position in positions.tolist():
        index = job.start + position
        if ranges and index < ranges[-1][1]:
            continue
        place = bisect.bisect_right(starts, index) - 1
        origin = max(starts[place], job.start)
        end = min([*starts[place + 1 : place + 2], job.end])
        start = index - (index - origin) % lanes
        ranges.append((start, min(start + lanes, end)))
    return joined_ranges(ranges)


def _rest(job: SweepJob, ranges: tuple[Range, ...]) -> tuple[Range, ...]:
    edges = [job.start, *(edge for pair in ranges for edge in pair), job.end]
    return tuple((low, high) for low, high in zip(edges[::2], edges[1::2], strict=True) if low < high)
