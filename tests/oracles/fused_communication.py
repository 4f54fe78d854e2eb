"""Twin of GEMMs that communicate, one candidate at a time in Python numbers, by docs/fused-communication.md.

What tiles take is the tile program's (`oracles/program.py`); how transfers meet them is played tile by tile and chunk
by chunk (`oracles/overlap.py`).
"""

import dataclasses
import math
from types import SimpleNamespace
from typing import Any

import jax

from jaxmodel.kernels.fused_gemm_types import FusedGemm, FusedGemmSchedule
from jaxmodel.machine import Gpu
from jaxmodel.overlap import Link
from jaxmodel.program.records import Action, Buffer, Needs, Reduction, TileProgram
from jaxmodel.resources import Demand
from jaxmodel.sdcm import hit_probability
from jaxmodel.types import BOUNDS, PIPELINES, GemmSchedule

from . import gemm, gemm_fit, gemm_launch, gemm_scaling, overlap, program

COPIES, SMS, SWITCH, ONE_SHOT = range(4)
ARRIVAL, RASTER, APART = range(3)
Work = SimpleNamespace


def costs(draw: Any, kernel: str, places: list[int], take: Any) -> list[dict[str, Any]]:
    """Fields of `FusedCost` of candidates; `take(record, i)` gives a record of Python numbers."""
    found: list[tuple[Any, Any, Any]] = [(take(draw[0], i), take(draw[1], i), take(draw[2], i)) for i in places]
    plain = [gemm.Candidate(p.gemm, as_gemm(s), g) for p, s, g in found]
    residents = [_resident(*one) for one in found]
    hits = gemm.hits_of(plain, [one.problem for one in plain], residents)
    return [_cost(kernel, *one, resident, hit) for one, resident, hit in zip(found, residents, hits, strict=True)]


def as_gemm(s: FusedGemmSchedule) -> GemmSchedule:
    own = {f.name: getattr(s, f.name) for f in dataclasses.fields(s) if f.name in GemmSchedule.__dataclass_fields__}
    return GemmSchedule(
        **own, swap_ab=0.0, raster_along_n=1.0, sms_free=s.comm_sms, split_k=1.0, stream_k=0.0, registers_measured=0.0,
        smem_measured_bytes=0.0,
    )  # fmt: skip


def _footprint(p: FusedGemm, s: FusedGemmSchedule, g: Gpu) -> Work:
    part = gemm_fit.footprint(p.gemm, as_gemm(s), g)
    part.smem += (s.queue - 1) * part.x * part.y * p.gemm.out_bytes
    return part


def _resident(p: FusedGemm, s: FusedGemmSchedule, g: Gpu) -> int:
    return gemm_fit.residency(_footprint(p, s, g), g)[0]


def _cost(kernel: str, p: FusedGemm, s: FusedGemmSchedule, g: Gpu, resident: int, hits: gemm.Hits) -> dict[str, Any]:
    q, gs, part = p.gemm, as_gemm(s), _footprint(p, s, g)
    grid = gemm_fit.grid(q, gs, g, resident)
    traffic = gemm.traffic_of(q, gs, g, grid, hits)
    cut = _cut(p, s, grid)
    moved = {"ag_gemm": _gather, "gemm_rs": _scatter, "gemm_ar": _reduce}[kernel](p, s, g, cut)
    table = _table(q, gs, g, part, grid, traffic, moved, s.order == APART)
    ends = program.wave_ends(table, g)
    exposed = moved.apart if s.order == APART else max(moved.end(grid, ends) - ends.all, 0.0)
    found = program.program_cost(dataclasses.replace(table, communication_s=exposed), g)
    if exposed > 0.5 * found["latency_s"]:
        found["bound"] = BOUNDS.index("net")
    return found | {"communication_s": exposed}


def _cut(p: FusedGemm, s: FusedGemmSchedule, grid: Work) -> Work:
    shard = math.ceil(p.gemm.m / p.link.ranks)
    panel = s.swizzle * s.cluster_m
    panels = math.ceil(shard / (panel * s.tile_m))
    tile_rows = math.ceil(panels / s.chunks) * panel
    return Work(shard=shard, tile_rows=int(tile_rows), rows=tile_rows * s.tile_m, tile_m=s.tile_m)


