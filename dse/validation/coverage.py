"""Do the intervals hold what they promise? Coverage on shapes and on whole GPUs that were left out."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from ..content.gpu import GpuFile
from ..trust.elsewhere import elsewhere_cells
from ..trust.label import LEVEL, bucket_interval
from ..trust.nearest import nearest_validated, record_numbers
from ..trust.residuals import Cells, ResidualTable
from .error_tables import pair_labels
from .latency_errors import drawn_times, percentile_interval

if TYPE_CHECKING:
    import pandas as pd

SEEDS = tuple(range(8))
AXES = {"gpu": "system", "dtype": "dtype", "latency": "bucket", "class": "shape_class"}


@dataclass(frozen=True)
class Coverage:
    """How many measured latencies lie within their intervals.

    Attributes:
        at: axis -> value; empty: all rows.
        rows, pairs: judged shapes, and distinct (n, k).
        covered: share of the rows that lie within.
        interval: 95 % bootstrap interval of that, resampling pairs; None with fewer than two.
        below, above: shares that lie below and above.
        width: median of high over low, less 1.
    """

    at: Mapping[str, str]
    rows: int
    pairs: int
    covered: float
    interval: tuple[float, float] | None
    below: float
    above: float
    width: float

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        found = {name: value for name, value in vars(self).items() if name != "at"}
        return {**self.at, **found, "interval": list(self.interval) if self.interval else None}


def with_intervals(table: ResidualTable, rows: "pd.DataFrame", level: float = LEVEL) -> "pd.DataFrame":
    """Rows with the interval that the table gives to a GPU it has validated.

    Args:
        table: of residuals.
        rows: `residual_rows`; GPUs and data types that the table has validated.

    Returns:
        The rows with log_low and log_high, the ends of log(measured / predicted).
    """

    return _with_ends(rows, _own_cells(table), level)


def with_intervals_elsewhere(
    table: ResidualTable, rows: "pd.DataFrame", files: Mapping[str, GpuFile], level: float = LEVEL
) -> "pd.DataFrame":
    """Rows of GPUs with the interval that they would have had they not been measured: each is left out in turn.

    Args:
        table: of residuals; all that it knows of a row's GPU is left out for that row.
        rows: predicted with `files`.
        files: name -> the file without a fit on the GPU.

    Returns:
        As `with_intervals`.
    """

    def cells(gpu: str, dtype: str) -> tuple[Cells, Cells | None]:
        others, file = table.without(gpu), files[gpu]
        numbers = record_numbers(file.bind(dtype))
        nearest = nearest_validated(others, numbers, dtype, file.families(dtype)[0])
        return nearest.validated.cells, elsewhere_cells(others, dtype)[0]

    return _with_ends(rows, cells, level)


def cross_validated(
    rows: "pd.DataFrame",
    build: Callable[["pd.DataFrame"], ResidualTable],
    seeds: Sequence[int] = SEEDS,
    level: float = LEVEL,
    judge: str | None = None,
) -> "list[pd.DataFrame]":
    """Rows with intervals that are built on half of the pairs and held against the other half, once for each seed.

    Args:
        rows: `residual_rows`.
        build: makes a table of rows.
        seeds: one deal of the pairs each.
        judge: only rows of that part are judged; None: all.

    Returns:
        The judged rows of each seed, see `with_intervals`.
    """
    pair = pair_labels(rows)
    found = []
    for seed in seeds:
        held = np.random.default_rng(seed).permutation(pair.max() + 1) < (pair.max() + 1) // 2
        judged = rows[held[pair]]
        if judge is not None:
            judged = judged[judged["part"] == judge]
        found.append(with_intervals(build(rows[~held[pair]]), judged, level))
    return found


def with_intervals_of_other_kinds(
    rows: "pd.DataFrame", build: Callable[["pd.DataFrame"], ResidualTable], axis: str, level: float = LEVEL
) -> "pd.DataFrame":
    """Rows with the interval that a problem outside of the measured gets: each class, or bucket, is left out in turn.

    Args:
        rows: `residual_rows`.
        build: makes a table of rows.
        axis: "class" or "latency".
        level: of the intervals.

    Returns:
        As `with_intervals`.
    """
    import pandas as pd

    kind = rows[AXES[axis]]
    found = [
        _with_ends(rows[kind == name], _own_cells(build(rows[kind != name])), level, widest=True)
        for name in sorted(kind.unique())
    ]
    return pd.concat(found, ignore_index=True)


def coverage(rows: "pd.DataFrame", by: Sequence[str] = ()) -> list[Coverage]:
    """Coverage for every combination of values of some axes.

    Args:
        rows: with intervals.
        by: of "gpu", "dtype", "latency" (predicted), "class"; none: all rows together.
    """
    groups = rows.groupby([AXES[axis] for axis in by], sort=True) if by else [((), rows)]
    return [_coverage(dict(zip(by, map(str, values), strict=True)), some) for values, some in groups]


def _coverage(at: Mapping[str, str], rows: "pd.DataFrame") -> Coverage:
    ratio, low, high = (rows[name].to_numpy(float) for name in ("log_ratio", "log_low", "log_high"))
    inside = (ratio >= low) & (ratio <= high)
    pair = pair_labels(rows)
    pairs = int(pair.max()) + 1
    interval = None
    if pairs > 1:
        times = drawn_times(pairs)
        interval = percentile_interval((times @ np.bincount(pair, inside, pairs)) / (times @ np.bincount(pair)))
    return Coverage(
        at=at,
        rows=len(rows),
        pairs=pairs,
        covered=float(inside.mean()),
        interval=interval,
        below=float((ratio < low).mean()),
        above=float((ratio > high).mean()),
        width=float(np.median(np.expm1(high - low))),
    )


def _own_cells(table: ResidualTable) -> Callable[[str, str], tuple[Cells, None]]:
    def cells(gpu: str, dtype: str) -> tuple[Cells, None]:
        validated = table.of(gpu, dtype)
        assert validated is not None, (gpu, dtype)
        return validated.cells, None

    return cells


def _with_ends(
    rows: "pd.DataFrame",
    cells: Callable[[str, str], tuple[Cells, Cells | None]],
    level: float,
    widest: bool = False,
) -> "pd.DataFrame":
    ends = np.empty((len(rows), 2))
    of = {key: cells(*map(str, key)) for key, _ in rows.groupby(["system", "dtype"])}
    keys = ["system", "dtype", "shape_class", "bucket"]
    for key, places in rows.groupby(keys).indices.items():
        gpu, dtype, shape_class, bucket = cast(tuple[str, str, str, str], key)
        own, elsewhere = of[gpu, dtype]
        at = bucket_interval(own, shape_class, bucket, level, widest, elsewhere)
        ends[places] = np.log([at.low, at.high])
    return rows.assign(log_low=ends[:, 0], log_high=ends[:, 1])
