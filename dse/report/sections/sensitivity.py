"""Sensitivity: which numbers of the machine the best schedule's latency hangs on."""

import math
from typing import Any

from ...studies.sensitivity.elasticities import Elasticities, central, elasticities
from ..blocks import Cell, Figure, Paragraph, Section, Table, number, words
from ..facts import RunFacts, schedule_of
from ..figures.sensitivity import BAR_IN, Lever, draw_tornado
from ..quantities import SHORT_UNITS, counted, si

SHOWN = 12
HEAD = (
    *("number", "value", "kind", "elasticity", "more of it", "less of it", "10 % better buys"),
    "until something else binds",
)
NEGLIGIBLE = 5e-4  # an elasticity that rounds to nothing


def sensitivity_section(facts: RunFacts) -> Section:
    """The tornado of the best schedule; by `jax.grad`, with the distance to the next bottleneck in its table."""
    assert facts.best is not None
    found = elasticities(facts.job.problem, schedule_of(facts.best.schedule), facts.job.gpu)
    intro = (
        "By how many per cent the latency of the best schedule moves where a number of the machine moves by one per "
        "cent: the model's derivative. At a tuned schedule tuning again changes this in the second order only. Numbers "
        "that the model takes whole, and those at a kink, where more and less of it weigh differently, have two sides "
        "instead: a line joins them."
    )
    return Section("sensitivity", "What the latency hangs on", (Paragraph(intro), _figure(found)))


def _figure(found: Elasticities) -> Figure:
    table = found.table.assign(central=central(found.table))
    weight = table[["central", "elasticity_up", "elasticity_down"]].abs().max(axis=1).fillna(0.0)
    table = table[weight > NEGLIGIBLE].assign(weight=weight)
    table = table.sort_values("weight", ascending=False, kind="stable")
    rows = table.to_dict("records")
    levers = [_lever(row) for row in rows[:SHOWN]]
    said = "; ".join(f"{lever.number} {lever.elasticity:+.3f}" for lever in levers[:5])
    nearest = next((f" {row['number']}: {row['next']}." for row in rows if row["up_binds"] or row["down_binds"]), "")
    small = f"Below {NEGLIGIBLE:g} in size: {counted(len(found.table) - len(rows), 'number')}."
    message = f"Bound now: {found.bound}. The largest elasticities: {said}. {small}{nearest}"
    return Figure(
        "sensitivity-tornado",
        "Elasticity of the latency, the largest first",
        message,
        lambda figure: draw_tornado(figure, levers),
        Table(
            "Numbers of the machine by their effect on the latency",
            HEAD,
            tuple(map(_row, rows)),
            frozenset({1, 3, 4, 5, 6}),
        ),
        (7.4, 0.75 + BAR_IN * len(levers)),
    )  # fmt: skip


def _lever(row: Any) -> Lever:
    sides = float(row["elasticity_up"]), float(row["elasticity_down"])
    return Lever(str(row["number"]), str(row["kind"]), float(row["central"]), *sides)


def _row(row: Any) -> tuple[Cell, ...]:
    unit = SHORT_UNITS.get(row["unit"], "")
    value = float(row["value"])
    return (
        words(row["number"]),
        number(value, si(value, unit) if unit else f"{value:,.6g} {row['unit']}"),
        words(row["kind"]),
        number(row["central"], f"{row['central']:+.4f}"),
        *(_side(float(row[name])) for name in ("elasticity_up", "elasticity_down")),
        _percent(float(row["buys_10"])),
        words(row["next"]),
    )


def _side(value: float) -> Cell:
    return words("") if math.isnan(value) else number(value, f"{value:+.4f}")


def _percent(value: float) -> Cell:
    return words("does not fit") if math.isnan(value) else number(value, f"{100 * value:+.2f} %")
