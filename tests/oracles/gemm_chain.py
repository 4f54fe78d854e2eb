"""Scalar twin of GEMM chains, one candidate at a time in Python numbers, by docs/fused-gemm.md.

A spilled chain is the twins of its two kernels; a fused one is a table for `oracles.program`.
"""

import dataclasses
import math
from types import SimpleNamespace
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxmodel.kernels.gemm_chain_types import ChainSchedule, GemmChain
from jaxmodel.kernels.gemm_epilogue_types import GemmEpilogue
from jaxmodel.machine import Gpu
from jaxmodel.occupancy import Footprint
from jaxmodel.program.records import Action, Buffer, InOrder, Loop, Needs, TileProgram
from jaxmodel.raster import panel_walk
from jaxmodel.reasons import Reason
from jaxmodel.resources import Demand
from jaxmodel.reuse import l2_hits
from jaxmodel.sdcm import hit_probability
from jaxmodel.types import Gemm, GemmSchedule

from . import gemm, gemm_epilogue, gemm_fit, program
from .gemm_launch import amounts

SPILLED, RECOMPUTED, KEPT = 0, 1, 2
REGISTERS, SMEM, TMEM = 0, 1, 2


class Candidate(NamedTuple):
    problem: GemmChain
    schedule: ChainSchedule
    gpu: Gpu


def costs(candidates: list[Candidate]) -> list[dict[str, Any]]:
    """Every field of `Cost` of every candidate, by name; `pipeline_s` is a tuple."""
    spilled = [one for one in candidates if one.schedule.order == SPILLED]
    pairs = [_as_gemms(one) for one in spilled]
    made = gemm_epilogue.costs(
        [gemm_epilogue.Candidate(_epilogue(one), p[0][1], one.gpu) for one, p in zip(spilled, pairs, strict=True)]
    )
    used = gemm.costs([gemm.Candidate(*p[1], one.gpu) for one, p in zip(spilled, pairs, strict=True)])
    of_spilled = iter([_together(*of) for of in zip(spilled, made, used, strict=True)])
    fused = [one for one in candidates if one.schedule.order != SPILLED]
    of_fused = iter([_fused(one, hits) for one, hits in zip(fused, _hits(fused), strict=True)])
    return [next(of_spilled) if one.schedule.order == SPILLED else next(of_fused) for one in candidates]


# Two kernels


def _as_gemms(one: Candidate) -> tuple[tuple[Gemm, GemmSchedule], tuple[Gemm, GemmSchedule]]:
    p, s, _ = one
    first = Gemm(
        m=p.m, n=p.n, k=p.k, batch=1.0, a_bytes=p.element_bytes, b_bytes=p.element_bytes, out_bytes=p.element_bytes,
        c_in_bytes=0.0, a_k_major=1.0, b_k_major=1.0, a_align_bytes=p.k_align_bytes, b_align_bytes=p.k_align_bytes,
        out_align_bytes=p.n_align_bytes, a_warm=p.a_warm, b_warm=0.0,
    )  # fmt: skip
    second = dataclasses.replace(
        first, n=p.l, k=p.n, out_bytes=p.out_bytes, a_align_bytes=p.n_align_bytes, b_align_bytes=p.n_align_bytes,
        out_align_bytes=p.out_align_bytes, a_warm=1.0,
    )  # fmt: skip
    schedule = GemmSchedule(
        tile_m=s.tile_m, tile_n=s.tile_n, tile_k=s.tile_k, stages=s.stages, warps_m=s.warps, warps_n=1.0,
        cluster_m=1.0, cluster_n=1.0, cta_pair=0.0, swap_ab=0.0, raster_along_n=s.raster_along_n, swizzle=s.swizzle,
        persistent=s.persistent, sms_free=0.0, split_k=1.0, stream_k=0.0, epilogue=1.0, registers_measured=0.0,
        smem_measured_bytes=0.0,
    )  # fmt: skip
    return (first, schedule), (second, dataclasses.replace(schedule, tile_n=s.tile_l))


