"""A searcher and the Optuna study that its trials are kept in: in memory, or in a file that others may share."""

import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import optuna

from .candidates import Candidates, SearchSpace, joined
from .moves import Moves
from .optuna import OptunaSearcher, add_told, enqueue, finished_trials, new_study, untried
from .parameters import candidates_of, parameters_of

BY = "by"  # user attribute of a trial: the process that tried it


class OwnSearcher(Protocol):
    """A searcher of this package: it is told of others' trials too."""

    def ask(self, count: int) -> Candidates:
        """See `dse.search.Searcher`."""
        ...

    def tell(self, values: np.ndarray, violations: np.ndarray) -> None:
        """See `dse.search.Searcher`."""
        ...

    def learn(self, candidates: Candidates, values: np.ndarray, violations: np.ndarray) -> None:
        """Takes in points that were tried, its own or others'."""
        ...


class OptunaKeeper:
    """Optuna's samplers, whose study is what they learn from.

    Args:
        space: what is chosen.
        study: with its sampler.
        constraints: names.
        stored: whether the study is in a file.
    """

    def __init__(self, space: SearchSpace, study: optuna.Study, constraints: Sequence[str], stored: bool) -> None:
        self._space, self._stored = space, stored
        self._searcher = OptunaSearcher(space, study, constraints)
        self._seen: set[int] = set()
        self._study = study

    def begin(self, first: Sequence[dict[str, Any]]) -> None:
        """Tries these candidates first, but those that the study has."""
        enqueue(self._study, self._space, first)

    def ask(self, count: int) -> Candidates:
        """The next candidates."""
        return self._searcher.ask(count)

    def tell(self, values: np.ndarray, violations: np.ndarray, notes: Sequence[Mapping[str, Any]]) -> None:
        """What they cost, and what to keep with them."""
        self._seen.update(self._searcher.numbers)
        if self._stored:
            self._searcher.note(notes)
        self._searcher.tell(values, violations)

    def others(self) -> "tuple[Candidates, list[dict[str, Any]]] | None":
        """Trials in the file that were not known yet, with their notes; None: there are none."""
        return _fresh(self._study, self._space, self._seen) if self._stored else None

    def learn(self, candidates: Candidates, values: np.ndarray, violations: np.ndarray) -> None:
        """Nothing: the sampler reads the study."""

    def abandon(self) -> None:
        """Gives up what was asked for last."""
        self._searcher.abandon()

    def study(self, *tried: Any) -> optuna.Study:
        """The study."""
        return self._study


class OwnKeeper:
    """A searcher of this package; its trials are written to a study in a file, or to one in memory when that is asked
    for.

    Args:
        space: what is chosen.
        searcher: the searcher.
        study: in a file; None: there is none.
        constraints: names.
        objectives: how many.
        seed: for what the first candidates leave open.
    """

    def __init__(
        self,
        space: SearchSpace,
        searcher: OwnSearcher,
        study: optuna.Study | None,
        constraints: Sequence[str],
        objectives: int,
        seed: int,
    ) -> None:
        self._space, self._searcher, self._study = space, searcher, study
        self._moves = Moves(space, np.random.default_rng([seed, 1]))
        self._constraints, self._objectives = tuple(constraints), objectives
        self._first: list[dict[str, Any]] = []
        self._name = uuid.uuid4().hex
        self._seen: set[int] = set()
        self._asked: Candidates | None = None
        self._from_first = False

    def begin(self, first: Sequence[dict[str, Any]]) -> None:
        """Tries these candidates first; what a parameter leaves open is drawn."""
        self._first = untried(self._study, first) if self._study else list(first)

    def ask(self, count: int) -> Candidates:
        """The next candidates."""
        self._from_first = bool(self._first)
        if self._from_first:
            given, self._first = self._first[:count], self._first[count:]
            drawn = parameters_of(self._space, joined(self._space, *self._moves.random(len(given))))
            self._asked = candidates_of(
                self._space, [{**own, **chosen} for own, chosen in zip(drawn, given, strict=True)]
            )
        else:
            self._asked = self._searcher.ask(count)
        return self._asked

    def tell(self, values: np.ndarray, violations: np.ndarray, notes: Sequence[Mapping[str, Any]]) -> None:
        """What they cost, and what to keep with them."""
        assert self._asked is not None
        if self._from_first:
            self._searcher.learn(self._asked, values, violations)
        else:
            self._searcher.tell(values, violations)
        if self._study is not None:
            signed = [{**note, BY: self._name} for note in notes]
            add_told(self._study, self._space, self._constraints, self._asked, values, violations, signed)

    def others(self) -> "tuple[Candidates, list[dict[str, Any]]] | None":
        """Trials in the file that were not known yet, with their notes; None: there are none."""
        if self._study is None:
            return None
        own = {trial.number for trial in finished_trials(self._study) if trial.user_attrs.get(BY) == self._name}
        self._seen |= own
        return _fresh(self._study, self._space, self._seen)

    def learn(self, candidates: Candidates, values: np.ndarray, violations: np.ndarray) -> None:
        """Takes in others' trials."""
        self._searcher.learn(candidates, values, violations)

    def abandon(self) -> None:
        """Nothing is open: trials are written when they are told."""

    def study(self, candidates: Candidates, values: np.ndarray, violations: np.ndarray) -> optuna.Study:
        """The study, made of all that was tried where there is no file."""
        if self._study is None:
            self._study = new_study(self._objectives, "random", 0)
            add_told(self._study, self._space, self._constraints, candidates, values, violations)
        return self._study


def _fresh(study: optuna.Study, space: SearchSpace, seen: set[int]) -> "tuple[Candidates, list[dict[str, Any]]] | None":
    trials = [trial for trial in finished_trials(study) if trial.number not in seen]
    seen.update(trial.number for trial in trials)
    if not trials:
        return None
    return candidates_of(space, [trial.params for trial in trials]), [dict(trial.user_attrs) for trial in trials]
