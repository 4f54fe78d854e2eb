"""Fronts under uncertainty: the exact front of a whole space for every draw of the GPU's numbers."""

import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from ...compiled import jit
from ...errors import UserError
from ...front import PIVOT_COUNT, choose_pivots, non_dominated
from ...job import as_float32
from ...platform import usable_cores
from ...progress import Progress, Snapshot, reporter
from ...schedule_set import ScheduleSet, listed

RANKED = "latency_s"
FEW = 4096  # this many candidates are compared on the host without further thought
ROBUST_CANDIDATES = 1000  # schedules of the least expected regret whose every draw is looked at
REGRET_LEVEL = 0.95


@dataclass(frozen=True, eq=False)
class UncertainFront:
    """Schedules that are on a front in some draw, and those that are never far from the fastest.

    Attributes:
        draws: how many.
        objectives: what the fronts minimise.
        places: int64[rows], of the schedules in their set, ascending.
        probability: float64[rows], share of the draws in which the schedule is on the front.
        standard_error: float64[rows], of `probability`: sqrt(p (1 - p) / draws).
        expected_regret: float64[rows], mean over the draws of latency over the draw's least, less one.
        regret_95: float64[rows], what the regret stays below in 95 % of the draws.
        worst_regret: float64[rows], its most.
        front_sizes: int64[draws], schedules on each front.
        best_latency_s: float32[draws], of the fastest schedule of each draw.
    """

    draws: int
    objectives: tuple[str, ...]
    places: np.ndarray
    probability: np.ndarray
    standard_error: np.ndarray
    expected_regret: np.ndarray
    regret_95: np.ndarray
    worst_regret: np.ndarray
    front_sizes: np.ndarray
    best_latency_s: np.ndarray

    @property
    def most_robust(self) -> int:
        """Row of the least expected regret; of equal ones the first."""
        return int(self.expected_regret.argmin())

    @property
    def safest(self) -> int:
        """Row of the least 95 % regret; of equal ones that with the least expected regret."""
        return int(np.lexsort((self.expected_regret, self.regret_95))[0])


def uncertain_front(
    schedules: ScheduleSet,
    problem: Any,
    gpus: Sequence[Any],
    objectives: Sequence[str],
    progress: Progress = None,
    *,
    workers: int | None = None,
) -> UncertainFront:
    """Finds the exact front of every draw, and each schedule's share of them and regret.

    A candidate that a point of the previous draw's front dominates, evaluated anew, needs no closer look: what is left
    is compared exactly. Only schedules that some front holds are kept, and those of the least expected regret.

    Args:
        schedules: `dse.fitting.fitting`, made for a GPU of the same limits.
        problem: of all draws.
        gpus: the model's record of each draw (`dse.studies.fronts.gpu_draws.draw_gpus`).
        objectives: cost columns, all minimised.
        progress: as in `dse.sweep.run_sweep`.
        workers: threads; None: one a usable core.

    Returns:
        The same whatever the number of workers.

    Raises:
        UserError: no draw, or a draw in which no schedule can run.
    """
    if not gpus:
        raise UserError("0 draws are not allowed: 1 or more")
    work = _Work(schedules, problem, gpus, tuple(objectives), reporter(progress))
    work.run(workers or usable_cores())
    fronts, counts = np.unique(np.concatenate(work.fronts), return_counts=True)
    robust = np.argsort(work.regret_sum, kind="stable")[:ROBUST_CANDIDATES]
    places = np.union1d(fronts, robust[np.isfinite(work.regret_sum[robust])])
    regrets = _regrets(schedules, places, problem, gpus, work.best_latency_s)
    probability = np.zeros(len(places))
    probability[np.searchsorted(places, fronts)] = counts / len(gpus)
    return UncertainFront(
        draws=len(gpus),
        objectives=tuple(objectives),
        places=places,
        probability=probability,
        standard_error=np.sqrt(probability * (1.0 - probability) / len(gpus)),
        expected_regret=regrets.mean(axis=0),
        regret_95=np.quantile(regrets, REGRET_LEVEL, axis=0, method="higher"),
        worst_regret=regrets.max(axis=0),
        front_sizes=np.array([len(front) for front in work.fronts]),
        best_latency_s=work.best_latency_s,
    )


