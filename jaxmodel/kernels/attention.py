"""Attention forward: tiles of queries that walk blocks of keys, two products and a softmax a block.

One CTA holds `tile_m` rows of Q and walks K and V in blocks of `tile_n` keys through a ring of `stages` buffers. What
a block takes is the initiation interval of the warpgroups' cyclic schedule (`attention_overlap`); what a tile takes
beyond its blocks is its launch, its first loads, its first block from end to end and its store (`attention_times`);
what the kernel takes is the makespan of tiles of unequal length (`attention_tiles`). Equations: docs/attention.md.
"""

import dataclasses

import jax.numpy as jnp

from ..bound import STARVED, what_binds
from ..energy import dynamic_joules, power_limited
from ..machine import Gpu
from ..occupancy import residency
from ..reasons import Reason, first_reason
from ..resources import chip_seconds
from ..types import PIPELINES, Bools, Cost, Floats
from .attention_overlap import block_seconds
from .attention_parts import footprint, footprint_checks, registers_per_thread
from .attention_tiles import Pace, makespan, tile_classes
from .attention_times import (
    Work,
    block_times,
    combine_seconds,
    helper_seconds,
    tile_demands,
    tile_seconds,
    total_work,
    whole_demand,
    workspace_bytes,
    workspace_miss,
)
from .attention_types import Attention, AttentionSchedule

USUAL_HEAD_DIM = 128.0
TILES_EXACT = 2.0**24  # whole numbers that float32 holds exactly


