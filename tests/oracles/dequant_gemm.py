"""Scalar twin of the dequantised GEMM, one candidate at a time in Python numbers, by docs/dequantised-gemm.md.

Traffic, grid, reduction and the epilogue are the GEMM's twin's; what the tile program costs is `oracles.program`'s.
"""

import dataclasses
import math
from types import SimpleNamespace
from typing import Any, NamedTuple

from jaxmodel.kernels.dequant_gemm_types import DequantGemm, DequantSchedule
from jaxmodel.machine import Gpu
from jaxmodel.program.records import Action, Buffer, Needs, TileProgram
from jaxmodel.reasons import Reason
from jaxmodel.resources import Demand
from jaxmodel.types import Gemm

from . import gemm, gemm_fit, gemm_launch, gemm_scaling, program

REGISTERS, SMEM, TMEM = 0, 1, 2


class Candidate(NamedTuple):
    problem: DequantGemm
    schedule: DequantSchedule
    gpu: Gpu


def costs(candidates: list[Candidate]) -> list[dict[str, Any]]:
    """Every field of `Cost` of every candidate, by name; `pipeline_s` is a tuple."""
    stored = [gemm.as_the_tiles_see_it(gemm.Candidate(p.gemm, s, g)) for p, s, g in candidates]
    parts = [_footprint(q, p, s, g) for q, (p, s, g) in zip(stored, candidates, strict=True)]
    residents = [gemm_fit.residency(part, one.gpu)[0] for part, one in zip(parts, candidates, strict=True)]
    seen = [gemm.Candidate(q, s, g) for q, (_, s, g) in zip(stored, candidates, strict=True)]
    hits = gemm.hits_of(seen, [one.problem.gemm for one in candidates], residents)
    return [
        _cost(q, one, part, resident, held)
        for q, one, part, resident, held in zip(stored, candidates, parts, residents, hits, strict=True)
    ]


def _footprint(q: Gemm, p: DequantGemm, s: DequantSchedule, g: Gpu) -> SimpleNamespace:
    """`q`: as stored, as the tiles see it."""
    e = p.gemm.a_bytes
    wide = dataclasses.replace(q, a_bytes=e, b_bytes=e, scaling=None)
    part = gemm_fit.footprint(wide, s, g)
    x, y, z, h = part.x, part.y, part.z, part.h
    w = p.gemm.b_bytes
    converts = w < e
    weights = z * x if s.swap_ab else z * y * h
    warps = s.warps_m * s.warps_n
    sets, place = s.converted_sets, s.converted_in
    registers = part.registers
    if converts and place == REGISTERS and not s.registers_measured:
        if g.mma.operands_in_smem:
            registers += math.ceil(sets * weights * e / (128 * warps))
        else:
            side = x / s.warps_m if s.swap_ab else y / s.warps_n
            registers += math.ceil(side * g.mma.k_bytes / 128 * (sets - 2 + 2 * w / e))
    a_scale, b_scale = gemm_scaling.scale_bytes(q)
    buffers = s.stages * (z * (x * (q.a_bytes + a_scale) + y * h * (q.b_bytes + b_scale)) + 16)
    if converts and place == SMEM:
        buffers += sets * weights * e
    smem = {
        gemm_fit.DIRECT: buffers,
        gemm_fit.STAGED: max(buffers, x * y * q.out_bytes),
        gemm_fit.OVERLAPPED: buffers + x * min(y, 64) * q.out_bytes,
    }[int(s.epilogue)]
    smem = s.smem_measured_bytes or smem

    unit = g.register_granularity
    groups = 2 if s.epilogue == gemm_fit.OVERLAPPED and not g.mma.accumulator_in_tmem else 1
    up = lambda value: math.ceil(value / unit) * unit  # noqa: E731
    consumers = warps * groups * up(32 * registers)
    others = math.ceil(g.mma.async_copy_threads / 32) * up(32 * 40) + s.converter_warps * up(32 * 80)
    if s.registers_measured > 0:
        others = min(others, max(g.registers_per_sm - consumers, 0))
    columns = 0
    if g.mma.accumulator_in_tmem:
        wanted = y * (2 if s.epilogue == gemm_fit.OVERLAPPED else 1)
        if converts and place == TMEM:
            wanted += sets * math.ceil(weights * e / 512)
        columns = next((size for size in (32, 64, 128, 256, 512) if size >= wanted), 1024)
    return SimpleNamespace(
        x=x, y=y, z=z, h=h, weights=weights, converts=converts, wide=wide, registers=registers, smem=smem,
        threads=32 * (warps * groups + s.converter_warps) + g.mma.async_copy_threads,
        cta_registers=consumers + others, columns=columns, stage_bytes=0.0,
    )  # fmt: skip


