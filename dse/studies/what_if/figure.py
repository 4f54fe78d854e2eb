"""The figure of a what-if: speed-up along every axis, tuned anew and with the baseline's schedules, knees marked."""

import os
from typing import Any

from ...figure_file import COLOURS, drawn
from ...text import quantity_text, unit_scale
from .knees import Curve
from .study import Answer

ACROSS = 2
MOST_MOVES = 2  # more lines than that hide the curve


def draw_what_if(answer: Answer, path: str | os.PathLike[str]) -> None:
    """Writes the figure, a panel an axis.

    Args:
        answer: with at least one curve.
        path: .png, .svg or .pdf. The same answer gives the same file.

    Raises:
        UserError: what `dse.figure_file.check_figure_path` raises.
    """
    across = min(len(answer.curves), ACROSS)
    down = -(-len(answer.curves) // across)
    with drawn(path, 5.2 * across + 0.6, 3.4 * down + 0.6) as figure:
        panels = figure.subplots(down, across, squeeze=False).ravel()
        for panel, curve in zip(panels, answer.curves, strict=False):
            draw_curve(panel, curve)
        for panel in panels[len(answer.curves) :]:
            panel.set_visible(False)
        figure.suptitle(answer.study.title or f"what if, on {answer.baseline.gpu.title}", parse_math=False)
        figure.supylabel("speed-up of the weighted total")


def draw_curve(panel: Any, curve: Curve) -> None:
    """One axis: every shape thin, the total thick, knees as upright lines with their meaning."""
    scale, unit = unit_scale(float(curve.totals["value"].max()), curve.axis.unit)
    for _, rows in curve.table.groupby("shape_name", sort=False):
        panel.plot(rows["value"] / scale, rows["speedup"], color="#999999", linewidth=0.6, alpha=0.7, zorder=1)
    values = curve.totals["value"] / scale
    panel.plot([], [], color="#999999", linewidth=0.6, label="each shape, tuned anew")
    style = {"color": COLOURS[1], "linestyle": "--", "linewidth": 1.6, "zorder": 3}
    panel.plot(values, curve.totals["frozen_speedup"], label="the baseline's schedules", **style)
    style = {"color": COLOURS[0], "linewidth": 2.2, "marker": "o", "markersize": 3, "zorder": 4}
    panel.plot(values, curve.totals["speedup"], label="tuned anew", **style)
    if (curve.totals["value"] > 0).all() and len(values) > 1:
        panel.set_xscale("log")
        panel.xaxis.set_major_formatter("{x:g}")
        panel.xaxis.set_minor_formatter("")
        ticks = sorted({float(f"{value:.3g}") for value in (values.min(), curve.now / scale, values.max())})
        panel.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    panel.axvline(curve.now / scale, color="black", linewidth=0.8, linestyle=":")
    panel.annotate("now", (curve.now / scale, 0.02), xycoords=("data", "axes fraction"), fontsize=8, rotation=90,
                   ha="right", va="bottom")  # fmt: skip
    for place, (value, words) in enumerate(_marks(curve)):
        colour = COLOURS[2 + place % 3]
        panel.axvline(value / scale, color=colour, linewidth=1.0)
        panel.annotate(words, (value / scale, 0.98 - 0.12 * place), xycoords=("data", "axes fraction"), fontsize=7,
                       color=colour, ha="left", va="top", xytext=(3, 0), textcoords="offset points")  # fmt: skip
    panel.set_xlabel(f"{curve.axis.title}, {unit}", parse_math=False)
    panel.grid(alpha=0.25)
    panel.legend(loc="lower right", fontsize=7)


def _marks(curve: Curve) -> list[tuple[float, str]]:
    """(value, words), those of one place in one."""
    marks: dict[float, list[str]] = {}
    for move in curve.moves[:MOST_MOVES]:
        between = (move.below * move.above) ** 0.5 if move.below > 0 else move.above
        marks.setdefault(between, []).append(f"{move.before} to {move.after}, {move.shapes} of {move.of}")
    if curve.enough is not None and curve.totals["speedup"].max() > 1.0:
        at = quantity_text(curve.enough, curve.axis.unit)
        marks.setdefault(curve.enough, []).append(f"past {at} twice as much buys < 1 %")
    return [(value, "\n".join(words)) for value, words in marks.items()]
