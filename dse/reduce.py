"""What happens to one chunk on the device: decode, evaluate, and decide which few candidates the host must see."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from .columns import cost_columns
from .compiled import jit
from .histogram import BUCKETS, bucket
from .job import CostModel, SweepJob
from .row_layout import evaluated_types, needed_columns

COMPACT_ROWS = 4096  # survivors a chunk that leave an accelerator packed; more are fetched with the whole chunk
CPU_BLOCK_LANES = 2**14


@dataclass(frozen=True)
class ChunkSpec:
    """Everything about a chunk that is compiled in; whatever is not here (problem, GPU, bounds) is traced.

    Attributes:
        space: decoded inside the jit; compared by `space_hash`.
        kernel: makes the schedule record of the decoded fields and costs it.
        columns: the cost fields that leave the device, objectives first.
        objectives: how many of the columns are objectives of the front.
        rank_column: which column ranks the top-k.
        lanes: candidates a chunk.
        compact: reduce further for a device whose memory the host cannot see: count buckets on the device and pack
            the survivors.
        everything: also return schedule and cost fields of every candidate: all of them, or those that are named.
    """

    space_hash: str
    space: Any = field(compare=False)
    kernel: CostModel
    columns: tuple[str, ...]
    objectives: int
    rank_column: int
    lanes: int
    compact: bool
    everything: bool | tuple[str, ...] = False

    @property
    def block_lanes(self) -> int:
        """Candidates that the model sees at once. On a CPU its hundred intermediate arrays then stay in the core's own
        cache, which makes it a fifth faster than whole chunks of 2^16; an accelerator takes the chunk as a whole."""
        return self.lanes if self.compact else min(self.lanes, CPU_BLOCK_LANES)

    def without_space(self) -> "ChunkSpec":
        """The spec as far as the reduction is concerned: parts of a space share one."""
        return replace(self, space_hash="", space=None)

    def start_digits_of(self, start: int) -> np.ndarray:
        """Where the blocks of the chunk that starts at this index start, int32[blocks, axes]."""
        starts = range(start, start + self.lanes, self.block_lanes)
        return np.stack([self.space.start_digits(min(at, self.space.size - 1)) for at in starts])


def chunk_spec(
    job: SweepJob, lanes: int, compact: bool = False, everything: bool = False, space: Any = None
) -> ChunkSpec:
    """What a job's chunks compile to, in the whole space or in a part of it.

    Args:
        job: what is swept; where it says which columns of rows are kept, no others leave the model.
        lanes, compact, everything: see `ChunkSpec`.
        space: the part; None: the whole.
    """
    space = space or job.space
    return ChunkSpec(
        space_hash=space.hash,
        space=space,
        kernel=job.model,
        columns=job.columns,
        objectives=len(job.objectives),
        rank_column=job.columns.index(job.rank_by),
        lanes=lanes,
        compact=compact,
        everything=needed_columns(space, job.row_columns) if everything and job.row_columns else everything,
    )


class Evaluated(NamedTuple):
    """What the model says of one chunk, arrays on the device.

    Attributes:
        values: a float32[lanes] a column.
        reason: uint8[lanes].
        everything: schedule field or cost column -> array[lanes] with the type it has in files; empty unless asked for.
    """

    values: tuple[Any, ...]
    reason: Any
    everything: dict[str, Any]


class Reduced(NamedTuple):
    """What is left to look at, arrays on the device.

    Attributes:
        survivors: int32, how many candidates may belong to the top-k or the front.
        survives: bool[lanes].
        buckets: uint8[lanes], or int32[BUCKETS] counts where the chunk is compact.
        packed_lanes: int32[COMPACT_ROWS], survivors' lanes, then `lanes`; empty unless the chunk is compact.
        packed_values: float32[columns, COMPACT_ROWS]; empty unless the chunk is compact.
    """

    survivors: Any
    survives: Any
    buckets: Any
    packed_lanes: Any
    packed_values: Any


@dataclass(frozen=True)
class Bounds:
    """What is known before a chunk runs: a candidate beyond them is of no use.

    Attributes:
        threshold: rank value of the k-th best seen.
        pivots: float32[pivots, objectives], points of the front seen; infinite where unused.
    """

    threshold: np.float32
    pivots: np.ndarray


@lru_cache(maxsize=256)
def compiled_model(spec: ChunkSpec) -> Callable[..., Evaluated]:
    """The jitted first half: `model(start_digits, problem, gpu)`, with the start of each block (`start_digits_of`).

    Compiled once for a spec; another problem or GPU does not retrace. The two halves are compiled apart because XLA
    would otherwise repeat most of the model in every output of the second: a third of a sweep's time.
    """

    return jit(lambda start_digits, problem, gpu: _evaluate(spec, start_digits, problem, gpu))


@lru_cache(maxsize=256)
def compiled_reduction(spec: ChunkSpec) -> Callable[..., Reduced]:
    """The jitted second half: `reduce(values, reason, valid_lanes, threshold, pivots)`; lanes from `valid_lanes` on do
    not count."""

    return jit(lambda *arguments: _reduce(spec, *arguments))


def _evaluate(spec: ChunkSpec, start_digits: Any, problem: Any, gpu: Any) -> Evaluated:
    import jax

    blocks = jax.lax.map(lambda digits: _evaluate_block(spec, digits, problem, gpu), start_digits)
    return jax.tree.map(lambda values: values.reshape(spec.lanes), blocks)


def _evaluate_block(spec: ChunkSpec, start_digits: Any, problem: Any, gpu: Any) -> Evaluated:
    import jax.numpy as jnp

    from .decode import decode

    def column(value: Any, dtype: Any = None) -> Any:
        return jnp.broadcast_to(jnp.asarray(value, dtype), (spec.block_lanes,))

    fields = decode(spec.space, start_digits, spec.block_lanes)
    cost = spec.kernel.cost(problem, spec.kernel.schedule(fields), gpu)
    values = tuple(column(getattr(cost, name), jnp.float32) for name in spec.columns)
    everything = {}
    if spec.everything:
        every = fields | cost_columns(cost)
        names = every if spec.everything is True else spec.everything
        types = evaluated_types(spec.space, names)
        everything = {name: column(every[name], types[name]) for name in names}
    return Evaluated(values, column(cost.reason, jnp.uint8), everything)


def _reduce(
    spec: ChunkSpec, values: tuple[Any, ...], reason: Any, valid_lanes: Any, threshold: Any, pivots: Any
) -> Reduced:
    import jax.numpy as jnp

    inside = jnp.arange(spec.lanes, dtype=jnp.int32) < valid_lanes
    usable = inside & (reason == 0)
    for value in values:
        usable &= jnp.isfinite(value)
    dominated = _dominated(values[: spec.objectives], pivots)
    survives = usable & ((values[spec.rank_column] <= threshold) | ~dominated)
    buckets = bucket(values[spec.columns.index("latency_s")], reason, usable, inside)
    packed_lanes = jnp.zeros(0, jnp.int32)
    packed_values = jnp.zeros((len(values), 0), jnp.float32)
    if spec.compact:
        buckets = jnp.zeros(BUCKETS, jnp.int32).at[buckets.astype(jnp.int32)].add(1)
        packed_lanes = jnp.nonzero(survives, size=COMPACT_ROWS, fill_value=spec.lanes)[0].astype(jnp.int32)
        packed_values = jnp.stack([value.at[packed_lanes].get(mode="fill", fill_value=jnp.inf) for value in values])
    return Reduced(survives.sum(dtype=jnp.int32), survives, buckets, packed_lanes, packed_values)


def _dominated(values: tuple[Any, ...], pivots: Any) -> Any:
    dominated = False
    for pivot in range(pivots.shape[0]):
        no_worse, equal = True, True
        for objective, value in enumerate(values):
            no_worse &= pivots[pivot, objective] <= value
            equal &= pivots[pivot, objective] == value
        dominated |= no_worse & ~equal
    return dominated


def survivors_of(spec: ChunkSpec, evaluated: Evaluated, reduced: Reduced) -> tuple[np.ndarray, np.ndarray]:
    """The survivors on the host: lanes int64[n] and values float32[n, columns]."""
    count = int(reduced.survivors)
    if not count:
        return np.zeros(0, np.int64), np.zeros((0, len(spec.columns)), np.float32)
    if spec.compact and count <= COMPACT_ROWS:
        packed_values = np.asarray(reduced.packed_values)[:, :count]
        return np.asarray(reduced.packed_lanes)[:count].astype(np.int64), np.ascontiguousarray(packed_values.T)
    lanes = np.flatnonzero(np.asarray(reduced.survives))
    return lanes, np.stack([np.asarray(value)[lanes] for value in evaluated.values], axis=1)


def counts_of(spec: ChunkSpec, reduced: Reduced) -> np.ndarray:
    """Candidates a bucket, int64[BUCKETS]; lanes past the end are in bucket `PADDING`."""
    if spec.compact:
        return np.asarray(reduced.buckets).astype(np.int64)
    return np.bincount(np.asarray(reduced.buckets), minlength=BUCKETS)
