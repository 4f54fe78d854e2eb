"""A natural experiment: the speed-up from one GPU to another, predicted against measured, row by row."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..content.gpu import GpuFile
from ..errors import UserError
from .error_tables import METHODS, pair_labels
from .latency_errors import Errors, errors
from .validate import all_rows, validate_gemm

if TYPE_CHECKING:
    import pandas as pd

SHAPE = ["dtype", "m", "n", "k"]
ABOUT = ["latency_bucket", "shape_class"]


@dataclass(frozen=True)
class SpeedUp:
    """Speed-ups latency(base) / latency(other) of the shapes that were measured on both GPUs.

    Attributes:
        base, other: names.
        measured_median, measured_range: of the measured speed-ups; the range holds 90 % of them.
        errors: method -> errors of the predicted speed-up, per cent of the measured one: "model", "roofline", and
            "constant", the median measured speed-up for every shape (a yardstick made with hindsight).
        spearman: method -> rank correlation of predicted and measured speed-ups over the rows; NaN where one of them
            does not vary.
        rows: one row a shape: measured and predicted speed-ups, columns measured, model, roofline.
    """

    base: str
    other: str
    measured_median: float
    measured_range: tuple[float, float]
    errors: Mapping[str, Errors]
    spearman: Mapping[str, float]
    rows: "pd.DataFrame"

    def to_dict(self) -> dict[str, Any]:
        """Numbers only, for JSON: no rows."""
        return {
            "base": self.base,
            "other": self.other,
            "measured_median": self.measured_median,
            "measured_range": list(self.measured_range),
            "errors": {method: found.to_dict() for method, found in self.errors.items()},
            "spearman": dict(self.spearman),
        }


def speedups(rows: "pd.DataFrame", base: str, other: str) -> SpeedUp:
    """Speed-ups from validated rows (`dse.validation.validate.all_rows`) of two GPUs.

    Raises:
        UserError: the rows have no shape of both.
    """
    columns = {method: column for method, column in METHODS.items() if column in rows}
    sides = [
        rows[rows["system"] == name].drop_duplicates(SHAPE)[[*SHAPE, *ABOUT, "latency_us", *columns.values()]]
        for name in (base, other)
    ]
    both = sides[0].merge(sides[1].drop(columns=ABOUT), on=SHAPE, suffixes=("", "_other"))
    if both.empty:
        raise UserError(f"no shape was measured on both {base} and {other}; give a --table that has both")
    ratio = both[[*SHAPE, *ABOUT]].assign(measured=both["latency_us"] / both["latency_us_other"])
    for method, column in columns.items():
        ratio[method] = both[column] / both[f"{column}_other"]
    measured, pairs = ratio["measured"].to_numpy(float), pair_labels(ratio)
    predicted = {method: ratio[method].to_numpy(float) for method in columns if ratio[method].notna().all()}
    constant = {"constant": np.full(len(measured), np.median(measured))}
    return SpeedUp(
        base=base,
        other=other,
        measured_median=float(np.median(measured)),
        measured_range=(float(np.quantile(measured, 0.05)), float(np.quantile(measured, 0.95))),
        errors={method: errors(values, measured, pairs) for method, values in (predicted | constant).items()},
        spearman={
            method: float(ratio[method].rank().corr(ratio["measured"].rank())) if np.ptp(values) else np.nan
            for method, values in predicted.items()
        },
        rows=ratio,
    )


def speedup_gemm(
    base: str,
    other: str,
    table: str | os.PathLike[str] | None = None,
    part: str = "check",
    preset: str = "library",
    shapes: int | None = None,
    files: Mapping[str, str | GpuFile] | None = None,
    **rows: Any,
) -> SpeedUp:
    """Predicts the shapes that were measured on both GPUs and compares the speed-ups.

    Errors that the GPUs share (a library that picks badly, a term that both lack) cancel in the ratio; what is left is
    what the GPUs' numbers explain of their difference.

    Args:
        base, other: names in the table; above 1, `other` is faster.
        table, part, preset: as in `validate_gemm`.
        shapes: at most that many, drawn with a fixed seed.
        files: name in the table -> the GPU file that stands for it; by default the one of that name.
        rows: further arguments of `validate_gemm`: dtypes, source, same_split, progress.

    Raises:
        UserError: twice the same GPU, no shape of both, or what `validate_gemm` raises.
    """
    if base == other:
        raise UserError(f"a speed-up is between two GPUs, not {base} and itself; write e.g. h100_sxm:h200_sxm")
    gpus = {name: (files or {}).get(name, name) for name in (base, other)}
    results = validate_gemm(gpus, table, part, preset, shapes, common_shapes=True, **rows)
    return speedups(all_rows(results), base, other)
