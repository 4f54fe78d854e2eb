"""Decode attention: a few query rows of a KV head against long, paged keys and values, split over CTAs.

A tile is a group of query rows of one KV head; it walks blocks of keys: load K and V, Q K^T, softmax, P V. Its keys may
be split over several CTAs, whose parts a second kernel or the last CTA combines. One CTA's walk is a tile program; all
CTAs share L2 and DDR, which stream keys and values while other tiles start and end.
"""

import dataclasses

import jax.numpy as jnp

from ..bound import STARVED, what_binds
from ..cyclic import NEVER_S, loop_times
from ..energy import dynamic_joules, power_limited
from ..envelope import shared_pace
from ..machine import Gpu
from ..occupancy import residency
from ..program import Action, Buffer, Loop, Needs, Reduction, TileProgram, load, program_cost, store
from ..program.times import TileParts, tile_parts
from ..program.waves import starved
from ..reasons import Reason
from ..resources import Demand
from ..sdcm import hit_probability
from ..types import PIPELINES, Bools, Cost, Floats
from .decode_attention_footprint import (
    WIDE_HEAD_DIM,
    executed,
    footprint,
    instruction_checks,
    key_value_elements,
    library_checks,
    registers_per_thread,
    widens,
)
from .decode_attention_grid import Cut, Walk, cut, walk
from .decode_attention_types import (
    COMBINE_LAUNCH,
    SCHEDULER_PERSISTENT,
    SCHEDULER_STREAM,
    DecodeAttention,
    DecodeAttentionSchedule,
)

SOFTMAX_FLOP = 6.0  # a score: scale, maximum, subtract, convert, add, of slots that could be a fused multiply and add
WIDEN_FLOP = 2.0  # an element of K or V: convert, store
PARTIAL_BYTES = 4.0
PAGE_ENTRY_BYTES = 4.0
LONGEST_SPREAD = 1.7320508  # half width of a uniform distribution over its standard deviation


def cost(problem: DecodeAttention, schedule: DecodeAttentionSchedule, gpu: Gpu) -> Cost:
    """The cost of decode attention schedules, as a breakdown; broadcasts over problems x schedules x GPUs.

    Equations: docs/decode-attention.md.
    """
    numbers = problem.numbers
    streaming = dataclasses.replace(gpu, ddr_bytes_per_s=gpu.ddr_bytes_per_s * numbers.read_scale)
    pieces, resident = cut(problem, schedule), at_once(problem, schedule, gpu)
    walked = walk(schedule, pieces, resident, gpu)
    program = tile_program(problem, schedule, streaming, pieces, walked)
    base = program_cost(program, streaming)

    parts = tile_parts(program, streaming, 1.0)
    alone = loop_times(parts.arcs, parts.ends_s, walked.trips, parts.pace_s, 1.0)
    together = loop_times(parts.arcs, parts.ends_s, walked.trips, parts.pace_s, walked.resident)
    rows = pieces.rows / pieces.row_tiles
    wide = problem.head_dim > WIDE_HEAD_DIM
    own_s = jnp.where(wide, numbers.wide_tile_setup_s, numbers.tile_setup_s) + numbers.row_s * rows
    first_s = parts.before_s + jnp.maximum(alone.span_s - alone.interval_s, 0.0) + own_s
    overhead_s = gpu.cta_launch_s + first_s + parts.after_s
    ahead_s = jnp.maximum(first_s - parts.load_s - parts.latencies_s, 0.0) + parts.after_s
    again_s = jnp.where(schedule.scheduler == SCHEDULER_PERSISTENT, ahead_s, overhead_s)

    private_s = jnp.maximum(together.loop_s + together.interval_s, walked.resident * parts.engine_s) * walked.rounds
    l2_s, ddr_s = (base.pipeline_s[PIPELINES.index(name)] for name in ("l2", "ddr"))
    again = (pieces.readers - 1.0) / pieces.readers  # share of the reads that other tiles do as well
    l2_s = l2_s * (1.0 - again + again / numbers.shared_read_scale)
    stream_s = shared_pace(private_s, shared_pace(l2_s, ddr_s, gpu.overlap_loss), gpu.overlap_loss)
    all_s = shared_pace((walked.rounds - 1.0) * again_s, stream_s, numbers.overhead_loss)
    spread = jnp.where(schedule.scheduler == SCHEDULER_STREAM, 0.0, LONGEST_SPREAD * problem.context_spread)
    tail_s = spread * walked.trips * together.interval_s

    late = (problem.batch > numbers.long_batch) & (numbers.long_batch > 0)
    walk_s = problem.batch * jnp.where(late, numbers.long_batch_sequence_s, numbers.sequence_s)
    prologue_s = gpu.cta_launch_s + first_s + walk_s
    launch_s = gpu.launch_overhead_s + numbers.framework_s
    reduction_s = program.reduction.seconds
    latency_s = prologue_s + all_s + parts.after_s + tail_s + reduction_s + launch_s
    joules = dynamic_joules(
        *_flop_and_smem(program), base.l2_bytes, base.ddr_read_bytes + base.ddr_write_bytes, streaming
    )
    clocked_s = jnp.maximum(base.pipeline_s[PIPELINES.index("tensor")], base.pipeline_s[PIPELINES.index("smem")])
    throttle_s, energy_j = power_limited(latency_s, clocked_s, joules, gpu)
    latency_s = latency_s + throttle_s
    starving = starved(program, parts, walked.resident, STARVED) & (private_s > jnp.maximum(l2_s, ddr_s))
    return dataclasses.replace(
        base,
        latency_s=latency_s + program.helpers_s,
        bound=what_binds(base.pipeline_s, latency_s, launch_s + reduction_s, parts.after_s, starving),
        prologue_s=prologue_s,
        steady_s=all_s + throttle_s,
        epilogue_s=parts.after_s,
        tail_s=tail_s,
        launch_s=launch_s,
        sms_used=jnp.minimum(program.tiles, gpu.sm_count),
        energy_j=energy_j,
    )


