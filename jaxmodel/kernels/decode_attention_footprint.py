"""What a CTA of decode attention executes and occupies, and why a schedule cannot run."""

import jax.numpy as jnp

from .._exact import ceil_div_by_reciprocal, uneven
from .._pytree import pytree
from ..machine import Gpu
from ..occupancy import WARP, Footprint, power_of_two_columns, round_up, warp_registers
from ..reasons import Reason
from ..types import Array, Bools, Floats
from .decode_attention_types import SCHEDULER_STREAM, DecodeAttention, DecodeAttentionSchedule

BASE_REGISTERS = 40.0  # addresses, counters, predicates, running maxima and sums, as in GEMM
PRODUCER_REGISTERS = 40.0
SCORE_COLUMNS = 64.0  # scores a thread holds at once where they live in TMEM
BARRIER_BYTES_PER_STAGE = 32.0  # full and empty, of K and of V
TMEM_LANES = 128.0
PAIR_ROWS = 64.0  # of a CTA, where a pair of them shares an instruction
PAIR_V_DIM = 256.0  # wider values fill the TMEM of two SMs
WARPGROUP = 4.0  # warps
WIDE_HEAD_DIM = 128.0  # head dims above it are the libraries' wide kernels


@pytree
class Executed:
    """Sides of the two matrix products of a block, rounded up to the tensor instruction."""

    rows: Array  # query rows
    keys: Array


def executed(schedule: DecodeAttentionSchedule, gpu: Gpu) -> Executed:
    """What a CTA executes a block: query rows along the instruction's m, or along its n where operands are swapped."""
    swapped = schedule.swap_ab > 0
    return Executed(
        rows=round_up(schedule.tile_rows, jnp.where(swapped, gpu.mma.n, least_rows(gpu))),
        keys=round_up(schedule.tile_n, jnp.where(swapped, least_rows(gpu), gpu.mma.n)),
    )


def least_rows(gpu: Gpu) -> Floats:
    """Rows of the smallest product that runs at full rate: tcgen05's m128 is shared by a pair of CTAs."""
    return jnp.minimum(gpu.mma.m, PAIR_ROWS)


def key_value_elements(problem: DecodeAttention) -> Floats:
    """Elements of K and V that a key has."""
    return problem.head_dim + jnp.where(problem.shared_kv > 0, 0.0, problem.v_dim)


def widens(problem: DecodeAttention) -> Bools:
    """Whether keys and values are widened by CUDA cores before they are multiplied."""
    return problem.kv_bytes < problem.q_bytes


def registers_per_thread(problem: DecodeAttention, schedule: DecodeAttentionSchedule, gpu: Gpu) -> Floats:
    """Registers of a thread that computes, where they are not measured an estimate: output and scores (two sets where
    blocks overlap), two sets of fragments with mma.sync; or the scores in flight from TMEM."""
    side, threads = executed(schedule, gpu), schedule.warps * WARP
    scores = side.rows * side.keys * jnp.where(schedule.overlap > 0, 2.0, 1.0)
    held = (side.rows * problem.v_dim + scores) / threads
    fragments = jnp.where(gpu.mma.operands_in_smem > 0, 0.0, 2.0 * (gpu.mma.m + gpu.mma.n) * gpu.mma.k_bytes / 128.0)
    in_flight = jnp.minimum(side.rows * side.keys / threads, SCORE_COLUMNS)
    estimate = jnp.ceil(jnp.where(gpu.mma.accumulator_in_tmem > 0, in_flight, held + fragments)) + BASE_REGISTERS
    return jnp.where(schedule.registers_measured > 0, schedule.registers_measured, estimate)


