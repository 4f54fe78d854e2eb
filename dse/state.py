"""What a sweep knows so far: which indices it has seen and what it found there. Parts merge in any order."""

import io
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .front import Front, choose_pivots
from .histogram import BUCKETS, PADDING
from .job import SweepJob
from .reduce import Bounds
from .topk import TopK

Range = tuple[int, int]


@dataclass(frozen=True)
class SweepState:
    """The exact outcome over the ranges seen.

    Attributes:
        ranges: what is settled, [start, stop) of the space's indices, ascending, not touching each other: evaluated, or
            skipped because its lower bounds cannot matter (`dse.bounding`).
        counts: int64[BUCKETS], candidates a bucket (see `dse.histogram`).
        top: positions are relative to the job's start.
        front: likewise.
        skipped: how many indices of the ranges were not evaluated.
    """

    ranges: tuple[Range, ...]
    counts: np.ndarray
    top: TopK
    front: Front
    skipped: int = 0

    @classmethod
    def empty(cls, job: SweepJob) -> "SweepState":
        """Nothing seen yet."""
        top, front = TopK.empty(job.top, job.tie_limit), Front.empty(len(job.objectives), job.tie_limit)
        return cls((), np.zeros(BUCKETS, np.int64), top, front)

    @property
    def settled(self) -> int:
        """Candidates evaluated or skipped."""
        return sum(stop - start for start, stop in self.ranges)

    @property
    def evaluated(self) -> int:
        """Candidates evaluated."""
        return self.settled - self.skipped

    def without(self, ranges: Iterable[Range]) -> "SweepState":
        """The same with these ranges, none of them seen yet, settled unevaluated."""
        ranges = tuple(ranges)
        count = sum(stop - start for start, stop in ranges)
        return replace(self, ranges=joined_ranges((*self.ranges, *ranges)), skipped=self.skipped + count)

    def merge(self, other: "SweepState") -> "SweepState":
        """What both have seen; their ranges must not overlap."""
        return SweepState(
            joined_ranges((*self.ranges, *other.ranges)),
            self.counts + other.counts,
            self.top.merge(other.top),
            self.front.merge(other.front),
            self.skipped + other.skipped,
        )

    def fits(self, job: SweepJob) -> bool:
        """Whether it can be a state of this job: its ranges, counts and positions are, and so is what is looked for."""
        edges = [job.start, *(edge for pair in self.ranges for edge in pair), job.end]
        positions = np.concatenate([self.top.positions, self.front.positions]).astype(np.int64)
        return (
            edges == sorted(edges)
            and self.counts.shape == (BUCKETS,)
            and int(self.counts.sum()) == self.evaluated
            and (self.top.k, self.top.tie_limit, self.front.tie_limit) == (job.top, job.tie_limit, job.tie_limit)
            and self.front.values.shape[1:] == (len(job.objectives),)
            and bool(((positions >= 0) & (positions < job.candidates)).all())
        )

    def missing(self, start: int, stop: int) -> list[Range]:
        """The parts of [start, stop) that have not been seen, ascending."""
        gaps, at = [], start
        for seen_start, seen_stop in self.ranges:
            if at < min(seen_start, stop):
                gaps.append((at, min(seen_start, stop)))
            at = max(at, seen_stop)
        return [*gaps, (at, stop)] if at < stop else gaps

    def to_bytes(self) -> bytes:
        """As a NumPy archive, for a run folder."""
        buffer = io.BytesIO()
        top, front = self.top, self.front
        arrays: dict[str, Any] = {
            "ranges": np.array([[str(edge) for edge in pair] for pair in self.ranges], dtype="U").reshape(-1, 2),
            "skipped": np.array(str(self.skipped)),
            "counts": self.counts,
            "top": np.array([top.k, top.tie_limit, top.ties]),
            "top_positions": top.positions,
            "top_values": top.values,
            "front": np.array([front.tie_limit]),
            "front_positions": front.positions,
            "front_values": front.values,
            "front_weights": front.weights,
        }
        np.savez(buffer, **arrays)
        return buffer.getvalue()

    @classmethod
    def from_bytes(cls, data: bytes) -> "SweepState":
        """The inverse of `to_bytes`."""
        with np.load(io.BytesIO(data), allow_pickle=False) as held:
            k, tie_limit, ties = (int(value) for value in held["top"])
            return cls(
                tuple((int(start), int(stop)) for start, stop in held["ranges"]),
                held["counts"],
                TopK(k, tie_limit, held["top_positions"], held["top_values"], ties),
                Front(int(held["front"][0]), held["front_positions"], held["front_values"], held["front_weights"]),
                int(str(held["skipped"])),
            )


