"""Scalar twin of the grouped GEMM cost, one candidate at a time in Python numbers, by docs/moe.md.

A tile of an expert is a GEMM tile: its footprint, demands and times come from GEMM's twin. Hits are asked of the closed
forms (`jaxmodel.reuse`), which have exact twins of their own.
"""

import dataclasses
import math
from types import SimpleNamespace
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxmodel.kernels.grouped_gemm_types import GroupedGemm, GroupedGemmSchedule, GroupedNumbers
from jaxmodel.l15 import l15_share
from jaxmodel.machine import Gpu
from jaxmodel.raster import panel_walk
from jaxmodel.reasons import Reason
from jaxmodel.reuse import l2_hits
from jaxmodel.sdcm import hit_probability
from jaxmodel.types import BOUNDS, PIPELINES, Gemm, GemmSchedule

from . import gemm, gemm_fit, gemm_totals

TIMES = ("prologue_s", "steady_s", "epilogue_s", "tail_s")
ADDED = (*TIMES, "busy_s", "load_bytes", "l15_bytes", "l2_bytes", "ddr_read_bytes", "ddr_write_bytes", "waves")


class Candidate(NamedTuple):
    problem: GroupedGemm
    schedule: GroupedGemmSchedule
    gpu: Gpu  # as the library drives it, see `driven`


class _Hits(NamedTuple):
    a: float
    b: float
    l15: float
    held: float  # what the kernel touches, of which a second touch of a row of A finds this share


def driven(g: Gpu, n: GroupedNumbers, producers: float) -> Gpu:
    """The GPU with a library's numbers."""
    mma = dataclasses.replace(
        g.mma,
        async_copy_threads=g.mma.async_copy_threads if producers else 0.0,
        tma=g.mma.tma if producers else 0.0,
    )
    tensor = n.tensor_efficiency if g.mma.operands_in_smem else n.mma_sync_efficiency
    return dataclasses.replace(
        g, mma=mma, tensor_efficiency=g.tensor_efficiency * tensor,
        ddr_bytes_per_s=g.ddr_bytes_per_s * n.ddr_efficiency, l2_bytes_per_s=g.l2_bytes_per_s * n.l2_efficiency,
        step_overhead_s=n.step_overhead_s or g.step_overhead_s, cta_launch_s=n.tile_setup_s or g.cta_launch_s,
        mma_latency_s=n.load_latency_s or g.mma_latency_s,
    )  # fmt: skip


def costs(candidates: list[Candidate]) -> list[dict[str, Any]]:
    """Every field of `Cost` of grouped GEMMs; the GPUs are the files' own."""
    seen = [c._replace(gpu=driven(c.gpu, c.problem.numbers, c.schedule.producers)) for c in candidates]
    found = []
    for candidate, part in zip(seen, parts(seen), strict=True):
        flop = 2 * candidate.problem.n * candidate.problem.k * rows_of(candidate.problem.classes)
        found.append(added([part], flop, candidate.gpu, 0.0, 0.0))
    return found


def rows_of(classes: Any) -> float:
    return sum(one.rows * one.experts for one in classes)


def parts(candidates: list[Candidate]) -> list[SimpleNamespace]:
    """One grouped kernel of each candidate, without its launch."""
    grids = [_grid(*candidate) for candidate in candidates]
    hits = _hits([_hit_arguments(*c, grid) for c, grid in zip(candidates, grids, strict=True)])
    return [_part(*c, grid, hit) for c, grid, hit in zip(candidates, grids, hits, strict=True)]


