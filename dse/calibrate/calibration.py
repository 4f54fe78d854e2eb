"""A calibration: measured rows cut into train and test, a GPU's free numbers fitted, and what that is worth."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..content.gpu import GpuFile
from ..content.gpu_fields import FIELDS
from ..errors import UserError, unknown
from ..validation.latency_errors import Errors, errors
from .fit_measured import METHODS, Predictor, fit_measured
from .free import free_parameters
from .measurements import Measurements
from .parameters import Parameter
from .sensitivity import Sensitivity
from .write_toml import FittedNumbers, fitted_gpu

AT_BOUND = 0.01  # of the way between the bounds
ROWS_MAX = 2000
EVALUATIONS = 3000  # of the error, a round
OTHER_UNIT = 30.0  # a median this far from the prediction is no error of a GPU file
SEED_MAX = 2**32 - 1


@dataclass(frozen=True)
class Judged:
    """Errors with the GPU file's numbers and with the fitted ones, on the same rows."""

    start: Errors
    fitted: Errors


@dataclass(frozen=True)
class Calibration:
    """What a calibration found.

    Attributes:
        gpu: as it was.
        fitted: the same GPU with the fitted numbers.
        parameters: the numbers that were free, with bounds and meaning.
        start, values: name -> number before and after.
        sensitivity: name -> what moving it does to the train rows.
        train, test: errors on the rows that were fitted on and on the others.
        with_schedule: how many of the rows named their schedule.
        cannot_run: rows left out because the model says that their schedule cannot run.
        preset, method, seed, origin: how it was done, and on what.
    """

    gpu: GpuFile
    fitted: GpuFile = field(repr=False)
    parameters: tuple[Parameter, ...]
    start: Mapping[str, float]
    values: Mapping[str, float]
    sensitivity: Mapping[str, Sensitivity]
    train: Judged
    test: Judged
    with_schedule: int
    cannot_run: int
    preset: str
    method: str
    seed: int
    origin: str

    def at_bound(self, name: str) -> str:
        """ "low" or "high" where a fitted number came to lie at a bound, else ""."""
        item = next(item for item in self.parameters if item.name == name)
        place = item.place(self.values[name])
        return "low" if place <= AT_BOUND else "high" if place >= 1.0 - AT_BOUND else ""

    def source(self) -> str:
        """Where the numbers come from, in words, for the GPU file."""
        train, test = self.train, self.test
        return (
            f"dse calibrate gemm on {self.origin or 'measured rows'}: {train.fitted.count} train and "
            f"{test.fitted.count} test rows, no pair (n, k) in both, seed {self.seed}, {self.method}; mean absolute "
            f"error: train {train.start.mape:.1f} -> {train.fitted.mape:.1f} %, test {test.start.mape:.1f} -> "
            f"{test.fitted.mape:.1f} %"
        )

    def numbers(self) -> FittedNumbers:
        """What `dse.calibrate.write_toml` writes."""
        notes = {}
        for item in self.parameters:
            bound = self.at_bound(item.name)
            at = f"; at its {bound} bound" if bound else ""
            datum = self.gpu.values[item.name]
            notes[item.name] = f"was {datum.number:.6g}, {datum.kind}; bounds {item.low:.4g} to {item.high:.4g}{at}"
        return FittedNumbers(self.values, self.source(), notes)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "gpu": self.gpu.name,
            "origin": self.origin,
            "preset": self.preset,
            "method": self.method,
            "seed": self.seed,
            "rows_with_schedule": self.with_schedule,
            "rows_that_cannot_run": self.cannot_run,
            "numbers": [self._number(item) for item in self.parameters],
            "train": {"start": self.train.start.to_dict(), "fitted": self.train.fitted.to_dict()},
            "test": {"start": self.test.start.to_dict(), "fitted": self.test.fitted.to_dict()},
        }

    def _number(self, item: Parameter) -> dict[str, Any]:
        moved = self.sensitivity[item.name]
        return {
            "name": item.name,
            "unit": FIELDS[item.name].unit,
            "meaning": item.meaning,
            "start": self.start[item.name],
            "fitted": self.values[item.name],
            "low": item.low,
            "high": item.high,
            "at_bound": self.at_bound(item.name) or None,
            "error_moved_1_percent": moved.error_small,
            "error_moved_10_percent": moved.error_large,
            "elasticity_of_latency": moved.elasticity,
        }


