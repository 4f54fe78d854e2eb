"""What a dequantised GEMM's CTA occupies: narrow weights in its stages, converted ones beside them, who converts."""

import dataclasses

import jax.numpy as jnp

from .._exact import ceil_div_by_reciprocal
from ..machine import Gpu
from ..occupancy import WARP, Footprint, power_of_two_columns, warp_registers
from ..reasons import Reason
from ..types import EPILOGUE_OVERLAPPED, EPILOGUE_STAGED, Bools, Floats, Gemm
from .dequant_gemm_types import IN_REGISTERS, IN_SMEM, IN_TMEM, DequantSchedule
from .gemm_footprint import (
    BARRIER_BYTES_PER_STAGE,
    EPILOGUE_COLUMNS,
    PRODUCER_REGISTERS,
    Tile,
    executed_tile,
    registers_per_thread,
)
from .gemm_scaling import scale_bytes

CONVERTER_REGISTERS = 80.0  # a thread of a warp that only converts: narrow and wide fragments, scales, addresses
REGISTER_BYTES = 4.0
TMEM_LANES = 128.0


@dataclasses.dataclass(frozen=True)
class Conversion:
    """The weights of one K-step of one CTA, on their way from narrow to wide.

    Attributes:
        tile: as the hardware executes it.
        wide: the problem with weights as wide as activations, without scales.
        needed: where weights are narrower than activations.
        rows: where the weights are the tile's rows.
        elements: weights of the K-step.
        stored_bytes: of one of them.
        wide_bytes: the same converted.
    """

    tile: Tile
    wide: Gemm
    needed: Bools
    rows: Bools
    elements: Floats
    stored_bytes: Floats
    wide_bytes: Floats


def conversion_of(stored: Gemm, wide_bytes: Floats, schedule: DequantSchedule, gpu: Gpu) -> Conversion:
    """What has to be converted; `stored` as the tiles see it, `wide_bytes` of an activation."""
    wide = dataclasses.replace(stored, a_bytes=wide_bytes, b_bytes=wide_bytes, scaling=None)
    tile = executed_tile(wide, schedule, gpu)
    rows = schedule.swap_ab > 0
    stored_bytes = jnp.where(rows, stored.a_bytes, stored.b_bytes)
    return Conversion(
        tile=tile,
        wide=wide,
        needed=stored_bytes < wide_bytes,
        rows=rows,
        elements=tile.k * jnp.where(rows, tile.m, tile.n * _pair_share(schedule)),
        stored_bytes=stored_bytes,
        wide_bytes=wide_bytes,
    )


def dequant_registers(conversion: Conversion, schedule: DequantSchedule, gpu: Gpu) -> Floats:
    """Registers of a thread that multiplies: a GEMM's, and where it converts, the weights on their way.

    mma.sync: one instruction's depth of wide weights a set (a GEMM counts two sets) and two of narrow ones.
    wgmma: a K-step of wide weights a set.
    """
    registers = registers_per_thread(conversion.wide, schedule, gpu)
    tile, sets = conversion.tile, schedule.converted_sets
    side = jnp.where(conversion.rows, tile.m / schedule.warps_m, tile.n / schedule.warps_n)
    fragment = side * gpu.mma.k_bytes / (WARP * REGISTER_BYTES)
    by_fragment = fragment * (sets - 2.0 + 2.0 * conversion.stored_bytes / conversion.wide_bytes)
    warps = schedule.warps_m * schedule.warps_n
    by_step = sets * conversion.elements * conversion.wide_bytes / (WARP * warps * REGISTER_BYTES)
    more = jnp.ceil(jnp.where(gpu.mma.operands_in_smem > 0, by_step, by_fragment))
    held = conversion.needed & (schedule.converted_in == IN_REGISTERS) & (schedule.registers_measured < 1)
    return registers + jnp.where(held, more, 0.0)


