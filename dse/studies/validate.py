"""Predicted against measured: how far the model is from silicon, beside what a fitted roofline reaches."""

import itertools
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..content.gpu import load_gpu
from ..content.space import load_space
from ..errors import UserError, unknown
from ..problem import GemmProblem, checked
from .best_schedule import best_schedules
from .measured import load_measured_gemm
from .roofline_fit import fit_roofline

if TYPE_CHECKING:
    import pandas as pd

BUCKETS_US = (0.0, 10.0, 30.0, 100.0, 1000.0, float("inf"))


@dataclass(frozen=True)
class Errors:
    """Errors of one method on one set of rows, per cent of the measured latency.

    Attributes:
        count: rows.
        mape: mean absolute error.
        bias: mean signed error (negative: predicted too fast).
        p90: 90th percentile of the absolute error.
    """

    count: int
    mape: float
    bias: float
    p90: float


@dataclass(frozen=True)
class GpuValidation:
    """One GPU's validation.

    Attributes:
        gpu: name.
        space: of the schedules, and how many were tried a shape.
        schedules: points of that space.
        model: errors of the best predicted latency over the space.
        roofline: errors of the three-constant roofline fitted on the `fit` rows.
        by_latency: bucket of measured latency -> (model, roofline).
        rows: the rows with predictions and the schedule that won.
    """

    gpu: str
    space: str
    schedules: int
    model: Errors
    roofline: Errors
    by_latency: dict[str, tuple[Errors, Errors]]
    rows: "pd.DataFrame"

    def to_dict(self) -> dict[str, Any]:
        """Numbers only, for JSON: no rows."""
        buckets = {name: {"model": asdict(a), "roofline": asdict(b)} for name, (a, b) in self.by_latency.items()}
        return {
            "gpu": self.gpu,
            "space": self.space,
            "schedules": self.schedules,
            "model": asdict(self.model),
            "roofline": asdict(self.roofline),
            "by_latency_us": buckets,
        }


def validate_gemm(
    gpus: Sequence[str] | None = None,
    table: str | os.PathLike[str] | None = None,
    part: str = "check",
    preset: str = "library",
    rows_per_gpu: int | None = None,
) -> list[GpuValidation]:
    """Compares the best predicted latency over a space with the measured latency of a library kernel, GPU by GPU.

    A library picks by heuristics, so it may be slower than the best schedule; rows carry no schedule.

    Args:
        gpus: names; None: every GPU of the table.
        table: measured latencies (`load_measured_gemm`); None: the packaged sample.
        part: which part of the table is judged; the roofline is fitted on the part "fit" of the same table.
        preset: sub-space of the GPU's fastest family.
        rows_per_gpu: judge at most that many rows a GPU, drawn with a fixed seed.

    Raises:
        UserError: a GPU that has no file or that the table has no rows of, to judge or to fit on; a dimension that is
            not allowed; or what `load_measured_gemm` raises.
    """
    judged, fitted = load_measured_gemm(table, part), load_measured_gemm(table, "fit")
    systems = sorted(judged["system"].unique())
    for name in gpus or ():
        if name not in systems:
            raise unknown("GPU in the measured table", name, systems)
    if rows_per_gpu is not None and rows_per_gpu < 1:
        raise UserError(f"rows_per_gpu = {rows_per_gpu}: at least 1")
    return [
        _validate_gpu(
            name, _drawn(judged[judged["system"] == name], rows_per_gpu), fitted[fitted["system"] == name], preset
        )
        for name in (gpus or systems)
    ]


def pooled(results: Sequence[GpuValidation], method: str = "model") -> Errors:
    """Errors over the rows of all GPUs together; method "model" or "roofline"."""
    predicted = np.concatenate([result.rows[f"{method}_us"].to_numpy() for result in results])
    measured = np.concatenate([result.rows["latency_us"].to_numpy() for result in results])
    return errors(predicted, measured)


def errors(predicted: np.ndarray, measured: np.ndarray) -> Errors:
    """Errors of predicted against measured latencies, same unit."""
    relative = 100.0 * (np.asarray(predicted, float) / np.asarray(measured, float) - 1.0)
    absolute = np.abs(relative)
    return Errors(len(relative), float(absolute.mean()), float(relative.mean()), float(np.quantile(absolute, 0.9)))


def _validate_gpu(name: str, rows: "pd.DataFrame", fit: "pd.DataFrame", preset: str) -> GpuValidation:
    if fit.empty:
        raise UserError(f"the table has no rows of {name} in the part fit: the roofline beside the model needs some")
    gpu = load_gpu(name)
    space = load_space("gemm", gpu.families("bf16")[0], "bf16", preset=preset)
    problems = [_problem(*sizes) for sizes in rows[["m", "n", "k"]].itertuples(index=False)]
    best = best_schedules(problems, space, gpu)
    roofline = fit_roofline(fit)
    shape = (rows[name].to_numpy(float) for name in ("m", "n", "k"))
    rows = rows.assign(
        model_us=best.latency_s * 1e6,
        roofline_us=roofline.latency_s(*shape) * 1e6,
        schedule_index=best.index,
    )
    return GpuValidation(
        gpu=name,
        space=space.name,
        schedules=space.size,
        model=_errors_of(rows, "model_us"),
        roofline=_errors_of(rows, "roofline_us"),
        by_latency=_by_latency(rows),
        rows=rows,
    )


def _problem(*sizes: float) -> GemmProblem:
    return checked(GemmProblem(*(int(size) if size == int(size) else size for size in sizes)))  # type: ignore[arg-type]


def _by_latency(rows: "pd.DataFrame") -> dict[str, tuple[Errors, Errors]]:
    table = {}
    for low, high in itertools.pairwise(BUCKETS_US):
        inside = rows[(rows["latency_us"] >= low) & (rows["latency_us"] < high)]
        if len(inside):
            table[f"{low:g}-{high:g}"] = (_errors_of(inside, "model_us"), _errors_of(inside, "roofline_us"))
    return table


def _errors_of(rows: "pd.DataFrame", predicted: str) -> Errors:
    return errors(rows[predicted].to_numpy(float), rows["latency_us"].to_numpy(float))


def _drawn(rows: "pd.DataFrame", count: int | None) -> "pd.DataFrame":
    if count is None or count >= len(rows):
        return rows
    return rows.sample(count, random_state=0)