def cost(problem: Attention, schedule: AttentionSchedule, gpu: Gpu) -> Cost:
    """The cost of attention schedules, as a breakdown.

    Broadcasts over problems x schedules x GPUs; pure, usable under `jit`, `vmap` and `grad`. A schedule that does not
    fit has a non-zero `reason` and finite numbers elsewhere. `problem.numbers` must be `AttentionNumbers`.

    Equations: docs/attention.md.
    """
    numbers = problem.numbers
    gpu = dataclasses.replace(
        gpu,
        tensor_efficiency=gpu.tensor_efficiency * numbers.tensor_efficiency,
        joule_per_tensor_flop=gpu.joule_per_tensor_flop * numbers.power_scale,
    )
    occupied = footprint(problem, schedule, gpu)
    resident, limiter = residency(occupied, gpu)
    at_once = jnp.maximum(resident, 1.0)
    slots = gpu.sm_count * at_once
    classes = tile_classes(problem, schedule)
    work = total_work(problem, schedule, classes)
    checks = footprint_checks(problem, schedule, gpu, occupied, resident) + launch_checks(problem, schedule, work)

    active = jnp.minimum(gpu.sm_count, work.tiles)
    demands, miss = tile_demands(problem, schedule, gpu, classes, work)
    times = block_times(problem, schedule, demands, gpu, miss, active)
    tile = tile_seconds(problem, schedule, demands, times, gpu)
    block_s = block_seconds(times, schedule.order)
    engines_s = times.warpgroups * jnp.maximum(times.qk_s + times.pv_s, times.softmax_s)
    pace = Pace(
        fixed_s=tile.first_s + tile.store_s - block_s,
        block_s=block_s,
        engine_s=jnp.maximum(engines_s, times.load_s),
    )
    end_s, mean_s = makespan(problem, schedule, classes, pace, at_once, gpu)
    total = whole_demand(demands, work)
    pipeline_s = chip_seconds(total, 1.0, gpu)
    kernel_s = tile.loads_s + end_s + tile.drain_s
    for seconds in pipeline_s:
        kernel_s = jnp.maximum(kernel_s, seconds)

    other_s = jnp.where(problem.head_dim == USUAL_HEAD_DIM, 0.0, numbers.other_dims_s)
    launch_s = gpu.launch_overhead_s + numbers.framework_s + other_s
    reduction_s = combine_seconds(problem, schedule, gpu, work)
    helpers_s = helper_seconds(problem, gpu, work)
    latency_s = kernel_s + reduction_s + launch_s
    read_bytes, written_bytes = ddr_bytes(problem, schedule, gpu, work, total.ddr_bytes, demands.store.ddr_bytes)
    joules = dynamic_joules(total.tensor_flop, total.smem_bytes, total.l2_bytes, read_bytes + written_bytes, gpu)
    clocked_s = jnp.maximum(pipeline_s[PIPELINES.index("tensor")], pipeline_s[PIPELINES.index("smem")])
    throttle_s, energy_j = power_limited(latency_s, clocked_s, joules, gpu)
    latency_s = latency_s + throttle_s

    # as it is shown: the mean slot's tiles, and what the last slot takes longer
    in_turn = jnp.maximum(work.tiles / slots, 1.0)
    tail_s = jnp.where(work.tiles > slots, jnp.maximum(end_s - mean_s, 0.0), 0.0)
    fill_s = tile.loads_s + in_turn * jnp.maximum(tile.first_s - block_s, 0.0)
    prologue_s = jnp.minimum(fill_s, kernel_s - tail_s)
    epilogue_s = jnp.minimum(in_turn * tile.store_s + tile.drain_s, kernel_s - tail_s - prologue_s)
    starving = times.load_latency_s + times.load_s > STARVED * times.stages * block_s
    loaded = work.blocks * demands.load.fabric_bytes + work.tiles * demands.query.fabric_bytes
    missed = work.blocks * demands.load.ddr_bytes + work.tiles * demands.query.ddr_bytes
    near_missed = work.blocks * demands.load.l2_bytes + work.tiles * demands.query.l2_bytes
    l2_hit = jnp.clip(1.0 - missed / loaded, 0.0, 1.0)
    return Cost(
        latency_s=latency_s + helpers_s,
        reason=first_reason(checks),
        bound=what_binds(pipeline_s, latency_s, launch_s + reduction_s, epilogue_s, starving),
        pipeline_s=pipeline_s,
        prologue_s=prologue_s,
        steady_s=kernel_s - prologue_s - epilogue_s - tail_s + throttle_s,
        epilogue_s=epilogue_s,
        tail_s=tail_s,
        reduction_s=reduction_s,
        launch_s=launch_s,
        helpers_s=helpers_s,
        flop=2.0 * work.pairs * (problem.head_dim + problem.v_dim),
        l15_bytes=total.fabric_bytes,
        l2_bytes=total.l2_bytes,
        ddr_read_bytes=read_bytes,
        ddr_write_bytes=written_bytes,
        ddr_bytes=read_bytes + written_bytes,
        l15_hit=jnp.minimum(jnp.clip(1.0 - near_missed / loaded, 0.0, 1.0), l2_hit),
        l2_hit=l2_hit,
        waves=work.tiles / slots,
        ctas_per_sm=resident,
        occupancy_limiter=limiter,
        registers_per_thread=registers_per_thread(problem, schedule, gpu),
        smem_bytes=occupied.smem_bytes,
        threads=occupied.threads,
        workspace_bytes=workspace_bytes(problem, schedule, work),
        sms_used=active,
        energy_j=energy_j,
    )


def ddr_bytes(
    problem: Attention, schedule: AttentionSchedule, gpu: Gpu, work: Work, asked: Floats, stored: Floats
) -> tuple[Floats, Floats]:
    """Bytes read from and written to DDR, by the kernel and by the one that combines splits.

    Args:
        asked: DDR demand of the whole launch, in bytes read.
        stored: a tile's share of it for its store.
    """
    spilled = workspace_bytes(problem, schedule, work) * workspace_miss(problem, schedule, gpu, work)
    combined = jnp.where(schedule.splits > 1, work.rows * problem.v_dim * problem.out_bytes, 0.0)
    written = work.tiles * stored
    return asked - written + spilled, written / gpu.ddr_write_cost + combined


def launch_checks(problem: Attention, schedule: AttentionSchedule, work: Work) -> list[tuple[Bools, Reason]]:
    """Why a grid of CTAs that fit is not launched, or is another's twin: (where it holds, reason)."""
    return [
        (schedule.splits > work.longest, Reason.SPLIT_KV),
        (work.tiles >= TILES_EXACT, Reason.TILE_COUNT),
        ((schedule.head_section > 0) & (schedule.longest_first < 1), Reason.SAME_ORDER),
    ]
