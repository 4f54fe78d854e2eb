"""Ring attention: a rank's queries stay, shards of keys and values go around, and each is attended to where it is.

A shard comes in m chunks, N = (p - 1) m from the others. A chunk holds the link for h seconds and is there s later; a
rank sends on what it got. a_0 is the attention of the rank's own shard, a that of a chunk with the merge of its result.

With a buffer for every chunk, chunk i = j m + c (c = 1..m) is there at A_i = max(A_{i-1}, A_{i-m} + s) + h, that is

    A_i = s + c h + j max(m h, h + s),    E_i = max(E_{i-1}, A_i) + a,  E_0 = a_0

and E_N = max(a_0 + N a, largest of A_i + (N - i + 1) a): lines in c and in j, so their ends decide. In lockstep, with
two buffers, a chunk is sent while the one before is attended to:

    E_N = max(a_0, h + s) + (N - 1) max(a, h + s) + a

Played chunk by chunk in `tests/oracles/spread_attention.py`. Equations: docs/fused-communication-moe-attention.md.
"""

import dataclasses

import jax.numpy as jnp

from .._exact import ceil_div_by_reciprocal, uneven
from ..machine import Gpu
from ..reasons import first_reason
from ..types import PIPELINES, Bools, Floats
from . import attention
from .attention_parts import ACCUMULATOR_BYTES
from .attention_types import Attention
from .fused_gemm_types import FusedCost
from .spread_attention import Around, added_up, sms_left, way_checks
from .spread_attention_types import RingAttention, RingSchedule
from .transport import way_of


def ring_seconds(
    shards: Floats, chunks: Floats, own_s: Floats, chunk_s: Floats, held_s: Floats, late_s: Floats, lockstep: Bools
) -> Floats:
    """E_N above: when a rank has attended to all shards.

    Args:
        shards: p - 1, from other ranks, at least 1.
        chunks: m, of a shard.
        own_s, chunk_s: a_0 and a.
        held_s, late_s: h and s.
        lockstep: where there are two buffers.
    """
    count = shards * chunks
    step_s = held_s + late_s
    locked_s = jnp.maximum(own_s, step_s) + (count - 1.0) * jnp.maximum(chunk_s, step_s) + chunk_s
    hop_s = jnp.maximum(chunks * held_s, step_s)
    in_shard_s = jnp.maximum(held_s - chunk_s, chunks * (held_s - chunk_s))
    in_ring_s = jnp.maximum((shards - 1.0) * (hop_s - chunks * chunk_s), 0.0)
    waited_s = late_s + (count + 1.0) * chunk_s + in_shard_s + in_ring_s
    return jnp.where(lockstep, locked_s, jnp.maximum(own_s + count * chunk_s, waited_s))


def cost(problem: RingAttention, schedule: RingSchedule, gpu: Gpu) -> FusedCost:
    """The cost of the busiest rank's part, as a breakdown; see `jaxmodel.kernels.attention.cost`."""
    step, chunks = problem.step, schedule.chunks
    way = way_of(problem.link, schedule.transport, schedule.comm_sms)
    left = sms_left(gpu, schedule.comm_sms)
    keys = ceil_div_by_reciprocal(step.kv_tokens, chunks)
    a_chunk = attention.cost(dataclasses.replace(step, kv_tokens=keys), schedule, left)
    shards = problem.link.ranks - 1.0
    count = shards * chunks
    read_bytes, write_bytes = _merged_bytes(step, schedule)
    moved_s = (read_bytes + gpu.ddr_write_cost * write_bytes) / gpu.ddr_bytes_per_s
    idle_s = a_chunk.latency_s - a_chunk.pipeline_s[PIPELINES.index("ddr")]  # of DDR, in a launch
    apart_s = moved_s + gpu.dependent_launch_s
    each_s = jnp.where(schedule.merge_fused > 0, jnp.maximum(moved_s - idle_s, 0.0), apart_s)
    if problem.own is None:
        launches, merges = [(a_chunk, count + chunks)], count + chunks - 1.0
        own_s = chunks * (a_chunk.latency_s + each_s) - each_s
    else:
        own = attention.cost(problem.own, schedule, left)
        launches, merges, own_s = [(own, 1.0), (a_chunk, count)], count, own.latency_s
    chunk_s = a_chunk.latency_s + each_s
    held_s = way.hold_s + problem.shard_bytes / (chunks * way.bytes_per_s)
    end_s = ring_seconds(shards, chunks, own_s, chunk_s, held_s, way.start_s, schedule.lockstep > 0)
    around = Around(
        exposed_s=jnp.maximum(end_s - own_s - count * chunk_s, 0.0),
        net_s=shards * problem.shard_bytes / way.bytes_per_s,
        merge_s=merges * each_s,
        merge_ddr_s=merges * moved_s,
        merge_read_bytes=merges * read_bytes,
        merge_write_bytes=merges * write_bytes,
        kept_bytes=_outputs(step) * ACCUMULATOR_BYTES,
    )
    wrong = uneven(step.kv_tokens, chunks) | ((step.causal > 0) & (chunks > 1))
    reason = first_reason(way_checks(way, gpu, schedule.comm_sms, wrong))
    return added_up(launches, around, reason, gpu)


def _outputs(step: Attention) -> Floats:
    return step.batch * step.q_tokens * step.heads * step.v_dim


def _merged_bytes(step: Attention, schedule: RingSchedule) -> tuple[Floats, Floats]:
    """Bytes read and bytes written of adding one partial result to the sums so far, which are in fp32.

    Fused, the sums are read and written in place of a result; else a kernel reads both and writes the sums.
    """
    fused = schedule.merge_fused > 0
    outputs = _outputs(step)
    read = outputs * jnp.where(fused, ACCUMULATOR_BYTES, ACCUMULATOR_BYTES + step.out_bytes)
    written = outputs * jnp.where(fused, jnp.maximum(ACCUMULATOR_BYTES - step.out_bytes, 0.0), ACCUMULATOR_BYTES)
    return read, written
