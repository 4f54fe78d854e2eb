"""What a search has tried so far: where it stands, and at the end its result."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ..front import non_dominated
from ..job import SweepJob
from ..progress import Snapshot
from .candidates import Candidates
from .choice import Choice
from .evaluate import Evaluated, Evaluator
from .goals import PREFIX, Goals
from .quality import Quality, Reference, share_of_box

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class SearchResult:
    """What a search found.

    Attributes:
        job: problem, space, and how many of the best are asked for.
        goals: objectives, quantities of the GPU and limits.
        trials: every candidate tried, in order: `trial`, a column `gpu.<name>` for each chosen number of the GPU and
            each quantity of it that matters, and the columns of `dse.rows.evaluate_rows` (with an inner sweep those of
            `dse.search.inner`). Infeasible ones have a `reason` other than 0; where limits are given, `within_limits`.
        best: the trials that are allowed, by the first objective, at most `job.top`, each choice once.
        front: the trials that are allowed and that no other dominates, by the objectives, each choice once.
        sampler, seed: how candidates were drawn.
        choice: who named the sampler, and why.
        in_file, others: of the trials, those that a file held before, and those that other processes added meanwhile.
        now: of the GPU without what is searched, latency, objectives and what limits are on, name -> number, NaN where
            it runs nothing; None: that was not asked, or is not known.
        now_how: in words, with which schedule.
        feasible: how many trials can run and keep to the limits.
        evaluations: of the model, those of inner sweeps and derivatives included.
        seconds: wall time.
        asking_s: of it, seconds that the searcher took to propose and to learn.
        incomplete: whether Ctrl-C ended the search early.
        make_study: makes `study`.
        quality: how close it came to the exhaustive answer; None: that was not computed, see `compared`.
        compared: in words, what it was compared with, or why it was not.
    """

    job: SweepJob
    goals: Goals
    trials: "pd.DataFrame"
    best: "pd.DataFrame"
    front: "pd.DataFrame"
    sampler: str
    choice: Choice
    seed: int
    feasible: int
    evaluations: int
    seconds: float
    asking_s: float
    incomplete: bool
    make_study: Callable[[], Any]
    quality: Quality | None = None
    compared: str = ""
    in_file: int = 0
    others: int = 0
    now: Mapping[str, float] | None = None
    now_how: str = ""

    @cached_property
    def study(self) -> Any:
        """The Optuna study, for `optuna.visualization` and the dashboard; of a searcher of this package and without a
        file it is made when it is asked for."""
        return self.make_study()

    @property
    def constant_objectives(self) -> list[str]:
        """Objectives that had one value in all trials that are allowed: they decide nothing."""
        columns = self.goals.columns()
        allowed = self.trials[allowed_rows(self.trials, self.goals)]
        if len(allowed) < 2:
            return []
        return [
            name for name, column in zip(self.goals.objectives, columns, strict=True) if allowed[column].nunique() == 1
        ]


class Record:
    """Candidates and costs, batch by batch.

    Args:
        job, goals: what is sought.
        trials: the budget.
        reference: the exhaustive answer, for the hypervolume in snapshots.
    """

    def __init__(self, job: SweepJob, goals: Goals, trials: int, reference: Reference | None = None) -> None:
        self._job, self._goals, self._total, self._reference = job, goals, trials, reference
        self._began = time.perf_counter()
        self._candidates: list[Candidates] = []
        self._columns: list[dict[str, np.ndarray]] = []
        self._front = np.zeros((0, len(goals.objectives)))
        self.done = 0  # trials
        self.evaluations = 0
        self.asking_s = 0.0
        self.worst = np.full(len(goals.objectives), np.nan)  # of what was computed, nothing yet

    def add(self, candidates: Candidates, evaluated: Evaluated) -> None:
        """One batch."""
        self._candidates.append(candidates)
        self._columns.append(dict(evaluated.columns))
        self.done += len(candidates)
        self.evaluations += evaluated.evaluations
        allowed = (evaluated.violations <= 0).all(axis=1) & np.isfinite(evaluated.values).all(axis=1)
        finite = np.where(np.isfinite(evaluated.values), evaluated.values, np.nan)
        self.worst = np.fmax.reduce([self.worst, *finite])
        values = np.unique(np.concatenate([self._front, evaluated.values[allowed]]), axis=0)
        self._front = values[non_dominated(values)]

    def snapshot(self, finished: bool = False) -> Snapshot:
        """Where the search stands."""
        seconds = time.perf_counter() - self._began
        several = len(self._goals.objectives) > 1
        share = share_of_box(self._reference, self._front) if self._reference and several else None
        return Snapshot(
            done=self.done,
            total=self._total,
            seconds=seconds,
            rate=self.done / max(seconds, 1e-9),
            best=float(self._front[:, 0].min()) if len(self._front) else None,
            best_name=self._goals.objectives[0],
            front=len(self._front) if several else None,
            finished=finished,
            hypervolume=share,
        )

    @property
    def front_trials(self) -> np.ndarray:
        """Places of the trials on the front, in the order of the first objective."""
        columns = _joined(self._columns)
        values, broken = self._goals.values(columns), self._goals.violations(columns)
        places = np.flatnonzero((broken <= 0).all(axis=1) & np.isfinite(values).all(axis=1))
        places = places[non_dominated(values[places])]
        return places[np.argsort(values[places, 0], kind="stable")]

    def replace(self, places: np.ndarray, evaluated: Evaluated) -> None:
        """Puts better costs of trials in the place of bounds."""
        columns = _joined(self._columns)
        for name, values in evaluated.columns.items():
            columns[name][places] = values
        self._columns = [columns]
        self.evaluations += evaluated.evaluations

    @property
    def candidates(self) -> Candidates:
        """All candidates tried."""
        return _joined_candidates(self._candidates)

    @property
    def costs(self) -> tuple[np.ndarray, np.ndarray]:
        """Values and violations of all trials."""
        columns = _joined(self._columns)
        return self._goals.values(columns), self._goals.violations(columns)

    def result(self, evaluator: Evaluator, **about: Any) -> SearchResult:
        """The result; `about` are the fields of `SearchResult` that the record does not know."""
        tried = self.table(evaluator)
        objectives = self._goals.columns()
        allowed = allowed_rows(tried, self._goals)
        usable = tried[allowed].drop_duplicates(choice_columns(tried))
        front = usable[non_dominated(usable[objectives].to_numpy(float))]
        return SearchResult(
            job=self._job,
            goals=self._goals,
            trials=tried,
            best=usable.sort_values([objectives[0], "trial"]).head(self._job.top).reset_index(drop=True),
            front=front.sort_values([*objectives, "trial"]).reset_index(drop=True),
            feasible=int(allowed.sum()),
            evaluations=self.evaluations,
            seconds=time.perf_counter() - self._began,
            asking_s=self.asking_s,
            **about,
        )

    def table(self, evaluator: Evaluator) -> "pd.DataFrame":
        """The table of trials."""
        candidates, columns = _joined_candidates(self._candidates), _joined(self._columns)
        rows = evaluator.rows(candidates, columns)
        if self._goals.limits:
            broken = self._goals.violations(columns)[:, 1:]
            rows.insert(0, "within_limits", np.all(broken <= 0, axis=1).tolist())
        front = {PREFIX + name: own for name, own in candidates.gpu.items()}
        front |= {name: own for name, own in columns.items() if name.startswith(PREFIX)}
        for name, own in reversed(front.items()):
            rows.insert(0, name, own)
        rows.insert(0, "trial", np.arange(len(rows)))
        return rows


def allowed_rows(trials: "pd.DataFrame", goals: Goals) -> np.ndarray:
    """Which rows of a table of trials can run, keep to the limits and have numbers."""
    finite = np.isfinite(trials[goals.columns()].to_numpy(float)).all(axis=1)
    allowed = (trials["reason"].to_numpy() == 0) & finite
    return allowed & trials["within_limits"].to_numpy() if "within_limits" in trials else allowed


def choice_columns(trials: "pd.DataFrame") -> list[str]:
    """The columns that say what a trial chose."""
    return [name for name in map(str, trials) if name == "index" or name.startswith(("index ", PREFIX))]


def _joined_candidates(parts: Sequence[Candidates]) -> Candidates:
    return Candidates(np.concatenate([part.digits for part in parts]), _joined([part.gpu for part in parts]))


def _joined(blocks: Sequence[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    return {name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]} if blocks else {}
