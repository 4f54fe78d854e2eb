"""Dispatch and combine of a mixture of experts: how long rows travel, by the way they take.

Direct: SMs read rows from, or write them to, the peers' memory, one after the other, Q rows under way. Buffered: half
of the SMs send into rings of Q rows at the peers, half take them out, chunk by chunk with a flag behind each; a sender
waits for room (`buffered_seconds`). Low latency: all SMs send a row for every expert, then all wait and take rows out;
nothing runs beside it. Links, the network between nodes and SMs work at the same time, so the slowest decides.

Equations: docs/fused-communication-moe-attention.md.
"""

import dataclasses

import jax.numpy as jnp

from .._exact import ceil_div_by_reciprocal, floor_div_by_reciprocal
from .._pytree import pytree
from ..machine import Gpu
from ..reasons import Reason, first_reason
from ..types import BOUNDS, PIPELINES, Array, Bools, Floats
from .fused_gemm_types import FusedCost
from .moe_exchange_types import BUFFERED, LOW_LATENCY, PER_RANK, Exchange, ExchangeSchedule


@pytree
class ExchangeTimes:
    """All rows are there after start_s + stream_s; a share x of them, in order, after start_s + x stream_s."""

    start_s: Array
    stream_s: Array
    rows: Array  # that this rank sends or gets: one for every expert of a token, or for every rank
    link_s: Array  # what those that leave this GPU inside its node take at the links' rate
    there: Array  # 1: the fabric has the way


def buffered_seconds(chunks: Floats, chunk_s: Floats, hop_s: Floats, room: Floats) -> Floats:
    """When the last of C chunks is out of a ring of W chunks: put in by one SM, taken out by another, s seconds each.

        put_i = max(put_{i-1}, taken_{i-W} + hop) + s,  taken_i = max(taken_{i-1}, put_i + hop) + s

    A longest path that goes back v times for room gains W chunks each time for 2 s + 2 hop: a line in v, ends decide.

    Args:
        chunks: C, whole, at least 1.
        chunk_s: s.
        hop_s: a flag's way.
        room: W, whole, at least 1.
    """
    further = chunks - 1.0
    turns = floor_div_by_reciprocal(further, room)
    waited_s = turns * (2.0 * chunk_s + 2.0 * hop_s) + (further - turns * room) * chunk_s
    return hop_s + 2.0 * chunk_s + jnp.maximum(further * chunk_s, waited_s)


def exchange_times(of: Exchange, schedule: ExchangeSchedule, gpu: Gpu) -> ExchangeTimes:
    """Start and stream of one exchange."""
    link = of.link
    buffered, low = schedule.transport == BUFFERED, schedule.transport == LOW_LATENCY
    sms = jnp.where(low, gpu.sm_count, jnp.maximum(schedule.comm_sms, 1.0))
    once = buffered | ((schedule.copies == PER_RANK) & jnp.logical_not(low))
    rows = jnp.where(once, of.rank_rows, of.expert_rows)
    nodes = of.ranks / link.ranks
    outside = 1.0 - 1.0 / nodes
    forwarded = jnp.where(low, (link.ranks - 1.0) / of.ranks, 1.0 - 1.0 / link.ranks)
    link_s = rows * forwarded * of.row_bytes / link.remote_bytes_per_s
    network_rows = jnp.where(low, of.expert_rows, of.node_rows)
    network_rate = jnp.where(of.network.bytes_per_s > 0, of.network.bytes_per_s, link.remote_bytes_per_s)
    network_s = jnp.where(nodes > 1, network_rows * outside * of.row_bytes / network_rate, 0.0)
    hop_s = link.hop_s + jnp.where(nodes > 1, of.network.hop_s, 0.0)
    busiest_s = jnp.maximum(link_s, network_s)

    own_rate = jnp.where(of.numbers.sm_bytes_per_s > 0, of.numbers.sm_bytes_per_s, link.sm_bytes_per_s)
    own_rate = jnp.where(own_rate > 0, own_rate, link.remote_bytes_per_s)
    moved_s = of.row_bytes / own_rate
    row_s = moved_s + of.numbers.row_s
    windowed_s = jnp.maximum(row_s, (moved_s + link.hop_s) / jnp.maximum(schedule.queue_rows, 1.0))
    direct_s = jnp.maximum(rows * windowed_s / sms, busiest_s)

    channels = jnp.maximum(floor_div_by_reciprocal(sms, 2.0), 1.0)
    chunk_rows = jnp.maximum(schedule.chunk_rows, 1.0)
    chunks = jnp.maximum(ceil_div_by_reciprocal(jnp.ceil(rows / channels), chunk_rows), 1.0)
    chunk_s = jnp.maximum(chunk_rows * row_s + link.flag_s, busiest_s / chunks)
    room = jnp.maximum(floor_div_by_reciprocal(schedule.queue_rows, chunk_rows), 1.0)
    ring_s = buffered_seconds(chunks, chunk_s, hop_s, room)
    ring_start_s = hop_s + chunk_s

    added = jnp.where(of.combine > 0, of.tokens, rows)
    taken_s = (rows + gpu.ddr_write_cost * added) * of.row_bytes / gpu.ddr_bytes_per_s  # read, and written or added up
    low_s = jnp.maximum(rows * row_s / sms, busiest_s) + link.flag_s * link.ranks + hop_s + taken_s
    start_s = jnp.where(low, low_s, jnp.where(buffered, ring_start_s, hop_s))
    stream_s = jnp.where(low, 0.0, jnp.where(buffered, ring_s - ring_start_s, direct_s))
    reaches = jnp.where(nodes > 1, (once | low) & (of.network.bytes_per_s > 0), True)
    return ExchangeTimes(
        start_s=start_s + of.numbers.call_s,
        stream_s=stream_s,
        rows=rows,
        link_s=link_s,
        there=jnp.where(reaches, 1.0, 0.0),
    )


