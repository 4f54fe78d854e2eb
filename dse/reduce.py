"""What happens to one chunk on the device: decode, evaluate, and decide which few candidates the host must see."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from .columns import cost_columns
from .histogram import BUCKETS, bucket
from .job import CostModel, SweepJob

COMPACT_ROWS = 4096


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
        everything: also return every schedule and cost field of every candidate.
    """

    space_hash: str
    space: Any = field(compare=False)
    kernel: CostModel
    columns: tuple[str, ...]
    objectives: int
    rank_column: int
    lanes: int
    compact: bool
    everything: bool = False


def chunk_spec(job: SweepJob, lanes: int, compact: bool = False, everything: bool = False) -> ChunkSpec:
    """What a job's chunks compile to."""
    return ChunkSpec(
        space_hash=job.space.hash,
        space=job.space,
        kernel=job.model,
        columns=job.columns,
        objectives=len(job.objectives),
        rank_column=job.columns.index(job.rank_by),
        lanes=lanes,
        compact=compact,
        everything=everything,
    )


class ChunkResult(NamedTuple):
    """One chunk's outcome, arrays on the device.

    Attributes:
        survivors: int32, how many candidates may belong to the top-k or the front.
        survives: bool[lanes].
        values: a float32[lanes] a column.
        buckets: uint8[lanes], or int32[BUCKETS] counts where the chunk is compact.
        packed_lanes: int32[COMPACT_ROWS], survivors' lanes, then `lanes`; empty unless the chunk is compact.
        packed_values: float32[columns, COMPACT_ROWS]; empty unless the chunk is compact.
        everything: schedule field or cost column -> array[lanes]; empty unless asked for.
    """

    survivors: Any
    survives: Any
    values: tuple[Any, ...]
    buckets: Any
    packed_lanes: Any
    packed_values: Any
    everything: dict[str, Any]


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
def compiled_chunk(spec: ChunkSpec) -> Callable[..., ChunkResult]:
    """The jitted chunk: `chunk(start_digits, valid_lanes, problem, gpu, threshold, pivots) -> ChunkResult`.

    Compiled once for a spec; another problem, GPU or bound does not retrace.
    """
    import jax

    return jax.jit(lambda *arguments: _reduce_chunk(spec, *arguments))


def _reduce_chunk(
    spec: ChunkSpec, start_digits: Any, valid_lanes: Any, problem: Any, gpu: Any, threshold: Any, pivots: Any
) -> ChunkResult:
    import jax.numpy as jnp

    fields = spec.space.decode(start_digits, spec.lanes)
    cost = spec.kernel.cost(problem, spec.kernel.schedule(fields), gpu)
    values = tuple(
        jnp.broadcast_to(jnp.asarray(getattr(cost, column), jnp.float32), (spec.lanes,)) for column in spec.columns
    )
    reason = jnp.broadcast_to(cost.reason, (spec.lanes,))
    inside = jnp.arange(spec.lanes, dtype=jnp.int32) < valid_lanes
    usable = inside & (reason == 0)
    for value in values:
        usable &= jnp.isfinite(value)
    dominated = _dominated(values[: spec.objectives], pivots)
    survives = usable & ((values[spec.rank_column] <= threshold) | ~dominated)
    latency_s = jnp.broadcast_to(jnp.asarray(cost.latency_s, jnp.float32), (spec.lanes,))
    buckets = bucket(latency_s, reason, usable, inside)
    packed_lanes = jnp.zeros(0, jnp.int32)
    packed_values = jnp.zeros((len(values), 0), jnp.float32)
    if spec.compact:
        buckets = jnp.zeros(BUCKETS, jnp.int32).at[buckets.astype(jnp.int32)].add(1)
        packed_lanes = jnp.nonzero(survives, size=COMPACT_ROWS, fill_value=spec.lanes)[0].astype(jnp.int32)
        packed_values = jnp.stack([value.at[packed_lanes].get(mode="fill", fill_value=jnp.inf) for value in values])
    everything = {}
    if spec.everything:
        everything = {
            name: jnp.broadcast_to(jnp.asarray(value), (spec.lanes,))
            for name, value in (fields | cost_columns(cost)).items()
        }
    count = survives.sum(dtype=jnp.int32)
    return ChunkResult(count, survives, values, buckets, packed_lanes, packed_values, everything)


def _dominated(values: tuple[Any, ...], pivots: Any) -> Any:
    dominated = False
    for pivot in range(pivots.shape[0]):
        no_worse, equal = True, True
        for objective, value in enumerate(values):
            no_worse &= pivots[pivot, objective] <= value
            equal &= pivots[pivot, objective] == value
        dominated |= no_worse & ~equal
    return dominated


def survivors_of(spec: ChunkSpec, result: ChunkResult) -> tuple[np.ndarray, np.ndarray]:
    """The survivors on the host: lanes int64[n] and values float32[n, columns]."""
    count = int(result.survivors)
    if not count:
        return np.zeros(0, np.int64), np.zeros((0, len(spec.columns)), np.float32)
    if spec.compact and count <= COMPACT_ROWS:
        packed_values = np.asarray(result.packed_values)[:, :count]
        return np.asarray(result.packed_lanes)[:count].astype(np.int64), np.ascontiguousarray(packed_values.T)
    lanes = np.flatnonzero(np.asarray(result.survives))
    return lanes, np.stack([np.asarray(value)[lanes] for value in result.values], axis=1)


def counts_of(spec: ChunkSpec, result: ChunkResult) -> np.ndarray:
    """Candidates a bucket, int64[BUCKETS]; lanes past the end are in bucket `PADDING`."""
    if spec.compact:
        return np.asarray(result.buckets).astype(np.int64)
    return np.bincount(np.asarray(result.buckets), minlength=BUCKETS)
