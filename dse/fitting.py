"""The schedules of a space that some machine can run, found once for many problems, GPUs or draws of a GPU's numbers.

A third of a GEMM space fits any part at all; what does not is found here, not once a problem.
"""

from collections.abc import Sequence
from dataclasses import fields
from functools import lru_cache
from typing import Any

import numpy as np

from .compiled import jit
from .errors import UserError
from .job import CostModel, as_float32
from .kernels.registry import get_kernel
from .platform import configure_jax
from .schedule_set import NARROW, ScheduleSet, column_group, lanes_of_call
from .space import Space

# the numbers of a GPU that decide what fits, see `fitting`; all others only move times
DECIDES_WHAT_FITS = (
    *("mma", "sm_count", "cluster_sms", "smem_per_sm_bytes", "smem_per_cta_max_bytes", "smem_reserve_bytes"),
    *("registers_per_sm", "register_granularity", "registers_per_thread_max", "threads_per_sm", "warps_per_sm"),
    *("ctas_per_sm", "tmem_columns"),
)


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
            groups.append(column_group(kernel, columns, alike))
    if not groups:
        raise UserError(f"no schedule of the space {space.name} fits: widen the space or its preset, or change the GPU")
    return ScheduleSet(kernel, np.concatenate(indices), tuple(groups), space.size, any_order)


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
    lanes, _ = lanes_of_call()
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
