"""What every compiled kernel of a space costs on every shape of a list, each with its best run-time parameters.

A library ships compiled kernels. Many schedules are one kernel: what a launch says is not compiled again.

    compiled    tile, stages, warps, cluster, 2-CTA pair, swapped operands, epilogue, the kind of launch (a tile a CTA,
                persistent, split-K, stream-K), and registers and shared memory where they are measured
    run time    raster and swizzle, the number of splits of a split-K kernel, SMs left free by a persistent grid

That is how CUTLASS 3 divides them: raster order, swizzle, splits and the SM count are arguments of the tile scheduler
and of the hardware info, everything else is a template parameter; swapping A and B changes the layout of the output,
hence the type. A Triton kernel as it is usually written takes GROUP_M, SPLIT_K and NUM_SMS as `tl.constexpr`, so that
each of its configs is compiled: count schedules then, not kernels.
"""

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import UserError
from ..job import as_float32
from ..platform import usable_cores
from ..problem import GemmProblem
from ..progress import Progress, Snapshot, reporter
from ..schedule_set import ScheduleSet, listed

RUN_TIME_FIELDS = ("raster_along_n", "swizzle", "sms_free", "split_k")
COUNTS = ("kernels", "schedules")
MATRIX_BYTES_MAX = 2**32


@dataclass(frozen=True, eq=False)
class Candidates:
    """Schedules of one instruction family, sorted into kernels.

    Attributes:
        family: instruction family.
        gpu: the model's record, bound to the family and type.
        schedules: of the family.
        kernel: int32[schedules], the kernel of each, by its place in the set; numbered from 0.
        count: kernels.
        run_starts: int64[runs], places at which a run of schedules of one kernel begins.
    """

    family: str
    gpu: Any
    schedules: ScheduleSet
    kernel: np.ndarray
    count: int
    run_starts: np.ndarray


@dataclass(frozen=True, eq=False)
class Variants:
    """All schedules of a few kernels.

    Attributes:
        kernel: int64[variants], whose: a place in the kernels asked for.
        family: of each variant.
        fields: schedule field -> int64[variants].
        latency_s: float32[shapes, variants], infinite where one cannot run.
    """

    kernel: np.ndarray
    family: tuple[str, ...]
    fields: Mapping[str, np.ndarray]
    latency_s: np.ndarray


def candidates(family: str, gpu: Any, schedules: ScheduleSet, count: str = "kernels") -> Candidates:
    """Sorts schedules into kernels.

    Args:
        family: their instruction family.
        gpu: the model's record, bound to it.
        schedules: made with `same_order`: a kernel is also used on shapes on which its launch order has another name.
        count: "kernels", or "schedules": every schedule is a kernel of its own.
    """
    if count == "schedules":
        places = np.arange(len(schedules), dtype=np.int32)
        return Candidates(family, gpu, schedules, places, len(places), places.astype(np.int64))
    starts, keys = _runs(schedules)
    _, of_run = np.unique(keys, return_inverse=True)
    lengths = np.diff(starts, append=len(schedules))
    kernel = np.repeat(of_run.astype(np.int32), lengths)
    return Candidates(family, gpu, schedules, kernel, int(of_run.max()) + 1, starts)


def kernel_latencies(
    parts: Sequence[Candidates], problems: Sequence[GemmProblem], progress: Progress = None
) -> np.ndarray:
    """float32[shapes, kernels]: of each kernel its fastest schedule, infinite where none can run.

    The kernels of all parts, in their order. Every schedule is evaluated; no more is kept than the minimum.

    Raises:
        UserError: more shapes x kernels than fit in memory.
    """
    total = sum(part.count for part in parts)
    size = 4 * total * len(problems)
    if size > MATRIX_BYTES_MAX:
        raise UserError(
            f"{total:,} kernels x {len(problems)} shapes are {size / 1e9:.1f} GB of latencies, more than "
            f"{MATRIX_BYTES_MAX / 1e9:.1f}: count kernels, not schedules, or restrict the space by --preset or --axis"
        )
    found = np.full((len(problems), total), np.inf, np.float32)
    work = [(shape, part) for shape in range(len(problems)) for part in range(len(parts))]
    offsets = np.cumsum([0, *(part.count for part in parts)])
    show, began = reporter(progress), time.perf_counter()
    todo = len(problems) * sum(len(part.schedules) for part in parts)

    def one(task: tuple[int, int]) -> int:
        shape, part = task
        row = found[shape, offsets[part] : offsets[part + 1]]
        _fill(row, parts[part], problems[shape])
        return len(parts[part].schedules)

    done = 0
    with ThreadPoolExecutor(usable_cores()) as pool:
        try:
            for count in pool.map(one, work):
                done += count
                seconds = time.perf_counter() - began
                show(Snapshot(done, todo, seconds, done / seconds, None, "latency_s", 0, done == todo))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return found


