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


def dependency_arc(source: str, target: str, weight_s: Floats, distance: int = 0) -> Arc:
    """`target` needs what `source` made `distance` iterations ago: `weight_s` (its service and latency) after the
    source's start."""
    return Arc(source, target, weight_s, distance)


def buffer_arc(acquired_by: str, released_by: str, release_s: Floats, capacity: Floats | int) -> Arc:
    """A ring of `capacity` buffers: `acquired_by` may start once `released_by`, `capacity` iterations ago, is through
    with its own, `release_s` after its start (its service; its latency too where the buffer is needed till then)."""
    return Arc(released_by, acquired_by, release_s, capacity)


def engine_arcs(order: Sequence[tuple[str, int]], held_s: Mapping[str, Floats]) -> list[Arc]:
    """An engine that does its actions one after the other, in this order, again in every round.

    Args:
        order: the engine's actions, each once, with the iteration it does relative to the round: (("qk", 1), ("pv", 0))
            does qk of iteration j + 1 and then pv of iteration j.
        held_s: seconds that an action keeps the engine, by its name.

    Returns:
        p_i -> p_{i+1} of weight held_s(p_i) and distance [wraps] + k_{i+1} - k_i, k the iterations. Where they differ,
        every action also follows itself: this adds nothing to long loops but holds at a loop's ends.
    """
    arcs = []
    for position, (action, ahead) in enumerate(order):
        follower, follower_ahead = order[(position + 1) % len(order)]
        wraps = int(position + 1 == len(order))
        arcs.append(Arc(action, follower, held_s[action], wraps + follower_ahead - ahead))
    if len({ahead for _, ahead in order}) > 1:
        arcs += [Arc(action, action, held_s[action], 1) for action, _ in order]
    return arcs


def legal_orders(engine: Sequence[tuple[str, int]], arcs: Sequence[Arc]) -> list[tuple[tuple[str, int], ...]]:
    """The orders in which an engine can do its actions so that none waits for itself.

    Args:
        engine: its actions with their iterations as in `engine_arcs`, in any order; at most `LARGEST_ENGINE`.
        arcs: all others of the loop (dependencies, buffers, engines whose order is settled); only ends and distances
            matter.

    Raises:
        ValueError: more actions than are enumerated.
    """
    if len(engine) > LARGEST_ENGINE:
        raise ValueError(
            f"an engine of {len(engine)} actions has too many orders to try; name its order, or make it engines of at "
            f"most {LARGEST_ENGINE} actions"
        )
    held_s = dict.fromkeys((action for action, _ in engine), 0.0)
    return [order for order in permutations(engine) if not cycle_without_distance([*arcs, *engine_arcs(order, held_s)])]


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