def _table(
    q: Any, s: GemmSchedule, g: Gpu, part: Work, grid: Work, traffic: Work, moved: Work, apart: bool
) -> TileProgram:  # fmt: skip
    step = gemm.demands(q, s, g, part, grid, traffic).step
    product = dict(zip(gemm_launch.FIELDS, (step[name] for name in PIPELINES), strict=True))
    product |= dict.fromkeys(("fabric_bytes", "l2_bytes", "ddr_bytes"), 0.0)
    steps = grid.tiles * grid.k_steps
    remote = gemm_launch.amounts(net_bytes=moved.net / steps)
    if not apart:
        remote |= {"l2_bytes": moved.l2 / steps, "ddr_bytes": moved.ddr / steps}
    made = gemm_launch.launched(
        q, s, g, part, grid, traffic,
        actions=(
            gemm_launch.load(g, traffic),
            Action("multiply", Demand(**product), overhead_s=g.step_overhead_s),
            Action("remote", Demand(**remote), writes=True),
        ),
        arcs=(Needs("multiply", "load"), Buffer("load", "multiply", s.stages)),
        after=((Action("store", Demand(), writes=True), gemm_launch.stored(q, s, g, part, grid, traffic)),),
    )  # fmt: skip
    return dataclasses.replace(
        made, net_bytes_per_s=moved.rate, reduction=Reduction(seconds=0.0 if apart else moved.behind), iterations=None
    )


def _by_sms(rate: float, sms: float, link: Link) -> float:
    return min(rate, sms * link.sm_bytes_per_s) if link.sm_bytes_per_s else rate


def _begun(s: FusedGemmSchedule, link: Link, hops: float) -> float:
    return link.switch_start_s if s.transport == SWITCH else link.start_s + hops


def _pieces(rows: float, each: float) -> list[float]:
    """Rows of every chunk of so many rows."""
    return [min(each, rows - start) for start in range(0, math.ceil(rows), int(each))]


def _gather(p: FusedGemm, s: FusedGemmSchedule, g: Gpu, cut: Work) -> Work:
    q, link = p.gemm, p.link
    remote = q.m - cut.shard
    row = q.k * (q.a_bytes + gemm_scaling.scale_bytes(q)[0])
    wire, start, piece = 1.0, link.hop_s, link.flag_s
    shards = max(cut.rows / cut.shard, 1.0)
    if s.transport == COPIES:
        rate, start, piece = link.copy_bytes_per_s, link.copy_start_s, link.copy_chunk_s * shards
    elif s.transport == SWITCH:
        wire, rate, start = q.m / max(remote, 1), link.switch_bytes_per_s, link.switch_hop_s
        rate = rate if s.order == APART else _by_sms(rate, s.comm_sms * link.ranks, link)
    else:
        rate = link.remote_bytes_per_s
        rate = rate if s.order == APART else _by_sms(rate, s.comm_sms, link)
    flags = (link.ranks - 1) * link.copy_chunk_s if s.transport == COPIES else (link.ranks - 2) * link.flag_s

    def end(grid: Work, ends: Work) -> float:
        """Chunks of rows, the own shard's first; a chunk is there when its last row is."""
        needs: list[float] = []
        clock, got = start, 0.0
        for first in range(0, int(grid.rows), cut.tile_rows):
            last_row = min((first + cut.tile_rows) * cut.tile_m, q.m)
            coming = max(last_row - cut.shard, 0.0) - got
            if remote > 0 and first * cut.tile_m + cut.rows > cut.shard:
                clock += coming * row * wire / rate + piece
                got += coming
            tiles = min(cut.tile_rows, grid.rows - first) * grid.cols
            needs += [clock if got else 0.0] * int(tiles)
        if s.order == RASTER:
            return clock + ends.all if got else ends.all
        played = max(overlap.released(len(needs), ends.slots, ends.tile, needs))
        return max(ends.all, played - ends.tile + ends.last)

    moved = remote * row
    return Work(
        net=moved * wire, rate=rate, l2=2 * moved, ddr=moved, behind=0.0, end=end,
        apart=_begun(s, link, start) + flags + moved * wire / rate,
    )  # fmt: skip


def _sum(bytes_: float, written: float, sms: float, g: Gpu) -> float:
    if bytes_ <= 0:
        return 0.0
    read = bytes_ - written
    with jax.enable_x64(True):
        missed = 1 - float(hit_probability(read, g.l2_capacity_bytes * g.l2_effective_ratio, g.l2_ways))
    ddr = (read * missed + written * g.ddr_write_cost) / g.ddr_bytes_per_s
    port = g.sm_port_bytes_per_clock * g.clock_hz
    return max(bytes_ / g.l2_bytes_per_s, ddr, bytes_ / ((sms or g.sm_count) * port))


def _leave(grid: Work, ends: Work, cut: Work, rows: float, row_s: float, piece: float, after: float) -> float:
    if rows <= 0:
        return ends.all
    each = cut.tile_rows * grid.cols
    chunks = _pieces(rows, cut.rows)
    tiles = int(grid.tiles)
    takes = _takes(tiles, ends)
    times = [r * row_s + piece for r in chunks]
    return overlap.departing(
        tiles, ends.slots, takes, int(min(len(chunks) * each, tiles)), int(each), times[0], times[-1], after
    )


