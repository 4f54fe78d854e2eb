"""The timeline of one SM: loads, buffers, tensor cores and stores; and the kernel's parts above it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .. import drawing
from ..quantities import si
from ..timeline import Step, Timeline
from .marks import bare, plain_ticks

SHOWN_BUFFERS = 12  # more rows would be too thin to read
STEADY_STEPS = 5
LAST_STEPS = 3
PART_COLOURS = {
    "quantise A": drawing.OLIVE, "launch": drawing.GREY, "waves before": drawing.BLUE, "fill": drawing.SKY,
    "main loop": drawing.BLUE, "stores": drawing.ORANGE, "tail": drawing.VERMILLION, "reduction": drawing.PURPLE,
    "power limit": drawing.MUTED,
}  # fmt: skip
LOADING: dict[str, Any] = {"facecolor": drawing.SKY, "edgecolor": drawing.PAPER}
FLYING: dict[str, Any] = {"facecolor": drawing.GRID, "edgecolor": drawing.MUTED, "hatch": "...."}
WAITING: dict[str, Any] = {"facecolor": drawing.PAPER, "edgecolor": drawing.MUTED}
COMPUTING: dict[str, Any] = {"facecolor": drawing.BLUE, "edgecolor": drawing.PAPER}
STORING: dict[str, Any] = {"facecolor": drawing.ORANGE, "edgecolor": drawing.PAPER, "hatch": "//"}
WORTH_A_LABEL = 0.06  # of the kernel
NARROWEST = 0.16  # of all windows together
PANELS_IN, CHARACTER_IN = 6.2, 0.06  # width of all windows, and of a character of their labels


@dataclass(frozen=True)
class Window:
    """A part of the timeline that is shown.

    Attributes:
        title: which part.
        start_s, end_s: from the launch of the wave's CTAs.
    """

    title: str
    start_s: float
    end_s: float


def windows(line: Timeline) -> tuple[Window, ...]:
    """The first K-steps, a few steady ones, the last and the stores; all of it where that is not much more."""
    steps, program = line.steps, line.program
    buffers = program.resident * program.stages
    first = min(len(steps), buffers + STEADY_STEPS * program.resident)
    if len(steps) <= first + (STEADY_STEPS + LAST_STEPS) * program.resident:
        return (Window("the whole wave", 0.0, line.end_s),)
    last = steps[-LAST_STEPS * program.resident]
    middle = (first + len(steps) - LAST_STEPS * program.resident) // 2 // program.resident * program.resident
    steady = steps[middle : middle + STEADY_STEPS * program.resident]
    head = Window("first K-steps", 0.0, steps[first - 1].mma_end_s)
    width_s = head.end_s
    tail_end_s = min(line.end_s, last.mma_start_s + 1.2 * width_s)
    return (
        head,
        Window("steady state", steady[0].mma_start_s, steady[-1].mma_end_s),
        Window("last K-steps, stores", last.mma_start_s, tail_end_s),
    )


def draw_kernel(figure: Any, line: Timeline) -> None:
    """One bar: what the latency is made of, in order."""
    axes = figure.subplots()
    at_s, whole_s = 0.0, line.program.latency_s
    small: list[str] = []
    for name, seconds in line.program.parts.items():
        axes.barh(
            0, seconds * 1e6, left=at_s * 1e6, height=0.8, color=PART_COLOURS[name], edgecolor=drawing.PAPER,
            linewidth=0.6, hatch="//" if name == "waves before" else "",
        )  # fmt: skip
        if seconds > WORTH_A_LABEL * whole_s:
            text = axes.text(
                (at_s + seconds / 2) * 1e6, 0, f"{name}\n{si(seconds, 's', 3)}", ha="center", va="center", fontsize=7.5,
                color=drawing.INK,
            )  # fmt: skip
            text.set_bbox({"facecolor": drawing.PAPER, "edgecolor": "none", "pad": 1.5, "alpha": 0.88})
        else:
            small.append(f"{name} {si(seconds, 's', 3)}")
        at_s += seconds
    bare(axes)
    axes.set_xlim(0, at_s * 1e6)
    axes.set_ylim(-0.5, 0.5)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    plain_ticks(axes.xaxis, lambda value: f"{value:,.5g}")
    axes.set_xlabel("µs" + (f"   (too short to label: {', '.join(small)})" if small else ""))


def draw_sm(figure: Any, line: Timeline) -> None:
    """Engines and buffers of one SM in up to three windows of the wave in step."""
    shown = windows(line)
    seconds = [max(window.end_s - window.start_s, 1e-12) for window in shown]
    ratios = [max(width, NARROWEST * sum(seconds)) for width in seconds]
    panels = figure.subplots(1, len(shown), sharey=True, squeeze=False, width_ratios=ratios)[0]
    rows = row_names(line)
    for panel, window, width, ratio in zip(panels, shown, seconds, ratios, strict=True):
        inches = PANELS_IN * ratio / sum(ratios)
        _draw_window(panel, line, window, rows, CHARACTER_IN * width / inches)
    panels[0].set_yticks(range(len(rows)), rows)
    panels[0].set_ylim(len(rows) - 0.5, -0.5)
    figure.supxlabel(
        "µs from the launch of the wave's CTAs (each window has its own scale)"
        if len(shown) > 1
        else "µs from the launch of the wave's CTAs",
        fontsize=8.5,
    )
    from matplotlib.patches import Patch

    kinds = {"load": LOADING, "in flight": FLYING, "arrived, waiting": WAITING, "MMA": COMPUTING, "store": STORING}
    handles = [Patch(**style, label=name, linewidth=0.4) for name, style in kinds.items()]
    figure.legend(handles=handles, loc="outside upper left", ncols=6, handlelength=1.4)


def row_names(line: Timeline) -> list[str]:
    """The rows of `draw_sm`, top to bottom."""
    program = line.program
    buffers = min(program.resident * program.stages, len(line.steps))
    names = []
    if buffers <= SHOWN_BUFFERS:
        tile = (lambda place: f"tile {place % program.resident} ") if program.resident > 1 else (lambda place: "")
        names = [f"{tile(place)}buffer {place // program.resident}" for place in range(buffers)]
    return ["load engines", *names, "tensor cores", "stores"]


def _draw_window(panel: Any, line: Timeline, window: Window, rows: Sequence[str], character_s: float) -> None:
    seen = [step for step in line.steps if step.mma_end_s > window.start_s and step.load_start_s < window.end_s]
    for step in seen:
        _draw_step(panel, step, window, rows, line.program.resident, character_s)
    for store in line.stores:
        _bar(panel, len(rows) - 1, store.start_s, store.end_s, window, **STORING)
    last = line.stores[len(line.stores) - 1]
    if window.start_s < last.start_s < window.end_s:
        ends = f"until {si(last.end_s, 's', 4)}" if last.end_s > window.end_s else si(line.program.store_s, "s", 3)
        panel.annotate(
            ends, (last.start_s * 1e6, len(rows) - 1.45), (0, 2), textcoords="offset points", fontsize=7, ha="left"
        )
    panel.set_title(window.title, fontsize=8.5)
    panel.set_xlim(window.start_s * 1e6, window.end_s * 1e6)
    panel.tick_params(length=2, labelsize=7.5)
    panel.tick_params(axis="y", length=0, labelsize=8)
    panel.locator_params(axis="x", nbins=5)
    panel.grid(axis="x")
    panel.spines["left"].set_visible(False)
    plain_ticks(panel.xaxis, lambda value: f"{value:,.5g}")


def _draw_step(panel: Any, step: Step, window: Window, rows: Sequence[str], tiles: int, character_s: float) -> None:
    number = str(step.iteration)
    computing = len(rows) - 2
    _bar(panel, 0, step.load_start_s, step.load_end_s, window, **LOADING)
    _bar(panel, computing, step.mma_start_s, step.mma_end_s, window, **COMPUTING)
    _label(panel, computing, step, window, f"{step.tile}:{number}" if tiles > 1 else number, character_s)
    if computing == 1:
        return
    row = 1 + step.buffer
    _bar(panel, row, step.load_start_s, step.load_end_s, window, **LOADING)
    _bar(panel, row, step.load_end_s, step.ready_s, window, **FLYING)
    _bar(panel, row, step.ready_s, step.mma_start_s, window, **WAITING)
    _bar(panel, row, step.mma_start_s, step.mma_end_s, window, **COMPUTING)
    _label(panel, row, step, window, number, character_s)


def _bar(panel: Any, row: int, start_s: float, end_s: float, window: Window, **style: Any) -> None:
    start_s, end_s = max(start_s, window.start_s), min(end_s, window.end_s)
    if end_s > start_s:
        panel.broken_barh([(start_s * 1e6, (end_s - start_s) * 1e6)], (row - 0.36, 0.72), linewidth=0.4, **style)


def _label(panel: Any, row: int, step: Step, window: Window, text: str, character_s: float) -> None:
    """The K-step's number inside of its MMA, where there is room."""
    start_s, end_s = max(step.mma_start_s, window.start_s), min(step.mma_end_s, window.end_s)
    if end_s - start_s > (len(text) + 0.6) * character_s:
        middle = (start_s + end_s) / 2 * 1e6
        panel.text(middle, row, text, ha="center", va="center", fontsize=6.5, color=drawing.PAPER)
