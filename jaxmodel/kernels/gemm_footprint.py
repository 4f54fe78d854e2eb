"""What a GEMM's CTA occupies, and why a schedule cannot run: tile shape, SMEM, registers, threads, TMEM, raster."""

import jax.numpy as jnp

from .._exact import ceil_div_by_reciprocal, uneven
from .._pytree import pytree
from ..machine import Gpu
from ..occupancy import THREADS_PER_CTA_MAX, WARP, Footprint, power_of_two_columns, round_up, warp_registers
from ..reasons import Reason
from ..types import EPILOGUE_OVERLAPPED, EPILOGUE_STAGED, Array, Bools, Floats, Gemm, GemmSchedule
from .gemm_scaling import promotes, scale_bytes, scale_columns

# Registers a thread beside accumulators and fragments: addresses, loop counters, predicates. With it a 128x128x32 tile
# of 4 mma.sync warps comes to 232, where CUTLASS's kernels of that shape are compiled to about 230.
BASE_REGISTERS = 40.0
PRODUCER_REGISTERS = 40.0  # CUTLASS sm90 gives its producer warps 24 to 40
EPILOGUE_COLUMNS = 64.0  # accumulator columns a thread holds at once while a tile is stored
BARRIER_BYTES_PER_STAGE = 16.0  # a full and an empty mbarrier
TMA_ALIGN_BYTES = 16.0  # of a tensor map's strides and base (CUDA programming guide)


@pytree
class Tile:
    """A tile as the hardware executes it: rounded up to the tensor instruction."""

    m: Array
    n: Array
    k: Array


def executed_tile(problem: Gemm, schedule: GemmSchedule, gpu: Gpu) -> Tile:
    """The tile one CTA executes a K-step; elements."""
    k_min = gpu.mma.k_bytes / jnp.minimum(problem.a_bytes, problem.b_bytes)
    return Tile(
        m=round_up(schedule.tile_m, gpu.mma.m),
        n=round_up(schedule.tile_n, gpu.mma.n),
        k=round_up(schedule.tile_k, k_min),
    )


def registers_per_thread(problem: Gemm, schedule: GemmSchedule, gpu: Gpu) -> Floats:
    """Registers of a thread that issues MMAs or stores: measured where the user gives it, else an estimate.

    mma.sync: accumulators, two sets of operand fragments (one is loaded while the other is used), base.
    wgmma: accumulators, base. tcgen05: the accumulator columns in flight from TMEM, base. Promoted: two sets.
    """
    tile = executed_tile(problem, schedule, gpu)
    warps = schedule.warps_m * schedule.warps_n
    accumulators = tile.m * tile.n / (WARP * warps) * jnp.where(promotes(problem, gpu), 2.0, 1.0)
    fragment_bytes = (tile.m / schedule.warps_m + tile.n / schedule.warps_n) * gpu.mma.k_bytes
    fragments = jnp.where(gpu.mma.operands_in_smem > 0, 0.0, 2.0 * fragment_bytes / (WARP * 4.0))
    held = jnp.where(gpu.mma.accumulator_in_tmem > 0, jnp.minimum(tile.n, EPILOGUE_COLUMNS), accumulators + fragments)
    estimate = jnp.ceil(held) + BASE_REGISTERS
    return jnp.where(schedule.registers_measured > 0, schedule.registers_measured, estimate)


