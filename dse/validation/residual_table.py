"""Residuals of validated shapes -> the table that intervals are read from (`dse.trust.residuals`)."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..content.dtypes import DTYPE_BYTES
from ..content.gpu import GpuFile
from ..errors import UserError
from ..latency_bucket import BUCKETS, latency_bucket
from ..shape_class import CLASSES
from ..trust.nearest import record_numbers
from ..trust.residuals import PROBABILITIES, Cell, Cells, ResidualTable, Unfitted, Validated
from .validate import all_rows, validate_gemm

if TYPE_CHECKING:
    import pandas as pd

GROUPS = ("system", "bucket", "shape_class")  # from all rows down to one cell, each within the one before
PRIOR_PAIRS = (5.0, 10.0, 20.0)  # evidence that the wider group counts as, beside the narrower one's own
COLUMNS = (
    "system",
    "dtype",
    "m",
    "n",
    "k",
    "quantise_a",
    "part",
    "latency_us",
    "model_us",
    "log_ratio",
    "shape_class",
    "bucket",
)
FITTED_PART = "fit"  # of the measured tables: the shapes that numbers were fitted on
OUT_BYTES = DTYPE_BYTES["bf16"]


def residual_rows(
    gpus: Mapping[str, GpuFile],
    tables: Sequence[str | None] = (None,),
    parts: Sequence[str] = ("check",),
    preset: str = "library",
    progress: Callable[[str], None] | None = None,
) -> "pd.DataFrame":
    """Measured shapes with their predicted latency and their residual.

    Args:
        gpus: name in the measured tables -> the file that it is predicted with.
        tables: of measured latencies (`dse.validation.measured_split.judged_and_fitted`); GPUs that a table does not
            have are left out.
        parts: of the tables.
        preset: of the space over which the fastest schedule is taken.
        progress: called with a line of text before each GPU and data type.

    Returns:
        One row a measured shape with the columns `COLUMNS`, those of `validate_gemm` and added here log_ratio (natural
        logarithm of measured over predicted), bucket (of the predicted latency: the measured one is not known where an
        interval is asked for), and part.
    """
    import pandas as pd

    from .measured_split import judged_and_fitted

    found = []
    for table in tables:
        for part in parts:
            has = set(judged_and_fitted(table, part)[0]["system"])
            chosen = {name: file for name, file in gpus.items() if name in has}
            if chosen:
                results = validate_gemm(chosen, table, part, preset, progress=progress)
                found.append(all_rows(results).assign(part=part))
    if not found:
        raise UserError(f"none of the measured tables has rows of {', '.join(gpus)}")
    rows = with_residuals(pd.concat(found, ignore_index=True))
    return rows.reindex(columns=COLUMNS).assign(
        quantise_a=rows["quantise_a"].eq(True) if "quantise_a" in rows else False
    )


def with_residuals(rows: "pd.DataFrame") -> "pd.DataFrame":
    """Validated rows with log_ratio and bucket added, see `residual_rows`."""
    predicted, measured = rows["model_us"].to_numpy(float), rows["latency_us"].to_numpy(float)
    return rows.assign(log_ratio=np.log(measured / predicted), bucket=latency_bucket(predicted))


def build_residuals(
    fitted: "pd.DataFrame",
    unfitted: "pd.DataFrame",
    files: Mapping[str, GpuFile],
    made_from: Mapping[str, Any] | None = None,
) -> ResidualTable:
    """The table of residuals.

    Args:
        fitted: rows (`residual_rows`) predicted with files that were fitted on the part fit; its residuals are widened
            (`without_optimism`).
        unfitted: rows predicted with files whose fitted numbers come from elsewhere; may be empty.
        files: name -> the file that `fitted` was predicted with.
        made_from: kept in the table.
    """
    fitted = without_optimism(fitted)
    validated = []
    for (gpu, dtype), rows in fitted.groupby(["system", "dtype"]):
        file = files[str(gpu)]
        validated.append(
            Validated(
                gpu=str(gpu),
                dtype=str(dtype),
                family=file.families(str(dtype))[0],
                numbers=record_numbers(file.bind(str(dtype))),
                ranges=_ranges(rows, str(dtype)),
                rows=len(rows),
                pairs=len(rows[["n", "k"]].drop_duplicates()),
                quantise_a="quantise_a" in rows
                and bool(rows["quantise_a"].eq(True).any()),  # nan in the rows of other tables
                cells=cells_of(fitted[fitted["dtype"] == dtype], str(gpu)),
            )
        )
    others = [
        Unfitted(str(gpu), str(dtype), cells_of(unfitted[unfitted["dtype"] == dtype], str(gpu)))
        for (gpu, dtype), _ in unfitted.groupby(["system", "dtype"])
    ]
    return ResidualTable(tuple(validated), tuple(others), dict(made_from or {}))


def without_optimism(rows: "pd.DataFrame") -> "pd.DataFrame":
    """Rows whose residuals on shapes that numbers were fitted on are as wide as on shapes that they were not.

    A fit makes its own rows' residuals smaller than others'. They are drawn away from the GPU's median by one factor a
    data type: the mean absolute residual, less that median, on other parts over that on the part fit; not below 1.

    Args:
        rows: `residual_rows`; without rows in the part fit, or without others, they come back as they are.
    """
    import pandas as pd

    rows = rows.reset_index(drop=True)
    if rows.empty:
        return rows
    return pd.concat([_widened(some) for _, some in rows.groupby("dtype")]).sort_index()


def _widened(rows: "pd.DataFrame") -> "pd.DataFrame":
    seen = (rows["part"] == FITTED_PART).to_numpy()
    if seen.all() or not seen.any():
        return rows
    median = rows.groupby("system")["log_ratio"].transform("median").to_numpy()
    off = rows["log_ratio"].to_numpy() - median
    factor = max(np.abs(off[~seen]).mean() / max(np.abs(off[seen]).mean(), 1e-300), 1.0)
    return rows.assign(log_ratio=median + np.where(seen, factor, 1.0) * off)


def cells_of(rows: "pd.DataFrame", gpu: str) -> Cells:
    """Quantiles of a GPU's residuals for every shape class and bucket of predicted latency.

    Rows of one (n, k) are alike, so a cell holds as much evidence as it has pairs, and most have few. Its distribution
    is therefore mixed with that of the group around it: all GPUs <- this GPU <- its bucket <- its bucket and class. A
    group with P effective pairs counts P / (P + `PRIOR_PAIRS`), the group around it the rest; a cell without rows is
    the bucket's. Latency comes before class because residuals change more with it.

    Args:
        rows: `residual_rows` of all GPUs with one data type.
        gpu: whose cells.
    """
    ratio = rows["log_ratio"].to_numpy(float)
    pair = rows.groupby(["n", "k"]).ngroup().to_numpy()
    labels = {name: rows[name].to_numpy(str) for name in GROUPS}
    order = np.argsort(ratio)

    def cell(shape_class: str, bucket: str) -> Cell:
        inside = np.ones(len(rows), bool)
        weight = np.full(len(rows), 1.0 / len(rows))
        for name, prior in zip(GROUPS, PRIOR_PAIRS, strict=True):
            inside &= labels[name] == {"system": gpu, "bucket": bucket, "shape_class": shape_class}[name]
            weight = _mixed(weight, inside, pair, prior)
        below = np.cumsum(weight[order]) - weight[order] / 2.0  # a row stands in the middle of its weight
        quantiles = np.interp(PROBABILITIES, below, ratio[order])
        return Cell(int(inside.sum()), len(np.unique(pair[inside])), tuple(map(float, quantiles)))

    return {shape_class: {bucket: cell(shape_class, bucket) for bucket in BUCKETS} for shape_class in CLASSES}


def effective_pairs(pair: np.ndarray) -> float:
    """How many pairs of equal size say as much as these: (sum of sizes)^2 over the sum of their squares (Kish).

    Args:
        pair: label of the pair a row belongs to.
    """
    sizes = np.unique(pair, return_counts=True)[1].astype(float)
    return float(sizes.sum() ** 2 / np.square(sizes).sum()) if len(sizes) else 0.0


def _mixed(wider: np.ndarray, inside: np.ndarray, pair: np.ndarray, prior: float) -> np.ndarray:
    count = inside.sum()
    if not count:
        return wider
    pairs = effective_pairs(pair[inside])
    share = pairs / (pairs + prior)
    return share * inside / count + (1.0 - share) * wider


def _ranges(rows: "pd.DataFrame", dtype: str) -> dict[str, tuple[float, float]]:
    m, n, k = (rows[side].to_numpy(float) for side in ("m", "n", "k"))
    sizes = {"m": m, "n": n, "k": k, "FLOP": 2.0 * m * n * k}
    sizes["bytes"] = DTYPE_BYTES[dtype] * (m * k + n * k) + OUT_BYTES * m * n
    return {name: (float(values.min()), float(values.max())) for name, values in sizes.items()}
