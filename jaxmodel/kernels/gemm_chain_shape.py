"""A chain's two products as GEMMs, its tiles as the hardware executes them, what a fused CTA occupies."""

import dataclasses

import jax.numpy as jnp

from .._exact import ceil_div
from ..machine import Gpu
from ..occupancy import WARP, Footprint, power_of_two_columns, round_up, warp_registers
from ..reasons import Reason
from ..types import EPILOGUE_STAGED, Bools, Floats, Gemm, GemmSchedule
from .gemm_chain_types import IN_REGISTERS, IN_SMEM, IN_TMEM, KEPT, ChainSchedule, GemmChain
from .gemm_footprint import (
    BARRIER_BYTES_PER_STAGE,
    BASE_REGISTERS,
    EPILOGUE_COLUMNS,
    PRODUCER_REGISTERS,
    instruction_checks,
    same_order,
)

REGISTER_BYTES = 4.0


@dataclasses.dataclass(frozen=True)
class ChainShape:
    """Tiles as the hardware executes them, and how many there are.

    Attributes:
        x, y, z, v: rows, columns and depth of the first product's tile, columns of the second's; elements.
        rows, blocks, depths, cols: row blocks of E, blocks along n, K-steps along k, column blocks of E.
    """

    x: Floats
    y: Floats
    z: Floats
    v: Floats
    rows: Floats
    blocks: Floats
    depths: Floats
    cols: Floats


def chain_shape(problem: GemmChain, schedule: ChainSchedule, gpu: Gpu) -> ChainShape:
    """How a chain is cut."""
    depth = gpu.mma.k_bytes / problem.element_bytes
    return ChainShape(
        x=round_up(schedule.tile_m, gpu.mma.m),
        y=round_up(schedule.tile_n, jnp.maximum(gpu.mma.n, depth)),
        z=round_up(schedule.tile_k, depth),
        v=round_up(schedule.tile_l, gpu.mma.n),
        rows=ceil_div(problem.m, schedule.tile_m),
        blocks=ceil_div(problem.n, schedule.tile_n),
        depths=ceil_div(problem.k, schedule.tile_k),
        cols=ceil_div(problem.l, schedule.tile_l),
    )


def products(problem: GemmChain) -> tuple[Gemm, Gemm]:
    """The two products as GEMMs; the second finds the intermediate in L2 as far as it fits."""
    first = Gemm(
        m=problem.m,
        n=problem.n,
        k=problem.k,
        batch=1.0,
        a_bytes=problem.element_bytes,
        b_bytes=problem.element_bytes,
        out_bytes=problem.element_bytes,
        c_in_bytes=0.0,
        a_k_major=1.0,
        b_k_major=1.0,
        a_align_bytes=problem.k_align_bytes,
        b_align_bytes=problem.k_align_bytes,
        out_align_bytes=problem.n_align_bytes,
        a_warm=problem.a_warm,
        b_warm=0.0,
    )
    second = dataclasses.replace(
        first,
        n=problem.l,
        k=problem.n,
        out_bytes=problem.out_bytes,
        a_align_bytes=problem.n_align_bytes,
        b_align_bytes=problem.n_align_bytes,
        out_align_bytes=problem.out_align_bytes,
        a_warm=1.0,
    )
    return first, second


def gemm_schedules(schedule: ChainSchedule) -> tuple[GemmSchedule, GemmSchedule]:
    """Schedules of the two products as kernels of their own."""
    first = GemmSchedule(
        tile_m=schedule.tile_m,
        tile_n=schedule.tile_n,
        tile_k=schedule.tile_k,
        stages=schedule.stages,
        warps_m=schedule.warps,
        warps_n=1.0,
        cluster_m=1.0,
        cluster_n=1.0,
        cta_pair=0.0,
        swap_ab=0.0,
        raster_along_n=schedule.raster_along_n,
        swizzle=schedule.swizzle,
        persistent=schedule.persistent,
        sms_free=0.0,
        split_k=1.0,
        stream_k=0.0,
        epilogue=float(EPILOGUE_STAGED),
        registers_measured=0.0,
        smem_measured_bytes=0.0,
    )
    return first, dataclasses.replace(first, tile_n=schedule.tile_l)


