"""What is asked of a sweep: one problem on one GPU over one space, and what shall be found."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from .errors import UserError, unknown
from .kernels.registry import get_kernel
from .objectives import OBJECTIVES
from .space import Space

MAX_OBJECTIVES = 6


class CostModel(Protocol):
    """What a sweep needs of a kernel, as `dse.kernels.registry.Kernel`. Hashable, and picklable where Ray is used."""

    @property
    def name(self) -> str:
        """The kernel's name, e.g. "gemm"."""
        ...

    @property
    def schedule_fields(self) -> tuple[str, ...]:
        """Names of the schedule's fields."""
        ...

    def schedule(self, columns: Mapping[str, Any]) -> Any:
        """The schedule record from one array a field."""
        ...

    def cost(self, problem: Any, schedule: Any, gpu: Any) -> Any:
        """A record with `latency_s`, `reason` and the other objectives."""
        ...


@dataclass(frozen=True)
class SweepJob:
    """One sweep, complete and picklable.

    Attributes:
        space: the schedules.
        problem: a user's problem (`dse.kernels.problem.Problem`: anything with `arrays()` and `shape`) or the model's
            own record of numbers (`jaxmodel.types.Gemm`).
        gpu: the model's record of numbers (`jaxmodel.machine.Gpu`); leaves are turned into float32.
        kernel: the cost model, or the name of a registered one; None: the space's kernel.
        problem_name: what reports call the problem; "": its shape.
        gpu_name: what reports call the GPU.
        gpu_changes: what was changed of it, a line a number (`GpuFile.changes`).
        clock: the clock that `gpu` is bound to, "boost" or "sustained"; kept for reports.
        objectives: cost fields that the front minimises, 1 to 6.
        rank_by: cost field that ranks the best.
        top: how many of the best are asked for.
        tie_limit: rows kept beyond `top` where several tie with the last, and rows kept of each distinct vector on the
            front; further ties are counted.
        chunk_lanes: candidates evaluated at once, a power of two; None: 2^16 on a CPU, where a chunk then stays in
            cache, 2^20 on an accelerator.
        start, stop: the part of the space to sweep; stop None: to the end.
        prune: leave out what cannot be among the best or on the front, found from lower bounds (`dse.bounding`); the
            best and the front are the same, counts and histogram cover what is evaluated.
        row_columns: which columns of rows are written where all rows are kept, as `dse.row_layout.chosen_columns` gives
            them; None: all.

    Raises:
        UserError: an unknown objective, one given twice or too many, a number out of its range, or an empty range.
    """

    space: Space
    problem: Any
    gpu: Any
    kernel: Any = None
    problem_name: str = ""
    gpu_name: str = ""
    gpu_changes: tuple[str, ...] = ()
    clock: str = "boost"
    objectives: tuple[str, ...] = ("latency_s", "ddr_bytes", "smem_bytes")
    rank_by: str = "latency_s"
    top: int = 10
    tie_limit: int = 100
    chunk_lanes: int | None = None
    start: int = 0
    stop: int | None = None
    row_columns: tuple[str, ...] | None = None
    prune: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "objectives", tuple(self.objectives))
        if not self.problem_name:
            object.__setattr__(self, "problem_name", str(getattr(self.problem, "shape", "")))
        object.__setattr__(self, "gpu", as_float32(self.gpu))
        for name, value, low in (("top", self.top, 1), ("tie_limit", self.tie_limit, 0)):
            if value < low:
                raise UserError(f"{name} = {value} is not allowed: {low} or more")
        lanes = self.chunk_lanes
        if lanes is not None and (lanes < 256 or lanes > 2**24 or lanes & (lanes - 1)):
            raise UserError(f"chunk_lanes = {lanes} is not allowed: a power of two from 2^8 to 2^24")
        if not 1 <= len(self.objectives) <= MAX_OBJECTIVES:
            raise UserError(f"{len(self.objectives)} objectives are not allowed: 1 to {MAX_OBJECTIVES}")
        if len(set(self.objectives)) < len(self.objectives):
            raise UserError(f"objectives {', '.join(self.objectives)}: name each once")
        for kind, names in (("objective", self.objectives), ("rank_by quantity", (self.rank_by,))):
            for name in names:
                if name not in OBJECTIVES:
                    raise unknown(kind, name, OBJECTIVES)
        if not 0 <= self.start < self.end <= self.space.size:
            raise UserError(
                f"range {self.start} to {self.end} is not allowed: the space {self.space.name} has the indices 0 to "
                f"{self.space.size - 1}"
            )
        if self.candidates >= 2**63:
            raise UserError(
                f"{self.candidates} candidates are too many to sweep: restrict the space, give start and stop, or use "
                "dse search"
            )

    @property
    def end(self) -> int:
        """One past the last index."""
        return self.space.size if self.stop is None else self.stop

    @property
    def candidates(self) -> int:
        """How many indices the job covers."""
        return self.end - self.start

    @cached_property
    def problem_arrays(self) -> Any:
        """The problem as the model takes it, float32 leaves."""
        return as_float32(self.problem.arrays() if hasattr(self.problem, "arrays") else self.problem)

    @property
    def columns(self) -> tuple[str, ...]:
        """The quantities that leave the model in a sweep: the objectives, then `rank_by` and latency unless there."""
        return tuple(dict.fromkeys((*self.objectives, self.rank_by, "latency_s")))

    @property
    def model(self) -> CostModel:
        """The cost model itself."""
        if self.kernel is not None and not isinstance(self.kernel, str):
            return self.kernel
        return get_kernel(self.kernel or self.space.kernel)


def as_float32(record: Any) -> Any:
    """A record of the model with float32 leaves: one compiled function then takes every problem and GPU."""
    if is_dataclass(record) and not isinstance(record, type):
        return replace(record, **{f.name: as_float32(getattr(record, f.name)) for f in fields(record)})
    if isinstance(record, tuple):
        return tuple(as_float32(entry) for entry in record)
    return None if record is None else np.asarray(record, np.float32)
