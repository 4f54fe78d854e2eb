"""Scalar twin of decode attention: one candidate in Python numbers, by docs/decode-attention.md.

Its table of records goes to the twin of tile programs, `oracles/program.py`; how all tiles share L2 and DDR is written
out here. Only the hit probability is the product's.
"""

import dataclasses
import math
from types import SimpleNamespace
from typing import Any

import jax

from jaxmodel.cyclic import NEVER_S
from jaxmodel.kernels.decode_attention_types import DecodeAttention, DecodeAttentionSchedule
from jaxmodel.machine import Gpu
from jaxmodel.occupancy import Footprint
from jaxmodel.program.records import Action, Buffer, Loop, Needs, Reduction, TileProgram
from jaxmodel.reasons import Reason
from jaxmodel.resources import Demand
from jaxmodel.sdcm import hit_probability
from jaxmodel.types import BOUNDS, PIPELINES

from . import gemm_fit, gemm_totals, program

GRID, PERSISTENT, STREAM = 0, 1, 2


def cost(p: DecodeAttention, s: DecodeAttentionSchedule, gpu: Gpu) -> dict[str, Any]:
    """Every field of `Cost` by name; `own_reason` is the kernel's, `fits` whether the CTA fits."""
    g = dataclasses.replace(gpu, ddr_bytes_per_s=gpu.ddr_bytes_per_s * p.numbers.read_scale)
    e = _executed(p, s, g)
    c = _cut(p, s, g, e)
    t = _table(p, s, g, e, c)
    found = program.program_cost(t, g) | {"own_reason": _reason(p, s, g, e, c)}
    return found | _times(p, s, g, c, t, found)


def _up(value: float, unit: float) -> int:
    return int(math.ceil(value / unit) * unit)


def _hit(distance: float, g: Gpu, share: float = 1.0) -> float:
    with jax.enable_x64(True):
        return float(hit_probability(distance, g.l2_capacity_bytes * g.l2_effective_ratio * share, g.l2_ways))


def _executed(p: DecodeAttention, s: DecodeAttentionSchedule, g: Gpu) -> SimpleNamespace:
    mma, least = g.mma, min(g.mma.m, 64)
    swapped = s.swap_ab > 0
    x = _up(s.tile_rows, mma.n if swapped else least)
    y = _up(s.tile_n, least if swapped else mma.n)
    elements = p.head_dim + (0 if p.shared_kv else p.v_dim)
    widens = p.kv_bytes < p.q_bytes
    sets = 2 if s.overlap else 1
    if mma.accumulator_in_tmem:
        held = min(x * y / (32 * s.warps), 64)
    else:
        held = (x * p.v_dim + sets * x * y) / (32 * s.warps)
        held += 0 if mma.operands_in_smem else 2 * (mma.m + mma.n) * mma.k_bytes / 128
    registers = s.registers_measured or 40 + math.ceil(held)
    smem = x * p.head_dim * p.q_bytes + s.stages * (y * elements * p.kv_bytes + 32)
    smem += y * elements * p.q_bytes if widens else 0
    smem += x * y * p.q_bytes if swapped and mma.operands_in_smem and not mma.accumulator_in_tmem else 0
    warp = lambda number: _up(32 * number, g.register_granularity)  # noqa: E731
    own = s.warps * warp(registers)
    file = own + math.ceil(mma.async_copy_threads / 32) * warp(40)
    file = min(file, max(own, g.registers_per_sm)) if s.registers_measured else file
    v = p.v_dim / 2 if p.v_dim > 256 else p.v_dim
    lanes = lambda extent: math.ceil(extent / 128)  # noqa: E731
    columns = x * (lanes(p.v_dim) + sets * lanes(y)) if swapped else (v + sets * y) * lanes(x)
    allocated = next((size for size in (32, 64, 128, 256, 512) if columns <= size), 1024)
    footprint = Footprint(
        smem_bytes=s.smem_measured_bytes or smem,
        threads=32 * s.warps + mma.async_copy_threads,
        registers=file,
        tmem_columns=allocated if mma.accumulator_in_tmem else 0,
    )
    return SimpleNamespace(x=x, y=y, E=elements, widens=widens, registers=registers, footprint=footprint, least=least)


