"""Where the time of the front's named layouts goes: kernels by layer, collectives, launches, the host."""

from typing import TYPE_CHECKING, Any

from ...serving.breakdown import KINDS, TITLES
from ...studies.layouts.points import named
from .. import drawing
from ..blocks import Figure, Folded, Paragraph, Section, Table, number, words

if TYPE_CHECKING:
    from ...studies.layouts.files import LayoutRun

GROUPS: dict[str, tuple[str, str, str]] = {  # group -> (colour, hatch, what it holds)
    "attention": (drawing.BLUE, "", "attention, rope, products of latent attention"),
    "projections": (drawing.SKY, "", "the products around attention"),
    "feed-forward": (drawing.GREEN, "", "dense feed-forward layers"),
    "experts": (drawing.OLIVE, "", "routed and shared experts, the router"),
    "norms and others": (drawing.GREY, "", "norms, and what has no group of its own"),
    "collectives": (drawing.VERMILLION, "//", "between the GPUs of a stage"),
    "between stages": (drawing.ORANGE, "..", "sent from stage to stage"),
    "launches and host": (drawing.PURPLE, "xx", "waiting for launches, and between steps"),
}
_LAYERS = {
    "attention": ("attention", "window_attention", "rope", "absorb_k", "absorb_v"),
    "projections": ("qkv", "o", "qkv_a", "q_b", "kv_b", "lm_head"),
    "feed-forward": ("gate_up", "activation", "down", "gate", "up"),
    "experts": ("experts", "router", "shared_gate_up", "shared_activation", "shared_down"),
}
_KINDS = {
    "collective": "collectives",
    "send": "between stages",
    "launches": "launches and host",
    "host": "launches and host",
}


def time_section(run: "LayoutRun") -> Section:
    """A bar a named layout and kind of step, and every part behind it."""
    sums = group_sums(run)
    bars = list(dict.fromkeys((letter, phase) for letter, phase, _, _ in sums))
    message = _message(run, sums, bars)
    rows = tuple(
        (words(letter), words(TITLES[phase]), words(group), number(seconds, f"{seconds * 1e3:.3f}"))
        for letter, phase, group, seconds in sums
    )
    table = Table("Time by group", ("layout", "step", "group", "ms"), rows, frozenset({3}))
    figure = Figure(
        "layout-time",
        "Where the time of a step goes",
        message,
        lambda canvas: _draw(canvas, sums, bars),
        table,
        (7.4, 1.5 + 0.3 * len(bars)),
    )
    text = (
        "One micro-batch through all stages, and the host. Groups: "
        + "; ".join(f"{name}: {what}" for name, (_, _, what) in GROUPS.items())
        + ". What is hidden behind something else is in the tables below, as a time below 0."
    )
    folded = [
        Folded(f"{letter}: {layout}", tuple(_parts(run, letter)), printed=False)
        for letter, layout, _ in named(run.front)
    ]
    return Section("time", "Where the time goes", (Paragraph(text), figure, *folded))


def group_sums(run: "LayoutRun") -> list[tuple[str, str, str, float]]:
    """(letter, phase, group, seconds), what is hidden left out."""
    found: dict[tuple[str, str, str], float] = {}
    for part in run.parts.to_dict("records"):
        if part["kind"] == "hidden":
            continue
        key = (str(part["point"]), str(part["phase"]), group_of(str(part["kind"]), str(part["name"])))
        found[key] = found.get(key, 0.0) + float(part["seconds"])
    order = list(GROUPS)
    keys = sorted(found, key=lambda key: (key[0], list(TITLES).index(key[1]), order.index(key[2])))
    return [(*key, found[key]) for key in keys]


def group_of(kind: str, name: str) -> str:
    """The group of a part."""
    if kind != "kernel":
        return _KINDS[kind]
    return next((group for group, layers in _LAYERS.items() if name in layers), "norms and others")


def _message(run: "LayoutRun", sums: list, bars: list) -> str:
    said = []
    for letter, layout, _ in named(run.front):
        phase = next((phase for one, phase in bars if one == letter), None)
        own = [(group, seconds) for one, at, group, seconds in sums if one == letter and at == phase]
        if own and phase:
            total = sum(seconds for _, seconds in own)
            group, most = max(own, key=lambda pair: pair[1])
            said.append(f"{letter} ({layout}), {TITLES[phase]}: {100 * most / total:.0f} % {group}")
    return "; ".join(said) + "."


def _parts(run: "LayoutRun", letter: str) -> list[Table]:
    own = run.parts[run.parts["point"] == letter]
    tables = []
    for phase, parts in own.groupby("phase", sort=False):
        rows = tuple(
            (
                words(part["name"] or KINDS[part["kind"]]),
                words(part["what"]),
                number(part["runs"], f"{part['runs']:g}"),
                number(part["seconds"], f"{part['seconds'] * 1e3:.3f}"),
                words(part["detail"]),
            )
            for part in parts.to_dict("records")
        )
        head = ("part", "kernel or collective", "runs", "ms", "sizes and schedule, or bytes")
        tables.append(Table(TITLES[str(phase)], head, rows, frozenset({2, 3})))
    return tables


def _draw(canvas: Any, sums: list, bars: list) -> None:
    axes = canvas.subplots()
    totals = {bar: sum(s for letter, phase, _, s in sums if (letter, phase) == bar) for bar in bars}
    left = dict.fromkeys(bars, 0.0)
    for group, (colour, hatch, _) in GROUPS.items():
        own = {(letter, phase): s for letter, phase, one, s in sums if one == group}
        if not own:
            continue
        widths = [100 * own.get(bar, 0.0) / totals[bar] for bar in bars]
        drawn = axes.barh(
            range(len(bars)), widths, 0.68, left=[left[bar] for bar in bars], color=colour, label=group,
            edgecolor=drawing.PAPER, linewidth=0.5,
        )  # fmt: skip
        for one in drawn:
            one.set_hatch(hatch)
        for bar, width in zip(bars, widths, strict=True):
            left[bar] += width
    labels = [f"{letter}  {phase}, {totals[letter, phase] * 1e3:.1f} ms" for letter, phase in bars]
    axes.set_yticks(range(len(bars)), labels)
    axes.set_ylim(len(bars) - 0.5, -0.5)
    axes.set_xlim(0, 100)
    axes.set_xlabel("share of the step, %")
    axes.spines["left"].set_visible(False)
    axes.tick_params(length=0)
    canvas.legend(*axes.get_legend_handles_labels(), loc="outside upper left", ncols=4, handlelength=1.2)
