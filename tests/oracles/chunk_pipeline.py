"""Chunks that pass through parts in order, each on one of two resources that do one thing at a time: played.

A part keeps its resource busy for a while and is over some time later; the resource serves others meanwhile.
"""

import heapq

Parts = list[tuple[float, float, bool]]  # seconds that it is busy, seconds that follow, whether on the network


def played_seconds(parts: Parts, chunks: int) -> float:
    """Seconds until the last chunk is through; a free resource takes the earliest part that waits for it."""
    free = {False: 0.0, True: 0.0}
    waiting: dict[bool, list[tuple[int, int]]] = {False: [], True: []}
    for chunk in range(chunks):
        heapq.heappush(waiting[parts[0][2]], (0, chunk))
    events: list[tuple[float, int, int]] = []  # when, and what is over: a part, or (part -1) a resource's work
    now = 0.0
    while True:
        for resource, queue in waiting.items():
            if queue and free[resource] <= now:
                part, chunk = heapq.heappop(queue)
                free[resource] = now + parts[part][0]
                heapq.heappush(events, (free[resource], chunk, -1))
                heapq.heappush(events, (free[resource] + parts[part][1], chunk, part))
        if not events:
            return now
        now = events[0][0]
        while events and events[0][0] == now:  # all that end now, before anything is chosen
            _, chunk, part = heapq.heappop(events)
            if part >= 0 and part + 1 < len(parts):
                heapq.heappush(waiting[parts[part + 1][2]], (part + 1, chunk))