def _epilogue(one: Candidate) -> GemmEpilogue:
    (first, _), _ = _as_gemms(one)
    return GemmEpilogue(
        gemm=first, slots=one.problem.slots, sfu_op=one.problem.sfu_op, read_bytes=0.0, column_bytes=0.0,
        scale_bytes=0.0, scale_block=1.0,
    )  # fmt: skip


def _together(one: Candidate, made: dict[str, Any], used: dict[str, Any]) -> dict[str, Any]:
    longer = made if made["latency_s"] >= used["latency_s"] else used
    found: dict[str, Any] = {name: longer[name] for name in ("bound", "ctas_per_sm", "occupancy_limiter")}
    for name, value in made.items():
        if name.endswith("_s") and name != "pipeline_s":
            found[name] = value + used[name]
    for name in (
        "flop",
        "l15_bytes",
        "l2_bytes",
        "ddr_read_bytes",
        "ddr_write_bytes",
        "ddr_bytes",
        "waves",
        "energy_j",
    ):
        found[name] = made[name] + used[name]
    for name in ("registers_per_thread", "smem_bytes", "threads", "sms_used", "tiles"):
        found[name] = max(made[name], used[name])
    for name in ("l15_hit", "l2_hit"):
        requested = made["l15_bytes"] + used["l15_bytes"]
        found[name] = (made[name] * made["l15_bytes"] + used[name] * used["l15_bytes"]) / requested
    found["pipeline_s"] = tuple(a + b for a, b in zip(made["pipeline_s"], used["pipeline_s"], strict=True))
    found["workspace_bytes"] = one.problem.m * one.problem.n * one.problem.element_bytes
    reasons = [made["reason"], used["reason"]]
    hard = [code for code in reasons if code not in (Reason.OK, Reason.SAME_ORDER)]
    both = reasons == [Reason.SAME_ORDER] * 2
    found["reason"] = hard[0] if hard else int(Reason.SAME_ORDER if both else Reason.OK)
    return found


# One kernel


def _cut(one: Candidate) -> SimpleNamespace:
    p, s, g = one
    up = lambda value, unit: math.ceil(value / unit) * unit  # noqa: E731
    depth = g.mma.k_bytes / p.element_bytes
    x, y = up(s.tile_m, g.mma.m), up(s.tile_n, max(g.mma.n, depth))
    z, v = up(s.tile_k, depth), up(s.tile_l, g.mma.n)
    rows, cols = math.ceil(p.m / s.tile_m), math.ceil(p.l / s.tile_l)
    blocks, depths = math.ceil(p.n / s.tile_n), math.ceil(p.k / s.tile_k)
    e, kept = p.element_bytes, s.order == KEPT

    threads = 32 * s.warps
    scores, results = s.sets * x * y / threads, x * v / threads
    if g.mma.accumulator_in_tmem:
        held = min(max(y, v), 64)
    else:
        narrow = x * y * e / (4 * threads) if s.intermediate_in == REGISTERS else 0.0
        held = max(scores, results) if kept else scores + results + narrow
        if not g.mma.operands_in_smem:
            held += 2 * (x / s.warps + max(y, v)) * g.mma.k_bytes / 128
    registers = math.ceil(held) + 40
    step, second = z * (y if s.a_kept else x + y) * e, y * v * e
    buffers = s.stages * ((max(step, second) if kept else step) + 16)
    if s.a_kept:
        buffers += x * depths * z * e
    if kept:
        smem = buffers + x * blocks * y * e + x * v * p.out_bytes
    else:
        buffers += s.sets * (second + 16 + (x * y * e if s.intermediate_in == SMEM else 0))
        smem = max(buffers, x * v * p.out_bytes)
    unit = g.register_granularity
    columns = 0
    if g.mma.accumulator_in_tmem:
        wanted = max(s.sets * y, v) if kept else s.sets * y + v
        columns = next((size for size in (32, 64, 128, 256, 512) if size >= wanted), 1024)
    part = SimpleNamespace(
        smem=smem, threads=32 * s.warps + g.mma.async_copy_threads, columns=columns,
        cta_registers=s.warps * up(32 * registers, unit) + math.ceil(g.mma.async_copy_threads / 32) * up(32 * 40, unit),
    )  # fmt: skip
    resident, _ = gemm_fit.residency(part, g)
    return SimpleNamespace(
        x=x, y=y, z=z, v=v, rows=rows, cols=cols, blocks=blocks, depths=depths, kept=kept, part=part,
        registers=registers, resident=resident, slots=g.sm_count * max(resident, 1),
    )  # fmt: skip


