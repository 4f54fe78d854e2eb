"""Attention forward: tiles of queries that walk blocks of keys, two products and a softmax a block.

One CTA holds `tile_m` rows of Q and walks K and V in blocks of `tile_n` keys through a ring of `stages` buffers. What
a block takes is the initiation interval of the warpgroups' cyclic schedule (`attention_overlap`); what a tile takes
beyond its blocks is its launch, its first loads, its first block from end to end and its store (`attention_times`);
what the kernel takes is the makespan of tiles of unequal length (`attention_tiles`). Equations: docs/attention.md.
"""

import dataclasses

import jax.numpy as jnp

from ..bound import STARVED
from ..machine import Gpu
from ..program import Action, Loop, Reduction, TileProgram, launch_cost, launch_of
from ..reasons import Reason
from ..types import Bools, Cost, Floats
from ..waves import KernelTimes
from .attention_overlap import BlockTimes, block_seconds
from .attention_parts import footprint, registers_per_thread, schedule_checks
from .attention_tiles import Pace, TileClass, makespan, tile_classes
from .attention_times import (
    TileDemands,
    TileSeconds,
    Work,
    block_times,
    combine_seconds,
    helper_seconds,
    tile_demands,
    tile_seconds,
    total_work,
    workspace_bytes,
    workspace_miss,
)
from .attention_types import Attention, AttentionSchedule

USUAL_HEAD_DIM = 128.0


def cost(problem: Attention, schedule: AttentionSchedule, gpu: Gpu) -> Cost:
    """The cost of attention schedules, as a breakdown.

    Broadcasts over problems x schedules x GPUs; pure, usable under `jit`, `vmap` and `grad`. A schedule that does not
    fit has a non-zero `reason` and finite numbers elsewhere. `problem.numbers` must be `AttentionNumbers`.

    Equations: docs/attention.md.
    """
    gpu = dataclasses.replace(
        gpu,
        tensor_efficiency=gpu.tensor_efficiency * problem.numbers.tensor_efficiency,
        joule_per_tensor_flop=gpu.joule_per_tensor_flop * problem.numbers.power_scale,
    )
    classes = tile_classes(problem, schedule)
    work = total_work(problem, schedule, classes)
    demands, miss = tile_demands(problem, schedule, gpu, classes, work)
    program = tile_program(problem, schedule, gpu, work, demands)
    launch = launch_of(program, gpu)
    times = block_times(problem, schedule, demands, gpu, miss, jnp.minimum(gpu.sm_count, work.tiles))
    tile = tile_seconds(problem, schedule, demands, times, gpu)
    block_s = block_seconds(times, schedule.order)
    ran = run_tiles(problem, schedule, classes, times, tile, block_s, launch.pipeline_s, launch.slots, gpu)
    starving = times.load_latency_s + times.load_s > STARVED * times.stages * block_s
    return launch_cost(program, launch, ran, starving, gpu)


def tile_program(
    problem: Attention, schedule: AttentionSchedule, gpu: Gpu, work: Work, demands: TileDemands
) -> TileProgram:
    """Attention as one tile does it: Q, then for each block of keys K and V, two products and a softmax, then O. What
    waits for what is in `attention_overlap`: warpgroups share a tile."""
    spilled = workspace_bytes(problem, schedule, work) * workspace_miss(problem, schedule, gpu, work)
    combined = jnp.where(schedule.splits > 1, work.rows * problem.v_dim * problem.out_bytes, 0.0)
    other_s = jnp.where(problem.head_dim == USUAL_HEAD_DIM, 0.0, problem.numbers.other_dims_s)
    return TileProgram(
        tiles=work.tiles,
        footprint=footprint(problem, schedule, gpu),
        registers_per_thread=registers_per_thread(problem, schedule, gpu),
        before=(Action("q", demands.query),),
        loop=Loop(
            actions=(
                Action("kv", demands.load),
                Action("qk", demands.qk),
                Action("softmax", demands.softmax),
                Action("pv", demands.pv),
            ),
            trips=work.blocks / work.tiles,
        ),
        after=(Action("store", demands.store, writes=True),),
        checks=[*schedule_checks(schedule, gpu), *launch_checks(schedule, work)],
        flop=2.0 * work.pairs * (problem.head_dim + problem.v_dim),
        persistent=schedule.persistent,
        framework_s=problem.numbers.framework_s + other_s,
        helpers_s=helper_seconds(problem, gpu, work),
        reduction=Reduction(
            seconds=combine_seconds(problem, schedule, gpu, work),
            workspace_bytes=workspace_bytes(problem, schedule, work),
            read_bytes=spilled,
            write_bytes=combined,
        ),
    )


def run_tiles(
    problem: Attention,
    schedule: AttentionSchedule,
    classes: list[TileClass],
    times: BlockTimes,
    tile: TileSeconds,
    block_s: Floats,
    pipeline_s: tuple[Floats, ...],
    slots: Floats,
    gpu: Gpu,
) -> KernelTimes:
    """All tiles in time, no faster than any pipeline; as shown: the mean slot's tiles, and what the last takes
    longer."""
    engines_s = times.warpgroups * jnp.maximum(times.qk_s + times.pv_s, times.softmax_s)
    pace = Pace(
        fixed_s=tile.first_s + tile.store_s - block_s,
        block_s=block_s,
        engine_s=jnp.maximum(engines_s, times.load_s),
    )
    end_s, mean_s = makespan(problem, schedule, classes, pace, slots / gpu.sm_count, gpu)
    kernel_s = tile.loads_s + end_s + tile.drain_s
    for seconds in pipeline_s:
        kernel_s = jnp.maximum(kernel_s, seconds)
    tiles = sum(one.tiles * one.lines * schedule.splits for one in classes)
    in_turn = jnp.maximum(tiles / slots, 1.0)
    tail_s = jnp.where(tiles > slots, jnp.maximum(end_s - mean_s, 0.0), 0.0)
    fill_s = tile.loads_s + in_turn * jnp.maximum(tile.first_s - block_s, 0.0)
    prologue_s = jnp.minimum(fill_s, kernel_s - tail_s)
    epilogue_s = jnp.minimum(in_turn * tile.store_s + tile.drain_s, kernel_s - tail_s - prologue_s)
    return KernelTimes(
        prologue_s=prologue_s,
        steady_s=kernel_s - prologue_s - epilogue_s - tail_s,
        epilogue_s=epilogue_s,
        tail_s=tail_s,
    )


def launch_checks(schedule: AttentionSchedule, work: Work) -> list[tuple[Bools, Reason]]:
    """Why a grid of CTAs that fit is not launched, or is another's twin: (where it holds, reason)."""
    return [
        (schedule.splits > work.longest, Reason.SPLIT_KV),
        ((schedule.head_section > 0) & (schedule.longest_first < 1), Reason.SAME_ORDER),
    ]