def tile_program(
    problem: DecodeAttention, schedule: DecodeAttentionSchedule, gpu: Gpu, pieces: Cut, walked: Walk
) -> TileProgram:
    """One tile's walk: page table, Q; a loop of K and V, Q K^T, softmax, P V; the store of results or parts."""
    side, numbers = executed(schedule, gpu), problem.numbers
    stream = schedule.scheduler == SCHEDULER_STREAM
    total = pieces.output_tiles * pieces.blocks
    tiles = jnp.where(stream, jnp.minimum(total, gpu.sm_count * at_once(problem, schedule, gpu)) * walked.rounds, pieces.tiles)
    rows = pieces.rows / pieces.row_tiles
    split = walked.parts > 1
    workspace = pieces.output_tiles * rows * (problem.v_dim + 1.0) * PARTIAL_BYTES * walked.parts
    kept = hit_probability(workspace, gpu.l2_capacity_bytes * gpu.l2_effective_ratio, gpu.l2_ways)
    kept = jnp.where(split, kept, 0.0)

    key_bytes = key_value_elements(problem) * problem.kv_bytes
    block_bytes = schedule.tile_n * key_bytes  # whole blocks are fetched, but only keys that exist come from DDR
    valid = pieces.output_tiles * pieces.keys / (tiles * walked.trips * schedule.tile_n)
    pages = jnp.where(problem.page_tokens > 0, schedule.tile_n / jnp.maximum(problem.page_tokens, 1.0), 0.0)
    loaded = load("load", gpu, block_bytes + PAGE_ENTRY_BYTES * pages, 1.0 - (1.0 - key_value_hit(problem, gpu, pieces)) * valid)
    smem = side.keys * problem.head_dim * problem.q_bytes, side.keys * problem.v_dim * problem.q_bytes
    loaded = dataclasses.replace(loaded, demand=dataclasses.replace(loaded.demand, smem_bytes=block_bytes))
    scores = side.rows * side.keys
    widened = jnp.where(widens(problem), WIDEN_FLOP * side.keys * key_value_elements(problem), 0.0)
    multiply = Demand(tensor_flop=2.0 * scores * problem.head_dim, smem_bytes=smem[0], cuda_flop=widened)
    softmax = Demand(sfu_op=scores, cuda_flop=SOFTMAX_FLOP * scores)
    add = Demand(tensor_flop=2.0 * scores * problem.v_dim, smem_bytes=smem[1])
    serial_s = jnp.where(schedule.overlap > 0, -NEVER_S, numbers.step_s)
    out_bytes = jnp.where(split, PARTIAL_BYTES * (1.0 + 1.0 / problem.v_dim), problem.out_bytes)
    page_s = jnp.where(problem.page_tokens > 0, gpu.l2_latency_s, 0.0)
    return TileProgram(
        tiles=tiles,
        footprint=footprint(problem, schedule, gpu),
        registers_per_thread=registers_per_thread(problem, schedule, gpu),
        before=(
            Action("page_table", Demand(), latency_s=page_s),
            dataclasses.replace(load("load_q", gpu, rows * problem.head_dim * problem.q_bytes), latency_s=0.0),
        ),
        loop=Loop(
            actions=(
                loaded,
                Action("qk", multiply, latency_s=gpu.mma_latency_s),
                Action("softmax", softmax, overhead_s=numbers.step_s, held="cuda"),
                Action("pv", add, latency_s=gpu.mma_latency_s),
            ),
            trips=walked.trips,
            arcs=(
                Needs("qk", "load"),
                Needs("softmax", "qk"),
                Needs("pv", "softmax"),
                Needs("qk", "softmax", distance=2),
                Needs("qk", "pv", distance=1, hand_over_s=serial_s),
                Buffer("load", "pv", schedule.stages),
            ),
        ),
        after=(store("write", rows * problem.v_dim * out_bytes, kept=kept, cuda_flop=2.0 * side.rows * problem.v_dim),),
        checks=[
            *instruction_checks(problem, schedule, gpu),
            *launch_checks(schedule, pieces),
            *library_checks(problem, schedule, pieces.blocks, pieces.rows),
        ],
        flop=useful_flop(problem),
        helpers_s=helper_seconds(problem, gpu),
        reduction=combination(problem, schedule, gpu, pieces, walked, workspace, kept),
    )


