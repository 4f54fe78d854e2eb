"""Tiles, chunks, links and queues played event by event: slow twins of `jaxmodel.overlap`."""

import heapq
from collections.abc import Sequence


def staircase(count: int, slope: float, tread: float, step: int, offset: int, width: int) -> float:
    """Every x, one after the other."""
    return max(tread * ((step * x + offset) // width) - slope * x for x in range(count))


def released(tiles: int, slots: int, tile_s: float, needs: Sequence[float]) -> list[float]:
    """When each tile is done: the next tile in order goes to the slot that is free first and waits there until what it
    needs has arrived."""
    free = [0.0] * slots
    heapq.heapify(free)
    ends = []
    for tile in range(tiles):
        end = max(heapq.heappop(free), needs[tile]) + tile_s
        ends.append(end)
        heapq.heappush(free, end)
    return ends


def arriving(
    tiles: int, slots: int, tile_s: float, own: int, chunks: int, chunk_tiles: int, first_s: float, pace_s: float,
    last_s: float,
) -> float:  # fmt: skip
    """Chunks taken in at an even pace, the last one after `last_s`."""
    ready = [first_s + chunk * pace_s for chunk in range(chunks)]
    if chunks > 1:
        ready[-1] = ready[-2] + last_s
    needs = [0.0] * min(own, tiles) + [
        ready[min((tile - own) // chunk_tiles, chunks - 1)] for tile in range(own, tiles)
    ]
    return max(released(tiles, slots, tile_s, needs))


def wave_times(tiles: int, slots: int, tile_s: float, first_s: float, last_s: float) -> list[float]:
    """How long each tile takes: longer in the first wave, shorter in the last."""
    waves = -(-tiles // slots)
    return [first_s if tile < slots else last_s if tile // slots == waves - 1 else tile_s for tile in range(tiles)]


def departing(
    tiles: int, slots: int, takes: Sequence[float], sent: int, chunk_tiles: int, chunk_s: float, last_s: float,
    after_s: float,
) -> float:  # fmt: skip
    """A link that takes chunk after chunk, each once all its tiles are done."""
    ends: list[float] = []
    for tile in range(tiles):
        ends.append((ends[tile - slots] if tile >= slots else 0.0) + takes[tile])
    link_s, firsts = 0.0, list(range(0, sent, chunk_tiles))
    for first in firsts:
        done_s = max(ends[first : min(first + chunk_tiles, sent)])
        link_s = max(link_s, done_s) + (last_s if first == firsts[-1] else chunk_s)
    return max(*ends, link_s + after_s) if sent else max(ends)


def posted(
    tiles: int, slots: int, takes: Sequence[float], remote: int, write_s: float, queue: int, after_s: float
) -> float:
    """Events on a clock: a slot takes every P-th tile, holds it until the queue has room, and the link takes one remote
    tile at a time."""
    computing: list[tuple[float, int]] = []  # end, tile
    waiting: list[int] = []  # done, not accepted
    accepted: list[int] = []  # queued, the first of them on the link
    link_free_s: float | None = None
    clock_s, end_s = 0.0, 0.0
    for tile in range(min(slots, tiles)):
        heapq.heappush(computing, (takes[tile], tile))
    while computing or waiting or accepted:
        coming = [computing[0][0]] if computing else []
        coming += [link_free_s] if link_free_s is not None else []
        clock_s = min(coming)
        if link_free_s is not None and link_free_s <= clock_s:  # the queue has room from here on
            accepted.pop(0)
            link_free_s, end_s = None, max(end_s, clock_s + after_s)
        while computing and computing[0][0] <= clock_s:
            waiting.append(heapq.heappop(computing)[1])
        waiting.sort()
        for tile in list(waiting):
            if tile < remote and len(accepted) >= queue:
                continue
            waiting.remove(tile)
            end_s = max(end_s, clock_s)
            if tile < remote:
                accepted.append(tile)
            if tile + slots < tiles:
                heapq.heappush(computing, (clock_s + takes[tile + slots], tile + slots))
        if accepted and link_free_s is None:
            link_free_s = clock_s + write_s
    return end_s
