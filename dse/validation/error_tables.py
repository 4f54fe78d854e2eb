"""Validated rows broken down: by GPU, data type, latency and shape class; bias over GPUs; spread between sources."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import unknown
from ..latency_bucket import BUCKETS
from ..shape_class import CLASSES
from .latency_errors import Errors, drawn_times, errors, percentile_interval

if TYPE_CHECKING:
    import pandas as pd

METHODS = {"model": "model_us", "roofline": "roofline_us", "nvmatmul": "nvmatmul_us"}  # method -> column
AXES = {"gpu": "system", "dtype": "dtype", "latency": "latency_bucket", "class": "shape_class"}  # axis -> column


@dataclass(frozen=True)
class Cell:
    """Errors on the rows of one GPU, data type, latency bucket, shape class, or a combination of them.

    Attributes:
        at: axis -> value, e.g. {"gpu": "h100_sxm", "class": "decode"}.
        errors: method -> its errors; "model", "roofline" and, where nvMatmulHeuristics gave times, "nvmatmul".
    """

    at: Mapping[str, str]
    errors: Mapping[str, Errors]

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {**self.at, **{method: found.to_dict() for method, found in self.errors.items()}}


@dataclass(frozen=True)
class Estimate:
    """A number with its 95 % bootstrap interval; None where there is only one (n, k) pair."""

    value: float
    interval: tuple[float, float] | None


@dataclass(frozen=True)
class BucketBias:
    """The model's bias over all GPUs in one bucket of measured latency, per cent; negative: predicted too fast.

    Attributes:
        dtype: of the operands.
        bucket: one of `dse.latency_bucket.BUCKETS`, of the measured latency.
        count, gpus: rows, and GPUs that have any.
        by_rows: mean over rows.
        by_gpus: mean of the GPUs' biases, each GPU counting the same.
    """

    dtype: str
    bucket: str
    count: int
    gpus: int
    by_rows: Estimate
    by_gpus: Estimate


@dataclass(frozen=True)
class SourceSpread:
    """How far apart several sources are that timed the same shape on the same GPU, and the errors on those rows.

    Attributes:
        at: axis -> value.
        count, all_rows: rows that more than one source timed, and all rows.
        spread: mean of slowest over fastest source, less 1, per cent: what one measurement may differ from another by.
        errors: method -> its errors on the rows that were timed more than once.
    """

    at: Mapping[str, str]
    count: int
    all_rows: int
    spread: float
    errors: Mapping[str, Errors]

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        numbers = {"rows": self.count, "all_rows": self.all_rows, "spread_percent": self.spread}
        return {**self.at, **numbers, **{method: found.to_dict() for method, found in self.errors.items()}}


def errors_of(rows: "pd.DataFrame") -> dict[str, Errors]:
    """Method -> errors, of every method that predicted some of the rows (`validate_gemm` makes them).

    A method that has no prediction for a row is judged on the others.
    """
    found = {}
    for method, column in METHODS.items():
        if column in rows and rows[column].notna().any():
            some = rows[rows[column].notna()]
            found[method] = errors(some[column].to_numpy(), some["latency_us"].to_numpy(), pair_labels(some))
    return found


def pair_labels(rows: "pd.DataFrame") -> np.ndarray:
    """A whole number a row, equal for equal (n, k): a pair keeps its label on every GPU."""
    return rows.groupby(["n", "k"], sort=True).ngroup().to_numpy()


def breakdown(rows: "pd.DataFrame", by: Sequence[str]) -> list[Cell]:
    """Errors for every combination of values of some axes that has rows, in the axes' natural order.

    Args:
        rows: validated rows, of one or of several GPUs.
        by: axes, of `AXES`; none: one cell with all rows.

    Raises:
        UserError: an unknown axis.
    """
    return [Cell(at, errors_of(some)) for at, some in _groups(rows, by)]


def pooled_bias(rows: "pd.DataFrame") -> list[BucketBias]:
    """The model's bias over all GPUs by data type and latency bucket, by rows and with equal weights for the GPUs."""
    found = []
    for at, some in _groups(rows, ["dtype", "latency"]):
        relative = _relative(some, "model_us")
        gpu = some["system"].to_numpy()
        found.append(
            BucketBias(
                dtype=at["dtype"],
                bucket=at["latency"],
                count=len(some),
                gpus=len(np.unique(gpu)),
                by_rows=_mean_of_groups(relative, pair_labels(some), np.zeros(len(some))),
                by_gpus=_mean_of_groups(relative, pair_labels(some), gpu),
            )
        )
    return found