def variants(parts: Sequence[Candidates], kernels: Sequence[int], problems: Sequence[GemmProblem]) -> Variants:
    """All schedules of some kernels, evaluated on every shape.

    Args:
        parts: as in `kernel_latencies`.
        kernels: their numbers over all parts; `Variants.kernel` counts in this order.
        problems: the shapes.
    """
    offset = 0
    owners, families, columns, blocks = [], [], [], []
    for part in parts:
        mine = {number - offset: place for place, number in enumerate(kernels) if 0 <= number - offset < part.count}
        offset += part.count
        places = np.flatnonzero(np.isin(part.kernel, list(mine)))
        if not len(places):
            continue
        fields = part.schedules.fields(places)
        owners.append(np.array([mine[int(number)] for number in part.kernel[places]], np.int64))
        families += [part.family] * len(places)
        columns.append(fields)
        blocks.append(_latencies(fields, part, problems))
    fields = {name: np.concatenate([column[name] for column in columns]) for name in columns[0]}
    return Variants(np.concatenate(owners), tuple(families), fields, np.concatenate(blocks, axis=1))


def _latencies(fields: Mapping[str, np.ndarray], part: Candidates, problems: Sequence[GemmProblem]) -> np.ndarray:
    chosen = listed(fields, part.schedules.kernel.name)
    found = np.empty((len(problems), len(chosen)), np.float32)
    gpu = as_float32(part.gpu)
    for row, problem in zip(found, problems, strict=True):
        row[chosen.index] = chosen.values(as_float32(problem.arrays()), gpu)[0]
    return found


def _fill(row: np.ndarray, part: Candidates, problem: GemmProblem) -> None:
    starts = part.run_starts
    for first, (values,) in part.schedules.chunks(as_float32(problem.arrays()), as_float32(part.gpu)):
        latency_s = np.asarray(values)
        heads = starts[np.searchsorted(starts, first) : np.searchsorted(starts, first + len(latency_s))]
        if not len(heads) or heads[0] != first:  # the chunk begins within a run
            heads = np.concatenate([[first], heads])
        np.minimum.at(row, part.kernel[heads], np.minimum.reduceat(latency_s, heads - first))


def _runs(schedules: ScheduleSet) -> tuple[np.ndarray, np.ndarray]:
    """Where runs of one kernel begin, and a number for the kernel of each run.

    Neighbours in a space mostly differ in their raster alone: runs are a tenth of the schedules.
    """
    names = [name for name in schedules.kernel.schedule_fields if name not in RUN_TIME_FIELDS]
    starts, columns = [], []
    for first, group in zip(schedules.starts, schedules.groups, strict=True):
        single = {**dict(group.constants), **group.scalars}
        flat = {name: values.reshape(-1)[: group.count] for name, values in group.columns.items()}
        flat["split_k"] = flat["split_k"] > 1 if "split_k" in flat else np.zeros(1, bool)
        single["split_k"] = float(single.get("split_k", 1)) > 1
        changed = np.zeros(group.count, bool)
        changed[0] = True
        for name in (*names, "split_k"):
            if name in flat and len(flat[name]) == group.count:
                changed[1:] |= flat[name][1:] != flat[name][:-1]
        heads = np.flatnonzero(changed)
        starts.append(first + heads)
        columns.append(
            [
                flat[name][heads].astype(np.int64)
                if name in flat and len(flat[name]) == group.count
                else np.full(len(heads), int(single[name]), np.int64)
                for name in (*names, "split_k")
            ]
        )
    return np.concatenate(starts), _keys([np.concatenate(values) for values in zip(*columns, strict=True)])


def _keys(columns: Sequence[np.ndarray]) -> np.ndarray:
    key, limit = np.zeros(len(columns[0]), np.int64), 1
    for values in columns:
        radix = int(values.max()) + 1
        if limit * radix >= 2**62:
            _, key = np.unique(key, return_inverse=True)
            limit = int(key.max()) + 1
        key, limit = key * radix + values, limit * radix
    return key