def added(kernels: list[SimpleNamespace], flop: float, g: Gpu, helpers_s: float, workspace: float) -> dict[str, Any]:
    """Kernels one after the other."""
    total = {name: sum(getattr(kernel, name) for kernel in kernels) for name in ADDED}
    pipeline_s = {name: sum((kernel.pipeline_s[name] for kernel in kernels), 0.0) for name in PIPELINES}
    launch_s = len(kernels) * g.launch_overhead_s
    latency_s = total["busy_s"] + launch_s
    slower = max(1.0, sum(kernel.joules for kernel in kernels) / latency_s / (g.tdp_w - g.static_w)) ** 0.5
    reached = latency_s / (latency_s + g.power_time_s) if g.power_time_s else 0.0
    throttle_s = (slower - 1) * reached * sum(kernel.clocked_s for kernel in kernels)
    latency_s += throttle_s
    energy_j = sum(kernel.joules for kernel in kernels) * (1 - reached + reached / slower) + latency_s * g.static_w
    first, last = kernels[0], kernels[-1]
    fewer = first if first.resident <= last.resident else last
    return {
        "latency_s": latency_s + helpers_s,
        "reason": int(first.reason or last.reason),
        "bound": _bound(latency_s, launch_s, total["epilogue_s"], first.starved and last.starved, pipeline_s),
        "pipeline_s": tuple(pipeline_s[name] for name in PIPELINES),
        **{name: total[name] + (throttle_s if name == "steady_s" else 0.0) for name in TIMES},
        "reduction_s": 0.0,
        "launch_s": launch_s,
        "helpers_s": helpers_s,
        "flop": flop,
        "l15_bytes": total["l15_bytes"],
        "l2_bytes": total["l2_bytes"],
        "ddr_read_bytes": total["ddr_read_bytes"],
        "ddr_write_bytes": total["ddr_write_bytes"],
        "ddr_bytes": total["ddr_read_bytes"] + total["ddr_write_bytes"],
        "l15_hit": sum(kernel.load_bytes * kernel.h15 for kernel in kernels) / total["load_bytes"],
        "l2_hit": sum(kernel.load_bytes * kernel.h2 for kernel in kernels) / total["load_bytes"],
        "waves": total["waves"],
        "ctas_per_sm": min(kernel.resident for kernel in kernels),
        "occupancy_limiter": fewer.limiter,
        "registers_per_thread": max(kernel.registers for kernel in kernels),
        "smem_bytes": max(kernel.smem for kernel in kernels),
        "threads": max(kernel.threads for kernel in kernels),
        "workspace_bytes": workspace,
        "sms_used": max(kernel.sms_used for kernel in kernels),
        "energy_j": energy_j,
        "tiles": max(kernel.tiles for kernel in kernels),
    }


def _bound(latency_s: float, launch_s: float, epilogue_s: float, starved: bool, pipeline_s: dict[str, float]) -> int:
    if launch_s > 0.5 * latency_s:
        return BOUNDS.index("launch")
    if epilogue_s > 0.5 * latency_s:
        return BOUNDS.index("epilogue")
    if starved:
        return BOUNDS.index("latency")
    return BOUNDS.index(max(PIPELINES, key=lambda name: pipeline_s[name]))


def _grid(p: GroupedGemm, s: GroupedGemmSchedule, g: Gpu) -> SimpleNamespace:
    pair = 2 if s.cta_pair else 1
    tile_rows, tile_cols = (s.tile_n, pair * s.tile_m) if s.swap_ab else (pair * s.tile_m, s.tile_n)
    each = [math.ceil(one.rows / tile_rows) for one in p.classes]
    blocks = max(sum(one.experts * count for one, count in zip(p.classes, each, strict=True)), 1.0)
    squares = sum(one.experts * count**2 for one, count in zip(p.classes, each, strict=True))
    cols = math.ceil(p.n / tile_cols)
    seen, run = as_gemm(p, s)
    part = gemm_fit.footprint(seen, run, g)
    resident, limiter = gemm_fit.residency(part, g)
    k_steps, rows = math.ceil(p.k / s.tile_k), rows_of(p.classes)
    sms = max(min(g.cluster_sms[1], g.sm_count), 2) // 2 * 2 if s.cta_pair else g.sm_count
    return SimpleNamespace(
        blocks=blocks, blocks_each=max(round(squares / blocks), 1), cols=cols, rows=rows,
        experts=sum(one.experts for one in p.classes), part=part, resident=resident, limiter=limiter,
        k_steps=k_steps, k_steps_total=blocks * cols * pair * k_steps, tiles=max(round(blocks * cols), 1) * pair,
        sms=sms, slots=sms * max(resident, 1), tile_elements=rows * p.n / (blocks * cols * pair),
        pair=pair,
    )  # fmt: skip


