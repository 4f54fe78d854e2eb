"""Where a what-if bends: values past which something else binds, and past which more buys next to nothing."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ...content.hardware_axis import HardwareAxis, current_value
from .tuned import WhatIf

if TYPE_CHECKING:
    import pandas as pd

LITTLE = 0.01  # a doubling that buys less than this buys little
SAME = 1e-6  # a share of the latency that is float32's rounding
ROUNDING = 1e-4  # of values with six digits, in the logarithm


@dataclass(frozen=True)
class BoundMove:
    """Shapes whose bound changes along an axis, values ascending.

    Attributes:
        before, after: what binds the tuned schedule.
        below, above: the median shape's bound changes between these two values.
        first, last: the values past which the first and the last of these shapes change.
        shapes: how many.
        of: all shapes of the study.
    """

    before: str
    after: str
    below: float
    above: float
    first: float
    last: float
    shapes: int
    of: int


@dataclass(frozen=True)
class Curve:
    """One axis, values ascending, the baseline among them.

    Attributes:
        axis: what was varied.
        now: the baseline's number.
        totals: rows of `WhatIf.totals` with the column `value`.
        table: rows of `WhatIf.table` with the column `value`.
        moves: changes of what binds, most shapes first.
        enough: the least value from which on doubling it buys less than 1 % of the total latency; None where there is
            none on the curve, or doubling leads past its end.
    """

    axis: HardwareAxis
    now: float
    totals: "pd.DataFrame"
    table: "pd.DataFrame"
    moves: tuple[BoundMove, ...]
    enough: float | None


def curves_of(found: WhatIf, axes: Sequence[HardwareAxis]) -> tuple[Curve, ...]:
    """A curve for each axis that was varied by itself."""
    return tuple(_curve(found, axis, alone=len(axes) == 1) for axis in axes)


def _curve(found: WhatIf, axis: HardwareAxis, alone: bool) -> Curve:
    now = current_value(found.machines[0].gpu, axis.field)
    values = {
        number: machine.values.get(axis.field, now)
        for number, machine in enumerate(found.machines)
        if machine.is_baseline or alone or machine.axis == axis.title
    }
    kept = [number for number, value in values.items() if number == 0 or value != now]
    table, totals = (
        frame[frame["machine"].isin(kept)]
        .assign(value=lambda rows: rows["machine"].map(values))
        .sort_values(["value", "machine"], kind="stable", ignore_index=True)
        for frame in (found.table, found.totals)
    )
    return Curve(
        axis,
        now,
        totals,
        table,
        bound_moves(table),
        where_enough(totals["value"].to_list(), totals["latency_s"].to_list()),
    )


def bound_moves(table: "pd.DataFrame") -> tuple[BoundMove, ...]:
    """Changes of `bound` along `value`, shape by shape. Where a shape goes back to what bound before, the way there and
    back is left out: what is told are the changes that last.

    Args:
        table: columns shape_name, value, bound, sorted by value.
    """
    changes: dict[tuple[str, str], dict[str, tuple[float, float]]] = {}
    for name, rows in table.groupby("shape_name", sort=False):
        values = rows["value"].to_numpy(float)
        for before, after, at in _lasting([str(bound) for bound in rows["bound"]]):
            changes.setdefault((before, after), {})[str(name)] = (values[at], values[at + 1])
    count = table["shape_name"].nunique()
    moves = []
    for (before, after), shapes in changes.items():
        steps = sorted(shapes.values())
        below, above = steps[(len(steps) - 1) // 2]
        moves.append(BoundMove(before, after, below, above, steps[0][0], steps[-1][0], len(steps), count))
    return tuple(sorted(moves, key=lambda move: (-move.shapes, move.below, move.before, move.after)))


def _lasting(bounds: Sequence[str]) -> list[tuple[str, str, int]]:
    """(before, after, place of the last `before`), loops taken out."""
    path: list[tuple[str, int]] = []
    for at, bound in enumerate(bounds):
        known = [name for name, _ in path]
        if bound in known:
            del path[known.index(bound) :]
        path.append((bound, at))
    return [(before, after, at) for (before, at), (after, _) in itertools.pairwise(path)]


def where_enough(values: Sequence[float], latency_s: Sequence[float]) -> float | None:
    """The least value from which on doubling buys less than 1 %; latency in between is taken log-linear, and between
    neighbours further apart than a doubling as if one doubling bought all that lies between them.

    Args:
        values: ascending.
        latency_s: of each.

    Returns:
        None where there is none on the curve, where doubling leads past its end, or where more is only slower.
    """
    at, seconds = np.asarray(values, float), np.asarray(latency_s, float)
    usable = at > 0
    at, seconds = np.log(at[usable]), np.log(seconds[usable])
    inside = at + np.log(2.0) <= at[-1] + ROUNDING if len(at) else np.zeros(0, bool)
    if not inside.any():
        return None
    bought = seconds - np.interp(at + np.log(2.0), at, seconds)
    wide = np.diff(at) > np.log(2.0) + ROUNDING
    bought[:-1] = np.where(wide, np.maximum(bought[:-1], seconds[:-1] - seconds[1:]), bought[:-1])
    gain = 1.0 - np.exp(-bought)
    still = np.flatnonzero(gain[inside] >= LITTLE)
    first = still[-1] + 1 if len(still) else 0
    only_costs = (gain < -SAME).any() and not (gain > SAME).any()
    if only_costs or first >= inside.sum():
        return None
    return float(np.asarray(values, float)[usable][first])
