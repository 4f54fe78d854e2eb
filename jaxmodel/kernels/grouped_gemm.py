"""Grouped GEMM: experts with their own weights and their own numbers of rows, in one launch whose waves they share.

A tile of an expert is a GEMM tile, so demands, footprints, times and waves are GEMM's; what differs is how many row
blocks there are (each expert's rows are rounded up to whole tiles) and who reuses what (`grouped_gemm_traffic`).
"""

import dataclasses

import jax.numpy as jnp

from .._exact import ceil_div
from ..bound import STARVED
from ..energy import dynamic_joules
from ..envelope import shared_pace
from ..machine import Gpu
from ..occupancy import cluster_sms, residency
from ..reasons import Reason, first_reason
from ..resources import chip_seconds
from ..types import EPILOGUE_OVERLAPPED, Bools, Cost, Floats, Gemm, GemmSchedule
from .gemm import TILES_EXACT, Grid, loop_demand, oriented, run_waves, store_demand
from .gemm_footprint import footprint, footprint_checks, registers_per_thread
from .grouped_gemm_cost import GroupedParts, cost_of
from .grouped_gemm_traffic import column_blocks, grouped_traffic, routed, routed_rows
from .grouped_gemm_types import GroupedGemm, GroupedGemmSchedule, GroupedNumbers


def with_numbers(gpu: Gpu, numbers: GroupedNumbers, producers: Floats) -> Gpu:
    """The GPU as a library's kernel drives it."""

    def instead(number: Floats, own: Floats) -> Floats:
        return jnp.where(jnp.asarray(number) > 0, number, own)

    mma = gpu.mma
    in_smem = mma.operands_in_smem > 0
    return dataclasses.replace(
        gpu,
        mma=dataclasses.replace(
            mma,
            async_copy_threads=jnp.where(producers > 0, mma.async_copy_threads, 0.0),
            tma=jnp.where(producers > 0, mma.tma, 0.0),
        ),
        tensor_efficiency=gpu.tensor_efficiency
        * jnp.where(in_smem, numbers.tensor_efficiency, numbers.mma_sync_efficiency),
        ddr_bytes_per_s=gpu.ddr_bytes_per_s * numbers.ddr_efficiency,
        l2_bytes_per_s=gpu.l2_bytes_per_s * numbers.l2_efficiency,
        step_overhead_s=instead(numbers.step_overhead_s, gpu.step_overhead_s),
        cta_launch_s=instead(numbers.tile_setup_s, gpu.cta_launch_s),
        mma_latency_s=instead(numbers.load_latency_s, gpu.mma_latency_s),
    )


