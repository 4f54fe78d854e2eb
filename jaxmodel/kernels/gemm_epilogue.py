"""GEMM with a fused epilogue: what a kernel of its own would do to the results is done before they are written."""

import dataclasses

import jax.numpy as jnp

from .._exact import ceil_div, floor_div_by_reciprocal
from ..machine import Gpu
from ..occupancy import residency
from ..program import Action, TileProgram, load_latency_s, program_cost
from ..reasons import Reason
from ..resources import Demand
from ..types import EPILOGUE_OVERLAPPED, Cost, GemmSchedule
from .gemm import grid, oriented
from .gemm_epilogue_types import GemmEpilogue
from .gemm_footprint import executed_tile, footprint, instruction_checks, registers_per_thread
from .gemm_program import Added, gemm_tile_program, multiplied, written
from .gemm_scaling import quantise_seconds
from .gemm_traffic import operand_traffic

SLOT_FLOP = 2.0  # an instruction slot of a CUDA core, which could have been a fused multiply and add


def cost(problem: GemmEpilogue, schedule: GemmSchedule, gpu: Gpu) -> Cost:
    """The cost of GEMMs with a fused epilogue, as a breakdown; broadcasts over problems x schedules x GPUs.

    Equations: docs/fused-gemm.md.
    """
    return program_cost(program(problem, schedule, gpu), gpu)


def program(problem: GemmEpilogue, schedule: GemmSchedule, gpu: Gpu) -> TileProgram:
    """The tile program of a GEMM with a fused epilogue."""
    gemm = oriented(problem.gemm, schedule.swap_ab)
    occupied = footprint(gemm, schedule, gpu)
    resident, _ = residency(occupied, gpu)
    cut = grid(gemm, schedule, resident, gpu)
    traffic = operand_traffic(gemm, schedule, gpu, cut.rows, cut.cols, cut.sms, cut.slots)
    actions, arcs = multiplied(gemm, schedule, gpu, traffic)

    split = schedule.split_k > 1
    tile = executed_tile(gemm, schedule, gpu)
    here = jnp.where(split, 0.0, 1.0)  # else the kernel that adds up the partial tiles does it
    mean = gemm.m * gemm.n / (cut.rows * cut.cols)
    swapped = schedule.swap_ab > 0
    columns = jnp.where(swapped, gemm.m / cut.rows, gemm.n / cut.cols)  # of the output, a tile
    across = jnp.where(swapped, cut.cols, cut.rows)  # tiles that share a column's bias
    bias = columns * problem.column_bytes * here
    residual = mean * problem.read_bytes * here
    reads = Demand(fabric_bytes=residual + bias, l2_bytes=residual + bias, ddr_bytes=residual + bias / across)
    prefetched = schedule.epilogue >= EPILOGUE_OVERLAPPED
    waits = jnp.logical_not(prefetched) & (residual + bias > 0)

    store = written(gemm, schedule, gpu, cut, traffic)
    scales = mean * problem.scale_bytes * here
    elements = tile.m * tile.n * here
    demand = dataclasses.replace(
        store.demand,
        cuda_flop=store.demand.cuda_flop + SLOT_FLOP * problem.slots * elements,
        sfu_op=problem.sfu_op * elements,
        fabric_bytes=store.demand.fabric_bytes + scales,
        l2_bytes=store.demand.l2_bytes + scales,
        ddr_bytes=store.demand.ddr_bytes + scales,
    )
    outputs = gemm.m * gemm.n * gemm.batch
    side = jnp.where(swapped, schedule.tile_m, schedule.tile_n)  # along a row of the output
    row = jnp.where(swapped, gemm.m, gemm.n)
    whole = ceil_div(row, problem.scale_block) * problem.scale_block
    parts = side - floor_div_by_reciprocal(side, problem.scale_block) * problem.scale_block
    cuts_blocks = (parts > 0) & (side < whole)
    made = gemm_tile_program(
        gemm,
        schedule,
        gpu,
        cut,
        traffic,
        occupied,
        registers_per_thread(gemm, schedule, gpu),
        actions=actions,
        arcs=arcs,
        after=(
            Action("read", reads, latency_s=jnp.where(waits, load_latency_s(gpu, 0.0), 0.0)),
            dataclasses.replace(store, demand=demand),
        ),
        checks=[*instruction_checks(gemm, schedule, gpu), (cuts_blocks & jnp.logical_not(split), Reason.SCALE_BLOCK)],
        added=Added(
            read_bytes=outputs * problem.read_bytes + row * gemm.batch * problem.column_bytes,
            write_bytes=outputs * problem.scale_bytes,
            cuda_flop=outputs * SLOT_FLOP * problem.slots,
        ),
    )
    return dataclasses.replace(made, helpers_s=quantise_seconds(problem.gemm, gpu))
