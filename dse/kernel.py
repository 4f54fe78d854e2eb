"""The kernels that can be swept: a name, its problem, its schedule and its cost function."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from .errors import unknown
from .problem import GemmProblem, gemm_problem

OBJECTIVES: dict[str, tuple[str, str]] = {  # name -> (unit, what it is); all are minimised
    "latency_s": ("s", "latency of one kernel"),
    "ddr_bytes": ("B", "bytes read from and written to DRAM"),
    "l2_bytes": ("B", "bytes through L2"),
    "smem_bytes": ("B", "shared memory of a CTA"),
    "registers_per_thread": ("1", "registers of a thread"),
    "workspace_bytes": ("B", "global memory for partial results"),
    "sms_used": ("1", "SMs the kernel occupies"),
    "energy_j": ("J", "energy of one kernel"),
}


@dataclass(frozen=True)
class Kernel:
    """A kernel family of the engine.

    Attributes:
        name: as on the command line.
        problem: makes the user's problem record from a shape and choices.
        schedule_fields: names of the schedule's fields, in the order of its record.
        compiled_fields: fields that decide what has to be computed at all: a sweep compiles the model once for each
            value of theirs that the space holds apart, see `Space.split`.
    """

    name: str
    problem: Callable[..., GemmProblem]
    schedule_fields: tuple[str, ...]
    compiled_fields: tuple[str, ...] = ()

    def schedule(self, columns: Mapping[str, Any]) -> Any:
        """The model's schedule record from one array (or number) a field."""
        from jaxmodel.types import GemmSchedule

        return GemmSchedule(**{name: columns[name] for name in self.schedule_fields})

    def cost(self, problem: Any, schedule: Any, gpu: Any) -> Any:
        """The model: `jaxmodel.kernels.gemm.cost`. Problem, schedule and GPU are the model's records."""
        from jaxmodel.kernels.gemm import cost

        return cost(problem, schedule, gpu)


def _gemm() -> Kernel:
    from jaxmodel.types import GemmSchedule

    return Kernel(
        name="gemm",
        problem=gemm_problem,
        schedule_fields=tuple(f.name for f in fields(GemmSchedule)),
        compiled_fields=("stream_k",),
    )


KERNELS: dict[str, Callable[[], Kernel]] = {"gemm": _gemm}


def get_kernel(name: str) -> Kernel:
    """The kernel of that name.

    Raises:
        UserError: naming the known ones.
    """
    if name not in KERNELS:
        raise unknown("kernel", name, KERNELS)
    return KERNELS[name]()