def key_value_hit(problem: DecodeAttention, gpu: Gpu, pieces: Cut) -> Floats:
    """Share of the requested keys and values that L2 holds: what an earlier call left, and what another tile that reads
    the same has just loaded."""
    capacity = gpu.l2_capacity_bytes * gpu.l2_effective_ratio * problem.numbers.cache_share
    whole = problem.batch * problem.kv_heads * problem.kv_tokens * key_value_elements(problem) * problem.kv_bytes
    first = problem.kv_warm * hit_probability(whole, capacity, gpu.l2_ways)
    return (first + pieces.readers - 1.0) / pieces.readers


def combination(
    problem: DecodeAttention,
    schedule: DecodeAttentionSchedule,
    gpu: Gpu,
    pieces: Cut,
    walked: Walk,
    workspace: Floats,
    kept: Floats,
) -> Reduction:
    """What adds the parts of split tiles up: a second kernel, or each tile's last CTA once a counter says so."""
    numbers, split = problem.numbers, walked.parts > 1
    could = (numbers.combine_always > 0) & (pieces.blocks > numbers.split_blocks)
    out_bytes = problem.batch * problem.q_tokens * problem.heads * problem.v_dim * problem.out_bytes
    written_s = out_bytes * gpu.ddr_write_cost / gpu.ddr_bytes_per_s
    read_s = jnp.maximum(workspace / gpu.l2_bytes_per_s, workspace * (1.0 - kept) / gpu.ddr_bytes_per_s)
    moved_s = jnp.where(split, read_s + written_s, 0.0)
    launched_s = numbers.combine_scale * gpu.dependent_launch_s + moved_s
    port = gpu.sm_port_bytes_per_clock * gpu.clock_hz
    turns = jnp.maximum(pieces.output_tiles / gpu.sm_count, 1.0)
    in_kernel_s = gpu.fixup_latency_s + turns * workspace / (pieces.output_tiles * port)
    second = schedule.combine == COMBINE_LAUNCH
    return Reduction(
        seconds=jnp.where(second & (split | could), launched_s, jnp.where(split, in_kernel_s, 0.0)),
        workspace_bytes=jnp.where(split, workspace, 0.0),
        read_bytes=jnp.where(split, workspace * (1.0 - kept), 0.0),
        write_bytes=jnp.where(split, out_bytes, 0.0),
    )


def helper_seconds(problem: DecodeAttention, gpu: Gpu) -> Floats:
    """Kernels before or after: bytes of Q and O, and of K and V, at the rate of DDR."""
    rows = problem.batch * problem.q_tokens * problem.heads
    q_out = rows * (problem.head_dim * problem.q_bytes + problem.v_dim * problem.out_bytes)
    keys = problem.batch * problem.kv_heads * problem.kv_tokens * key_value_elements(problem) * problem.kv_bytes
    numbers = problem.numbers
    return (numbers.helper_q * q_out + numbers.helper_kv * keys) / gpu.ddr_bytes_per_s * numbers.read_scale


def useful_flop(problem: DecodeAttention) -> Floats:
    """Of Q K^T and P V over the keys that queries see."""
    hidden = jnp.where(problem.causal > 0, 0.5 * (problem.q_tokens - 1.0), 0.0)
    keys = jnp.maximum(problem.kv_tokens - hidden, 1.0)
    keys = jnp.where(problem.window > 0, jnp.minimum(keys, problem.window), keys)
    return 2.0 * problem.batch * problem.heads * problem.q_tokens * keys * (problem.head_dim + problem.v_dim)


def launch_checks(schedule: DecodeAttentionSchedule, pieces: Cut) -> list[tuple[Bools, Reason]]:
    """Why a launch makes no sense: (where it holds, reason)."""
    stream = schedule.scheduler == SCHEDULER_STREAM
    too_many = (schedule.splits > pieces.blocks) | (stream & (schedule.splits > 1))
    nothing = (schedule.combine != COMBINE_LAUNCH) & (schedule.splits < 2) & jnp.logical_not(stream)
    return [(too_many | nothing, Reason.SPLIT_KV)]


def at_once(problem: DecodeAttention, schedule: DecodeAttentionSchedule, gpu: Gpu) -> Floats:
    """CTAs that run on an SM at once, at least 1: those that fit, at most those that the implementation lets run."""
    resident, _ = residency(footprint(problem, schedule, gpu), gpu)
    most = problem.numbers.ctas_per_sm
    return jnp.maximum(jnp.where(most > 0, jnp.minimum(resident, most), resident), 1.0)


def _flop_and_smem(program: TileProgram) -> tuple[Floats, Floats]:
    loop, trips = program.loop, program.tiles * program.loop.trips
    flop = sum(action.demand.tensor_flop for action in loop.actions)
    smem = sum(action.demand.smem_bytes for action in loop.actions)
    return trips * flop, trips * smem
