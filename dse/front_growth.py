"""What a sweep's progress says of its front: how large a share of a fixed box the front dominates so far."""

import contextlib
import threading
from typing import TYPE_CHECKING

import numpy as np

from .front import non_dominated
from .front_measures import GROWING_OBJECTIVES, GrowingHypervolume, reference_point
from .job import SweepJob
from .rows import ROWS, evaluate_rows, evaluate_schedules

if TYPE_CHECKING:
    from .front import Front

SAMPLE_SEED = 0


class FrontGrowth:
    """Measures the front of a sweep while it runs, against a reference that depends on the job alone.

    The reference is 1.1 times the worst in each objective on the front of `sample_rows`, schedules drawn with a fixed
    seed: a run that is gone on with, another executor and another number of workers all have the same. The schedules
    are evaluated in a thread of their own, which also compiles what the tables of the result need.

    Args:
        job: what is swept.
        wanted: whether anybody looks; else, and with more than three objectives, nothing is measured.
        tables: whether the result's tables will be evaluated.
    """

    def __init__(self, job: SweepJob, wanted: bool = True, tables: bool = True) -> None:
        self._job = job
        self._wanted = wanted and len(job.objectives) <= GROWING_OBJECTIVES
        self._growing: GrowingHypervolume | None = None
        self._tables = tables
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._prepare, daemon=True)
        if self._wanted or tables:
            self._thread.start()

    def hypervolume(self, front: "Front", at_once: bool = False) -> float | None:
        """The share of the box, see `dse.front_measures.GrowingHypervolume`; None: no reference or no front (yet).

        Args:
            front: of what has been seen so far.
            at_once: the run is complete: wait for the reference where it is not there yet, and measure.
        """
        if not self._wanted:
            return None
        if at_once:
            self._ready.wait()
        if self._growing is None or not len(front.values):
            return None
        return self._growing.share(front.values, at_once)

    def close(self) -> None:
        """Waits for the thread: Python ends while one compiles only by an abort ("FATAL: exception not rethrown")."""
        self._tables = False
        if self._thread.ident is not None:
            self._thread.join()

    def _prepare(self) -> None:
        try:
            with contextlib.suppress(Exception):  # comes up again where the result's rows are read
                reference = sample_reference(self._job) if self._wanted else None
                self._growing = GrowingHypervolume(reference) if reference is not None else None
                self._ready.set()
                if self._tables:
                    evaluate_rows(self._job, [self._job.start])
        finally:
            self._ready.set()


def sample_reference(job: SweepJob) -> np.ndarray | None:
    """1.1 times the worst in each objective on the front of a sample of the job's schedules, float64[objectives].

    Returns:
        None where no schedule of the sample can run.
    """
    columns = evaluate_schedules(job, job.space.rows(sample_rows(job)))
    values = np.stack([columns[name] for name in job.objectives], axis=1)
    values = values[(columns["reason"] == 0) & np.isfinite(values).all(axis=1)]
    return reference_point(values[non_dominated(values)]) if len(values) else None


def sample_rows(job: SweepJob) -> list[int]:
    """Indices of 1,024 schedules of the job's range, drawn with a fixed seed, repeats allowed."""
    random = np.random.default_rng(SAMPLE_SEED)
    return [job.start + int(offset) for offset in random.integers(0, job.candidates, ROWS)]