def _price(run: float, align: float) -> float:
    return max(run + max(32 - align, 0), 32) / run


def _requested(one: Candidate, c: SimpleNamespace) -> SimpleNamespace:
    p, s, _ = one
    e, columns = p.element_bytes, 1 if c.kept else c.cols
    along_k, along_n = _price(s.tile_k * e, p.k_align_bytes), _price(s.tile_n * e, p.n_align_bytes)
    return SimpleNamespace(
        columns=columns,
        a=p.m / c.rows * p.k * e * along_k,
        b=p.n * p.k * e * along_k,
        d=p.n * p.l / columns * e * along_n,
        out=p.m * p.l / (c.rows * columns) * p.out_bytes,
        steps=c.blocks * c.depths + (c.cols * c.blocks if c.kept else 0),
    )


def _hits(candidates: list[Candidate]) -> list[SimpleNamespace]:
    if not candidates:
        return []
    rows = []
    for one in candidates:
        p, s, g = one
        c = _cut(one)
        q = _requested(one, c)
        touched = p.element_bytes * (p.m * p.k + p.k * p.n + p.n * p.l) + p.m * p.l * p.out_bytes
        at_once = min(c.slots, c.rows * q.columns)
        again = min(c.slots, c.rows) * q.a + (q.b + q.columns * q.d) / c.blocks
        rows.append({
            "rows": c.rows, "cols": q.columns, "along_n": s.raster_along_n, "swizzle": s.swizzle, "a": q.a / q.steps,
            "d_and_b": (q.d + q.b / q.columns) / q.steps, "slots": c.slots, "steps": q.steps, "out": q.out,
            "l2": g.l2_capacity_bytes * g.l2_effective_ratio, "ways": g.l2_ways, "tiles": c.rows * q.columns,
            "at_once": at_once, "in_step": (q.a + q.d / c.rows) / q.steps,
            "wave_ago": at_once * (q.a + q.d / c.rows + q.out) + q.b, "touched": touched, "again": again,
        })  # fmt: skip

    def closed_forms(of: dict[str, jax.Array]) -> tuple[jax.Array, ...]:
        launch = (1.0, of["slots"], of["steps"], of["out"], of["l2"], of["ways"])
        walk = panel_walk(of["rows"], of["cols"], of["along_n"], of["swizzle"], of["a"], of["d_and_b"])
        two = l2_hits(walk, *launch)
        held = [hit_probability(of[name], of["l2"], of["ways"]) for name in ("touched", "again", "in_step", "wave_ago")]
        return two.rows, two.rows_cold, two.cols, *held

    with jax.enable_x64(True):
        columns = {name: np.array([row[name] for row in rows], np.float64) for name in rows[0]}
        values = [np.asarray(value) for value in jax.jit(closed_forms)(columns)]
    names = ("a", "a_cold", "d", "touched", "again", "in_step", "wave_ago")
    found = [SimpleNamespace(**dict(zip(names, map(float, row), strict=True))) for row in zip(*values, strict=True)]
    for row, hits in zip(rows, found, strict=True):
        later = (row["tiles"] - 1) // row["at_once"]
        same = row["tiles"] - 1 - later
        hits.b = (same * hits.in_step + later * min(hits.wave_ago, hits.in_step)) / row["tiles"]
    return found


def _fused(one: Candidate, hits: SimpleNamespace) -> dict[str, Any]:
    c = _cut(one)
    found = program.program_cost(_table(one, c, hits), one.gpu)
    return found | {"reason": int(_reason(one, c, bool(found["fits"])))}