def _takes(tiles: int, ends: Work) -> list[float]:
    """A tile's time by wave, so that the last wave ends when the kernel's tiles do."""
    waves = math.ceil(tiles / ends.slots)
    last = ends.all - ends.first - (waves - 2) * ends.tile
    return overlap.wave_times(tiles, ends.slots, ends.tile, ends.first, last)


def _scatter(p: FusedGemm, s: FusedGemmSchedule, g: Gpu, cut: Work) -> Work:
    q, link = p.gemm, p.link
    row = q.n * q.out_bytes
    remote = q.m - cut.shard
    partials = (link.ranks + 1) * cut.shard * row
    sums = _sum(partials, cut.shard * row, s.comm_sms, g)
    crowd = link.ranks - 1 if s.order == RASTER else 1.0
    piece, after, rows = link.flag_s, link.hop_s, remote
    flags = (link.ranks - 2) * link.flag_s
    if s.transport == COPIES:
        rate, piece, after = link.copy_bytes_per_s, link.copy_chunk_s * max(cut.rows / cut.shard, 1), link.copy_start_s
        flags = (link.ranks - 1) * link.copy_chunk_s
    elif s.transport == SWITCH:
        rate, rows, partials, sums, after = link.switch_bytes_per_s, q.m, 0.0, 0.0, link.switch_hop_s
        rate = rate if s.order == APART else _by_sms(rate, s.comm_sms * link.ranks, link)
    else:
        rate = link.remote_bytes_per_s
    beside = s.comm_sms > 0
    row_s = max(row * crowd / rate, sums / max(remote, 1) if beside else 0.0)
    closing = after + (sums * min(cut.rows / cut.shard, 1.0) if beside else 0.0)

    def end(grid: Work, ends: Work) -> float:
        if s.transport != SMS:
            return _leave(grid, ends, cut, rows, row_s, piece, closing)
        tiles = int(grid.tiles)
        stored = int(min(math.ceil(remote / cut.tile_m), grid.rows) * grid.cols)
        queue = int(s.queue * ends.slots)
        write = max(remote * row_s / max(stored, 1), link.hop_s / queue)
        raised = math.ceil(remote / cut.rows) * link.flag_s
        return overlap.posted(tiles, ends.slots, _takes(tiles, ends), stored, write, queue, closing + raised)

    posted = s.transport == SMS
    return Work(
        net=rows * row, rate=rate,
        l2=(0.0 if posted else 2 * rows * row) + (partials if beside else 0.0),
        ddr=rows * row if s.transport == COPIES else 0.0,
        behind=0.0 if beside or s.transport == SWITCH else sums + g.dependent_launch_s,
        apart=_begun(s, link, after) + flags + rows * row / rate + _sum(partials, cut.shard * row, 0, g),
        end=end,
    )  # fmt: skip


def _reduce(p: FusedGemm, s: FusedGemmSchedule, g: Gpu, cut: Work) -> Work:
    q, link = p.gemm, p.link
    ranks, bytes_ = link.ranks, q.m * q.n * q.out_bytes
    rate, hops = link.remote_bytes_per_s, 2 * link.hop_s
    if s.transport == SWITCH:
        rate, wire, own, added, written, arriving = link.switch_bytes_per_s, 1 + 1 / ranks, 2 / ranks, 0.0, 1 / ranks, 1
        hops = link.switch_hop_s
    elif s.transport == ONE_SHOT:
        wire, own, added, written, arriving, hops = ranks - 1, 0.0, ranks + 1, 1.0, ranks - 1, link.hop_s
    else:
        share = (ranks - 1) / ranks
        wire, own, added, written, arriving = 2 * share, share, 1 + 1 / ranks, 1 / ranks, 1
    sms = max(s.comm_sms, 1)
    by_sms = bytes_ * own / (sms * link.sm_bytes_per_s) if link.sm_bytes_per_s else 0.0
    sums = _sum(bytes_ * added, bytes_ * written, sms, g)
    row_s = max(bytes_ * wire / rate, by_sms, sums) / q.m
    closing = hops + sums * min(cut.rows / q.m, 1.0)
    return Work(
        net=bytes_ * wire, rate=rate, l2=bytes_ * (arriving + 1) + bytes_ * added, ddr=bytes_, behind=0.0,
        apart=_begun(s, link, hops) + (ranks - 2) * link.flag_s + bytes_ * wire / rate
        + _sum(bytes_ * added, bytes_ * written, 0, g),
        end=lambda grid, ends: _leave(grid, ends, cut, q.m, row_s, link.flag_s, closing),
    )  # fmt: skip