def dequant_footprint(
    stored: Gemm, conversion: Conversion, schedule: DequantSchedule, gpu: Gpu, registers: Floats
) -> Footprint:
    """SMEM, threads, registers and TMEM columns of one CTA: a GEMM's with narrow stages, and the converted weights."""
    tile, mma = conversion.tile, gpu.mma
    a_scale_bytes, b_scale_bytes = scale_bytes(stored)
    columns_bytes = tile.n * _pair_share(schedule) * (stored.b_bytes + b_scale_bytes)
    stage_bytes = tile.k * (tile.m * (stored.a_bytes + a_scale_bytes) + columns_bytes)
    sets_bytes = schedule.converted_sets * conversion.elements * conversion.wide_bytes
    in_smem = conversion.needed & (schedule.converted_in == IN_SMEM)
    buffers = schedule.stages * (stage_bytes + BARRIER_BYTES_PER_STAGE) + jnp.where(in_smem, sets_bytes, 0.0)
    overlapped = schedule.epilogue >= EPILOGUE_OVERLAPPED
    staging = tile.m * jnp.minimum(tile.n, EPILOGUE_COLUMNS) * stored.out_bytes
    out_tile = tile.m * tile.n * stored.out_bytes
    staged = jnp.where(schedule.epilogue >= EPILOGUE_STAGED, jnp.maximum(buffers, out_tile), buffers)
    smem = jnp.where(overlapped, buffers + staging, staged)
    smem = jnp.where(schedule.smem_measured_bytes > 0, schedule.smem_measured_bytes, smem)

    accumulator_in_tmem = mma.accumulator_in_tmem > 0
    groups = jnp.where(overlapped & jnp.logical_not(accumulator_in_tmem), 2.0, 1.0)
    warps = schedule.warps_m * schedule.warps_n * groups
    producer_warps = ceil_div_by_reciprocal(mma.async_copy_threads, WARP)
    consumers = warps * warp_registers(registers, gpu)
    others = producer_warps * warp_registers(PRODUCER_REGISTERS, gpu)
    others = others + schedule.converter_warps * warp_registers(CONVERTER_REGISTERS, gpu)
    room = jnp.maximum(consumers, gpu.registers_per_sm) - consumers
    others = jnp.where(schedule.registers_measured > 0, jnp.minimum(others, room), others)
    in_tmem = conversion.needed & (schedule.converted_in == IN_TMEM)
    set_columns = jnp.ceil(conversion.elements * conversion.wide_bytes / (TMEM_LANES * REGISTER_BYTES))
    columns = tile.n * jnp.where(overlapped, 2.0, 1.0)
    columns = columns + jnp.where(in_tmem, schedule.converted_sets * set_columns, 0.0)
    return Footprint(
        smem_bytes=smem,
        threads=(warps + schedule.converter_warps) * WARP + mma.async_copy_threads,
        registers=consumers + others,
        tmem_columns=jnp.where(accumulator_in_tmem, power_of_two_columns(columns), 0.0),
    )


def conversion_checks(conversion: Conversion, schedule: DequantSchedule, gpu: Gpu) -> list[tuple[Bools, Reason]]:
    """Why weights cannot be converted as the schedule says: (where it holds, reason)."""
    in_tmem = gpu.mma.accumulator_in_tmem > 0
    warps_own = (gpu.mma.operands_in_smem < 1) | (conversion.rows & jnp.logical_not(in_tmem))
    own_registers = warps_own & (schedule.converter_warps < 1)
    wrong = (schedule.converted_in == IN_REGISTERS) & jnp.logical_not(own_registers)
    wrong = wrong | ((schedule.converted_in == IN_TMEM) & jnp.logical_not(in_tmem & conversion.rows))
    busy_storing = in_tmem & (schedule.epilogue >= EPILOGUE_OVERLAPPED) & (schedule.converter_warps < 1)
    return [(conversion.needed & (wrong | busy_storing), Reason.CONVERSION)]


def _pair_share(schedule: DequantSchedule) -> Floats:
    return jnp.where(schedule.cta_pair > 0, 0.5, 1.0)
