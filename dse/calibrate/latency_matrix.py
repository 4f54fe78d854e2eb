"""Schedules times problems as one matrix of latencies, batch by batch: what a fit evaluates again and again."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..any_order import AnyOrder
from ..kernels.entry import Kernel
from ..kernels.gemm import GemmProblem

BATCH_LANES = 2**20  # problems x schedules a call


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
