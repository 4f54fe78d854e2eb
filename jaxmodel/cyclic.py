"""Cyclic schedules: the initiation interval and the finite time of a loop of actions that wait for each other.

A loop body is a set of named actions. An `Arc` says start(target, i) >= start(source, i - distance) + weight_s for
every iteration i; dependencies, buffers and in-order engines are all arcs. In the long run an iteration takes the
**minimum initiation interval**, the largest weight / distance over the cycles of arcs (a cycle of weight w and distance
d says that an action starts at least w after its own start d iterations ago). A finite loop takes `loop_times`.

Which arcs there are is static, Python's; the numbers on them are arrays, one element a candidate. Cycles are found at
trace time by eliminating one action after the other: a path of arcs through the eliminated action becomes one arc, and
of several arcs with the same ends and the same distance only the heaviest stays. So what runs is a few dozen additions
and maxima, with no loop and no gather, and it is differentiable.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import jax.numpy as jnp

from ._exact import floor_div
from .arcs import Arc as Arc
from .arcs import buffer_arc as buffer_arc
from .arcs import cycle_without_distance
from .arcs import dependency_arc as dependency_arc
from .arcs import engine_arcs as engine_arcs
from .arcs import legal_orders as legal_orders
from .types import Array, Bools, Floats


class Cycle(NamedTuple):
    """The heaviest cycle of one distance: seconds and iterations, arrays or numbers."""

    weight_s: Floats
    distance: Floats | int


def cycles(arcs: Sequence[Arc]) -> tuple[Cycle, ...]:
    """For every distance that a cycle of `arcs` has, the heaviest cycle of it (empty without cycles).

    Distances are told apart by their static part and by the array objects in them. Every simple cycle is covered; the
    rest are closed walks, joined of simple cycles, and bind nothing new in the long run.

    Raises:
        ValueError: naming the actions, if a cycle's distance cannot be positive (arrays counted as 1): it would wait
            for itself. An array's cycle with negative static parts is legal here; see `deadlocks`.
    """
    stuck = cycle_without_distance(arcs)
    if stuck:
        raise ValueError(
            f"the actions {' -> '.join(stuck)} wait for each other within one iteration: the distances of these arcs "
            "add up to 0 or less; give one of them a distance of 1 or more, or order the engine otherwise"
        )
    arrays = {id(arc.distance): arc.distance for arc in arcs if not isinstance(arc.distance, int)}
    found: dict[_Label, Array] = {}
    for label, weight_s in _eliminate(_graph(arcs)):
        _keep_heaviest(found, label, weight_s)
    return tuple(Cycle(weight_s, _distance(label, arrays)) for label, weight_s in sorted(found.items(), key=_by_label))


def initiation_interval(arcs: Sequence[Arc]) -> Floats:
    """Seconds an iteration in the long run: the largest weight / distance over all cycles, at least 0.

    Where a candidate `deadlocks`, its distance is taken as 1. Raises ValueError as `cycles`.
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
    that has it, each candidate on its own."""
    best_s, best = initiation_interval(alternatives[0]), jnp.int32(0)
    for index, arcs in enumerate(alternatives[1:], start=1):
        interval_s = initiation_interval(arcs)
        best = jnp.where(interval_s < best_s, index, best)
        best_s = jnp.minimum(best_s, interval_s)
    return best_s, best


class LoopTimes(NamedTuple):
    """Seconds of a finite loop. total_s = span_s + loop_s, from the first action's start to the last one's end."""

    span_s: Floats  # one iteration alone
    interval_s: Floats  # an iteration of every resident CTA, in the long run
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

    With n = N - 1, M = `resource_pace_s` and cycles (w, d) of one CTA's arcs:

        p = max(r M, largest w with d = 1)
        loop = (r - 1) M + n p + max over cycles of floor(n / d) max(0, w - d p)
        span = longest path over arcs of distance <= 0, with the last action's duration
        interval = max(p, largest w / d)

    For a load and a computation with s buffers this is `envelope.loop_seconds(r N, r s, ...)`.

    Args:
        arcs: of one CTA; see `cycles`.
        duration_s: of every action, service and latency: what its end is later than its start.
        iterations: N, whole, at least 1.
        resource_pace_s: M, the SM's shared pipelines' demand of one iteration of one CTA.
        resident: r, whole, at least 1.

    Raises:
        ValueError: as `cycles`.
    """
    found = cycles(arcs)
    rest = jnp.maximum(iterations - 1.0, 0.0)
    pace_s = resident * resource_pace_s
    for cycle in found:
        if _is_one(cycle.distance):
            pace_s = jnp.maximum(pace_s, cycle.weight_s)
    refill_s, interval_s = 0.0, pace_s
    for weight_s, distance in found:
        if not _is_one(distance):
            distance = _at_least_one(distance)
            refill_s = jnp.maximum(refill_s, floor_div(rest, distance) * (weight_s - distance * pace_s))
            interval_s = jnp.maximum(interval_s, weight_s / distance)
    loop_s = (resident - 1.0) * resource_pace_s + rest * pace_s + refill_s
    span_s = _span_s(arcs, duration_s)
    return LoopTimes(span_s, interval_s, loop_s, span_s + loop_s)