def _table(one: Candidate, c: SimpleNamespace, hits: SimpleNamespace) -> TileProgram:
    p, s, g = one
    e, mma, q = p.element_bytes, g.mma, _requested(one, c)
    x, y, z, v = c.x, c.y, c.z, c.v
    clip = lambda share: min(max(share, 0.0), 1.0)  # noqa: E731
    a_hit = clip(hits.a + hits.a_cold * p.a_warm * g.l2_retention * hits.touched)
    latency = lambda hit: g.l2_latency_s + (g.ddr_latency_s - g.l2_latency_s) * (1 - hit)  # noqa: E731

    in_smem = bool(mma.operands_in_smem)
    first_smem = (
        z * x * e * math.ceil(y / mma.n_max) + z * y * e * math.ceil(x / mma.m)
        if in_smem
        else z * x * e + z * y * e * s.warps
    )
    first_smem += z * y * e + (0 if s.a_kept else z * x * e)
    rows_again = x * y * e * (math.ceil(v / mma.n_max) if in_smem else 1)
    second = {
        "tensor_flop": 2 * x * y * v,
        "smem_bytes": y * v * e * ((math.ceil(x / mma.m) if in_smem else s.warps) + 1)
        + (rows_again if s.intermediate_in == SMEM else 0),
        "tmem_bytes": rows_again if s.intermediate_in == TMEM else 0,
    }
    act = {
        "cuda_flop": 2 * (p.slots + 1) * x * y,
        "sfu_op": p.sfu_op * x * y,
        "smem_bytes": x * y * e if s.intermediate_in == SMEM else 0,
        "tmem_bytes": (4 * x * y if mma.accumulator_in_tmem else 0) + (x * y * e if s.intermediate_in == TMEM else 0),
    }
    line = p.l / c.cols * p.out_bytes
    written = p.m / c.rows * line
    store = {
        "cuda_flop": 4 * x * v,
        "smem_bytes": 2 * x * v * p.out_bytes,
        "tmem_bytes": 4 * x * v if mma.accumulator_in_tmem else 0,
        "fabric_bytes": written * _price(line, p.out_align_bytes),
        "l2_bytes": written * _price(line, p.out_align_bytes),
        "ddr_bytes": written,
    }
    own_rows = x * z * c.depths * e if s.a_kept else 0.0
    a_again = 0.0 if s.a_kept else q.a * (c.blocks - 1)
    turns = 1 if mma.accumulator_in_tmem else max(s.warps / 4, 1)
    times = lambda asked, factor: {name: value * factor for name, value in asked.items()}  # noqa: E731
    fetch = lambda of: amounts(  # noqa: E731
        fabric_bytes=sum(b for b, _ in of), l2_bytes=sum(b for b, _ in of), ddr_bytes=sum(b * (1 - h) for b, h in of)
    )
    d_hit, b_hit = clip(hits.d), hits.b
    common = {
        "footprint": Footprint(
            smem_bytes=c.part.smem, threads=c.part.threads, registers=c.part.cta_registers, tmem_columns=c.part.columns
        ),
        "registers_per_thread": c.registers,
        "flop": 2.0 * p.m * p.n * (p.k + p.l),
        "persistent": bool(s.persistent),
    }
    if not c.kept:
        steps = c.blocks * c.depths
        asked = [(0.0 if s.a_kept else q.a, a_hit), (a_again, hits.again), (q.b, b_hit), (q.d, d_hit)]
        loads = fetch(asked)
        hit = 1 - loads["ddr_bytes"] / loads["fabric_bytes"]
        rows = fetch([(q.a, a_hit)]) | {"smem_bytes": own_rows} if s.a_kept else amounts()
        return TileProgram(
            tiles=c.rows * c.cols,
            before=(Action("rows", Demand(**rows), latency_s=latency(a_hit) if s.a_kept else 0.0),),
            loop=Loop(
                actions=(
                    Action("load", Demand(**times(loads, 1 / steps)), latency_s=latency(hit) + g.mma_latency_s),
                    Action(
                        "first",
                        Demand(**amounts(tensor_flop=2 * x * y * z, smem_bytes=first_smem)),
                        overhead_s=g.step_overhead_s,
                    ),
                    Action("activate", Demand(**amounts(**times(act, 1 / c.depths)))),
                    Action(
                        "second",
                        Demand(**amounts(**times(second, 1 / c.depths))),
                        overhead_s=g.step_overhead_s / c.depths,
                    ),
                ),
                trips=steps,
                arcs=(
                    Needs("first", "load"),
                    Needs("activate", "first"),
                    Needs("second", "activate"),
                    Buffer("load", "first", s.stages),
                    Buffer("first", "second", s.sets * turns),
                ),
                ahead=0 if s.a_kept else s.stages,
            ),
            after=(Action("store", Demand(**amounts(**store)), writes=True),),
            **common,
        )
    first_steps, steps = c.blocks * c.depths, c.cols * c.blocks
    loads = fetch([(q.a, a_hit), (a_again, hits.again), (q.b, b_hit)])
    hit = 1 - loads["ddr_bytes"] / loads["fabric_bytes"]
    under = 1.0 if s.sets * turns > 1 else 0.0
    made = loads | {"tensor_flop": 2 * x * y * z * first_steps, "smem_bytes": first_smem * first_steps + own_rows}
    for name, value in act.items():
        made[name] += value * c.blocks * under
    return TileProgram(
        tiles=c.rows,
        before=(
            Action(
                "first",
                Demand(**made),
                latency_s=latency(hit) + g.mma_latency_s,
                overhead_s=g.step_overhead_s * first_steps,
            ),
            Action("activate", Demand(**amounts(**times(act, c.blocks * (1 - under))))),
        ),
        loop=Loop(
            actions=(
                Action(
                    "load",
                    Demand(**times(fetch([(q.d, d_hit)]), 1 / steps)),
                    latency_s=latency(d_hit) + g.mma_latency_s,
                ),
                Action("second", Demand(**amounts(**second)), overhead_s=g.step_overhead_s),
                Action("store", Demand(**amounts(**times(store, 1 / c.blocks))), writes=True),
            ),
            trips=steps,
            arcs=(
                Needs("second", "load"),
                Needs("store", "second"),
                Buffer("load", "second", s.stages),
                InOrder("warps", (("second", 0), ("store", 0))),
            ),
            ahead=0,
        ),
        **common,
    )