class Collector:
    """Gathers chunks' survivors until they are worth merging.

    Attributes:
        rows: how many survivors are waiting.
    """

    def __init__(self, job: SweepJob) -> None:
        self.rows = 0
        self._job = job
        self._clear()

    def add(self, start: int, stop: int, counts: np.ndarray, positions: np.ndarray, values: np.ndarray) -> None:
        """One chunk: [start, stop), its bucket counts, its survivors' positions and values."""
        self._ranges.append((start, stop))
        self._counts += counts
        if len(positions):
            self._positions.append(positions)
            self._values.append(values)
            self.rows += len(positions)

    def take(self) -> tuple[SweepState, np.ndarray]:
        """What was gathered, as a state and as the survivors' objectives float32[rows, objectives]; starts anew."""
        job = self._job
        state = SweepState.empty(job)
        counts = self._counts.copy()
        counts[PADDING] = 0
        objectives = np.zeros((0, len(job.objectives)), np.float32)
        top, front = state.top, state.front
        if self._positions:
            positions, values = np.concatenate(self._positions), np.concatenate(self._values)
            objectives = values[:, : len(job.objectives)]
            top = top.add(positions, values[:, job.columns.index(job.rank_by)])
            front = front.add(positions, objectives)
        taken = SweepState(joined_ranges(self._ranges), counts, top, front)
        self._clear()
        return taken, objectives

    def _clear(self) -> None:
        self.rows = 0
        self._ranges: list[Range] = []
        self._counts = np.zeros(BUCKETS, np.int64)
        self._positions: list[np.ndarray] = []
        self._values: list[np.ndarray] = []


class BoundsKeeper:
    """Keeps bounds tight at little cost: the pivots follow the candidates that have lately slipped through."""

    SAMPLE_ROWS = 1024
    SLIPPED_ROWS = 8192

    def __init__(self, job: SweepJob) -> None:
        self.bounds = Bounds(np.float32(np.inf), choose_pivots(Front.empty(len(job.objectives), 0).values, np.zeros(0)))
        self._sample = np.zeros((0, len(job.objectives)), np.float32)
        self._random = np.random.default_rng(0)
        self._updates = 0
        self._slipped = 0
        self._threshold = float("inf")

    def tighten(self, threshold: float) -> None:
        """Takes in the k-th best value that others have found."""
        self._threshold = min(self._threshold, threshold)
        self.bounds = replace(self.bounds, threshold=np.float32(min(self._threshold, self.bounds.threshold)))

    def update(self, state: SweepState, survivors: np.ndarray) -> None:
        """Takes in a merged state and the objectives of the survivors that went into it."""
        self._slipped += len(survivors)
        self._updates += 1
        pivots = self.bounds.pivots
        few = self._updates & (self._updates - 1) == 0
        if len(survivors) and (few or self._slipped > self.SLIPPED_ROWS):
            self._slipped = 0
            fresh = survivors[self._random.permutation(len(survivors))[: self.SAMPLE_ROWS // 2]]
            self._sample = np.concatenate([fresh, self._sample])[: self.SAMPLE_ROWS]
            pivots = choose_pivots(state.front.values, self._sample)
        self.bounds = Bounds(np.float32(min(state.top.threshold, self._threshold)), pivots)


def joined_ranges(ranges: Iterable[Range]) -> tuple[Range, ...]:
    """Ascending ranges with touching ones joined."""
    joined: list[Range] = []
    for start, stop in sorted(ranges):
        if joined and joined[-1][1] == start:
            joined[-1] = (joined[-1][0], stop)
        else:
            joined.append((start, stop))
    return tuple(joined)
