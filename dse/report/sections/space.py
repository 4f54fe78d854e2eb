"""The space: what can be chosen, how much of it fits, why the rest does not, how latencies spread."""

from typing import Any

from ...summary import advice
from ..blocks import Block, Figure, Folded, Paragraph, Section, Table, number, words
from ..facts import RunFacts
from ..figures.space import draw_histogram, draw_reasons
from ..quantities import micros, share

SHOWN_VALUES = 14


def space_section(facts: RunFacts) -> Section:
    """Axes, reasons and latencies."""
    space, summary = facts.job.space, facts.run.summary
    sizes = " × ".join(str(axis.radix) for axis in space.axes)
    part = (
        ""
        if facts.job.candidates == space.size
        else f" The run covers the indices {facts.job.start:,} to {facts.job.end - 1:,}."
    )
    intro = (
        f"The space {space.name} combines {len(space.axes)} axes: {sizes} = "
        f"{space.size:,} schedules, each evaluated once.{part}"
    )  # fmt: skip
    blocks: list[Block] = [Paragraph(intro)]
    if summary["evaluated"]:
        blocks.append(_reasons(facts))
    if summary["histogram"] and len(facts.run.top):
        blocks.append(_histogram(facts))
    blocks.append(Folded("The axes and their values", (_axes(space), *_fixed(space))))
    return Section("space", "The space", tuple(blocks))


def _axes(space: Any) -> Table:
    rows = tuple(
        (
            words(axis.name),
            words(", ".join(axis.fields)),
            number(axis.radix, str(axis.radix)),
            words(_values(axis.labels)),
        )
        for axis in space.axes
    )
    return Table(
        "The axes, outermost first", ("axis", "sets", "entries", "values"), rows, frozenset({2}), sortable=False
    )


def _values(labels: tuple[str, ...]) -> str:
    if len(labels) <= SHOWN_VALUES:
        return ", ".join(labels)
    half = SHOWN_VALUES // 2
    return f"{', '.join(labels[:half])}, … , {', '.join(labels[-half:])}"


def _fixed(space: Any) -> list[Paragraph]:
    if not space.fixed:
        return []
    return [Paragraph("The same everywhere: " + ", ".join(f"{name} {value}" for name, value in space.fixed.items()))]


def _reasons(facts: RunFacts) -> Figure:
    summary = facts.run.summary
    evaluated, feasible, counts = summary["evaluated"], summary["feasible"], list(summary["reasons"].items())
    message = f"{feasible:,} of {evaluated:,} schedules ({share(feasible, evaluated)}) can run."
    if counts:
        said = "; ".join(f"{share(count, evaluated)} {name}: {advice(name)}" for name, count in counts[:3])
        message += f" Of the others, each counted at the first reason that rules it out: {said}."
    table = Table(
        "Why schedules cannot run",
        ("reason", "schedules", "share", "what it means, and what helps"),
        tuple(
            (words(name), number(count, f"{count:,}"), number(count, share(count, evaluated)), words(advice(name)))
            for name, count in counts
        ),
        frozenset({1, 2}),
    )
    return Figure(
        "space-reasons",
        "What can run, and what rules out the rest",
        message,
        lambda figure: draw_reasons(figure, counts, feasible, evaluated),
        table,
        (7.4, 0.7 + 0.27 * (len(counts) + 1)),
    )


def _histogram(facts: RunFacts) -> Figure:
    bins = [(at["from_s"], at["to_s"], at["count"]) for at in facts.run.summary["histogram"]]
    best_s = float(facts.run.top["latency_s"].min())
    total = sum(count for _, _, count in bins)
    counted_below, median = 0, bins[0][0]
    for low, _, count in bins:
        counted_below += count
        if 2 * counted_below > total:  # the median lies in this bin
            median = low
            break
    first = bins[0]
    message = (
        f"Half of the {total:,} schedules that can run take {micros(median)} µs or more, {median / best_s:.1f} times "
        f"the best; {share(first[2], total)} lie in the bin of the best, {micros(first[0])} to {micros(first[1])} µs."
    )
    table = Table(
        "Schedules that can run, by latency",
        ("from, µs", "to, µs", "schedules"),
        tuple((number(a, micros(a)), number(b, micros(b)), number(n, f"{n:,}")) for a, b, n in bins),
        frozenset({0, 1, 2}),
    )
    return Figure(
        "space-latencies",
        "How latencies spread over the schedules that can run",
        message,
        lambda figure: draw_histogram(figure, bins, best_s),
        table,
        (7.4, 2.6),
    )
