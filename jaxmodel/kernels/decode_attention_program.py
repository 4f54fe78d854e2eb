"""One tile's walk of decode attention as a tile program: what it loads, multiplies and stores, and what waits."""

import dataclasses

import jax.numpy as jnp

from ..cyclic import NEVER_S
from ..machine import Gpu
from ..program import Action, Buffer, Loop, Needs, Reduction, TileProgram, load, store
from ..reasons import Reason
from ..resources import Demand
from ..sdcm import hit_probability
from ..types import Bools, Floats
from .decode_attention_footprint import (
    executed,
    footprint,
    instruction_checks,
    key_value_elements,
    library_checks,
    registers_per_thread,
    widens,
)
from .decode_attention_grid import Cut, Walk
from .decode_attention_types import COMBINE_LAUNCH, SCHEDULER_STREAM, DecodeAttention, DecodeAttentionSchedule

SOFTMAX_FLOP = 6.0  # a score: scale, maximum, subtract, convert, add, of slots that could be a fused multiply and add
WIDEN_FLOP = 2.0  # an element of K or V: convert, store
STORE_FLOP = 2.0  # an element of the result: divide by the sum, convert
PARTIAL_BYTES = 4.0  # an element of a part of a result, and of the sum that goes with each row
PAGE_ENTRY_BYTES = 4.0


def tile_program(
    problem: DecodeAttention, schedule: DecodeAttentionSchedule, gpu: Gpu, pieces: Cut, walked: Walk
) -> TileProgram:
    """Page table, Q; a loop of K and V, Q K^T, softmax, P V; the store of results or of parts of them."""
    rows = pieces.rows / pieces.row_tiles
    split = walked.parts > 1
    workspace = jnp.where(split, pieces.output_tiles * rows * (problem.v_dim + 1.0) * PARTIAL_BYTES * walked.parts, 0.0)
    kept = hit_probability(workspace, gpu.l2_capacity_bytes * gpu.l2_effective_ratio, gpu.l2_ways)
    whole_bytes, part_bytes = problem.v_dim * problem.out_bytes, (problem.v_dim + 1.0) * PARTIAL_BYTES
    scaled = STORE_FLOP * executed(schedule, gpu).rows * problem.v_dim
    page_s = jnp.where(problem.page_tokens > 0, gpu.l2_latency_s, 0.0)
    query = load("load_q", gpu, rows * problem.head_dim * problem.q_bytes)
    return TileProgram(
        tiles=walked.tiles,
        footprint=footprint(problem, schedule, gpu),
        registers_per_thread=registers_per_thread(problem, schedule, gpu),
        # Q's latency is that of the first keys, which are asked for at the same time
        before=(Action("page_table", Demand(), latency_s=page_s), dataclasses.replace(query, latency_s=0.0)),
        loop=block_loop(problem, schedule, gpu, pieces, walked),
        after=(
            store(
                "write",
                rows * jnp.where(split, part_bytes, whole_bytes),
                kept=jnp.where(split, kept, 0.0),
                cuda_flop=scaled,
            ),
        ),
        checks=[
            *instruction_checks(problem, schedule, gpu),
            *launch_checks(schedule, pieces),
            *library_checks(problem, schedule, pieces.blocks, pieces.rows),
        ],
        flop=useful_flop(problem),
        framework_s=problem.numbers.framework_s,
        helpers_s=helper_seconds(problem, gpu),
        reduction=combination(problem, schedule, gpu, pieces, walked, workspace),
    )