def as_gemm(p: GroupedGemm, s: GroupedGemmSchedule) -> tuple[Gemm, GemmSchedule]:
    """What GEMM's twin asks of a tile: all rows as one GEMM, exchanged with the weights where the tiles see it so."""
    a = {"bytes": p.a_bytes, "align_bytes": p.a_align_bytes, "scale": _scale_bytes(p)[0], "warm": p.a_warm}
    b = {"bytes": p.b_bytes, "align_bytes": p.b_align_bytes, "scale": _scale_bytes(p)[1], "warm": 0.0}
    m, n, scaling = rows_of(p.classes), p.n, p.scaling
    if s.swap_ab:
        a, b, m, n = b, a, n, m
        scaling = scaling and dataclasses.replace(scaling, a_scale_bytes=a["scale"], b_scale_bytes=b["scale"])
    record = Gemm(
        m=m, n=n, k=p.k, batch=1, a_bytes=a["bytes"], b_bytes=b["bytes"], out_bytes=p.out_bytes, c_in_bytes=0,
        a_k_major=1, b_k_major=1, a_align_bytes=a["align_bytes"], b_align_bytes=b["align_bytes"],
        out_align_bytes=p.out_align_bytes, a_warm=a["warm"], b_warm=b["warm"], scaling=scaling,
    )  # fmt: skip
    own = {field.name: getattr(s, field.name) for field in dataclasses.fields(s) if field.name != "producers"}
    none = dict.fromkeys(("sms_free", "stream_k", "registers_measured", "smem_measured_bytes"), 0)
    return record, GemmSchedule(cluster_m=2 if s.cta_pair else 1, cluster_n=1, split_k=1, **none, **own)


def _scale_bytes(p: GroupedGemm) -> tuple[float, float]:
    return (p.scaling.a_scale_bytes, p.scaling.b_scale_bytes) if p.scaling else (0.0, 0.0)


def _block_bytes(p: GroupedGemm, s: GroupedGemmSchedule, grid: SimpleNamespace) -> tuple[float, float]:
    depth = p.k / grid.k_steps
    a_scale, b_scale = _scale_bytes(p)
    a_run, b_run = s.tile_k * p.a_bytes, s.tile_k * p.b_bytes
    a_price = max(a_run + max(32 - p.a_align_bytes, 0), 32) / a_run
    b_price = max(b_run + max(32 - p.b_align_bytes, 0), 32) / b_run
    a = grid.rows / grid.blocks * depth * (p.a_bytes * a_price + a_scale)
    return a, p.n / grid.cols * depth * (p.b_bytes * b_price + b_scale)


def _hit_arguments(p: GroupedGemm, s: GroupedGemmSchedule, g: Gpu, grid: SimpleNamespace) -> dict[str, float]:
    a, b = _block_bytes(p, s, grid)
    sides, sizes = (grid.blocks_each, grid.cols), (a, b)
    if s.swap_ab:
        sides, sizes = sides[::-1], sizes[::-1]
    a_scale, b_scale = _scale_bytes(p)
    touched = p.tokens * p.k * (p.a_bytes + a_scale) + grid.experts * p.k * p.n * (p.b_bytes + b_scale)
    return {
        "rows": sides[0], "cols": sides[1], "along_n": s.raster_along_n, "swizzle": s.swizzle,
        "row_bytes": sizes[0], "col_bytes": sizes[1], "batch": max(grid.blocks / grid.blocks_each, 1),
        "concurrent": grid.slots / grid.pair, "k_steps": grid.k_steps,
        "out_bytes": grid.tile_elements * grid.pair * p.out_bytes,
        "l2_bytes": g.l2_capacity_bytes * g.l2_effective_ratio, "l2_ways": g.l2_ways, "sms": grid.sms / grid.pair,
        "group_sms": max(g.l15_group_sms / grid.pair, 1), "l15_bytes": g.l15_capacity_bytes, "l15_ways": g.l15_ways,
        "touched": touched + grid.rows * p.n * p.out_bytes, "swapped": s.swap_ab,
    }  # fmt: skip


def _closed_forms(of: dict[str, jax.Array]) -> tuple[jax.Array, ...]:
    walk = panel_walk(of["rows"], of["cols"], of["along_n"], of["swizzle"], of["row_bytes"], of["col_bytes"])
    hits = l2_hits(walk, of["batch"], of["concurrent"], of["k_steps"], of["out_bytes"], of["l2_bytes"], of["l2_ways"])
    l15 = l15_share(walk, of["concurrent"], of["k_steps"], of["sms"], of["group_sms"], of["l15_bytes"], of["l15_ways"])
    swapped = of["swapped"] > 0
    a, b = jax.numpy.where(swapped, hits.cols, hits.rows), jax.numpy.where(swapped, hits.rows, hits.cols)
    return a, b, l15, hit_probability(of["touched"], of["l2_bytes"], of["l2_ways"])


