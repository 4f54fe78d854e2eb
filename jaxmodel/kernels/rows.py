"""Memory-bound kernels as one tile program: a CTA streams rows, reduces them, writes them.

Which kernel it is stands in the problem's numbers (`dse/kernels/rows.py` has the table). DDR serves such streams at the
rate of a long copy; nothing else competes, so no pipeline loses time to another.
"""

import dataclasses

import jax.numpy as jnp

from .._exact import ceil_div, floor_div_by_reciprocal
from ..machine import Gpu
from ..occupancy import WARP, Footprint, residency, warp_registers
from ..program import Action, Buffer, InOrder, Loop, Needs, Reduction, TileProgram, load, program_cost, store
from ..reasons import Reason
from ..resources import Demand
from ..sdcm import hit_probability
from ..types import Bools, Cost, Floats
from .rows_types import KEEP_L2, KEEP_REGISTERS, KEEP_SMEM, Rows, RowSchedule

SECTOR_BYTES = 32.0
PARTIAL_BYTES = 4.0  # a partial sum
BASE_REGISTERS = 24.0  # addresses, counters, predicates
SHUFFLE_CLOCKS = 30.0  # a step of a reduction across lanes: a shuffle and the operation that waits for it
BARRIER_CLOCKS = 40.0  # an exchange between warps through shared memory


def cost(problem: Rows, schedule: RowSchedule, gpu: Gpu) -> Cost:
    """The cost of row kernels, as a breakdown; broadcasts over problems x schedules x GPUs.

    Equations: docs/memory-bound.md.
    """
    streams = streaming(gpu)
    return program_cost(program(problem, schedule, streams), streams)


def streaming(gpu: Gpu) -> Gpu:
    """The machine as a stream sees it: DDR reads and writes at a long copy's rate, and hides whatever is faster."""
    given = gpu.ddr_stream_ratio > 0
    ratio = jnp.where(given, gpu.ddr_stream_ratio, 2.0 / (1.0 + gpu.ddr_write_cost))
    rate = gpu.ddr_bytes_per_s * ratio
    return dataclasses.replace(gpu, ddr_bytes_per_s=rate, ddr_write_cost=1.0, overlap_loss=0.0, store_exposure=1.0)


def program(problem: Rows, schedule: RowSchedule, gpu: Gpu) -> TileProgram:
    """The tile program of a row kernel."""
    flat = schedule.steps > 0
    vector = jnp.maximum(schedule.vector_bytes / problem.element_bytes, 1.0)  # elements
    step = schedule.threads * vector * schedule.unroll  # elements
    elements = problem.rows * problem.cols
    part = ceil_div(problem.cols, schedule.splits)  # of a row, elements
    flat_tiles = ceil_div(elements, step * jnp.maximum(schedule.steps, 1.0))
    tiles = jnp.where(flat, flat_tiles, ceil_div(problem.rows, schedule.rows_per_cta) * schedule.splits)
    row_steps = ceil_div(part * schedule.rows_per_cta, step)
    passes = jnp.where(schedule.keep == KEEP_L2, problem.passes, 1.0)
    trips = jnp.where(flat, schedule.steps, row_steps) * passes
    mean = elements * passes / (tiles * trips)  # elements that a step finds
    executed = jnp.minimum(step, jnp.where(flat, step, part * schedule.rows_per_cta))
    rows = problem.rows * schedule.splits / tiles  # rows, or parts of rows, a CTA
    footprint, registers = occupied(problem, schedule, gpu, row_steps)
    resident, _ = residency(footprint, gpu)
    held_back = (problem.reductions > 0) & (schedule.keep < KEEP_L2)  # elements are written once a row is known

    run_bytes = vector * problem.element_bytes * WARP
    shared = problem.shared_bytes / schedule.rows_per_cta
    step_bytes = mean * (problem.read_bytes * sector_factor(run_bytes) + shared) + rows * problem.row_read_bytes / trips
    in_flight = gpu.sm_count * jnp.maximum(resident, 1.0) * mean * trips / passes * problem.read_bytes
    hit = load_hits(problem, gpu, passes, in_flight, mean * shared / step_bytes)
    arithmetic = Demand(
        cuda_flop=executed * (problem.cuda_flop + 2.0 / vector) / passes,
        sfu_op=executed * problem.sfu_op / passes,
        smem_bytes=jnp.where(schedule.keep == KEEP_SMEM, 2.0 * mean * problem.read_bytes, 0.0),
    )
    written = mean * problem.write_bytes / passes
    sectors = sector_factor(jnp.minimum(problem.run_bytes, run_bytes))
    row_bytes = rows * (problem.row_write_bytes + jnp.where(schedule.splits > 1, PARTIAL_BYTES * problem.reductions, 0))
    index_s = jnp.where(problem.indexed > 0, gpu.ddr_latency_s, 0.0)
    return TileProgram(
        tiles=tiles,
        footprint=footprint,
        registers_per_thread=registers,
        before=(Action("index", Demand(), latency_s=index_s),),
        loop=Loop(
            actions=(
                load("load", gpu, step_bytes, hit),
                Action("compute", arithmetic),
                store("store", jnp.where(held_back, 0.0, written), sectors),
            ),
            trips=trips,
            arcs=(
                Needs("compute", "load"),
                Needs("store", "compute"),
                Buffer("load", "compute", schedule.stages),
                InOrder("warps", (("compute", 0), ("store", 0))),
            ),
            ahead=schedule.stages,
        ),
        after=(
            Action("reduce", Demand(), latency_s=reduction_seconds(problem, schedule, gpu)),
            store("write", jnp.where(held_back, written * trips, 0.0) + row_bytes, sectors),
        ),
        checks=checks(problem, schedule, row_steps),
        flop=elements * problem.cuda_flop,
        persistent=schedule.persistent,
        reduction=added_up(problem, schedule, gpu),
    )