def mean_of_gpus(rows: "pd.DataFrame") -> dict[str, dict[str, Estimate]]:
    """Data type -> method -> mean of the GPUs' mean absolute errors, each GPU counting the same, per cent.

    Methods that predicted only some of the rows are left out.
    """
    found = {}
    for at, some in _groups(rows, ["dtype"]):
        gpu, pair = some["system"].to_numpy(), pair_labels(some)
        found[at["dtype"]] = {
            method: _mean_of_groups(np.abs(_relative(some, column)), pair, gpu)
            for method, column in METHODS.items()
            if column in some and some[column].notna().all()
        }
    return found


def source_spread(rows: "pd.DataFrame", by: Sequence[str] = ("gpu",)) -> list[SourceSpread]:
    """Spread between sources beside the errors, on rows that more than one source timed.

    Args:
        rows: validated rows; without the columns `spread` (slowest over fastest) and `n_sources` the list is empty.
        by: axes, of `AXES`.
    """
    if not {"spread", "n_sources"} <= set(rows.columns):
        return []
    found = []
    for at, some in _groups(rows, by):
        several = some[(some["n_sources"] > 1) & some["spread"].notna()]
        if len(several):
            spread = 100.0 * (float(several["spread"].mean()) - 1.0)
            found.append(SourceSpread(at, len(several), len(some), spread, errors_of(several)))
    return found


def _relative(rows: "pd.DataFrame", column: str) -> np.ndarray:
    return 100.0 * (rows[column].to_numpy(float) / rows["latency_us"].to_numpy(float) - 1.0)


def _mean_of_groups(values: np.ndarray, pair: np.ndarray, group: np.ndarray) -> Estimate:
    """Mean of the groups' means; the bootstrap draws pairs, of all groups together."""
    members = [(values[group == name], pair[group == name]) for name in np.unique(group)]
    value = float(np.mean([own.mean() for own, _ in members]))
    pairs = int(pair.max()) + 1
    if pairs < 2:
        return Estimate(value, None)
    times = drawn_times(pairs)
    sums = np.stack([times @ np.bincount(labels, own, pairs) for own, labels in members])
    counts = np.stack([times @ np.bincount(labels, minlength=pairs) for _, labels in members])
    drawn = counts > 0  # a draw may hold none of a group's pairs
    means = np.divide(sums, counts, out=np.zeros_like(sums), where=drawn)
    return Estimate(value, percentile_interval(means.sum(axis=0) / drawn.sum(axis=0)))


def _groups(rows: "pd.DataFrame", by: Sequence[str]) -> "list[tuple[dict[str, str], pd.DataFrame]]":
    for axis in by:
        if axis not in AXES:
            raise unknown("axis", axis, AXES)
    if not by:
        return [({}, rows)]
    orders = {"latency": list(BUCKETS), "class": list(CLASSES)}
    groups = rows.groupby([AXES[axis] for axis in by], sort=True)

    def place(values: tuple[str, ...]) -> list[Any]:
        return [orders[axis].index(value) if axis in orders else value for axis, value in zip(by, values, strict=True)]

    keyed = {tuple(map(str, values)): some for values, some in groups}
    return [(dict(zip(by, values, strict=True)), keyed[values]) for values in sorted(keyed, key=place)]
