"""Scalar twin of attention's cost: one candidate at a time, in Python numbers, by docs/attention.md.

It shares with the product the records, the hit probability and nothing else: cycles of the warpgroups' schedule are
walked one by one, with every warpgroup written out. `p`, `s`, `g` are a candidate's problem, schedule and GPU.
"""

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, NamedTuple

from jaxmodel.kernels.attention_types import Attention, AttentionSchedule
from jaxmodel.machine import Gpu
from jaxmodel.reasons import Reason
from jaxmodel.types import PIPELINES

from . import gemm_fit, gemm_totals
from .attention_arcs import block_seconds
from .attention_work import hit, lines_of, whole_work


class Candidate(NamedTuple):
    problem: Attention
    schedule: AttentionSchedule
    gpu: Gpu


def costs(candidates: list[Candidate]) -> list[dict[str, Any]]:
    """Every field of `Cost` of every candidate, by name; `pipeline_s` is a tuple."""
    return [_cost(*candidate) for candidate in candidates]


def _cost(p: Attention, s: AttentionSchedule, g: Gpu) -> dict[str, Any]:
    n = p.numbers
    g = replace(
        g,
        tensor_efficiency=g.tensor_efficiency * n.tensor_efficiency,
        joule_per_tensor_flop=g.joule_per_tensor_flop * n.power_scale,
    )
    part = _footprint(p, s, g)
    resident, limiter = gemm_fit.residency(part, g)
    r = max(resident, 1)
    w = whole_work(p, s)
    d = _demands(p, s, g, w)
    t = _times(p, s, g, d, min(g.sm_count, w.tiles))
    block_s = block_seconds(t, int(s.order))
    tile = _tile(p, s, g, d, t)
    end_s, mean_s = _makespan(p, s, g, w, t, tile, block_s, r)
    whole = {name: w.blocks * d.block[name] + w.tiles * d.once[name] for name in PIPELINES}
    pipeline_s = {
        name: whole[name] / (rate if name in ("l2", "ddr") else rate * g.sm_count) if rate else 0.0
        for name, rate in _rates(g).items()
    }
    kernel_s = max(tile.loads_once + end_s + tile.drain_once, *pipeline_s.values())
    slots = g.sm_count * r
    turns = max(w.tiles / slots, 1)
    time: dict[str, Any] = {
        "launch_s": g.launch_overhead_s + n.framework_s + (0 if p.head_dim == 128 else n.other_dims_s),
        "reduction_s": _combine(p, s, g, w),
        "tail_s": max(end_s - mean_s, 0) if w.tiles > slots else 0.0,
    }
    time["prologue_s"] = min(tile.loads_once + turns * max(tile.first - block_s, 0), kernel_s - time["tail_s"])
    left = kernel_s - time["tail_s"] - time["prologue_s"]
    time["epilogue_s"] = min(turns * tile.store + tile.drain_once, left)
    latency_s = kernel_s + time["reduction_s"] + time["launch_s"]
    spilled = _workspace(p, s, w) * (1 - hit(_workspace(p, s, w), g))
    out_bytes = w.rows * p.v_dim * p.out_bytes
    stored = w.tiles * d.store["ddr"]
    read = whole["ddr"] - stored + spilled
    written = stored / g.ddr_write_cost + (out_bytes if s.splits > 1 else 0)
    joules = (
        whole["tensor"] * g.joule_per_tensor_flop + whole["smem"] * g.joule_per_smem_byte
        + whole["l2"] * g.joule_per_l2_byte + (read + written) * g.joule_per_ddr_byte
    )  # fmt: skip
    throttle_s, energy_j = gemm_totals.power(g, latency_s, pipeline_s, joules)
    time["steady_s"] = left - time["epilogue_s"] + throttle_s
    time["latency_s"] = latency_s + throttle_s
    time["starved"] = t.latency + t.load > 1.1 * s.stages * block_s
    bound = gemm_totals.bound(time, pipeline_s)
    time["helpers_s"] = (
        n.helper_q * w.rows * (p.head_dim * p.q_bytes + p.v_dim * p.out_bytes) + n.helper_kv * w.kv_bytes
    ) / g.ddr_bytes_per_s
    time["latency_s"] += time["helpers_s"]
    loads = {name: w.blocks * d.load[name] + w.tiles * d.query[name] for name in ("l15", "l2", "ddr")}
    l2_hit = min(max(1 - loads["ddr"] / loads["l15"], 0), 1)
    return {
        **{name: value for name, value in time.items() if name.endswith("_s")},
        "reason": int(_reason(p, s, g, part, resident, w)),
        "bound": bound,
        "pipeline_s": tuple(pipeline_s[name] for name in PIPELINES),
        "flop": 2.0 * w.pairs * (p.head_dim + p.v_dim),
        "l15_bytes": whole["l15"],
        "l2_bytes": whole["l2"],
        "ddr_read_bytes": read,
        "ddr_write_bytes": written,
        "ddr_bytes": read + written,
        "l15_hit": min(max(1 - loads["l2"] / loads["l15"], 0), 1, l2_hit),
        "l2_hit": l2_hit,
        "waves": w.tiles / slots,
        "ctas_per_sm": resident,
        "occupancy_limiter": limiter,
        "registers_per_thread": part.per_thread,
        "smem_bytes": part.smem,
        "threads": part.threads,
        "workspace_bytes": _workspace(p, s, w),
        "sms_used": min(g.sm_count, w.tiles),
        "energy_j": energy_j,
        "tiles": w.tiles,
    }


