"""Schedules as narrow columns that stay in memory and are evaluated again and again: for many problems, many GPUs, or
many draws of a GPU's numbers.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from .any_order import AnyOrder
from .columns import cost_columns
from .compiled import jit
from .job import CostModel
from .kernels.registry import get_kernel
from .platform import is_accelerator

CPU_LANES, CPU_BLOCK_LANES = 2**16, 2**14  # the model's intermediate arrays of a block stay in a core's cache
ACCELERATOR_LANES = 2**20
NARROW = np.uint16  # holds every number of a schedule


@dataclass(frozen=True)
class ColumnGroup:
    """Schedules that one compiled function evaluates.

    Attributes:
        constants: the fields that are compiled in (`Kernel.compiled_fields`).
        scalars: fields that have one value in the group, float32.
        columns: every other field, [calls, blocks, lanes of a block]; the last call is filled up by the last schedule.
        count: schedules, without those that fill up.
    """

    constants: tuple[tuple[str, float], ...]
    scalars: Mapping[str, np.ndarray]
    columns: Mapping[str, np.ndarray]
    count: int

    @property
    def calls(self) -> int:
        """How often the compiled function is called for all of them."""
        return len(next(iter(self.columns.values()))) if self.columns else 1


@dataclass(frozen=True, eq=False)
class ScheduleSet:
    """Schedules ready to be evaluated.

    Attributes:
        kernel: the cost model.
        index: int64[schedules], what each is called: its index in the space it comes from, ascending, or its place in a
            list, in the order of the groups.
        groups: the schedules, in the order of `index`.
        declared: schedules that were looked at, those that fit nothing included.
        any_order: whether a schedule counts whose launch order has another name on the problem's grid
            (`dse.any_order`). It runs; but a space holds the other, so a sweep counts it once.
    """

    kernel: CostModel
    index: np.ndarray
    groups: tuple[ColumnGroup, ...]
    declared: int
    any_order: bool = False

    def __len__(self) -> int:
        return len(self.index)

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """Place of each group's first schedule."""
        return tuple(int(n) for n in np.cumsum([0, *(group.count for group in self.groups)])[:-1])

    def fields(self, places: Sequence[int] | np.ndarray) -> dict[str, np.ndarray]:
        """The schedules at these places: field -> int64[places]."""
        at = np.asarray(places, np.int64)
        found = {name: np.zeros(len(at), np.int64) for name in self.kernel.schedule_fields}
        for start, group in zip(self.starts, self.groups, strict=True):
            here = (at >= start) & (at < start + group.count)
            for name in found:
                if name in group.columns:
                    found[name][here] = group.columns[name].reshape(-1)[at[here] - start]
                else:
                    found[name][here] = int({**dict(group.constants), **group.scalars}[name])
        return found

    def schedules(self, places: Sequence[int] | np.ndarray) -> list[dict[str, int]]:
        """The schedules at these places, one field -> number each."""
        columns = self.fields(places)
        return [{name: int(values[row]) for name, values in columns.items()} for row in range(len(places))]

    def chunks(self, problem: Any, gpu: Any, names: tuple[str, ...] = ("latency_s",)) -> Iterator[tuple[int, Any]]:
        """Evaluates all schedules, a chunk at a time.

        Args:
            problem, gpu: the model's records, float32 (`dse.job.as_float32`).
            names: cost columns.

        Yields:
            (place of the first schedule, float32[schedules] a name on the device; infinite where one cannot run).
        """
        for start, group in zip(self.starts, self.groups, strict=True):
            evaluate = _compiled(self.kernel, group.constants, names, self.any_order)
            _, blocks, block_lanes = next(iter(group.columns.values())).shape
            for call in range(group.calls):
                columns = {name: values[call] for name, values in group.columns.items()}
                first = call * blocks * block_lanes
                used = min(-(-(group.count - first) // block_lanes), blocks)
                values = evaluate(columns, group.scalars, problem, gpu, np.int32(used))
                if group.count - first < len(values[0]):
                    values = tuple(value[: group.count - first] for value in values)
                yield start + first, values

    def values(self, problem: Any, gpu: Any, names: tuple[str, ...] = ("latency_s",)) -> np.ndarray:
        """float32[names, schedules], infinite where a schedule cannot run; arguments as in `chunks`."""
        found = np.empty((len(names), len(self)), np.float32)
        for start, values in self.chunks(problem, gpu, names):
            for row, value in zip(found, values, strict=True):
                row[start : start + len(value)] = value
        return found


def listed(columns: Mapping[str, np.ndarray], kernel_name: str = "gemm") -> ScheduleSet:
    """A set of given schedules, called by their places; none is left out, those of one launch order included.

    `index` holds the places in `columns`, in the order of the set.

    Args:
        columns: every schedule field -> numbers[schedules]; schedules of different compiled fields may be mixed.
        kernel_name: of the cost model.
    """
    kernel = get_kernel(kernel_name)
    count = len(next(iter(columns.values())))
    kinds = np.stack([np.zeros(count), *(columns[name] for name in kernel.compiled_fields)], axis=1)
    _, kind = np.unique(kinds, axis=0, return_inverse=True)
    places = [np.flatnonzero(kind.reshape(-1) == at) for at in range(int(kind.max()) + 1)]
    groups = tuple(column_group(kernel, {name: np.asarray(v)[at] for name, v in columns.items()}) for at in places)
    return ScheduleSet(kernel, np.concatenate(places), groups, count, any_order=True)


def column_group(kernel: Any, columns: Mapping[str, np.ndarray], alike: bool = False) -> ColumnGroup:
    """Schedules that agree in the kernel's compiled fields, as one group.

    Args:
        kernel: the cost model.
        columns: every schedule field -> numbers[schedules].
        alike: fields of one value are columns as well.
    """
    count = len(next(iter(columns.values())))
    lanes, block = lanes_of_call()
    lanes = min(lanes, -(-count // block) * block)
    calls = -(-count // lanes)
    constants = tuple((name, float(columns[name][0])) for name in kernel.compiled_fields)
    scalars, varying = {}, {}
    for name in kernel.schedule_fields:
        values = columns[name]
        if name in kernel.compiled_fields:
            continue
        if not alike and (values == values[0]).all() and varying:
            scalars[name] = np.asarray(values[0], np.float32)
        else:
            narrow = values.astype(NARROW if values.max() <= np.iinfo(NARROW).max else np.float32)
            filled = np.concatenate([narrow, np.repeat(narrow[-1:], calls * lanes - count)])
            varying[name] = filled.reshape(calls, lanes // block, block)
    return ColumnGroup(constants, scalars, varying, count)


def lanes_of_call() -> tuple[int, int]:
    """Schedules that one call evaluates on this machine, and those of one of its blocks."""
    import jax

    if is_accelerator(jax.devices()[0]):
        return ACCELERATOR_LANES, ACCELERATOR_LANES
    return CPU_LANES, CPU_BLOCK_LANES


@lru_cache(maxsize=64)
def _compiled(
    kernel: CostModel, constants: tuple[tuple[str, float], ...], names: tuple[str, ...], any_order: bool
) -> Any:
    """`evaluate(columns, scalars, problem, gpu, used)`: values of one call. Only the first `used` blocks are computed,
    the rest is infinite; another problem or GPU does not retrace."""
    import jax
    import jax.numpy as jnp

    model = AnyOrder(kernel) if any_order else kernel

    def evaluate(
        columns: dict[str, Any], scalars: dict[str, Any], problem: Any, gpu: Any, used: Any
    ) -> tuple[Any, ...]:
        shape = next(iter(columns.values())).shape

        def block(place: Any, values: tuple[Any, ...]) -> tuple[Any, ...]:
            varying = {name: column[place].astype(jnp.float32) for name, column in columns.items()}
            cost = model.cost(problem, model.schedule({**varying, **scalars, **dict(constants)}), gpu)
            found = cost_columns(cost)
            runs = jnp.broadcast_to(cost.reason == 0, shape[1:])
            own = (jnp.where(runs, found[name], jnp.inf).astype(jnp.float32) for name in names)
            return tuple(held.at[place].set(value) for held, value in zip(values, own, strict=True))

        nothing = tuple(jnp.full(shape, jnp.inf, jnp.float32) for _ in names)
        return tuple(values.reshape(-1) for values in jax.lax.fori_loop(0, used, block, nothing))

    return jit(evaluate)
