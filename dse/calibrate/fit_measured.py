"""A fit to measurements of any kind: rows of one data type and instruction family at a time, one error for all of them.

Rows that name their schedule are evaluated on it, the others on a shortlist of the preset. Rounds of two steps:
shortlist each problem's schedules that could win, then search the numbers with the fastest of the shortlist for the
fastest of the preset; the last round's shortlist and the whole preset agree to `AGREED`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..best_schedule import preset_of
from ..compiled import jit
from ..content.gpu import GpuFile
from ..content.space import load_space
from ..errors import UserError
from ..fitting import fitting
from ..kernels.registry import get_kernel
from ..schedule_text import FIELDS
from .latency_matrix import stack_problems
from .measurements import Measurements
from .parameters import Parameter
from .search import SEARCHES, Objective
from .search_optuna import search_optuna
from .sensitivity import Sensitivity, sensitivities_of
from .shortlist import Shortlist, Shortlister, shortlist_latency
from .write_toml import fitted_gpu

KERNEL = get_kernel("gemm")
METHODS = {**SEARCHES, "optuna": search_optuna}
AGREED = 3e-4  # a fit ends when its shortlist and the whole preset differ by less in mean absolute relative error
ROUNDS_MAX = 6


@dataclass(frozen=True)
class Trial:
    """Where a search stands: `progress(trial)` is called once a round."""

    round: int
    shortlist_error: float
    space_error: float


@dataclass(frozen=True)
class Fit:
    """What a fit found.

    Attributes:
        values, start: name -> number, after and before.
        error, start_error: mean absolute relative error of the rows, over the whole preset.
        sensitivity: name -> what moving it does to these rows.
    """

    values: dict[str, float]
    start: dict[str, float]
    error: float
    start_error: float
    sensitivity: dict[str, Sensitivity]


class Predictor:
    """Predicts the latency of measured rows on GPUs that differ in their numbers only; compiles once.

    Args:
        gpu: decides families and which schedules of the preset can run.
        measured: the rows.
        preset: sub-space whose fastest stands for rows that name no schedule; a type may have one of its own
            (`dse.best_schedule.preset_of`).

    Raises:
        UserError: a type that the GPU has no tensor rate for, or a preset of which nothing can run.
    """

    def __init__(self, gpu: GpuFile, measured: Measurements, preset: str = "library") -> None:
        self.measured = measured
        self.parts = [
            _Part(gpu, measured, rows, dtype, family, preset) for rows, dtype, family in _groups(gpu, measured)
        ]

    def __call__(self, gpu: GpuFile) -> np.ndarray:
        """Seconds of each row, float64; infinity where its schedule cannot run."""
        found = np.full(len(self.measured), np.inf)
        for part in self.parts:
            found[part.rows] = part.latency_s(part.bound(gpu))
        return found

    def error(self, gpu: GpuFile) -> float:
        """Mean absolute relative error of the rows."""
        return float(np.mean(np.abs(self(gpu) / self.measured.latency_s - 1.0)))


def predict(gpu: GpuFile, measured: Measurements, preset: str = "library") -> np.ndarray:
    """Seconds of each row: of its schedule, or of the fastest over the preset; `Predictor` is for many GPUs."""
    return Predictor(gpu, measured, preset)(gpu)


def fit_measured(
    gpu: GpuFile,
    predictor: Predictor,
    parameters: Sequence[Parameter],
    *,
    method: str = "cma",
    seed: int = 0,
    evaluations: int = 3000,
    progress: Callable[[Trial], None] | None = None,
) -> Fit:
    """Fits the free numbers to the predictor's rows, all of which must be able to run.

    Args:
        gpu: where the fit starts.
        predictor: of the measured rows.
        parameters: the free numbers.
        method: a key of `METHODS`.
        seed: of the search.
        evaluations: of the error, a round.
        progress: called once a round.
    """
    start = {item.name: gpu[item.name] for item in parameters}
    place = np.array([item.place(start[item.name]) for item in parameters])
    start_error = predictor.error(gpu)
    best, best_error = dict(start), start_error
    joint = None
    for number in range(ROUNDS_MAX):
        for part in predictor.parts:
            part.renew(part.bound(fitted_gpu(gpu, _values(parameters, place))), parameters, number == 0)
        joint = _Joint([part.objective(gpu, parameters, predictor.measured.latency_s) for part in predictor.parts])
        place = METHODS[method](joint, place, seed + number, evaluations)  # type: ignore[arg-type]
        values = _values(parameters, place)
        shortlist_error, error = joint(place), predictor.error(fitted_gpu(gpu, values))
        if progress is not None:
            progress(Trial(number, shortlist_error, error))
        if error < best_error:
            best, best_error = values, error
        if abs(shortlist_error - error) < AGREED and (
            number > 0 or not any(part.by_preset for part in predictor.parts)
        ):
            break
    moved = sensitivities_of(_on_shortlists(gpu, predictor), predictor.measured.latency_s, best, parameters)
    return Fit(best, start, best_error, start_error, moved)


class _Part:
    """Rows of one type and family that all name their schedule, or none of which does."""

    def __init__(
        self, gpu: GpuFile, measured: Measurements, rows: np.ndarray, dtype: str, family: str, preset: str
    ) -> None:

        self.rows, self._dtype, self._family = rows, dtype, family
        own = measured.take(rows)
        self._problems = stack_problems(own.problems())
        self.by_preset = not own.has_schedule[0]
        if self.by_preset:
            space = load_space("gemm", family, dtype, preset=preset_of(family, dtype, preset))
            try:
                schedules = fitting(space, own.problems(), [self.bound(gpu)])
            except UserError:
                raise UserError(
                    f"no schedule of preset {preset} can run on {gpu.name} in {dtype}: choose another preset"
                ) from None
            columns = schedules.fields(np.arange(len(schedules)))
            self._shortlister = Shortlister(KERNEL, columns, self._problems)
            self._lists: list[Shortlist] = []
        else:
            fields = {name: np.asarray(own.schedule[name], np.float32)[:, None] for name in FIELDS}
            constants = {name: fields.pop(name)[0, 0] for name in KERNEL.compiled_fields}
            self._lists = [Shortlist(constants, fields)]
            self._named = jit(lambda record: shortlist_latency(KERNEL, self._lists, self._problems, record))

    def bound(self, gpu: GpuFile) -> Any:
        return gpu.bind(self._dtype, family=self._family)

    def latency_s(self, record: Any) -> np.ndarray:
        return self._shortlister.fastest(record) if self.by_preset else np.asarray(self._named(record))

    def renew(self, record: Any, parameters: Sequence[Parameter], first: bool) -> None:
        if self.by_preset:
            moved = _around(record, parameters) if first else []
            self._lists = self._shortlister(record, moved, self._lists or None)

    def shortlisted(self, record: Any) -> Any:
        return shortlist_latency(KERNEL, self._lists, self._problems, record)

    def objective(self, gpu: GpuFile, parameters: Sequence[Parameter], measured_s: np.ndarray) -> Objective:
        lists = self._lists
        return Objective(
            parameters,
            lambda record: shortlist_latency(KERNEL, lists, self._problems, record),
            self.bound(gpu),
            measured_s[self.rows],
            1.0 / len(measured_s),
        )


class _Joint:
    """The sum of several parts' errors, for a search."""

    def __init__(self, objectives: Sequence[Objective]) -> None:
        self._objectives = objectives
        self.parameters = objectives[0].parameters

    def __call__(self, place: np.ndarray) -> float:
        return sum(one(place) for one in self._objectives)

    def value_and_gradient(self, place: Any) -> tuple[float, np.ndarray]:
        found = [one.value_and_gradient(place) for one in self._objectives]
        return sum(float(error) for error, _ in found), np.sum([np.asarray(slope) for _, slope in found], axis=0)


