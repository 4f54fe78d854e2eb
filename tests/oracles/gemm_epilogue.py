"""Scalar twin of a GEMM with a fused epilogue, one candidate at a time in Python numbers, by docs/fused-gemm.md."""

import math
from types import SimpleNamespace
from typing import Any, NamedTuple

from jaxmodel.kernels.gemm_epilogue_types import GemmEpilogue
from jaxmodel.machine import Gpu
from jaxmodel.program.records import Action, Buffer, Needs, TileProgram
from jaxmodel.reasons import Reason
from jaxmodel.resources import Demand
from jaxmodel.types import PIPELINES, Gemm, GemmSchedule

from . import gemm, gemm_fit, gemm_launch, gemm_scaling, program


class Candidate(NamedTuple):
    problem: GemmEpilogue
    schedule: GemmSchedule
    gpu: Gpu


def costs(candidates: list[Candidate]) -> list[dict[str, Any]]:
    """Every field of `Cost` of every candidate, by name; `pipeline_s` is a tuple."""
    plain = [gemm.Candidate(p.gemm, s, g) for p, s, g in candidates]
    seen = [one._replace(problem=gemm.as_the_tiles_see_it(one)) for one in plain]
    residents = [gemm_fit.residency(gemm_fit.footprint(*one), one.gpu)[0] for one in seen]
    hits = gemm.hits_of(seen, [one.problem for one in plain], residents)
    return [_cost(*of) for of in zip(candidates, seen, residents, hits, strict=True)]


def _cost(one: Candidate, seen: gemm.Candidate, resident: int, hits: gemm.Hits) -> dict[str, Any]:
    q, s, g = seen
    part = gemm_fit.footprint(q, s, g)
    grid = gemm_fit.grid(q, s, g, resident)
    traffic = gemm.traffic_of(q, s, g, grid, hits)
    found = program.program_cost(_table(one.problem, q, s, g, part, grid, traffic), g)
    helpers_s = gemm_scaling.quantise_s(one.problem.gemm, g, hits.quantised)
    found["latency_s"] += helpers_s - found["helpers_s"]
    found["helpers_s"] = helpers_s
    own = Reason.SCALE_BLOCK if _cuts_blocks(one.problem, s) else None
    return found | {"reason": int(gemm_launch.reason(q, s, g, part, resident, grid, own, found))}


def _cuts_blocks(p: GemmEpilogue, s: GemmSchedule) -> bool:
    side = s.tile_m if s.swap_ab else s.tile_n
    block = p.scale_block
    return s.split_k < 2 and side % block != 0 and side < math.ceil(p.gemm.n / block) * block


def _table(
    p: GemmEpilogue, q: Gemm, s: GemmSchedule, g: Gpu, part: SimpleNamespace, grid: SimpleNamespace,
    traffic: SimpleNamespace,
) -> TileProgram:  # fmt: skip
    step = gemm.demands(q, s, g, part, grid, traffic).step
    product = dict(zip(gemm_launch.FIELDS, (step[name] for name in PIPELINES), strict=True))
    product |= dict.fromkeys(("fabric_bytes", "l2_bytes", "ddr_bytes"), 0.0)
    store = gemm_launch.stored(q, s, g, part, grid, traffic)
    outputs = p.gemm.m * p.gemm.n * p.gemm.batch
    residual = bias = 0.0
    if s.split_k < 2:
        elements = grid.tile_elements
        across = grid.cols if s.swap_ab else grid.rows
        columns = p.gemm.n / (grid.rows if s.swap_ab else grid.cols)
        residual, bias = elements * p.read_bytes, columns * p.column_bytes
        store["cuda_flop"] += 2 * p.slots * part.x * part.y
        store["sfu_op"] += p.sfu_op * part.x * part.y
        for level in ("fabric_bytes", "l2_bytes", "ddr_bytes"):
            store[level] += elements * p.scale_bytes
        read = gemm_launch.amounts(
            fabric_bytes=residual + bias, l2_bytes=residual + bias, ddr_bytes=residual + bias / across
        )
    else:
        read = gemm_launch.amounts()
    late = s.epilogue != gemm_fit.OVERLAPPED and residual + bias > 0
    added = {
        "read": outputs * p.read_bytes + p.gemm.n * p.gemm.batch * p.column_bytes,
        "written": outputs * p.scale_bytes,
        "cuda": outputs * 2 * p.slots,
    }
    return gemm_launch.launched(
        q, s, g, part, grid, traffic,
        actions=(
            gemm_launch.load(g, traffic),
            Action("multiply", Demand(**product), overhead_s=g.step_overhead_s),
        ),
        arcs=(Needs("multiply", "load"), Buffer("load", "multiply", s.stages)),
        after=(
            (Action("read", Demand(), latency_s=g.ddr_latency_s if late else 0.0), read),
            (Action("store", Demand(), writes=True), store),
        ),
        added=added,
    )  # fmt: skip
