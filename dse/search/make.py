"""The parts of a search, made of what was asked: the evaluator, the study, and the searcher that it is for."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import UserError
from ..job import SweepJob, as_float32
from ..provenance import describe_problem, hash_of_model, record_hash
from .candidates import SearchSpace
from .evaluate import BatchEvaluator, Evaluator, fields_of
from .goals import Goals
from .machines import Machines
from .samplers import SAMPLERS
from .unchanged import Unchanged

if TYPE_CHECKING:
    import optuna


@dataclass(frozen=True)
class Task:
    """What is searched, and how.

    Attributes:
        job: problem, GPU and space.
        space: what is chosen.
        goals: objectives and limits.
        machines: the GPUs.
        sampler, seed: how candidates are drawn.
        problems, weights: of a trial, and how often each counts.
        inner: "sweep", "shortlist" or None, see `dse.search.inner`.
        now: the GPU without what is searched.
    """

    job: SweepJob
    space: SearchSpace
    goals: Goals
    machines: Machines
    sampler: str
    seed: int
    problems: Sequence[Any]
    weights: Sequence[float]
    inner: str | None
    now: Unchanged | None = None

    @property
    def question(self) -> dict[str, Any]:
        """What decides a trial's values, label -> text or numbers, for a file of trials."""
        axes = {
            axis.name: list(axis.values) if axis.values else [axis.low, axis.high, "log" if axis.log else "linear"]
            for axis in self.space.gpu
        }
        job = self.job
        return {
            "kernel": job.model.name,
            "problem": [describe_problem(own) for own in self.problems],
            "weights": list(self.weights),
            "gpu": job.gpu_name,
            "gpu numbers": record_hash(job.gpu)[:12],
            "space": f"{job.space.name}, {job.space.size} points, {job.space.hash[:12]}",
            "gpu axes": axes,
            "inner": self.inner or "none",
            "objectives": list(self.goals.objectives),
            "limits": {limit.name: limit.most for limit in self.goals.limits},
            "model": hash_of_model(job.model)[:12],
        }


def make_study(
    task: Task, storage: str | os.PathLike[str] | None, name: str | None
) -> "tuple[optuna.Study | None, int]":
    """The study in a file, and the seed of this process; None and the task's seed where there is no file.

    Raises:
        UserError: as `dse.search.storage.open_study`, or a name without a file.
    """
    if storage is None:
        if name is not None:
            raise UserError(f"--study-name {name} names a study in a file: give --storage FILE too")
        return None, task.seed
    from .storage import open_study

    job = task.job
    named = name or f"{job.space.kernel} {job.problem_name or job.problem} on {job.gpu_name or 'a GPU'}"
    return open_study(storage, named, task.question, len(task.goals.objectives), task.seed)


def make_evaluator(task: Task, size: int) -> Evaluator:
    """What says what candidates cost, `size` at a time."""
    if task.inner is None:
        return BatchEvaluator(task.job, task.goals, task.machines, size)
    from .inner import InnerEvaluator

    shortlist = task.inner == "shortlist"
    more = task.machines.records(task.now.candidate(task.space)) if task.now else ()
    own = task.job, task.problems, task.weights, task.space, task.goals, task.machines
    return InnerEvaluator(*own, shortlist, more)


def make_keeper(task: Task, evaluator: Any, study: "optuna.Study | None", seed: int) -> tuple[Any, Any]:
    """The searcher with its study (`dse.search.keeper`), and a searcher of this package itself, else None."""
    from .keeper import OptunaKeeper, OwnKeeper
    from .optuna import new_study
    from .samplers import optuna_sampler

    space, goals, objectives = task.space, task.goals, len(task.goals.objectives)
    if SAMPLERS[task.sampler].optuna:
        if study is not None:
            study.sampler = optuna_sampler(task.sampler, seed)
        own = study or new_study(objectives, task.sampler, seed)
        return OptunaKeeper(space, own, goals.constraints, study is not None), None
    searcher = _own_searcher(task, evaluator, seed)
    return OwnKeeper(space, searcher, study, goals.constraints, objectives, seed), searcher


def _own_searcher(task: Task, evaluator: Any, seed: int) -> Any:
    from .gradient import GradientSearcher
    from .local import LocalSearcher
    from .random_points import RandomSearcher
    from .slopes import Slopes

    if task.sampler == "random":
        return RandomSearcher(task.space, seed)
    if task.sampler == "local":
        return LocalSearcher(task.space, len(task.goals.objectives), seed)
    records = [as_float32(own.arrays() if hasattr(own, "arrays") else own) for own in task.problems]
    slopes = Slopes(task.job.model, records, task.weights, task.space, task.goals, task.machines)

    def schedules(digits: np.ndarray, numbers: np.ndarray) -> list[Any]:
        if task.space.schedules is None:
            return evaluator.tuned(digits, numbers)
        return [{name: values[0] for name, values in fields_of(task.space.schedules, digits[None]).items()}]

    return GradientSearcher(task.space, task.goals, seed, task.machines, slopes, schedules)
