"""One schedule, explained: where its time goes, what it moves, what binds, what to change."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .advice import what_binds, what_to_change
from .columns import code_names
from .content.space import load_space
from .explain_text import explanation_text
from .infeasible import why_not
from .job import SweepJob
from .roofline import Roofline, roofline
from .rows import evaluate_schedules
from .schedule_text import FIELDS, distinct_raster, format_schedule, raster_label

PHASES = ("prologue", "steady", "epilogue", "tail", "reduction", "launch")


@dataclass(frozen=True)
class Explanation:
    """What the model says of one schedule.

    Attributes:
        problem: the user's problem (`dse.problem.GemmProblem`).
        gpu_name: of the GPU.
        family: instruction family.
        schedule: field -> number.
        cost: cost column -> number (`dse.columns.COST_COLUMNS`), and the words for its codes.
        roof: the problem's roofline.
        why_not: why it cannot run, with numbers; "" where it can.
        notes: what was understood differently from what was written.
    """

    problem: Any
    gpu_name: str
    family: str
    schedule: Mapping[str, int]
    cost: Mapping[str, Any]
    roof: Roofline
    why_not: str
    notes: tuple[str, ...] = ()

    @property
    def feasible(self) -> bool:
        """Whether the schedule can run."""
        return not self.why_not

    @property
    def latency_s(self) -> float:
        """Predicted latency of the kernel."""
        return float(self.cost["latency_s"])

    @property
    def tflop_per_s(self) -> float:
        """Useful TFLOP/s."""
        return self.roof.flop / self.latency_s / 1e12

    @property
    def roof_share(self) -> float:
        """The lower roof's time over the latency: 1 is as fast as the hardware allows."""
        return self.roof.roof_s / self.latency_s

    @property
    def pipelines(self) -> dict[str, float]:
        """Pipeline -> seconds of its demand at its peak."""
        from jaxmodel.types import PIPELINES

        return {name: float(self.cost[f"pipeline_{name}_s"]) for name in PIPELINES}

    @property
    def phases(self) -> dict[str, float]:
        """Phase -> seconds; they add up to the latency."""
        return {name: float(self.cost[f"{name}_s"]) for name in PHASES}

    @property
    def binds(self) -> str:
        """What binds, in a sentence."""
        return what_binds(self.cost, self.roof)

    @property
    def advice(self) -> list[str]:
        """What to change, the largest gain first."""
        return what_to_change(self.schedule, self.cost, self.roof, clusters=self.family != "mma_sync")

    def __str__(self) -> str:
        return explanation_text(self)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain numbers and text, for JSON."""
        roof = self.roof
        return {
            "shape": self.problem.shape,
            "dtype": self.problem.dtype,
            "gpu": self.gpu_name,
            "family": self.family,
            "schedule": dict(self.schedule),
            "schedule_text": format_schedule(self.schedule),
            "feasible": self.feasible,
            "why_not": self.why_not,
            "latency_s": self.latency_s if self.feasible else None,
            "tflop_per_s": self.tflop_per_s if self.feasible else None,
            "binds": self.binds if self.feasible else None,
            "advice": self.advice if self.feasible else [],
            "pipelines_s": self.pipelines,
            "phases_s": self.phases,
            "roofline": {
                "tensor_s": roof.tensor_s,
                "ddr_s": roof.ddr_s,
                "roof": roof.roof,
                "share": self.roof_share,
                "compulsory_bytes": roof.compulsory_bytes,
                "flop_per_byte": roof.intensity,
                "ridge_flop_per_byte": roof.ridge,
            },
            "cost": {name: _plain(value) for name, value in self.cost.items()},
            "notes": list(self.notes),
        }


def explain_schedule(
    problem: Any, schedule: Mapping[str, int], gpu: Any, family: str, gpu_name: str = ""
) -> Explanation:
    """Runs the model on one schedule and keeps everything it says.

    A launch order that a space holds under another name is renamed, with a note, rather than refused.

    Args:
        problem: the user's problem (`dse.problem.GemmProblem`).
        schedule: a complete schedule, field -> number (`dse.schedule_text.parse_schedule`).
        gpu: the model's record of the GPU, `GpuFile.bind(...)`.
        family: the instruction family that the record is bound to.
        gpu_name: what to call the GPU.
    """
    renamed = distinct_raster(schedule, problem.m, problem.n)
    notes = ()
    if renamed != dict(schedule):
        written, kept = raster_label(schedule), raster_label(renamed)
        notes = (f"raster {written} is as wide as the grid: the launch order is that of {kept}",)
    job = SweepJob(load_space("gemm", family, problem.dtype), problem, gpu, gpu_name=gpu_name)
    costs = costs_of(job, [renamed])[0]
    reason = why_not(problem, renamed, costs, gpu) if int(costs["reason"]) else ""
    return Explanation(problem, gpu_name, family, renamed, costs, roofline(problem, gpu), reason, notes)


def costs_of(job: SweepJob, schedules: list[Mapping[str, int]]) -> list[dict[str, Any]]:
    """Each schedule's cost columns and the words for its codes, in the order given."""
    import numpy as np

    if not schedules:
        return []
    fields = {name: np.array([at[name] for at in schedules]) for name in FIELDS}
    columns = evaluate_schedules(job, fields)
    costs = {name: values for name, values in columns.items() if name not in FIELDS}
    costs |= code_names(costs)
    return [{name: _plain(values[row]) for name, values in costs.items()} for row in range(len(schedules))]


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value
