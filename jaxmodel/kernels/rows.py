"""Memory-bound kernels as one tile program: a CTA streams rows, reduces them, writes them.

Which kernel it is stands in the problem's numbers (`dse/kernels/rows.py` has the table). DDR serves such streams at the
rate of a long copy; nothing else competes, so no pipeline loses time to another. Equations: docs/memory-bound.md.
"""

import dataclasses
from typing import NamedTuple

import jax.numpy as jnp

from .._exact import ceil_div, floor_div, floor_div_by_reciprocal
from ..bound import what_binds
from ..machine import Gpu
from ..occupancy import WARP, Footprint, residency, warp_registers
from ..program import Action, Buffer, Loop, Needs, Reduction, TileProgram, load, load_latency_s, program_cost, store
from ..reasons import Reason
from ..resources import Demand
from ..sdcm import hit_probability
from ..types import BOUNDS, Bools, Cost, Floats
from .rows_types import KEEP_L2, KEEP_REGISTERS, KEEP_SMEM, Rows, RowSchedule

EPILOGUE = float(BOUNDS.index("epilogue"))
SECTOR_BYTES = 32.0
PARTIAL_BYTES = 4.0  # a partial sum
LANE_BYTES = 4.0  # of a warp's 128 bytes a clock that an access of one lane takes at least
BASE_REGISTERS = 24.0  # addresses, counters, predicates
ADDRESS_SLOTS = 2.0  # instructions beside a vector's accesses: its address, its bound
SHUFFLE_CLOCKS = 30.0  # a step of a reduction across lanes: a shuffle and the operation that waits for it
BARRIER_CLOCKS = 40.0  # an exchange between warps through shared memory


def cost(problem: Rows, schedule: RowSchedule, gpu: Gpu) -> Cost:
    """The cost of row kernels, as a breakdown; broadcasts over problems x schedules x GPUs."""
    streams = streaming(gpu)
    found = program_cost(program(problem, schedule, streams), streams)
    busiest = what_binds(found.pipeline_s, found.latency_s, 0.0, 0.0, False)  # writing is half of the work, no epilogue
    return dataclasses.replace(found, bound=jnp.where(found.bound == EPILOGUE, busiest, found.bound))


def streaming(gpu: Gpu) -> Gpu:
    """The machine as a stream sees it: DDR reads and writes at a long copy's rate, and hides whatever is faster."""
    given = gpu.ddr_stream_ratio > 0
    ratio = jnp.where(given, gpu.ddr_stream_ratio, 2.0 / (1.0 + gpu.ddr_write_cost))
    rate = gpu.ddr_bytes_per_s * ratio
    return dataclasses.replace(gpu, ddr_bytes_per_s=rate, ddr_write_cost=1.0, overlap_loss=0.0, store_exposure=1.0)


class Cut(NamedTuple):
    """How elements are dealt to CTAs, threads and steps."""

    vector: Floats  # elements
    row_vectors: Floats  # of a whole row
    part_vectors: Floats  # of a row that one CTA has, the last one perhaps fewer
    row_steps: Floats  # that a CTA takes through its rows once
    tiles: Floats  # CTAs' worth of work
    passes: Floats  # over the elements by this schedule
    trips: Floats  # steps of a CTA, all passes
    mean: Floats  # elements that a step finds
    executed: Floats  # elements that a step has lanes for: whole warps
    rows: Floats  # rows, or parts of rows, of a CTA


