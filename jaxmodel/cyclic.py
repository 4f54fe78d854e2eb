"""Cyclic schedules: the initiation interval and the finite time of a loop of actions that wait for each other.

In the long run an iteration takes the **minimum initiation interval**, the largest weight / distance over the cycles of
`arcs`: a cycle of weight w and distance d says that an action starts at least w after its own start d iterations ago.
A finite loop takes `loop_times`. Both are elementwise over candidates, differentiable, without a loop.

Over 12,000 drawn loops of 4 to 12 actions, against the loop unrolled: the interval is exact; the time of 98 of 100
loops is too, the others are off by -3 to +8 % and by less than 1.1 intervals (`scripts/check_tile_times.py`). CTAs
whose pipelines serve whoever asks first, in no order that an arc knows of, take 1 to 6 % longer in the mean than this.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from graphlib import TopologicalSorter
from typing import NamedTuple

import jax.numpy as jnp

from ._exact import floor_div
from .arcs import Arc as Arc
from .arcs import buffer_arc as buffer_arc
from .arcs import dependency_arc as dependency_arc
from .arcs import engine_arcs as engine_arcs
from .arcs import legal_orders as legal_orders
from .cycles import Cycle as Cycle
from .cycles import cycles as cycles
from .types import Array, Bools, Floats

NEVER_S = 1e9  # an arc that is not there weighs less by this


def initiation_interval(arcs: Sequence[Arc]) -> Floats:
    """Seconds an iteration in the long run: the largest weight / distance over all cycles, at least 0.

    Where a candidate `deadlocks`, distances below 1 count as 1. Raises ValueError as `cycles`.
    """
    interval_s = 0.0
    for cycle in cycles(arcs):
        interval_s = jnp.maximum(interval_s, cycle.weight_s / _at_least_one(cycle.distance))
    return interval_s


def deadlocks(arcs: Sequence[Arc]) -> Bools:
    """Where a cycle through buffers has no distance left: too few buffers for actions that run ahead."""
    stuck = jnp.bool_(False)
    for cycle in cycles(arcs):
        stuck = stuck | (cycle.distance < 1)
    return stuck


def best_order(alternatives: Sequence[Sequence[Arc]]) -> tuple[Floats, Array]:
    """The least initiation interval over alternative sets of arcs (one an order), and the index of the first of them
    that has it, each candidate on its own. `alternatives` must hold at least one."""
    best_s, best = initiation_interval(alternatives[0]), jnp.int32(0)
    for index, arcs in enumerate(alternatives[1:], start=1):
        interval_s = initiation_interval(arcs)
        best = jnp.where(interval_s < best_s, index, best)
        best_s = jnp.minimum(best_s, interval_s)
    return best_s, best


class LoopTimes(NamedTuple):
    """Seconds of a finite loop. total_s = span_s + loop_s, from the first action's start to the last one's end."""

    span_s: Floats  # of one iteration: filling and draining
    interval_s: Floats  # between iterations in the long run, each of every resident CTA
    loop_s: Floats  # what all other iterations add
    total_s: Floats


def loop_times(
    arcs: Sequence[Arc],
    duration_s: Mapping[str, Floats],
    iterations: Floats,
    resource_pace_s: Floats = 0.0,
    resident: Floats = 1.0,
) -> LoopTimes:
    """A loop of N iterations, run by r CTAs side by side on one SM.

    With M = `resource_pace_s` and the cycles (w, d) of one CTA's arcs:

        p        = max(r M, largest w with d = 1)
        loop     = (r - 1) M + (N - 1) p + max over cycles of floor((N - 1) / d) max(0, w - d p)
        interval = max(r M, largest w / d)
        span     = longest path over the arcs of one iteration, its last action's duration included

    Where actions run ahead (arcs of negative distance) span is that of the last iteration behind a steady loop, see
    `_span_behind_s`. For a load and a computation with s buffers loop is `envelope.loop_seconds(r N, r s, ...)`.

    Args:
        arcs: of one CTA; see `cycles`.
        duration_s: of every action, service and latency: from its start to when its result is there.
        iterations: N, whole, at least 1, below 2^24.
        resource_pace_s: M, the SM's shared pipelines' demand of one iteration of one CTA.
        resident: r, whole, at least 1.

    Raises:
        ValueError: as `cycles`.
    """
    found = cycles(arcs)
    rest = jnp.maximum(iterations - 1.0, 0.0)
    waits_s, refill_s = 0.0, 0.0
    for weight_s, distance in found:
        if _is_one(distance):
            waits_s = jnp.maximum(waits_s, weight_s)
    pace_s = jnp.maximum(resident * resource_pace_s, waits_s)
    behind_s = jnp.maximum(resource_pace_s, waits_s)
    for weight_s, distance in found:
        if not _is_one(distance):
            distance = _at_least_one(distance)
            rate_s = weight_s / distance
            waits_s = jnp.maximum(waits_s, rate_s)
            behind_s = jnp.maximum(behind_s, jnp.where(rest >= distance, rate_s, 0.0))
            refill_s = jnp.maximum(refill_s, floor_div(rest, distance) * (weight_s - distance * pace_s))
    loop_s = (resident - 1.0) * resource_pace_s + rest * pace_s + refill_s
    span_s = _span_s(arcs, duration_s, rest, behind_s)
    return LoopTimes(span_s, jnp.maximum(resident * resource_pace_s, waits_s), loop_s, span_s + loop_s)


def _is_one(distance: Array) -> bool:
    return isinstance(distance, int) and distance == 1


def _at_least_one(distance: Array) -> Array:
    return float(distance) if isinstance(distance, int) else jnp.maximum(distance, 1.0)


_Starts = Mapping[str, Array]  # action -> seconds


def _span_s(arcs: Sequence[Arc], duration_s: Mapping[str, Floats], rest: Floats, interval_s: Floats) -> Floats:
    within = [arc for arc in arcs if _at_most(arc, 0) and not _at_most(arc, -1)]
    first_s = _pushed(dict.fromkeys(duration_s, 0.0), _sorted(within))
    alone_s = _last_end_s(first_s, duration_s)
    if not any(_at_most(arc, -1) for arc in arcs):
        return alone_s
    behind_s = _span_behind_s(arcs, first_s, duration_s, rest, interval_s)
    return jnp.where(rest > 0, behind_s, alone_s)


def _span_behind_s(
    arcs: Sequence[Arc], first_s: _Starts, duration_s: Mapping[str, Floats], rest: Floats, interval_s: Floats
) -> Floats:
    """End of the last iteration, counted from N - 1 intervals, behind a loop that starts with iteration 0 and goes on
    at the interval. Iteration 0 waits for none before it, the last one for none after it."""
    within = [_reduced(arc, interval_s, True) for arc in arcs if _at_most(arc, 0) and not _at_most(arc, -1)]
    ahead = [_reduced(arc, interval_s, rest >= -arc.distance) for arc in arcs if _at_most(arc, -1)]
    back = [_reduced(arc, interval_s, _at_most(arc, 1) or rest >= arc.distance) for arc in arcs if not _at_most(arc, 0)]
    steady_s: _Starts = dict.fromkeys(duration_s, -interval_s)
    for before_s in (first_s, None):  # a second time round: an arc back, arcs within, an arc back, arcs within
        steady_s = _pushed(_pulled(before_s or steady_s, steady_s, back), _sorted([*within, *ahead]))
    from_first_s = jnp.where(rest > 1, NEVER_S, 0.0)
    before_s = {action: jnp.maximum(first_s[action] - from_first_s, steady_s[action]) for action in duration_s}
    last_s = _pushed(_pulled(before_s, dict.fromkeys(duration_s, -NEVER_S), back), _sorted(within))
    return jnp.maximum(_last_end_s(last_s, duration_s), _last_end_s(steady_s, duration_s) - interval_s)


def _at_most(arc: Arc, distance: int) -> bool:
    return isinstance(arc.distance, int) and arc.distance <= distance


def _reduced(arc: Arc, interval_s: Floats, there: Bools) -> Arc:
    weight_s = arc.weight_s - interval_s * arc.distance
    return replace(arc, weight_s=weight_s if there is True else jnp.where(there, weight_s, -NEVER_S))


def _pulled(sources_s: _Starts, targets_s: _Starts, arcs: Sequence[Arc]) -> dict[str, Array]:
    later_s = dict(targets_s)
    for arc in arcs:
        later_s[arc.target] = jnp.maximum(later_s[arc.target], sources_s[arc.source] + arc.weight_s)
    return later_s


def _pushed(starts_s: _Starts, arcs: Sequence[Arc]) -> dict[str, Array]:
    later_s = dict(starts_s)
    for arc in arcs:
        later_s[arc.target] = jnp.maximum(later_s[arc.target], later_s[arc.source] + arc.weight_s)
    return later_s


def _sorted(arcs: Sequence[Arc]) -> list[Arc]:
    """Arcs without a cycle, so that those to an action stand before those from it."""
    waits = {arc.target: {other.source for other in arcs if other.target == arc.target} for arc in arcs}
    place = {action: index for index, action in enumerate(TopologicalSorter(waits).static_order())}
    return sorted(arcs, key=lambda arc: place[arc.source])


def _last_end_s(starts_s: _Starts, duration_s: Mapping[str, Floats]) -> Floats:
    end_s = 0.0
    for action, seconds in duration_s.items():
        end_s = jnp.maximum(end_s, starts_s[action] + seconds)
    return end_s
