"""What a searcher of this package has tried, and which of it to start from."""

import numpy as np

from ..front import non_dominated
from .candidates import Candidates


class Archive:
    """Points tried, with what they cost; each point once.

    Attributes:
        digits, numbers, values, violations: of every point, in the order tried.
    """

    def __init__(self) -> None:
        self._rows: list[tuple[np.ndarray, np.ndarray, np.ndarray, float]] = []
        self._seen: set[bytes] = set()
        self._allowed: list[int] = []
        self._front: list[int] = []
        self._nearest: tuple[float, int] | None = None  # the point that breaks its constraints least

    def __len__(self) -> int:
        return len(self._rows)

    def has(self, digits: np.ndarray, numbers: np.ndarray) -> bool:
        """Whether a point was tried, or was reserved."""
        return _key(digits, numbers) in self._seen

    def reserve(self, digits: np.ndarray, numbers: np.ndarray) -> None:
        """Counts a point as tried before it is told."""
        self._seen.add(_key(digits, numbers))

    def add(self, candidates: Candidates, values: np.ndarray, violations: np.ndarray) -> bool:
        """Adds what was told.

        Returns:
            whether the front changed (of one objective: whether there is a better point).
        """
        broken = np.clip(violations, 0.0, None).sum(axis=1)
        fresh = []
        for digits, numbers, row, amount in zip(candidates.digits, candidates.numbers, values, broken, strict=True):
            self._seen.add(_key(digits, numbers))
            place = len(self._rows)
            self._rows.append((digits, numbers, row, float(amount)))
            if not np.isfinite(row).all():
                continue
            if amount <= 0:
                self._allowed.append(place)
                fresh.append(place)
            elif self._nearest is None or amount < self._nearest[0]:
                self._nearest = (float(amount), place)
        return self._join(fresh)

    def point(self, place: int) -> tuple[np.ndarray, np.ndarray]:
        """Digits and numbers of a point."""
        digits, numbers, _, _ = self._rows[place]
        return digits, numbers

    @property
    def front(self) -> list[int]:
        """Places of the points that are allowed and not dominated, one of each distinct vector."""
        return self._front

    def values(self, places: list[int]) -> np.ndarray:
        """float64[places, objectives]."""
        return np.array([self._rows[place][2] for place in places], float)

    def best(self, weights: np.ndarray) -> int | None:
        """The place of the front nearest to its ideal by a weighted maximum over the objectives' logarithms; the point
        that breaks its constraints least where none is allowed; None where nothing is known."""
        if not self._front:
            return self._nearest[1] if self._nearest else None
        return self._front[int((scaled(self.values(self._front)) * weights).max(axis=1).argmin())]

    def leaders(self, count: int) -> list[int]:
        """The best points by the first objective, the best first."""
        places = self._allowed
        if not places:
            return [self._nearest[1]] if self._nearest else []
        first = np.array([self._rows[place][2][0] for place in places])
        return [places[at] for at in np.argsort(first, kind="stable")[:count]]

    def forget_leaders(self) -> None:
        """Starts anew: points from here on are led by none of those before. What was tried stays known."""
        self._allowed, self._nearest = [], None

    def _join(self, fresh: list[int]) -> bool:
        if not fresh:
            return False
        places = self._front + fresh
        values = self.values(places)
        keep = non_dominated(values)
        _, first = np.unique(values, axis=0, return_index=True)
        once = np.zeros(len(places), bool)
        once[first] = True
        before = len(self._front)
        kept = [place for place, wanted in zip(places, keep & once, strict=True) if wanted]
        changed = kept != self._front[:before]
        self._front = kept
        return changed


def scaled(values: np.ndarray) -> np.ndarray:
    """Objectives from 0, the best, to 1, the worst, by their logarithms (linearly where one is not above 0)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = np.where((values > 0).all(axis=0), np.log(np.where(values > 0, values, 1.0)), values)
    low, high = scale.min(axis=0), scale.max(axis=0)
    return (scale - low) / np.where(high > low, high - low, 1.0)


def _key(digits: np.ndarray, numbers: np.ndarray) -> bytes:
    return np.asarray(digits, np.int64).tobytes() + np.asarray(numbers, np.float64).tobytes()
