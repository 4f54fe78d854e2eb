"""One schedule, explained: where its time goes, what it moves, what binds, what to change."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from .any_order import one_order
from .columns import code_names
from .content.space import load_space
from .explanation import Explanation
from .infeasible import why_not
from .job import SweepJob
from .roofline import roofline
from .rows import evaluate_schedules
from .trust import label_of


def explain_schedule(
    problem: Any,
    schedule: Mapping[str, int],
    gpu: Any,
    family: str,
    gpu_name: str = "",
    *,
    gpu_changes: tuple[str, ...] = (),
    clock: str = "boost",
    tuned: bool = False,
) -> Explanation:
    """Runs the model on one schedule and keeps everything it says.

    A launch order that a space holds under another name is renamed, with a note, rather than refused.

    Args:
        problem: the user's problem (`dse.kernels.problem.Problem`).
        schedule: a complete schedule, field -> number (`dse.schedule_words.Words.parse`).
        gpu: the model's record of the GPU, `GpuFile.bind(...)`.
        family: the instruction family that the record is bound to.
        gpu_name: what to call the GPU.
        gpu_changes: what was changed of the GPU, a line a number.
        clock: the clock that the record is bound to.
        tuned: the schedule is the fastest of a space; of others the explanation says that they were not validated.
    """
    renamed, note = one_order(schedule, problem)
    job = SweepJob(load_space(problem.kernel, family, problem.dtype), problem, gpu, gpu_name=gpu_name, clock=clock)
    costs = costs_of(job, [renamed])[0]
    reason = why_not(problem, renamed, costs, gpu) if int(costs["reason"]) else ""
    unlimited = replace(job, gpu=replace(gpu, power_time_s=0.0 * gpu.power_time_s))
    return Explanation(
        problem,
        gpu_name,
        family,
        renamed,
        costs,
        roofline(problem, gpu),
        reason,
        (note,) if note else (),
        gpu_changes=gpu_changes,
        clock=clock,
        tdp_w=float(gpu.tdp_w),
        unlimited_s=float(costs_of(unlimited, [renamed])[0]["latency_s"]),
        trust=label_of(job),
        tuned=tuned,
    )


def costs_of(job: SweepJob, schedules: list[Mapping[str, int]]) -> list[dict[str, Any]]:
    """Each schedule's cost columns and the words for its codes, in the order given."""
    import numpy as np

    if not schedules:
        return []
    fields = {name: np.array([at[name] for at in schedules]) for name in job.model.schedule_fields}
    columns = evaluate_schedules(job, fields)
    costs = {name: values for name, values in columns.items() if name not in fields}
    costs |= code_names(costs)
    return [{name: _plain(values[row]) for name, values in costs.items()} for row in range(len(schedules))]


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value
