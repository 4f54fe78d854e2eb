"""Kernels that keep every shape within a regret: a set cover.

A kernel covers the shapes on which its regret is at most the limit. Kernels that cover the same shapes are one set, and
a set within another is not needed: hundreds of thousands of kernels are a few hundred sets.
"""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class CoverSets:
    """What the kernels cover at one limit.

    Attributes:
        sets: bool[shapes, sets], none within another.
        kernel: int64[sets], a kernel of each: the first of those that cover exactly this.
    """

    sets: np.ndarray
    kernel: np.ndarray

    @property
    def harmonic(self) -> float:
        """Greedy cover takes at most this many times as many sets as needed: 1 + 1/2 + ... + 1/d, d the largest set."""
        most = int(self.sets.sum(axis=0).max(initial=0))
        return float(sum(1 / number for number in range(1, most + 1)))

    def greedy(self) -> list[int]:
        """Kernels of a cover, the one that covers most of what is left first.

        Some kernel must cover each shape.
        """
        left = np.ones(len(self.sets), bool)
        chosen: list[int] = []
        while left.any():
            best = int(self.sets[left].sum(axis=0).argmax())
            chosen.append(int(self.kernel[best]))
            left &= ~self.sets[:, best]
        return chosen


def cover_sets(regret: np.ndarray, limit: float) -> CoverSets:
    """What kernels cover.

    Args:
        regret: float32[shapes, kernels].
        limit: the largest regret at which a shape counts as covered.
    """
    covers = regret <= np.float32(limit)
    packed = np.packbits(covers, axis=0)
    words = np.zeros((-(-len(packed) // 8) * 8, packed.shape[1]), np.uint8)
    words[: len(packed)] = packed
    keys = np.ascontiguousarray(words.T).view(np.uint64)
    if keys.shape[1] == 1:
        sets, first = np.unique(keys[:, 0], return_index=True)
        sets = sets[:, None]
    else:
        sets, first = np.unique(keys, axis=0, return_index=True)
    kept = np.empty((0, sets.shape[1]), np.uint64)
    chosen: list[int] = []
    for place in np.argsort(-np.bitwise_count(sets).sum(axis=1, dtype=np.int64), kind="stable"):
        if sets[place].any() and not ((sets[place] & ~kept) == 0).all(axis=1).any():
            kept = np.concatenate([kept, sets[place : place + 1]])
            chosen.append(int(first[place]))
    return CoverSets(covers[:, chosen], np.array(chosen, np.int64))
