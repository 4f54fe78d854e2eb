"""Scalar twin of the whole GEMM cost: one candidate at a time, in Python numbers, by docs/how-the-model-works.md.

It shares with the product only the equations, the records and the closed-form hits, which have exact twins of their own
(`lru_stack.py`, `stream_k.py`). Sections below are those of the document. A candidate is a `Gemm`, a `GemmSchedule` and
a `Gpu` of Python floats; hits are asked for many candidates at once, because that is the only slow part.
"""

import dataclasses
import math
from types import SimpleNamespace
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxmodel.l15 import l15_share
from jaxmodel.machine import Gpu
from jaxmodel.raster import panel_walk
from jaxmodel.reuse import l2_hits
from jaxmodel.sdcm import hit_probability
from jaxmodel.stream_k import stream_k_hits
from jaxmodel.types import PIPELINES, Gemm, GemmSchedule

from . import gemm_fit, gemm_scaling, gemm_totals
from .drift import scalar_sigma_steps
from .gemm_fit import DIRECT, OVERLAPPED

HELD = ("warm_distance", "workspace", "quantised")  # bytes of which L2 is asked how much it holds


class Candidate(NamedTuple):
    problem: Gemm
    schedule: GemmSchedule
    gpu: Gpu


class Hits(NamedTuple):
    """What the closed forms say of a candidate, in float64."""

    rows: float
    cols: float
    rows_cold: float
    cols_cold: float
    l15: float
    warm: float  # hit probability of a warm operand's first touch
    workspace: float  # of split-K's partial tiles
    quantised: float  # what the quantisation of A touches


def costs(candidates: list[Candidate]) -> list[dict[str, Any]]:
    """Every field of `Cost` of every candidate, by name; `pipeline_s` is a tuple."""
    seen = [candidate._replace(problem=as_the_tiles_see_it(candidate)) for candidate in candidates]
    stated = [candidate.problem for candidate in candidates]
    residents = [gemm_fit.residency(gemm_fit.footprint(*one), one.gpu)[0] for one in seen]
    found = hits_of(seen, stated, residents)
    return [_cost(one, p, hits) for one, p, hits in zip(seen, stated, found, strict=True)]


def _cost(candidate: Candidate, stated: Gemm, hits: Hits) -> dict[str, Any]:
    p, s, g = candidate
    part = gemm_fit.footprint(p, s, g)
    resident, limiter = gemm_fit.residency(part, g)
    grid = gemm_fit.grid(p, s, g, resident)
    traffic = traffic_of(p, s, g, grid, hits)
    demand = demands(p, s, g, part, grid, traffic)
    reason = gemm_fit.reason(p, s, g, part, resident, grid)
    time = _kernel_time(p, s, g, grid, traffic, demand)
    whole = gemm_totals.whole(grid, demand)
    pipeline_s = gemm_totals.pipeline_seconds(g, whole, demand.rate)
    total = gemm_totals.totals(p, g, grid, traffic, demand, whole, workspace_bytes(p, s, grid))
    throttle_s, total["energy_j"] = gemm_totals.power(g, time["latency_s"], pipeline_s, total.pop("boost_joules"))
    time["latency_s"] += throttle_s
    time["steady_s"] += throttle_s
    bound = gemm_totals.bound(time, pipeline_s)
    time["helpers_s"] = gemm_scaling.quantise_s(stated, g, hits.quantised)
    time["latency_s"] += time["helpers_s"]
    return {
        **{name: value for name, value in time.items() if name.endswith("_s")},
        **total,
        "reason": int(reason),
        "bound": bound,
        "pipeline_s": tuple(pipeline_s[name] for name in PIPELINES),
        "flop": 2.0 * p.m * p.n * p.k * p.batch,
        "l15_hit": traffic.h15,
        "l2_hit": traffic.h2,
        "waves": grid.tiles / grid.slots,
        "ctas_per_sm": resident,
        "occupancy_limiter": limiter,
        "registers_per_thread": part.registers,
        "smem_bytes": part.smem,
        "threads": part.threads,
        "tiles": grid.tiles,
        "sms_used": min(grid.tiles, grid.sms),
    }


