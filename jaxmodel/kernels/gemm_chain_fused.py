"""Both products of a chain in one kernel: the intermediate never leaves the SM.

RECOMPUTED: a CTA owns tile_m x tile_l of E, walks the intermediate's blocks along n, makes each and multiplies it at
once; every column block of E makes the intermediate again. KEPT: a CTA owns whole rows of E, makes whole rows of the
intermediate first and keeps them in shared memory.
"""

from dataclasses import dataclass

import jax.numpy as jnp

from .._exact import ceil_div_by_reciprocal, floor_div
from ..machine import Gpu
from ..occupancy import Footprint, residency
from ..program import Action, Buffer, InOrder, Loop, Needs, TileProgram, load_latency_s, program_cost, store
from ..raster import panel_walk
from ..resources import Demand, total_demand
from ..reuse import l2_hits
from ..sdcm import hit_probability
from ..types import Cost, Floats
from .gemm_chain_shape import ChainShape, chain_shape, fused_checks, fused_footprint, fused_registers
from .gemm_chain_types import IN_SMEM, IN_TMEM, ChainSchedule, GemmChain
from .gemm_traffic import sector_factor

SLOT_FLOP = 2.0  # an instruction slot of a CUDA core, which could have been a fused multiply and add
CONVERSION_SLOTS = 1.0  # of an element of the intermediate, to 16 bits
STORE_SLOTS = 2.0  # of an element of E: scaling, conversion
ACCUMULATOR_BYTES = 4.0
SCHEDULERS = 4.0


@dataclass(frozen=True)
class Requests:
    """What a tile requests of each operand over all its steps, bytes, and the shares that L2 serves.

    Attributes:
        a_bytes, b_bytes, d_bytes: of A once (it may be requested again for every block), B, D.
        a_hit, b_hit, d_hit: of the first requests of A, of all of B's and D's.
        again_hit: of the requests of A after the first.
    """

    a_bytes: Floats
    b_bytes: Floats
    d_bytes: Floats
    a_hit: Floats
    b_hit: Floats
    d_hit: Floats
    again_hit: Floats


def fused_cost(problem: GemmChain, schedule: ChainSchedule, gpu: Gpu, kept: bool) -> Cost:
    """The cost of a fused chain. Equations: docs/fused-gemm.md."""
    return program_cost((kept_program if kept else recomputed_program)(problem, schedule, gpu), gpu)


def slots_at_once(
    problem: GemmChain, shape: ChainShape, schedule: ChainSchedule, gpu: Gpu
) -> tuple[Footprint, Floats, Floats]:
    """(footprint, registers a thread, CTAs at once)."""
    registers = fused_registers(shape, schedule, gpu, problem.element_bytes)
    occupied = fused_footprint(problem, shape, schedule, gpu, registers)
    resident, _ = residency(occupied, gpu)
    return occupied, registers, gpu.sm_count * jnp.maximum(resident, 1.0)


