"""What if the hardware were different: schedules tuned anew for every machine, beside those of the baseline kept.

The difference between the two is what tuning again buys. Both are exact for the space: every schedule is evaluated on
every machine (`dse.tuning`).
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ...columns import code_words
from ...errors import UserError
from ...paired import paired_costs
from ...platform import configure_jax
from ...progress import Progress
from ...question import Question
from ...schedule_set import fitting
from ...schedule_text import format_schedule
from ...space import Space
from ...tuning import tune
from .machines import Machine

if TYPE_CHECKING:
    import pandas as pd

COSTS = ("l2_hit", "l15_hit", "ddr_bytes", "energy_j", "waves")


@dataclass(frozen=True)
class Shape:
    """One shape of a study.

    Attributes:
        name: for tables.
        weight: how much its latency counts in a total, e.g. how often it runs.
        questions: the shape on every machine.
    """

    name: str
    weight: float
    questions: tuple[Question, ...]


@dataclass(frozen=True)
class WhatIf:
    """What was found.

    Attributes:
        machines: as asked, the baseline first.
        table: one row a (machine, shape), machine by machine; see `TABLE`.
        totals: one row a machine; see `TOTALS`.
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


TABLE: dict[str, tuple[str, str]] = {  # column -> (unit, meaning)
    "machine": ("1", "number of the machine, 0 the baseline"),
    "label": ("text", "the machine in words"),
    "gpu": ("text", "GPU file"),
    "axis": ("text", "axis of the study that was moved"),
    "shape_name": ("text", "name of the shape"),
    "shape": ("text", "MxNxK or BATCHxMxNxK"),
    "weight": ("1", "how much the shape counts"),
    "latency_s": ("s", "latency of the fastest schedule for this machine"),
    "frozen_s": ("s", "latency of the baseline's fastest schedule on this machine; missing where it cannot run"),
    "speedup": ("1", "the baseline's latency over latency_s"),
    "frozen_speedup": ("1", "the baseline's latency over frozen_s"),
    "retuning_gain": ("1", "frozen_s over latency_s"),
    "bound": ("text", "what binds the fastest schedule"),
    "frozen_bound": ("text", "what binds the baseline's schedule here"),
    "schedule": ("text", "the fastest schedule"),
    "frozen_schedule": ("text", "the baseline's schedule as it runs here"),
    "frozen_reason": ("text", "why the baseline's schedule cannot run here; empty where it can"),
    "index": ("1", "index of the fastest schedule in its space"),
    "l2_hit": ("1", "share of all requested bytes found in L1.5 or L2"),
    "l15_hit": ("1", "share of all requested bytes found in L1.5"),
    "ddr_bytes": ("B", "bytes read from and written to DRAM"),
    "energy_j": ("J", "energy of one kernel"),
    "waves": ("1", "waves of CTAs"),
}
TOTALS: dict[str, tuple[str, str]] = {
    "machine": TABLE["machine"],
    "label": TABLE["label"],
    "gpu": TABLE["gpu"],
    "axis": TABLE["axis"],
    "latency_s": ("s", "weighted sum over the shapes, tuned for this machine"),
    "frozen_s": ("s", "the same with the baseline's schedules; missing where one cannot run"),
    "speedup": TABLE["speedup"],
    "frozen_speedup": TABLE["frozen_speedup"],
    "retuning_gain": TABLE["retuning_gain"],
    "energy_j": ("J", "weighted sum over the shapes"),
    "power_w": ("W", "energy_j over latency_s: mean power while the kernels run"),
}


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
        columns = schedules.fields(found.place)
        for row, place in enumerate(places):
            fields[int(place)] = {name: int(values[row]) for name, values in columns.items()}
        spaces[f"{space.name} {space.dtype}"] = (space.size, len(schedules))
        evaluations += found.evaluations
    _check_all_run(asked, index)
    table = _table(machines, shapes, asked, latency_s, index, fields)
    return WhatIf(tuple(machines), table, totals_of(table), spaces, evaluations, time.perf_counter() - began)


def totals_of(table: "pd.DataFrame") -> "pd.DataFrame":
    """One row a machine: weighted sums over its shapes, and how they compare with the baseline's."""
    import pandas as pd

    rows = []
    for machine, group in table.groupby("machine", sort=True):
        sums = {name: float((group[name] * group["weight"]).sum(skipna=False)) for name in ("latency_s", "frozen_s")}
        sums["energy_j"] = float((group["energy_j"] * group["weight"]).sum())
        rows.append({"machine": machine, **group.iloc[0][["label", "gpu", "axis"]], **sums})
    totals = pd.DataFrame(rows)
    now = float(totals["latency_s"].iloc[0])
    totals["speedup"] = now / totals["latency_s"]
    totals["frozen_speedup"] = now / totals["frozen_s"]
    totals["retuning_gain"] = totals["frozen_s"] / totals["latency_s"]
    totals["power_w"] = totals["energy_j"] / totals["latency_s"]
    return totals[[*TOTALS]]


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
            changes = "; ".join(question.gpu.changes)
            raise UserError(
                f"no schedule of the space can run {question.problem.shape} on {question.gpu.name}"
                f"{f' ({changes})' if changes else ''}: widen the space or its preset, or leave the shape out"
            )


