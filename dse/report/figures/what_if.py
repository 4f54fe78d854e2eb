"""What-if curves: a panel a number of the machine, the schedule tuned anew beside the one kept."""

from collections.abc import Sequence
from typing import Any

from ...studies.what_if.knees import Curve
from ...text import unit_scale
from .. import drawing
from .marks import plain_ticks


def size_in(curves: Sequence[Curve]) -> tuple[float, float]:
    """Inches for so many panels."""
    return (7.4, 2.7 * -(-len(curves) // 2) + 0.3)


def draw_curves(figure: Any, curves: Sequence[Curve]) -> None:
    """Latency over the baseline's, against each number."""
    across = min(len(curves), 2)
    panels = figure.subplots(-(-len(curves) // across), across, squeeze=False, sharey=True).ravel()
    for panel, curve in zip(panels, curves, strict=False):
        _draw(panel, curve)
    for panel in panels[len(curves) :]:
        panel.set_visible(False)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper left", ncols=3)
    figure.supylabel("latency, times that of the machine as it is", fontsize=8.5)


def relative(curve: Curve, column: str) -> list[float]:
    """`latency_s` or `frozen_s` of every value over the latency of the machine as it is; NaN where it cannot run."""
    rows = curve.totals
    now_s = float(rows[rows["machine"] == 0]["latency_s"].iloc[0])
    return [float(seconds) / now_s for seconds in rows[column]]


def _draw(panel: Any, curve: Curve) -> None:
    scale, unit = unit_scale(float(curve.totals["value"].max()), curve.axis.unit)
    unit = "times the rate now" if curve.axis.field.startswith("tensor_flop") else unit
    values = [float(value) / scale for value in curve.totals["value"]]
    now = curve.now / scale
    panel.axhline(1.0, color=drawing.GRID, linewidth=0.9)
    panel.axvline(now, color=drawing.MUTED, linewidth=0.9, linestyle=":")
    panel.plot(
        values, relative(curve, "frozen_s"), color=drawing.ORANGE, linewidth=1.6, linestyle="--", marker="s",
        markersize=4, label="schedule kept",
    )  # fmt: skip
    panel.plot(
        values,
        relative(curve, "latency_s"),
        color=drawing.BLUE,
        linewidth=2.0,
        marker="o",
        markersize=4,
        label="tuned anew",
    )
    panel.annotate(
        "now", (now, 1), (3, -3), xycoords=("data", "axes fraction"), textcoords="offset points", va="top",
        fontsize=7.5, color=drawing.MUTED,
    )  # fmt: skip
    for place, move in enumerate(curve.moves[:2]):
        middle = (move.below * move.above) ** 0.5 / scale
        panel.annotate(
            f"{move.before} → {move.after}", (middle, 1), (0, -14 - 11 * place), xycoords=("data", "axes fraction"),
            textcoords="offset points", ha="center", va="top", fontsize=7.5, color=drawing.VERMILLION,
        )  # fmt: skip
    panel.set_xscale("log")
    panel.minorticks_off()
    panel.set_xticks(values)
    plain_ticks(panel.xaxis, lambda value: f"{value:.4g}")
    panel.set_xlabel(f"{curve.axis.field}, {unit}")
    panel.grid(axis="y")
    panel.tick_params(length=2)