_Label = tuple[int, tuple[int, ...]]  # a distance: its static part, the ids of the arrays in it
_Graph = dict[str, dict[str, dict[_Label, Array]]]  # source -> target -> distance -> seconds


def _by_label(item: tuple[_Label, Array]) -> tuple[int, int]:
    (static, arrays), _ = item
    return len(arrays), static


def _distance(label: _Label, arrays: Mapping[int, Array]) -> Array:
    static, names = label
    total = static
    for name in names:
        total = total + arrays[name]
    return total


def _is_one(distance: Array) -> bool:
    return isinstance(distance, int) and distance == 1


def _at_least_one(distance: Array) -> Array:
    return float(distance) if isinstance(distance, int) else jnp.maximum(distance, 1.0)


def _keep_heaviest(weights: dict[_Label, Array], label: _Label, weight_s: Array) -> None:
    weights[label] = jnp.maximum(weights[label], weight_s) if label in weights else weight_s


def _graph(arcs: Sequence[Arc]) -> _Graph:
    graph: _Graph = {name: {} for arc in arcs for name in (arc.source, arc.target)}
    for arc in arcs:
        label = (arc.distance, ()) if isinstance(arc.distance, int) else (0, (id(arc.distance),))
        _keep_heaviest(graph[arc.source].setdefault(arc.target, {}), label, arc.weight_s)
    return graph


def _eliminate(graph: _Graph) -> Iterator[tuple[_Label, Array]]:
    """The cycles through each action among those not yet eliminated, as (distance, weight)."""
    while graph:
        action = min(graph, key=lambda name: _through(graph, name))
        out = graph.pop(action)
        into = {source: targets.pop(action) for source, targets in graph.items() if action in targets}
        yield from out.pop(action, {}).items()
        for source, first in into.items():
            for target, second in out.items():
                joined = graph[source].setdefault(target, {})
                for (static_1, arrays_1), weight_1 in first.items():
                    for (static_2, arrays_2), weight_2 in second.items():
                        label = (static_1 + static_2, tuple(sorted(arrays_1 + arrays_2)))
                        _keep_heaviest(joined, label, weight_1 + weight_2)


def _through(graph: _Graph, action: str) -> int:
    into = sum(len(targets.get(action, ())) for source, targets in graph.items() if source != action)
    return into * sum(len(labels) for target, labels in graph[action].items() if target != action)


def _span_s(arcs: Sequence[Arc], duration_s: Mapping[str, Floats]) -> Floats:
    """Longest path over the arcs within an iteration, and to iterations before it; these arcs have no cycle."""
    within = [arc for arc in arcs if isinstance(arc.distance, int) and arc.distance <= 0]
    start_s: dict[str, Array] = {}

    def start(action: str) -> Array:
        if action not in start_s:
            earliest = 0.0
            for arc in within:
                if arc.target == action:
                    earliest = jnp.maximum(earliest, start(arc.source) + arc.weight_s)
            start_s[action] = earliest
        return start_s[action]

    span_s = 0.0
    for action, seconds in duration_s.items():
        span_s = jnp.maximum(span_s, start(action) + seconds)
    return span_s