def requests(
    problem: GemmChain, shape: ChainShape, schedule: ChainSchedule, gpu: Gpu, cols: Floats, steps: Floats, slots: Floats
) -> Requests:
    """A tile's requests and their hits in L2, over a grid of shape.rows x cols tiles of `steps` steps."""
    size = problem.element_bytes
    of_k = sector_factor(schedule.tile_k * size, problem.k_align_bytes)
    of_n = sector_factor(schedule.tile_n * size, problem.n_align_bytes)
    a_bytes = problem.m / shape.rows * problem.k * size * of_k
    b_bytes = problem.n * problem.k * size * of_k
    d_bytes = problem.n * problem.l / cols * size * of_n
    out_bytes = problem.m * problem.l / (shape.rows * cols) * problem.out_bytes
    capacity = gpu.l2_capacity_bytes * gpu.l2_effective_ratio
    per_step = 1.0 / steps
    raster = schedule.raster_along_n, schedule.swizzle
    # every tile reads all of B: for the distances of A and D, the columns share it
    walk = panel_walk(shape.rows, cols, *raster, a_bytes * per_step, (d_bytes + b_bytes / cols) * per_step)
    hits = l2_hits(walk, 1.0, slots, steps, out_bytes, capacity, gpu.l2_ways)
    b_hit = shared_hit(gpu, shape.rows * cols, slots, b_bytes, a_bytes + d_bytes / shape.rows, out_bytes, steps)
    touched = size * (problem.m * problem.k + problem.k * problem.n + problem.n * problem.l)
    touched = touched + problem.m * problem.l * problem.out_bytes
    resident = gpu.l2_retention * hit_probability(touched, capacity, gpu.l2_ways)
    in_flight = jnp.minimum(slots, shape.rows) * a_bytes + (b_bytes + cols * d_bytes) / shape.blocks
    return Requests(
        a_bytes=a_bytes,
        b_bytes=b_bytes,
        d_bytes=d_bytes,
        a_hit=jnp.clip(hits.rows + hits.rows_cold * problem.a_warm * resident, 0.0, 1.0),
        b_hit=b_hit,
        d_hit=jnp.clip(hits.cols, 0.0, 1.0),
        again_hit=hit_probability(in_flight, capacity, gpu.l2_ways),
    )


def shared_hit(
    gpu: Gpu, tiles: Floats, slots: Floats, shared_bytes: Floats, own_bytes: Floats, out_bytes: Floats, steps: Floats
) -> Floats:
    """Share of the requests of an operand that every tile walks from end to end: of T tiles the first misses; of the
    others one a wave finds what a whole wave ago was left, the rest what was left in the same step.

    Args:
        shared_bytes: of the operand.
        own_bytes: of what else a tile reads.
        out_bytes: that a tile writes.
    """
    capacity = gpu.l2_capacity_bytes * gpu.l2_effective_ratio
    at_once = jnp.minimum(slots, tiles)
    later = floor_div(tiles - 1.0, at_once)
    in_step = hit_probability(own_bytes / steps, capacity, gpu.l2_ways)
    wave_ago = hit_probability(at_once * (own_bytes + out_bytes) + shared_bytes, capacity, gpu.l2_ways)
    return ((tiles - 1.0 - later) * in_step + later * jnp.minimum(wave_ago, in_step)) / tiles


def fetched(requested_bytes: Floats, hit: Floats) -> Demand:
    """Bytes through port and L2, and the share of them that comes from DDR."""
    return Demand(fabric_bytes=requested_bytes, l2_bytes=requested_bytes, ddr_bytes=requested_bytes * (1.0 - hit))


def first_product(problem: GemmChain, shape: ChainShape, schedule: ChainSchedule, gpu: Gpu) -> Demand:
    """One K-step of the first product: what its products ask, and the writes of its loads to shared memory."""
    size, mma = problem.element_bytes, gpu.mma
    rows, columns = shape.x * shape.z * size, shape.y * shape.z * size
    by_instruction = rows * ceil_div_by_reciprocal(shape.y, mma.n_max)
    by_instruction = by_instruction + columns * ceil_div_by_reciprocal(shape.x, mma.m)
    reads = jnp.where(mma.operands_in_smem > 0, by_instruction, rows + columns * schedule.warps)
    return Demand(
        tensor_flop=2.0 * shape.x * shape.y * shape.z,
        smem_bytes=reads + columns + jnp.where(schedule.a_kept > 0, 0.0, rows),
    )


def activation(problem: GemmChain, shape: ChainShape, schedule: ChainSchedule, gpu: Gpu) -> Demand:
    """f on one block of the intermediate, and its way to where the second product reads it."""
    elements = shape.x * shape.y
    narrow = elements * problem.element_bytes
    from_tmem = jnp.where(gpu.mma.accumulator_in_tmem > 0, elements * ACCUMULATOR_BYTES, 0.0)
    return Demand(
        cuda_flop=SLOT_FLOP * (problem.slots + CONVERSION_SLOTS) * elements,
        sfu_op=problem.sfu_op * elements,
        smem_bytes=jnp.where(schedule.intermediate_in == IN_SMEM, narrow, 0.0),
        tmem_bytes=from_tmem + jnp.where(schedule.intermediate_in == IN_TMEM, narrow, 0.0),
    )