def footprint(problem: DecodeAttention, schedule: DecodeAttentionSchedule, gpu: Gpu) -> Footprint:
    """SMEM, threads, registers and TMEM columns of one CTA. Results are staged in Q's and the ring's buffers."""
    side, registers = executed(schedule, gpu), registers_per_thread(problem, schedule, gpu)
    elements = key_value_elements(problem)
    q_tile = side.rows * problem.head_dim * problem.q_bytes
    ring = schedule.stages * (side.keys * elements * problem.kv_bytes + BARRIER_BYTES_PER_STAGE)
    wide = jnp.where(widens(problem), side.keys * elements * problem.q_bytes, 0.0)
    through_smem = (gpu.mma.operands_in_smem > 0) & (schedule.swap_ab > 0) & (gpu.mma.accumulator_in_tmem < 1)
    scores = jnp.where(through_smem, side.rows * side.keys * problem.q_bytes, 0.0)
    smem = q_tile + ring + wide + scores
    producers = ceil_div_by_reciprocal(gpu.mma.async_copy_threads, WARP)
    consumers = schedule.warps * warp_registers(registers, gpu)
    whole = consumers + producers * warp_registers(PRODUCER_REGISTERS, gpu)
    room = jnp.maximum(consumers, gpu.registers_per_sm)
    whole = jnp.where(schedule.registers_measured > 0, jnp.minimum(whole, room), whole)
    sets = jnp.where(schedule.overlap > 0, 2.0, 1.0)
    v_columns = jnp.where(problem.v_dim > PAIR_V_DIM, 0.5 * problem.v_dim, problem.v_dim)  # a pair of CTAs shares them
    straight = v_columns + sets * side.keys
    swapped = side.rows * (_lanes(problem.v_dim) + sets * _lanes(side.keys))
    columns = jnp.where(schedule.swap_ab > 0, swapped, straight * _lanes(side.rows))
    return Footprint(
        smem_bytes=jnp.where(schedule.smem_measured_bytes > 0, schedule.smem_measured_bytes, smem),
        threads=schedule.warps * WARP + gpu.mma.async_copy_threads,
        registers=whole,
        tmem_columns=jnp.where(gpu.mma.accumulator_in_tmem > 0, power_of_two_columns(columns), 0.0),
    )


def instruction_checks(
    problem: DecodeAttention, schedule: DecodeAttentionSchedule, gpu: Gpu
) -> list[tuple[Bools, Reason]]:
    """Why a tile cannot be cut into tensor instructions: (where it holds, reason)."""
    side, mma = executed(schedule, gpu), gpu.mma
    least = jnp.where(schedule.swap_ab > 0, mma.n, least_rows(gpu))
    ragged = (schedule.tile_rows > least) & (side.rows > schedule.tile_rows)
    ragged = ragged | (side.keys > schedule.tile_n)
    groups = jnp.where(mma.operands_in_smem > 0, WARPGROUP, 1.0)
    no_groups = uneven(schedule.warps, groups)
    # warps share a tile's rows while there are any, then what a block has along the other side
    other = jnp.where(schedule.swap_ab > 0, side.rows, side.keys)
    parts = schedule.warps / groups
    along = jnp.where(schedule.swap_ab > 0, side.keys, side.rows) / least_rows(gpu)
    no_groups = no_groups | (parts > along * jnp.maximum(other / jnp.maximum(mma.n, 16.0), 1.0))
    swapped_wide = (schedule.swap_ab > 0) & (side.rows > mma.n_max)
    return [(ragged | swapped_wide, Reason.MMA_SHAPE), (no_groups, Reason.WARP_TILE)]


def library_checks(
    problem: DecodeAttention, schedule: DecodeAttentionSchedule, blocks: Floats, rows: Floats
) -> list[tuple[Bools, Reason]]:
    """What an implementation does not have or would not launch: (where it holds, reason).

    Args:
        problem: with the implementation's numbers.
        schedule: the schedule.
        blocks: of keys that a tile has.
        rows: query rows of a KV head, packed.
    """
    numbers, group = problem.numbers, problem.heads / problem.kv_heads
    wide = problem.head_dim > WIDE_HEAD_DIM
    tile_rows = jnp.where(wide, numbers.wide_tile_rows, numbers.tile_rows)
    tile_n = jnp.where(wide, numbers.wide_tile_n, numbers.tile_n)
    other = (tile_rows > 0) & (schedule.tile_rows != tile_rows)
    other = other | ((tile_n > 0) & (schedule.tile_n != tile_n))
    swaps = jnp.where(rows > numbers.swapped_rows, 0.0, 1.0)
    other = other | ((numbers.swapped_rows > 0) & (schedule.swap_ab != swaps))
    packs = jnp.where(group > numbers.unpacked_rows, 0.0, 1.0)
    other = other | ((numbers.unpacked_rows > 0) & (schedule.pack_gqa != packs))
    not_split = (blocks <= numbers.split_blocks) & (schedule.scheduler != SCHEDULER_STREAM)
    most = jnp.where(not_split, 1.0, numbers.split_cap)
    return [(other | (schedule.splits > most), Reason.LIBRARY)]


def _lanes(extent: Floats) -> Floats:
    return ceil_div_by_reciprocal(extent, TMEM_LANES)
