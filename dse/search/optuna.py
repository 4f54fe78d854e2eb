"""Optuna's samplers as a searcher: ask and tell in batches, infeasible candidates as a constraint."""

import contextlib
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import optuna
from optuna.study import StudyDirection
from optuna.trial import TrialState

from .candidates import Candidates, SearchSpace
from .goals import RUNS
from .parameters import candidates_of, distributions, parameters_of
from .samplers import optuna_sampler


class OptunaSearcher:
    """A `dse.search.Searcher` on an Optuna study.

    Args:
        space: what is chosen.
        study: with its sampler.
        constraints: names of the constraints, `RUNS` first.

    Attributes:
        study: the Optuna study, for `optuna.visualization` and the dashboard.
    """

    def __init__(self, space: SearchSpace, study: optuna.Study, constraints: Sequence[str] = (RUNS,)) -> None:
        self._space = space
        self._distributions = distributions(space)
        self._constraints = tuple(constraints)
        self._trials: list[optuna.Trial] = []
        self.study = study

    def ask(self, count: int) -> Candidates:
        """See `dse.search.Searcher`."""
        self._trials = []
        for _ in range(count):
            self._trials.append(self.study.ask(self._distributions))
        return candidates_of(self._space, [trial.params for trial in self._trials])

    def tell(self, values: np.ndarray, violations: np.ndarray) -> None:
        """See `dse.search.Searcher`."""
        told, self._trials = self._trials, []
        for trial, row, broken in zip(told, values, violations, strict=True):
            if not np.isfinite(row).all():
                self.study.tell(trial, state=TrialState.FAIL)
                continue
            for name, amount in zip(self._constraints, broken, strict=True):
                trial.set_constraint(name, float(amount))
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "Constraints have been set")  # CMA-ES: see `Sampler.constraints`
                self.study.tell(trial, [float(value) for value in row])

    @property
    def numbers(self) -> list[int]:
        """Of the trials of the last `ask`."""
        return [trial.number for trial in self._trials]

    def note(self, notes: Sequence[Mapping[str, Any]]) -> None:
        """Keeps something with each trial of the last `ask`, before it is told."""
        for trial, own in zip(self._trials, notes, strict=True):
            for name, value in own.items():
                trial.set_user_attr(name, value)

    def abandon(self) -> None:
        """Marks what was asked for and will not be told as failed, so that no other process waits for it."""
        for trial in self._trials:
            self.study.tell(trial, state=TrialState.FAIL)
        self._trials = []


def new_study(objectives: int, sampler: str, seed: int) -> optuna.Study:
    """A study in memory."""
    with quiet():
        return optuna.create_study(
            directions=[StudyDirection.MINIMIZE] * objectives, sampler=optuna_sampler(sampler, seed)
        )


def enqueue(study: optuna.Study, space: SearchSpace, parameters: Sequence[dict[str, Any]]) -> None:
    """Tries these next; see `untried`."""
    with quiet():
        for own in untried(study, parameters):
            study.enqueue_trial(own)


def untried(study: optuna.Study, parameters: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those that no trial of the study has told and none waits with: what a process asked for and never told does not
    count, so that a known-good candidate outlives a Ctrl-C."""
    trials = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE, TrialState.WAITING))
    known = [{**trial.params, **trial.system_attrs.get("fixed_params", {})}.items() for trial in trials]
    return [own for own in parameters if not any(own.items() <= there for there in known)]


def add_told(
    study: optuna.Study,
    space: SearchSpace,
    constraints: Sequence[str],
    candidates: Candidates,
    values: np.ndarray,
    violations: np.ndarray,
    notes: Sequence[Mapping[str, Any]] = (),
) -> None:
    """Records candidates that another searcher tried, as finished trials, each with what is noted of it."""
    kinds, trials = distributions(space), []
    told_of = notes or [{}] * len(candidates)
    for own, row, broken, note in zip(parameters_of(space, candidates), values, violations, told_of, strict=True):
        told = np.isfinite(row).all()
        trials.append(
            optuna.create_trial(
                state=TrialState.COMPLETE if told else TrialState.FAIL,
                values=[float(value) for value in row] if told else None,
                params=own,
                distributions=kinds,
                user_attrs=dict(note),
                constraints={name: float(amount) for name, amount in zip(constraints, broken, strict=True)},
            )
        )
    study.add_trials(trials)


def finished_trials(study: optuna.Study) -> list[optuna.trial.FrozenTrial]:
    """Trials that have been told, by number; those that a process never came back from are left out."""
    return study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Without Optuna's word on every study and trial."""
    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        yield
    finally:
        optuna.logging.set_verbosity(verbosity)
