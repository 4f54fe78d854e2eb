"""Scalar twin of what a tile program costs: one candidate at a time, in Python numbers, by docs/tile-programs.md.

It shares with the product the records and the finite loop of `jaxmodel.cyclic`, which has a twin of its own
(`oracles/cyclic.py`). A kernel's twin writes its own table of records in Python floats and asks here what it costs.
"""

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import jax

from jaxmodel.arcs import Arc, buffer_arc, dependency_arc, engine_arcs
from jaxmodel.cyclic import initiation_interval, loop_times
from jaxmodel.machine import Gpu
from jaxmodel.program.records import Action, Buffer, InOrder, Needs, TileProgram
from jaxmodel.types import PIPELINES

from . import gemm_fit, gemm_totals

OWN = ("tensor", "cuda", "sfu", "tmem", "smem")
AMOUNTS: dict[str, str] = dict(
    zip(
        PIPELINES,
        ("tensor_flop", "cuda_flop", "sfu_op", "tmem_bytes", "smem_bytes", "fabric_bytes", "l2_bytes", "ddr_bytes",
         "net_bytes"),
        strict=True,
    )
)  # fmt: skip


def program_cost(t: TileProgram, g: Gpu) -> dict[str, Any]:
    """Every field of `Cost`, by name, beside `reason`'s: that of the kernel's own checks is the caller's to find;
    `fits` says whether the CTA fits, `pipeline_s` is a tuple."""
    part = SimpleNamespace(
        smem=t.footprint.smem_bytes, cta_registers=t.footprint.registers, threads=int(t.footprint.threads),
        columns=t.footprint.tmem_columns,
    )  # fmt: skip
    resident, limiter = gemm_fit.residency(part, g)
    sms = max(g.sm_count - t.sms_free, 1.0)
    slots = sms * max(resident, 1)
    time = _kernel_time(t, g, sms, slots)
    mean_trips = t.loop.trips if t.iterations is None else t.iterations / t.tiles
    every = [(a, 1.0) for a in (*t.before, *t.after)] + [(a, mean_trips) for a in t.loop.actions]
    whole = {name: t.tiles * sum(n * _amount(a, name, g) for a, n in every) for name in PIPELINES}
    pipeline_s = gemm_totals.pipeline_seconds(g, whole, _rates(g) | {"net": t.net_bytes_per_s or 0.0})
    loads = {name: sum(n * _amount(a, name, None) for a, n in every if not a.writes) for name in ("l15", "l2", "ddr")}
    read = t.tiles * loads["ddr"] + t.reduction.read_bytes
    written = t.tiles * sum(n * _amount(a, "ddr", None) for a, n in every if a.writes) + t.reduction.write_bytes
    joules = (
        whole["tensor"] * g.joule_per_tensor_flop
        + whole["smem"] * g.joule_per_smem_byte
        + whole["l2"] * g.joule_per_l2_byte
        + (read + written) * g.joule_per_ddr_byte
    )
    time["latency_s"] += t.communication_s
    throttle_s, energy_j = gemm_totals.power(g, time["latency_s"], pipeline_s, joules)
    time["latency_s"] += throttle_s
    time["steady_s"] += throttle_s
    bound = gemm_totals.bound(time, pipeline_s)
    time["latency_s"] += t.helpers_s
    l2_hit = min(max(1.0 - loads["ddr"] / loads["l15"], 0.0), 1.0) if loads["l15"] else 1.0
    l15_hit = min(max(1.0 - loads["l2"] / loads["l15"], 0.0), l2_hit) if loads["l15"] else 1.0
    return {
        **{name: value for name, value in time.items() if name.endswith("_s")},
        "helpers_s": t.helpers_s,
        "bound": bound,
        "pipeline_s": tuple(pipeline_s[name] for name in PIPELINES),
        "flop": t.flop,
        "l15_bytes": whole["l15"],
        "l2_bytes": whole["l2"],
        "ddr_read_bytes": read,
        "ddr_write_bytes": written,
        "ddr_bytes": read + written,
        "l15_hit": l15_hit,
        "l2_hit": l2_hit,
        "waves": t.tiles / slots,
        "ctas_per_sm": resident,
        "occupancy_limiter": limiter,
        "registers_per_thread": t.registers_per_thread,
        "smem_bytes": part.smem,
        "threads": part.threads,
        "workspace_bytes": t.reduction.workspace_bytes,
        "sms_used": min(t.tiles, sms),
        "energy_j": energy_j,
        "fits": _fits(t, g, part, resident),
        "tiles": t.tiles,
    }