def front_places(values: np.ndarray, previous: np.ndarray) -> np.ndarray:
    """Which schedules no other dominates, ascending int64.

    Args:
        values: float32[objectives, schedules]; a schedule with an infinite one cannot run.
        previous: places whose values are likely to dominate much; any places give the same result.
    """
    runs = np.asarray(np.isfinite(values).all(axis=0))
    places = np.flatnonzero(runs)
    known = previous[runs[previous]] if len(previous) else previous
    if len(places) > FEW and not len(known):
        known = places[values[:, places].argmin(axis=1)]
    while len(places) > FEW:
        points = values[:, known].T
        points = points[non_dominated(points)]
        step = max(1, len(places) // FEW)
        pivots = choose_pivots(points, values[:, places[::step]].T)
        left = places[~_dominated_by(values[:, places], pivots)]
        if len(left) > 0.8 * len(places):
            places = left
            break
        some = left[:: max(1, len(left) // FEW)]
        places, known = left, some[non_dominated(values[:, some].T)]
    return places[non_dominated(values[:, places].T)]


class _Work:
    def __init__(
        self,
        schedules: ScheduleSet,
        problem: Any,
        gpus: Sequence[Any],
        objectives: tuple[str, ...],
        report: Any,
    ) -> None:
        self.schedules, self.gpus, self.objectives, self.report = schedules, gpus, objectives, report
        self.problem = as_float32(problem.arrays())
        self.names = tuple(dict.fromkeys((*objectives, RANKED)))
        self.fronts: list[np.ndarray] = [np.zeros(0, np.int64)] * len(gpus)
        self.best_latency_s = np.full(len(gpus), np.inf, np.float32)
        self.regret_sum = np.zeros(len(schedules))
        self.previous = np.zeros(0, np.int64)
        self.lock = threading.Lock()
        self.stop = False
        self.began = time.perf_counter()
        self.done = 0

    def run(self, workers: int) -> None:
        self._draw(0)  # alone: what it compiles and finds serves all others
        with ThreadPoolExecutor(workers) as pool:
            waiting = {pool.submit(self._draw, at) for at in range(1, len(self.gpus))}
            try:
                while waiting:
                    finished, waiting = wait(waiting, timeout=0.2)
                    for future in finished:
                        future.result()
                    self.report(self._snapshot())
            finally:
                self.stop = True
                pool.shutdown(cancel_futures=True)
        self.report(self._snapshot(finished=True))

    def _draw(self, at: int) -> None:
        values = np.empty((len(self.names), len(self.schedules)), np.float32)
        for start, found in self.schedules.chunks(self.problem, as_float32(self.gpus[at]), self.names):
            if self.stop:
                return
            for row, value in zip(values, found, strict=True):
                row[start : start + len(value)] = value
        latency_s = values[self.names.index(RANKED)]
        best = latency_s.min()
        if not np.isfinite(best):
            raise UserError(f"in draw {at} no schedule can run: the space and the problem do not go together")
        front = front_places(values[: len(self.objectives)], self.previous)
        with self.lock:
            self.fronts[at], self.best_latency_s[at], self.previous = front, best, front
            self.regret_sum += latency_s / best
            self.done += 1

    def _snapshot(self, finished: bool = False) -> Snapshot:
        seconds = time.perf_counter() - self.began
        each, total = len(self.schedules), len(self.schedules) * len(self.gpus)
        done = total if finished else self.done * each
        return Snapshot(done, total, seconds, done / max(seconds, 1e-9), None, RANKED, len(self.previous), finished)


def _regrets(
    schedules: ScheduleSet, places: np.ndarray, problem: Any, gpus: Sequence[Any], best_latency_s: np.ndarray
) -> np.ndarray:
    """Latency over the draw's least, less one, float64[draws, places]."""
    few = listed(schedules.fields(places), schedules.kernel.name)
    record = as_float32(problem.arrays())
    regrets = np.empty((len(gpus), len(places)))
    for at, gpu in enumerate(gpus):
        regrets[at, few.index] = few.values(record, as_float32(gpu))[0] / best_latency_s[at] - 1.0
    return np.maximum(regrets, 0.0)  # the same schedule compiled in another group may differ in the last bit


def _dominated_by(values: np.ndarray, pivots: np.ndarray) -> np.ndarray:
    """bool[schedules]; filled up to a power of two, so that few sizes are compiled."""
    count = values.shape[1]
    filled = np.full((len(values), max(4096, 1 << (count - 1).bit_length())), np.inf, np.float32)
    filled[:, :count] = values
    return np.asarray(_dominated()(filled, pivots))[:count]


@lru_cache(maxsize=1)
def _dominated() -> Any:
    import jax.numpy as jnp

    def dominated(values: Any, pivots: Any) -> Any:
        found = jnp.zeros(values.shape[1], bool)
        for pivot in range(PIVOT_COUNT):
            no_worse = jnp.all(values >= pivots[pivot][:, None], axis=0)
            found |= no_worse & jnp.any(values > pivots[pivot][:, None], axis=0)
        return found

    return jit(dominated)
