"""The smallest improvement that reaches a latency: a shortlist of schedules says where to look, tuning over the whole
space decides.

A shortlist's best is never faster than the space's, so where the shortlist reaches the latency the space does too. The
step below is tuned over the whole space: where that reaches it as well, its schedule joins the shortlist and the search
goes on below, until a step reaches the latency and the step below it does not. What is said of a step is always what
tuning over the whole space found.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from .improvable import Knob
from .tuned_machines import Machines

COARSE = 12  # places at which a shortlist's curve is looked at where more may be worse
COARSE_EXACT = 3  # places that are tuned over the whole space there
EVERY_VALUE = 24  # this many values below an answer are all tuned; of more, as many spread evenly
BETWEEN = 9  # places at which a shortlist is asked where the limit of a knob does not reach
PATIENCE = 4  # rounds after which the shortlist's word is halved
ROUNDING = 1e-6


@dataclass(frozen=True)
class Smallest:
    """What was found of a knob.

    Attributes:
        knob: the fields.
        place: in `knob.factors`, the smallest that reaches the latency; None: none that was looked at does.
        best: place of the fastest machine that was tuned, for knobs that do not reach it.
        tuned: places that were tuned over the whole space, ascending.
        every_value: all places below the answer were tuned, or more is never slower and the place below was.
    """

    knob: Knob
    place: int | None
    best: int
    tuned: tuple[int, ...]
    every_value: bool


def smallest_changes(machines: Machines, knobs: Sequence[Knob], target_s: float) -> list[Smallest]:
    """The smallest improvement of every knob that brings the weighted latency down to `target_s`.

    Args:
        machines: of all knobs.
        knobs: what may be improved, each by itself.
        target_s: the latency to reach; below the one of the GPU as it is.

    Raises:
        UserError: no schedule can run a shape on the GPU as it is.
    """
    searches = [
        _Counted(machines, knob, target_s) if knob.counted else _Falling(machines, knob, target_s) for knob in knobs
    ]
    while wanted := [(search.knob, place) for search in searches for place in search.wanted()]:
        machines.tune(wanted)
    return [search.found() for search in searches]


class _Search:
    def __init__(self, machines: Machines, knob: Knob, target_s: float) -> None:
        self.machines, self.knob, self.target_s = machines, knob, target_s
        self.last = len(knob.factors) - 1

    def tuned_s(self, place: int) -> float:
        return self.machines.tune([(self.knob, place)])[0].total_s

    def reaches(self, place: int) -> bool:
        return self.tuned_s(place) <= self.target_s

    def missing(self, places: Iterable[int]) -> list[int]:
        done = set(self.machines.tuned_places(self.knob))
        return [place for place in dict.fromkeys(places) if place > 0 and place not in done]

    def fastest(self) -> int:
        return min(self.machines.tuned_places(self.knob), key=self.tuned_s)


class _Falling(_Search):
    """A knob that does not make a schedule slower: `low` does not reach the latency, `high` does.

    Under a power limit a much faster engine may (it draws more). So what the limit of the knob does not reach is looked
    for between, by the shortlist.
    """

    def __init__(self, machines: Machines, knob: Knob, target_s: float) -> None:
        super().__init__(machines, knob, target_s)
        self.low, self.high = 0, self.last + 1
        self.probes = [self.last]
        self.rounds = 0

    def wanted(self) -> list[int]:
        """Places to tune next; empty at the end."""
        if self.missing(self.probes):
            return self.missing(self.probes)
        self.rounds += 1
        if self.rounds == 1 and not self.reaches(self.last):
            self.probes = self._between()
            return self.missing(self.probes)
        tuned = self.machines.tuned_places(self.knob)
        self.high = min([place for place in tuned if self.reaches(place)], default=self.last + 1)
        self.low = max([0, *(place for place in tuned if place < self.high)])
        if self.high > self.last or self.high - self.low <= 1:
            return []
        guess = self._first_by_shortlist()
        other = guess if self.rounds < PATIENCE else (self.low + self.high) // 2
        self.probes = [min(max(place, self.low + 1), self.high - 1) for place in (guess - 1, other)]
        return self.missing(self.probes)

    def found(self) -> Smallest:
        """The answer, once nothing is wanted."""
        tuned = self.machines.tuned_places(self.knob)
        totals = [self.tuned_s(place) for place in (0, *tuned)]
        falls = all(after <= before * (1 + ROUNDING) for before, after in pairwise(totals))
        return Smallest(self.knob, self.high if self.high <= self.last else None, self.fastest(), tuned, falls)

    def _between(self) -> list[int]:
        """Where the shortlist reaches the latency below a limit that does not, else where it is faster than there."""
        curve = {place: self.machines.shortlist_s((self.knob, place)) for place in _spread(1, self.last - 1, BETWEEN)}
        reached = [place for place, total_s in curve.items() if total_s <= self.target_s]
        faster = [place for place in curve if curve[place] < self.tuned_s(self.last) * (1 - ROUNDING)]
        return reached[:1] or sorted(faster, key=lambda place: curve[place])[:1]

    def _first_by_shortlist(self) -> int:
        """The first place between `low` and `high` at which the shortlist reaches the latency, else `high`."""
        low, high = self.low, self.high
        at = {low: self.tuned_s(low), high: self.tuned_s(high)}
        steps = 0
        while high - low > 1:
            steps += 1
            share = math.log(at[low] / self.target_s) / math.log(at[low] / at[high])
            middle = round(low + share * (high - low)) if steps % 3 else (low + high) // 2
            middle = min(max(middle, low + 1), high - 1)
            at[middle] = self.machines.shortlist_s((self.knob, middle))
            if at[middle] <= self.target_s:
                high = middle
            else:
                low = middle
        return high


class _Counted(_Search):
    """A knob of which more may be slower: looked through value by value, coarsely where there are many."""

    def __init__(self, machines: Machines, knob: Knob, target_s: float) -> None:
        super().__init__(machines, knob, target_s)
        self.coarse = _spread(1, self.last, COARSE)
        self.probes = _spread(1, self.last, COARSE_EXACT)
        self.began = False

    def wanted(self) -> list[int]:
        """Places to tune next; empty at the end."""
        if self.missing(self.probes):
            return self.missing(self.probes)
        if not self.began:
            self.began = True
            curve = {place: self.machines.shortlist_s((self.knob, place)) for place in self.coarse}
            reached = [place for place in self.coarse if curve[place] <= self.target_s]
            self.probes = reached[:1] or [min(self.coarse, key=lambda place: curve[place])]
            if self.missing(self.probes):
                return self.missing(self.probes)
        high = self._high()
        if high is None:
            return []
        self.probes = _spread(1, high - 1, EVERY_VALUE)
        if self.probes and not self.missing(self.probes) and self._gap(high):
            self.probes = [high - 1]
        return self.missing(self.probes)

    def found(self) -> Smallest:
        """The answer, once nothing is wanted."""
        tuned, high = self.machines.tuned_places(self.knob), self._high()
        every = high is not None and not self._gap(high)
        return Smallest(self.knob, high, self.fastest(), tuned, every)

    def _high(self) -> int | None:
        return next((place for place in self.machines.tuned_places(self.knob) if self.reaches(place)), None)

    def _gap(self, high: int) -> bool:
        return bool(self.missing(range(1, high)))


def _spread(first: int, last: int, most: int) -> list[int]:
    """Whole numbers from `first` to `last`, at most `most`, both ends among them; none where last < first."""
    if last < first:
        return []
    return sorted({int(place) for place in np.linspace(first, last, min(most, last - first + 1)).round()})
