"""The front over the run's objectives, with its knees."""

from typing import Any

import numpy as np

from ...front_measures import hypervolume, knees
from ..blocks import Cell, Figure, Paragraph, Section, Table, number, words
from ..facts import RunFacts
from ..figures.front import FrontPoints, draw_front, knee_label, point_text, size_in
from ..quantities import counted, quantity_name, quantity_unit, schedule_words, share, si

TABLE_ROWS = 120
SHOWN_KNEES = 6
MOST_FOR_VOLUME = 3000  # rows; with six objectives more take long


def front_section(facts: RunFacts) -> Section:
    """What it is, how large, its knees; of one objective only a sentence and a table."""
    run, job = facts.run, facts.job
    title, names = "The Pareto front", ", ".join(quantity_name(name) for name in job.objectives)
    values = run.front[list(job.objectives)].to_numpy(np.float64)
    dropped = run.summary["front_ties_dropped"]
    ties = f" {dropped:,} more equal one of these in all objectives." if dropped else ""
    whole = "of the part evaluated" if facts.incomplete else "of the whole space, exact"
    points = run.summary["front_points"]
    count = counted(points, "schedule")
    intro = f"{count} {whole}: no other is better in one of {names} without being worse in another.{ties}"
    if len(job.objectives) == 1:
        best = si(float(values.min()), quantity_unit(job.objectives[0]))
        reach = "reaches" if points == 1 else "reach"
        intro = f"One objective: the front is the least {names}, {best}, which {count} {reach}.{ties}"
        return Section("front", title, (Paragraph(intro), _table(facts, ())))
    if len(np.unique(values, axis=0)) == 1:
        intro += f" All have the same: {point_text(job.objectives, values[0])}."
        return Section("front", title, (Paragraph(intro), _table(facts, ())))
    front = FrontPoints(job.objectives, values, tuple(knee.place for knee in knees(values)[:SHOWN_KNEES]))
    return Section("front", title, (Paragraph(intro + _volume(front)), _figure(facts, front)))


def _volume(points: FrontPoints) -> str:
    if len(points.values) > MOST_FOR_VOLUME or len(points.values) < 2:
        return ""
    found = hypervolume(points.values)
    reference = point_text(points.objectives, found.reference)
    box = f"the box between its best in every objective and the reference ({found.rule}: {reference})"
    return f" It dominates {share(found.share)} of {box}."


def _figure(facts: RunFacts, points: FrontPoints) -> Figure:
    ends = []
    for place, name in enumerate(points.objectives):
        low, high = points.values[:, place].min(), points.values[:, place].max()
        unit = quantity_unit(name)
        ends.append(
            f"{quantity_name(name)} {si(low, unit)} to {si(high, unit)}"
            if high > low
            else f"{quantity_name(name)} {si(low, unit)} everywhere"
        )
    message = f"From end to end: {'; '.join(ends)}."
    if points.knees:
        said = [
            f"{knee_label(rank)} ({point_text(points.objectives, points.values[row])})"
            for rank, row in enumerate(points.knees)
        ]
        message += (
            f" Knees, past which every step costs more than it brings, the most pronounced first: {'; '.join(said)}."
        )
    else:
        message += " It has no knee."
    return Figure(
        "front-points",
        f"{quantity_name(points.objectives[0]).capitalize()} against what it costs",
        message,
        lambda figure: draw_front(figure, points),
        _table(facts, points.knees),
        size_in(len(points.objectives)),
    )


def _table(facts: RunFacts, knee_rows: tuple[int, ...]) -> Table:
    front, objectives = facts.run.front, facts.job.objectives
    rows = list(dict.fromkeys((*knee_rows, *range(len(front)))))[:TABLE_ROWS]
    shown = front.iloc[rows]
    mark = ["knee"] if knee_rows else []
    head = [*mark, *map(quantity_name, objectives), *schedule_words(front.iloc[0].to_dict())]
    marks = {row: knee_label(rank) for rank, row in enumerate(knee_rows)}
    return Table(
        "The front, knees first" if knee_rows else "The front",
        tuple(head),
        tuple(
            _row([marks.get(at, "")] if mark else [], row, objectives)
            for at, row in zip(rows, shown.to_dict("records"), strict=True)
        ),
        frozenset(range(len(mark), len(mark) + len(objectives))) | {head.index("stages")},
        more=f"{len(front) - len(rows):,} more are in front.parquet" if len(front) > len(rows) else "",
    )


def _row(mark: list[str], row: Any, objectives: tuple[str, ...]) -> tuple[Cell, ...]:
    named = schedule_words(row)
    return (
        *map(words, mark),
        *(number(row[name], si(float(row[name]), quantity_unit(name))) for name in objectives),
        *(number(row["stages"], text) if name == "stages" else words(text) for name, text in named.items()),
    )