def _depths(p: Attention, g: Gpu) -> tuple[float, float]:
    depth = g.mma.k_bytes / p.kv_bytes
    return math.ceil(p.head_dim / depth) * depth, math.ceil(p.v_dim / g.mma.n) * g.mma.n


def _buffers(s: AttentionSchedule, g: Gpu) -> int:
    return 2 if g.mma.accumulator_in_tmem and s.order in (1, 3) and s.warpgroups == 1 else 1


def _footprint(p: Attention, s: AttentionSchedule, g: Gpu) -> SimpleNamespace:
    D, V = _depths(p, g)
    x, y, threads, tmem = s.tile_m, s.tile_n, 128 * s.warpgroups, bool(g.mma.accumulator_in_tmem)
    held = x * V / threads + x * y / threads
    if s.order in (1, 3) and not s.p_in_smem:
        held += x * y / threads * min(p.kv_bytes, 2) / 4
    if s.q_in_registers:
        held += x * D * p.q_bytes / (4 * threads)
    if tmem:
        held = 2 * min(y, 64)
    per_thread = s.registers_measured or math.ceil(held) + 32
    others = g.mma.async_copy_threads + (128 if tmem else 0)
    warp = lambda each: math.ceil(each * 32 / g.register_granularity) * g.register_granularity  # noqa: E731
    ring = s.stages * (y * (D + V) * p.kv_bytes + 32)
    q_tile, out_tile = x * D * p.q_bytes, x * V * p.out_bytes
    smem = max(ring, out_tile) if s.q_in_registers else ring + max(q_tile, out_tile)
    smem += min(p.kv_bytes, 2) * x * y if s.p_in_smem else 0
    columns = x / g.mma.m * (_buffers(s, g) * y + V)
    return SimpleNamespace(
        per_thread=per_thread,
        threads=threads + others,
        cta_registers=4 * s.warpgroups * warp(per_thread) + math.ceil(others / 32) * warp(24),
        smem=s.smem_measured_bytes or smem,
        columns=next((size for size in (32, 64, 128, 256, 512) if columns <= size), 1024) if tmem else 0,
    )