def _at_once(p: DecodeAttention, g: Gpu, e: SimpleNamespace) -> float:
    f = e.footprint
    part = SimpleNamespace(smem=f.smem_bytes, cta_registers=f.registers, threads=int(f.threads), columns=f.tmem_columns)
    resident = gemm_fit.residency(part, g)[0]
    return max(min(resident, p.numbers.ctas_per_sm) if p.numbers.ctas_per_sm else resident, 1)


def _cut(p: DecodeAttention, s: DecodeAttentionSchedule, g: Gpu, e: SimpleNamespace) -> SimpleNamespace:
    ratio = p.heads / p.kv_heads
    group = ratio if s.pack_gqa else 1
    R = p.q_tokens * group
    t = math.ceil(R / s.tile_rows)
    O = p.batch * t * (p.kv_heads if s.pack_gqa else p.heads)  # noqa: E741
    u = min(p.q_tokens, s.tile_rows / group)
    hidden = max(0, p.q_tokens - u) / 2 if p.causal else 0
    K = max(1, min(p.kv_tokens - hidden, p.window + u - 1 if p.window else p.kv_tokens))
    n = math.ceil(math.ceil(K) / s.tile_n)
    r = _at_once(p, g, e)
    if s.scheduler == STREAM:
        slots = min(g.sm_count * r, O * n)
        share = math.ceil(O * n / slots)
        rounds = min(math.ceil(O / slots) + 1, share)
        N, beside = math.ceil(share / rounds), math.ceil(slots / g.sm_count)
        parts, T = math.ceil(max(slots / O, 1)), slots * rounds
    else:
        N = math.ceil(n / s.splits)
        parts = math.ceil(n / N)
        T = O * parts
        an_sm = math.ceil(T / g.sm_count)
        rounds = math.ceil(an_sm / r)
        beside = math.ceil(an_sm / rounds)
    return SimpleNamespace(
        R=R, O=O, K=K, n=n, N=N, parts=parts, T=T, rounds=rounds, beside=beside, r=r, rows=R / t,
        readers=t * (1 if s.pack_gqa else ratio), ratio=ratio,
    )  # fmt: skip


def _reason(p: DecodeAttention, s: DecodeAttentionSchedule, g: Gpu, e: SimpleNamespace, c: SimpleNamespace) -> Reason:
    mma, own = g.mma, p.numbers
    side = mma.n if s.swap_ab else e.least
    if (s.tile_rows > side and e.x > s.tile_rows) or e.y > s.tile_n or (s.swap_ab and e.x > mma.n_max):
        return Reason.MMA_SHAPE
    group = 4 if mma.operands_in_smem else 1
    long, short = (e.y, e.x) if s.swap_ab else (e.x, e.y)
    if s.warps % group or s.warps / group > long / e.least * max(1, short / max(mma.n, 16)):
        return Reason.WARP_TILE
    if s.splits > c.n or (s.scheduler == STREAM and s.splits > 1):
        return Reason.SPLIT_KV
    if s.combine and s.splits < 2 and s.scheduler != STREAM:
        return Reason.SPLIT_KV
    wide = p.head_dim > 128
    rows, keys = (own.wide_tile_rows, own.wide_tile_n) if wide else (own.tile_rows, own.tile_n)
    other = (rows and s.tile_rows != rows) or (keys and s.tile_n != keys)
    other = other or (own.swapped_rows and s.swap_ab != (own.swapped_rows >= c.R))
    other = other or (own.unpacked_rows and s.pack_gqa != (c.ratio <= own.unpacked_rows))
    whole = c.n <= own.split_blocks and s.scheduler != STREAM
    return Reason.LIBRARY if other or s.splits > (1 if whole else own.split_cap) else Reason.OK


def _moved(name: str, size: float, latency: float, ddr: float, smem: float = 0.0) -> Action:
    return Action(name, Demand(fabric_bytes=size, l2_bytes=size, ddr_bytes=ddr, smem_bytes=smem), latency_s=latency)


