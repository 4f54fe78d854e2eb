"""What attention's CTAs occupy, ask of the pipelines and find in L2: footprints, demands and K/V traffic."""

import jax.numpy as jnp

from .._exact import ceil_div_by_reciprocal, uneven
from .._pytree import pytree
from ..machine import Gpu
from ..occupancy import WARP, Footprint, power_of_two_columns, round_up, warp_registers
from ..reasons import Reason
from ..resources import Demand
from ..sdcm import hit_probability
from ..types import Array, Bools, Floats
from .attention_types import ORDER_BOTH, ORDER_PING_PONG, ORDER_PIPELINED, Attention, AttentionSchedule

WARPGROUP = 128.0  # threads
ACCUMULATOR_BYTES = 4.0  # scores and outputs are summed in fp32
PROBABILITY_BYTES_MAX = 2.0
BARRIER_BYTES_A_BLOCK = 32.0  # full and empty barriers of a K and of a V buffer
BASE_REGISTERS = 32.0  # a thread: addresses, row maxima and sums, loop state
PRODUCER_REGISTERS = 24.0
SOFTMAX_COLUMNS = 64.0  # of scores that a thread holds at once when they come from TMEM
CUDA_FLOP_A_SCORE = 8.0  # four issues a score at two FLOP each: maximum, scale and subtract, sum, convert and mask


@pytree
class HeadDims:
    """Depth of the two products as the instructions execute them."""

    qk: Array  # head_dim, rounded up to the instruction's depth
    pv: Array  # v_dim, rounded up to the instruction's columns


def executed_dims(problem: Attention, gpu: Gpu) -> HeadDims:
    """Head dimensions, rounded up to what one tensor instruction takes."""
    return HeadDims(
        qk=round_up(problem.head_dim, gpu.mma.k_bytes / problem.kv_bytes),
        pv=round_up(problem.v_dim, gpu.mma.n),
    )


def probability_bytes(problem: Attention) -> Floats:
    """An element of P: it enters the second product in 16 bits, or as narrow as V."""
    return jnp.minimum(problem.kv_bytes, PROBABILITY_BYTES_MAX)


def warpgroup_rows(gpu: Gpu) -> Floats:
    """Rows of one product of a warpgroup: an instruction's where the warpgroup or the CTA issues it as a whole, four
    warps' where every warp issues its own."""
    whole = (gpu.mma.operands_in_smem > 0) | (gpu.mma.accumulator_in_tmem > 0)
    return jnp.where(whole, gpu.mma.m, 4.0 * gpu.mma.m)


def score_buffers(schedule: AttentionSchedule, gpu: Gpu) -> Floats:
    """Blocks of scores that a warpgroup has: two where a single one's are in TMEM and QK runs ahead, else one (what
    registers hold twice, the scores and P, is one block's)."""
    ahead = (schedule.order == ORDER_PIPELINED) | (schedule.order == ORDER_BOTH)
    return jnp.where((gpu.mma.accumulator_in_tmem > 0) & ahead & (schedule.warpgroups < 2), 2.0, 1.0)


def registers_per_thread(problem: Attention, schedule: AttentionSchedule, gpu: Gpu) -> Floats:
    """Registers of a thread of a warpgroup: measured where the user gives it, else output and scores in fp32, P in 16
    bits beside the next block's scores where QK runs ahead, fragments of Q where they stay, and a base."""
    dims = executed_dims(problem, gpu)
    threads = schedule.warpgroups * WARPGROUP
    ahead = (schedule.order == ORDER_PIPELINED) | (schedule.order == ORDER_BOTH)
    scores = schedule.tile_m * schedule.tile_n / threads
    held = schedule.tile_m * dims.pv / threads + scores
    held = held + jnp.where(
        ahead & (schedule.p_in_smem < 1), scores * probability_bytes(problem) / ACCUMULATOR_BYTES, 0.0
    )
    held = held + jnp.where(
        schedule.q_in_registers > 0, schedule.tile_m * dims.qk * problem.q_bytes / (4.0 * threads), 0.0
    )
    in_tmem = gpu.mma.accumulator_in_tmem > 0
    estimate = jnp.ceil(jnp.where(in_tmem, 2.0 * jnp.minimum(schedule.tile_n, SOFTMAX_COLUMNS), held)) + BASE_REGISTERS
    return jnp.where(schedule.registers_measured > 0, schedule.registers_measured, estimate)


def footprint(problem: Attention, schedule: AttentionSchedule, gpu: Gpu) -> Footprint:
    """SMEM, threads, registers and TMEM columns of one CTA. The output is staged where Q was."""
    dims = executed_dims(problem, gpu)
    q_tile = jnp.where(schedule.q_in_registers > 0, 0.0, schedule.tile_m * dims.qk * problem.q_bytes)
    out_tile = schedule.tile_m * dims.pv * problem.out_bytes
    ring = schedule.stages * (schedule.tile_n * (dims.qk + dims.pv) * problem.kv_bytes + BARRIER_BYTES_A_BLOCK)
    p_tile = jnp.where(schedule.p_in_smem > 0, schedule.tile_m * schedule.tile_n * probability_bytes(problem), 0.0)
    kept = jnp.where(schedule.q_in_registers > 0, jnp.maximum(ring, out_tile), ring + jnp.maximum(q_tile, out_tile))
    smem = jnp.where(schedule.smem_measured_bytes > 0, schedule.smem_measured_bytes, kept + p_tile)
    in_tmem = gpu.mma.accumulator_in_tmem > 0
    warps = 4.0 * schedule.warpgroups
    other_threads = gpu.mma.async_copy_threads + jnp.where(in_tmem, WARPGROUP, 0.0)  # in TMEM one warpgroup rescales
    other_warps = ceil_div_by_reciprocal(other_threads, WARP)
    registers = warps * warp_registers(registers_per_thread(problem, schedule, gpu), gpu)
    registers = registers + other_warps * warp_registers(PRODUCER_REGISTERS, gpu)
    columns = schedule.tile_m / gpu.mma.m * (schedule.tile_n * score_buffers(schedule, gpu) + dims.pv)
    return Footprint(
        smem_bytes=smem,
        threads=warps * WARP + other_threads,
        registers=registers,
        tmem_columns=jnp.where(in_tmem, power_of_two_columns(columns), 0.0),
    )


