"""How far the closed form of a finite loop is off, over drawn loops.

PYTHONPATH=.:tests python -m oracles.cyclic_compare
"""

import random
from collections.abc import Iterator

import jax.numpy as jnp
import numpy as np

from jaxmodel.cyclic import initiation_interval, loop_times

from . import cyclic as twin
from .cyclic_draws import Loop, draw_loop, draw_numbers

TRIPS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48)


def loop_errors(structures: int, each: int, seed: int, ahead: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of a finite loop's time: relative error, error in intervals, and the loop's trips."""
    errors, off, all_trips = [], [], []
    for loop, drawn, trips in draws(structures, each, seed, ahead):
        numbers = stacked(drawn)
        times = loop_times(loop.arcs(numbers), loop.duration_s(numbers), trips)
        exact = np.array(
            [twin.loop_seconds(loop.arcs(x), loop.duration_s(x), int(n)) for x, n in zip(drawn, trips, strict=True)]
        )
        errors.append(np.asarray(times.total_s) / exact - 1.0)
        off.append((np.asarray(times.total_s) - exact) / np.asarray(times.interval_s))
        all_trips.append(np.asarray(trips))
    return np.concatenate(errors), np.concatenate(off), np.concatenate(all_trips)


def resident_errors(structures: int, each: int, seed: int, resident: int, ahead: bool = False) -> np.ndarray:
    """Relative error for CTAs that share a memory pipeline and two others."""
    draw, errors = random.Random(seed), []
    for loop, drawn, trips in draws(structures, each, seed, ahead):
        on = {action: "memory" if action in loop.loads else draw.choice(["tensor", "cuda"]) for action in loop.actions}
        numbers = stacked(drawn)
        demands = [sum((numbers[a] for a in loop.actions if on[a] == p), jnp.float64(0.0)) for p in set(on.values())]
        pace_s = jnp.stack([jnp.broadcast_to(demand, trips.shape) for demand in demands]).max(axis=0)
        times = loop_times(loop.arcs(numbers), loop.duration_s(numbers), trips, pace_s, resident)
        exact = [
            twin.resident_seconds(loop.arcs(x), loop.duration_s(x), int(n), resident, x, on)
            for x, n in zip(drawn, trips, strict=True)
        ]
        errors.append(np.asarray(times.total_s) / np.array(exact) - 1.0)
    return np.concatenate(errors)


def draws(
    structures: int, each: int, seed: int, ahead: bool
) -> Iterator[tuple[Loop, list[dict[str, float]], jnp.ndarray]]:
    """Drawn loops, each with some sets of numbers and of trips."""
    draw = random.Random(seed)
    for _ in range(structures):
        loop = draw_loop(draw, ahead)
        drawn = [draw_numbers(draw, loop) for _ in range(each)]
        yield loop, drawn, jnp.array([float(draw.choice(TRIPS)) for _ in drawn])


def stacked(drawn: list[dict[str, float]]) -> dict[str, jnp.ndarray]:
    """Sets of numbers as one set of arrays."""
    return {name: jnp.array([numbers[name] for numbers in drawn]) for name in drawn[0]}


def interval_errors(structures: int, each: int, seed: int, ahead: bool) -> np.ndarray:
    """Relative error of the initiation interval."""
    errors = []
    for loop, drawn, _ in draws(structures, each, seed, ahead):
        exact = np.array([twin.initiation_interval(loop.arcs(numbers)) for numbers in drawn])
        errors.append(np.asarray(initiation_interval(loop.arcs(stacked(drawn)))) / exact - 1.0)
    return np.concatenate(errors)
