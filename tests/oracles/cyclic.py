"""Twins of cyclic schedules: simple cycles one by one, a loop unrolled, and CTAs that share an SM's pipelines.

Arcs are read for what they say: start(target, i) >= start(source, i - distance) + weight_s.
"""

import heapq
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from jaxmodel.arcs import Arc


def simple_cycles(arcs: Sequence[Arc]) -> Iterator[list[Arc]]:
    """Every way round that meets no action twice, once: from its action of least name."""

    def walk(path: list[Arc]) -> Iterator[list[Arc]]:
        first, here = path[0].source, path[-1].target
        if here == first:
            yield path
            return
        if here < first or here in {arc.source for arc in path}:
            return
        for arc in arcs:
            if arc.source == here:
                yield from walk([*path, arc])

    for arc in arcs:
        yield from walk([arc])


def initiation_interval(arcs: Sequence[Arc]) -> float:
    """The largest weight over distance of all simple cycles; a cycle of distance 0 or less must weigh nothing."""
    longest = 0.0
    for cycle in simple_cycles(arcs):
        weight, distance = sum(arc.weight_s for arc in cycle), sum(arc.distance for arc in cycle)
        if distance <= 0:
            raise ValueError("waits for itself")
        longest = max(longest, weight / distance)
    return longest


def loop_seconds(arcs: Sequence[Arc], duration_s: Mapping[str, float], iterations: int) -> float:
    """The loop unrolled: every action of every iteration starts as soon as its arcs let it, arcs from or to iterations
    that there are not left out. Seconds until the last one ends."""
    waits: dict[tuple[str, int], list[tuple[tuple[str, int], float]]] = {}
    missing = {(action, i): 0 for action in duration_s for i in range(iterations)}
    for arc in arcs:
        for i in range(iterations):
            if 0 <= i - arc.distance < iterations:
                waits.setdefault((arc.source, i - int(arc.distance)), []).append(((arc.target, i), arc.weight_s))
                missing[arc.target, i] += 1
    start = dict.fromkeys(missing, 0.0)
    ready = [event for event, count in missing.items() if count == 0]
    done = 0
    while ready:
        event = ready.pop()
        done += 1
        for other, weight_s in waits.get(event, ()):
            start[other] = max(start[other], start[event] + weight_s)
            missing[other] -= 1
            if missing[other] == 0:
                ready.append(other)
    if done < len(missing):
        raise ValueError("waits for itself")
    return max(seconds + duration_s[action] for (action, _), seconds in start.items())
