"""The decision tree over a problem's sizes that loses least: exact, on a given list of shapes.

A label is not what counts: a shape for which two kernels are equally fast may go to either. The tree minimises the
weighted mean of the regrets of the kernels that its leaves name, with a small price a leaf, so that a split that buys
nothing is not there. All trees up to a depth are searched, by recursion over the subsets of shapes that thresholds cut
out, each solved once, and branches that cannot beat what is known left out.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

LEAF_PRICE = 1e-4  # in mean regret: 0.01 %
DEPTH_MAX = 4
ROUNDING = 1e-9


@dataclass(frozen=True)
class Leaf:
    """A kernel, and the shapes of the list for which it is named.

    Attributes:
        kernel: its column.
        shapes: rows.
    """

    kernel: int
    shapes: tuple[int, ...]


@dataclass(frozen=True)
class Split:
    """A question.

    Attributes:
        feature: whose value is asked.
        threshold: values up to here go to `low`, larger ones to `high`; the largest value of a listed shape that goes
            to `low`, because a kernel for large shapes wastes less on a smaller one than the other way round.
        low, high: what follows.
    """

    feature: str
    threshold: int
    low: "Tree"
    high: "Tree"


Tree: TypeAlias = Leaf | Split


def optimal_tree(
    features: Mapping[str, Sequence[int]], regret: np.ndarray, weight: np.ndarray, depth: int, worst: bool = False
) -> Tree:
    """The tree of the smallest weighted mean regret.

    Args:
        features: name -> whole numbers, one a shape. Of equally good splits that of the first feature is taken.
        regret: [shapes, kernels], infinite where a kernel cannot run a shape.
        weight: [shapes], positive, 1 in all.
        depth: questions on the longest way, 0 to 4.
        worst: minimise the largest regret first; of the trees that reach it, the mean.
    """
    columns = {name: np.asarray(values, dtype=object) for name, values in features.items()}
    every = np.arange(len(regret))
    if worst:
        levels = np.unique(regret[np.isfinite(regret)])
        low, high = 0, len(levels) - 1
        while low < high:
            middle = (low + high) // 2
            tree = _Search(columns, np.where(regret <= levels[middle], regret, np.inf), weight).tree(every, depth)
            if worst_of(tree, regret) <= levels[middle]:
                high = middle
            else:
                low = middle + 1
        regret = np.where(regret <= levels[high], regret, np.inf)
    return _Search(columns, regret, weight).tree(every, depth)


def leaves(tree: Tree) -> Iterator[Leaf]:
    """The leaves, from the low side to the high one."""
    if isinstance(tree, Leaf):
        yield tree
    else:
        yield from leaves(tree.low)
        yield from leaves(tree.high)


def decide(tree: Tree, sizes: Mapping[str, int]) -> Leaf:
    """The leaf for a shape with these features."""
    while isinstance(tree, Split):
        tree = tree.low if sizes[tree.feature] <= tree.threshold else tree.high
    return tree


def worst_of(tree: Tree, regret: np.ndarray) -> float:
    """The largest regret that the tree's kernels have on the shapes of its leaves."""
    return max(float(regret[shape, leaf.kernel]) for leaf in leaves(tree) for shape in leaf.shapes)


class _Search:
    def __init__(self, features: Mapping[str, np.ndarray], regret: np.ndarray, weight: np.ndarray) -> None:
        finite = np.isfinite(regret)
        price = 10 * (float(regret.max(initial=0, where=finite)) + 1) / float(weight.min())  # above any tree without it
        self.cost = np.where(finite, regret, price) * weight[:, None]
        self.ideal = self.cost.min(axis=1)
        self.ranks = {name: np.unique(values, return_inverse=True)[1] for name, values in features.items()}
        self.features = features
        self.solved: dict[tuple[bytes, int], tuple[float, bool]] = {}  # value, or what is known that it is at least

    def tree(self, shapes: np.ndarray, depth: int) -> Tree:
        """The best tree of a subset."""
        value = self.value(shapes, depth, math.inf)
        slack = ROUNDING * max(1.0, value)
        if depth == 0 or self._leaf(shapes) <= value + slack:
            return Leaf(int(self.cost[shapes].sum(axis=0).argmin()), tuple(int(at) for at in shapes))
        for _, name, low, high in self._splits(shapes):
            first = self.value(low, depth - 1, value - self._least(high) + 2 * slack)
            if first + self.value(high, depth - 1, value - first + 2 * slack) <= value + slack:
                threshold = int(self.features[name][low].max())
                return Split(name, threshold, self.tree(low, depth - 1), self.tree(high, depth - 1))
        raise AssertionError("a tree of the value that was found")  # pragma: no cover

    def value(self, shapes: np.ndarray, depth: int, limit: float) -> float:
        """The cost of the best tree of a subset; infinite where it is `limit` or more."""
        least = self._least(shapes)
        if least >= limit:
            return math.inf
        key = (shapes.tobytes(), depth)
        known, exact = self.solved.get(key, (0.0, False))
        if exact or known >= limit:
            return known if known < limit else math.inf
        best = self._leaf(shapes)
        if depth and best > least + LEAF_PRICE:
            best = self._best_split(shapes, depth, best, limit)
        self.solved[key] = (best, True) if best < limit else (limit, False)
        return best if best < limit else math.inf

    def _best_split(self, shapes: np.ndarray, depth: int, best: float, limit: float) -> float:
        for two_leaves, _, low, high in self._splits(shapes):
            if depth == 1:
                return min(best, two_leaves)  # the splits come in this order
            reach = min(best, limit)
            small, large = (low, high) if len(low) <= len(high) else (high, low)
            first = self.value(small, depth - 1, reach - self._least(large))
            if first < math.inf:
                best = min(best, first + self.value(large, depth - 1, reach - first))
        return best

    def _splits(self, shapes: np.ndarray) -> Iterator[tuple[float, str, np.ndarray, np.ndarray]]:
        """(cost with a leaf on each side, feature, low side, high side), the cheapest first."""
        found = []
        for place, (name, ranks) in enumerate(self.ranks.items()):
            own = ranks[shapes]
            order = np.argsort(own, kind="stable")
            cuts = np.flatnonzero(np.diff(own[order]))
            if len(cuts):
                cost = self.cost[shapes[order]]
                low = np.cumsum(cost, axis=0)[cuts].min(axis=1)
                high = np.cumsum(cost[::-1], axis=0)[::-1][cuts + 1].min(axis=1)
                found += [(value, place, cut, name, order) for value, cut in zip(low + high, cuts, strict=True)]
        for value, _, cut, name, order in sorted(found, key=lambda entry: entry[:3]):
            yield (
                float(value) + 2 * LEAF_PRICE,
                name,
                np.sort(shapes[order[: cut + 1]]),
                np.sort(shapes[order[cut + 1 :]]),
            )

    def _leaf(self, shapes: np.ndarray) -> float:
        return float(self.cost[shapes].sum(axis=0).min()) + LEAF_PRICE

    def _least(self, shapes: np.ndarray) -> float:
        return float(self.ideal[shapes].sum()) + LEAF_PRICE
