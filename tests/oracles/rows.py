"""Scalar twin of the memory-bound kernels: one candidate in Python numbers, by docs/memory-bound.md.

Its table of records goes to the twin of tile programs, `oracles/program.py`. Only the hit probability is the product's.
"""

import dataclasses
import math
from types import SimpleNamespace
from typing import Any

import jax

from jaxmodel.kernels.rows_types import KEEP_L2, KEEP_REGISTERS, KEEP_SMEM, Rows, RowSchedule
from jaxmodel.machine import Gpu
from jaxmodel.occupancy import Footprint
from jaxmodel.program.records import Action, Buffer, Loop, Needs, Reduction, TileProgram
from jaxmodel.reasons import Reason
from jaxmodel.resources import Demand
from jaxmodel.sdcm import hit_probability
from jaxmodel.types import BOUNDS

from . import gemm_fit, program


def cost(p: Rows, s: RowSchedule, gpu: Gpu) -> dict[str, Any]:
    """Every field of `Cost` by name; `own_reason` is the kernel's, `fits` whether the CTA fits."""
    g = _streaming(gpu)
    found = program.program_cost(_table(p, s, g), g) | {"own_reason": _reason(p, s)}
    if BOUNDS[found["bound"]] == "epilogue":
        found["bound"] = found["pipeline_s"].index(max(found["pipeline_s"]))
    return found


def _streaming(g: Gpu) -> Gpu:
    ratio = g.ddr_stream_ratio or 2 / (1 + g.ddr_write_cost)
    return dataclasses.replace(
        g, ddr_bytes_per_s=g.ddr_bytes_per_s * ratio, ddr_write_cost=1.0, overlap_loss=0.0, store_exposure=1.0
    )


def _counts(p: Rows, s: RowSchedule) -> SimpleNamespace:
    v = max(s.vector_bytes / p.element_bytes, 1.0)
    row = math.ceil(p.cols / v)
    part = math.ceil(row / s.splits)
    row_steps = math.ceil(part * s.rows_per_cta / (s.cta_threads * s.unroll))
    e = p.rows * p.cols
    passes = p.passes if s.keep == KEEP_L2 else 1
    step = s.cta_threads * s.unroll * v
    if s.steps:
        tiles, trips, lanes, rows = math.ceil(e / (step * s.steps)), s.steps * passes, step, p.rows
    else:
        tiles, trips, rows = math.ceil(p.rows / s.rows_per_cta) * s.splits, row_steps * passes, p.rows * s.splits
        width = min(s.cta_threads / s.rows_per_cta, 32)
        lanes = s.rows_per_cta * math.ceil(part / max(width, 1)) * width * v / row_steps
    return SimpleNamespace(
        v=v, row=row, part=part, row_steps=row_steps, e=e, passes=passes, tiles=tiles, trips=trips,
        found=e * passes / (tiles * trips), lanes=lanes, rows=rows / tiles,
    )  # fmt: skip


def _hit(distance: float, g: Gpu) -> float:
    with jax.enable_x64(True):
        return float(hit_probability(distance, g.l2_capacity_bytes * g.l2_effective_ratio, g.l2_ways))


def _load(p: Rows, s: RowSchedule, g: Gpu, n: SimpleNamespace, resident: int) -> Action:
    own, shared = n.found * p.read_bytes, n.found * p.shared_bytes / (s.rows_per_cta * n.passes)
    beside = n.rows * p.row_read_bytes / n.trips
    warm = max(
        p.warm * g.l2_retention * _hit(n.e * (p.read_bytes + p.write_bytes), g),
        p.first_pass * _hit(n.e * p.read_bytes, g),
    )
    flight = _hit(n.e * p.read_bytes * min(g.sm_count * resident / n.tiles, 1), g)
    found = (warm + (n.passes - 1) * max(warm, flight)) / n.passes
    missed = own * (1 - found)
    missed += min(p.cols * p.shared_bytes / (n.tiles * n.trips), shared)
    missed += min(p.rows * p.row_read_bytes / (n.tiles * n.trips), beside)
    asked = own + shared + beside
    latency = g.l2_latency_s + (g.ddr_latency_s - g.l2_latency_s) * (1 - found)
    return Action("load", Demand(fabric_bytes=asked, l2_bytes=asked, ddr_bytes=missed), latency_s=latency)


def _stored(name: str, size: float, sectors: float = 1.0) -> Action:
    moved = Demand(fabric_bytes=size * sectors, l2_bytes=size * sectors, ddr_bytes=size)
    return Action(name, moved, writes=True)


def _halvings(count: float) -> int:
    return math.ceil(math.log2(min(max(count, 1), 32)))


