"""One tile of a program in time: its actions, loop and stores while a given number of SMs is at work."""

from dataclasses import dataclass, replace

import jax.numpy as jnp

from .._exact import is_zero
from ..arcs import Arc, buffer_arc, dependency_arc, engine_arcs
from ..envelope import shared_pace
from ..machine import Gpu
from ..resources import Demand, busy_seconds
from ..types import PIPELINES, Floats
from .records import Action, InOrder, Needs, TileProgram

Busy = dict[str, Floats]  # pipeline -> seconds
ARITHMETIC = ("tensor", "cuda", "sfu", "tmem", "smem")


@dataclass(frozen=True)
class TileParts:
    """One tile's times with `active_sms` SMs at work; seconds.

    Attributes:
        before_s: the actions before the loop, one after the other, latencies included.
        load_s, compute_s: of the loop's iteration, on the memory pipelines and on the SM's own.
        pace_s: of an iteration, when the one hides the other as far as `overlap_loss` allows.
        arcs: what waits for what in the loop; `waits` are those without buffers.
        ends_s: action of the loop -> its service and latency.
        latencies_s: of the loads before and in the first iteration.
        after_s: the actions after the loop, exposed; `after_latency_s` of it are latencies, which no engine serves.
        engine_s: the pipelines over the whole tile.
    """

    before_s: Floats
    load_s: Floats
    compute_s: Floats
    pace_s: Floats
    arcs: tuple[Arc, ...]
    waits: tuple[Arc, ...]
    ends_s: dict[str, Floats]
    latencies_s: Floats
    after_s: Floats
    after_latency_s: Floats
    engine_s: Floats


def demand_of(action: Action, gpu: Gpu) -> Demand:
    """What an action asks, its written DDR bytes at their cost in bytes read."""
    if not action.writes:
        return action.demand
    return replace(action.demand, ddr_bytes=action.demand.ddr_bytes * gpu.ddr_write_cost)


def busy_of(action: Action, gpu: Gpu, active_sms: Floats) -> Busy:
    """Seconds each pipeline is held by an action, its overhead included."""
    busy: Busy = dict(zip(PIPELINES, busy_seconds(demand_of(action, gpu), gpu, active_sms), strict=True))
    return busy | {action.held: busy[action.held] + action.overhead_s}


def memory_seconds(busy: Busy, loss: Floats) -> Floats:
    """The memory pipelines together."""
    port_s = _longest(busy, ("l15", "net"))
    return shared_pace(shared_pace(port_s, busy["l2"], loss), busy["ddr"], loss)


def arithmetic_seconds(busy: Busy) -> Floats:
    """The SM's own pipelines together."""
    return _longest(busy, ARITHMETIC)


def _longest(busy: Busy, names: tuple[str, ...]) -> Floats:
    longest = 0.0
    for name in names:
        longest = busy[name] if is_zero(longest) else _larger(longest, busy[name])
    return longest


def _larger(one_s: Floats, other_s: Floats) -> Floats:
    return one_s if is_zero(other_s) else jnp.maximum(one_s, other_s)


def service_seconds(busy: Busy, loss: Floats) -> Floats:
    """How long an action is served."""
    return shared_pace(memory_seconds(busy, loss), arithmetic_seconds(busy), loss)


def exposed_seconds(action: Action, busy: Busy, gpu: Gpu) -> Floats:
    """How long a tile waits for an action after its loop: of a store's DDR time only `store_exposure`."""
    if not action.writes:
        return service_seconds(busy, gpu.overlap_loss) + action.latency_s
    written_s = shared_pace(busy["l2"], gpu.store_exposure * busy["ddr"], gpu.overlap_loss)
    return jnp.maximum(_longest(busy, (*ARITHMETIC, "l15")), written_s)


def total_busy(parts: list[Busy]) -> Busy:
    """Busy times added up, a pipeline at a time."""
    return {name: sum(part[name] for part in parts) for name in PIPELINES}


def tile_parts(program: TileProgram, gpu: Gpu, active_sms: Floats) -> TileParts:
    """One tile's times while `active_sms` SMs draw on L2 and DDR; its loop has `program.loop.trips` iterations."""
    loss, loop = gpu.overlap_loss, program.loop
    before = [busy_of(action, gpu, active_sms) for action in program.before]
    inside = [busy_of(action, gpu, active_sms) for action in loop.actions]
    after = [busy_of(action, gpu, active_sms) for action in program.after]
    iteration = total_busy(inside)
    load_s, compute_s = memory_seconds(iteration, loss), arithmetic_seconds(iteration)
    times = zip(loop.actions, inside, strict=True)
    durations = {action.name: service_seconds(busy, loss) for action, busy in times}
    arcs = _arcs(program, durations)
    looped = {name: 0.0 if is_zero(each) else loop.trips * each for name, each in iteration.items()}
    whole = total_busy([looped, *before, *after])
    engine_s = _longest(whole, (*ARITHMETIC, "l15", "net"))
    for name in ("l2", "ddr"):
        engine_s = shared_pace(engine_s, whole[name], loss)
    return TileParts(
        before_s=sum(
            service_seconds(busy, loss) + action.latency_s for action, busy in zip(program.before, before, strict=True)
        ),
        load_s=load_s,
        compute_s=compute_s,
        pace_s=shared_pace(load_s, compute_s, loss),
        arcs=arcs,
        waits=_arcs(program, durations, buffers=False),
        ends_s={action.name: durations[action.name] + action.latency_s for action in loop.actions},
        latencies_s=sum(action.latency_s for action in (*program.before, *loop.actions)),
        after_s=sum(exposed_seconds(action, busy, gpu) for action, busy in zip(program.after, after, strict=True)),
        after_latency_s=sum(action.latency_s for action in program.after if not action.writes),
        engine_s=engine_s,
    )


def _arcs(program: TileProgram, durations: dict[str, Floats], buffers: bool = True) -> tuple[Arc, ...]:
    latencies = {action.name: action.latency_s for action in program.loop.actions}
    arcs: list[Arc] = []
    for arc in program.loop.arcs:
        if isinstance(arc, Needs):
            weight_s = durations[arc.of] + latencies[arc.of] + arc.hand_over_s
            arcs.append(dependency_arc(arc.of, arc.action, weight_s, arc.distance))
        elif isinstance(arc, InOrder):
            arcs.extend(engine_arcs(arc.order, {name: durations[name] + arc.hand_over_s for name, _ in arc.order}))
        elif buffers:
            weight_s = durations[arc.freed_by] + arc.hand_over_s
            arcs.append(buffer_arc(arc.filled_by, arc.freed_by, weight_s, arc.slots))
    return tuple(arcs)