def as_the_tiles_see_it(candidate: Candidate) -> Gemm:
    p = candidate.problem
    if not candidate.schedule.swap_ab:
        return p
    return dataclasses.replace(
        p, m=p.n, n=p.m, a_bytes=p.b_bytes, b_bytes=p.a_bytes, a_k_major=p.b_k_major, b_k_major=p.a_k_major,
        a_align_bytes=p.b_align_bytes, b_align_bytes=p.a_align_bytes, a_warm=p.b_warm, b_warm=p.a_warm,
        scaling=p.scaling
        and dataclasses.replace(
            p.scaling, a_scale_bytes=p.scaling.b_scale_bytes, b_scale_bytes=p.scaling.a_scale_bytes
        ),
    )  # fmt: skip


# 4. Traffic


def _block_bytes(p: Gemm, s: GemmSchedule, grid: SimpleNamespace) -> tuple[float, float]:
    """A and B: mean bytes of a row block and of a column block a K-step."""
    a_run = (s.tile_k if p.a_k_major else s.tile_m) * p.a_bytes
    b_run = (s.tile_k if p.b_k_major else s.tile_n) * p.b_bytes
    depth = p.k / grid.k_steps_all
    a_scale, b_scale = gemm_scaling.scale_bytes(p)
    row = (p.m / grid.rows) * depth * (p.a_bytes * _sector_price(a_run, p.a_align_bytes) + a_scale)
    col = (p.n / grid.cols) * depth * (p.b_bytes * _sector_price(b_run, p.b_align_bytes) + b_scale)
    return row, col


def _sector_price(run: float, align: float) -> float:
    return max(run + max(32 - align, 0), 32) / run


def _hit_arguments(candidate: Candidate, stated: Gemm, resident: int) -> dict[str, float]:
    p, s, g = candidate
    a_scale, b_scale = gemm_scaling.scale_bytes(p)
    grid = gemm_fit.grid(p, s, g, resident)
    row, col = _block_bytes(p, s, grid)
    return {
        "rows": grid.cluster_rows, "cols": grid.cluster_cols, "along_n": s.raster_along_n, "swizzle": s.swizzle,
        "row_bytes": row * s.cluster_m, "col_bytes": col * s.cluster_n,
        "batch": p.batch * s.split_k, "concurrent": grid.slots / grid.cluster, "k_steps": grid.k_steps,
        "out_bytes": grid.tile_elements * grid.cluster * (4 if s.split_k > 1 else p.out_bytes),
        "l2_bytes": g.l2_capacity_bytes * g.l2_effective_ratio, "l2_ways": g.l2_ways,
        "sms": grid.sms / grid.cluster, "group_sms": max(g.l15_group_sms / grid.cluster, 1),
        "l15_bytes": g.l15_capacity_bytes, "l15_ways": g.l15_ways,
        "warm_distance": p.batch
        * (p.m * p.k * (p.a_bytes + a_scale) + p.k * p.n * (p.b_bytes + b_scale) + p.m * p.n * p.out_bytes),
        "quantised": gemm_scaling.touched_bytes(stated),
        "workspace": p.m * p.n * p.batch * s.split_k * 4, "stream_k": s.stream_k,
        "sigma": scalar_sigma_steps(
            g.drift_skew_steps, g.drift_jitter_steps, grid.k_steps, p.k / s.split_k * max(p.a_bytes, p.b_bytes)
        ),
    }  # fmt: skip


