"""GEMMs that communicate while they compute: what the three kernels share, tiles, chunks, SMs, the whole cost.

A rank's tiles are a GEMM's. How transfers meet them is each kernel's own (`Transfers`): the end of tiles and transfers
together is computed as a schedule by `jaxmodel.overlap`, with a wave's period for a tile's time, on the SMs that are
left. What it exceeds the tiles' own end by is communication in the open.

Equations: docs/fused-communication.md.
"""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass

import jax.numpy as jnp

from .._exact import RECIPROCAL_EXACT, ceil_div_by_reciprocal, floor_div_by_reciprocal
from ..machine import Gpu
from ..occupancy import Footprint, cluster_sms, residency
from ..overlap import Link, WaveEnds
from ..program import Action, Loop, Reduction, TileProgram
from ..program.launch import Launch, launch_cost, launch_of
from ..program.times import tile_parts
from ..program.waves import starved, wave_times
from ..reasons import Reason
from ..resources import Demand
from ..types import BOUNDS, EPILOGUE_OVERLAPPED, EPILOGUE_STAGED, Bools, Floats, Gemm, GemmSchedule
from ..waves import KernelTimes, WaveTimes, kernel_times
from .fused_gemm_types import APART, COPY_ENGINES, SWITCH, FusedCost, FusedGemm, FusedGemmSchedule
from .gemm import Grid, grid
from .gemm_footprint import executed_tile, footprint, instruction_checks, registers_per_thread
from .gemm_program import multiplied, written
from .gemm_traffic import operand_traffic


@dataclass(frozen=True)
class Chunks:
    """How the rows of the product are cut for transfers.

    Attributes:
        shard_rows: of a rank, the largest.
        panels: of a shard; a chunk is at least one.
        tile_rows: of a chunk.
        rows: of a chunk, of the product.
        shards: that a chunk takes part of; 1, more where a chunk is larger than a shard.
    """

    shard_rows: Floats
    panels: Floats
    tile_rows: Floats
    rows: Floats
    shards: Floats


@dataclass(frozen=True)
class Tiles:
    """A rank's tiles as transfers see them.

    Attributes:
        tiles, slots: n and P of `jaxmodel.overlap`.
        cols: tiles of a row of tiles.
        waves: when waves end where nothing is waited for.
        last_s: of the last wave by itself.
        chunks: see `Chunks`.
        tile_rows: of the whole product.
    """

    tiles: Floats
    slots: Floats
    cols: Floats
    waves: WaveEnds
    last_s: Floats
    chunks: Chunks
    tile_rows: Floats


@dataclass(frozen=True)
class Transfers:
    """What a kernel moves between ranks, and when it is done.

    Attributes:
        net_bytes: of a rank's busiest direction, whole kernel; at `net_bytes_per_s`.
        l2_bytes, ddr_bytes: that they move through this rank's memory beside the GEMM's own; DDR's are writes.
        apart_s: the collective by itself.
        end_s: tiles and transfers together, of `Tiles`.
        reduction_s: what is added up after the last transfer.
        checks: why it cannot be: (where, reason).
    """

    net_bytes: Floats
    net_bytes_per_s: Floats
    l2_bytes: Floats
    ddr_bytes: Floats
    apart_s: Floats
    end_s: Callable[[Tiles], Floats]
    reduction_s: Floats = 0.0
    checks: tuple[tuple[Bools, Reason], ...] = ()


TransfersOf = Callable[[FusedGemm, FusedGemmSchedule, Gpu, Chunks], Transfers]


def fused_cost(problem: FusedGemm, schedule: FusedGemmSchedule, gpu: Gpu, transfers_of: TransfersOf) -> FusedCost:
    """The cost of one rank's kernel, as a breakdown; broadcasts over problems x schedules x GPUs."""
    gemm, as_gemm = problem.gemm, gemm_schedule(schedule)
    occupied = _with_queue(footprint(gemm, as_gemm, gpu), gemm, schedule, gpu)
    resident, _ = residency(occupied, gpu)
    cut = grid(gemm, as_gemm, resident, gpu)
    chunks = _chunks(problem, schedule)
    transfers = transfers_of(problem, schedule, gpu, chunks)
    apart = schedule.order == APART
    program = _program(problem, schedule, gpu, cut, occupied, chunks, transfers, apart)
    launch = launch_of(program, gpu)
    times, ends, last_s, starving = _waves(program, launch, gpu)
    tiles = Tiles(
        tiles=program.tiles,
        slots=launch.slots,
        cols=cut.cols,
        waves=ends,
        last_s=last_s,
        chunks=chunks,
        tile_rows=cut.rows,
    )
    fused_s = jnp.maximum(transfers.end_s(tiles) - ends.all_s, 0.0)
    exposed_s = jnp.where(apart, transfers.apart_s, fused_s)
    cost = launch_cost(dataclasses.replace(program, communication_s=exposed_s), launch, times, starving, gpu)
    binds = exposed_s > 0.5 * cost.latency_s
    fields = {f.name: getattr(cost, f.name) for f in dataclasses.fields(cost)}
    fields["bound"] = jnp.where(binds, float(BOUNDS.index("net")), cost.bound)
    return FusedCost(**fields, communication_s=exposed_s)


