"""The exact non-dominated front over any number of objectives, all minimised, with equal vectors counted."""

from dataclasses import dataclass

import numpy as np

PIVOT_COUNT = 16  # each costs the device a comparison with every candidate, each fewer sends more to the host


@dataclass(frozen=True)
class Front:
    """The non-dominated candidates among all seen.

    A candidate is dominated where another is nowhere worse and somewhere better. Candidates with equal objectives do
    not dominate each other: of each distinct vector the `tie_limit` lowest positions are kept (at least one) and the
    others are counted.

    Attributes:
        tie_limit: rows kept a distinct vector.
        positions: int64[rows].
        values: float32[rows, objectives], sorted by the objectives in order, then by position.
        weights: int64[rows]; the first row of each distinct vector holds how many candidates seen have that vector,
            kept or not; the others hold 0.
    """

    tie_limit: int
    positions: np.ndarray
    values: np.ndarray
    weights: np.ndarray

    @classmethod
    def empty(cls, objectives: int, tie_limit: int) -> "Front":
        """Nothing seen yet."""
        return cls(tie_limit, np.zeros(0, np.int64), np.zeros((0, objectives), np.float32), np.zeros(0, np.int64))

    @property
    def candidates(self) -> int:
        """How many candidates seen are on the front, kept or not."""
        return int(self.weights.sum())

    @property
    def ties_dropped(self) -> int:
        """Candidates on the front that are not among the rows."""
        return self.candidates - len(self.positions)

    def add(self, positions: np.ndarray, values: np.ndarray) -> "Front":
        """With more candidates, none of which was seen before: int64[n] and finite float32[n, objectives]."""
        if not len(positions):
            return self
        return self._joined(positions, values, np.ones(len(positions), np.int64))

    def merge(self, other: "Front") -> "Front":
        """What both have seen; the two must have seen different candidates."""
        return self._joined(other.positions, other.values, other.weights)

    def _joined(self, positions: np.ndarray, values: np.ndarray, weights: np.ndarray) -> "Front":
        positions = np.concatenate([self.positions, positions])
        values = np.concatenate([self.values, values])
        weights = np.concatenate([self.weights, weights])
        on_front = non_dominated(values)
        return _grouped(self.tie_limit, positions[on_front], values[on_front], weights[on_front])


def non_dominated(values: np.ndarray) -> np.ndarray:
    """Which rows no other row dominates, bool[rows]; equal rows do not dominate each other.

    Args:
        values: finite float[rows, objectives], all minimised.
    """
    if values.shape[1] == 1 or len(values) < 2:
        return (values == values.min(axis=0, initial=np.inf)).all(axis=1)
    import moocore

    return np.asarray(moocore.is_nondominated(values.astype(np.float64), keep_weakly=True), bool)


def choose_pivots(front: np.ndarray, sample: np.ndarray, count: int = PIVOT_COUNT) -> np.ndarray:
    """The points of a front that dominate most of a sample, chosen greedily, float32[count, objectives].

    A candidate that a pivot dominates needs no closer look. Unused places are infinite and dominate nothing.

    Args:
        front: float32[rows, objectives].
        sample: float32[n, objectives], candidates of the kind that the pivots shall catch.
    """
    pivots = np.full((count, front.shape[1]), np.inf, np.float32)
    if not len(front):
        return pivots
    distinct = np.unique(front, axis=0)
    options = distinct[np.unique(np.linspace(0, len(distinct) - 1, 4 * PIVOT_COUNT).astype(int))]
    if len(distinct) > len(options):
        options = np.unique(np.concatenate([options, distinct[distinct.argmin(axis=0)]]), axis=0)
    dominates = np.ones((len(options), len(sample)), bool)
    for objective in range(front.shape[1]):
        dominates &= options[:, objective, None] <= sample[None, :, objective]
    chosen: list[int] = []
    for _ in range(min(count, len(options))):
        gain = dominates.sum(axis=1)
        gain[chosen] = -1
        best = int(gain.argmax())
        chosen.append(best)
        dominates &= ~dominates[best]
    pivots[: len(chosen)] = options[chosen]
    return pivots


def _grouped(tie_limit: int, positions: np.ndarray, values: np.ndarray, weights: np.ndarray) -> Front:
    order = np.lexsort((positions, *values.T[::-1]))
    positions, values, weights = positions[order], values[order], weights[order]
    starts_group = np.ones(len(positions), bool)
    starts_group[1:] = (values[1:] != values[:-1]).any(axis=1)
    first = np.flatnonzero(starts_group)
    if not len(first):
        return Front(tie_limit, positions, values, weights)
    rank = np.arange(len(positions)) - np.repeat(first, np.diff(first, append=len(positions)))
    totals = np.zeros(len(positions), np.int64)
    totals[first] = np.add.reduceat(weights, first)
    keep = rank < max(1, tie_limit)
    return Front(tie_limit, positions[keep], values[keep], totals[keep])
