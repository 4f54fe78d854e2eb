"""Memory of the fullest GPU of the front's named layouts, by what holds it."""

from typing import TYPE_CHECKING, Any

from ...studies.layouts.points import named
from ...text import byte_text
from .. import drawing
from ..blocks import Figure, Section, Table, number, words

if TYPE_CHECKING:
    from ...studies.layouts.files import LayoutRun

PARTS = {
    "weights_bytes": ("weights", drawing.BLUE, ""),
    "kv_cache_bytes": ("KV cache", drawing.ORANGE, "//"),
    "activation_bytes": ("activations", drawing.GREEN, ".."),
}


def memory_section(run: "LayoutRun") -> Section:
    """A bar a named layout, and the line that none may pass."""
    points = named(run.front)
    usable = usable_bytes(run)
    held = {letter: sum(row[name] for name in PARTS) for letter, _, row in points}
    fullest = max(held, key=lambda letter: held[letter])
    message = (
        f"{byte_text(usable)} of {byte_text(run.summary['memory_bytes'])} are usable; {fullest} fills "
        f"{100 * held[fullest] / usable:.0f} % of it."
    )
    rows = tuple(
        (
            words(letter),
            words(layout),
            *(number(row[name], byte_text(row[name])) for name in PARTS),
            number(held[letter], byte_text(held[letter])),
        )
        for letter, layout, row in points
    )
    head = ("", "layout", *(name for name, _, _ in PARTS.values()), "together")
    table = Table("Memory of the fullest GPU", head, rows, frozenset({2, 3, 4, 5}))
    figure = Figure(
        "layout-memory",
        "What fills the memory",
        message,
        lambda canvas: _draw(canvas, points, usable),
        table,
        (7.4, 1.5 + 0.3 * len(points)),
    )
    return Section("memory", "Memory", (figure,))


def usable_bytes(run: "LayoutRun") -> float:
    """What the engine lets weights, cache and activations have."""
    numbers = run.summary["engine_numbers"]
    return run.summary["memory_bytes"] * numbers["memory_share"] - numbers["reserved_bytes"]


def _draw(canvas: Any, points: list, usable: float) -> None:
    axes = canvas.subplots()
    left = [0.0] * len(points)
    for name, (label, colour, hatch) in PARTS.items():
        widths = [row[name] / 1e9 for _, _, row in points]
        bars = axes.barh(
            range(len(points)), widths, 0.62, left=left, color=colour, label=label, edgecolor=drawing.PAPER,
            linewidth=0.5,
        )  # fmt: skip
        for bar in bars:
            bar.set_hatch(hatch)
        left = [one + width for one, width in zip(left, widths, strict=True)]
    axes.axvline(usable / 1e9, color=drawing.VERMILLION, linewidth=1.4, label="usable")
    axes.set_yticks(range(len(points)), [letter for letter, _, _ in points])
    axes.set_ylim(len(points) - 0.5, -0.5)
    axes.set_xlim(0, usable / 1e9 * 1.05)
    axes.set_xlabel("GB on the fullest GPU")
    axes.spines["left"].set_visible(False)
    axes.tick_params(length=0)
    canvas.legend(*axes.get_legend_handles_labels(), loc="outside upper left", ncols=4, handlelength=1.2)