def _closed_forms(of: dict[str, jax.Array]) -> tuple[jax.Array, ...]:
    walk = panel_walk(of["rows"], of["cols"], of["along_n"], of["swizzle"], of["row_bytes"], of["col_bytes"])
    launch = walk, of["batch"], of["concurrent"], of["k_steps"], of["out_bytes"], of["l2_bytes"], of["l2_ways"]
    tiled, streamed = l2_hits(*launch, of["sigma"]), stream_k_hits(*launch)
    shares = [
        jax.numpy.where(of["stream_k"] > 0, getattr(streamed, name), getattr(tiled, name)) for name in Hits._fields[:4]
    ]
    l15 = l15_share(walk, of["concurrent"], of["k_steps"], of["sms"], of["group_sms"], of["l15_bytes"], of["l15_ways"])
    held = [hit_probability(of[name], of["l2_bytes"], of["l2_ways"]) for name in HELD]
    return (*shares, l15, *held)


def hits_of(candidates: list[Candidate], stated: list[Gemm], residents: list[int]) -> list[Hits]:
    """Of candidates whose SMs hold so many CTAs each."""
    arguments = [_hit_arguments(*one) for one in zip(candidates, stated, residents, strict=True)]
    with jax.enable_x64(True):
        columns = {name: np.array([row[name] for row in arguments], np.float64) for name in arguments[0]}
        values = [np.asarray(value) for value in jax.jit(_closed_forms)(columns)]
    assert all(value.dtype == np.float64 for value in values)
    return [Hits(*(float(value) for value in row)) for row in zip(*values, strict=True)]


def traffic_of(p: Gemm, s: GemmSchedule, g: Gpu, grid: SimpleNamespace, hits: Hits) -> SimpleNamespace:
    row, col = _block_bytes(p, s, grid)
    a, b = row / s.cluster_n, col / s.cluster_m
    u = a + b
    h_a = hits.rows + hits.rows_cold * p.a_warm * g.l2_retention * hits.warm
    h_b = hits.cols + hits.cols_cold * p.b_warm * g.l2_retention * hits.warm
    h2 = min(max((a * h_a + b * h_b) / u, 0.0), 1.0)
    return SimpleNamespace(u=u, h2=h2, h15=min(hits.l15, h2), workspace_lost=1.0 - hits.workspace)


# 5. Demands


def demands(
    p: Gemm, s: GemmSchedule, g: Gpu, part: SimpleNamespace, grid: SimpleNamespace, traffic: SimpleNamespace
) -> SimpleNamespace:
    """Of one K-step and of one epilogue, by pipeline, and the rate of one SM (of the chip for L2 and DDR)."""
    split, mma = s.split_k > 1, g.mma
    x, y, z = part.x, part.y, part.z
    u, h2, h15 = traffic.u, traffic.h2, traffic.h15

    o = 4 if split else p.out_bytes
    written = grid.tile_elements * o
    read = 0.0 if split else grid.tile_elements * p.c_in_bytes
    if s.epilogue == DIRECT:
        price = 32 / min(8 * o, 32)
    else:
        line = (s.tile_m if s.swap_ab else s.tile_n) * o
        price = _sector_price(line, p.out_align_bytes)
    stored = written * price + read
    operations = 1 if split else 3 if p.c_in_bytes > 0 else 2

    a_side, b_side = z * x * p.a_bytes, z * y * part.h * p.b_bytes
    if mma.operands_in_smem:
        smem_read = a_side * math.ceil(y / mma.n_max) + b_side * math.ceil(x / mma.m)
    else:
        smem_read = a_side * s.warps_n + b_side * s.warps_m

    a_scale, b_scale = gemm_scaling.scale_bytes(p)
    scales = z * (x * a_scale + y * part.h * b_scale)
    none = dict.fromkeys(PIPELINES, 0.0)
    step = none | {
        "tensor": 2 * x * y * z,
        "cuda": 2 * x * y * z / p.scaling.promote_k if gemm_scaling.promoted(p, g) else 0.0,
        "smem": part.stage_bytes + smem_read + scales,  # a stage's buffer holds the scales too
        "l15": u,
        "l2": u * (1 - h15),
        "ddr": u * (1 - h2),
    }
    epilogue = none | {
        "cuda": 2 * x * y * operations,
        "tmem": 4 * x * y if mma.accumulator_in_tmem else 0.0,
        "smem": 0.0 if s.epilogue == DIRECT else 2 * x * y * o,
        "l15": stored,
        "l2": stored,
        "ddr": written * (traffic.workspace_lost if split else 1.0) * g.ddr_write_cost + read,
    }
    fabric = g.sm_port_bytes_per_clock
    if g.l15_capacity_bytes > 0:
        fabric = min(fabric, g.l15_bytes_per_clock_group / g.l15_group_sms)
    rate = {
        "tensor": g.tensor_flop_per_clock_sm * g.tensor_efficiency * g.clock_hz,
        "cuda": g.cuda_flop_per_clock_sm * g.clock_hz,
        "sfu": g.sfu_op_per_clock_sm * g.clock_hz,
        "tmem": g.tmem_bytes_per_clock_sm * g.clock_hz,
        "smem": g.smem_bytes_per_clock_sm * g.clock_hz,
        "l15": fabric * g.clock_hz,
        "l2": g.l2_bytes_per_s,
        "ddr": g.ddr_bytes_per_s,
        "net": 0.0,
    }
    return SimpleNamespace(step=step, epilogue=epilogue, rate=rate)


