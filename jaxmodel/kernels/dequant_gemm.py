"""Dequantised GEMM: 16-bit activations times weights stored in 4 or 8 bits, converted between load and product.

GEMM's tile program with one more action. Narrow weights and their scales go through DDR, L2, port and SMEM; a K-step
converts them on CUDA cores into registers, SMEM or TMEM, and the tensor core multiplies what was converted.
"""

import dataclasses

import jax.numpy as jnp

from .._exact import ceil_div_by_reciprocal
from ..machine import Gpu
from ..occupancy import residency
from ..program import Action, Buffer, Needs, TileProgram, load, program_cost
from ..resources import Demand
from ..types import Cost, Floats
from .dequant_gemm_footprint import (
    Conversion,
    conversion_checks,
    conversion_of,
    dequant_footprint,
    dequant_registers,
)
from .dequant_gemm_types import IN_REGISTERS, IN_SMEM, IN_TMEM, DequantGemm, DequantSchedule
from .gemm import grid, oriented
from .gemm_footprint import instruction_checks
from .gemm_program import gemm_tile_program, written
from .gemm_scaling import scale_bytes
from .gemm_traffic import operand_traffic

SLOT_FLOP = 2.0  # an instruction slot of a CUDA core, which could have been a fused multiply and add
HAND_OVER_CLOCKS = 40.0  # fence and barrier between those who convert and the tensor instruction
SCHEDULERS = 4.0  # of an SM: warps beyond one each take turns on it


def cost(problem: DequantGemm, schedule: DequantSchedule, gpu: Gpu) -> Cost:
    """The cost of dequantised GEMM schedules, as a breakdown; broadcasts over problems x schedules x GPUs.

    Equations: docs/dequantised-gemm.md.
    """
    return program_cost(program(problem, schedule, gpu), gpu)


def program(problem: DequantGemm, schedule: DequantSchedule, gpu: Gpu) -> TileProgram:
    """The tile program of a dequantised GEMM."""
    stored = oriented(problem.gemm, schedule.swap_ab)
    conversion = conversion_of(stored, problem.gemm.a_bytes, schedule, gpu)
    registers = dequant_registers(conversion, schedule, gpu)
    occupied = dequant_footprint(stored, conversion, schedule, gpu, registers)
    resident, _ = residency(occupied, gpu)
    cut = grid(stored, schedule, resident, gpu)
    traffic = operand_traffic(stored, schedule, gpu, cut.rows, cut.cols, cut.sms, cut.slots)

    a_scale_bytes, b_scale_bytes = scale_bytes(stored)
    tile = conversion.tile
    columns = tile.n * jnp.where(schedule.cta_pair > 0, 0.5, 1.0)
    filled = tile.k * (tile.m * stored.a_bytes + columns * stored.b_bytes)
    scales = tile.k * (tile.m * a_scale_bytes + columns * b_scale_bytes)
    convert, converted_reads = converted(conversion, problem.dequant_slots, schedule, gpu)
    multiply = Demand(
        tensor_flop=2.0 * tile.m * tile.n * tile.k,
        smem_bytes=filled + 2.0 * scales + activation_reads(conversion, schedule, gpu) + converted_reads.smem_bytes,
        tmem_bytes=converted_reads.tmem_bytes,
    )
    crosses = conversion.needed & (schedule.converted_in != IN_REGISTERS)
    hand_over_s = jnp.where(crosses, HAND_OVER_CLOCKS / gpu.clock_hz, 0.0)
    warps = schedule.warps_m * schedule.warps_n
    turns = jnp.where(schedule.converted_in == IN_REGISTERS, jnp.maximum(warps / SCHEDULERS, 1.0), 1.0)
    loads = load("load", gpu, traffic.step_bytes, traffic.l2_hit, traffic.l15_hit)
    return gemm_tile_program(
        stored,
        schedule,
        gpu,
        cut,
        traffic,
        occupied,
        registers,
        actions=(
            dataclasses.replace(loads, latency_s=loads.latency_s + gpu.mma_latency_s),
            Action("convert", convert),
            Action("multiply", multiply, overhead_s=gpu.step_overhead_s),
        ),
        arcs=(
            Needs("convert", "load"),
            Needs("multiply", "convert", hand_over_s=hand_over_s),
            Buffer("load", "multiply", schedule.stages),
            Buffer("convert", "multiply", schedule.converted_sets * turns, hand_over_s=hand_over_s),
        ),
        after=(written(stored, schedule, gpu, cut, traffic),),
        checks=[
            *instruction_checks(conversion.wide, schedule, gpu),
            *conversion_checks(conversion, schedule, gpu),
        ],
    )


def weight_copies(conversion: Conversion, schedule: DequantSchedule, gpu: Gpu) -> Floats:
    """How often a GEMM's tensor instructions read a K-step's weights: once a warp, or a block of the other operand."""
    tile, mma = conversion.tile, gpu.mma
    blocks = jnp.where(
        conversion.rows, ceil_div_by_reciprocal(tile.n, mma.n_max), ceil_div_by_reciprocal(tile.m, mma.m)
    )
    return jnp.where(mma.operands_in_smem > 0, blocks, jnp.where(conversion.rows, schedule.warps_n, schedule.warps_m))


def activation_reads(conversion: Conversion, schedule: DequantSchedule, gpu: Gpu) -> Floats:
    """Bytes of SMEM that a K-step's products read of the activations."""
    tile, mma = conversion.tile, gpu.mma
    columns = tile.n * jnp.where(schedule.cta_pair > 0, 0.5, 1.0)
    blocks = jnp.where(
        conversion.rows, ceil_div_by_reciprocal(tile.m, mma.m), ceil_div_by_reciprocal(tile.n, mma.n_max)
    )
    by_warps = jnp.where(conversion.rows, schedule.warps_m, schedule.warps_n)
    copies = jnp.where(mma.operands_in_smem > 0, blocks, by_warps)
    return tile.k * jnp.where(conversion.rows, columns, tile.m) * conversion.wide_bytes * copies


def converted(
    conversion: Conversion, dequant_slots: Floats, schedule: DequantSchedule, gpu: Gpu
) -> tuple[Demand, Demand]:
    """A K-step's conversion, and what the products read of what it made.

    In registers every warp converts what it multiplies: mma.sync's warps that share weights do it once each. Weights
    that need no conversion are read as a GEMM reads them.
    """
    place, needed = schedule.converted_in, conversion.needed
    copies = weight_copies(conversion, schedule, gpu)
    own = jnp.where(gpu.mma.operands_in_smem > 0, 1.0, copies)
    times = jnp.where(place == IN_REGISTERS, own, 1.0)
    stored = conversion.elements * conversion.stored_bytes
    wide = conversion.elements * conversion.wide_bytes
    smem_bytes = stored * times + jnp.where(place == IN_SMEM, wide, 0.0)
    convert = Demand(
        cuda_flop=jnp.where(needed, SLOT_FLOP * dequant_slots * conversion.elements * times, 0.0),
        smem_bytes=jnp.where(needed, smem_bytes, 0.0),
        tmem_bytes=jnp.where(needed & (place == IN_TMEM), wide, 0.0),
    )
    reads = Demand(
        smem_bytes=jnp.where((place == IN_SMEM) | jnp.logical_not(needed), wide * copies, 0.0),
        tmem_bytes=jnp.where((place == IN_TMEM) & needed, wide * copies, 0.0),
    )
    return convert, reads
