"""Fused MoE layers against measured ones: the schedule that a framework's config gives, or the best of a space."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..compiled import jit
from ..content.gpu import GpuFile, load_gpu
from ..content.space import load_space
from ..errors import UserError
from .latency_errors import Errors, errors
from .moe_table import TUNED, load_measured_moe, problem_of_row, stacked_problems, triton_schedule

if TYPE_CHECKING:
    import pandas as pd

    from jaxmodel.machine import Gpu

SMALL_TILE = 64  # rows below which Triton multiplies with mma.sync, wherever it runs
PRESETS = {"trtllm_cutlass": "cutlass", "trtllm_deepgemm": "deepgemm", "flashinfer_cutlass_fp8": "deepgemm"}
CHUNK = 2**16  # candidates of all rows at once: what stays in cache is faster


@dataclass(frozen=True)
class MoeValidation:
    """One (GPU, implementation).

    Attributes:
        gpu, implementation: names.
        rows: the judged rows with `model_us`.
        model: errors over them.
    """

    gpu: str
    implementation: str
    rows: "pd.DataFrame"
    model: Errors

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {"gpu": self.gpu, "implementation": self.implementation, "model": self.model.to_dict()}


def validate_moe(
    table: str | None = None,
    part: str | None = "report",
    gpus: Mapping[str, str] | None = None,
    implementations: tuple[str, ...] | None = None,
    progress: Any = None,
) -> list[MoeValidation]:
    """Predictions beside measured layers, a result a (GPU, implementation) of the table.

    Args:
        table: see `load_measured_moe`.
        part: "fit", "report" or None, all rows.
        gpus: GPU of the table -> GPU file; None: all with the file of their name.
        implementations: only these; None: all.
        progress: called with a line now and then.

    Raises:
        UserError: see `load_measured_moe`; or nothing is left of the table.
    """
    rows = load_measured_moe(table, part)
    if gpus is not None:
        rows = rows[rows["system"].isin(gpus)]
    if implementations is not None:
        rows = rows[rows["implementation"].isin(implementations)]
    if rows.empty:
        raise UserError(
            "no row of the table is of these GPUs and implementations: see its columns system, implementation"
        )
    found = []
    for (system, implementation), group in rows.groupby(["system", "implementation"]):
        if progress is not None:
            progress(f"{system} {implementation}: {len(group)} rows")
        file = load_gpu((gpus or {}).get(str(system), str(system)))
        predicted = predict_moe(group, file, str(implementation))
        judged = group.assign(model_us=1e6 * predicted)
        groups = judged[["hidden", "inter", "experts", "topk"]].astype(str).agg("x".join, axis=1)
        found.append(
            MoeValidation(
                str(system),
                str(implementation),
                judged,
                errors(judged["model_us"].to_numpy(), judged["latency_us"].to_numpy(float), groups.to_numpy()),
            )
        )
    return found


def pooled(results: list[MoeValidation]) -> Errors:
    """Errors over all rows together; intervals resample whole (hidden, inter, experts, topk) combinations."""
    import pandas as pd

    rows = pd.concat([result.rows for result in results], ignore_index=True)
    groups = rows[["hidden", "inter", "experts", "topk"]].astype(str).agg("x".join, axis=1)
    return errors(rows["model_us"].to_numpy(), rows["latency_us"].to_numpy(float), groups.to_numpy())


def predict_moe(rows: "pd.DataFrame", file: GpuFile, implementation: str) -> np.ndarray:
    """Predicted seconds of rows of one implementation and type on a GPU.

    A row whose framework read its schedule from a config is predicted with that; one of an autotuned library with the
    best of the library's preset.
    """

    problems = [problem_of_row(row) for row in rows.itertuples()]
    named = [_with_implementation(problem, file, implementation) for problem in problems]
    stacked = stacked_problems(named)
    dtype = str(rows["dtype"].iloc[0])
    if (rows["config"] == TUNED).all():
        return _best_of_space(stacked, len(rows), file, dtype, PRESETS[implementation])
    latency = jit(latency_s)
    wide = np.asarray(latency(stacked, schedule_record(triton_schedule(rows, True)), bound(file, dtype, True)))
    if file.families("bf16")[0] == "mma_sync":
        return np.asarray(
            latency(stacked, schedule_record(triton_schedule(rows, False)), bound(file, dtype, False)), np.float64
        )
    small = np.asarray(latency(stacked, schedule_record(triton_schedule(rows, False)), bound(file, dtype, False)))
    return np.where(rows["tile_m"].to_numpy() < SMALL_TILE, small, wide).astype(np.float64)


def bound(file: GpuFile, dtype: str, wide_tiles: bool) -> "Gpu":
    """The GPU with its best instruction family, or with mma.sync, which multiplies narrow types that it does not take
    as bf16 (Triton widens them first)."""
    import dataclasses

    if wide_tiles:
        return file.bind(dtype)
    if dtype in file.dtypes("mma_sync"):
        return file.bind(dtype, family="mma_sync")
    gpu = file.bind("bf16", family="mma_sync")
    own = {name: np.float32(datum.number) for name, datum in file.by_dtype.get(dtype, {}).items()}
    return dataclasses.replace(gpu, **own)


def schedule_record(columns: Mapping[str, np.ndarray]) -> Any:
    """A `MoeSchedule` in float32."""
    from jaxmodel.kernels.moe_types import MoeSchedule

    return MoeSchedule(**{name: np.asarray(value, np.float32) for name, value in columns.items()})


def latency_s(problem: Any, schedule: Any, gpu: Any) -> Any:
    """The model's latency alone, whether or not the schedule fits: a measured one did."""
    from jaxmodel.kernels import moe

    return moe.cost(problem, schedule, gpu).latency_s


def library_schedules(file: GpuFile, dtype: str, preset: str) -> dict[str, np.ndarray]:
    """Columns of every schedule of a preset, in the space of the GPU's best family."""
    space = load_space("moe", file.families(dtype)[0], dtype=dtype, preset=preset)
    rows = [space.schedule(index) for index in range(space.size)]
    return {name: np.array([row[name] for row in rows], np.float64) for name in rows[0]}


def _best_of_space(problems: Any, count: int, file: GpuFile, dtype: str, preset: str) -> np.ndarray:
    import jax
    import jax.numpy as jnp

    from jaxmodel.kernels import moe

    columns = library_schedules(file, dtype, preset)
    schedule, gpu = schedule_record(columns), bound(file, dtype, True)

    @jit
    def best(problem: Any) -> Any:
        cost = moe.cost(jax.tree.map(lambda leaf: leaf[:, None], problem), schedule, gpu)
        return jnp.min(jnp.where(cost.reason == 0, cost.latency_s, jnp.inf), axis=1)

    size = max(CHUNK // len(columns["tile_m"]), 1)
    found = [np.asarray(best(part)) for part in _parts(problems, count, size)]
    return np.concatenate(found)[:count].astype(np.float64)


def _parts(problems: Any, count: int, size: int) -> Iterator[Any]:
    """Equal parts of the rows, so that one compiled shape serves all; the last is filled up with its first row."""
    import jax

    for start in range(0, count, size):
        place = np.minimum(np.arange(start, start + size), count - 1)
        yield jax.tree.map(lambda leaf, place=place: leaf[place], problems)


def _with_implementation(problem: Any, file: GpuFile, implementation: str) -> Any:
    import dataclasses

    return dataclasses.replace(problem, implementation=implementation).on(file)
