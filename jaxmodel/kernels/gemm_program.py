"""GEMM as a tile program: the launch that kernels built on GEMM's tile share, whatever their loop and stores do.

A launch of a load, a product and a store costs what `gemm.cost` says, to rounding: data-parallel, persistent, split-K
and stream-K.
"""

import dataclasses

import jax.numpy as jnp

from .._exact import ceil_div, floor_div
from ..machine import Gpu
from ..occupancy import Footprint
from ..program import Action, Buffer, InOrder, Loop, Needs, Reduction, TileProgram, load_latency_s
from ..reasons import Reason
from ..resources import Demand, sm_rates
from ..types import EPILOGUE_OVERLAPPED, Bools, Floats, Gemm, GemmSchedule
from .gemm import Grid, launch_checks, loop_demand, reduction_seconds, store_demand
from .gemm_traffic import Traffic

Arcs = tuple[Needs | Buffer | InOrder, ...]


@dataclasses.dataclass(frozen=True)
class Added:
    """What the kernel that adds up split-K's partial tiles does beside it, over the whole problem.

    Attributes:
        read_bytes, write_bytes: beside partial tiles and results.
        cuda_flop: arithmetic.
    """

    read_bytes: Floats = 0.0
    write_bytes: Floats = 0.0
    cuda_flop: Floats = 0.0


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
    after: tuple[Action, ...],
    checks: list[tuple[Bools, Reason]],
    added: Added | None = None,
) -> TileProgram:
    """The program of a kernel whose tiles, K walk and launches are a GEMM's.

    A tile that several of stream-K's slots share is put together by the fix-up of `gemm.reduction_seconds`.

    Args:
        problem: the product as the tiles see it (`gemm.oriented`).
        cut, traffic: from `gemm.grid` and `gemm_traffic.operand_traffic`.
        occupied, registers: of a CTA, and of a thread that computes.
        actions: of one K-step; one of them is the load.
        arcs: what waits for what among them.
        after: one tile's epilogue; its last action is the store (`written`).
        checks: why a CTA cannot be built, beyond what any CTA may not exceed.
        added: what split-K's second kernel does beside adding up partial tiles; None: nothing.
    """
    streaming = schedule.stream_k > 0
    shared = jnp.where(streaming, cut.tiles - floor_div(cut.tiles, cut.slots) * cut.slots, 0.0)
    seconds, workspace = reduction_seconds(problem, schedule, cut, traffic, shared, gpu)
    spilled = workspace * traffic.workspace_miss
    results = problem.m * problem.n * problem.batch * problem.out_bytes
    split = schedule.split_k > 1
    read_bytes = spilled
    if added is not None:
        moved_s = (added.read_bytes + added.write_bytes) / gpu.l2_bytes_per_s
        ddr_s = (added.read_bytes + added.write_bytes * gpu.ddr_write_cost) / gpu.ddr_bytes_per_s
        more_s = jnp.maximum(jnp.maximum(moved_s, ddr_s), added.cuda_flop / sm_rates(gpu)[1] / gpu.sm_count)
        seconds = seconds + jnp.where(split, more_s, 0.0)
        read_bytes = read_bytes + jnp.where(split, added.read_bytes, 0.0)
        results = results + added.write_bytes
    return TileProgram(
        tiles=cut.tiles,
        footprint=occupied,
        registers_per_thread=registers,
        loop=Loop(actions=actions, trips=cut.k_steps, arcs=arcs, ahead=schedule.stages),
        after=after,
        checks=[*checks, *launch_checks(schedule, problem, cut, shared, gpu)],
        flop=2.0 * problem.m * problem.n * problem.k * problem.batch,
        persistent=schedule.persistent,
        overlapped=schedule.epilogue >= EPILOGUE_OVERLAPPED,
        sms_free=gpu.sm_count - cut.sms,
        reduction=Reduction(
            seconds=seconds,
            workspace_bytes=workspace,
            read_bytes=read_bytes,
            write_bytes=jnp.where(split, results, jnp.where(shared > 0, spilled, 0.0)),
        ),
        iterations=cut.rows * cut.cols * problem.batch * ceil_div(problem.k, schedule.tile_k),
        streams=schedule.stream_k,
    )


def written(problem: Gemm, schedule: GemmSchedule, gpu: Gpu, cut: Grid, traffic: Traffic) -> Action:
    """One tile's epilogue without C, its DDR bytes as bytes: tile programs add what a written byte costs."""
    demand = store_demand(problem, schedule, gpu, cut, traffic)
    return Action("store", dataclasses.replace(demand, ddr_bytes=demand.ddr_bytes / gpu.ddr_write_cost), writes=True)


def multiplied(problem: Gemm, schedule: GemmSchedule, gpu: Gpu, traffic: Traffic) -> tuple[tuple[Action, ...], Arcs]:
    """GEMM's own K-step: a load into a ring of `stages` buffers, and the product that frees them."""
    step = loop_demand(problem, schedule, gpu, traffic)
    loads = Demand(fabric_bytes=step.fabric_bytes, l2_bytes=step.l2_bytes, ddr_bytes=step.ddr_bytes)
    product = dataclasses.replace(step, fabric_bytes=0.0, l2_bytes=0.0, ddr_bytes=0.0)
    latency_s = load_latency_s(gpu, traffic.l2_hit) + gpu.mma_latency_s
    actions = (
        Action("load", loads, latency_s=latency_s),
        Action("multiply", product, overhead_s=gpu.step_overhead_s),
    )
    return actions, (Needs("multiply", "load"), Buffer("load", "multiply", schedule.stages))
