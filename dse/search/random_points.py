"""Independent random points: what every other searcher has to beat."""

import numpy as np

from .candidates import Candidates, SearchSpace, joined
from .moves import Moves


class RandomSearcher:
    """A `dse.search.Searcher` that learns nothing.

    Args:
        space: what is chosen.
        seed: where chance comes from.
    """

    def __init__(self, space: SearchSpace, seed: int) -> None:
        self._moves = Moves(space, np.random.default_rng(seed))

    def ask(self, count: int) -> Candidates:
        """See `dse.search.Searcher`."""
        return joined(self._moves.space, *self._moves.random(count))

    def tell(self, values: np.ndarray, violations: np.ndarray) -> None:
        """See `dse.search.Searcher`."""

    def learn(self, candidates: Candidates, values: np.ndarray, violations: np.ndarray) -> None:
        """Nothing."""