def schedule_checks(schedule: AttentionSchedule, gpu: Gpu) -> list[tuple[Bools, Reason]]:
    """Why there is no such kernel, whatever fits: (where it holds, reason)."""
    mma = gpu.mma
    asynchronous = (mma.operands_in_smem > 0) | (mma.accumulator_in_tmem > 0)
    ragged = uneven(schedule.tile_m, warpgroup_rows(gpu) * schedule.warpgroups)
    turns = (schedule.order == ORDER_PING_PONG) | (schedule.order == ORDER_BOTH)
    alone = turns & (schedule.warpgroups < 2) & (mma.accumulator_in_tmem < 1)
    q_moved = (schedule.q_in_registers > 0) & (mma.accumulator_in_tmem > 0)
    p_moved = (schedule.p_in_smem > 0) & jnp.logical_not(asynchronous)
    return [
        (uneven(schedule.tile_n, jnp.maximum(mma.n, 16.0)), Reason.MMA_SHAPE),
        (ragged, Reason.WARP_TILE),
        (alone | ((schedule.order > 0) & jnp.logical_not(asynchronous)), Reason.PRODUCT_ORDER),
        (q_moved | p_moved, Reason.OPERAND_PLACE),
    ]


def product_demand(problem: Attention, schedule: AttentionSchedule, gpu: Gpu) -> tuple[Demand, Demand]:
    """What QK^T and PV of one block ask, all warpgroups' rows: tensor FLOP, and operands read from SMEM."""
    dims = executed_dims(problem, gpu)
    scores = schedule.tile_m * schedule.tile_n
    mma = gpu.mma
    shared = (mma.operands_in_smem > 0) | (mma.accumulator_in_tmem > 0)
    reads = jnp.where(shared, schedule.tile_m / mma.m, 4.0 * schedule.warpgroups)  # of every K and V byte
    again = ceil_div_by_reciprocal(schedule.tile_n, mma.n_max)  # Q for each instruction's columns
    q_reads = jnp.where(schedule.q_in_registers > 0, 0.0, schedule.tile_m * dims.qk * problem.q_bytes * again)
    p_moves = jnp.where(schedule.p_in_smem > 0, 2.0 * scores * probability_bytes(problem), 0.0)
    k_reads, v_reads = (schedule.tile_n * depth * problem.kv_bytes * reads for depth in (dims.qk, dims.pv))
    return (
        Demand(tensor_flop=2.0 * scores * dims.qk, smem_bytes=k_reads + q_reads),
        Demand(tensor_flop=2.0 * scores * dims.pv, smem_bytes=v_reads + p_moves),
    )


def softmax_demand(problem: Attention, schedule: AttentionSchedule, gpu: Gpu) -> Demand:
    """What the softmax of one block asks, all warpgroups' rows: an exponential a score and one a row, four issues a
    score, and the rescaling of the output where it is in registers. In TMEM scores are read, P is written, and
    another warpgroup rescales there."""
    dims = executed_dims(problem, gpu)
    scores = schedule.tile_m * schedule.tile_n
    outputs = schedule.tile_m * dims.pv
    in_tmem = gpu.mma.accumulator_in_tmem > 0
    moved = scores * (ACCUMULATOR_BYTES + probability_bytes(problem))
    return Demand(
        sfu_op=scores + schedule.tile_m,
        cuda_flop=CUDA_FLOP_A_SCORE * scores + jnp.where(in_tmem, 0.0, 2.0 * outputs),
        tmem_bytes=jnp.where(in_tmem, moved, 0.0),
    )


def kv_block_bytes(problem: Attention, schedule: AttentionSchedule) -> Floats:
    """Bytes of one block of K and V, whole blocks."""
    return schedule.tile_n * (problem.head_dim + problem.v_dim) * problem.kv_bytes


def kv_miss(
    problem: Attention,
    schedule: AttentionSchedule,
    gpu: Gpu,
    requested_bytes: Floats,
    unique_bytes: Floats,
    line_bytes: Floats,
    lines_in_flight: Floats,
) -> Floats:
    """Share of the requested K and V bytes that L2 does not hold.

    The first touch of a byte misses unless it was warm. Later ones come from the other tiles of its KV head: between
    two of them the blocks of all lines in flight pass.

    Args:
        requested_bytes: of K and V, by all tiles.
        unique_bytes: of K and V.
        line_bytes: of K and V of one KV head of one sequence.
        lines_in_flight: KV heads whose tiles run at the same time.
    """
    capacity = gpu.l2_capacity_bytes * gpu.l2_effective_ratio
    first = jnp.minimum(unique_bytes / requested_bytes, 1.0)
    warm = problem.kv_warm * gpu.l2_retention * hit_probability(unique_bytes, capacity, gpu.l2_ways)
    row_bytes = problem.head_dim * problem.q_bytes + problem.v_dim * problem.out_bytes
    passed = lines_in_flight * line_bytes + gpu.sm_count * schedule.tile_m * row_bytes
    again = hit_probability(passed, capacity, gpu.l2_ways)
    return first * (1.0 - warm) + (1.0 - first) * (1.0 - again)