def _hits(arguments: list[dict[str, float]]) -> list[_Hits]:
    with jax.enable_x64(True):
        columns = {name: np.array([row[name] for row in arguments], np.float64) for name in arguments[0]}
        values = [np.asarray(value) for value in jax.jit(_closed_forms)(columns)]
    return [_Hits(*(float(value) for value in row)) for row in zip(*values, strict=True)]


def _part(p: GroupedGemm, s: GroupedGemmSchedule, g: Gpu, grid: SimpleNamespace, hits: _Hits) -> SimpleNamespace:
    a, b = _block_bytes(p, s, grid)
    each = grid.blocks_each
    reused = min(hits.b / (1 - 1 / each), 1.0) if each > 1 else 1.0
    h_b = reused * max(1 - grid.experts / grid.blocks, 0.0)
    first = min(p.tokens / max(grid.rows, 1.0), 1.0)
    h_a = hits.a + hits.held * (first * p.a_warm * g.l2_retention + 1 - first) / grid.cols
    h2 = min(max((a * h_a + b * h_b) / (a + b), 0.0), 1.0)
    traffic = SimpleNamespace(u=(a + b) / grid.pair, h2=h2, h15=min(hits.l15, h2), workspace_lost=0.0)
    seen, run = as_gemm(p, s)
    demand = gemm.demands(seen, run, g, grid.part, grid, traffic)
    moved = demand.step["ddr"]
    demand.step["ddr"] *= 1 + p.numbers.ddr_run_bytes / (s.tile_k * min(p.a_bytes, p.b_bytes))
    time = gemm._kernel_time(seen, run, g, grid, traffic, demand)
    whole = gemm_totals.whole(grid, demand)
    pipeline_s = gemm_totals.pipeline_seconds(g, whole, demand.rate)
    read, written = grid.k_steps_total * moved, grid.rows * p.n * p.out_bytes
    joules = (
        grid.k_steps_total * demand.step["tensor"] * g.joule_per_tensor_flop
        + grid.k_steps_total * demand.step["smem"] * g.joule_per_smem_byte
        + whole["l2"] * g.joule_per_l2_byte
        + (read + written) * g.joule_per_ddr_byte
    )
    return SimpleNamespace(
        **{name: time[name] for name in TIMES}, busy_s=sum(time[name] for name in TIMES), starved=time["starved"],
        pipeline_s=pipeline_s, load_bytes=grid.k_steps_total * traffic.u, l15_bytes=whole["l15"], l2_bytes=whole["l2"],
        ddr_read_bytes=read, ddr_write_bytes=written, joules=joules, h2=h2, h15=traffic.h15,
        clocked_s=max(pipeline_s["tensor"], pipeline_s["smem"]), waves=grid.tiles / grid.slots, tiles=grid.tiles,
        resident=grid.resident, limiter=grid.limiter, registers=grid.part.registers, smem=grid.part.smem,
        threads=grid.part.threads, sms_used=min(grid.tiles, grid.sms), reason=_reason(p, s, g, grid),
    )  # fmt: skip


def _reason(p: GroupedGemm, s: GroupedGemmSchedule, g: Gpu, grid: SimpleNamespace) -> Reason:
    seen, run = as_gemm(p, s)
    alone = SimpleNamespace(
        cluster_rows=2, cluster_cols=2, cluster=1, k_steps_all=1, k_steps=1, tiles=1, slots=1
    )  # nothing of GEMM's launch stops it
    launched = dataclasses.replace(run, epilogue=min(run.epilogue, 1), swizzle=1)
    found = gemm_fit.reason(seen, launched, g, grid.part, grid.resident, alone)
    if found:
        return found
    if s.epilogue == gemm_fit.OVERLAPPED and not s.persistent:
        return Reason.EPILOGUE
    return Reason.TILE_COUNT if grid.tiles >= gemm_fit.WHOLE_BELOW else Reason.OK
