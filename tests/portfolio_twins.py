"""Slow, obvious twins of what a portfolio computes: every subset, every tree."""

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np


def best_subset(regret: np.ndarray, weight: np.ndarray, kernels: int, worst: bool = False) -> float:
    """The smallest mean or worst regret of any choice of at most so many kernels."""
    count = regret.shape[1]
    values = []
    for size in range(1, min(kernels, count) + 1):
        for chosen in combinations(range(count), size):
            least = regret[:, chosen].min(axis=1).astype(np.float64)
            values.append(float(least.max() if worst else weight @ least))
    return min(values)


def smallest_cover(regret: np.ndarray, limit: float) -> int:
    """The fewest kernels that keep every shape within a regret."""
    count = regret.shape[1]
    for size in range(1, count + 1):
        for chosen in combinations(range(count), size):
            if (regret[:, chosen].min(axis=1) <= np.float32(limit)).all():
                return size
    raise AssertionError("no cover")


def best_tree(
    features: Mapping[str, Sequence[int]], cost: np.ndarray, shapes: Sequence[int], depth: int, price: float
) -> float:
    """The smallest sum of costs, with a price a leaf, of any tree: every split of every subset, without memory."""
    best = float(cost[list(shapes)].sum(axis=0).min()) + price
    if depth:
        for values in features.values():
            for threshold in sorted({values[shape] for shape in shapes})[:-1]:
                low = [shape for shape in shapes if values[shape] <= threshold]
                high = [shape for shape in shapes if values[shape] > threshold]
                sides = [best_tree(features, cost, side, depth - 1, price) for side in (low, high)]
                best = min(best, sum(sides))
    return best


def kernels_by_hand(fields: Mapping[str, np.ndarray], latency_s: np.ndarray, run_time: Sequence[str]) -> dict[Any, Any]:
    """What is compiled of a schedule -> the least latency of a shape, schedule by schedule."""
    found: dict[Any, np.ndarray] = {}
    for at in range(latency_s.shape[1]):
        key = tuple(int(values[at]) for name, values in fields.items() if name not in run_time)
        key += (bool(fields["split_k"][at] > 1),)
        found[key] = np.minimum(found.get(key, np.inf), latency_s[:, at])
    return found
