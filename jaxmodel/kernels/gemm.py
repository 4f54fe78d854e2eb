"""GEMM and batched GEMM: the tile program as demands, footprints and reuse, costed by the model's rooms.

One CTA computes a tile_m x tile_n tile of one batch entry over tile_k-deep K-steps. Times count what the hardware
executes (tiles and instructions rounded up), bytes count what is fetched (partial tiles are partial).
"""

import dataclasses

import jax.numpy as jnp

from .._exact import ceil_div, ceil_div_by_reciprocal, floor_div, floor_div_by_reciprocal
from .._pytree import pytree
from ..bound import STARVED, what_binds
from ..energy import dynamic_joules, power_limited
from ..envelope import shared_pace
from ..machine import Gpu
from ..occupancy import cluster_sms, residency
from ..reasons import Reason, first_reason
from ..resources import Demand, busy_seconds, chip_seconds
from ..types import (
    EPILOGUE_DIRECT,
    EPILOGUE_OVERLAPPED,
    PIPELINES,
    Array,
    Bools,
    Cost,
    Floats,
    Gemm,
    GemmSchedule,
)
from ..waves import KernelTimes, TileTimes, WaveTimes, kernel_times, wave_times
from .gemm_footprint import executed_tile, footprint, footprint_checks, registers_per_thread, same_order
from .gemm_scaling import promotion_flop, quantise_seconds, scale_bytes
from .gemm_traffic import (
    ACCUMULATOR_BYTES,
    SECTOR_BYTES,
    Traffic,
    operand_traffic,
    partial_tiles,
    sector_factor,
)

TILES_EXACT = 2.0**24  # whole numbers that float32 holds exactly
FRAGMENT_ELEMENTS = 8.0  # neighbours in a row of an MMA fragment: four threads hold two each (PTX ISA, mma.m16n8)


@pytree
class Grid:
    """How the problem is cut: counts of tiles, K-steps, slots and waves."""

    rows: Array  # tiles along m, rounded up to whole clusters
    cols: Array
    k_steps: Array  # of one tile (of one split)
    tiles: Array  # of the launch: rows x cols x batch x splits
    resident: Array  # CTAs an SM
    sms: Array  # SMs the launch may use
    slots: Array  # CTAs at once


def oriented(problem: Gemm, swap_ab: Floats) -> Gemm:
    """The product as the tiles see it: with `swap_ab` out^T = B^T A^T, so m and n, A and B change places."""

    def pick(straight: Floats, swapped: Floats) -> Floats:
        return jnp.where(swap_ab > 0, swapped, straight)

    scaling = problem.scaling
    if scaling is not None:
        a_scale_bytes, b_scale_bytes = scaling.a_scale_bytes, scaling.b_scale_bytes
        scaling = dataclasses.replace(
            scaling,
            a_scale_bytes=pick(a_scale_bytes, b_scale_bytes),
            b_scale_bytes=pick(b_scale_bytes, a_scale_bytes),
        )
    return dataclasses.replace(
        problem,
        scaling=scaling,
        m=pick(problem.m, problem.n),
        n=pick(problem.n, problem.m),
        a_bytes=pick(problem.a_bytes, problem.b_bytes),
        b_bytes=pick(problem.b_bytes, problem.a_bytes),
        a_k_major=pick(problem.a_k_major, problem.b_k_major),
        b_k_major=pick(problem.b_k_major, problem.a_k_major),
        a_align_bytes=pick(problem.a_align_bytes, problem.b_align_bytes),
        b_align_bytes=pick(problem.b_align_bytes, problem.a_align_bytes),
        a_warm=pick(problem.a_warm, problem.b_warm),
        b_warm=pick(problem.b_warm, problem.a_warm),
    )


