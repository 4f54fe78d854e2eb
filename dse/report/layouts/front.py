"""Throughput a GPU against what a user sees: the exact front, the layouts on it named."""

from typing import TYPE_CHECKING, Any

from ...serving.layout_words import layout_text
from ...studies.layouts.points import OF_A_STEP, named
from .. import drawing
from ..blocks import Figure, Paragraph, Section, Table, number, words
from ..figures.marks import few_log_ticks, plain_ticks

if TYPE_CHECKING:
    from ...studies.layouts.files import LayoutRun

COLOURS = (
    *(drawing.BLUE, drawing.ORANGE, drawing.GREEN, drawing.VERMILLION, drawing.PURPLE, drawing.SKY, drawing.OLIVE),
)
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
NAMED_WAYS = len(COLOURS)


def front_section(run: "LayoutRun") -> Section:
    """The figure, and every layout of the front behind it."""
    front = run.front
    ways = ways_of(front)
    points = named(front)
    prefills = not front["tokens_per_s_per_user"].max() > 0
    said = "; ".join(f"{letter}: {text}" for letter, text, _ in points)
    intro = (
        f"{run.summary['front_layouts']:,} layouts lie on the front over {', '.join(run.summary['objectives'])}: no "
        f"other is better in both. They share the GPUs in {len(set(ways))} ways; along one way the batch grows. "
        f"The letters below and in the other figures are {said}."
    )
    message = _message(front, prefills)
    head = ("layout", "time to the first token, ms" if prefills else "tokens/s a user", "tokens/s a GPU")
    rows = tuple(
        (words(row["layout"]), number(x, f"{x:.4g}"), number(y, f"{y:,.1f}"))
        for row, x, y in zip(front.to_dict("records"), _x(front, prefills), front["tokens_per_s_per_gpu"], strict=True)
    )
    table = Table("The front, the fastest for a user first", head, rows, frozenset({1, 2}))
    figure = Figure(
        "layout-front",
        "Throughput against what one user sees",
        message,
        lambda canvas: _draw(canvas, front, ways, points, prefills),
        table,
        (7.4, 4.4),
    )
    return Section("front", "The front", (Paragraph(intro), figure))


def ways_of(front: Any) -> list[str]:
    """How each layout shares the GPUs, without what varies from step to step."""
    return [layout_text(row, leave_out=OF_A_STEP) for row in front.to_dict("records")]


def _x(front: Any, prefills: bool) -> Any:
    return front["ttft_s"].to_numpy() * 1e3 if prefills else front["tokens_per_s_per_user"].to_numpy()


def _message(front: Any, prefills: bool) -> str:
    first, last = front.iloc[0], front.iloc[-1]
    if prefills:
        return (
            f"From {first['ttft_s'] * 1e3:.1f} ms to the first token at {first['tokens_per_s_per_gpu']:,.0f} prompt "
            f"tokens/s a GPU ({first['layout']}) to {last['tokens_per_s_per_gpu']:,.0f} at "
            f"{last['ttft_s'] * 1e3:.1f} ms ({last['layout']})."
        )
    return (
        f"From {first['tokens_per_s_per_user']:.1f} tokens/s a user at {first['tokens_per_s_per_gpu']:,.1f} tokens/s a "
        f"GPU ({first['layout']}) to {last['tokens_per_s_per_gpu']:,.1f} a GPU at {last['tokens_per_s_per_user']:.1f} "
        f"a user ({last['layout']})."
    )


def _draw(canvas: Any, front: Any, ways: list[str], points: list, prefills: bool) -> None:
    axes = canvas.subplots()
    x, y = _x(front, prefills), front["tokens_per_s_per_gpu"].to_numpy()
    axes.plot(x, y, color=drawing.GRID, linewidth=1.0, zorder=1)
    by_count = sorted(dict.fromkeys(ways), key=lambda way: -ways.count(way))
    for place, way in enumerate(by_count):
        own = [row for row, one in enumerate(ways) if one == way]
        shown = place < NAMED_WAYS
        axes.scatter(
            x[own], y[own], s=22, zorder=2, linewidths=0.3, edgecolors=drawing.PAPER,
            color=COLOURS[place] if shown else drawing.GREY, marker=MARKERS[place] if shown else ".",
            label=way if shown else "others" if place == NAMED_WAYS else None,
        )  # fmt: skip
    for letter, _, row in points:
        at = (row["ttft_s"] * 1e3 if prefills else row["tokens_per_s_per_user"], row["tokens_per_s_per_gpu"])
        axes.annotate(letter, at, (5, 5), textcoords="offset points", fontsize=9, fontweight="bold", zorder=3)
    if len(x) > 1 and x.min() > 0 and x.max() > 4 * x.min():
        axes.set_xscale("log")
        few_log_ticks(axes.xaxis, x.min(), x.max())
        plain_ticks(axes.xaxis, lambda value: f"{value:,.4g}")
    axes.set_ylim(0, y.max() * 1.12)
    axes.set_xlabel("time to the first token, ms" if prefills else "tokens/s a user")
    axes.set_ylabel("prompt tokens/s a GPU" if prefills else "tokens/s a GPU")
    axes.grid(visible=True)
    axes.tick_params(length=0)
    canvas.legend(*axes.get_legend_handles_labels(), loc="outside upper left", ncols=2, handlelength=1.0)
