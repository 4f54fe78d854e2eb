"""Local search: steps along the axes from the best points so far, none tried twice, with restarts.

Of one objective a step starts from one of the few best points; of several, from the point of the front that is nearest
to the ideal under weights drawn anew for every step (a weighted maximum over the objectives' logarithms), so that the
whole front is worked on. Most steps move along one axis, some along two or three, and a tenth of the points are drawn
anywhere. Where nothing better was found for a while, the search starts anew from random points; the front keeps what
was found.
"""

import numpy as np

from .archive import Archive
from .candidates import Candidates, SearchSpace, joined
from .moves import Moves

AN_AXIS, A_GPU_AXIS = 5, 2  # random points before the first step and at a restart, for each axis with a choice
LEADERS = 6  # points that steps start from
DECAY = 0.5  # how much likelier each of them is than the next
AXES = (0.6, 0.3, 0.1)  # how often a step moves along one axis, two, three
ANYWHERE = 0.1  # how often a point is drawn anywhere
PATIENCE = 150  # points without a better one before a restart
TRIES = 50  # steps from one point before it counts as worked out


class LocalSearcher:
    """A `dse.search.Searcher` that learns from its own points and from what it is taught (`learn`).

    Args:
        space: what is chosen.
        objectives: how many.
        seed: where chance comes from.
    """

    def __init__(self, space: SearchSpace, objectives: int, seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        self._moves = Moves(space, self._rng)
        self._objectives = objectives
        self._archive = Archive()
        axes = sum(radix > 1 for radix in space.radices)
        self._beginning = AN_AXIS * axes + A_GPU_AXIS * len(space.gpu)
        self._random_left = self._beginning
        self._idle = 0
        self._asked: Candidates | None = None

    def ask(self, count: int) -> Candidates:
        """See `dse.search.Searcher`."""
        points = [self._next() for _ in range(count)]
        digits, numbers = (np.stack(part) for part in zip(*points, strict=True))
        self._asked = joined(self._moves.space, digits, numbers)
        return self._asked

    def tell(self, values: np.ndarray, violations: np.ndarray) -> None:
        """See `dse.search.Searcher`."""
        assert self._asked is not None
        self.learn(self._asked, values, violations)

    def learn(self, candidates: Candidates, values: np.ndarray, violations: np.ndarray) -> None:
        """Takes in points that were tried, its own or others'."""
        better = self._archive.add(candidates, values, violations)
        self._idle = 0 if better else self._idle + len(candidates)
        if self._idle >= PATIENCE:
            self._idle, self._random_left = 0, self._beginning
            self._archive.forget_leaders()

    def _next(self) -> tuple[np.ndarray, np.ndarray]:
        parent = None
        if self._random_left > 0:
            self._random_left -= 1
        elif self._rng.random() >= ANYWHERE:
            parent = self._parent()
        for _ in range(TRIES):
            if parent is None:
                digits, numbers = (part[0] for part in self._moves.random(1))
            else:
                axes = 1 + int(self._rng.choice(len(AXES), p=AXES))
                digits, numbers = self._moves.step(*self._archive.point(parent), axes)
            if not self._archive.has(digits, numbers):
                self._archive.reserve(digits, numbers)
                return digits, numbers
        digits, numbers = (part[0] for part in self._moves.random(1))  # all near is known: anywhere
        return digits, numbers

    def _parent(self) -> int | None:
        if self._objectives > 1:
            return self._archive.best(self._rng.dirichlet(np.ones(self._objectives)))
        leaders = self._archive.leaders(LEADERS)
        if not leaders:
            return None
        chance = DECAY ** np.arange(len(leaders))
        return leaders[int(self._rng.choice(len(leaders), p=chance / chance.sum()))]