def _table(
    machines: Sequence[Machine],
    shapes: Sequence[Shape],
    asked: list[Question],
    latency_s: np.ndarray,
    index: np.ndarray,
    fields: list[dict[str, int]],
) -> "pd.DataFrame":
    import pandas as pd

    costs = _costs(asked, fields)
    count = len(shapes)
    baseline = np.arange(len(asked)) % count
    frozen, frozen_costs, reasons = _frozen(asked, asked[:count] * len(machines), fields[:count] * len(machines))
    rows = pd.DataFrame(
        {
            "machine": np.arange(len(asked)) // count,
            "label": [machine.label for machine in machines for _ in shapes],
            "gpu": [machine.gpu.name for machine in machines for _ in shapes],
            "axis": [machine.axis for machine in machines for _ in shapes],
            "shape_name": [shape.name for shape in shapes] * len(machines),
            "shape": [question.problem.shape for question in asked],
            "weight": [shape.weight for shape in shapes] * len(machines),
            "latency_s": latency_s,
            "frozen_s": np.where(reasons == "", frozen_costs["latency_s"], np.nan),
            "bound": _words("bound", costs),
            "frozen_bound": np.where(reasons == "", _words("bound", frozen_costs), ""),
            "schedule": [format_schedule(at) for at in fields],
            "frozen_schedule": [format_schedule(at) if at else "" for at in frozen],
            "frozen_reason": reasons,
            "index": index,
            **{name: costs[name] for name in COSTS},
        }
    )
    now = latency_s[baseline]
    rows["speedup"] = now / rows["latency_s"]
    rows["frozen_speedup"] = now / rows["frozen_s"]
    rows["retuning_gain"] = rows["frozen_s"] / rows["latency_s"]
    varied = dict.fromkeys(name for machine in machines for name in machine.values)
    for name in varied:
        rows[f"gpu.{name}"] = [machine.values.get(name, np.nan) for machine in machines for _ in shapes]
        rows[f"factor.{name}"] = [machine.factors.get(name, np.nan) for machine in machines for _ in shapes]
    return rows[[*TABLE, *(column for column in rows.columns if column not in TABLE)]]


def _frozen(
    asked: Sequence[Question], baseline: Sequence[Question], kept: Sequence[dict[str, int]]
) -> tuple[list[dict[str, int]], dict[str, np.ndarray], np.ndarray]:
    """The baseline's schedules on every machine: as they run there, what they cost, and why some cannot run."""
    same_family = [at.family == other.family for at, other in zip(asked, baseline, strict=True)]
    costs = _costs(asked, kept)
    reasons = _words("reason", costs)
    runs = [as_it_runs(at, str(reason)) for at, reason in zip(kept, reasons, strict=True)]
    costs = _costs(asked, runs)
    words = np.where(costs["reason"] == 0, "", _words("reason", costs))
    return runs, costs, np.where(same_family, words, "another instruction family")


def as_it_runs(schedule: dict[str, int], reason: str) -> dict[str, int]:
    """What a compiled kernel does on a machine where its launch has nothing to do: stream-K with nothing to share is
    persistent, SMs that cannot be left free are not left."""
    if reason == "STREAM_K":
        return {**schedule, "stream_k": 0, "persistent": 1}
    if reason == "SMS_FREE":
        return {**schedule, "sms_free": 0}
    return schedule


def _costs(asked: Sequence[Question], fields: Sequence[dict[str, int]]) -> dict[str, np.ndarray]:
    columns = {name: np.array([at[name] for at in fields]) for name in fields[0]}
    kinds = [_records_held(at) for at in asked]
    merged: dict[str, np.ndarray] = {}
    for kind in dict.fromkeys(kinds):
        places = np.array([place for place, other in enumerate(kinds) if other == kind])
        own = {name: values[places] for name, values in columns.items()}
        chosen = [asked[int(at)] for at in places]
        costs = paired_costs([at.problem for at in chosen], own, [at.bound for at in chosen])
        for name, values in costs.items():
            merged.setdefault(name, np.zeros(len(asked), values.dtype))[places] = values
    return merged


def _records_held(at: Question) -> tuple[bool, ...]:
    """What of the model's records is there: rows of one evaluation have the same."""
    drift = (at.bound.drift_skew_steps, at.bound.drift_jitter_steps)
    return (at.problem.arrays().scaling is not None, *(value is not None for value in drift))


def _words(name: str, costs: dict[str, np.ndarray]) -> np.ndarray:
    return np.array(code_words()[name], object)[costs[name].astype(int)]