def exchange_checks(times: ExchangeTimes, schedule: ExchangeSchedule, gpu: Gpu) -> list[tuple[Bools, Reason]]:
    """Why rows cannot travel so: (where it holds, reason)."""
    low, buffered = schedule.transport == LOW_LATENCY, schedule.transport == BUFFERED
    too_few = jnp.where(buffered, schedule.comm_sms < 2, (schedule.comm_sms < 1) & jnp.logical_not(low))
    return [
        (schedule.comm_sms > gpu.sm_count, Reason.SMS_FREE),
        ((times.there < 1) | too_few, Reason.TRANSPORT),
        (buffered & (schedule.chunk_rows > schedule.queue_rows), Reason.QUEUE),
    ]


def cost(problem: Exchange, schedule: ExchangeSchedule, gpu: Gpu) -> FusedCost:
    """The cost of a dispatch or a combine by itself, one launch; see `jaxmodel.kernels.gemm.cost`."""
    times = exchange_times(problem, schedule, gpu)
    combine = problem.combine > 0
    read = jnp.where(combine, times.rows, problem.tokens) * problem.row_bytes
    written = jnp.where(combine, problem.tokens, times.rows) * problem.row_bytes
    ddr_s = (read + gpu.ddr_write_cost * written) / gpu.ddr_bytes_per_s
    moved_s = jnp.maximum(times.start_s + times.stream_s, ddr_s)
    zero = jnp.zeros_like(moved_s)
    latency_s = moved_s + gpu.launch_overhead_s
    pipeline_s = [zero] * len(PIPELINES)
    pipeline_s[PIPELINES.index("ddr")] = ddr_s + zero
    pipeline_s[PIPELINES.index("net")] = times.link_s + zero
    launched = gpu.launch_overhead_s > 0.5 * latency_s
    sms = jnp.where(schedule.transport == LOW_LATENCY, gpu.sm_count, schedule.comm_sms)
    nothing = dict.fromkeys(
        ("prologue_s", "steady_s", "epilogue_s", "tail_s", "reduction_s", "helpers_s", "flop", "l15_hit", "l2_hit",
         "occupancy_limiter", "registers_per_thread", "smem_bytes", "threads", "workspace_bytes"), zero
    )  # fmt: skip
    return FusedCost(
        **nothing,
        latency_s=latency_s,
        communication_s=moved_s,
        launch_s=gpu.launch_overhead_s + zero,
        reason=first_reason(exchange_checks(times, schedule, gpu)) + zero,
        bound=jnp.where(launched, float(BOUNDS.index("launch")), float(BOUNDS.index("net"))),
        pipeline_s=tuple(pipeline_s),
        l15_bytes=read + written,
        l2_bytes=read + written,
        ddr_read_bytes=read,
        ddr_write_bytes=written,
        ddr_bytes=read + written,
        waves=zero + 1.0,
        ctas_per_sm=zero + 1.0,
        sms_used=sms + zero,
        energy_j=latency_s * gpu.static_w + (read + written) * (gpu.joule_per_ddr_byte + gpu.joule_per_l2_byte),
    )


def scaled_rows(of: Exchange, factor: Floats) -> Exchange:
    """With so many times the rows: of the busiest rank over the mean."""
    names = ("expert_rows", "rank_rows", "node_rows")
    return dataclasses.replace(of, **{name: getattr(of, name) * factor for name in names})
