"""The roofline: rates over arithmetic intensity at DDR, with the roofs and the candidates."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...roofline import Roofline
from .. import drawing
from .marks import few_log_ticks, plain_ticks

ALMOST = 0.99  # of the peak: a sustained roof so near is not drawn
RASTERISED_FROM = 1500  # points: more would make the page heavy


@dataclass(frozen=True)
class Points:
    """Candidates of one kind: FLOP a DDR byte and TFLOP/s of each."""

    label: str
    intensity: Sequence[float]
    tflop_per_s: Sequence[float]


def draw_roofline(figure: Any, roof: Roofline, front: Points, top: Points) -> None:
    """Both roofs, the sustained tensor roof, the front, the best few and the best."""
    axes = figure.subplots()
    peak, sustained = roof.peak_flop_per_s / 1e12, roof.peak_flop_per_s * roof.tensor_efficiency / 1e12
    intensities = [*front.intensity, *top.intensity, roof.intensity, roof.ridge]
    low, high = min(intensities) / 2, max(intensities) * 2
    rates = [*front.tflop_per_s, *top.tflop_per_s]
    floor = min(min(rates, default=peak) / 1.8, roof.ddr_bytes_per_s * low / 1e12, peak / 2)
    floor = max(floor, min(rates, default=peak) / 4)
    slope = roof.ddr_bytes_per_s / 1e12
    axes.plot([low, roof.ridge, high], [slope * low, peak, peak], color=drawing.INK, linewidth=1.6)
    if sustained < ALMOST * peak:
        axes.plot([sustained / slope, high], [sustained, sustained], color=drawing.INK, linewidth=1.0, linestyle="--")
    axes.axvline(roof.intensity, color=drawing.MUTED, linewidth=0.9, linestyle=":")
    dots = {"linewidths": 0.4, "edgecolors": drawing.PAPER}
    axes.scatter(
        front.intensity, front.tflop_per_s, s=14, color=drawing.SKY, marker="o", label=front.label,
        rasterized=len(front.intensity) > RASTERISED_FROM, **dots,
    )  # fmt: skip
    axes.scatter(top.intensity, top.tflop_per_s, s=26, color=drawing.BLUE, marker="s", label=top.label, **dots)
    axes.scatter(
        top.intensity[:1], top.tflop_per_s[:1], s=70, color=drawing.VERMILLION, marker="*", label="the best", zorder=5,
        **dots,
    )  # fmt: skip
    axes.set(xscale="log", yscale="log", xlim=(low, high), ylim=(floor, peak * 1.7))
    few_log_ticks(axes.xaxis, low, high)
    few_log_ticks(axes.yaxis, floor, peak * 1.7)
    plain_ticks(axes.xaxis, lambda value: f"{value:,.5g}")
    plain_ticks(axes.yaxis, lambda value: f"{value:,.4g}")
    axes.grid(visible=True)
    axes.tick_params(length=0)
    axes.set_xlabel("arithmetic intensity, FLOP a byte of DDR traffic")
    axes.set_ylabel("useful TFLOP/s")
    side = {"textcoords": "offset points", "fontsize": 8}
    axes.annotate(f"tensor peak {peak:,.0f}", (high, peak), (-4, 4), ha="right", **side)
    if sustained < ALMOST * peak:
        axes.annotate(
            f"sustained {sustained:,.0f}",
            (high, sustained),
            (-4, -4),
            ha="right",
            va="top",
            color=drawing.MUTED,
            **side,
        )
    start = max(low, floor / slope) * 1.05
    axes.annotate(f"DDR {slope:.3g} TB/s", (start, slope * start), (10, -4), va="top", **side)
    axes.annotate(
        f"compulsory traffic: {roof.intensity:,.0f}", (roof.intensity, floor), (-4, 5), ha="right", rotation=90,
        color=drawing.MUTED, **side,
    )  # fmt: skip
    figure.legend(loc="outside upper left", ncols=3, handlelength=1.2)
