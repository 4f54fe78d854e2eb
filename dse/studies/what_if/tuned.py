"""What if the hardware were different: schedules tuned anew for every machine, beside those of the baseline kept.

The difference between the two is what tuning again buys. Both are exact for the space: every schedule is evaluated on
every machine (`dse.tuning`).
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ...errors import UserError
from ...fitting import fitting
from ...platform import configure_jax
from ...progress import Progress
from ...question import Question
from ...space import Space
from ...tuning import tune
from .machines import Machine
from .shape import Shape
from .table import table_of, totals_of

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class WhatIf:
    """What was found.

    Attributes:
        machines: as asked, the baseline first.
        table: one row a (machine, shape), machine by machine; see `dse.studies.what_if.table.TABLE`.
        totals: one row a machine; see `TOTALS` there.
        spaces: name -> (declared schedules, those that fit some machine) of every space that was tuned over.
        evaluations: candidates evaluated.
        seconds: wall time.
    """

    machines: tuple[Machine, ...]
    table: "pd.DataFrame"
    totals: "pd.DataFrame"
    spaces: dict[str, tuple[int, int]]
    evaluations: int
    seconds: float


def tune_machines(
    machines: Sequence[Machine],
    shapes: Sequence[Shape],
    space_of: Callable[[Question], Space],
    progress: Progress = None,
) -> WhatIf:
    """Tunes every shape for every machine.

    Args:
        machines: the baseline first (`dse.studies.what_if.machines`).
        shapes: each with its question on every machine, in their order.
        space_of: the space of a question; asked once for each instruction family and type.
        progress: as in `dse.sweep.run_sweep`.

    Raises:
        UserError: no schedule can run a shape on a machine; the message names both.
    """
    configure_jax()
    began = time.perf_counter()
    asked = [shape.questions[at] for at in range(len(machines)) for shape in shapes]
    latency_s = np.full(len(asked), np.inf)
    index = np.full(len(asked), -1, np.int64)
    fields: list[dict[str, int]] = [{} for _ in asked]
    spaces: dict[str, tuple[int, int]] = {}
    evaluations = 0
    for space, places in _by_space(asked, space_of):
        rows = [(asked[int(place)].problem, asked[int(place)].bound) for place in places]
        schedules = fitting(space, [problem for problem, _ in rows], [gpu for _, gpu in rows])
        found = tune(schedules, rows, progress)
        latency_s[places], index[places] = found.latency_s, found.index
        for place, schedule in zip(places, schedules.schedules(found.place), strict=True):
            fields[int(place)] = schedule
        spaces[f"{space.name} {space.dtype}"] = (space.size, len(schedules))
        evaluations += found.evaluations
    _check_all_run(asked, index)
    table = table_of(machines, shapes, asked, latency_s, index, fields)
    return WhatIf(tuple(machines), table, totals_of(table), spaces, evaluations, time.perf_counter() - began)


def _by_space(asked: Sequence[Question], space_of: Callable[[Question], Space]) -> list[tuple[Space, np.ndarray]]:
    kinds = [(at.family, at.problem.dtype, at.accumulator) for at in asked]
    found = []
    for kind in dict.fromkeys(kinds):
        places = np.array([place for place, other in enumerate(kinds) if other == kind])
        found.append((space_of(asked[kinds.index(kind)]), places))
    return found


def _check_all_run(asked: Sequence[Question], index: np.ndarray) -> None:
    for question, at in zip(asked, index, strict=True):
        if at < 0:
            changes = "; ".join(question.changes)
            raise UserError(
                f"no schedule of the space can run {question.problem.shape} on {question.gpu.name}"
                f"{f' ({changes})' if changes else ''}: widen the space or its preset, or leave the shape out"
            )
