"""The Pareto front: the first objective against each of the others, with the knees marked."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

import numpy as np

from ...front import non_dominated
from .. import drawing
from ..quantities import quantity_name, quantity_unit, si
from .marks import few_log_ticks, si_ticks

RASTERISED_FROM = 1500  # points a panel: more would make the page heavy
LOGARITHMIC_FROM = 6.0  # largest over smallest value
ACROSS = 3


@dataclass(frozen=True)
class FrontPoints:
    """A front.

    Attributes:
        objectives: their names, at least two.
        values: float[rows, objectives].
        knees: rows of the knees, the most pronounced first.
    """

    objectives: tuple[str, ...]
    values: np.ndarray
    knees: tuple[int, ...]


def size_in(objectives: int) -> tuple[float, float]:
    """Inches for a front over so many objectives."""
    panels = objectives - 1
    return (7.4, 3.5 if panels == 1 else 3.1 * ceil(panels / ACROSS))


def draw_front(figure: Any, front: FrontPoints) -> None:
    """A panel for each objective but the first. Dark: points on the front of the panel's two objectives alone."""
    panels = len(front.objectives) - 1
    across = min(panels, ACROSS)
    axes = figure.subplots(ceil(panels / across), across, squeeze=False)
    for place, panel in enumerate(axes.ravel()):
        if place >= panels:
            panel.set_visible(False)
            continue
        _draw_panel(panel, front, place + 1)
    if panels > 1:
        handles, labels = axes[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper left", ncols=3, handlelength=1.2)


def _draw_panel(panel: Any, front: FrontPoints, objective: int) -> None:
    pair, names = front.values[:, [0, objective]], (front.objectives[0], front.objectives[objective])
    alone = non_dominated(pair.astype(np.float32))
    rasterised = len(pair) > RASTERISED_FROM
    dots = {"linewidths": 0.3, "edgecolors": drawing.PAPER, "rasterized": rasterised}
    if len(front.objectives) > 2:
        panel.scatter(*pair[~alone].T, s=10, color=drawing.SKY, label="front over all objectives", **dots)
    order = np.lexsort((pair[alone][:, 1], pair[alone][:, 0]))
    line = pair[alone][order]
    panel.plot(*line.T, drawstyle="steps-post", color=drawing.BLUE, linewidth=0.8)
    panel.scatter(*line.T, s=16, color=drawing.BLUE, label="front of the two alone", **dots)
    for rank, row in enumerate(front.knees):
        point = pair[row]
        panel.scatter(
            *point, s=64, color=drawing.VERMILLION, marker="D", zorder=5, linewidths=0.8, edgecolors=drawing.PAPER,
            label="knee" if not rank else None,
        )  # fmt: skip
        panel.annotate(
            knee_label(rank), point, (6, 6), textcoords="offset points", fontsize=8.5, fontweight="bold", zorder=6
        )
    for axis, values, name in zip((panel.xaxis, panel.yaxis), pair.T, names, strict=True):
        _scale(panel, axis, values, name)
    panel.grid(visible=True)
    panel.tick_params(length=0)


def knee_label(rank: int) -> str:
    """What figure and table call a knee: A, B, ..."""
    return chr(ord("A") + rank) if rank < 26 else f"A{rank}"


def _scale(panel: Any, axis: Any, values: np.ndarray, name: str) -> None:
    low, high = float(np.min(values)), float(np.max(values))
    setter = "x" if axis is panel.xaxis else "y"
    if low > 0 and high / low > LOGARITHMIC_FROM:
        getattr(panel, f"set_{setter}scale")("log")
        few_log_ticks(axis, low, high)
    else:
        panel.locator_params(axis=setter, nbins=5)
    si_ticks(axis, quantity_unit(name))
    getattr(panel, f"set_{setter}label")(quantity_name(name))


def point_text(objectives: Sequence[str], values: Sequence[float]) -> str:
    """`latency 1.461 ms, DDR traffic 1.426 GB`."""
    return ", ".join(
        f"{quantity_name(name)} {si(float(value), quantity_unit(name))}"
        for name, value in zip(objectives, values, strict=True)
    )