def _seconds(demand: dict[str, float], rate: dict[str, float], sms: float) -> dict[str, float]:
    """Busy seconds where `sms` SMs are active."""
    of_one_sm = {name: rate[name] / sms if name in gemm_totals.SHARED else rate[name] for name in PIPELINES}
    return {name: demand[name] / of_one_sm[name] if of_one_sm[name] else 0.0 for name in PIPELINES}


# 6. One tile


def _together(a: float, b: float, loss: float) -> float:
    """The larger x with (x - a)(x - b) = loss^2 a b."""
    return (a + b + math.sqrt((a - b) ** 2 + 4 * loss**2 * a * b)) / 2


def _tile(s: GemmSchedule, g: Gpu, traffic: SimpleNamespace, demand: SimpleNamespace, sms: float) -> SimpleNamespace:
    v = _seconds(demand.step, demand.rate, sms)
    v_epilogue = _seconds(demand.epilogue, demand.rate, sms)
    busy_tensor = v["tensor"] + g.step_overhead_s
    q = g.overlap_loss
    m = _together(_together(max(v["l15"], v["net"]), v["l2"], q), v["ddr"], q)
    c = max(busy_tensor, v["smem"], v["cuda"])
    latency = g.l2_latency_s + (g.ddr_latency_s - g.l2_latency_s) * (1 - traffic.h2) + g.mma_latency_s
    written = _together(v_epilogue["l2"], g.store_exposure * v_epilogue["ddr"], q)
    store = max(written, *(v_epilogue[name] for name in ("cuda", "tmem", "smem", "l15")))

    def engines(steps: float) -> float:
        whole = {name: steps * (busy_tensor if name == "tensor" else v[name]) + v_epilogue[name] for name in PIPELINES}
        private = max(whole[name] for name in PIPELINES if name not in ("l2", "ddr"))
        return _together(_together(private, whole["l2"], q), whole["ddr"], q)

    return SimpleNamespace(m=m, c=c, M=_together(m, c, q), F=latency + m + c, st=store, engines=engines)


def _loop(tile: SimpleNamespace, steps: float, buffers: float) -> float:
    """What `steps` K-steps take after the first."""
    stall = max(0.0, tile.F - buffers * tile.M)
    return (steps - 1) * tile.M + (steps - 1) // buffers * stall


# 7. Waves


def _in_step(s: GemmSchedule, g: Gpu, tile: SimpleNamespace, resident: int, k_steps: float) -> tuple[float, ...]:
    """Fill, loop and stores of a wave that starts together."""
    stores = tile.st + (resident - 1) * max(0.0, tile.st - tile.M)
    loop = _loop(tile, resident * k_steps, resident * s.stages)
    return g.cta_launch_s + tile.F, max(loop, resident * tile.engines(k_steps) - tile.F - stores), stores


