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
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from ...errors import UserError
from ...job import as_float32
from ...kernels.gemm import GemmProblem
from ...platform import usable_cores
from ...progress import Progress, Snapshot, reporter
from ...schedule_set import ScheduleSet, listed

RUN_TIME_FIELDS = ("raster_along_n", "swizzle", "sms_free", "split_k")
COUNTS = ("kernels", "schedules")
MATRIX_BYTES_MAX = 2**32


@dataclass(frozen=True, eq=False)
class Variants:
    """All schedules of a few kernels.

    Attributes:
        kernel: int64[variants], whose: a place in the kernels asked for.
        family: instruction family of each.
        fields: schedule field -> int64[1 or shapes, variants]; more than one row where the shape decides, as for
            configs that leave the launch order to a library.
        latency_s: float32[shapes, variants], infinite where one cannot run.
        labels: what the user calls each; empty without names.
    """

    kernel: np.ndarray
    family: tuple[str, ...]
    fields: Mapping[str, np.ndarray]
    latency_s: np.ndarray
    labels: tuple[str, ...] = ()

    def schedule(self, shape: int, variant: int) -> dict[str, int]:
        """Field -> number of a variant as it runs a shape."""
        return {name: int(rows[min(shape, len(rows) - 1), variant]) for name, rows in self.fields.items()}


class KernelPool(Protocol):
    """Kernels that a portfolio is chosen from: `SpaceKernels`, or `ListedKernels` (`listed_kernels.py`)."""

    @property
    def count(self) -> int:
        """How many kernels there are."""
        ...

    @property
    def schedule_count(self) -> int:
        """How many schedules they have in all."""
        ...

    def latencies(self, problems: Sequence[GemmProblem], progress: Progress = None) -> np.ndarray:
        """float32[shapes, kernels]: of each kernel its fastest schedule; infinite where none can run."""
        ...

    def variants(self, kernels: Sequence[int], problems: Sequence[GemmProblem]) -> Variants:
        """All schedules of these kernels, evaluated on every shape."""
        ...


@dataclass(frozen=True, eq=False)
class SpaceKernels:
    """The kernels of a space.

    Attributes:
        family: instruction family.
        gpu: the model's record, bound to the family and type.
        schedules: what can run of the space, in any order (`dse.any_order`).
        kernel: int32[schedules], the kernel of each, by its place in the set; numbered from 0.
        count: kernels.
        run_starts: int64[runs], places at which a run of schedules of one kernel begins.
        counted: "kernels" or "schedules".
    """

    family: str
    gpu: Any
    schedules: ScheduleSet
    kernel: np.ndarray
    count: int
    run_starts: np.ndarray
    counted: str = "kernels"

    @property
    def schedule_count(self) -> int:
        """Schedules of all kernels."""
        return len(self.schedules)

    def latencies(self, problems: Sequence[GemmProblem], progress: Progress = None) -> np.ndarray:
        """float32[shapes, kernels]: of each kernel its fastest schedule, infinite where none can run.

        Every schedule is evaluated; no more is kept than the minimum.

        Raises:
            UserError: more shapes x kernels than fit in memory.
        """
        size = 4 * self.count * len(problems)
        if size > MATRIX_BYTES_MAX:
            raise UserError(
                f"{self.count:,} {self.counted} x {len(problems)} shapes are {size / 1e9:.1f} GB of latencies, more "
                f"than {MATRIX_BYTES_MAX / 1e9:.1f}: count kernels, or restrict the space with --preset or --axis"
            )
        found = np.full((len(problems), self.count), np.inf, np.float32)
        show, began = reporter(progress), time.perf_counter()
        todo = len(problems) * len(self.schedules)
        with ThreadPoolExecutor(usable_cores()) as threads:
            try:
                for done, _ in enumerate(threads.map(self._fill, found, problems), start=1):
                    seconds, count = time.perf_counter() - began, done * len(self.schedules)
                    show(Snapshot(count, todo, seconds, count / seconds, None, "latency_s", None, count == todo))
            except BaseException:
                threads.shutdown(wait=False, cancel_futures=True)
                raise
        return found

    def variants(self, kernels: Sequence[int], problems: Sequence[GemmProblem]) -> Variants:
        """All schedules of some kernels, evaluated on every shape.

        Args:
            kernels: their numbers; `Variants.kernel` counts in this order.
            problems: the shapes.
        """
        places = np.flatnonzero(np.isin(self.kernel, np.asarray(kernels)))
        place_of = {number: place for place, number in enumerate(kernels)}
        owner = np.array([place_of[int(number)] for number in self.kernel[places]], np.int64)
        fields = self.schedules.fields(places)
        chosen = listed(fields, self.schedules.kernel.name)
        latency_s = np.empty((len(problems), len(chosen)), np.float32)
        gpu = as_float32(self.gpu)
        for row, problem in zip(latency_s, problems, strict=True):
            row[chosen.index] = chosen.values(as_float32(problem.arrays()), gpu)[0]
        rows = {name: values[None] for name, values in fields.items()}
        return Variants(owner, (self.family,) * len(places), rows, latency_s)

    def _fill(self, row: np.ndarray, problem: GemmProblem) -> None:
        starts = self.run_starts
        for first, (values,) in self.schedules.chunks(as_float32(problem.arrays()), as_float32(self.gpu)):
            latency_s = np.asarray(values)
            heads = starts[np.searchsorted(starts, first) : np.searchsorted(starts, first + len(latency_s))]
            if not len(heads) or heads[0] != first:  # the chunk begins within a run
                heads = np.concatenate([[first], heads])
            np.minimum.at(row, self.kernel[heads], np.minimum.reduceat(latency_s, heads - first))


def space_kernels(family: str, gpu: Any, schedules: ScheduleSet, count: str = "kernels") -> SpaceKernels:
    """Sorts the schedules of a space into kernels.

    Args:
        family: their instruction family.
        gpu: the model's record, bound to it.
        schedules: of `dse.fitting.fitting`.
        count: "kernels", or "schedules": every schedule is a kernel of its own.
    """
    schedules = replace(schedules, any_order=True)
    if count == "schedules":
        places = np.arange(len(schedules), dtype=np.int32)
        return SpaceKernels(family, gpu, schedules, places, len(places), places.astype(np.int64), count)
    starts, keys = _runs(schedules)
    _, of_run = np.unique(keys, return_inverse=True)
    kernel = np.repeat(of_run.astype(np.int32), np.diff(starts, append=len(schedules)))
    return SpaceKernels(family, gpu, schedules, kernel, int(of_run.max()) + 1, starts)


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