def _reason(p: Attention, s: AttentionSchedule, g: Gpu, part: Any, resident: int, w: Any) -> Reason:
    shared, tmem = bool(g.mma.operands_in_smem), bool(g.mma.accumulator_in_tmem)
    rows = g.mma.m if shared or tmem else 4 * g.mma.m
    checks = [
        (s.tile_n % max(g.mma.n, 16) != 0, Reason.MMA_SHAPE),
        (s.tile_m % (rows * s.warpgroups) != 0, Reason.WARP_TILE),
        (s.order in (2, 3) and s.warpgroups < 2 and not tmem, Reason.PRODUCT_ORDER),
        (s.order > 0 and not (shared or tmem), Reason.PRODUCT_ORDER),
        (s.q_in_registers and tmem, Reason.OPERAND_PLACE),
        (s.p_in_smem and not (shared or tmem), Reason.OPERAND_PLACE),
        (s.splits > w.longest, Reason.SPLIT_KV),
        (s.head_section > 0 and s.longest_first < 1, Reason.SAME_ORDER),
        (part.smem > g.smem_per_cta_max_bytes, Reason.SMEM),
        (part.per_thread > g.registers_per_thread_max, Reason.REGISTERS),
        (part.threads > 1024, Reason.THREADS),
        (part.cta_registers > g.registers_per_sm, Reason.REGISTER_FILE),
        (part.columns > g.tmem_columns, Reason.TMEM),
        (resident < 1, Reason.SMEM),
        (w.tiles >= 2**24, Reason.TILE_COUNT),
    ]
    return next((code for failed, code in checks if failed), Reason.OK)


def _rates(g: Gpu) -> dict[str, float]:
    clock = g.clock_hz
    port = g.sm_port_bytes_per_clock
    if g.l15_capacity_bytes > 0:
        port = min(port, g.l15_bytes_per_clock_group / max(g.l15_group_sms, 1))
    rates = (
        g.tensor_flop_per_clock_sm * g.tensor_efficiency * clock, g.cuda_flop_per_clock_sm * clock,
        g.sfu_op_per_clock_sm * clock, g.tmem_bytes_per_clock_sm * clock, g.smem_bytes_per_clock_sm * clock,
        port * clock, g.l2_bytes_per_s, g.ddr_bytes_per_s, 0.0,
    )  # fmt: skip
    return dict(zip(PIPELINES, rates, strict=True))


def _busy(demand: dict[str, float], g: Gpu, sms: float) -> dict[str, float]:
    return {
        name: demand[name] / rate * (sms if name in ("l2", "ddr") else 1) if rate else 0.0
        for name, rate in _rates(g).items()
    }


def _pace(a: float, b: float, loss: float) -> float:
    d = abs(a - b)
    return max(a, b) + (math.sqrt(d * d + 4 * loss * loss * a * b) - d) / 2


def _memory(v: dict[str, float], g: Gpu) -> float:
    return _pace(_pace(v["l15"], v["l2"], g.overlap_loss), v["ddr"], g.overlap_loss)


def _section(p: Attention, s: AttentionSchedule, g: Gpu) -> float:
    line = p.kv_tokens * (p.head_dim + p.v_dim) * p.kv_bytes
    held = math.floor(0.5 * g.l2_capacity_bytes * g.l2_effective_ratio / line)
    return min(max(s.head_section or held, 1), p.kv_heads)