def _reason(one: Candidate, c: SimpleNamespace, cta_fits: bool) -> Reason:
    p, s, g = one
    mma, depth = g.mma, g.mma.k_bytes / p.element_bytes
    blackwell = bool(mma.accumulator_in_tmem)
    splits = lambda side, unit: side > unit and side % unit != 0  # noqa: E731
    warps = s.warps / 4 if mma.operands_in_smem else s.warps
    uneven = lambda columns: c.x % (mma.m * warps) != 0 or columns % mma.n != 0  # noqa: E731
    up = lambda value: math.ceil(value / mma.n) * mma.n  # noqa: E731
    place = s.intermediate_in
    rows, cols = c.rows, 1 if c.kept else c.cols
    narrow = rows if s.raster_along_n else cols
    same = s.swizzle > 1 and s.swizzle >= narrow
    if min(rows, cols) == 1:
        same = bool(s.raster_along_n) or s.swizzle > 1
    findings = [
        (Reason.MMA_SHAPE, splits(s.tile_m, mma.m) or splits(s.tile_n, mma.n) or s.tile_k % depth != 0),
        (Reason.WARP_TILE, uneven(up(s.tile_n))),
        (Reason.ALIGNMENT, mma.tma and p.k_align_bytes < 16),
        (Reason.MMA_SHAPE, splits(s.tile_l, mma.n) or s.tile_n % depth != 0),
        (Reason.WARP_TILE, uneven(up(s.tile_l))),
        (Reason.ALIGNMENT, mma.tma and p.n_align_bytes < 16),
        (
            Reason.CHAIN,
            (place == REGISTERS and blackwell) or (place == TMEM and not blackwell) or (c.kept and place != SMEM),
        ),
        (Reason.SAME_ORDER, same),
        (Reason.SMEM, c.part.smem > g.smem_per_cta_max_bytes),
        (Reason.REGISTERS, c.registers > g.registers_per_thread_max),
        (Reason.THREADS, c.part.threads > 1024),
        (Reason.REGISTER_FILE, c.part.cta_registers > g.registers_per_sm),
        (Reason.TMEM, c.part.columns > g.tmem_columns),
        (Reason.SMEM, c.resident == 0),
    ]
    return next((code for code, there in findings if there), Reason.OK)