def gemm_schedule(schedule: FusedGemmSchedule) -> GemmSchedule:
    """The GEMM's part: no split of K, tiles along n inside panels, the SMs of communication left free."""
    return GemmSchedule(
        tile_m=schedule.tile_m,
        tile_n=schedule.tile_n,
        tile_k=schedule.tile_k,
        stages=schedule.stages,
        warps_m=schedule.warps_m,
        warps_n=schedule.warps_n,
        cluster_m=schedule.cluster_m,
        cluster_n=schedule.cluster_n,
        cta_pair=schedule.cta_pair,
        swap_ab=0.0,
        raster_along_n=1.0,
        swizzle=schedule.swizzle,
        persistent=schedule.persistent,
        sms_free=schedule.comm_sms,
        split_k=1.0,
        stream_k=0.0,
        epilogue=schedule.epilogue,
        registers_measured=0.0,
        smem_measured_bytes=0.0,
    )


def _with_queue(occupied: Footprint, gemm: Gemm, schedule: FusedGemmSchedule, gpu: Gpu) -> Footprint:
    """A tile on its way keeps its staging; the first one has the epilogue's."""
    tile = executed_tile(gemm, gemm_schedule(schedule), gpu)
    kept = (schedule.queue - 1.0) * tile.m * tile.n * gemm.out_bytes
    return dataclasses.replace(occupied, smem_bytes=occupied.smem_bytes + kept)


def _chunks(problem: FusedGemm, schedule: FusedGemmSchedule) -> Chunks:
    shard_rows = ceil_div_by_reciprocal(problem.m, problem.link.ranks)
    panel = schedule.swizzle * schedule.cluster_m
    panels = ceil_div_by_reciprocal(shard_rows, panel * schedule.tile_m)
    tile_rows = ceil_div_by_reciprocal(panels, schedule.chunks) * panel
    rows = tile_rows * schedule.tile_m
    return Chunks(
        shard_rows=shard_rows,
        panels=panels,
        tile_rows=tile_rows,
        rows=rows,
        shards=jnp.maximum(rows / shard_rows, 1.0),
    )


def _program(
    problem: FusedGemm,
    schedule: FusedGemmSchedule,
    gpu: Gpu,
    cut: Grid,
    occupied: Footprint,
    chunks: Chunks,
    transfers: Transfers,
    apart: Bools,
) -> TileProgram:
    """The tile program: a GEMM's, whose tiles share the traffic of the transfers."""
    gemm, as_gemm = problem.gemm, gemm_schedule(schedule)
    traffic = operand_traffic(gemm, as_gemm, gpu, cut.rows, cut.cols, cut.sms, cut.slots)
    actions, arcs = multiplied(gemm, as_gemm, gpu, traffic)
    a_step = 1.0 / (cut.tiles * cut.k_steps)
    beside = jnp.where(apart, 0.0, a_step)
    remote = Demand(
        net_bytes=transfers.net_bytes * a_step,
        l2_bytes=transfers.l2_bytes * beside,
        ddr_bytes=transfers.ddr_bytes * beside,
    )
    return TileProgram(
        tiles=cut.tiles,
        footprint=occupied,
        registers_per_thread=registers_per_thread(gemm, as_gemm, gpu),
        loop=Loop(
            actions=(*actions, Action("remote", remote, writes=True)),
            trips=cut.k_steps,
            arcs=arcs,
            ahead=schedule.stages,
        ),
        after=(written(gemm, as_gemm, gpu, cut, traffic),),
        checks=[
            *instruction_checks(gemm, as_gemm, gpu),
            *_launch_checks(schedule, cut, gpu),
            *_transfer_checks(problem, schedule, chunks),
            *transfers.checks,
            _same_order(schedule, cut),
        ],
        flop=2.0 * gemm.m * gemm.n * gemm.k,
        persistent=schedule.persistent,
        overlapped=schedule.epilogue >= EPILOGUE_OVERLAPPED,
        sms_free=gpu.sm_count - cut.sms,
        reduction=Reduction(seconds=jnp.where(apart, 0.0, transfers.reduction_s)),
        net_bytes_per_s=transfers.net_bytes_per_s,
    )


