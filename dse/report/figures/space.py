"""How much of a space fits, why the rest does not, and how latencies spread over what fits."""

from collections.abc import Sequence
from typing import Any

from .. import drawing
from ..quantities import micros
from .marks import bare, few_log_ticks, plain_ticks


def draw_reasons(figure: Any, counts: Sequence[tuple[str, int]], feasible: int, evaluated: int) -> None:
    """A bar a reason and one for what fits, as shares of what was evaluated."""
    axes = figure.subplots()
    rows = [("can run", feasible), *counts]
    shares = [100 * count / max(evaluated, 1) for _, count in rows]
    colours = [drawing.GREEN, *([drawing.VERMILLION] * len(counts))]
    hatches = ["", *(["//"] * len(counts))]
    bars = axes.barh(range(len(rows)), shares, height=0.66, color=colours, edgecolor=drawing.PAPER, linewidth=0.5)
    for bar, hatch in zip(bars, hatches, strict=True):
        bar.set_hatch(hatch)
    for place, ((_, count), part) in enumerate(zip(rows, shares, strict=True)):
        axes.text(part + 0.8, place, f"{part:.1f} %  ({count:,})", va="center", fontsize=8)
    axes.tick_params(length=0)
    axes.set_yticks(range(len(rows)), [name for name, _ in rows])
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xlim(0, max(shares) * 1.3 + 5)
    axes.set_xlabel("share of the schedules evaluated, %")
    axes.spines["left"].set_visible(False)


def draw_histogram(figure: Any, bins: Sequence[tuple[float, float, int]], best_s: float) -> None:
    """Schedules that can run by latency, and where the best one lies."""
    axes = figure.subplots()
    lows = [low * 1e6 for low, _, _ in bins]
    widths = [(high - low) * 1e6 for low, high, _ in bins]
    counts = [count for _, _, count in bins]
    axes.bar(lows, counts, width=widths, align="edge", color=drawing.BLUE, edgecolor=drawing.PAPER, linewidth=0.5)
    axes.axvline(best_s * 1e6, color=drawing.VERMILLION, linewidth=1.4)
    axes.annotate(
        f"best {micros(best_s)} µs", (best_s * 1e6, 1.0), (6, -2), xycoords=("data", "axes fraction"),
        textcoords="offset points", va="top", color=drawing.INK, fontsize=8.5,
    )  # fmt: skip
    axes.set_xscale("log")
    axes.set_ylim(0, max(counts) * 1.16)
    axes.set_xlim(min(lows[0], best_s * 1e6) * 0.97, (lows[-1] + widths[-1]) * 1.02)
    few_log_ticks(axes.xaxis, lows[0], lows[-1] + widths[-1])
    plain_ticks(axes.xaxis, lambda value: f"{value:,.4g}" if value < 1e4 else f"{value:,.0f}")
    plain_ticks(axes.yaxis, lambda value: f"{value:,.0f}")
    bare(axes, "y")
    axes.set_xlabel("latency, µs")
    axes.set_ylabel("schedules")