def program(problem: Rows, schedule: RowSchedule, gpu: Gpu) -> TileProgram:
    """The tile program of a row kernel."""
    at = cut(problem, schedule)
    footprint, registers = occupied(problem, schedule, gpu, at)
    resident, _ = residency(footprint, gpu)
    held_back = whole_rows(problem) & (schedule.keep < KEEP_L2)  # elements are written once a row is known
    written = at.mean * problem.write_bytes / at.passes
    sectors = sector_factor(jnp.minimum(problem.run_bytes, at.vector * problem.write_bytes * WARP))
    a_row = jnp.where(
        joined(problem, schedule), PARTIAL_BYTES * problem.reductions, problem.row_write_bytes / schedule.splits
    )
    return TileProgram(
        tiles=at.tiles,
        footprint=footprint,
        registers_per_thread=registers,
        before=(Action("lookup", Demand(), latency_s=problem.lookups * gpu.ddr_latency_s),),
        loop=Loop(
            actions=(
                loaded(problem, schedule, gpu, at, jnp.maximum(resident, 1.0)),
                Action("compute", arithmetic(problem, schedule, at)),
                Action("reduce", Demand(), latency_s=reduction_seconds(problem, schedule, gpu)),
                store("store", jnp.where(held_back, 0.0, written), sectors),
            ),
            trips=at.trips,
            arcs=(
                Needs("compute", "load"),
                Needs("reduce", "compute"),
                Needs("store", "reduce"),
                Buffer("load", "compute", schedule.stages),
            ),
            ahead=schedule.stages,
        ),
        after=(
            store("write", jnp.where(held_back, written * at.trips, 0.0), sectors),
            store("write_rows", at.rows * a_row),
        ),
        checks=checks(problem, schedule, at),
        flop=problem.rows * problem.cols * problem.cuda_flop,
        persistent=schedule.persistent,
        helpers_s=first_pass_seconds(problem, gpu),
        reduction=added_up(problem, schedule, gpu),
    )


def whole_rows(problem: Rows) -> Bools:
    """Where elements can be written only once their whole row has been reduced."""
    return problem.passes > 1


def joined(problem: Rows, schedule: RowSchedule) -> Bools:
    """Where the CTAs that share a row leave parts of its sums, for a second kernel to add up."""
    return (schedule.splits > 1) & (problem.reductions > 0) & (problem.group_cols == 0)


def cut(problem: Rows, schedule: RowSchedule) -> Cut:
    """Counts of the grid and of a CTA's loop."""
    flat = schedule.steps > 0
    vector = jnp.maximum(schedule.vector_bytes / problem.element_bytes, 1.0)
    at_once = schedule.cta_threads * schedule.unroll  # vectors of a step
    step = at_once * vector
    elements = problem.rows * problem.cols
    row_vectors = ceil_div(problem.cols, vector)
    part_vectors = ceil_div(row_vectors, schedule.splits)
    row_steps = ceil_div(part_vectors * schedule.rows_per_cta, at_once)
    row_tiles = ceil_div(problem.rows, schedule.rows_per_cta) * schedule.splits
    tiles = jnp.where(flat, ceil_div(elements, step * jnp.maximum(schedule.steps, 1.0)), row_tiles)
    passes = jnp.where(schedule.keep == KEEP_L2, problem.passes, 1.0)
    trips = jnp.where(flat, schedule.steps, row_steps) * passes
    lanes = jnp.minimum(schedule.cta_threads / schedule.rows_per_cta, WARP)
    row_lanes = schedule.rows_per_cta * ceil_div(part_vectors, jnp.maximum(lanes, 1.0)) * lanes
    return Cut(
        vector=vector,
        row_vectors=row_vectors,
        part_vectors=part_vectors,
        row_steps=row_steps,
        tiles=tiles,
        passes=passes,
        trips=trips,
        mean=elements * passes / (tiles * trips),
        executed=jnp.where(flat, step, row_lanes * vector / row_steps),
        rows=jnp.where(flat, problem.rows, problem.rows * schedule.splits) / tiles,
    )