def sector_factor(run_bytes: Floats) -> Floats:
    """Bytes moved over wanted bytes of runs of that length: memory moves sectors."""
    return jnp.maximum(run_bytes, SECTOR_BYTES) / run_bytes


def load_hits(problem: Rows, gpu: Gpu, passes: Floats, in_flight_bytes: Floats, shared_share: Floats) -> Floats:
    """Share of a step's bytes that L2 serves: what was warm, what another pass has just read, what all rows share."""
    capacity = gpu.l2_capacity_bytes * gpu.l2_effective_ratio
    elements = problem.rows * problem.cols
    whole = elements * (problem.read_bytes + problem.write_bytes)
    first = problem.warm * gpu.l2_retention * hit_probability(whole, capacity, gpu.l2_ways)
    again = hit_probability(in_flight_bytes, capacity, gpu.l2_ways)
    own = (first + (passes - 1.0) * jnp.maximum(again, first)) / passes
    return own + (1.0 - own) * shared_share


def occupied(problem: Rows, schedule: RowSchedule, gpu: Gpu, row_steps: Floats) -> tuple[Footprint, Floats]:
    """What a CTA occupies, and the registers of a thread: vectors in flight, and a row that is kept, in float32."""
    in_flight = schedule.stages * schedule.unroll * schedule.vector_bytes * problem.read_bytes / problem.element_bytes
    vector = jnp.maximum(schedule.vector_bytes / problem.element_bytes, 1.0)
    keeps = (problem.reductions > 0) & (problem.passes > 1)
    kept = row_steps * schedule.unroll * vector
    kept = jnp.where(keeps & (schedule.keep == KEEP_REGISTERS), kept, 0.0)
    registers = BASE_REGISTERS + in_flight / 4.0 + kept
    warps = jnp.ceil(schedule.threads / WARP)
    row_bytes = problem.cols * schedule.rows_per_cta * problem.read_bytes
    scratch = jnp.where(problem.reductions > 0, warps * PARTIAL_BYTES * problem.reductions, 0.0)
    footprint = Footprint(
        smem_bytes=scratch + jnp.where(keeps & (schedule.keep == KEEP_SMEM), row_bytes, 0.0),
        threads=schedule.threads,
        registers=warps * warp_registers(registers, gpu),
        tmem_columns=0.0,
    )
    return footprint, registers


def reduction_seconds(problem: Rows, schedule: RowSchedule, gpu: Gpu) -> Floats:
    """Latency of a row's reductions across its threads: shuffles within warps, one exchange between warps."""
    threads = jnp.maximum(schedule.threads / schedule.rows_per_cta, 1.0)
    lanes, warps = jnp.minimum(threads, WARP), jnp.maximum(threads / WARP, 1.0)
    shuffles = jnp.ceil(jnp.log2(lanes)) + jnp.ceil(jnp.log2(warps))
    clocks = SHUFFLE_CLOCKS * shuffles + jnp.where(warps > 1, BARRIER_CLOCKS, 0.0)
    return problem.reductions * clocks / gpu.clock_hz


def added_up(problem: Rows, schedule: RowSchedule, gpu: Gpu) -> Reduction:
    """The kernel that adds up the parts of split rows."""
    split = schedule.splits > 1
    workspace = problem.rows * schedule.splits * PARTIAL_BYTES * problem.reductions
    seconds = gpu.dependent_launch_s + gpu.l2_latency_s + 2.0 * workspace / gpu.l2_bytes_per_s
    return Reduction(
        seconds=jnp.where(split, seconds, 0.0),
        workspace_bytes=jnp.where(split, workspace, 0.0),
    )


def checks(problem: Rows, schedule: RowSchedule, row_steps: Floats) -> list[tuple[Bools, Reason]]:
    """Why a row kernel cannot run as the schedule says, beside what any CTA may not exceed."""
    row_bytes = problem.cols * problem.element_bytes
    unaligned = row_bytes - floor_div_by_reciprocal(row_bytes, schedule.vector_bytes) * schedule.vector_bytes > 0
    needs_whole_rows = (problem.reductions > 0) & (
        (schedule.steps > 0) | ((schedule.splits > 1) & (problem.passes > 1))
    )
    too_many = (schedule.rows_per_cta > schedule.threads) | (schedule.splits > problem.cols)
    return [
        (unaligned, Reason.VECTOR),
        (needs_whole_rows | too_many, Reason.ROW_PARTS),
    ]