def grid(problem: Gemm, schedule: GemmSchedule, resident: Floats, gpu: Gpu) -> Grid:
    """Counts of tiles, K-steps and slots; `resident` of 0 is treated as 1 (the caller gives the reason)."""
    cluster = schedule.cluster_m * schedule.cluster_n
    rows = ceil_div(ceil_div(problem.m, schedule.tile_m), schedule.cluster_m) * schedule.cluster_m
    cols = ceil_div(ceil_div(problem.n, schedule.tile_n), schedule.cluster_n) * schedule.cluster_n
    k_steps = ceil_div(ceil_div(problem.k, schedule.tile_k), schedule.split_k)
    resident = jnp.maximum(resident, 1.0)
    placeable = jnp.maximum(cluster_sms(cluster, gpu), 1.0)
    allowed = jnp.maximum(jnp.minimum(placeable, gpu.sm_count - schedule.sms_free), cluster)
    sms = floor_div_by_reciprocal(allowed, cluster) * cluster
    return Grid(
        rows=rows,
        cols=cols,
        k_steps=k_steps,
        tiles=rows * cols * problem.batch * schedule.split_k,
        resident=resident,
        sms=sms,
        slots=sms * resident,
    )


def loop_demand(problem: Gemm, schedule: GemmSchedule, gpu: Gpu, traffic: Traffic) -> Demand:
    """What one K-step of one CTA asks of the pipelines."""
    mma = gpu.mma
    tile = executed_tile(problem, schedule, gpu)
    pair_share = jnp.where(schedule.cta_pair > 0, 0.5, 1.0)  # each CTA of a pair holds half of the columns operand
    a_tile = tile.m * tile.k * problem.a_bytes
    b_tile = tile.n * pair_share * tile.k * problem.b_bytes
    column_blocks, row_blocks = ceil_div_by_reciprocal(tile.n, mma.n_max), ceil_div_by_reciprocal(tile.m, mma.m)
    direct_reads = a_tile * column_blocks + b_tile * row_blocks
    warp_reads = a_tile * schedule.warps_n + b_tile * schedule.warps_m
    reads = jnp.where(mma.operands_in_smem > 0, direct_reads, warp_reads)
    a_scale_bytes, b_scale_bytes = scale_bytes(problem)
    scales = tile.k * (tile.m * a_scale_bytes + tile.n * pair_share * b_scale_bytes)
    return Demand(
        tensor_flop=2.0 * tile.m * tile.n * tile.k,
        cuda_flop=promotion_flop(problem, gpu, tile.m * tile.n * tile.k),
        smem_bytes=a_tile + b_tile + reads + 2.0 * scales,
        fabric_bytes=traffic.step_bytes,
        l2_bytes=traffic.step_bytes * (1.0 - traffic.l15_hit),
        ddr_bytes=traffic.step_bytes * (1.0 - traffic.l2_hit),
    )


def store_demand(problem: Gemm, schedule: GemmSchedule, gpu: Gpu, cut: Grid, traffic: Traffic) -> Demand:
    """What one CTA's epilogue asks of the pipelines. With split-K a partial tile goes to the workspace instead."""
    split = schedule.split_k > 1
    mean_elements = problem.m * problem.n / (cut.rows * cut.cols)
    executed = executed_tile(problem, schedule, gpu)
    elements = executed.m * executed.n
    out_bytes = jnp.where(split, ACCUMULATOR_BYTES, problem.out_bytes)
    c_in_bytes = jnp.where(split, 0.0, problem.c_in_bytes)
    staged = schedule.epilogue > EPILOGUE_DIRECT
    fragment_bytes = FRAGMENT_ELEMENTS * out_bytes  # a direct store fills part of each sector
    row = jnp.where(schedule.swap_ab > 0, schedule.tile_m, schedule.tile_n)  # of the output in memory
    staged_sectors = sector_factor(row * out_bytes, problem.out_align_bytes)
    sectors = jnp.where(staged, staged_sectors, SECTOR_BYTES / jnp.minimum(fragment_bytes, SECTOR_BYTES))
    written = mean_elements * out_bytes
    read = mean_elements * c_in_bytes
    spilled = jnp.where(split, traffic.workspace_miss, 1.0)  # of the partial tiles only what L2 cannot hold leaves it
    return Demand(
        cuda_flop=elements * 2.0 * jnp.where(split, 1.0, jnp.where(problem.c_in_bytes > 0, 3.0, 2.0)),
        tmem_bytes=jnp.where(gpu.mma.accumulator_in_tmem > 0, elements * ACCUMULATOR_BYTES, 0.0),
        smem_bytes=jnp.where(staged, 2.0 * elements * out_bytes, 0.0),
        fabric_bytes=written * sectors + read,
        l2_bytes=written * sectors + read,
        ddr_bytes=written * spilled * gpu.ddr_write_cost + read,
    )