def loaded(problem: Rows, schedule: RowSchedule, gpu: Gpu, at: Cut, resident: Floats) -> Action:
    """A step's loads: its elements, its part of what all rows share, and what a row needs beside its elements."""
    own = at.mean * problem.read_bytes
    shared = at.mean * problem.shared_bytes / (schedule.rows_per_cta * at.passes)
    beside = at.rows * problem.row_read_bytes / at.trips
    steps = at.tiles * at.trips  # of the whole launch
    elements = problem.rows * problem.cols
    capacity = gpu.l2_capacity_bytes * gpu.l2_effective_ratio
    read = elements * problem.read_bytes
    whole = read + elements * problem.write_bytes
    warm = problem.warm * gpu.l2_retention * hit_probability(whole, capacity, gpu.l2_ways)
    warm = jnp.maximum(warm, problem.first_pass * hit_probability(read, capacity, gpu.l2_ways))
    in_flight = read * jnp.minimum(gpu.sm_count * resident / at.tiles, 1.0)
    again = jnp.maximum(hit_probability(in_flight, capacity, gpu.l2_ways), warm)
    held = (warm + (at.passes - 1.0) * again) / at.passes  # of a row's own elements
    first = jnp.minimum(problem.cols * problem.shared_bytes / steps, shared)
    once = jnp.minimum(problem.rows * problem.row_read_bytes / steps, beside)
    requested = own + shared + beside
    missed = own * (1.0 - held) + first + once
    loads = load("load", gpu, requested, jnp.clip(1.0 - missed / requested, 0.0, 1.0))
    return dataclasses.replace(loads, latency_s=load_latency_s(gpu, held))  # a step waits for its slowest load


def arithmetic(problem: Rows, schedule: RowSchedule, at: Cut) -> Demand:
    """What a step asks of the SM: a kernel's operations, and the issue and data path of its loads and stores."""
    vectors = at.executed / at.vector
    inputs = problem.read_bytes / problem.element_bytes
    stores = jnp.where(problem.write_bytes > 0, 1.0 / at.passes, 0.0)
    lane_bytes = jnp.maximum(schedule.vector_bytes, LANE_BYTES)
    out_bytes = jnp.maximum(at.vector * problem.write_bytes, LANE_BYTES)
    kept = jnp.where(whole_rows(problem) & (schedule.keep == KEEP_SMEM), 2.0 * at.executed * problem.element_bytes, 0.0)
    return Demand(
        cuda_flop=at.executed * problem.cuda_flop / at.passes + 2.0 * vectors * (inputs + stores + ADDRESS_SLOTS),
        sfu_op=at.executed * problem.sfu_op / at.passes,
        smem_bytes=vectors * (inputs * lane_bytes + stores * out_bytes) + kept,
    )


def sector_factor(run_bytes: Floats) -> Floats:
    """Bytes moved over wanted bytes of runs of that length: memory moves sectors."""
    return jnp.maximum(SECTOR_BYTES / jnp.maximum(run_bytes, 1.0), 1.0)


def occupied(problem: Rows, schedule: RowSchedule, gpu: Gpu, at: Cut) -> tuple[Footprint, Floats]:
    """What a CTA occupies, and the registers of a thread: vectors in flight, and a row that is kept, in float32."""
    in_flight = schedule.stages * schedule.unroll * schedule.vector_bytes * problem.read_bytes / problem.element_bytes
    keeps = whole_rows(problem)
    kept = jnp.where(keeps & (schedule.keep == KEEP_REGISTERS), at.row_steps * schedule.unroll * at.vector, 0.0)
    registers = jnp.ceil(BASE_REGISTERS + in_flight / 4.0 + kept)
    warps = jnp.ceil(schedule.cta_threads / WARP)
    row_bytes = problem.cols * schedule.rows_per_cta * problem.element_bytes
    footprint = Footprint(
        smem_bytes=warps * PARTIAL_BYTES * jnp.maximum(problem.reductions, 1.0)
        + jnp.where(keeps & (schedule.keep == KEEP_SMEM), row_bytes, 0.0),
        threads=schedule.cta_threads,
        registers=warps * warp_registers(registers, gpu),
        tmem_columns=0.0,
    )
    return footprint, registers


