"""The figure of a front: every pair of objectives against each other, knees named."""

import os
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

from ...errors import UserError
from ...figure_file import COLOURS, drawn
from ...objectives import OBJECTIVES
from ...schedule_text import launch_label
from ...text import unit_scale

if TYPE_CHECKING:
    import pandas as pd

WORDS = {"s": "seconds", "B": "bytes"}
NAMED = 4
ACROSS = 3


def draw_front(
    rows: "pd.DataFrame",
    objectives: Sequence[str],
    knees: Sequence[int],
    path: str | os.PathLike[str],
    title: str,
    chosen: Sequence[int] = (),
) -> None:
    """Writes the figure, a panel a pair of objectives.

    Args:
        rows: a run's front; the objectives and the schedule are among its columns.
        objectives: two or more.
        knees: places in `rows`, the most pronounced first; the first few are named.
        path: .png, .svg or .pdf. The same rows give the same file.
        title: above all panels.
        chosen: places of representatives, ringed.

    Raises:
        UserError: fewer than two objectives, an empty front, or what `dse.figure_file.check_figure_path` raises.
    """
    if len(objectives) < 2 or not len(rows):
        raise UserError("a figure of a front needs two objectives and a point: sweep with --objectives NAME,NAME")
    pairs = list(combinations(objectives, 2))
    across = min(len(pairs), ACROSS)
    down = -(-len(pairs) // across)
    with drawn(path, 4.2 * across + 0.4, 3.6 * down + 0.5) as figure:
        panels = figure.subplots(down, across, squeeze=False).ravel()
        for panel, pair in zip(panels, pairs, strict=False):
            _draw_pair(panel, rows, pair, knees, chosen)
        for panel in panels[len(pairs) :]:
            panel.set_visible(False)
        panels[0].legend(loc="best", fontsize=7)
        figure.suptitle(title, fontsize=10)
        names = [f"{rank}: {knee_name(rows.iloc[place].to_dict())}" for rank, place in enumerate(knees[:NAMED], 1)]
        if names:
            figure.supxlabel(f"knees  {'    '.join(names)}", fontsize=8, color=COLOURS[4])


def knee_name(row: Mapping[Any, Any]) -> str:
    """What a knee is called in figures: of gemm its tile, stages and launch, else where it is in the space."""
    if "tile_m" not in row or "stream_k" not in row:
        return f"index {row['index']}"
    tile = f"{row['tile_m']:.0f}x{row['tile_n']:.0f}x{row['tile_k']:.0f}"
    return f"{tile}, {row['stages']:.0f} stages, {launch_label(row)}"


def _draw_pair(
    panel: Any, rows: "pd.DataFrame", pair: tuple[str, str], knees: Sequence[int], chosen: Sequence[int]
) -> None:
    (x_scale, x_unit), (y_scale, y_unit) = (_scale(rows, name) for name in pair)
    x, y = rows[pair[0]].to_numpy() / x_scale, rows[pair[1]].to_numpy() / y_scale
    panel.scatter(x, y, s=10, color=COLOURS[0], linewidths=0, alpha=0.7, label="front", zorder=2)
    if len(chosen):
        places = list(chosen)
        panel.scatter(x[places], y[places], s=42, facecolors="none", edgecolors=COLOURS[2], label="chosen", zorder=3)
    if len(knees):
        places = list(knees)
        panel.scatter(x[places], y[places], s=34, marker="D", color=COLOURS[4], label="knees", zorder=4)
    for rank, place in enumerate(knees[:NAMED], 1):
        panel.annotate(str(rank), (x[place], y[place]), fontsize=8, weight="bold", color=COLOURS[4],
                       xytext=(5, 4), textcoords="offset points", zorder=5)  # fmt: skip
    for values, axis, scale in ((x, "x", panel.set_xscale), (y, "y", panel.set_yscale)):
        if (values > 0).all() and values.max() > 3 * values.min():
            scale("log")
            getattr(panel, f"{axis}axis").set_major_formatter("{x:g}")
            getattr(panel, f"{axis}axis").set_minor_formatter("")
            marks = sorted({float(f"{value:.3g}") for value in (values.min(), (values.min() * values.max()) ** 0.5)})
            ticks = [*marks, float(f"{values.max():.3g}")]
            getattr(panel, f"set_{axis}ticks")(ticks, [f"{tick:g}" for tick in ticks])
    panel.set_xlabel(f"{pair[0]}, {x_unit}" if x_unit else pair[0])
    panel.set_ylabel(f"{pair[1]}, {y_unit}" if y_unit else pair[1])
    panel.grid(alpha=0.25)


def _scale(rows: "pd.DataFrame", name: str) -> tuple[float, str]:
    unit = OBJECTIVES[name][0] if name in OBJECTIVES else "1"
    scale, short = unit_scale(float(rows[name].max()), WORDS.get(unit, unit))
    return scale, "" if short == "1" else short
