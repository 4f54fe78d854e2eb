"""The schedules of a space that some machine can run, as narrow columns that stay in memory and are evaluated again and
again: for many problems, many GPUs, or many draws of a GPU's numbers.

A third of a GEMM space fits any part at all; what does not is found once, not once a problem.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from .any_order import AnyOrder
from .columns import cost_columns
from .compiled import jit
from .errors import UserError
from .job import CostModel, as_float32
from .kernels.registry import get_kernel
from .platform import configure_jax, is_accelerator
from .space import Space

CPU_LANES, CPU_BLOCK_LANES = 2**16, 2**14  # the model's intermediate arrays of a block stay in a core's cache
ACCELERATOR_LANES = 2**20
NARROW = np.uint16  # holds every number of a schedule

# the numbers of a GPU that decide what fits, see `dse.schedule_set.fitting`; all others only move times
DECIDES_WHAT_FITS = (
    *("mma", "sm_count", "cluster_sms", "smem_per_sm_bytes", "smem_per_cta_max_bytes", "smem_reserve_bytes"),
    *("registers_per_sm", "register_granularity", "registers_per_thread_max", "threads_per_sm", "warps_per_sm"),
    *("ctas_per_sm", "tmem_columns"),
)


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


def fitting(
    space: Space, problems: Sequence[Any], gpus: Sequence[Any], any_order: bool = False, alike: bool = False
) -> ScheduleSet:
    """The schedules of a space whose own resources fit at least one of the GPUs.

    What depends on a problem's size (more splits than K-steps, an order that a smaller swizzle has too) is left in: the
    model says it again with each problem. Problems that differ only in sizes that decide nothing else are looked at
    once (`KernelProblem.enlarged`).

    Args:
        space: any size that leaves its runnable part in memory, about 30 bytes a schedule.
        problems: their types and layouts count, and of kernels other than GEMM their sizes too.
        gpus: the model's records, bound to the space's family and type.
        any_order: see `ScheduleSet`; False finds what a sweep finds.
        alike: fields of one value are columns as well, so that sets of several spaces of a kernel share what is
            compiled; a third more memory.

    Raises:
        UserError: nothing fits.
    """
    configure_jax()
    kernel = get_kernel(space.kernel)
    cases = _distinct_cases(problems, gpus)
    indices, groups = [], []
    for start, part in space.split(kernel.compiled_fields):
        kept, columns = _fitting_part(kernel, part, cases)
        if len(kept):
            indices.append(kept + start)
            groups.append(_group(kernel, columns, alike))
    if not groups:
        raise UserError(f"no schedule of the space {space.name} fits: widen the space or its preset, or change the GPU")
    return ScheduleSet(kernel, np.concatenate(indices), tuple(groups), space.size, any_order)


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
    groups = tuple(_group(kernel, {name: np.asarray(v)[at] for name, v in columns.items()}) for at in places)
    return ScheduleSet(kernel, np.concatenate(places), groups, count, any_order=True)


def _group(kernel: Any, columns: Mapping[str, np.ndarray], alike: bool = False) -> ColumnGroup:
    count = len(next(iter(columns.values())))
    lanes, block = _lanes()
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


def _lanes() -> tuple[int, int]:
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


def _distinct_cases(problems: Sequence[Any], gpus: Sequence[Any]) -> list[tuple[Any, Any]]:
    large = {problem.enlarged() if hasattr(problem, "enlarged") else problem for problem in problems}
    kinds: dict[bytes, Any] = {}
    for gpu in gpus:
        kinds.setdefault(b"".join(_bytes(getattr(gpu, name)) for name in DECIDES_WHAT_FITS), gpu)
    ordered = sorted(large, key=str)
    return [(as_float32(problem.arrays()), as_float32(gpu)) for problem in ordered for gpu in kinds.values()]


def _bytes(leaf: Any) -> bytes:
    if hasattr(leaf, "__dataclass_fields__"):
        return b"".join(_bytes(getattr(leaf, field.name)) for field in fields(leaf))
    return np.asarray(leaf, np.float32).tobytes()


def _fitting_part(
    kernel: Any, part: Space, cases: Sequence[tuple[Any, Any]]
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    lanes, _ = _lanes()
    lanes = min(lanes, 1 << max(part.size - 1, 1).bit_length())
    fits = _compiled_fits(kernel, part, lanes)
    found = []
    for start in range(0, part.size, lanes):
        digits = part.start_digits(start)
        keep = np.zeros(lanes, bool)
        for problem, gpu in cases:
            keep |= np.asarray(fits(digits, problem, gpu))
        found.append(start + np.flatnonzero(keep[: part.size - start]))
    kept = np.concatenate(found)
    return kept, _narrow_columns(part, kept)


@lru_cache(maxsize=64)
def _compiled_fits(kernel: CostModel, part: Space, lanes: int) -> Any:
    """`fits(start_digits, problem, gpu)`: whether each of the next `lanes` schedules fits, as far as sizes do not
    matter; another problem or GPU does not retrace."""
    import jax.numpy as jnp

    from jaxmodel.reasons import Reason

    from .decode import decode

    depends_on_size = (Reason.OK, Reason.SPLIT_K, Reason.STREAM_K, Reason.TILE_COUNT, Reason.SAME_ORDER)

    def fits(digits: Any, problem: Any, gpu: Any) -> Any:
        schedule = kernel.schedule(decode(part, digits, lanes))
        reason = jnp.broadcast_to(kernel.cost(problem, schedule, gpu).reason, (lanes,))
        return jnp.isin(reason, jnp.array([float(code) for code in depends_on_size]))

    return jit(fits)


def _narrow_columns(part: Space, kept: np.ndarray) -> dict[str, np.ndarray]:
    columns: dict[str, np.ndarray] = {}
    for axis, stride in zip(part.axes, part.strides, strict=True):
        digit = (kept // stride % axis.radix).astype(np.intp)
        for name, values in zip(axis.fields, axis.table(), strict=True):
            columns[name] = np.asarray(values).astype(NARROW)[digit]
    return columns | {name: np.full(len(kept), value, NARROW) for name, value in part.fixed.items()}
