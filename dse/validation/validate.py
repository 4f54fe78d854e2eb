"""Predicted against measured: how far the model is from silicon, beside what a fitted roofline reaches."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..best_schedule import best_schedules, preset_of
from ..content.dtypes import DTYPE_BYTES
from ..content.gpu import GpuFile, load_gpu
from ..content.space import load_space
from ..errors import UserError, unknown
from ..kernels.gemm import GemmProblem
from ..latency_bucket import latency_bucket
from ..schedule_text import format_schedule
from ..shape_class import shape_classes
from . import nvmatmul
from .error_tables import Cell, breakdown, errors_of
from .latency_errors import Errors as Errors
from .latency_errors import errors as errors
from .measured_split import judged_and_fitted
from .roofline_fit import fit_roofline

if TYPE_CHECKING:
    import pandas as pd

Gpus = Sequence[str] | Mapping[str, str | GpuFile]


@dataclass(frozen=True)
class GpuValidation:
    """One GPU's validation with one data type.

    Attributes:
        gpu: name, as the measured table has it.
        dtype: of the operands.
        gpu_file: of the GPU that the model was given: the same name, unless another file was asked for.
        space: of the schedules.
        schedules: points of that space, all tried for every shape.
        sources: what timed the rows, where the table says so.
        errors: method -> errors: "model", the best predicted latency over the space; "roofline", three constants
            fitted on the `fit` rows; "nvmatmul", nvMatmulHeuristics' estimate, where that is installed.
        rows: the table's rows, and of each: model_us, roofline_us, nvmatmul_us, nvmatmul_pick, the schedule that won
            (schedule_index, schedule), latency_bucket and shape_class.
        same_tile: share of rows where nvMatmulHeuristics picks the CTA tile of the schedule that won; None without it.
        notes: what a reader must know, a line each.
    """

    gpu: str
    dtype: str
    gpu_file: str
    space: str
    schedules: int
    sources: tuple[str, ...]
    errors: Mapping[str, Errors]
    rows: "pd.DataFrame"
    same_tile: float | None = None
    notes: tuple[str, ...] = ()

    @property
    def model(self) -> Errors:
        """Errors of the best predicted latency over the space."""
        return self.errors["model"]

    @property
    def roofline(self) -> Errors:
        """Errors of the fitted roofline."""
        return self.errors["roofline"]

    @property
    def by_latency(self) -> list[Cell]:
        """Errors by bucket of measured latency."""
        return breakdown(self.rows, ["latency"])

    def to_dict(self) -> dict[str, Any]:
        """Numbers only, for JSON: no rows."""
        about = ("gpu", "dtype", "gpu_file", "space", "schedules", "sources", "same_tile", "notes")
        found = {method: of.to_dict() for method, of in self.errors.items()}
        return {name: getattr(self, name) for name in about} | found


def validate_gemm(
    gpus: Gpus | None = None,
    table: str | os.PathLike[str] | None = None,
    part: str = "check",
    preset: str = "library",
    rows_per_gpu: int | None = None,
    *,
    dtypes: Sequence[str] | None = None,
    source: str | None = None,
    same_split: bool = False,
    common_shapes: bool = False,
    progress: Callable[[str], None] | None = None,
) -> list[GpuValidation]:
    """Compares the best predicted latency over a space with the measured latency of a library kernel.

    A library picks by heuristics, so it may be slower than the best schedule; rows carry no schedule. Every GPU and
    data type of the table is judged by itself, over the space of the GPU's fastest instruction family for that type,
    against a roofline that is fitted on the same GPU's and type's rows. Rows whose column `quantise_a` is true are
    predicted with the kernels that quantise A.

    Args:
        gpus: names, or name in the table -> the GPU file (name, path or loaded) that stands for it, e.g. one that
            nothing was fitted for; None: every GPU of the table.
        table, part, dtypes, source, same_split: which rows (`dse.validation.measured_split.judged_and_fitted`). The
            roofline is fitted on the part "fit" of the same table.
        preset: sub-space of the GPU's fastest family; a type may have one of its own (`preset_of`).
        rows_per_gpu: judge at most that many rows a GPU and data type, drawn with a fixed seed.
        common_shapes: only shapes that the table has of every one of the GPUs, the same ones of each.
        progress: called with a line of text before each GPU and data type; None: silent.

    Returns:
        One entry a GPU and data type, sorted by type, then in the order of `gpus`.

    Raises:
        UserError: a GPU that has no file or that the table has no rows of, to judge or to fit on; a data type that the
            GPU does not have; a dimension that is not allowed; or what reading the table raises.
    """
    if rows_per_gpu is not None and rows_per_gpu < 1:
        raise UserError(f"rows_per_gpu = {rows_per_gpu}: at least 1")
    judged, fitted = judged_and_fitted(table, part, dtypes, source, same_split)
    systems = sorted(judged["system"].unique())
    for name in gpus or ():
        if name not in systems:
            raise unknown("GPU in the measured table", name, systems)
    files = dict(gpus) if isinstance(gpus, Mapping) else {name: name for name in gpus or systems}
    judged = judged[judged["system"].isin(list(files))]
    if common_shapes:
        judged = _common(judged, len(files))
    results = []
    for dtype in sorted(judged["dtype"].unique()):
        for name, file in files.items():
            rows = _drawn(_of(judged, name, dtype), rows_per_gpu)
            if len(rows):
                gpu = file if isinstance(file, GpuFile) else load_gpu(file)
                if progress is not None:
                    progress(f"{name} {dtype}: {len(rows)} shapes over the preset {preset}")
                results.append(_validate(name, dtype, gpu, rows, _of(fitted, name, dtype), part, preset))
    return results


def all_rows(results: Sequence[GpuValidation]) -> "pd.DataFrame":
    """The validated rows of all GPUs and data types in one table."""
    import pandas as pd

    return pd.concat([result.rows for result in results], ignore_index=True)


def pooled(results: Sequence[GpuValidation], method: str = "model") -> Errors:
    """Errors over the rows of all GPUs together; method "model", "roofline" or "nvmatmul"."""
    return errors_of(all_rows(results))[method]


def _validate(
    name: str, dtype: str, gpu: GpuFile, rows: "pd.DataFrame", fit: "pd.DataFrame", part: str, preset: str
) -> GpuValidation:
    if fit.empty:
        raise UserError(
            f"the table has no rows of {name} in the part fit ({dtype}): the roofline beside the model needs some"
        )
    if dtype not in DTYPE_BYTES:
        raise unknown("dtype", dtype, DTYPE_BYTES, "rename it in the table's column dtype")
    if dtype not in gpu.dtypes():
        raise UserError(
            f"{gpu.name} has no tensor rate for {dtype}, but the table has {len(rows)} rows of it; it has "
            f"{', '.join(gpu.dtypes())}; leave them out with --dtype"
        )
    space = load_space("gemm", gpu.families(dtype)[0], dtype, preset=preset_of(gpu.families(dtype)[0], dtype, preset))
    quantised = rows["quantise_a"].to_numpy(bool) if "quantise_a" in rows else np.zeros(len(rows), bool)
    sizes_of = rows[["m", "n", "k"]].itertuples(index=False)
    problems = [_problem(dtype, bool(made), *sizes) for made, sizes in zip(quantised, sizes_of, strict=True)]
    best = best_schedules(problems, space, gpu)
    shape = [rows[side].to_numpy(float) for side in ("m", "n", "k")]
    chosen = space.rows(best.index)
    rows = rows.assign(
        model_us=np.asarray(best.latency_s, float) * 1e6,
        roofline_us=fit_roofline(fit, DTYPE_BYTES[dtype]).latency_s(*shape) * 1e6,
        schedule_index=best.index,
        schedule=[format_schedule({f: v[at] for f, v in chosen.items()}) for at in range(len(rows))],
        latency_bucket=latency_bucket(rows["latency_us"].to_numpy(float)),
        shape_class=shape_classes(*shape),
    )
    same_tile, notes = None, []
    sources = tuple(sorted(map(str, rows["source"].dropna().unique()))) if "source" in rows else ()
    if len(sources) > 1:
        notes.append(f"{name} {dtype}: {len(sources)} sources are judged together; --source takes one")
    if part == "fit" or "part" not in rows:
        notes.append(f"{name}: the roofline is judged on the rows it is fitted on")
    if nvmatmul.is_installed():
        sizes = [(problem.m, problem.n, problem.k) for problem in problems]
        picks = nvmatmul.heuristic_picks(sizes, gpu.name if gpu.name in nvmatmul.GPUS else name, dtype)
        if isinstance(picks, str):
            notes.append(picks)
        else:
            rows = rows.assign(nvmatmul_us=picks.latency_us, nvmatmul_pick=picks.text)
            same_tile = _same_tile(chosen, picks.tile)
            notes.append(f"nvMatmulHeuristics {picks.version} was asked; its times are made to order kernels")
    return GpuValidation(
        gpu=name,
        dtype=dtype,
        gpu_file=gpu.name,
        space=space.name,
        schedules=space.size,
        sources=sources,
        errors=errors_of(rows),
        rows=rows,
        same_tile=same_tile,
        notes=tuple(notes),
    )


def _problem(dtype: str, quantise_a: bool, *sizes: float) -> GemmProblem:
    whole = (int(size) if size == int(size) else size for size in sizes)
    return GemmProblem(*whole, dtype=dtype, quantise_a=quantise_a).checked()  # type: ignore[arg-type]


def _same_tile(chosen: Mapping[str, np.ndarray], tile: np.ndarray) -> float:
    ours = np.stack([chosen["tile_m"], chosen["tile_n"]], axis=1)
    ours = np.where(chosen["swap_ab"][:, None] > 0, ours[:, ::-1], ours)
    return float((ours == tile).all(axis=1).mean())


def _of(rows: "pd.DataFrame", name: str, dtype: str) -> "pd.DataFrame":
    return rows[(rows["system"] == name) & (rows["dtype"] == dtype)]


def _common(rows: "pd.DataFrame", systems: int) -> "pd.DataFrame":
    """Rows whose shape every system has, sorted so that the same draw takes the same shapes of each."""
    shape = ["dtype", "m", "n", "k"]
    kept = rows[rows.groupby(shape)["system"].transform("nunique") == systems]
    if kept.empty:
        names = ", ".join(sorted(rows["system"].unique()))
        raise UserError(f"the table has no shape that was measured on all of {names} in the part that is judged")
    if kept.duplicated(["system", *shape]).any():
        fix = "choose one with --source" if "source" in kept else "keep one row a shape and GPU"
        raise UserError(
            f"the table has several rows of one shape on one GPU, which cannot be matched one to one; {fix}"
        )
    return kept.sort_values(["system", *shape], ignore_index=True)


def _drawn(rows: "pd.DataFrame", count: int | None) -> "pd.DataFrame":
    if count is None or count >= len(rows):
        return rows
    return rows.sample(count, random_state=0)