def tile_times(loop: Demand, store: Demand, cut: Grid, latency_s: Floats, gpu: Gpu, active_sms: Floats) -> TileTimes:
    """One tile's times while `active_sms` SMs are at work."""
    names = dict(zip(PIPELINES, busy_seconds(loop, gpu, active_sms), strict=True))
    stored = dict(zip(PIPELINES, busy_seconds(store, gpu, active_sms), strict=True))
    loss = gpu.overlap_loss
    tensor_s = names["tensor"] + gpu.step_overhead_s
    load_s = jnp.maximum(names["l15"], names["net"])
    load_s = shared_pace(shared_pace(load_s, names["l2"], loss), names["ddr"], loss)
    engine_s = jnp.maximum(cut.k_steps * tensor_s, cut.k_steps * names["smem"] + stored["smem"])
    for name in ("cuda", "tmem", "l15", "net"):
        engine_s = jnp.maximum(engine_s, cut.k_steps * names[name] + stored[name])
    for name in ("l2", "ddr"):
        engine_s = shared_pace(engine_s, cut.k_steps * names[name] + stored[name], loss)
    store_s = jnp.maximum(jnp.maximum(stored["cuda"], stored["tmem"]), jnp.maximum(stored["smem"], stored["l15"]))
    written_s = shared_pace(stored["l2"], gpu.store_exposure * stored["ddr"], loss)
    return TileTimes(
        load_s=load_s,
        latency_s=latency_s,
        compute_s=jnp.maximum(tensor_s, jnp.maximum(names["smem"], names["cuda"])),
        store_s=jnp.maximum(store_s, written_s),
        launch_s=gpu.cta_launch_s,
        engine_s=engine_s,
        loss=loss,
    )


def reduction_seconds(
    problem: Gemm, schedule: GemmSchedule, cut: Grid, traffic: Traffic, shared: Floats, gpu: Gpu
) -> tuple[Floats, Floats]:
    """What split-K's reduction and stream-K's fix-up add, and the workspace they need.

    Split-K: a dependent kernel reads the partial tiles and writes the output. Stream-K: a tile whose K-steps several
    slots share is finished by one of them, which takes its peers' partial tiles one after the other through its port.

    Returns:
        (seconds, workspace bytes).
    """
    outputs = problem.m * problem.n * problem.batch
    out_bytes = outputs * problem.out_bytes
    workspace = outputs * schedule.split_k * ACCUMULATOR_BYTES
    l2_s = (workspace + out_bytes) / gpu.l2_bytes_per_s
    ddr_s = (workspace * traffic.workspace_miss + out_bytes * gpu.ddr_write_cost) / gpu.ddr_bytes_per_s
    split_s = gpu.dependent_launch_s + jnp.maximum(l2_s, ddr_s)
    partial_bytes = schedule.tile_m * schedule.tile_n * ACCUMULATOR_BYTES
    fixup_workspace = partial_tiles(cut.tiles, cut.slots) * partial_bytes
    peers = jnp.maximum(ceil_div(cut.slots, cut.tiles) - 1.0, 1.0)
    port_s = partial_bytes / (gpu.sm_port_bytes_per_clock * gpu.clock_hz)
    fixup_s = peers * (gpu.fixup_latency_s + port_s) + 2.0 * fixup_workspace / gpu.l2_bytes_per_s
    split = schedule.split_k > 1
    seconds = jnp.where(split, split_s, jnp.where(shared > 0, fixup_s, 0.0))
    return seconds, jnp.where(split, workspace, jnp.where(shared > 0, fixup_workspace, 0.0))