def _reduced(p: Rows, s: RowSchedule, g: Gpu, n: SimpleNamespace) -> float:
    threads = min(p.group_cols / n.v, s.cta_threads) if p.group_cols else s.cta_threads / s.rows_per_cta
    clocks = 30 * (_halvings(threads) + _halvings(threads / 32)) + (40 if threads > 32 else 0)
    return p.reductions * clocks / g.clock_hz


def _table(p: Rows, s: RowSchedule, g: Gpu) -> TileProgram:
    n, whole = _counts(p, s), p.passes > 1
    warps = math.ceil(s.cta_threads / 32)
    kept = n.row_steps * s.unroll * n.v if whole and s.keep == KEEP_REGISTERS else 0
    registers = math.ceil(24 + s.stages * s.unroll * s.vector_bytes * p.read_bytes / p.element_bytes / 4 + kept)
    smem = 4 * warps * max(p.reductions, 1)
    smem += p.cols * s.rows_per_cta * p.element_bytes if whole and s.keep == KEEP_SMEM else 0
    file = warps * math.ceil(registers * 32 / g.register_granularity) * g.register_granularity
    part = SimpleNamespace(smem=smem, cta_registers=file, threads=int(s.cta_threads), columns=0)
    resident = max(gemm_fit.residency(part, g)[0], 1)

    vectors, inputs = n.lanes / n.v, p.read_bytes / p.element_bytes
    writes = 1 / n.passes if p.write_bytes else 0
    path = vectors * (inputs * max(s.vector_bytes, 4) + writes * max(n.v * p.write_bytes, 4))
    path += 2 * n.lanes * p.element_bytes if whole and s.keep == KEEP_SMEM else 0
    work = Demand(
        cuda_flop=n.lanes * p.cuda_flop / n.passes + 2 * vectors * (inputs + writes + 2),
        sfu_op=n.lanes * p.sfu_op / n.passes,
        smem_bytes=path,
    )
    written = n.found * p.write_bytes / n.passes
    run = max(min(p.run_bytes, 32 * n.v * p.write_bytes), 1)
    sectors = max(32 / run, 1)
    late = whole and s.keep != KEEP_L2
    split = s.splits > 1 and p.reductions > 0 and not p.group_cols
    results, workspace = p.rows * p.row_write_bytes, 4 * p.rows * s.splits * p.reductions
    added = Reduction()
    if split:
        seconds = g.dependent_launch_s + g.l2_latency_s + (workspace + results) / g.l2_bytes_per_s
        added = Reduction(seconds=seconds, workspace_bytes=workspace, write_bytes=results)
    return TileProgram(
        tiles=n.tiles,
        footprint=Footprint(smem_bytes=smem, threads=s.cta_threads, registers=file, tmem_columns=0),
        registers_per_thread=registers,
        before=(Action("lookup", Demand(), latency_s=p.lookups * g.ddr_latency_s),),
        loop=Loop(
            (
                _load(p, s, g, n, resident),
                Action("compute", work),
                Action("reduce", Demand(), latency_s=_reduced(p, s, g, n)),
                _stored("store", 0 if late else written, sectors),
            ),
            n.trips,
            (Needs("compute", "load"), Needs("reduce", "compute"), Needs("store", "reduce"),
             Buffer("load", "compute", s.stages)),
            ahead=s.stages,
        ),
        after=(
            _stored("write", written * n.trips if late else 0, sectors),
            _stored("write_rows", n.rows * (4 * p.reductions if split else p.row_write_bytes / s.splits)),
        ),
        flop=n.e * p.cuda_flop,
        persistent=s.persistent,
        helpers_s=_first_pass(p, g) if p.first_pass else 0.0,
        reduction=added,
    )  # fmt: skip


def _first_pass(p: Rows, g: Gpu) -> float:
    size = p.rows * p.cols * p.read_bytes
    missed = size * (1 - p.warm * g.l2_retention * _hit(size, g))
    moved = max(size / g.l2_bytes_per_s, missed / g.ddr_bytes_per_s)
    return g.dependent_launch_s + g.cta_launch_s + g.ddr_latency_s + moved


def _reason(p: Rows, s: RowSchedule) -> Reason:
    n = _counts(p, s)
    if s.vector_bytes < p.element_bytes:
        return Reason.VECTOR
    if not s.steps and p.cols * p.element_bytes % s.vector_bytes:
        return Reason.VECTOR
    by_row = p.reductions > 0 and not p.group_cols
    each = s.cta_threads / s.rows_per_cta
    uneven = each % 1 != 0 or (each % 32 != 0 and 32 % each != 0)
    if (
        (by_row and s.steps) or (p.passes > 1 and s.splits > 1) or math.ceil(n.row / n.part) < s.splits
        or s.rows_per_cta > min(s.cta_threads, p.rows) or uneven
    ):  # fmt: skip
        return Reason.ROW_PARTS
    return Reason.NOTHING_KEPT if s.keep != KEEP_REGISTERS and p.passes == 1 else Reason.OK