def reduction_seconds(problem: Rows, schedule: RowSchedule, gpu: Gpu) -> Floats:
    """Latency of the reductions across the threads of a row or group: shuffles, and one exchange between warps."""
    vector = jnp.maximum(schedule.vector_bytes / problem.element_bytes, 1.0)
    threads = schedule.cta_threads / schedule.rows_per_cta
    threads = jnp.where(problem.group_cols > 0, jnp.minimum(problem.group_cols / vector, schedule.cta_threads), threads)
    warps = threads / WARP
    clocks = SHUFFLE_CLOCKS * (halvings(threads) + halvings(warps)) + jnp.where(warps > 1, BARRIER_CLOCKS, 0.0)
    return problem.reductions * clocks / gpu.clock_hz


def halvings(count: Floats) -> Floats:
    """Steps in which up to 32 values become one, each of half as many as the one before; more than 32 count as 32."""
    return sum(jnp.where(count > 2.0**step, 1.0, 0.0) for step in range(5))


def first_pass_seconds(problem: Rows, gpu: Gpu) -> Floats:
    """The kernel that reads everything once before this one."""
    read = problem.rows * problem.cols * problem.read_bytes
    capacity = gpu.l2_capacity_bytes * gpu.l2_effective_ratio
    missed = 1.0 - problem.warm * gpu.l2_retention * hit_probability(read, capacity, gpu.l2_ways)
    moved_s = jnp.maximum(read / gpu.l2_bytes_per_s, read * missed / gpu.ddr_bytes_per_s)
    return problem.first_pass * (gpu.dependent_launch_s + gpu.cta_launch_s + gpu.ddr_latency_s + moved_s)


def added_up(problem: Rows, schedule: RowSchedule, gpu: Gpu) -> Reduction:
    """The kernel that adds up the parts of split rows."""
    split = joined(problem, schedule)
    workspace = problem.rows * schedule.splits * PARTIAL_BYTES * problem.reductions
    results = problem.rows * problem.row_write_bytes
    seconds = gpu.dependent_launch_s + gpu.l2_latency_s + (workspace + results) / gpu.l2_bytes_per_s
    return Reduction(
        seconds=jnp.where(split, seconds, 0.0),
        workspace_bytes=jnp.where(split, workspace, 0.0),
        write_bytes=jnp.where(split, results, 0.0),
    )


def checks(problem: Rows, schedule: RowSchedule, at: Cut) -> list[tuple[Bools, Reason]]:
    """Why a row kernel cannot run as the schedule says, beside what any CTA may not exceed."""
    flat = schedule.steps > 0
    row_bytes = problem.cols * problem.element_bytes
    unaligned = row_bytes - floor_div(row_bytes, schedule.vector_bytes) * schedule.vector_bytes > 0
    rowwise = (problem.reductions > 0) & (problem.group_cols == 0)
    apart = (rowwise & flat) | (whole_rows(problem) & (schedule.splits > 1))
    empty = ceil_div(at.row_vectors, at.part_vectors) < schedule.splits
    crowded = schedule.rows_per_cta > jnp.minimum(schedule.cta_threads, problem.rows)
    return [
        (schedule.vector_bytes < problem.element_bytes, Reason.VECTOR),
        (unaligned & ~flat, Reason.VECTOR),
        (apart | empty | crowded | straddles(schedule), Reason.ROW_PARTS),
        ((schedule.keep > KEEP_REGISTERS) & ~whole_rows(problem), Reason.NOTHING_KEPT),
    ]


def straddles(schedule: RowSchedule) -> Bools:
    """Where a warp's lanes would belong to rows in unequal parts."""
    lanes, rows = schedule.cta_threads, schedule.rows_per_cta
    each = floor_div_by_reciprocal(lanes, rows)
    in_warps = floor_div_by_reciprocal(each, WARP) * WARP == each
    in_a_warp = floor_div_by_reciprocal(WARP, jnp.maximum(each, 1.0)) * each == WARP
    return (each * rows != lanes) | ~(in_warps | in_a_warp)
