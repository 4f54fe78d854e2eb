"""What a loop's actions wait for, as arcs: dependencies, buffers and engines that issue in order.

An `Arc` says start(target, i) >= start(source, i - distance) + weight_s for every iteration i. Which arcs there are is
static; the numbers on them are arrays, one element a candidate. `cyclic` says how long a loop of them takes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations

from .types import Floats

LARGEST_ENGINE = 6  # actions whose orders are enumerated: 720


@dataclass(frozen=True, eq=False)
class Arc:
    """start(target, i) >= start(source, i - distance) + weight_s.

    `distance` is a Python int, which may be negative (the source runs ahead), or an array of whole numbers, each at
    least 1: a buffer's capacity that differs between candidates. Pass the same array object wherever the same capacity
    is meant: cycles are merged by it.
    """

    source: str
    target: str
    weight_s: Floats
    distance: Floats | int = 0


def dependency(source: str, target: str, service_s: Floats, latency_s: Floats = 0.0, distance: int = 0) -> Arc:
    """`target` needs what `source` made `distance` iterations ago: service + latency after its start."""
    return Arc(source, target, service_s + latency_s, distance)


def buffer(acquired_by: str, released_by: str, release_s: Floats, capacity: Floats | int) -> Arc:
    """A buffer of `capacity` items: `acquired_by` may start once `released_by`, `capacity` iterations ago, is through
    with its item, `release_s` after its own start (its service; with its latency, if the item is needed till then)."""
    return Arc(released_by, acquired_by, release_s, capacity)


def in_order(
    order: Sequence[str], service_s: Mapping[str, Floats], ahead: Mapping[str, int] | None = None
) -> list[Arc]:
    """An engine that issues its actions in `order`, again and again, one at a time.

    Args:
        order: the engine's actions, each once.
        service_s: seconds that an action keeps the engine, by its name.
        ahead: by how many iterations an action runs ahead of the engine's round, where not 0: with {"qk": 1} round j
            issues qk of iteration j + 1 and everything else of iteration j.

    Returns:
        p_i -> p_{i+1} with weight service(p_i) and distance [wraps] + ahead(p_{i+1}) - ahead(p_i). Where actions run
        ahead, every action also follows itself, which says nothing about long loops but holds at a loop's ends.
    """
    ahead = ahead or {}
    arcs = []
    for position, action in enumerate(order):
        follower = order[(position + 1) % len(order)]
        wraps = int(position + 1 == len(order))
        distance = wraps + ahead.get(follower, 0) - ahead.get(action, 0)
        arcs.append(Arc(action, follower, service_s[action], distance))
        if any(ahead.values()) and len(order) > 1:
            arcs.append(Arc(action, action, service_s[action], 1))
    return arcs


def legal_orders(
    engine: Sequence[str], arcs: Sequence[Arc], ahead: Mapping[str, int] | None = None
) -> list[tuple[str, ...]]:
    """The orders in which an engine can issue its actions so that no cycle of arcs waits for itself.

    Args:
        engine: its actions, at most `LARGEST_ENGINE`.
        arcs: all others of the loop (dependencies, buffers, engines whose order is settled); only ends and distances
            matter.
        ahead: as in `in_order`.

    Raises:
        ValueError: more actions than are enumerated.
    """
    if len(engine) > LARGEST_ENGINE:
        raise ValueError(
            f"an engine of {len(engine)} actions has too many orders; name its order, or split it into "
            f"engines of at most {LARGEST_ENGINE}"
        )
    nothing = dict.fromkeys(engine, 0.0)
    return [
        order for order in permutations(engine) if not cycle_without_distance([*arcs, *in_order(order, nothing, ahead)])
    ]


def cycle_without_distance(arcs: Sequence[Arc]) -> list[str]:
    """Actions along a cycle whose distances add up to 0 or less, arrays counted as 1; empty if there is none."""
    count = len({name for arc in arcs for name in (arc.source, arc.target)}) + 1
    least = dict.fromkeys((name for arc in arcs for name in (arc.source, arc.target)), 0)
    came_from: dict[str, str] = {}
    last = ""
    for _ in range(count):
        last = ""
        for arc in arcs:
            distance = (arc.distance if isinstance(arc.distance, int) else 1) * count - 1
            if least[arc.source] + distance < least[arc.target]:
                least[arc.target] = least[arc.source] + distance
                came_from[arc.target] = last = arc.source
    if not last:
        return []
    for _ in range(count):
        last = came_from[last]
    found = [last]
    while came_from[found[-1]] != last:
        found.append(came_from[found[-1]])
    return [last, *reversed(found)]