def footprint(problem: Gemm, schedule: GemmSchedule, gpu: Gpu) -> Footprint:
    """SMEM, threads, registers and TMEM columns of one CTA.

    A staged epilogue reuses the main loop's buffers, an overlapped one needs its own and, where accumulators are in
    registers, a second set of consumer warps (ping-pong); in TMEM a second accumulator.
    """
    tile = executed_tile(problem, schedule, gpu)
    pair_share = jnp.where(schedule.cta_pair > 0, 0.5, 1.0)
    a_scale_bytes, b_scale_bytes = scale_bytes(problem)
    a_bytes, b_bytes = problem.a_bytes + a_scale_bytes, problem.b_bytes + b_scale_bytes
    stage_bytes = tile.k * (tile.m * a_bytes + tile.n * pair_share * b_bytes)
    buffers = schedule.stages * (stage_bytes + BARRIER_BYTES_PER_STAGE)
    out_tile = tile.m * tile.n * problem.out_bytes
    overlapped = schedule.epilogue >= EPILOGUE_OVERLAPPED
    staging = tile.m * jnp.minimum(tile.n, EPILOGUE_COLUMNS) * problem.out_bytes
    staged = jnp.where(schedule.epilogue >= EPILOGUE_STAGED, jnp.maximum(buffers, out_tile), buffers)
    smem = jnp.where(overlapped, buffers + staging, staged)
    smem = jnp.where(schedule.smem_measured_bytes > 0, schedule.smem_measured_bytes, smem)
    in_tmem = gpu.mma.accumulator_in_tmem > 0
    groups = jnp.where(overlapped & jnp.logical_not(in_tmem), 2.0, 1.0)
    warps = schedule.warps_m * schedule.warps_n * groups
    producer_warps = ceil_div_by_reciprocal(gpu.mma.async_copy_threads, WARP)
    consumers = warps * warp_registers(registers_per_thread(problem, schedule, gpu), gpu)
    registers = consumers + producer_warps * warp_registers(PRODUCER_REGISTERS, gpu)
    # a kernel whose registers were measured has run: its producer warps, if it has any, got by with what was left
    room = jnp.maximum(consumers, gpu.registers_per_sm)
    registers = jnp.where(schedule.registers_measured > 0, jnp.minimum(registers, room), registers)
    columns = tile.n * jnp.where(overlapped, 2.0, 1.0) + scale_columns(problem, tile.m, tile.n, tile.k)
    return Footprint(
        smem_bytes=smem,
        threads=warps * WARP + gpu.mma.async_copy_threads,
        registers=registers,
        tmem_columns=jnp.where(in_tmem, power_of_two_columns(columns), 0.0),
    )


def footprint_checks(
    problem: Gemm, schedule: GemmSchedule, gpu: Gpu, occupied: Footprint, resident: Floats
) -> list[tuple[Bools, Reason]]:
    """Why a schedule's CTA cannot be built: (where it holds, reason)."""
    return [
        *instruction_checks(problem, schedule, gpu),
        (occupied.smem_bytes > gpu.smem_per_cta_max_bytes, Reason.SMEM),
        (registers_per_thread(problem, schedule, gpu) > gpu.registers_per_thread_max, Reason.REGISTERS),
        (occupied.threads > THREADS_PER_CTA_MAX, Reason.THREADS),
        (occupied.registers > gpu.registers_per_sm, Reason.REGISTER_FILE),
        (occupied.tmem_columns > gpu.tmem_columns, Reason.TMEM),
        (resident < 1, Reason.SMEM),
    ]


def instruction_checks(problem: Gemm, schedule: GemmSchedule, gpu: Gpu) -> list[tuple[Bools, Reason]]:
    """Why a tile cannot be cut into tensor instructions and loads, whatever it occupies: (where it holds, reason)."""
    tile = executed_tile(problem, schedule, gpu)
    mma = gpu.mma
    warps_m = jnp.where(mma.operands_in_smem > 0, schedule.warps_m / 4.0, schedule.warps_m)
    larger = (schedule.tile_m > mma.m) & (tile.m > schedule.tile_m)
    larger = larger | ((schedule.tile_n > mma.n) & (tile.n > schedule.tile_n)) | (tile.k > schedule.tile_k)
    ragged = uneven(tile.m, mma.m * warps_m) | uneven(tile.n, mma.n * schedule.warps_n)
    uneven_pair = uneven(schedule.cluster_m, 2.0) | uneven(schedule.tile_n, 2.0 * mma.n)
    uneven_pair = uneven_pair | (schedule.tile_m < mma.m) | (mma.accumulator_in_tmem < 1)
    align = jnp.minimum(problem.a_align_bytes, problem.b_align_bytes)
    return [
        (larger, Reason.MMA_SHAPE),
        (ragged, Reason.WARP_TILE),
        ((schedule.cta_pair > 0) & uneven_pair, Reason.CTA_PAIR),
        ((mma.tma > 0) & (align < TMA_ALIGN_BYTES), Reason.ALIGNMENT),
    ]


def same_order(schedule: GemmSchedule, rows: Floats, cols: Floats) -> Bools:
    """Whether the launch order on rows x cols tiles is that of a smaller swizzle or of the other raster axis; False
    where it is left open (`swizzle` None)."""
    if schedule.swizzle is None:
        return jnp.asarray(False)
    rows, cols = rows / schedule.cluster_m, cols / schedule.cluster_n  # whole clusters: exact
    narrow = jnp.where(schedule.raster_along_n > 0, rows, cols)
    one_line = (jnp.minimum(rows, cols) < 2) & ((schedule.raster_along_n > 0) | (schedule.swizzle > 1))
    return one_line | ((schedule.swizzle > 1) & (schedule.swizzle >= narrow))