def _cache_bytes(p: DecodeAttention, e: SimpleNamespace) -> float:
    return p.batch * p.kv_heads * p.kv_tokens * e.E * p.kv_bytes


def _table(
    p: DecodeAttention, s: DecodeAttentionSchedule, g: Gpu, e: SimpleNamespace, c: SimpleNamespace
) -> TileProgram:
    own, split = p.numbers, c.parts > 1
    rows_all = p.batch * p.q_tokens * p.heads
    b = s.tile_n * e.E * p.kv_bytes
    warm = p.kv_warm * _hit(_cache_bytes(p, e), g, own.cache_share)
    missing = (1 - (warm + c.readers - 1) / c.readers) * c.O * c.K / (c.T * c.N * s.tile_n)
    asked = b + (4 * s.tile_n / p.page_tokens if p.page_tokens else 0)
    latency = g.l2_latency_s + (g.ddr_latency_s - g.l2_latency_s) * missing
    work = c.O * c.rows * (p.v_dim + 1) * 4 * c.parts if split else 0.0
    kept = _hit(work, g)
    stored = c.rows * ((p.v_dim + 1) * 4 if split else p.v_dim * p.out_bytes)
    query = c.rows * p.head_dim * p.q_bytes
    xy = e.x * e.y
    out = rows_all * p.v_dim * p.out_bytes
    ddr = g.ddr_bytes_per_s
    moved_s = max(work / g.l2_bytes_per_s, work * (1 - kept) / ddr) + out * g.ddr_write_cost / ddr if split else 0.0
    if s.combine:
        port = g.sm_port_bytes_per_clock * g.clock_hz
        combine_s = g.fixup_latency_s + work / (min(c.O, g.sm_count) * port) if split else 0.0
    else:
        launched = split or (own.combine_always and c.n > own.split_blocks)
        combine_s = own.combine_scale * g.dependent_launch_s + moved_s if launched else 0.0
    q_and_o = rows_all * (p.head_dim * p.q_bytes + p.v_dim * p.out_bytes)
    keys = max(1, p.kv_tokens - ((p.q_tokens - 1) / 2 if p.causal else 0))
    keys = min(keys, p.window) if p.window else keys
    return TileProgram(
        tiles=c.T,
        footprint=e.footprint,
        registers_per_thread=e.registers,
        before=(
            Action("page_table", Demand(), latency_s=g.l2_latency_s if p.page_tokens else 0.0),
            _moved("load_q", query, 0.0, query),
        ),
        loop=Loop(
            actions=(
                _moved("load", asked, latency, asked * missing, b),
                Action(
                    "qk",
                    Demand(
                        tensor_flop=2 * xy * p.head_dim, smem_bytes=e.y * p.head_dim * p.q_bytes,
                        cuda_flop=2 * e.y * e.E if e.widens else 0,
                    ),
                    latency_s=g.mma_latency_s,
                ),
                Action("softmax", Demand(sfu_op=xy, cuda_flop=6 * xy), overhead_s=own.step_s, held="cuda"),
                Action(
                    "pv",
                    Demand(tensor_flop=2 * xy * p.v_dim, smem_bytes=e.y * p.v_dim * p.q_bytes),
                    latency_s=g.mma_latency_s,
                ),
            ),
            trips=c.N,
            arcs=(
                Needs("qk", "load"),
                Needs("softmax", "qk"),
                Needs("pv", "softmax"),
                Needs("qk", "softmax", distance=2),
                Needs("qk", "pv", distance=1, hand_over_s=-NEVER_S if s.overlap else 0.0),
                Buffer("load", "pv", s.stages),
            ),
        ),
        after=(
            Action(
                "write",
                Demand(
                    cuda_flop=2 * e.x * p.v_dim, fabric_bytes=stored, l2_bytes=stored,
                    ddr_bytes=stored * (1 - (kept if split else 0)),
                ),
                writes=True,
            ),
        ),
        flop=2 * p.batch * p.heads * p.q_tokens * keys * (p.head_dim + p.v_dim),
        helpers_s=(own.helper_q * q_and_o + own.helper_kv * _cache_bytes(p, e)) / ddr,
        reduction=Reduction(
            seconds=combine_s, workspace_bytes=work, read_bytes=work * (1 - kept), write_bytes=out if split else 0.0
        ),
    )  # fmt: skip