def run_waves(
    schedule: GemmSchedule, cut: Grid, loop: Demand, store: Demand, latency_s: Floats, gpu: Gpu
) -> tuple[KernelTimes, TileTimes, Floats]:
    """The kernel's waves: the full ones with all their SMs, the tail with the SMs that still have a tile.

    Returns:
        (times of all waves; one tile's times in the main wave; tiles an SM in the main wave).
    """
    streaming = schedule.stream_k > 0
    whole = floor_div(cut.tiles, cut.slots)
    in_main = jnp.where(streaming, cut.slots, jnp.minimum(cut.tiles, cut.slots))
    left = jnp.where(streaming | (whole < 1), 0.0, cut.tiles - whole * cut.slots)
    waves = jnp.where(streaming, jnp.maximum(cut.tiles / cut.slots, 1.0), jnp.maximum(whole, 1.0))
    persistent = jnp.maximum(schedule.persistent, schedule.stream_k)
    overlapped = schedule.epilogue >= EPILOGUE_OVERLAPPED

    def wave(tiles: Floats) -> tuple[WaveTimes, TileTimes, Floats]:
        resident = jnp.maximum(ceil_div_by_reciprocal(tiles, cut.sms), 1.0)
        active = jnp.maximum(tiles / resident, 1.0)  # SMs that hold one tile fewer leave their share of L2 and DDR
        tile = tile_times(loop, store, cut, latency_s, gpu, active)
        return wave_times(tile, resident, cut.k_steps, schedule.stages, overlapped), tile, resident

    main, tile, resident = wave(in_main)
    tail, _, _ = wave(left)
    times = kernel_times(waves, main, tail, jnp.where(left > 0, 1.0, 0.0), persistent)
    return times, tile, resident