def block_loop(
    problem: DecodeAttention, schedule: DecodeAttentionSchedule, gpu: Gpu, pieces: Cut, walked: Walk
) -> Loop:
    """Blocks of keys: whole ones are fetched, and DDR reads the keys that exist once."""
    side, numbers = executed(schedule, gpu), problem.numbers
    elements = key_value_elements(problem)
    block_bytes = schedule.tile_n * elements * problem.kv_bytes
    exists = pieces.output_tiles * pieces.keys / (walked.tiles * walked.trips * schedule.tile_n)
    from_ddr = (1.0 - key_value_hit(problem, gpu, pieces)) * exists
    pages = jnp.where(problem.page_tokens > 0, schedule.tile_n / jnp.maximum(problem.page_tokens, 1.0), 0.0)
    requested = block_bytes + PAGE_ENTRY_BYTES * pages
    scores = side.rows * side.keys
    widened = jnp.where(widens(problem), WIDEN_FLOP * side.keys * elements, 0.0)
    key_bytes, value_bytes = (side.keys * dim * problem.q_bytes for dim in (problem.head_dim, problem.v_dim))
    qk = Demand(tensor_flop=2.0 * scores * problem.head_dim, smem_bytes=key_bytes, cuda_flop=widened)
    pv = Demand(tensor_flop=2.0 * scores * problem.v_dim, smem_bytes=value_bytes)
    softmax = Demand(sfu_op=scores, cuda_flop=SOFTMAX_FLOP * scores)
    serial_s = jnp.where(schedule.overlap > 0, -NEVER_S, 0.0)
    return Loop(
        actions=(
            load("load", gpu, requested, 1.0 - from_ddr, smem_bytes=block_bytes),
            Action("qk", qk, latency_s=gpu.mma_latency_s),
            Action("softmax", softmax, overhead_s=numbers.step_s, held="cuda"),
            Action("pv", pv, latency_s=gpu.mma_latency_s),
        ),
        trips=walked.trips,
        arcs=(
            Needs("qk", "load"),
            Needs("softmax", "qk"),
            Needs("pv", "softmax"),
            Needs("qk", "softmax", distance=2),  # two sets of scores
            Needs("qk", "pv", distance=1, hand_over_s=serial_s),  # the warps that multiply do the softmax as well
            Buffer("load", "pv", schedule.stages),
        ),
    )


def key_value_hit(problem: DecodeAttention, gpu: Gpu, pieces: Cut) -> Floats:
    """Share of the tiles' keys and values that L2 holds: what an earlier call left, and what another tile that reads
    the same has just loaded."""
    capacity = gpu.l2_capacity_bytes * gpu.l2_effective_ratio * problem.numbers.cache_share
    first = problem.kv_warm * hit_probability(cache_bytes(problem), capacity, gpu.l2_ways)
    return (first + pieces.readers - 1.0) / pieces.readers


def cache_bytes(problem: DecodeAttention) -> Floats:
    """Keys and values of all sequences."""
    tokens = problem.batch * problem.kv_heads * problem.kv_tokens
    return tokens * key_value_elements(problem) * problem.kv_bytes


def combination(
    problem: DecodeAttention,
    schedule: DecodeAttentionSchedule,
    gpu: Gpu,
    pieces: Cut,
    walked: Walk,
    workspace: Floats,
) -> Reduction:
    """What adds the parts of split tiles up: a second kernel, or each tile's last CTA once a counter says so."""
    numbers, split = problem.numbers, walked.parts > 1
    could = (numbers.combine_always > 0) & (pieces.blocks > numbers.split_blocks)
    out_bytes = problem.batch * problem.q_tokens * problem.heads * problem.v_dim * problem.out_bytes
    kept = hit_probability(workspace, gpu.l2_capacity_bytes * gpu.l2_effective_ratio, gpu.l2_ways)
    read_s = jnp.maximum(workspace / gpu.l2_bytes_per_s, workspace * (1.0 - kept) / gpu.ddr_bytes_per_s)
    moved_s = jnp.where(split, read_s + out_bytes * gpu.ddr_write_cost / gpu.ddr_bytes_per_s, 0.0)
    launched_s = jnp.where(split | could, numbers.combine_scale * gpu.dependent_launch_s + moved_s, 0.0)
    port = gpu.sm_port_bytes_per_clock * gpu.clock_hz
    an_sm = workspace / jnp.minimum(pieces.output_tiles, gpu.sm_count)
    in_kernel_s = jnp.where(split, gpu.fixup_latency_s + an_sm / port, 0.0)
    return Reduction(
        seconds=jnp.where(schedule.combine == COMBINE_LAUNCH, launched_s, in_kernel_s),
        workspace_bytes=workspace,
        read_bytes=workspace * (1.0 - kept),
        write_bytes=jnp.where(split, out_bytes, 0.0),
    )


def helper_seconds(problem: DecodeAttention, gpu: Gpu) -> Floats:
    """Kernels before or after: bytes of Q and O, and of K and V, at the rate of DDR."""
    numbers, rows = problem.numbers, problem.batch * problem.q_tokens * problem.heads
    q_and_o = rows * (problem.head_dim * problem.q_bytes + problem.v_dim * problem.out_bytes)
    return (numbers.helper_q * q_and_o + numbers.helper_kv * cache_bytes(problem)) / gpu.ddr_bytes_per_s


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
