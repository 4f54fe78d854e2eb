"""Points of a search space for searchers of this package: drawn at random, and moved along axes."""

import numpy as np

from .candidates import GpuAxis, SearchSpace
from .parameters import is_ordered

NEAR = 0.15  # standard deviation of a step along a range, as a share of it
NEXT = 0.6  # how often a step along an ordered axis is to the next entry


class Moves:
    """Random points and steps.

    Args:
        space: what is chosen.
        rng: where chance comes from.
    """

    def __init__(self, space: SearchSpace, rng: np.random.Generator) -> None:
        self.space, self.rng = space, rng
        axes = space.schedules.axes if space.schedules else ()
        self._ordered = [is_ordered(axis) for axis in axes]
        self._radices = np.array(space.radices, np.int64)
        self._free = [place for place, radix in enumerate(space.radices) if radix > 1]

    def random(self, count: int) -> tuple[np.ndarray, np.ndarray]:
        """int64[count, axes] digits and float64[count, GPU axes] numbers, all equally likely."""
        digits = self.rng.integers(0, self._radices, (count, len(self._radices)))
        numbers = [place_in(axis, self.rng.random(count)) for axis in self.space.gpu]
        return digits, np.stack(numbers, axis=1) if numbers else np.zeros((count, 0))

    def step(self, digits: np.ndarray, numbers: np.ndarray, axes: int = 1) -> tuple[np.ndarray, np.ndarray]:
        """A point that differs from the given one along so many axes, schedule's or GPU's."""
        digits, numbers = digits.copy(), numbers.copy()
        places = len(self._free) + len(self.space.gpu)
        for place in self.rng.choice(places, min(axes, places), replace=False):
            if place < len(self._free):
                axis = self._free[place]
                digits[axis] = self._other(int(digits[axis]), axis)
            else:
                at = int(place) - len(self._free)
                numbers[at] = self.moved(self.space.gpu[at], float(numbers[at]))
        return digits, numbers

    def moved(self, axis: GpuAxis, number: float) -> float:
        """Another number of a GPU axis, mostly near."""
        if axis.values:
            ordered = sorted(axis.values)
            return ordered[self._near(int(np.argmin(np.abs(np.array(ordered) - number))), len(ordered))]
        at = share_of(axis, np.array([number])) + NEAR * self.rng.standard_normal(1)
        return float(place_in(axis, np.clip(at, 0.0, 1.0))[0])

    def _other(self, digit: int, axis: int) -> int:
        radix = int(self._radices[axis])
        if self._ordered[axis]:
            return self._near(digit, radix)
        return int((digit + self.rng.integers(1, radix)) % radix)

    def _near(self, digit: int, radix: int) -> int:
        if self.rng.random() < NEXT:
            ways = [other for other in (digit - 1, digit + 1) if 0 <= other < radix]
            return int(self.rng.choice(ways))
        return int((digit + self.rng.integers(1, radix)) % radix)


def share_of(axis: GpuAxis, numbers: np.ndarray) -> np.ndarray:
    """Where numbers stand on a range, 0 to 1, by its scale; of listed values by their logarithm or order."""
    low, high = ends(axis)
    if is_log(axis):
        return np.log(numbers / low) / np.log(high / low)
    return (numbers - low) / (high - low)


def place_in(axis: GpuAxis, shares: np.ndarray) -> np.ndarray:
    """Numbers of a range at shares from 0 to 1; of listed values each equally likely for random shares."""
    if axis.values:
        ordered = np.array(sorted(axis.values))
        return ordered[np.minimum((shares * len(ordered)).astype(int), len(ordered) - 1)]
    low, high = ends(axis)
    numbers = low * (high / low) ** shares if is_log(axis) else low + (high - low) * shares
    return np.clip(numbers, low, high)


def nearest(axis: GpuAxis, shares: np.ndarray) -> np.ndarray:
    """Numbers of an axis nearest to shares of its range."""
    shares = np.clip(shares, 0.0, 1.0)
    if not axis.values:
        return place_in(axis, shares)
    ordered = np.array(sorted(axis.values))
    return ordered[np.abs(share_of(axis, ordered)[None, :] - shares[:, None]).argmin(axis=1)]


def ends(axis: GpuAxis) -> tuple[float, float]:
    """The least and the most of an axis."""
    if axis.low is None or axis.high is None:
        return min(axis.values), max(axis.values)
    return axis.low, axis.high


def is_log(axis: GpuAxis) -> bool:
    """Whether steps are factors: a log range, or listed values above 0."""
    return axis.log or (bool(axis.values) and min(axis.values) > 0)