def _period(s: GemmSchedule, g: Gpu, tile: SimpleNamespace, resident: int, k_steps: float, persistent: bool) -> float:
    engines = resident * tile.engines(k_steps)
    if not persistent:
        return max(engines, g.cta_launch_s + tile.F + _loop(tile, k_steps, s.stages) + tile.st)
    if s.epilogue == OVERLAPPED:
        exposed = max(k_steps * tile.M, tile.st)
    else:
        exposed = max(k_steps * tile.c + tile.st, k_steps * tile.m + max(0.0, tile.st - s.stages * tile.m))
    return max(engines, k_steps * max(tile.M, tile.F / s.stages), exposed)


def _kernel_time(
    p: Gemm, s: GemmSchedule, g: Gpu, grid: SimpleNamespace, traffic: SimpleNamespace, demand: SimpleNamespace
) -> dict[str, Any]:
    tiles, slots = grid.tiles, grid.slots
    persistent = bool(s.persistent or s.stream_k)
    k_steps = grid.k_steps

    def wave(size: float) -> tuple[SimpleNamespace, int]:
        resident = max(math.ceil(size / grid.sms), 1)
        return _tile(s, g, traffic, demand, max(size / resident, 1)), resident

    if s.stream_k:
        main_size, times, tail_size = slots, max(tiles / slots, 1.0), 0
        if tiles < slots:
            k_steps = math.ceil(k_steps * tiles / slots)
    else:
        whole = tiles // slots
        main_size, times = min(tiles, slots), max(whole, 1)
        tail_size = tiles - whole * slots if whole else 0

    tile, resident = wave(main_size)
    fill, loop, stores = _in_step(s, g, tile, resident, k_steps)
    period = _period(s, g, tile, resident, k_steps, persistent)
    steady_each = min(period, loop)
    rest = period - steady_each
    to_fill = 0.0 if persistent else fill / (fill + stores)

    tail = 0.0
    if tail_size:
        tail_tile, tail_resident = wave(tail_size)
        if persistent:
            tail = _period(s, g, tail_tile, tail_resident, k_steps, True)
        else:
            tail = sum(_in_step(s, g, tail_tile, tail_resident, k_steps))

    reduction_s = reduction(p, s, g, grid, traffic)
    middle = times - 1
    return {
        "latency_s": fill + loop + stores + middle * period + tail + reduction_s + g.launch_overhead_s,
        "prologue_s": fill + middle * rest * to_fill,
        "steady_s": loop + middle * steady_each,
        "epilogue_s": stores + middle * rest * (1 - to_fill),
        "tail_s": tail,
        "reduction_s": reduction_s,
        "launch_s": g.launch_overhead_s,
        "starved": 1.1 * s.stages * resident * tile.M < tile.F,
    }


def workspace_bytes(p: Gemm, s: GemmSchedule, grid: SimpleNamespace) -> float:
    if s.split_k > 1:
        return p.m * p.n * p.batch * s.split_k * 4
    if s.stream_k and grid.tiles % grid.slots:
        shared = grid.slots - grid.tiles if grid.tiles < grid.slots else grid.slots
        return s.tile_m * s.tile_n * 4 * shared
    return 0.0


def reduction(p: Gemm, s: GemmSchedule, g: Gpu, grid: SimpleNamespace, traffic: SimpleNamespace) -> float:
    workspace = workspace_bytes(p, s, grid)
    if s.split_k > 1:
        out = p.m * p.n * p.batch * p.out_bytes
        through_l2 = (workspace + out) / g.l2_bytes_per_s
        through_ddr = (workspace * traffic.workspace_lost + out * g.ddr_write_cost) / g.ddr_bytes_per_s
        return g.dependent_launch_s + max(through_l2, through_ddr)
    if workspace:
        peers = max(math.ceil(grid.slots / grid.tiles) - 1, 1)
        port_bytes_per_s = g.sm_port_bytes_per_clock * g.clock_hz
        each = g.fixup_latency_s + s.tile_m * s.tile_n * 4 / port_bytes_per_s
        return peers * each + 2 * workspace / g.l2_bytes_per_s
    return 0.0