def calibrate_gemm(
    gpu: GpuFile,
    measured: Measurements,
    *,
    free: Sequence[str] | None = None,
    preset: str = "library",
    method: str = "cma",
    test: float = 0.3,
    seed: int = 0,
    rows: int | None = ROWS_MAX,
    evaluations: int = EVALUATIONS,
    progress: Callable[[Any], None] | None = None,
) -> Calibration:
    """Fits a GPU's free numbers to measured latencies and judges them on weight shapes that were not fitted on.

    A row that names its schedule is compared with that schedule's latency, a row that does not with the fastest over
    the preset.

    Args:
        gpu: where the fit starts; bounds lie around its numbers.
        measured: the GPU's rows, see `dse.calibrate.readers`.
        free: names of the numbers that may move; None: `dse.calibrate.free.DEFAULT`.
        preset: sub-space whose fastest stands for a library.
        method: a search, see `dse.calibrate.fit_measured.METHODS`.
        test: share of the pairs (n, k) that test, where the rows name no part.
        seed: of the split, the draw and the search.
        rows: at most so many train rows; None: all.
        evaluations: of the error, a round of the search.
        progress: called with each round's trial.

    Raises:
        UserError: an unknown method; a seed that is none; what `Measurements.split` and `free_parameters` raise; fewer
            train rows than free numbers; rows of schedules that cannot run; latencies in another unit.
    """
    if method not in METHODS:
        raise unknown("method", method, METHODS)
    if not 0 <= seed <= SEED_MAX:
        raise UserError(f"seed = {seed} is not allowed: a whole number from 0 to 2^32 - 1")
    parameters = free_parameters(gpu, free)
    parts = measured.split(test, seed, rows)
    predictors = [_runnable(gpu, part, what, preset) for what, part in zip(("train", "test"), parts, strict=True)]
    if (train := len(predictors[0].measured)) < len(parameters):
        raise UserError(
            f"{train} train rows cannot fix {len(parameters)} numbers: measure more shapes, or free fewer (--free)"
        )
    found = fit_measured(
        gpu, predictors[0], parameters, method=method, seed=seed, evaluations=evaluations, progress=progress
    )
    fitted = fitted_gpu(gpu, found.values)
    kept = [predictor.measured for predictor in predictors]
    return Calibration(
        gpu=gpu,
        fitted=fitted,
        parameters=parameters,
        start=found.start,
        values=found.values,
        sensitivity=found.sensitivity,
        train=_judged(predictors[0], gpu, fitted),
        test=_judged(predictors[1], gpu, fitted),
        with_schedule=sum(int(rows.has_schedule.sum()) for rows in kept),
        cannot_run=sum(map(len, parts)) - sum(map(len, kept)),
        preset=preset,
        method=method,
        seed=seed,
        origin=measured.origin,
    )


def _runnable(gpu: GpuFile, part: Measurements, what: str, preset: str) -> Predictor:
    """A predictor of the rows that the model says can run."""
    predictor = Predictor(gpu, part, preset)
    predicted = predictor(gpu)
    runs = np.isfinite(predicted)
    if not runs.any():
        raise UserError(
            f"none of the {len(part)} {what} rows names a schedule that {gpu.name} can run: is this the GPU that the "
            "rows were measured on? `dse explain --schedule` tells what does not fit"
        )
    ratio = float(np.median(part.latency_s[runs] / predicted[runs]))
    if not 1.0 / OTHER_UNIT <= ratio <= OTHER_UNIT:
        raise UserError(
            f"the median of the {what} latencies is {ratio:.3g} times what is predicted, allowed: 1/{OTHER_UNIT:g} to "
            f"{OTHER_UNIT:g} times; is the unit right (the column is latency_us, latency_ms or latency_s), and the GPU?"
        )
    return predictor if runs.all() else Predictor(gpu, part.take(runs), preset)


def _judged(predictor: Predictor, gpu: GpuFile, fitted: GpuFile) -> Judged:
    rows = predictor.measured
    pairs = np.unique(np.stack([rows.n, rows.k], axis=1), axis=0, return_inverse=True)[1].reshape(-1)
    return Judged(*(errors(predictor(one), rows.latency_s, pairs) for one in (gpu, fitted)))