def _demands(p: Attention, s: AttentionSchedule, g: Gpu, w: Any) -> SimpleNamespace:
    D, V = _depths(p, g)
    x, y = s.tile_m, s.tile_n
    tmem, shared = bool(g.mma.accumulator_in_tmem), bool(g.mma.operands_in_smem or g.mma.accumulator_in_tmem)
    zero = dict.fromkeys(PIPELINES, 0.0)
    times = x / g.mma.m if shared else 4 * s.warpgroups
    q_again = 0 if s.q_in_registers else x * D * p.q_bytes * math.ceil(y / g.mma.n_max)
    u = min(p.kv_bytes, 2)
    qk = zero | {"tensor": 2 * x * y * D, "smem": y * D * p.kv_bytes * times + q_again}
    pv = zero | {
        "tensor": 2 * x * y * V,
        "smem": y * V * p.kv_bytes * times + (2 * u * x * y if s.p_in_smem else 0),
    }
    softmax = zero | {
        "sfu": x * y + x, "cuda": 8 * x * y + (0 if tmem else 2 * x * V), "tmem": (4 + u) * x * y if tmem else 0.0
    }  # fmt: skip

    first = w.classes[0]
    k = y * (p.head_dim + p.v_dim) * p.kv_bytes * first.keys / (y * math.ceil(first.keys / y))
    a_head = first.tiles * first.lines / (p.batch * p.kv_heads)
    flight = min(max(g.sm_count / (a_head * s.splits), 1), w.kv_lines)
    if s.longest_first:
        flight = max(flight, _section(p, s, g))
    line = p.kv_tokens * (p.head_dim + p.v_dim) * p.kv_bytes
    row = p.head_dim * p.q_bytes + p.v_dim * p.out_bytes
    f = min(w.kv_bytes / (w.blocks * k), 1)
    warm = p.kv_warm * g.l2_retention * hit(w.kv_bytes, g)
    miss = f * (1 - warm) + (1 - f) * (1 - hit(flight * line + g.sm_count * x * row, g))
    sharers = max(min(g.l15_group_sms, a_head), 1)
    near = min((1 - 1 / sharers) * hit(k, g, l15=True), 1 - miss)
    load = zero | {"smem": k, "l15": k, "l2": k * (1 - near), "ddr": k * miss}

    rows = w.rows * s.splits / w.tiles
    q = rows * p.head_dim * p.q_bytes
    q_warm = p.q_warm * g.l2_retention * hit(w.rows * p.head_dim * p.q_bytes, g)
    query = zero | {"smem": q, "l15": q, "l2": q, "ddr": q * (1 - q_warm) / s.splits}
    o = rows * p.v_dim * (4 if s.splits > 1 else p.out_bytes)
    lost = 1 - hit(_workspace(p, s, w), g) if s.splits > 1 else 1
    store = zero | {
        "cuda": 2 * x * p.v_dim, "sfu": x, "tmem": 4 * x * p.v_dim if tmem else 0.0,
        "smem": 2 * x * p.v_dim * p.out_bytes, "l15": o, "l2": o, "ddr": o * lost * g.ddr_write_cost,
    }  # fmt: skip
    block = {name: qk[name] + pv[name] + softmax[name] + load[name] for name in PIPELINES}
    once = {name: query[name] + store[name] for name in PIPELINES}
    return SimpleNamespace(
        qk=qk, pv=pv, softmax=softmax, load=load, query=query, store=store, block=block, once=once, miss=miss
    )


def _workspace(p: Attention, s: AttentionSchedule, w: Any) -> float:
    return w.rows * (p.v_dim + 2) * 4 * s.splits if s.splits > 1 else 0.0


def _combine(p: Attention, s: AttentionSchedule, g: Gpu, w: Any) -> float:
    if s.splits <= 1:
        return 0.0
    ws, out = _workspace(p, s, w), w.rows * p.v_dim * p.out_bytes
    moved = max((ws + out) / g.l2_bytes_per_s, (ws * (1 - hit(ws, g)) + out * g.ddr_write_cost) / g.ddr_bytes_per_s)
    return (p.numbers.combine_s or g.dependent_launch_s) + moved


def _times(p: Attention, s: AttentionSchedule, g: Gpu, d: Any, sms: float) -> SimpleNamespace:
    W = s.warpgroups
    loss = 0.0 if g.mma.operands_in_smem or g.mma.accumulator_in_tmem else g.overlap_loss
    qk, pv, softmax = (_busy(part, g, sms) for part in (d.qk, d.pv, d.softmax))
    return SimpleNamespace(
        W=int(W),
        q=_pace(qk["tensor"], qk["smem"], loss) / W,
        v=_pace(pv["tensor"], pv["smem"], loss) / W,
        s=max((softmax["sfu"] + softmax["cuda"]) * p.numbers.softmax_scale, softmax["tmem"]) / W,
        e=g.mma_latency_s,
        h=p.numbers.handover_s,
        load=_memory(_busy(d.load, g, sms), g),
        latency=g.l2_latency_s
        + (g.ddr_latency_s - g.l2_latency_s) * d.miss
        + (g.l2_latency_s if p.kv_page_tokens > 0 else 0),
        stages=int(s.stages),
        buffers=_buffers(s, g),
    )


