"""Twins of the envelope: its recurrence run literally, and tiles that share an SM's engines, event by event."""

import heapq
import random
from typing import NamedTuple

ARBITERS = ("round_robin", "oldest", "lowest_tile", "random")


class Loop(NamedTuple):
    """One tile's loop: whole numbers of iterations and buffers, seconds of load, latency, compute and store."""

    iterations: int
    slots: int
    load_s: float
    latency_s: float
    compute_s: float
    store_s: float = 0.0


def one_tile_seconds(loop: Loop) -> float:
    """The recurrence: a load waits for the engine and for a buffer, a computation for the engine and for its load."""
    load, comp = [], []
    for i in range(loop.iterations):
        engine_free = load[i - 1] if i else 0.0
        buffer_free = comp[i - loop.slots] if i >= loop.slots else 0.0
        load.append(max(engine_free, buffer_free) + loop.load_s)
        comp.append(max(load[i] + loop.latency_s, comp[i - 1] if i else 0.0) + loop.compute_s)
    return comp[-1] + loop.store_s


def resident_tiles_seconds(loop: Loop, tiles: int, arbiter: str, seed: int = 0) -> float:
    """Seconds until the last of `tiles` tiles that start together has stored.

    They share one load engine, one compute engine and one store engine, each busy with one request at a time; every
    tile has buffers of its own and loads and computes its iterations in order. `arbiter` picks among the requests that
    wait for an engine: the next tile in turn, the oldest request, the lowest tile, or any.
    """
    engines = {name: _Engine(arbiter, random.Random(seed)) for name in ("load", "compute", "store")}
    service_s = {"load": loop.load_s, "compute": loop.compute_s, "store": loop.store_s}
    events: list[tuple[float, int, str, int, int]] = []  # time, order, what, tile, iteration
    order = iter(range(1 << 60))
    computed = [0] * tiles  # iterations done
    loaded_next = [0] * tiles  # next iteration to load
    end_s = 0.0

    def happen(time_s: float, what: str, tile: int, iteration: int) -> None:
        heapq.heappush(events, (time_s, next(order), what, tile, iteration))

    def ask_loads(time_s: float, tile: int) -> None:
        while loaded_next[tile] < min(loop.iterations, computed[tile] + loop.slots):
            engines["load"].waiting.append((time_s, tile, loaded_next[tile]))
            loaded_next[tile] += 1

    for tile in range(tiles):
        ask_loads(0.0, tile)
    happen(0.0, "start", -1, -1)
    while events:
        now = events[0][0]
        while events and events[0][0] == now:
            _, _, what, tile, iteration = heapq.heappop(events)
            if what in engines:
                engines[what].busy = False
            if what == "load":
                happen(now + loop.latency_s, "arrived", tile, iteration)
            elif what == "arrived":
                engines["compute"].waiting.append((now, tile, iteration))
            elif what == "compute":
                computed[tile] += 1
                ask_loads(now, tile)
                if computed[tile] == loop.iterations:
                    engines["store"].waiting.append((now, tile, 0))
            elif what == "store":
                end_s = now
        for name, engine in engines.items():
            if engine.waiting and not engine.busy:
                _, tile, iteration = engine.pick(tiles)
                happen(now + service_s[name], name, tile, iteration)
    return end_s


class _Engine:
    """One request at a time; the arbiter picks a tile, whose requests are served in order."""

    def __init__(self, arbiter: str, randomness: random.Random):
        self.arbiter, self.randomness = arbiter, randomness
        self.waiting: list[tuple[float, int, int]] = []
        self.busy = False
        self.last = -1

    def pick(self, tiles: int) -> tuple[float, int, int]:
        first_of_tile = {tile: (since, tile, i) for since, tile, i in reversed(self.waiting)}
        if self.arbiter == "round_robin":
            chosen = min(first_of_tile.values(), key=lambda request: (request[1] - self.last - 1) % tiles)
        elif self.arbiter == "oldest":
            chosen = min(first_of_tile.values(), key=lambda request: (request[0], request[2], request[1]))
        elif self.arbiter == "lowest_tile":
            chosen = min(first_of_tile.values(), key=lambda request: request[1])
        else:
            chosen = self.randomness.choice(sorted(first_of_tile.values()))
        self.waiting.remove(chosen)
        self.busy, self.last = True, chosen[1]
        return chosen
