"""What a loop's actions wait for, as arcs: dependencies, buffers and engines that issue in order.

An `Arc` says start(target, i) >= start(source, i - distance) + weight_s for every iteration i. Which arcs there are is
static; the numbers on them are arrays, one element a candidate. `cyclic` says how long a loop of them takes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations

from .types import Floats

PLENTY = 1_000  # buffers, where their number is an array: too few of them is found for a candidate, not for all
LARGEST_ENGINE = 6  # actions whose orders are enumerated: 720


@dataclass(frozen=True, eq=False)
class Arc:
    """start(target, i) >= start(source, i - distance) + weight_s.

    `distance` is a Python int, which may be negative (the source runs ahead), or an array of whole numbers, each at
    least 1: a buffer's capacity that differs between candidates. Pass the same array object wherever the same capacity
    is meant: cycles are merged by it. An arc `at_ends` follows from others except where those reach past the first or
    the last iteration; it is in no cycle.
    """

    source: str
    target: str
    weight_s: Floats
    distance: Floats | int = 0
    at_ends: bool = False


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
        the loop's first and last rounds lack some actions, so those of one k also follow each other (`at_ends`).
    """
    ahead = {k for _, k in order}
    if len(ahead) == 1:
        return _round(order, held_s)
    parts = [_round([(action, 0) for action, k in order if k == part], held_s, at_ends=True) for part in sorted(ahead)]
    return sum(parts, _round(order, held_s))


def _round(order: Sequence[tuple[str, int]], held_s: Mapping[str, Floats], at_ends: bool = False) -> list[Arc]:
    followers = [*order[1:], (order[0][0], order[0][1] + 1)]
    return [
        Arc(action, follower, held_s[action], follower_ahead - ahead, at_ends)
        for (action, ahead), (follower, follower_ahead) in zip(order, followers, strict=True)
    ]


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
    """Actions along a cycle of numbers whose distances add up to 0 or less; empty if there is none."""
    # Bellman and Ford's search for a negative cycle, every distance made a little smaller so that 0 is negative too.
    count = len({name for arc in arcs for name in (arc.source, arc.target)}) + 1
    least = dict.fromkeys((name for arc in arcs for name in (arc.source, arc.target)), 0)
    came_from: dict[str, str] = {}
    last = ""
    for _ in range(count):
        last = ""
        for arc in arcs:
            distance = (arc.distance if isinstance(arc.distance, int) else PLENTY) * count - 1
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
