"""The figure of a validation: predicted over measured latency against measured latency, one panel a GPU."""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..figure_file import COLOURS, drawn
from ..latency_bucket import BUCKET_EDGES_US, BUCKETS
from .error_tables import METHODS

if TYPE_CHECKING:
    from .validate import GpuValidation

RATIO_RANGE = (0.5, 2.0)  # what lies outside is drawn on the edge and counted
STYLES = {  # method -> (legend, colour)
    "roofline": ("three-constant roofline", COLOURS[1]),
    "model": ("tilesweep", COLOURS[0]),
}


def draw_errors(results: "Sequence[GpuValidation]", path: str | os.PathLike[str]) -> None:
    """Writes the figure: a dot a row, model and roofline, and the median ratio of every latency bucket as a bar.

    Args:
        results: of `validate_gemm`; a panel each, two in a line.
        path: .png, .svg or .pdf. The same results give the same file.

    Raises:
        UserError: what `dse.figure_file.check_figure_path` raises.
    """
    across = min(len(results), 2)
    down = -(-len(results) // across)
    with drawn(path, 5.2 * across, 3.4 * down + 0.4) as figure:
        panels = figure.subplots(down, across, squeeze=False, sharex=True, sharey=True).ravel()
        for panel, result in zip(panels, results, strict=False):
            _draw_panel(panel, result)
        for panel in panels[len(results) :]:
            panel.set_visible(False)
        figure.supxlabel("measured latency, us")
        figure.supylabel("predicted / measured")
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=len(labels), markerscale=3)


def _draw_panel(panel: Any, result: "GpuValidation") -> None:
    low, high = RATIO_RANGE
    rows = result.rows
    outside = []
    for method, (legend, colour) in STYLES.items():
        ratio = rows[METHODS[method]] / rows["latency_us"]
        outside.append(f"{legend} {int(((ratio < low) | (ratio > high)).sum())}")
        dots = {"s": 4, "alpha": 0.35, "linewidths": 0, "color": colour, "label": legend, "rasterized": True}
        panel.scatter(rows["latency_us"], ratio.clip(low, high), **dots)
        for start, stop, median in _bucket_medians(rows, ratio):
            panel.hlines(median, start, stop, color="white", linewidth=4, zorder=3)
            panel.hlines(median, start, stop, color=colour, linewidth=2, zorder=4)
    panel.axhline(1.0, color="black", linewidth=0.8, zorder=2)
    panel.set_xscale("log")
    panel.xaxis.set_major_formatter("{x:g}")
    panel.set_yscale("log")
    panel.set_ylim(low, high)
    ticks = [0.5, 0.7, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0]
    panel.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    panel.set_yticks([], minor=True)
    panel.grid(alpha=0.25)
    panel.set_title(
        f"{result.gpu} {result.dtype}, MAPE {result.model.mape:.1f} % (roofline {result.roofline.mape:.1f} %)"
    )
    panel.text(
        0.99,
        0.02,
        f"outside, drawn on the edge: {', '.join(outside)}",
        transform=panel.transAxes,
        ha="right",
        fontsize=7,
    )


def _bucket_medians(rows: Any, ratio: Any) -> list[tuple[float, float, float]]:
    edges = (float(rows["latency_us"].min()), *BUCKET_EDGES_US, float(rows["latency_us"].max()))
    found = []
    for place, bucket in enumerate(BUCKETS):
        inside = ratio[rows["latency_bucket"] == bucket]
        if len(inside):
            found.append((edges[place], edges[place + 1], float(inside.median())))
    return found
