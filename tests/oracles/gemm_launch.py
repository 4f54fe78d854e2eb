"""Scalar twin of launches on GEMM's grid as tile programs: stream-K, split-K's second kernel.

By docs/dequantised-gemm.md and docs/fused-gemm.md; used by the twins of kernels that are built on GEMM's tile.
"""

import math
from types import SimpleNamespace
from typing import Any

from jaxmodel.machine import Gpu
from jaxmodel.occupancy import Footprint
from jaxmodel.program.records import Action, Buffer, Loop, Needs, Reduction, TileProgram
from jaxmodel.reasons import Reason
from jaxmodel.resources import Demand
from jaxmodel.types import PIPELINES, Gemm, GemmSchedule

from . import gemm, gemm_fit

FIELDS = (
    "tensor_flop", "cuda_flop", "sfu_op", "tmem_bytes", "smem_bytes", "fabric_bytes", "l2_bytes", "ddr_bytes",
    "net_bytes",
)  # fmt: skip
Amounts = dict[str, float]


def amounts(**asked: float) -> Amounts:
    """Of every pipeline, by field of `Demand`; 0 where nothing is asked."""
    return dict.fromkeys(FIELDS, 0.0) | asked


def load(g: Gpu, traffic: SimpleNamespace) -> Action:
    """One K-step's load."""
    u, h2, h15 = traffic.u, traffic.h2, traffic.h15
    latency = g.l2_latency_s + (g.ddr_latency_s - g.l2_latency_s) * (1 - h2) + g.mma_latency_s
    return Action(
        "load",
        Demand(**amounts(fabric_bytes=u, l2_bytes=u * (1 - h15), ddr_bytes=u * (1 - h2))),
        latency_s=latency,
    )


def stored(
    p: Gemm, s: GemmSchedule, g: Gpu, part: SimpleNamespace, grid: SimpleNamespace, traffic: SimpleNamespace
) -> Amounts:
    """One GEMM tile's epilogue, DDR bytes as bytes."""
    epilogue = gemm.demands(p, s, g, part, grid, traffic).epilogue
    found = dict(zip(FIELDS, (epilogue[name] for name in PIPELINES), strict=True))
    return found | {"ddr_bytes": found["ddr_bytes"] / g.ddr_write_cost}


def launched(
    p: Gemm,
    s: GemmSchedule,
    g: Gpu,
    part: SimpleNamespace,
    grid: SimpleNamespace,
    traffic: SimpleNamespace,
    actions: tuple[Action, ...],
    arcs: tuple[Needs | Buffer, ...],
    after: tuple[tuple[Action, Amounts], ...],
    added: dict[str, float] | None = None,
) -> TileProgram:
    """The program; `after` has each action's amounts beside it, `added` read, written, cuda of the second kernel."""
    drained = tuple(
        Action(action.name, Demand(**asked), latency_s=action.latency_s, writes=action.writes)
        for action, asked in after
    )
    workspace = gemm.workspace_bytes(p, s, grid)
    spilled = workspace * traffic.workspace_lost
    seconds, read, results = gemm.reduction(p, s, g, grid, traffic), spilled, p.m * p.n * p.batch * p.out_bytes
    if s.split_k > 1 and added:
        through_l2 = (added["read"] + added["written"]) / g.l2_bytes_per_s
        through_ddr = (added["read"] + added["written"] * g.ddr_write_cost) / g.ddr_bytes_per_s
        seconds += max(through_l2, through_ddr, added["cuda"] / (g.cuda_flop_per_clock_sm * g.clock_hz * g.sm_count))
        read += added["read"]
        results += added["written"]
    return TileProgram(
        tiles=grid.tiles,
        footprint=Footprint(
            smem_bytes=part.smem, threads=part.threads, registers=part.cta_registers, tmem_columns=part.columns
        ),
        registers_per_thread=part.registers,
        loop=Loop(actions=actions, trips=grid.k_steps, arcs=arcs, ahead=s.stages),
        after=drained,
        flop=2.0 * p.m * p.n * p.k * p.batch,
        persistent=bool(s.persistent),
        overlapped=s.epilogue == gemm_fit.OVERLAPPED,
        sms_free=g.sm_count - grid.sms,
        reduction=Reduction(
            seconds=seconds,
            workspace_bytes=workspace,
            read_bytes=read,
            write_bytes=results if s.split_k > 1 else spilled,
        ),
        iterations=grid.rows * grid.cols * p.batch * math.ceil(p.k / s.tile_k),
        streams=s.stream_k,
    )


def reason(
    p: Gemm, s: GemmSchedule, g: Gpu, part: SimpleNamespace, resident: int, grid: SimpleNamespace,
    own: Reason | None, found: dict[str, Any],
) -> Reason:  # fmt: skip
    """Why it cannot run: instruction shapes, the kernel's own reason, the launch, what a CTA occupies, in turn."""
    roomy = SimpleNamespace(
        **vars(part) | {"smem": 0.0, "registers": 0, "threads": 1, "cta_registers": 1, "columns": 0}
    )
    of_gemm = gemm_fit.reason(p, s, g, roomy, 1, grid)
    if of_gemm in (Reason.MMA_SHAPE, Reason.WARP_TILE, Reason.CTA_PAIR, Reason.ALIGNMENT):
        return of_gemm
    if own is not None:
        return own
    if of_gemm != Reason.OK or found["fits"]:
        return of_gemm
    findings = [
        (Reason.SMEM, part.smem > g.smem_per_cta_max_bytes),
        (Reason.REGISTERS, part.registers > g.registers_per_thread_max),
        (Reason.THREADS, part.threads > 1024),
        (Reason.REGISTER_FILE, part.cta_registers > g.registers_per_sm),
        (Reason.TMEM, part.columns > g.tmem_columns),
        (Reason.SMEM, resident == 0),
    ]
    return next(code for code, there in findings if there)