def _fits(t: TileProgram, g: Gpu, part: SimpleNamespace, resident: int) -> bool:
    within = (
        part.smem <= g.smem_per_cta_max_bytes and t.registers_per_thread <= g.registers_per_thread_max
        and part.threads <= 1024 and part.cta_registers <= g.registers_per_sm and part.columns <= g.tmem_columns
    )  # fmt: skip
    return bool(within and resident >= 1 and t.tiles < 2**24 and t.sms_free < g.sm_count)


def _rates(g: Gpu) -> dict[str, float]:
    port = g.sm_port_bytes_per_clock
    if g.l15_capacity_bytes > 0:
        port = min(port, g.l15_bytes_per_clock_group / g.l15_group_sms)
    per_clock = {
        "tensor": g.tensor_flop_per_clock_sm * g.tensor_efficiency, "cuda": g.cuda_flop_per_clock_sm,
        "sfu": g.sfu_op_per_clock_sm, "tmem": g.tmem_bytes_per_clock_sm, "smem": g.smem_bytes_per_clock_sm, "l15": port,
    }  # fmt: skip
    rates = {name: rate * g.clock_hz for name, rate in per_clock.items()}
    return rates | {"l2": g.l2_bytes_per_s, "ddr": g.ddr_bytes_per_s, "net": 0.0}


def _amount(a: Action, pipeline: str, g: Gpu | None) -> float:
    """What an action asks; of a writing one's DDR bytes their cost in bytes read, where the GPU is given."""
    cost = g.ddr_write_cost if g is not None and a.writes and pipeline == "ddr" else 1.0
    return getattr(a.demand, AMOUNTS[pipeline]) * cost


# One tile


def _busy(a: Action, g: Gpu, sms: float) -> dict[str, float]:
    rate = {name: value / sms if name in gemm_totals.SHARED else value for name, value in _rates(g).items()}
    busy: dict[str, float] = {name: _amount(a, name, g) / rate[name] if rate[name] else 0.0 for name in PIPELINES}
    busy[a.held] += a.overhead_s
    return busy


def _pace(a: float, b: float, loss: float) -> float:
    """The larger x with (x - a)(x - b) = loss^2 a b."""
    return (a + b + math.sqrt((a - b) ** 2 + 4 * loss**2 * a * b)) / 2


def _memory(v: dict[str, float], loss: float) -> float:
    return _pace(_pace(max(v["l15"], v["net"]), v["l2"], loss), v["ddr"], loss)


def _arithmetic(v: dict[str, float]) -> float:
    return max(v[name] for name in OWN)


def _tile(t: TileProgram, g: Gpu, sms: float) -> SimpleNamespace:
    q, n = g.overlap_loss, t.loop.trips
    service = lambda v: _pace(_memory(v, q), _arithmetic(v), q)  # noqa: E731
    before = [_busy(a, g, sms) for a in t.before]
    inside = {a.name: _busy(a, g, sms) for a in t.loop.actions}
    after = [_busy(a, g, sms) for a in t.after]
    once = {name: sum(v[name] for v in inside.values()) for name in PIPELINES}
    whole = {name: n * once[name] + sum(v[name] for v in (*before, *after)) for name in PIPELINES}
    m, c = _memory(once, q), _arithmetic(once)
    served = {name: service(v) for name, v in inside.items()}
    exposed = [
        max(_arithmetic(v), v["l15"], _pace(v["l2"], g.store_exposure * v["ddr"], q))
        if a.writes
        else service(v) + a.latency_s
        for a, v in zip(t.after, after, strict=True)
    ]
    return SimpleNamespace(
        m=m,
        c=c,
        M=_pace(m, c, q),
        before=sum(service(v) + a.latency_s for a, v in zip(t.before, before, strict=True)),
        after=sum(exposed),
        after_latencies=sum(a.latency_s for a in t.after if not a.writes),
        engine=_pace(_pace(max(_arithmetic(whole), whole["l15"], whole["net"]), whole["l2"], q), whole["ddr"], q),
        latencies=sum(a.latency_s for a in (*t.before, *t.loop.actions)),
        arcs=_arcs(t, served, True),
        waits=_arcs(t, served, False),
        ends={a.name: served[a.name] + a.latency_s for a in t.loop.actions},
    )


def _arcs(t: TileProgram, served: dict[str, float], buffers: bool) -> list[Arc]:
    latency = {a.name: a.latency_s for a in t.loop.actions}
    found: list[Arc] = []
    for arc in t.loop.arcs:
        match arc:
            case Needs():
                found.append(
                    dependency_arc(arc.of, arc.action, served[arc.of] + latency[arc.of] + arc.hand_over_s, arc.distance)
                )
            case Buffer() if buffers:
                weight = served[arc.freed_by] + arc.hand_over_s
                found.append(buffer_arc(arc.filled_by, arc.freed_by, weight, arc.slots))
            case InOrder():
                found += engine_arcs(arc.order, {name: served[name] + arc.hand_over_s for name, _ in arc.order})
    return found