def _waves(program: TileProgram, launch: Launch, gpu: Gpu) -> tuple[KernelTimes, WaveEnds, Floats, Bools]:
    """The waves of `jaxmodel.program.waves`, and when they end: (times, ends, the last one's seconds, starving)."""
    whole = floor_div_by_reciprocal(program.tiles, launch.slots)
    left = jnp.where(whole < 1, 0.0, program.tiles - whole * launch.slots)
    has_tail = left > 0

    def wave(tiles: Floats) -> tuple[WaveTimes, Bools]:
        resident = jnp.maximum(ceil_div_by_reciprocal(tiles, launch.sms), 1.0)
        parts = tile_parts(program, gpu, jnp.maximum(tiles / resident, 1.0))
        return wave_times(program, parts, resident, gpu), starved(program, parts, resident)

    main, starving = wave(jnp.minimum(program.tiles, launch.slots))
    tail, _ = wave(left)
    persistent = program.persistent > 0
    period_s = jnp.where(persistent, main.persistent_period_s, main.period_s)
    tail_s = jnp.where(persistent, tail.persistent_period_s, tail.total_s)
    times = kernel_times(jnp.maximum(whole, 1.0), main, tail, jnp.where(has_tail, 1.0, 0.0), program.persistent)
    all_s = times.prologue_s + times.steady_s + times.epilogue_s + times.tail_s
    ends = WaveEnds(first_s=main.total_s, tile_s=period_s, all_s=all_s)
    return times, ends, jnp.where(has_tail, tail_s, main.total_s), starving


def _launch_checks(schedule: FusedGemmSchedule, cut: Grid, gpu: Gpu) -> list[tuple[Bools, Reason]]:
    cluster = schedule.cluster_m * schedule.cluster_n
    return [
        (cluster_sms(cluster, gpu) < 1, Reason.CLUSTER),
        (gpu.sm_count - schedule.comm_sms < cluster, Reason.SMS_FREE),
        ((schedule.epilogue >= EPILOGUE_OVERLAPPED) & (schedule.persistent < 1), Reason.EPILOGUE),
        (cut.tiles + cut.slots >= RECIPROCAL_EXACT, Reason.TILE_COUNT),
    ]


def _transfer_checks(problem: FusedGemm, schedule: FusedGemmSchedule, chunks: Chunks) -> list[tuple[Bools, Reason]]:
    link, apart = problem.link, schedule.order == APART
    unlinked = (schedule.transport == SWITCH) & (link.switch_bytes_per_s <= 0)
    return [
        (unlinked | (apart & (schedule.comm_sms > 0)), Reason.TRANSPORT),  # no number of chunks mends a missing way
        ((schedule.transport == COPY_ENGINES) & (link.copy_bytes_per_s <= 0), Reason.TRANSPORT),
        ((schedule.chunks > chunks.panels) | (apart & (schedule.chunks > 1)), Reason.CHUNKS),
        ((schedule.queue > 1) & (schedule.epilogue < EPILOGUE_STAGED), Reason.QUEUE),
    ]


def _same_order(schedule: FusedGemmSchedule, cut: Grid) -> tuple[Bools, Reason]:
    """A panel as high as the grid, or one tile wide, walks as a lower one does; last, as it runs if nothing else stops
    it."""
    rows, cols = cut.rows / schedule.cluster_m, cut.cols / schedule.cluster_n
    wide = (schedule.swizzle >= rows) | (jnp.minimum(rows, cols) < 2)
    return (schedule.swizzle > 1) & wide, Reason.SAME_ORDER


def limited_rate(rate: Floats, sms: Floats, link: Link) -> Floats:
    """A rate of the links that so many SMs have to keep up; where no limit of one SM is known, they do."""
    known = link.sm_bytes_per_s > 0
    return jnp.where(known, jnp.minimum(rate, sms * link.sm_bytes_per_s), rate)


def usable_rate(rate: Floats, link: Link) -> Floats:
    """The rate, or, where it is 0 and the schedule cannot run, another that keeps all numbers finite."""
    return jnp.where(rate > 0, rate, link.remote_bytes_per_s)