def _groups(gpu: GpuFile, measured: Measurements) -> list[tuple[np.ndarray, str, str]]:
    """(rows, type, family): rows of one are evaluated together; a compiled field of their schedules is the same."""
    apart: dict[tuple[Any, ...], list[int]] = {}
    compiled = [measured.schedule[name].tolist() for name in KERNEL.compiled_fields]
    for row, key in enumerate(zip(measured.dtype.tolist(), measured.family.tolist(), *compiled, strict=True)):
        apart.setdefault(key, []).append(row)
    found = []
    for (dtype, family, *_), rows in apart.items():
        families = gpu.families(dtype)
        if not families or family not in ("", *families):
            gpu.bind(dtype, family=family or None)  # says what the GPU has
        found.append((np.array(rows), dtype, family or families[0]))
    return found


def _on_shortlists(gpu: GpuFile, predictor: Predictor) -> Callable[[Mapping[str, float]], np.ndarray]:

    compiled = [(part, jit(part.shortlisted)) for part in predictor.parts]

    def seconds(values: Mapping[str, float]) -> np.ndarray:
        found = np.empty(len(predictor.measured))
        moved = fitted_gpu(gpu, values)
        for part, latency in compiled:
            found[part.rows] = np.asarray(latency(part.bound(moved)))
        return found

    return seconds


def _values(parameters: Sequence[Parameter], place: np.ndarray) -> dict[str, float]:
    return {item.name: float(item.at(x)) for item, x in zip(parameters, place, strict=True)}


def _around(record: Any, parameters: Sequence[Parameter]) -> list[Any]:
    """The record with each number moved half-way to either of its bounds."""
    from dataclasses import replace

    moved = []
    for item in parameters:
        here = item.place(float(getattr(record, item.name)))
        for bound in (0.0, 1.0):
            value = np.asarray(item.at(here + 0.5 * (bound - here)), np.float32)
            moved.append(replace(record, **{item.name: value}))
    return moved
