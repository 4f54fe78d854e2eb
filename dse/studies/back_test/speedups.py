"""Changes of hardware that happened: speed-ups from one GPU to another, predicted and measured, shape by shape."""

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...content.study import Study
from ...figure_file import COLOURS, drawn
from ...latency_bucket import BUCKETS
from ...validation.speedup import SpeedUp, speedup_gemm

if TYPE_CHECKING:
    import pandas as pd

COLUMNS: dict[str, tuple[str, str]] = {  # column -> (unit, meaning)
    "base": ("text", "GPU that the speed-up is from"),
    "other": ("text", "GPU that it is to"),
    "dtype": ("text", "input type"),
    "m": ("1", "rows of the output"),
    "n": ("1", "columns of the output"),
    "k": ("1", "depth"),
    "latency_bucket": ("us", "measured latency on the base GPU"),
    "shape_class": ("text", "kind of shape, dse.shape_class"),
    "measured": ("1", "measured latency on the base GPU over that on the other"),
    "model": ("1", "the same predicted, schedules tuned for each GPU"),
    "roofline": ("1", "the same by a roofline with three fitted constants"),
    "error": ("1", "model over measured, less 1"),
}


def back_test(study: Study, progress: Callable[[str], None] | None = None) -> list[SpeedUp]:
    """Predicts every shape that was measured on the study's first GPU and on another, one result for each other.

    Args:
        study: with `measured`.
        progress: called with a line of text before each GPU and data type; None: silent.

    Raises:
        UserError: what `dse.validation.speedup.speedup_gemm` raises.
    """
    told = dict(study.measured or {})
    options: dict[str, Any] = {name: told[name] for name in ("part", "preset", "table", "source") if name in told}
    base = study.gpus[0]
    return [speedup_gemm(base, other, progress=progress, **options) for other in study.gpus[1:]]


def as_table(results: Sequence[SpeedUp]) -> "pd.DataFrame":
    """One row a shape and pair of GPUs, see `COLUMNS`."""
    import pandas as pd

    rows = [result.rows.assign(base=result.base, other=result.other) for result in results]
    table = pd.concat(rows, ignore_index=True)
    table["error"] = table["model"] / table["measured"] - 1.0
    return table[[name for name in COLUMNS if name in table]]


def grouped(result: SpeedUp, by: str) -> "pd.DataFrame":
    """By latency bucket or shape class: shapes, median measured and predicted speed-up, mean error, bias.

    Args:
        result: of one pair of GPUs.
        by: "latency_bucket" or "shape_class".

    Returns:
        Columns `by`, shapes, measured, predicted, mean_error_percent (mean of |error|), bias_percent (median error).
    """
    rows = as_table([result])
    groups = rows.groupby(by, sort=False, observed=True)
    table = groups.agg(
        shapes=("measured", "size"),
        measured=("measured", "median"),
        predicted=("model", "median"),
        mean_error_percent=("error", lambda error: 100 * np.abs(error).mean()),
        bias_percent=("error", lambda error: 100 * np.median(error)),
    )
    table = table.reset_index().sort_values("shapes", ascending=False, kind="stable", ignore_index=True)
    if by == "latency_bucket":
        return table.sort_values(by, key=lambda names: names.map(BUCKETS.index), kind="stable", ignore_index=True)
    return table


def draw_back_test(results: Sequence[SpeedUp], path: str | os.PathLike[str]) -> None:
    """Predicted against measured speed-up, a dot a shape, a panel a pair of GPUs.

    Args:
        results: of `back_test`.
        path: .png, .svg or .pdf.

    Raises:
        UserError: what `dse.figure_file.check_figure_path` raises.
    """
    with drawn(path, 4.4 * len(results) + 0.4, 4.2) as figure:
        panels = figure.subplots(1, len(results), squeeze=False).ravel()
        for panel, result in zip(panels, results, strict=True):
            _draw(panel, result)


def _draw(panel: Any, result: SpeedUp) -> None:
    rows = result.rows
    ends = (
        0.95 * float(rows[["measured", "model"]].min().min()),
        1.05 * float(rows[["measured", "model"]].max().max()),
    )
    panel.plot(ends, ends, color="black", linewidth=0.8)
    groups = dict(list(rows.groupby("latency_bucket", observed=True)))
    for place, name in enumerate(name for name in BUCKETS if name in groups):
        group = groups[name]
        dots = {"s": 7, "alpha": 0.5, "linewidths": 0, "color": COLOURS[place % len(COLOURS)]}
        panel.scatter(group["measured"], group["model"], label=f"{name} us", rasterized=True, **dots)
    panel.set_xlim(*ends)
    panel.set_ylim(*ends)
    panel.set_xlabel("measured speed-up")
    panel.set_ylabel("predicted speed-up")
    panel.set_title(f"{result.base} to {result.other}, mean error {result.errors['model'].mape:.1f} %")
    panel.grid(alpha=0.25)
    panel.legend(title="on the first GPU", fontsize=7, title_fontsize=7)
