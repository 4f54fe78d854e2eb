"""The tornado: elasticities of the latency with regard to the machine's numbers, the largest on top."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .. import drawing
from .marks import plain_ticks

BAR_IN = 0.25


@dataclass(frozen=True)
class Lever:
    """One number of the machine.

    Attributes:
        number: its name.
        kind: "smooth", "kink" or "count".
        elasticity: d log latency / d log number; of a kink or a count the mean of its sides.
        up, down: of the two sides; NaN where there is none.
    """

    number: str
    kind: str
    elasticity: float
    up: float
    down: float


def draw_tornado(figure: Any, levers: Sequence[Lever]) -> None:
    """A bar a number; where more and less of it weigh differently, a line from one to the other."""
    axes = figure.subplots()
    colours = [drawing.BLUE if lever.elasticity <= 0 else drawing.VERMILLION for lever in levers]
    bars = axes.barh(
        range(len(levers)), [lever.elasticity for lever in levers], height=0.68, color=colours, edgecolor=drawing.PAPER,
        linewidth=0.5,
    )  # fmt: skip
    span = max(max(abs(lever.elasticity), *(abs(side) for side in _sides(lever))) for lever in levers) or 1.0
    for place, (lever, bar) in enumerate(zip(levers, bars, strict=True)):
        bar.set_hatch("" if lever.elasticity <= 0 else "//")
        sides = _sides(lever)
        if lever.kind != "smooth":
            axes.plot(
                [min(sides), max(sides)], [place, place], color=drawing.INK, linewidth=1.2, marker="|", markersize=6
            )
        right = max(lever.elasticity, *sides, 0.0)
        axes.text(right + 0.015 * span, place, f"{lever.elasticity:+.3f}", va="center", fontsize=7.5)
    axes.axvline(0.0, color=drawing.INK, linewidth=0.9)
    axes.set_yticks(range(len(levers)), [lever.number for lever in levers])
    axes.set_ylim(len(levers) - 0.5, -0.5)
    low = min(0.0, *(min(lever.elasticity, *_sides(lever)) for lever in levers))
    high = max(0.0, *(max(lever.elasticity, *_sides(lever)) for lever in levers))
    axes.set_xlim(low - 0.03 * span, high + 0.22 * span)
    plain_ticks(axes.xaxis, lambda value: f"{value:+.2g}" if value else "0")
    axes.tick_params(length=0)
    axes.grid(axis="x")
    axes.spines["left"].set_visible(False)
    axes.set_xlabel("elasticity: % of latency for 1 % more of the number (left: more of it is faster)")


def _sides(lever: Lever) -> list[float]:
    return [side for side in (lever.up, lever.down) if side == side] or [lever.elasticity]
