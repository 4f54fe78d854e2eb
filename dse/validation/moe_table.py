"""Measured MoE layers: the packaged sample or a table like it, and its rows as problems and schedules of the model."""

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from ..content.files import content_files, home_expanded
from ..errors import UserError, unknown
from ..kernels.moe import MoeProblem
from ..kernels.routing import CLASSES, Classes, expert_classes
from .measured_table import require_columns

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = (
    "system", "implementation", "dtype", "hidden", "inter", "experts", "topk", "tp", "ep", "tokens", "distribution",
    "gated", "rank_rows", "rank_tokens", "config", "tile_m", "tile_n", "tile_k", "group_m", "warps", "stages",
    "latency_us",
)  # fmt: skip
PARTS = ("fit", "report")
TUNED = "tuned"  # a library's autotuner chose the schedule


def load_measured_moe(table: str | os.PathLike[str] | None = None, part: str | None = "report") -> "pd.DataFrame":
    """Measured latencies of fused MoE layers.

    Args:
        table: Parquet with the columns `COLUMNS`; None: the packaged sample (studies/measured/README.md).
        part: "fit" or "report", where the table has a column `part`; None: all rows.

    Raises:
        UserError: no such file, one that cannot be read, a missing column, an unknown part, no row left.
    """
    import pandas as pd
    import pyarrow as pa

    path = home_expanded(table) if table is not None else content_files("studies/measured", ".parquet")["moe"]
    if not path.is_file():
        raise UserError(f"no table at {path}; make one like studies/measured/moe.parquet: scripts/make_moe_sample.py")
    try:
        rows = pd.read_parquet(path.absolute())
    except (OSError, ValueError, pa.ArrowException) as error:
        raise UserError(f"{path} is not a readable Parquet file ({error})") from None
    require_columns(path, rows, COLUMNS)
    if part is not None and "part" in rows.columns:
        if part not in PARTS:
            raise unknown("part", part, PARTS)
        rows = rows[rows["part"] == part]
    if rows.empty:
        raise UserError(f"{path} has no row (part {part})")
    return rows.reset_index(drop=True)


def problem_of_row(row: Any) -> MoeProblem:
    """The problem that a row's rank worked on, without the implementation's numbers.

    A rank that was handed only its own tokens (`rank_rows` "local", "clamped") sees `rank_tokens` of them; "clamped":
    rows of experts elsewhere all went to its first expert.
    """
    classes = expert_classes(row.distribution, int(row.tokens), int(row.experts), int(row.topk), int(row.ep))
    if row.rank_rows == "clamped":
        classes = _with_rows_at_one_expert(classes, int(row.rank_tokens) * int(row.topk))
    return MoeProblem(
        tokens=int(row.rank_tokens),
        hidden=int(row.hidden),
        inter=int(row.inter),
        experts=int(row.experts),
        topk=int(row.topk),
        dtype=str(row.dtype),
        tp=int(row.tp),
        ep=int(row.ep),
        gated=bool(row.gated),
        given_classes=classes,
    )


def stacked_problems(problems: list[MoeProblem], float_dtype: Any = np.float32) -> Any:
    """The model's record of many problems of one type: a leaf an array over them, every class list of one length."""
    import dataclasses

    import jax

    from jaxmodel.kernels.grouped_gemm_types import ExpertClass

    empty = ExpertClass(rows=float_dtype(1), experts=float_dtype(0))
    records = []
    for problem in problems:
        record = problem.arrays(float_dtype)
        more = (empty,) * (CLASSES + 1 - len(record.classes))
        records.append(dataclasses.replace(record, classes=record.classes + more))
    return jax.tree.map(lambda *leaves: np.stack(leaves), *records)


def triton_schedule(rows: "pd.DataFrame", wide_tiles: bool) -> dict[str, np.ndarray]:
    """Columns of a `MoeSchedule` from configs of Triton's fused MoE kernel, a row each.

    Args:
        rows: columns tile_m, tile_n, tile_k, group_m, warps, stages.
        wide_tiles: as wgmma or tcgen05 runs it; else as mma.sync does, whose pipeline holds a buffer fewer than its
            `num_stages`.
    """
    column = {name: rows[name].to_numpy(np.float64) for name in ("tile_m", "tile_n", "tile_k", "warps", "stages")}
    one, none = np.ones(len(rows)), np.zeros(len(rows))
    along_m = column["warps"] if wide_tiles else np.minimum(column["warps"], np.maximum(column["tile_m"] / 16, 1))
    buffers = column["stages"] if wide_tiles else np.maximum(column["stages"] - 1, 1)
    return {
        "tile_m": column["tile_m"],
        "tile_n": column["tile_n"],
        "tile_k": column["tile_k"],
        "stages": buffers,
        "warps_m": along_m,
        "warps_n": column["warps"] / along_m,
        "swap_ab": none,
        "raster_along_n": one,
        "swizzle": rows["group_m"].to_numpy(np.float64),
        "persistent": none,
        "epilogue": none,
        "producers": none,
        "cta_pair": none,
        "down_tile_m": none,
        "down_tile_n": none,
        "down_depth": one,
        "down_stages": none,
        "down_warps_m": none,
    }


def _with_rows_at_one_expert(classes: Classes, total: int) -> Classes:
    """One expert of the mean size takes what the others leave of `total` rows."""
    rows = sum(a * b for a, b in classes)
    experts = sum(b for _, b in classes)
    left, usual = total - rows, rows / max(experts, 1.0)
    if left < 1 or experts < 1:
        return classes
    fewer = tuple((a, b * (experts - 1.0) / experts) for a, b in classes)
    return ((float(round(left + usual)), 1.0), *fewer)