def second_product(problem: GemmChain, shape: ChainShape, schedule: ChainSchedule, gpu: Gpu) -> Demand:
    """One block of the intermediate times its rows of D, and the write of those to shared memory."""
    size, mma, place = problem.element_bytes, gpu.mma, schedule.intermediate_in
    columns, rows = shape.v * shape.y * size, shape.x * shape.y * size
    direct = mma.operands_in_smem > 0
    of_rows = rows * jnp.where(direct, ceil_div_by_reciprocal(shape.v, mma.n_max), 1.0)
    of_columns = columns * jnp.where(direct, ceil_div_by_reciprocal(shape.x, mma.m), schedule.warps)
    return Demand(
        tensor_flop=2.0 * shape.x * shape.y * shape.v,
        smem_bytes=of_columns + columns + jnp.where(place == IN_SMEM, of_rows, 0.0),
        tmem_bytes=jnp.where(place == IN_TMEM, of_rows, 0.0),
    )


def stored(problem: GemmChain, shape: ChainShape, gpu: Gpu, cols: Floats) -> Action:
    """One tile of E, staged through shared memory."""
    elements = shape.x * shape.v
    row_bytes = problem.l / cols * problem.out_bytes
    return store(
        "store",
        problem.m / shape.rows * row_bytes,
        sectors=sector_factor(row_bytes, problem.out_align_bytes),
        cuda_flop=SLOT_FLOP * STORE_SLOTS * elements,
        smem_bytes=2.0 * elements * problem.out_bytes,
        tmem_bytes=jnp.where(gpu.mma.accumulator_in_tmem > 0, elements * ACCUMULATOR_BYTES, 0.0),
    )


def turns_of(schedule: ChainSchedule, gpu: Gpu) -> Floats:
    """Warps of a scheduler take turns, each with blocks of its own; with TMEM one thread issues for all."""
    return jnp.where(gpu.mma.accumulator_in_tmem > 0, 1.0, jnp.maximum(schedule.warps / SCHEDULERS, 1.0))


def recomputed_program(problem: GemmChain, schedule: ChainSchedule, gpu: Gpu) -> TileProgram:
    """Blocks of the intermediate, made for every tile of E; a step is a K-step of the first product and its share of
    everything else."""
    shape = chain_shape(problem, schedule, gpu)
    occupied, registers, slots = slots_at_once(problem, shape, schedule, gpu)
    steps = shape.blocks * shape.depths
    asked = requests(problem, shape, schedule, gpu, shape.cols, steps, slots)
    a_kept = schedule.a_kept > 0
    a_again = jnp.where(a_kept, 0.0, asked.a_bytes * (shape.blocks - 1.0))
    a_first = jnp.where(a_kept, 0.0, asked.a_bytes)
    loads = total_demand(
        fetched(a_first, asked.a_hit),
        fetched(a_again, asked.again_hit),
        fetched(asked.b_bytes, asked.b_hit),
        fetched(asked.d_bytes, asked.d_hit),
    )
    hit = 1.0 - loads.ddr_bytes / loads.fabric_bytes
    share = 1.0 / shape.depths
    sets = schedule.sets * turns_of(schedule, gpu)
    own_rows = total_demand(
        fetched(jnp.where(a_kept, asked.a_bytes, 0.0), asked.a_hit),
        Demand(smem_bytes=jnp.where(a_kept, shape.x * shape.z * shape.depths * problem.element_bytes, 0.0)),
    )
    wait_s = jnp.where(a_kept, load_latency_s(gpu, asked.a_hit), 0.0)
    return TileProgram(
        tiles=shape.rows * shape.cols,
        footprint=occupied,
        registers_per_thread=registers,
        before=(Action("rows", own_rows, latency_s=wait_s),),
        loop=Loop(
            actions=(
                Action("load", loads.times(1.0 / steps), latency_s=load_latency_s(gpu, hit) + gpu.mma_latency_s),
                Action("first", first_product(problem, shape, schedule, gpu), overhead_s=gpu.step_overhead_s),
                Action("activate", activation(problem, shape, schedule, gpu).times(share)),
                Action(
                    "second",
                    second_product(problem, shape, schedule, gpu).times(share),
                    overhead_s=gpu.step_overhead_s * share,
                ),
            ),
            trips=steps,
            arcs=(
                Needs("first", "load"),
                Needs("activate", "first"),
                Needs("second", "activate"),
                Buffer("load", "first", schedule.stages),
                Buffer("first", "second", sets),
            ),
            ahead=jnp.where(a_kept, 0.0, schedule.stages),
        ),
        after=(stored(problem, shape, gpu, shape.cols),),
        checks=fused_checks(problem, shape, schedule, gpu),
        flop=2.0 * problem.m * problem.n * (problem.k + problem.l),
        persistent=schedule.persistent,
    )