def _cost(q: Gemm, one: Candidate, part: SimpleNamespace, resident: int, hits: gemm.Hits) -> dict[str, Any]:
    _, s, g = one
    grid = gemm_fit.grid(q, s, g, resident)
    traffic = gemm.traffic_of(q, s, g, grid, hits)
    table = _table(q, one, part, grid, traffic)
    found = program.program_cost(table, g)
    own = Reason.CONVERSION if part.converts and not _convertible(s, g) else None
    return found | {"reason": int(gemm_launch.reason(part.wide, s, g, part, resident, grid, own, found))}


def _table(
    q: Gemm, one: Candidate, part: SimpleNamespace, grid: SimpleNamespace, traffic: SimpleNamespace
) -> TileProgram:
    p, s, g = one
    x, y, z, h, weights = part.x, part.y, part.z, part.h, part.weights
    e, w, mma, place = p.gemm.a_bytes, p.gemm.b_bytes, g.mma, s.converted_in
    if mma.operands_in_smem:
        of_rows, of_columns = math.ceil(y / mma.n_max), math.ceil(x / mma.m)
    else:
        of_rows, of_columns = s.warps_n, s.warps_m
    again, again_other = (of_rows, of_columns) if s.swap_ab else (of_columns, of_rows)
    other_side = y * h if s.swap_ab else x

    convert = gemm_launch.amounts()
    multiply = gemm_launch.amounts(tensor_flop=2 * x * y * z)
    a_scale, b_scale = gemm_scaling.scale_bytes(q)
    multiply["smem_bytes"] = z * (x * q.a_bytes + y * h * q.b_bytes) + 2 * z * (x * a_scale + y * h * b_scale)
    multiply["smem_bytes"] += z * other_side * e * again_other
    if not part.converts:
        multiply["smem_bytes"] += weights * e * again
    elif place == REGISTERS:
        times = 1 if mma.operands_in_smem else again
        convert |= {"smem_bytes": weights * w * times, "cuda_flop": 2 * p.dequant_slots * weights * times}
    else:
        convert |= {"smem_bytes": weights * w, "cuda_flop": 2 * p.dequant_slots * weights}
        kind = "smem_bytes" if place == SMEM else "tmem_bytes"
        convert[kind] += weights * e
        multiply[kind] += weights * e * again

    hand_over = 40 / g.clock_hz if part.converts and place != REGISTERS else 0.0
    warps = s.warps_m * s.warps_n
    ring = s.converted_sets * (max(warps / 4, 1) if place == REGISTERS else 1)
    return gemm_launch.launched(
        q, s, g, part, grid, traffic,
        actions=(
            gemm_launch.load(g, traffic),
            Action("convert", Demand(**convert)),
            Action("multiply", Demand(**multiply), overhead_s=g.step_overhead_s),
        ),
        arcs=(
            Needs("convert", "load"),
            Needs("multiply", "convert", hand_over_s=hand_over),
            Buffer("load", "multiply", s.stages),
            Buffer("convert", "multiply", ring, hand_over_s=hand_over),
        ),
        after=((Action("store", Demand(), writes=True), gemm_launch.stored(q, s, g, part, grid, traffic)),),
    )  # fmt: skip


def _convertible(s: DequantSchedule, g: Gpu) -> bool:
    blackwell = bool(g.mma.accumulator_in_tmem)
    if blackwell and s.epilogue == gemm_fit.OVERLAPPED and not s.converter_warps:
        return False
    if s.converted_in == REGISTERS:
        by_warps = not g.mma.operands_in_smem or (bool(s.swap_ab) and not blackwell)
        return by_warps and not s.converter_warps
    return s.converted_in == SMEM or (blackwell and bool(s.swap_ab))
