"""GEMM as a tile program: the launch that kernels built on GEMM's tile share, whatever their loop and stores do.

A data-parallel or persistent launch of a load, a product and a store costs what `gemm.cost` says, to rounding; split-K
too, in time. Stream-K's slots are CTAs that each walk an equal share of all K-steps, see `gemm_tile_program`.
"""

import dataclasses

import jax.numpy as jnp

from .._exact import ceil_div, floor_div
from ..machine import Gpu
from ..occupancy import Footprint
from ..program import Action, Buffer, InOrder, Loop, Needs, Reduction, TileProgram
from ..reasons import Reason
from ..resources import Demand
from ..types import EPILOGUE_OVERLAPPED, Bools, Floats, Gemm, GemmSchedule
from .gemm import Grid, launch_checks, reduction_seconds, store_demand
from .gemm_traffic import Traffic

Arcs = tuple[Needs | Buffer | InOrder, ...]


def gemm_tile_program(
    problem: Gemm,
    schedule: GemmSchedule,
    gpu: Gpu,
    cut: Grid,
    traffic: Traffic,
    occupied: Footprint,
    registers: Floats,
    actions: tuple[Action, ...],
    arcs: Arcs,
    store: Demand,
    checks: list[tuple[Bools, Reason]],
) -> TileProgram:
    """The program of a kernel whose tiles, K walk and launches are a GEMM's.

    Stream-K gives each of S slots an equal share of the N T K-steps of T tiles: W = max(floor(T / S), 1) walks of
    N T / (W S) steps (rounded up where T < S), which store max(T / S, 1) tiles together. A tile that several slots
    share reaches DDR once and is put together by the fix-up of `gemm.reduction_seconds`.

    Args:
        problem: the product as the tiles see it (`gemm.oriented`).
        cut, traffic: from `gemm.grid` and `gemm_traffic.operand_traffic`.
        occupied, registers: of a CTA, and of a thread that computes.
        actions: of one K-step; one of them is the load.
        arcs: what waits for what among them.
        store: one tile's epilogue, DDR bytes written as bytes (`written`).
        checks: why a CTA cannot be built, beyond what any CTA may not exceed.
    """
    streaming = schedule.stream_k > 0
    shared = jnp.where(streaming, cut.tiles - floor_div(cut.tiles, cut.slots) * cut.slots, 0.0)
    seconds, workspace = reduction_seconds(problem, schedule, cut, traffic, shared, gpu)
    spilled = workspace * traffic.workspace_miss
    results = problem.m * problem.n * problem.batch * problem.out_bytes
    split = schedule.split_k > 1
    tiles_a_slot = cut.tiles / cut.slots
    walks = jnp.where(streaming, jnp.maximum(floor_div(cut.tiles, cut.slots), 1.0), 1.0)
    several = cut.k_steps * tiles_a_slot / walks
    shared_steps = jnp.where(tiles_a_slot < 1, ceil_div(cut.k_steps * cut.tiles, cut.slots), several)
    stores = jnp.where(streaming, jnp.maximum(tiles_a_slot, 1.0) / walks, 1.0)
    kept = jnp.where(streaming, tiles_a_slot / walks, 1.0)
    store = Demand(
        **{f.name: getattr(store, f.name) * stores for f in dataclasses.fields(Demand)}
        | {"ddr_bytes": store.ddr_bytes * kept}
    )
    return TileProgram(
        tiles=jnp.where(streaming, walks * cut.slots, cut.tiles),
        footprint=occupied,
        registers_per_thread=registers,
        loop=Loop(
            actions=actions,
            trips=jnp.where(streaming, shared_steps, cut.k_steps),
            arcs=arcs,
            ahead=schedule.stages,
        ),
        after=(Action("store", store, writes=True),),
        checks=[*checks, *launch_checks(schedule, problem, cut, shared, gpu)],
        flop=2.0 * problem.m * problem.n * problem.k * problem.batch,
        persistent=jnp.maximum(schedule.persistent, schedule.stream_k),
        overlapped=schedule.epilogue >= EPILOGUE_OVERLAPPED,
        sms_free=gpu.sm_count - cut.sms,
        reduction=Reduction(
            seconds=seconds,
            workspace_bytes=workspace,
            read_bytes=spilled,
            write_bytes=jnp.where(split, results, jnp.where(shared > 0, spilled, 0.0)),
        ),
    )


def written(problem: Gemm, schedule: GemmSchedule, gpu: Gpu, cut: Grid, traffic: Traffic) -> Demand:
    """One tile's epilogue without C, its DDR bytes as bytes: tile programs add what a written byte costs."""
    demand = store_demand(problem, schedule, gpu, cut, traffic)
    return dataclasses.replace(demand, ddr_bytes=demand.ddr_bytes / gpu.ddr_write_cost)