# Waves


def _finite_loop(tile: SimpleNamespace, trips: float, resident: float) -> tuple[float, float, float]:
    with jax.enable_x64(True):
        found = loop_times(tile.arcs, tile.ends, trips, tile.M, resident)
        return float(found.span_s), float(found.interval_s), float(found.loop_s)


def _interval(arcs: list[Arc]) -> float:
    with jax.enable_x64(True):
        return float(initiation_interval(arcs))


def _wave(t: TileProgram, g: Gpu, size: float, sms: float) -> SimpleNamespace:
    r = max(math.ceil(size / sms), 1)
    tile, n = _tile(t, g, max(size / r, 1.0)), t.loop.trips
    span, interval, alone_loop = _finite_loop(tile, n, 1.0)
    _, _, loop = _finite_loop(tile, n, float(r))
    first, chain = tile.before + span, max(tile.c, _interval(tile.waits))
    served = tile.after - tile.after_latencies
    store = tile.after + (r - 1) * max(0.0, served - tile.M)
    engines = r * tile.engine
    exposed = max(n * chain + tile.after, n * tile.m + max(0.0, tile.after - t.loop.ahead * tile.m))
    if t.overlapped:
        exposed = max(n * tile.M, tile.after)
    streaming = max(n * interval, exposed) if t.loop.ahead > 0 else first + alone_loop + tile.after
    starved = _interval(tile.arcs) > 1.1 * max(r * tile.M, _interval(tile.waits))
    return SimpleNamespace(
        fill=g.cta_launch_s + first,
        loop=max(loop, engines - first - store),
        store=store,
        period=max(engines, g.cta_launch_s + first + alone_loop + tile.after),
        persistent_period=max(engines, streaming),
        starved=starved or tile.latencies > 1.1 * r * tile.engine,
    )


def wave_ends(t: TileProgram, g: Gpu) -> SimpleNamespace:
    """Slots, the first wave, a wave in the middle, the last by itself, and all of them; seconds."""
    part = SimpleNamespace(
        smem=t.footprint.smem_bytes, cta_registers=t.footprint.registers, threads=int(t.footprint.threads),
        columns=t.footprint.tmem_columns,
    )  # fmt: skip
    sms = max(g.sm_count - t.sms_free, 1.0)
    slots = sms * max(gemm_fit.residency(part, g)[0], 1)
    main = _wave(t, g, min(t.tiles, slots), sms)
    first = main.fill + main.loop + main.store
    tile = main.persistent_period if t.persistent else main.period
    time = _kernel_time(t, g, sms, slots)
    whole = time["prologue_s"] + time["steady_s"] + time["epilogue_s"] + time["tail_s"]
    last = time["tail_s"] if t.tiles > slots and t.tiles % slots else first
    return SimpleNamespace(slots=int(slots), first=first, tile=tile, last=last, all=whole)


def _kernel_time(t: TileProgram, g: Gpu, sms: float, slots: float) -> dict[str, Any]:
    whole = t.tiles // slots
    left = t.tiles - whole * slots if whole else 0
    at_once, waves, persistent = min(t.tiles, slots), max(whole, 1), t.persistent
    if t.streams:
        left, at_once, waves, persistent = 0, slots, max(t.tiles / slots, 1), True
        if t.tiles < slots:
            t = replace(t, loop=replace(t.loop, trips=math.ceil(t.loop.trips * t.tiles / slots)))
    main = _wave(t, g, at_once, sms)
    period = main.persistent_period if persistent else main.period
    middle, steady_each = waves - 1, min(period, main.loop)
    rest = period - steady_each
    to_fill = 0.0 if persistent else main.fill / (main.fill + main.store)
    tail_s = 0.0
    if left:
        tail = _wave(t, g, left, sms)
        tail_s = tail.persistent_period if persistent else tail.fill + tail.loop + tail.store
    launch_s = g.launch_overhead_s + t.framework_s
    parts = {
        "prologue_s": main.fill + middle * rest * to_fill,
        "steady_s": main.loop + middle * steady_each,
        "epilogue_s": main.store + middle * rest * (1 - to_fill),
        "tail_s": tail_s,
        "reduction_s": t.reduction.seconds,
        "launch_s": launch_s,
    }
    return parts | {"latency_s": sum(parts.values()), "starved": main.starved}