def grouped_parts(problem: GroupedGemm, schedule: GroupedGemmSchedule, gpu: Gpu) -> GroupedParts:
    """Times, bytes, joules and the reason of a grouped kernel.

    Args:
        gpu: as a library's kernel drives it (`with_numbers`).
    """
    swapped = schedule.swap_ab > 0
    pair = jnp.where(schedule.cta_pair > 0, 2.0, 1.0)  # a pair is a tile twice as high
    group = routed(problem.classes, jnp.where(swapped, schedule.tile_n, schedule.tile_m * pair))
    col_blocks = column_blocks(problem.n, jnp.where(swapped, schedule.tile_m * pair, schedule.tile_n))
    gemm = _as_gemm(problem, group.rows, schedule.swap_ab)
    run = _as_gemm_schedule(schedule, pair)
    occupied = footprint(gemm, run, gpu)
    resident, limiter = residency(occupied, gpu)
    placeable = cluster_sms(pair, gpu)
    paired_sms = 2.0 * jnp.floor(0.5 * jnp.maximum(jnp.minimum(placeable, gpu.sm_count), 2.0))
    sms = jnp.where(pair > 1.5, paired_sms, gpu.sm_count)
    slots = sms * jnp.maximum(resident, 1.0)
    cut = Grid(
        rows=jnp.where(swapped, col_blocks, group.blocks) * pair,
        cols=jnp.where(swapped, group.blocks, col_blocks),
        k_steps=ceil_div(problem.k, schedule.tile_k),
        tiles=jnp.maximum(jnp.round(group.blocks * col_blocks), 1.0) * pair,
        resident=jnp.maximum(resident, 1.0),
        sms=sms,
        slots=slots,
    )
    checks = footprint_checks(gemm, run, gpu, occupied, resident)
    checks += _launch_checks(schedule, cut, placeable)
    traffic = grouped_traffic(problem, schedule, gpu, group, col_blocks, cut.k_steps, sms, slots, pair)
    loop = loop_demand(gemm, run, gpu, traffic)
    moved_step_bytes = loop.ddr_bytes
    run_bytes = schedule.tile_k * jnp.minimum(problem.a_bytes, problem.b_bytes)
    loop = dataclasses.replace(loop, ddr_bytes=loop.ddr_bytes * (1.0 + problem.numbers.ddr_run_bytes / run_bytes))
    store = store_demand(gemm, run, gpu, cut, traffic)
    miss_latency_s = (gpu.ddr_latency_s - gpu.l2_latency_s) * (1.0 - traffic.l2_hit)
    load_latency_s = gpu.l2_latency_s + miss_latency_s + gpu.mma_latency_s
    times, tile, resident_now = run_waves(run, cut, loop, store, load_latency_s, gpu)

    steps = group.blocks * col_blocks * pair * cut.k_steps
    pipeline_s = tuple(
        a + b for a, b in zip(chip_seconds(loop, steps, gpu), chip_seconds(store, cut.tiles, gpu), strict=True)
    )
    read, written = steps * moved_step_bytes, group.rows * problem.n * problem.out_bytes
    l2_bytes = steps * loop.l2_bytes + cut.tiles * store.l2_bytes
    tensor_flop, smem_bytes = steps * loop.tensor_flop, steps * loop.smem_bytes
    pace_s = shared_pace(tile.load_s, tile.compute_s, gpu.overlap_loss)
    round_trip_s = load_latency_s + tile.load_s + tile.compute_s
    return GroupedParts(
        times=times,
        pipeline_s=pipeline_s,
        starved=round_trip_s > STARVED * schedule.stages * resident_now * pace_s,
        load_bytes=steps * loop.fabric_bytes,
        requested_bytes=steps * loop.fabric_bytes + cut.tiles * store.fabric_bytes,
        l15_hit=traffic.l15_hit,
        l2_hit=traffic.l2_hit,
        l2_bytes=l2_bytes,
        ddr_read_bytes=read,
        ddr_write_bytes=written,
        joules=dynamic_joules(tensor_flop, smem_bytes, l2_bytes, read + written, gpu),
        tiles=cut.tiles,
        slots=slots,
        waves=cut.tiles / slots,
        resident=resident,
        limiter=limiter,
        registers=registers_per_thread(gemm, run, gpu),
        footprint=occupied,
        sms_used=jnp.minimum(cut.tiles, cut.sms),
        reason=first_reason(checks),
    )


def cost(problem: GroupedGemm, schedule: GroupedGemmSchedule, gpu: Gpu) -> Cost:
    """The cost of grouped GEMM schedules, as a breakdown; see `jaxmodel.kernels.gemm.cost`.

    With one expert it is GEMM's. Equations: docs/moe.md.
    """
    driven = with_numbers(gpu, problem.numbers, schedule.producers)
    parts = grouped_parts(problem, schedule, driven)
    flop = 2.0 * problem.n * problem.k * routed_rows(problem.classes)
    return cost_of((parts,), flop, driven, jnp.zeros_like(jnp.asarray(gpu.launch_overhead_s)), 0.0)


def _as_gemm(problem: GroupedGemm, rows: Floats, swap_ab: Floats) -> Gemm:
    """All experts' rows as one GEMM, for what GEMM asks of a tile: element sizes, alignment, the mean tile's extent."""
    return oriented(
        Gemm(
            m=rows,
            n=problem.n,
            k=problem.k,
            batch=1.0,
            a_bytes=problem.a_bytes,
            b_bytes=problem.b_bytes,
            out_bytes=problem.out_bytes,
            c_in_bytes=0.0,
            a_k_major=1.0,
            b_k_major=1.0,
            a_align_bytes=problem.a_align_bytes,
            b_align_bytes=problem.b_align_bytes,
            out_align_bytes=problem.out_align_bytes,
            a_warm=problem.a_warm,
            b_warm=0.0,
            scaling=problem.scaling,
        ),
        swap_ab,
    )


def _as_gemm_schedule(schedule: GroupedGemmSchedule, pair: Floats) -> GemmSchedule:
    own = {field.name: getattr(schedule, field.name) for field in dataclasses.fields(schedule)}
    del own["producers"]
    return GemmSchedule(
        cluster_m=pair,
        cluster_n=1.0,
        sms_free=0.0,
        split_k=1.0,
        stream_k=0.0,
        registers_measured=0.0,
        smem_measured_bytes=0.0,
        **own,
    )


def _launch_checks(schedule: GroupedGemmSchedule, cut: Grid, placeable: Floats) -> list[tuple[Bools, Reason]]:
    return [
        (placeable < 1, Reason.CLUSTER),
        ((schedule.epilogue >= EPILOGUE_OVERLAPPED) & (schedule.persistent < 1), Reason.EPILOGUE),
        (cut.tiles >= TILES_EXACT, Reason.TILE_COUNT),
    ]
