"""Breakdown bars: the phases that a latency is the sum of, and how busy each pipeline is meanwhile."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...explanation import PIPELINE_NAMES
from .. import drawing
from ..quantities import micros
from .marks import bare, plain_ticks

PHASES = {  # phase -> (legend, colour, hatch): told apart without colour as well
    "launch": ("launch", drawing.GREY, ""),
    "helpers": ("helper kernels", drawing.OLIVE, "xx"),
    "prologue": ("prologue", drawing.SKY, ""),
    "steady": ("main loop", drawing.BLUE, ""),
    "epilogue": ("epilogue", drawing.ORANGE, "//"),
    "tail": ("tail", drawing.VERMILLION, ""),
    "reduction": ("reduction", drawing.PURPLE, "\\\\"),
}
TITLES = {  # in two lines: panels are narrow
    "tensor": "tensor\ncores", "cuda": "CUDA\ncores", "sfu": "special\nfunctions", "smem": "shared\nmemory",
    "l15": "L1.5 /\nSM ports",
}  # fmt: skip
WORTH_A_PANEL = 0.02  # of the latency, of any schedule shown
BAR_IN, HEAD_IN = 0.27, 0.9


@dataclass(frozen=True)
class Bar:
    """One schedule.

    Attributes:
        label: what it is.
        latency_s: its latency.
        phases: phase -> seconds; they add up to the latency.
        pipelines: pipeline -> seconds of its whole demand at its peak.
    """

    label: str
    latency_s: float
    phases: dict[str, float]
    pipelines: dict[str, float]


def height_in(bars: Sequence[Bar]) -> float:
    """Inches that bars need."""
    return HEAD_IN + BAR_IN * max(len(bars), 2)


def draw_phases(figure: Any, bars: Sequence[Bar]) -> None:
    """A bar a schedule, stacked of its phases."""
    axes = figure.subplots()
    longest = max(bar.latency_s for bar in bars) * 1e6
    for name, (legend, colour, hatch) in PHASES.items():
        widths = [bar.phases[name] * 1e6 for bar in bars]
        if max(widths) <= 0:
            continue
        starts = [sum(bar.phases[before] * 1e6 for before in _before(name)) for bar in bars]
        axes.barh(
            range(len(bars)), widths, left=starts, height=0.66, color=colour, hatch=hatch, label=legend,
            edgecolor=drawing.PAPER, linewidth=0.5,
        )  # fmt: skip
    for place, bar in enumerate(bars):
        axes.text(bar.latency_s * 1e6 + 0.008 * longest, place, micros(bar.latency_s), va="center", fontsize=8)
    _schedule_axis(axes, bars)
    axes.set_xlim(0, longest * 1.1)
    axes.set_xlabel("latency, µs")
    plain_ticks(axes.xaxis, lambda value: f"{value:,.4g}" if value < 1e4 else f"{value:,.0f}")
    figure.legend(loc="outside upper left", ncols=7, handlelength=1.2, columnspacing=1.2)


def draw_pipelines(figure: Any, bars: Sequence[Bar]) -> None:
    """A panel a pipeline: its busy time as a share of each schedule's latency."""
    shown = shown_pipelines(bars)
    panels = figure.subplots(1, len(shown), sharey=True, sharex=True, squeeze=False)[0]
    for panel, name in zip(panels, shown, strict=True):
        shares = [100 * bar.pipelines[name] / bar.latency_s for bar in bars]
        panel.barh(range(len(bars)), [100.0] * len(bars), height=0.66, color=drawing.GRID)
        panel.barh(range(len(bars)), shares, height=0.66, color=drawing.BLUE)
        for place, value in enumerate(shares):
            inside = value > 55
            panel.text(
                value - 4 if inside else value + 4, place, f"{value:.0f}", va="center", fontsize=7.5,
                ha="right" if inside else "left", color=drawing.PAPER if inside else drawing.INK,
            )  # fmt: skip
        panel.set_title(TITLES.get(name, PIPELINE_NAMES[name]), fontsize=8)
        _schedule_axis(panel, bars)
        panel.set_xlim(0, 100)
        panel.set_xticks([0, 50, 100], ["0", "50", "100"])
        panel.grid(visible=False)
    figure.supxlabel("busy share of the latency, %", fontsize=8.5)


def shown_pipelines(bars: Sequence[Bar]) -> list[str]:
    """The pipelines that any of the schedules keeps busy."""
    worth = [
        name for name in PIPELINE_NAMES if any(bar.pipelines[name] > WORTH_A_PANEL * bar.latency_s for bar in bars)
    ]
    return worth or ["tensor"]


def _before(name: str) -> list[str]:
    names = list(PHASES)
    return names[: names.index(name)]


def _schedule_axis(axes: Any, bars: Sequence[Bar]) -> None:
    bare(axes)
    axes.set_yticks(range(len(bars)), [bar.label for bar in bars])
    axes.set_ylim(len(bars) - 0.5, -0.5)
    axes.spines["left"].set_visible(False)