def fused_registers(shape: ChainShape, schedule: ChainSchedule, gpu: Gpu, element_bytes: Floats) -> Floats:
    """Registers of a thread that multiplies in a fused kernel."""
    threads = WARP * schedule.warps
    scores = schedule.sets * shape.x * shape.y / threads
    narrow = jnp.where(
        schedule.intermediate_in == IN_REGISTERS, shape.x * shape.y * element_bytes / (REGISTER_BYTES * threads), 0.0
    )
    results = shape.x * shape.v / threads
    held = jnp.where(schedule.order == KEPT, jnp.maximum(scores, results), scores + results + narrow)
    fragment_bytes = (shape.x / schedule.warps + jnp.maximum(shape.y, shape.v)) * gpu.mma.k_bytes
    fragments = jnp.where(gpu.mma.operands_in_smem > 0, 0.0, 2.0 * fragment_bytes / (WARP * REGISTER_BYTES))
    in_tmem = jnp.minimum(jnp.maximum(shape.y, shape.v), EPILOGUE_COLUMNS)
    return jnp.ceil(jnp.where(gpu.mma.accumulator_in_tmem > 0, in_tmem, held + fragments)) + BASE_REGISTERS


def fused_footprint(
    problem: GemmChain, shape: ChainShape, schedule: ChainSchedule, gpu: Gpu, registers: Floats
) -> Footprint:
    """What a CTA of a fused kernel occupies."""
    size, kept = problem.element_bytes, schedule.order == KEPT
    streamed = jnp.where(schedule.a_kept > 0, 0.0, shape.x)
    own_rows = jnp.where(schedule.a_kept > 0, shape.x * shape.depths * shape.z * size, 0.0)
    step = shape.z * (streamed + shape.y) * size
    second_step = shape.y * shape.v * size
    ring = schedule.stages * (jnp.where(kept, jnp.maximum(step, second_step), step) + BARRIER_BYTES_PER_STAGE)
    block = jnp.where(schedule.intermediate_in == IN_SMEM, shape.x * shape.y * size, 0.0)
    blocks = schedule.sets * (second_step + BARRIER_BYTES_PER_STAGE + block)
    rows = shape.x * shape.blocks * shape.y * size
    buffers = ring + own_rows + jnp.where(kept, rows, blocks)
    out_tile = shape.x * shape.v * problem.out_bytes
    smem = jnp.where(kept, buffers + out_tile, jnp.maximum(buffers, out_tile))
    producers = jnp.ceil(gpu.mma.async_copy_threads / WARP)
    columns = jnp.where(kept, jnp.maximum(schedule.sets * shape.y, shape.v), schedule.sets * shape.y + shape.v)
    return Footprint(
        smem_bytes=smem,
        threads=WARP * schedule.warps + gpu.mma.async_copy_threads,
        registers=schedule.warps * warp_registers(registers, gpu) + producers * warp_registers(PRODUCER_REGISTERS, gpu),
        tmem_columns=jnp.where(gpu.mma.accumulator_in_tmem > 0, power_of_two_columns(columns), 0.0),
    )


def fused_checks(
    problem: GemmChain, shape: ChainShape, schedule: ChainSchedule, gpu: Gpu
) -> list[tuple[Bools, Reason]]:
    """Why a fused kernel cannot be built, beyond what its CTA occupies: (where it holds, reason)."""
    first, second = products(problem)
    of_first, of_second = gemm_schedules(schedule)
    of_second = dataclasses.replace(of_second, tile_k=schedule.tile_n)  # a block of the intermediate is its depth
    in_tmem = gpu.mma.accumulator_in_tmem > 0
    place, kept = schedule.intermediate_in, schedule.order == KEPT
    wrong = ((place == IN_REGISTERS) & in_tmem) | ((place == IN_TMEM) & jnp.logical_not(in_tmem))
    cols = jnp.where(kept, 1.0, shape.cols)
    return [
        *instruction_checks(first, of_first, gpu),
        *instruction_checks(second, of_second, gpu),
        (wrong | (kept & (place != IN_SMEM)), Reason.CHAIN),
        (same_order(of_first, shape.rows, cols), Reason.SAME_ORDER),
    ]