def kept_program(problem: GemmChain, schedule: ChainSchedule, gpu: Gpu) -> TileProgram:
    """Whole rows of the intermediate first, then E block by block; a step is a K-step of the second product."""
    shape = chain_shape(problem, schedule, gpu)
    occupied, registers, slots = slots_at_once(problem, shape, schedule, gpu)
    first_steps, steps = shape.blocks * shape.depths, shape.cols * shape.blocks
    asked = requests(problem, shape, schedule, gpu, 1.0, first_steps + steps, slots)
    again = jnp.where(schedule.a_kept > 0, 0.0, asked.a_bytes * (shape.blocks - 1.0))
    loads = total_demand(
        fetched(asked.a_bytes, asked.a_hit), fetched(again, asked.again_hit), fetched(asked.b_bytes, asked.b_hit)
    )
    rows_written = jnp.where(schedule.a_kept > 0, shape.x * shape.z * shape.depths * problem.element_bytes, 0.0)
    made = total_demand(
        loads,
        first_product(problem, shape, schedule, gpu).times(first_steps),
        Demand(smem_bytes=rows_written),
    )
    act = activation(problem, shape, schedule, gpu).times(shape.blocks)
    under = jnp.where(schedule.sets * turns_of(schedule, gpu) > 1, 1.0, 0.0)  # the activation runs under products
    hit = 1.0 - loads.ddr_bytes / loads.fabric_bytes
    out = stored(problem, shape, gpu, shape.cols)
    return TileProgram(
        tiles=shape.rows,
        footprint=occupied,
        registers_per_thread=registers,
        before=(
            Action(
                "first",
                total_demand(made, act.times(under)),
                latency_s=load_latency_s(gpu, hit) + gpu.mma_latency_s,
                overhead_s=gpu.step_overhead_s * first_steps,
            ),
            Action("activate", act.times(1.0 - under)),
        ),
        loop=Loop(
            actions=(
                Action(
                    "load",
                    fetched(asked.d_bytes, asked.d_hit).times(1.0 / steps),
                    latency_s=load_latency_s(gpu, asked.d_hit) + gpu.mma_latency_s,
                ),
                Action("second", second_product(problem, shape, schedule, gpu), overhead_s=gpu.step_overhead_s),
                Action("store", out.demand.times(1.0 / shape.blocks), writes=True),
            ),
            trips=steps,
            arcs=(
                Needs("second", "load"),
                Needs("store", "second"),
                Buffer("load", "second", schedule.stages),
                InOrder("warps", (("second", 0), ("store", 0))),
            ),
            ahead=0.0,
        ),
        checks=fused_checks(problem, shape, schedule, gpu),
        flop=2.0 * problem.m * problem.n * (problem.k + problem.l),
        persistent=schedule.persistent,
    )
