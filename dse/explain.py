"""One schedule, explained: where its time goes, what it moves, what binds, what to change."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from .any_order import one_order
from .columns import code_names
from .content.space import load_space
from .errors import UserError
from .explanation import Explanation
from .infeasible import why_not
from .job import SweepJob
from .question import Question
from .roofline import roofline
from .rows import evaluate_schedules
from .schedule_words import schedule_in
from .trust import label_of

if TYPE_CHECKING:
    import pandas as pd


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


def explain_asked(asked: Question, fields: Mapping[str, int]) -> Explanation:
    """Explains a complete schedule for a question."""
    return explain_schedule(
        asked.problem,
        fields,
        asked.bound,
        asked.family,
        asked.gpu.name,
        gpu_changes=asked.changes,
        clock=asked.clock,
    )


def explain_row(job: SweepJob, table: "pd.DataFrame", rank: int) -> Explanation:
    """Explains a row of a result's table (`result.top`, `result.front`), counted from 0.

    Raises:
        UserError: a rank past the end.
    """
    fields, tuned = ranked_schedule(table, rank, job.space.kernel)
    return explain_fields(job, fields, tuned)


def ranked_schedule(table: "pd.DataFrame", rank: int, kernel: str = "gemm") -> tuple[dict[str, int], bool]:
    """The schedule in a row of a result's table, counted from 0, and whether none of the table is faster.

    Raises:
        UserError: a rank past the end.
    """
    if not 0 <= rank < len(table):
        raise UserError(f"rank {rank} is not there: the table has the rows 0 to {len(table) - 1}")
    row = table.iloc[rank]
    return schedule_in(kernel, row.to_dict()), bool(row["latency_s"] <= table["latency_s"].min())


def explain_fields(job: SweepJob, fields: Mapping[str, int], tuned: bool = False) -> Explanation:
    """Explains a complete schedule for the problem and GPU of a job; `tuned`: it is the fastest of the job's space."""
    return explain_schedule(
        job.problem,
        fields,
        job.gpu,
        job.space.family,
        job.gpu_name,
        gpu_changes=job.gpu_changes,
        clock=job.clock,
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
