"""The best k candidates by one quantity, exact under any order of merging, with ties counted."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class TopK:
    """The k smallest values seen, and every tie with the k-th up to a limit.

    Attributes:
        k: how many are asked for.
        tie_limit: how many rows beyond k are kept where several tie with the k-th value; those with the lowest
            positions are kept.
        positions: int64[rows], sorted by (value, position).
        values: float32[rows], ascending.
        ties: how many candidates seen have exactly the k-th value, kept or not; 0 while fewer than k were seen.
    """

    k: int
    tie_limit: int
    positions: np.ndarray
    values: np.ndarray
    ties: int

    @classmethod
    def empty(cls, k: int, tie_limit: int) -> "TopK":
        """Nothing seen yet."""
        return cls(k, tie_limit, np.zeros(0, np.int64), np.zeros(0, np.float32), 0)

    @property
    def threshold(self) -> float:
        """The k-th smallest value: a larger one cannot enter any more. Infinite while fewer than k were seen."""
        return float(self.values[self.k - 1]) if len(self.values) >= self.k else float("inf")

    @property
    def ties_dropped(self) -> int:
        """Candidates that tie with the k-th value and are not among the rows."""
        return self.ties - int(np.count_nonzero(self.values == np.float32(self.threshold))) if self.ties else 0

    def add(self, positions: np.ndarray, values: np.ndarray) -> "TopK":
        """With more candidates, none of which was seen before."""
        near = values <= np.float32(self.threshold)
        if not near.any():
            return self
        return self.merge(_reduced(self.k, self.tie_limit, positions[near], values[near]))

    def merge(self, other: "TopK") -> "TopK":
        """What both have seen; the two must have seen different candidates."""
        if not len(other.values):
            return self
        if not len(self.values):
            return other
        return _reduced(
            self.k,
            self.tie_limit,
            np.concatenate([self.positions, other.positions]),
            np.concatenate([self.values, other.values]),
            (self, other),
        )


def _reduced(k: int, tie_limit: int, positions: np.ndarray, values: np.ndarray, sources: tuple[TopK, ...] = ()) -> TopK:
    order = np.lexsort((positions, values))
    positions, values = positions[order], values[order]
    if len(values) < k:
        return TopK(k, tie_limit, positions, values, 0)
    threshold = values[k - 1]
    ties = int(np.count_nonzero(values == threshold))
    ties += sum(source.ties_dropped for source in sources if np.float32(source.threshold) == threshold)
    keep = min(int(np.searchsorted(values, threshold, side="right")), k + tie_limit)
    return TopK(k, tie_limit, positions[:keep], values[:keep], ties)