def cost(problem: Gemm, schedule: GemmSchedule, gpu: Gpu) -> Cost:
    """The cost of GEMM schedules, as a breakdown.

    Broadcasts over problems x schedules x GPUs; pure, usable under `jit`, `vmap` and `grad`. A schedule
    that does not fit has a non-zero `reason` and finite numbers elsewhere.

    Equations: docs/how-the-model-works.md, after TileSight (arXiv 2607.22432) eqs 1-10.
    """
    helpers_s = quantise_seconds(problem, gpu)
    problem = oriented(problem, schedule.swap_ab)
    occupied = footprint(problem, schedule, gpu)
    resident, limiter = residency(occupied, gpu)
    cut = grid(problem, schedule, resident, gpu)
    shared = jnp.where(schedule.stream_k > 0, cut.tiles - floor_div(cut.tiles, cut.slots) * cut.slots, 0.0)
    checks = footprint_checks(problem, schedule, gpu, occupied, resident)
    checks += launch_checks(schedule, problem, cut, shared, gpu)

    traffic = operand_traffic(problem, schedule, gpu, cut.rows, cut.cols, cut.sms, cut.slots)
    shares_a_tile = (schedule.stream_k > 0) & (cut.tiles < cut.slots)
    steps_a_slot = ceil_div(cut.k_steps * cut.tiles, cut.slots)
    worked = dataclasses.replace(cut, k_steps=jnp.where(shares_a_tile, steps_a_slot, cut.k_steps))
    loop = loop_demand(problem, schedule, gpu, traffic)
    store = store_demand(problem, schedule, gpu, cut, traffic)
    miss_latency_s = (gpu.ddr_latency_s - gpu.l2_latency_s) * (1.0 - traffic.l2_hit)
    load_latency_s = gpu.l2_latency_s + miss_latency_s + gpu.mma_latency_s
    times, tile, resident_now = run_waves(schedule, worked, loop, store, load_latency_s, gpu)
    reduction_s, workspace_bytes = reduction_seconds(problem, schedule, cut, traffic, shared, gpu)
    latency_s = (
        times.prologue_s + times.steady_s + times.epilogue_s + times.tail_s + reduction_s + gpu.launch_overhead_s
    )

    steps = cut.rows * cut.cols * problem.batch * ceil_div(problem.k, schedule.tile_k)
    loop_chip = chip_seconds(loop, steps, gpu)
    store_chip = chip_seconds(store, cut.tiles, gpu)
    pipeline_s = tuple(a + b for a, b in zip(loop_chip, store_chip, strict=True))
    requested = steps * loop.fabric_bytes + cut.tiles * store.fabric_bytes
    l2_bytes = steps * loop.l2_bytes + cut.tiles * store.l2_bytes
    outputs = problem.m * problem.n * problem.batch
    spill = workspace_bytes * traffic.workspace_miss
    write_bytes = outputs * problem.out_bytes + spill
    read_bytes = steps * loop.ddr_bytes + outputs * problem.c_in_bytes + spill
    joules = dynamic_joules(steps * loop.tensor_flop, steps * loop.smem_bytes, l2_bytes, read_bytes + write_bytes, gpu)
    clocked_s = jnp.maximum(pipeline_s[PIPELINES.index("tensor")], pipeline_s[PIPELINES.index("smem")])
    throttle_s, energy_j = power_limited(latency_s, clocked_s, joules, gpu)
    latency_s = latency_s + throttle_s
    pace_s = shared_pace(tile.load_s, tile.compute_s, gpu.overlap_loss)
    round_trip_s = load_latency_s + tile.load_s + tile.compute_s
    starved = round_trip_s > STARVED * schedule.stages * resident_now * pace_s
    return Cost(
        latency_s=latency_s + helpers_s,
        reason=first_reason(checks),
        bound=what_binds(pipeline_s, latency_s, gpu.launch_overhead_s + reduction_s, times.epilogue_s, starved),
        pipeline_s=pipeline_s,
        prologue_s=times.prologue_s,
        steady_s=times.steady_s + throttle_s,
        epilogue_s=times.epilogue_s,
        tail_s=times.tail_s,
        reduction_s=reduction_s,
        launch_s=gpu.launch_overhead_s,
        helpers_s=helpers_s,
        flop=2.0 * outputs * problem.k,
        l15_bytes=requested,
        l2_bytes=l2_bytes,
        ddr_read_bytes=read_bytes,
        ddr_write_bytes=write_bytes,
        ddr_bytes=read_bytes + write_bytes,
        l15_hit=traffic.l15_hit,
        l2_hit=traffic.l2_hit,
        waves=cut.tiles / cut.slots,
        ctas_per_sm=resident,
        occupancy_limiter=limiter,
        registers_per_thread=registers_per_thread(problem, schedule, gpu),
        smem_bytes=occupied.smem_bytes,
        threads=occupied.threads,
        workspace_bytes=workspace_bytes,
        sms_used=jnp.minimum(cut.tiles, cut.sms),
        energy_j=energy_j,
    )


def launch_checks(
    schedule: GemmSchedule, problem: Gemm, cut: Grid, shared: Floats, gpu: Gpu
) -> list[tuple[Bools, Reason]]:
    """Why a grid of CTAs that fit cannot be launched, or is another's twin: (where it holds, reason).

    Args:
        shared: tiles that stream-K's slots share; 0 where it does not run.
    """
    cluster = schedule.cluster_m * schedule.cluster_n
    free_anyway = (schedule.sms_free > 0) & (gpu.sm_count - schedule.sms_free >= cluster_sms(cluster, gpu))
    unshared = (shared < 1) | (cut.tiles * cut.k_steps < cut.slots)
    return [
        (cluster_sms(cluster, gpu) < 1, Reason.CLUSTER),
        ((gpu.sm_count - schedule.sms_free < cluster) | free_anyway, Reason.SMS_FREE),
        ((schedule.split_k > 1) & (schedule.split_k > ceil_div(problem.k, schedule.tile_k)), Reason.SPLIT_K),
        ((schedule.stream_k > 0) & (unshared | (schedule.split_k > 1)), Reason.STREAM_K),
        ((schedule.epilogue >= EPILOGUE_OVERLAPPED) & (schedule.persistent + schedule.stream_k < 1), Reason.EPILOGUE),
        (cut.tiles >= TILES_EXACT, Reason.TILE_COUNT),
        (same_order(schedule, cut.rows, cut.cols), Reason.SAME_ORDER),  # last: it runs if nothing else stops it
    ]
