"""The tornado chart of a sensitivity: what 10 % more and 10 % less of each number do to the latency."""

import os
from typing import TYPE_CHECKING, Any

from ...figure_file import COLOURS, drawn

if TYPE_CHECKING:
    import pandas as pd

MOST_BARS = 16
LEAST = 5e-5  # change of the latency below which a number gets no bar


def draw_tornado(table: "pd.DataFrame", title: str, path: str | os.PathLike[str]) -> None:
    """Writes the figure: one line a number, the largest effect on top, bars to both sides of the latency as it is.

    Args:
        table: of `Elasticities` or `Sensitivity.whole`.
        title: over the figure.
        path: ends in .png, .svg or .pdf; the same table gives the same file.

    Raises:
        UserError: a wrong ending, no such folder, a file that cannot be written.
    """
    bars = tornado_bars(table)
    with drawn(path, 7.0, 1.4 + 0.26 * max(len(bars), 2)) as figure:
        draw_bars(figure.subplots(), bars)
        figure.suptitle(title, fontsize=9)


def tornado_bars(table: "pd.DataFrame") -> "pd.DataFrame":
    """The rows that a tornado shows, the longest first: 16 at most, none that moves the latency by under 0.005 %."""
    reach = table[["change_plus_10", "change_minus_10"]].abs().max(axis=1).fillna(0.0)
    rows = table.assign(reach=reach)
    return rows[rows["reach"] >= LEAST].sort_values("reach", ascending=False, kind="stable").head(MOST_BARS)


def draw_bars(panel: Any, bars: "pd.DataFrame") -> None:
    """Draws `tornado_bars` into a matplotlib panel."""
    places = range(len(bars))
    for name, label, colour, hatch in (
        ("change_plus_10", "10 % more of it", COLOURS[0], ""),
        ("change_minus_10", "10 % less of it", COLOURS[1], "////"),
    ):
        width = 100.0 * bars[name].fillna(0.0)
        panel.barh(places, width, height=0.7, color=colour, hatch=hatch, edgecolor="white", linewidth=0.5, label=label)
    panel.set_yticks(list(places), list(bars["number"]))
    panel.invert_yaxis()
    panel.axvline(0.0, color="black", linewidth=0.8)
    panel.set_xlabel("change of the latency, %")
    panel.margins(x=0.12)
    panel.grid(axis="x", alpha=0.25)
    panel.set_axisbelow(True)
    if len(bars):
        panel.legend(loc="lower right", fontsize=8)
    else:
        panel.text(0.5, 0.5, "no number moves the latency by 0.005 %", ha="center", transform=panel.transAxes)
