"""Which ranges of a space a sweep must evaluate to find its exact best and front: branch and bound over blocks.

A block is a run of neighbouring schedules that differ in the launch order alone. Its lower bound (`lower_bound`) costs
a fraction of one evaluation and holds for all of them. A block is left out when its bound is worse than the k-th best
schedule found and dominated by one on the front found (`incumbents`), strictly, rounding included; or when nothing of
it can run. The blocks that remain are evaluated (`evaluate`), which tightens both (`block_queue` is the loop), and what
may still matter in the end is given back as ranges for an ordinary sweep.
"""

import bisect
from dataclasses import dataclass

import numpy as np

from ..executors.worker import chunk_lanes
from ..job import SweepJob
from ..platform import configure_jax
from ..progress import Progress, reporter
from ..state import Range, joined_ranges
from .block_queue import BlockQueue
from .lower_bound import bounding_job

GIVE_UP = 0.2  # of the scouts' blocks get past the bounds: trying them would cost more than the sweep saves


@dataclass(frozen=True)
class NeededRanges:
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


def needed_ranges(job: SweepJob, workers: int | None = None, progress: Progress = None) -> NeededRanges:
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
    queue = BlockQueue(job, bounds, length)
    if queue.scout() > GIVE_UP:
        return NeededRanges(((job.start, job.end),), (), 0, length, queue.found.tried)
    queue.work(workers, reporter(progress))
    if queue.found.hopeless:
        return NeededRanges(((job.start, job.end),), (), bounds.candidates, length, queue.found.tried)
    ranges = _whole_chunks(job, queue.found.worth_evaluating())
    return NeededRanges(ranges, _rest(job, ranges), bounds.candidates, length, queue.found.tried)


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
