"""The error model within a shape (`dse.trust.within_shape`), estimated from measured schedules."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from ..trust.within_shape import RATES, SIZES, WithinShape, columns_of, covariance
from .ranking import ScheduleRanking

# What no table of schedules tells apart. A doubling of a tile dimension counts as 1: the tables have two tiles a
# problem, and their likelihood is as good with 0.5 or 2. Splits and stream-K change the algorithm as much as that;
# warps, clusters, launch and epilogue lie between a tile and a stage.
ASSUMED = {"tile": 1.0, "algorithm": 1.0, "structure": 0.2}
FITTED = tuple(name for name in RATES if name not in ASSUMED)
LEAST_NOISE, MOST_NOISE = 0.003, 0.2
NOISES = np.geomspace(LEAST_NOISE, MOST_NOISE, 60)


@dataclass(frozen=True, eq=False)
class SchedulesOfShape:
    """Measured schedules of one problem, those that the model lets run.

    Attributes:
        name: shape, layout, type.
        columns: schedule field -> numbers[schedules].
        predicted_s, measured_s: latencies.
    """

    name: str
    columns: Any
    predicted_s: np.ndarray
    measured_s: np.ndarray

    @property
    def log_ratio(self) -> np.ndarray:
        """log(measured / predicted)."""
        return np.log(self.measured_s / self.predicted_s)

    @cached_property
    def contrasts(self) -> np.ndarray:
        """Orthonormal differences between schedules: what is left when a common error is free."""
        count = len(self.predicted_s)
        return np.linalg.svd(np.eye(count) - 1.0 / count)[0][:, : count - 1]


def schedules_of(ranking: ScheduleRanking) -> list[SchedulesOfShape]:
    """The problems of a ranking, without the schedules that the model refuses."""
    found = []
    for entry in ranking.problems:
        rows = entry.rows[np.isfinite(entry.rows["predicted_us"])]
        latencies = (rows[name].to_numpy(np.float64) * 1e-6 for name in ("predicted_us", "measured_us"))
        found.append(SchedulesOfShape(entry.problem, columns_of(rows), *latencies))
    return found


def fit_within_shape(problems: Sequence[SchedulesOfShape], spread: float, made_from: Any = None) -> WithinShape:
    """Restricted maximum likelihood: each problem's common error is free, its noise is its own, the rest is shared.

    Args:
        problems: at least two schedules each.
        spread: see `WithinShape`.
        made_from: see `WithinShape`.
    """
    from scipy.optimize import minimize

    def model(logs: np.ndarray) -> WithinShape:
        sigma, *rates = np.exp(logs)
        shared = {name: ASSUMED[name] if name in ASSUMED else float(rates[FITTED.index(name)]) for name in RATES}
        return WithinShape(float(sigma), shared, (), spread, made_from or {})

    def misfit(logs: np.ndarray) -> float:
        found = model(logs)
        return sum(_profiled(problem, found)[0] for problem in problems)

    start = np.log([0.06, *(0.05 for _ in FITTED)])
    best = minimize(misfit, start, method="Nelder-Mead", options={"maxiter": 600, "xatol": 5e-3, "fatol": 1e-3})
    found = model(best.x)
    return replace(found, noise=tuple(_profiled(problem, found)[1] for problem in problems))


def _profiled(problem: SchedulesOfShape, model: WithinShape) -> tuple[float, float]:
    """Minus the log likelihood of the differences between schedules at the best noise, and that noise."""
    contrasts = problem.contrasts
    shared, axes = np.linalg.eigh(contrasts.T @ covariance(problem.columns, model) @ contrasts)
    along = axes.T @ (contrasts.T @ problem.log_ratio)
    variances = np.maximum(shared, 0.0) + NOISES[:, None] ** 2
    misfit = 0.5 * (np.log(variances) + along**2 / variances).sum(axis=1)
    best = int(misfit.argmin())
    return float(misfit[best]), float(NOISES[best])


def tile_pairs(problems: Sequence[SchedulesOfShape]) -> list[tuple[str, float, float]]:
    """(problem, octaves, difference of mean log ratios) of every two tiles of a problem: what `sigma` rests on."""
    found = []
    for problem in problems:
        tiles = np.stack([problem.columns[name] for name in SIZES if SIZES[name] == "tile"], axis=1)
        kinds, place = np.unique(tiles, axis=0, return_inverse=True)
        means = [problem.log_ratio[place.reshape(-1) == at].mean() for at in range(len(kinds))]
        for at in range(len(kinds)):
            for other in range(at):
                octaves = float(np.abs(np.log2(kinds[at] / kinds[other])).sum())
                found.append((problem.name, octaves, float(means[at] - means[other])))
    return found
