"""Drawn loops like those of attention kernels: loads through buffers, agents that work in order, some of them ahead."""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from jaxmodel.arcs import Arc, buffer_arc, cycle_without_distance, dependency_arc, engine_arcs

Numbers = Mapping[str, Any]  # "<action>", "latency", "slots0", ... -> a number or an array


@dataclass(frozen=True)
class Loop:
    """Names and structure; `arcs` puts numbers on them. Loads come first in `actions`."""

    actions: tuple[str, ...]
    loads: tuple[str, ...]
    dependencies: tuple[tuple[str, str, int], ...]  # source, target, iterations
    buffers: tuple[tuple[str, str, int], ...]  # load, released by, which number of slots
    engines: tuple[tuple[tuple[str, int], ...], ...]

    def duration_s(self, numbers: Numbers) -> dict[str, Any]:
        return {a: numbers[a] + (numbers["latency"] if a in self.loads else 0.0) for a in self.actions}

    def arcs(self, numbers: Numbers) -> list[Arc]:
        duration_s = self.duration_s(numbers)
        arcs = [dependency_arc(u, v, duration_s[u], distance) for u, v, distance in self.dependencies]
        arcs += [buffer_arc(load, by, duration_s[by], numbers[f"slots{which}"]) for load, by, which in self.buffers]
        for order in self.engines:
            arcs += engine_arcs(order, {action: numbers[action] for action, _ in order})
        return arcs

    @property
    def runs_ahead(self) -> bool:
        return any(ahead for order in self.engines for _, ahead in order)


def draw_loop(draw: random.Random, ahead: bool) -> Loop:
    """1 or 2 loads on one engine, 3 to 10 other actions on 1 or 2 agents that do them in order; where `ahead`, an agent
    does its first action an iteration early."""
    while True:
        loads = tuple(f"load{i}" for i in range(draw.randint(1, 2)))
        others = tuple(f"act{i}" for i in range(draw.randint(3, 12 - len(loads))))
        dependencies = []
        for place, action in enumerate(others):
            for needed in draw.sample(range(max(0, place - 3), place), min(place, draw.randint(1, 2))):
                dependencies.append((others[needed], action, 0))
        dependencies += [(load, others[draw.randint(0, 2)], 0) for load in loads]
        dependencies += [(load, draw.choice(others), 0) for load in loads if draw.random() < 0.3]
        for action in draw.sample(others, draw.randint(0, 2)):  # an accumulator, a running maximum
            dependencies.append((action, others[max(0, others.index(action) - draw.randint(0, 2))], 1))
        slots = draw.choice([(0, 0), (0, 1)])
        buffers = tuple(
            (load, max((v for u, v, _ in dependencies if u == load), key=others.index), slots[place])
            for place, load in enumerate(loads)
        )
        agents = draw.randint(1, 2)
        parts = [
            [action for i, action in enumerate(others) if draw_agent(i, agents) == agent] for agent in range(agents)
        ]
        engines = [tuple((load, 0) for load in loads)]
        for place, part in enumerate(parts):
            engines.append(tuple((action, int(ahead and place == 0 and action == part[0])) for action in part))
        loop = Loop((*loads, *others), loads, tuple(dependencies), buffers, tuple(engines))
        arcs = loop.arcs(dict.fromkeys([*loop.actions, "latency"], 1.0) | {"slots0": 1, "slots1": 1})
        if not cycle_without_distance(arcs) and (loop.runs_ahead or not ahead):
            return loop


def draw_agent(place: int, agents: int) -> int:
    """The agents take turns of two actions."""
    return place // 2 % agents


def draw_numbers(draw: random.Random, loop: Loop) -> dict[str, float]:
    """Services spread over a factor of 10, latencies up to six services, 1 to 4 slots."""
    numbers = {action: 0.3 * 10.0 ** draw.random() for action in loop.actions}
    numbers["latency"] = draw.choice([0.0, 0.2 * 30.0 ** draw.random()])
    return numbers | {f"slots{i}": float(draw.randint(1, 4)) for i in range(2)}