def _pace(a: float, b: float, loss: float) -> float:
    """The larger x with (x - a)(x - b) = loss^2 a b."""
    return (a + b + math.sqrt((a - b) ** 2 + 4 * loss**2 * a * b)) / 2


def _times(
    p: DecodeAttention,
    s: DecodeAttentionSchedule,
    g: Gpu,
    c: SimpleNamespace,
    t: TileProgram,
    base: dict[str, Any],
) -> dict[str, Any]:
    own, q = p.numbers, g.overlap_loss
    tile = program._tile(t, g, 1.0)
    span, _, _ = program._finite_loop(tile, c.N, 1.0)
    _, interval, loop = program._finite_loop(tile, c.N, c.beside)
    loading = tile.ends["load"] - t.loop.actions[0].latency_s
    setup = (own.wide_tile_setup_s if p.head_dim > 128 else own.tile_setup_s) + own.row_s * c.rows
    first = tile.before + span - loading + setup
    again = max(0, first - tile.latencies) if s.scheduler == PERSISTENT else g.cta_launch_s + first
    again += tile.after
    private = c.rounds * max(loop + loading, c.beside * tile.engine)
    whole: dict[str, float] = dict(zip(PIPELINES, base["pipeline_s"], strict=True))
    shared = (c.readers - 1) / c.readers
    memory = _pace(whole["l2"] * (1 - shared + shared / own.shared_read_scale), whole["ddr"], q)
    steady = _pace((c.rounds - 1) * again, _pace(private, memory, q), own.overhead_loss)
    late = own.long_batch and p.batch > own.long_batch
    sequence = own.long_batch_sequence_s if late else own.sequence_s
    time = {
        "prologue_s": g.cta_launch_s + first + p.batch * sequence,
        "steady_s": steady,
        "epilogue_s": tile.after,
        "tail_s": 0.0 if s.scheduler == STREAM else math.sqrt(3) * p.context_spread * c.N * interval,
        "reduction_s": t.reduction.seconds,
        "launch_s": g.launch_overhead_s + own.framework_s,
    }
    latency = sum(time.values())
    blocks = t.tiles * t.loop.trips
    joules = (
        blocks * sum(a.demand.tensor_flop for a in t.loop.actions) * g.joule_per_tensor_flop
        + blocks * sum(a.demand.smem_bytes for a in t.loop.actions) * g.joule_per_smem_byte
        + base["l2_bytes"] * g.joule_per_l2_byte
        + base["ddr_bytes"] * g.joule_per_ddr_byte
    )
    throttle, energy = gemm_totals.power(g, latency, whole, joules)
    time["steady_s"] += throttle
    latency += throttle
    return time | {
        "latency_s": latency + t.helpers_s,
        "bound": _bound(t, tile, c, whole, latency, time, private > memory),
        "waves": t.tiles / (g.sm_count * c.r),
        "energy_j": energy,
    }


def _bound(
    t: TileProgram,
    tile: SimpleNamespace,
    c: SimpleNamespace,
    whole: dict[str, float],
    latency: float,
    time: dict[str, float],
    own_pace: bool,
) -> int:
    if time["launch_s"] + time["reduction_s"] > latency / 2:
        return BOUNDS.index("launch")
    if time["epilogue_s"] > latency / 2:
        return BOUNDS.index("epilogue")
    chain = program._interval(tile.waits)
    in_loop = program._interval(tile.arcs) > 1.1 * max(c.beside * tile.M, chain)
    if own_pace and (in_loop or tile.latencies > 1.1 * c.beside * tile.engine):
        return BOUNDS.index("latency")
    return PIPELINES.index(max(PIPELINES, key=lambda name: whole[name]))
