"""The tables of a what-if: a row a machine and shape, tuned and with the baseline's schedules kept; a row a machine."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...columns import code_words
from ...paired import paired_costs
from ...question import Question
from ...schedule_words import words_of
from .machines import Machine
from .shape import Shape

if TYPE_CHECKING:
    import pandas as pd


COSTS = ("l2_hit", "l15_hit", "ddr_bytes", "energy_j", "waves")
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


def table_of(
    machines: Sequence[Machine],
    shapes: Sequence[Shape],
    asked: list[Question],
    latency_s: np.ndarray,
    index: np.ndarray,
    fields: list[dict[str, int]],
) -> "pd.DataFrame":
    import pandas as pd

    costs = _costs(asked, fields)
    words = words_of(asked[0].problem.kernel)
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
            "schedule": [words.format(at) for at in fields],
            "frozen_schedule": [words.format(at) if at else "" for at in frozen],
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


def _costs(asked: Sequence[Question], fields: Sequence[Mapping[str, int]]) -> dict[str, np.ndarray]:
    columns = {name: np.array([at[name] for at in fields]) for name in fields[0]}
    return paired_costs([at.problem for at in asked], columns, [at.bound for at in asked], asked[0].problem.kernel)


def _words(name: str, costs: dict[str, np.ndarray]) -> np.ndarray:
    return np.array(code_words()[name], object)[costs[name].astype(int)]
