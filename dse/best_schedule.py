"""The best predicted latency of many problems over one space: problems x schedules in batches."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .any_order import AnyOrder
from .content.gpu import GpuFile
from .content.space import list_spaces
from .errors import UserError
from .kernel import Kernel, get_kernel
from .problem import GemmProblem
from .schedule_set import fitting
from .space import Space
from .tuning import tune

BATCH_LANES = 2**20  # problems x schedules a call


@dataclass(frozen=True)
class BestSchedules:
    """One entry a problem.

    Attributes:
        latency_s: predicted latency of the best schedule.
        index: its index in the space.
    """

    latency_s: np.ndarray
    index: np.ndarray


def best_schedules(problems: Sequence[GemmProblem], space: Space, gpu: GpuFile) -> BestSchedules:
    """Sweeps `space` exhaustively for every problem and keeps the fastest schedule of each.

    Args:
        problems: of the space's kernel and data type.
        space: of any size.
        gpu: bound to the space's data type and family.

    Raises:
        UserError: no schedule of the space fits at all, or none fits a problem.
    """
    bound = gpu.bind(space.dtype, family=space.family)
    found = tune(fitting(space, problems, [bound], any_order=True), [(problem, bound) for problem in problems])
    lost = [problem.shape for problem, place in zip(problems, found.index, strict=True) if place < 0]
    if lost:
        raise UserError(f"no schedule of space {space.name} fits {lost[0]} on {gpu.name}; widen the space")
    return BestSchedules(latency_s=found.latency_s, index=found.index)


@dataclass(frozen=True)
class ScheduleGroup:
    """Schedules that one compiled function evaluates.

    Attributes:
        constants: the fields that are compiled in (`Kernel.compiled_fields`).
        columns: every other schedule field -> one float32 a schedule.
        places: place of each in the columns they were cut from.
    """

    constants: Mapping[str, Any]
    columns: Mapping[str, np.ndarray]
    places: np.ndarray


def compiled_apart(columns: Mapping[str, np.ndarray], kernel: Kernel) -> list[ScheduleGroup]:
    """The schedules, cut by the fields that the kernel compiles apart."""
    count = len(next(iter(columns.values())))
    kinds = np.stack([np.ones(count), *(columns[name] for name in kernel.compiled_fields)], axis=1)
    _, group = np.unique(kinds, axis=0, return_inverse=True)
    found = []
    for number in range(group.max() + 1):
        places = np.flatnonzero(group == number)
        own = {name: np.asarray(values[places], np.float32) for name, values in columns.items()}
        constants = {name: own.pop(name)[0] for name in kernel.compiled_fields}
        found.append(ScheduleGroup(constants, own, places))
    return found


def runnable_latency_s(kernel: Kernel, problems: Any, schedules: Mapping[str, Any], gpu: Any) -> Any:
    """Seconds of schedules on problems, infinity where one cannot run; pure.

    Args:
        problems: the model's record; broadcasts against the schedules.
        schedules: schedule field -> numbers.
        gpu: the model's record.
    """
    import jax.numpy as jnp

    cost = AnyOrder(kernel).cost(problems, kernel.schedule(dict(schedules)), gpu)
    return jnp.where(cost.reason == 0, cost.latency_s, jnp.inf)


def problem_batches(stacked: Any, schedules: int) -> Iterator[tuple[slice, Any]]:
    """Stacked problems in batches of one size, so that one shape is compiled: (which, them), the last filled up by
    repeating the last problem.

    Args:
        stacked: leaves of shape (problems, 1).
        schedules: that each problem is evaluated on, which sets the size.
    """
    import jax

    count, size = len(stacked.m), max(BATCH_LANES // schedules, 1)
    for start in range(0, count, size):
        rows = np.minimum(np.arange(start, start + size), count - 1)
        yield slice(start, min(start + size, count)), jax.tree.map(lambda leaf, rows=rows: leaf[rows], stacked)


def stack_problems(problems: Sequence[GemmProblem]) -> Any:
    """The model's record of all problems, one row each: leaves of shape (problems, 1)."""
    import jax

    return jax.tree.map(lambda *leaves: np.stack(leaves)[:, None], *(problem.arrays() for problem in problems))


def runnable_columns(space: Space, gpu: Any) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """The schedules of a space that some problem could run: those whose own resources fit.

    Args:
        space: materialised as a whole.
        gpu: the model's record, bound to a data type and the space's family.

    Returns:
        (their indices, their fields as one array each).
    """
    import jax

    from jaxmodel.reasons import Reason

    kernel = get_kernel(space.kernel)
    columns = space.rows(range(space.size))
    large = kernel.problem("65536x65536x65536", dtype=space.dtype).arrays()
    schedule = kernel.schedule({name: np.float32(values) for name, values in columns.items()})
    reason = np.asarray(jax.jit(kernel.cost)(large, schedule, gpu).reason)
    depends_on_problem = (Reason.OK, Reason.SPLIT_K, Reason.STREAM_K, Reason.TILE_COUNT, Reason.SAME_ORDER)
    index = np.flatnonzero(np.isin(reason, [float(code) for code in depends_on_problem]))
    return index, {name: values[index] for name, values in columns.items()}


def preset_of(family: str, dtype: str, preset: str) -> str:
    """The preset of a family's space that stands for `preset` with this type: "library_nvfp4" for "library" and nvfp4,
    where the space has one."""
    presets = {entry.family: entry.presets for entry in list_spaces() if entry.kernel == "gemm"}.get(family, {})
    return f"{preset}_{dtype}" if f"{preset}_{dtype}" in presets else preset
