"""Schedules tuned by exhaustion: for every (problem, GPU) the fastest schedule of a whole space, or the fastest few."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

import numpy as np

from .compiled import jit
from .job import as_float32
from .progress import Progress, Snapshot, reporter
from .schedule_set import ScheduleSet
from .shared_work import share_work


@dataclass(frozen=True)
class Tuned:
    """The fastest schedules, an entry a (problem, GPU).

    Attributes:
        latency_s: float32; infinite where no schedule can run.
        place: int64, of the schedule in the set; of equally fast ones the first.
        index: int64, of the schedule in its space; -1 where none can run.
        evaluations: candidates evaluated for all entries.
    """

    latency_s: np.ndarray
    place: np.ndarray
    index: np.ndarray
    evaluations: int


def tune(
    schedules: ScheduleSet,
    rows: Sequence[tuple[Any, Any]],
    progress: Progress = None,
    *,
    workers: int | None = None,
) -> Tuned:
    """Evaluates every schedule of the set for every row and keeps the fastest.

    Args:
        schedules: `dse.fitting.fitting(space, problems, gpus)`, made for all GPUs of the rows.
        rows: (problem, the model's record of a GPU).
        progress: as in `dse.sweep.run_sweep`.
        workers: threads; None: one a usable core.

    Returns:
        An entry a row, the same whatever the number of workers.
    """
    return _tuned(_Least(len(rows)), schedules, rows, progress, workers)


def tune_few(
    schedules: ScheduleSet,
    rows: Sequence[tuple[Any, Any]],
    count: int,
    progress: Progress = None,
    *,
    workers: int | None = None,
) -> Tuned:
    """As `tune`, and keeps the `count` fastest of every row, the fastest first, of equally fast ones the first.

    Returns:
        An entry a row, each with `count` numbers: arrays [rows, count]. Where fewer can run, the latency of the rest is
        infinite and the index -1.
    """
    return _tuned(_Fastest(len(rows), count), schedules, rows, progress, workers)


def _tuned(
    best: "_Best", schedules: ScheduleSet, rows: Sequence[tuple[Any, Any]], progress: Progress, workers: int | None
) -> Tuned:
    work, report = _Work(best, schedules, rows), reporter(progress)
    share_work(range(len(rows)), work.tune_row, lambda: report(work.snapshot()), workers)
    report(work.snapshot(finished=True))
    index = np.where(np.isfinite(best.latency_s), schedules.index[best.place], -1)
    return Tuned(best.latency_s, best.place, index, len(schedules) * len(rows))


class _Best(Protocol):
    latency_s: np.ndarray
    place: np.ndarray

    def add(self, row: int, start: int, latency_s: Any) -> None: ...


class _Least:
    def __init__(self, rows: int) -> None:
        self.latency_s = np.full(rows, np.inf, np.float32)
        self.place = np.zeros(rows, np.int64)

    def add(self, row: int, start: int, latency_s: Any) -> None:
        least, place = _least()(latency_s)
        if least < self.latency_s[row]:
            self.latency_s[row], self.place[row] = least, start + int(place)


class _Fastest:
    def __init__(self, rows: int, count: int) -> None:
        self.latency_s = np.full((rows, count), np.inf, np.float32)
        self.place = np.zeros((rows, count), np.int64)

    def add(self, row: int, start: int, latency_s: Any) -> None:
        values, count = np.asarray(latency_s), self.latency_s.shape[1]
        near = np.flatnonzero(values < self.latency_s[row, -1])  # an equal one that comes later is no better
        if len(near) > count:
            near = near[values[near] <= np.partition(values[near], count - 1)[count - 1]]
        if not len(near):
            return
        held = np.concatenate([self.latency_s[row], values[near]])
        places = np.concatenate([self.place[row], start + near])
        first = np.argsort(held, kind="stable")[:count]  # places ascend, so ties stay in their order
        self.latency_s[row], self.place[row] = held[first], places[first]


class _Work:
    def __init__(self, best: _Best, schedules: ScheduleSet, rows: Sequence[tuple[Any, Any]]) -> None:
        self.best, self.schedules, self.rows = best, schedules, rows
        self.done = 0
        self.began = time.perf_counter()

    def tune_row(self, row: int, stopped: Callable[[], bool]) -> None:
        problem, gpu = self.rows[row]
        records = as_float32(problem.arrays()), as_float32(gpu)
        for start, (latency_s,) in self.schedules.chunks(*records):
            self.best.add(row, start, latency_s)
            if stopped():
                return
            self.done += len(latency_s)

    def snapshot(self, finished: bool = False) -> Snapshot:
        seconds = time.perf_counter() - self.began
        total = len(self.schedules) * len(self.rows)
        done = total if finished else min(self.done, total)
        return Snapshot(done, total, seconds, done / max(seconds, 1e-9), None, "latency_s", None, finished)


@lru_cache(maxsize=1)
def _least() -> Any:
    import jax.numpy as jnp

    return jit(lambda values: (jnp.min(values), jnp.argmin(values)))