def _tile(p: Attention, s: AttentionSchedule, g: Gpu, d: Any, t: Any) -> SimpleNamespace:
    first = max(t.q + t.e + t.s + (t.W - 1) * max(t.q, t.s), t.load / 2) + t.v + p.numbers.tile_setup_s
    loads = g.cta_launch_s + t.latency + t.load / 2 + _memory(_busy(d.query, g, 1), g)
    store = _busy(d.store, g, 1)
    staged = max(store[name] for name in ("cuda", "sfu", "tmem", "smem"))
    drain = max(store["l15"], _pace(store["l2"], g.store_exposure * store["ddr"], g.overlap_loss))
    if s.persistent:
        return SimpleNamespace(first=first, store=staged, loads_once=loads, drain_once=drain)
    return SimpleNamespace(first=loads + first, store=max(staged, drain), loads_once=0.0, drain_once=0.0)


def _makespan(
    p: Attention, s: AttentionSchedule, g: Gpu, w: Any, t: Any, tile: Any, block_s: float, r: int
) -> tuple[float, float]:
    sms, P = g.sm_count, s.splits
    fixed = tile.first + tile.store - block_s
    engine = max(t.W * max(t.q + t.v, t.s), t.load)
    longest = fixed + max(math.ceil(c.longest / P) for c in w.classes) * block_s
    mean = max(w.blocks * engine / sms, (w.tiles * fixed + w.blocks * block_s) / (sms * r))
    end = max(longest, mean)
    for c in w.classes:
        for k in (2, 3, 4, 6, 8, math.ceil(c.tiles * c.lines * P / sms)):
            number = c.tiles - math.floor((k - 1) * sms / (c.lines * P))
            if number >= 1:
                n = math.ceil(c.blocks_of(number) / P)
                if p.window > 0:
                    n = min(n, lines_of(c, P) / c.tiles)
                tau = fixed + n * block_s
                end = max(end, max(tau, k * n * engine) if k <= r else max(k * n * engine, k * tau / r))
    if w.tiles > sms * r:
        late = p.numbers.imbalance * longest
        end = max(end, mean + late, _last_tile(p, s, g, w, (fixed, block_s), g.sm_count * r, mean, longest) + late)
    return end, mean


def _last_tile(
    p: Attention, s: AttentionSchedule, g: Gpu, w: Any, tau: tuple[float, float], slots: float, mean: float,
    longest: float,
) -> float:  # fmt: skip
    """End of the longest tile that is launched last, 0 where none is launched after the slots are full."""
    P = s.splits
    count = [c.lines * P * c.tiles for c in w.classes]
    blocks = [lines_of(c, P) / c.tiles for c in w.classes]
    variance = [
        (max(c.longest - c.blocks_of(1), 0) / P) ** 2 * (c.tiles + 1) / (12 * max(c.tiles - 1, 1)) for c in w.classes
    ]
    fixed, block_s = tau
    classes = list(zip(count, blocks, variance, strict=True))
    squares = sum(n * ((fixed + b * block_s) ** 2 + v * block_s**2) for n, b, v in classes)
    residual = squares / (2 * (w.tiles * fixed + w.blocks * block_s))
    spread = sum(n * (b * b + v) for n, b, v in classes)
    unequal = min(max(100 * (spread * w.tiles / w.blocks**2 - 1), 0), 1)
    before = mean
    if s.longest_first:
        last = w.classes[-1]
        share = min(_section(p, s, g) * (1 if s.pack_gqa else p.heads / p.kv_heads), last.lines) / last.lines
        if w.tiles - share * count[-1] < slots:
            return 0.0
        before = mean * (1 - share * last.lines * P * lines_of(last, P) / w.blocks)
    return before + unequal * max(longest - residual, 0) if before > 0 else 0.0
