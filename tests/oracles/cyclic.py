"""Twins of cyclic schedules: simple cycles one by one, a loop unrolled, and CTAs that share an SM's pipelines.

Arcs are read for what they say: start(target, i) >= start(source, i - distance) + weight_s.
"""

import heapq
from collections.abc import Iterator, Mapping, Sequence

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


def resident_seconds(
    arcs: Sequence[Arc],
    duration_s: Mapping[str, float],
    iterations: int,
    resident: int,
    service_s: Mapping[str, float],
    pipeline: Mapping[str, str],
) -> float:
    """The same loop run by `resident` CTAs that start together and share an SM's pipelines, event by event.

    An action that its CTA's arcs let go waits in its pipeline's queue and starts when the pipeline is free; among
    those waiting the oldest request goes first, then the earlier iteration. Actions without a pipeline do not wait.
    """
    waits: dict[tuple[str, int], list[tuple[tuple[str, int], float]]] = {}
    missing = {(cta, action, i): 0 for cta in range(resident) for action in duration_s for i in range(iterations)}
    for arc in arcs:
        for i in range(iterations):
            if 0 <= i - arc.distance < iterations:
                waits.setdefault((arc.source, i - int(arc.distance)), []).append(((arc.target, i), arc.weight_s))
                for cta in range(resident):
                    missing[cta, arc.target, i] += 1
    earliest = dict.fromkeys(missing, 0.0)
    queues: dict[str, list[tuple[float, int, int, str]]] = {name: [] for name in pipeline.values()}
    free_s = dict.fromkeys(queues, 0.0)
    events = [(0.0, i, cta, action) for (cta, action, i), count in missing.items() if count == 0]
    heapq.heapify(events)
    end_s = 0.0

    def start(now: float, i: int, cta: int, action: str) -> None:
        nonlocal end_s
        end_s = max(end_s, now + duration_s[action])
        for (other, j), weight_s in waits.get((action, i), ()):
            key = (cta, other, j)
            earliest[key] = max(earliest[key], now + weight_s)
            missing[key] -= 1
            if missing[key] == 0:
                heapq.heappush(events, (max(earliest[key], now), j, cta, other))

    while events:
        now, i, cta, action = heapq.heappop(events)
        if action == "":  # a pipeline may be free
            pass
        elif action in pipeline:
            queues[pipeline[action]].append((now, i, cta, action))
        else:
            start(now, i, cta, action)
        if events and events[0][0] == now:
            continue
        for name, queue in queues.items():
            if queue and free_s[name] <= now:
                request = min(queue)
                queue.remove(request)
                _, i, cta, action = request
                free_s[name] = now + service_s[action]
                heapq.heappush(events, (free_s[name], -1, -1, ""))
                start(now, i, cta, action)
    return end_s
