"""Elasticities: by how many per cent a schedule's latency moves where a number of the GPU moves by one per cent.

    d log latency / d log number,  -1: a rate that binds all of the time, 0: a number that does not matter.

The schedule is held. Where it is the tuned one that does not matter: at an optimum that nothing ties with, re-tuning
changes the latency in the second order only (the envelope theorem), so these are the elasticities of the tuned latency
as well. Rates, powers and times together make a sum rule: with every rate and power times c and every time over c the
latency is over c, so the elasticities of rates and powers less those of times add up to -1.

Derivatives are those of `jax` in float64, each beside a central finite difference. Three kinds of numbers have none:
those that are 0 (off); counts that the model takes whole, in waves and residents, which get the change over 10 %; and
those at a kink, where more and less of it do not weigh the same, e.g. where two pipelines tie. A kink is reported with
both of its sides.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ...any_order import one_order
from ...errors import UserError
from ...infeasible import why_not
from .gpu_numbers import LESS_IS_BETTER, STEPS, field_of, in_the_file, moved, ranges, ten_percent
from .next_bottleneck import bottleneck_words, next_bottlenecks
from .precise_costs import Rows, frozen_latencies, latency_slopes, make_rows, number_names, precise_costs

if TYPE_CHECKING:
    import pandas as pd

STEP_LOG = 1e-7  # of the finite differences, in the logarithm: rounding is then below 1e-7, curvature below 1e-5
KINK = 1e-4  # one-sided elasticities that differ by more are those of a kink

COLUMNS: dict[str, tuple[str, str]] = {  # name -> (unit, meaning)
    "number": ("text", "number of the GPU, as --set takes it"),
    "value": ("its unit", "its value"),
    "unit": ("text", "its unit"),
    "file": ("text", "where it stands in a GPU file"),
    "better": ("text", "which way is better: more or less"),
    "kind": ("text", "smooth, kink, count (taken whole by the model), or zero (off)"),
    "elasticity": ("1", "d log latency / d log number by differentiation; empty unless smooth"),
    "elasticity_up": ("1", "the same for more of it alone, by finite difference; of a count: over +10 %"),
    "elasticity_down": ("1", "the same for less of it alone, by finite difference; of a count: over -10 %"),
    "difference": ("1", "central finite difference of what is smooth"),
    "size": ("1", "largest of the three in size: what the table is sorted by"),
    "change_plus_10": ("1", "latency with 10 % more of it over the latency, less 1; empty where that cannot be"),
    "change_minus_10": ("1", "the same with 10 % less of it"),
    "buys_10": ("1", "latency saved by 10 % of it in the better direction, as a share; negative: it is slower"),
    "step": ("its unit", "smallest change of a count"),
    "change_step": ("1", "latency with one step more of a count over the latency, less 1"),
    "up_factor": ("1", "times how much of it what binds changes; infinite: not within the range looked at"),
    "up_binds": ("text", "what binds then"),
    "down_factor": ("1", "the same for less of it; 0: not within the range looked at"),
    "down_binds": ("text", "what binds then"),
    "next": ("text", "the distance to the next bottleneck in words"),
}


@dataclass(frozen=True, eq=False)
class Elasticities:
    """What a schedule's latency owes to each number of its GPU.

    Attributes:
        problem: the problem.
        schedule: field -> number.
        latency_s: of the schedule, in float64.
        bound: what binds, one of `jaxmodel.types.BOUNDS`.
        table: one row a number of the GPU (`COLUMNS`), the largest effect first.
    """

    problem: Any
    schedule: Mapping[str, int]
    latency_s: float
    bound: str
    table: "pd.DataFrame"

    def of(self, number: str) -> float:
        """The elasticity of one number: of a kink or a count the mean of its two sides, 0 of a number that is 0.

        Raises:
            UserError: no such number.
        """
        from ...errors import unknown

        rows = self.table[self.table["number"] == number]
        if not len(rows):
            raise unknown("number of a GPU", number, self.table["number"])
        return float(central(rows).iloc[0])


def central(table: "pd.DataFrame") -> "pd.Series":
    """One elasticity a row of a table: the derivative, else the mean of the two sides, else 0."""
    sides = table[["elasticity_up", "elasticity_down"]].mean(axis=1)
    return table["elasticity"].fillna(sides).fillna(0.0)


def elasticities(
    problem: Any,
    schedule: Mapping[str, int],
    gpu: Any,
    *,
    bottlenecks: bool = True,
    clock: str = "boost",
) -> Elasticities:
    """Elasticities of one schedule's latency with regard to every number of its GPU.

    Args:
        problem: the user's problem (`dse.kernels.problem.Problem`).
        schedule: a complete schedule, field -> number.
        gpu: the model's record, `GpuFile.bind(...)`, `Question.bound` or `SweepJob.gpu`.
        bottlenecks: whether the distance to the next bottleneck is looked for (most of the time that this takes).
        clock: that the record is bound to, "boost" or "sustained".

    Raises:
        UserError: the schedule cannot run on the GPU; the message says why.
    """
    return elasticities_of([problem], [schedule], [gpu], bottlenecks=bottlenecks, clock=clock)[0]


def elasticities_of(
    problems: Sequence[Any],
    schedules: Sequence[Mapping[str, int]],
    gpus: Sequence[Any],
    *,
    bottlenecks: bool = True,
    clock: str = "boost",
) -> list[Elasticities]:
    """`elasticities` of many (problem, schedule, GPU) at once, one of each an entry.

    The problems are of one kernel, all with scales of narrow types or all without; of the GPUs all or none have drift.
    """
    import pandas as pd

    from jaxmodel.types import BOUNDS

    if not len(problems):
        return []
    runs = [one_order(s, p)[0] for p, s in zip(problems, schedules, strict=True)]
    rows = make_rows(problems, runs, gpus, problems[0].kernel)
    base = latency_slopes(rows)
    for place in np.flatnonzero(base["reason"] != 0).tolist():
        costs = {name: values[0] for name, values in precise_costs(rows.take(np.array([place]))).items()}
        raise UserError(
            f"the schedule cannot run {problems[place].shape}: "
            f"{why_not(problems[place], runs[place], costs, gpus[place])}"
        )
    columns = elasticity_columns(rows, base, bottlenecks=bottlenecks, clock=clock)
    found = []
    for place, (problem, schedule) in enumerate(zip(problems, runs, strict=True)):
        table = pd.DataFrame({name: values[place] for name, values in columns.items()})
        bound = BOUNDS[int(base["bound"][place])]
        if bottlenecks:
            table["next"] = [bottleneck_words(bound, row) for row in table.to_dict("records")]
        table = table.sort_values(["size", "buys_10"], ascending=False, kind="stable", ignore_index=True)
        found.append(Elasticities(problem, schedule, float(base["latency_s"][place]), bound, table))
    return found


def elasticity_columns(
    rows: Rows, base: Mapping[str, np.ndarray], *, bottlenecks: bool = True, clock: str = "boost"
) -> dict[str, np.ndarray]:
    """The columns of the tables of many kernels: name -> array[rows, numbers], numbers in the record's order.

    Args:
        rows: of `dse.studies.sensitivity.precise_costs`.
        base: `latency_slopes(rows)`.
        bottlenecks: whether the distance to the next bottleneck is looked for.
        clock: that the GPUs are bound to.
    """
    names = np.array(number_names(rows.gpu), object)
    shape = (len(rows), len(names))
    at, which = (each.reshape(-1) for each in np.indices(shape))
    every, number = rows.take(at), names[which]
    value = np.stack([getattr(rows.gpu, name) for name in names], axis=1)
    latency_s = base["latency_s"][:, None]
    along = {name: np.where(number == name, getattr(every.gpu, name), 0.0) for name in names}
    slope = latency_slopes(every, along)["slope_s"].reshape(shape) / latency_s

    def latencies_at(values: np.ndarray) -> np.ndarray:
        """NaN where the schedule does not fit."""
        found = frozen_latencies(moved(every, number, values.reshape(-1)))
        return np.where(found["reason"] == 0, found["latency_s"], np.nan).reshape(shape)

    ends = ranges(rows.gpu, names)
    zero, count = value == 0.0, np.broadcast_to([name in STEPS for name in names], shape)

    def changed(values: np.ndarray) -> np.ndarray:
        """NaN where a number is off, would leave its range, or the schedule would not fit."""
        able = ~zero & (values != value) & (values >= ends[0]) & (values <= ends[1])
        return np.where(able, latencies_at(np.where(able, values, value)) / latency_s, np.nan)

    more, less = (ten_percent(names, value, sign, *ends) for sign in (1.0, -1.0))
    more_s, less_s = changed(more), changed(less)
    with np.errstate(divide="ignore", invalid="ignore"):
        arcs = np.log(np.stack([more_s, less_s])) / np.log(np.stack([more, less]) / value)
    near = [sign * np.log(latencies_at(value * np.exp(sign * STEP_LOG)) / latency_s) / STEP_LOG for sign in (1.0, -1.0)]
    sides = np.where(zero, np.nan, np.where(count, arcs, np.stack(near)))
    kink = ~count & ~zero & ~(np.abs(sides[0] - sides[1]) <= KINK * np.maximum(1.0, np.abs(slope)))
    smooth = ~(count | zero | kink)
    elasticity = np.where(smooth, slope, np.nan)
    step = np.where(count, np.broadcast_to([STEPS.get(name, np.nan) for name in names], shape), np.nan)
    less_is_better = np.array([name in LESS_IS_BETTER for name in names])
    columns = {
        "number": np.broadcast_to(names, shape),
        "value": value,
        "unit": np.broadcast_to([field_of(name).unit for name in names], shape),
        "file": np.broadcast_to([in_the_file(name, clock) for name in names], shape),
        "better": np.broadcast_to(np.where(less_is_better, "less", "more"), shape),
        "kind": np.select([zero, count, kink], ["zero", "count", "kink"], "smooth"),
        "elasticity": elasticity,
        "elasticity_up": sides[0],
        "elasticity_down": sides[1],
        "difference": np.where(smooth, sides.mean(axis=0), np.nan),
        "size": np.nan_to_num(np.abs(np.stack([elasticity, *sides]))).max(axis=0),
        "change_plus_10": more_s - 1.0,
        "change_minus_10": less_s - 1.0,
        "buys_10": 1.0 - np.where(less_is_better, less_s, more_s),
        "step": step,
        "change_step": changed(value + np.nan_to_num(step)) - 1.0,
    }
    return {**columns, **(next_bottlenecks(rows, names, base) if bottlenecks else {})}
