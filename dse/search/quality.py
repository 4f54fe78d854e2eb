"""How close a search came: regret and hypervolume against the exhaustive answer, and after how many trials.

regret             the best found over the true best, less 1 (of the first objective)
hypervolume share  of the front found over the exhaustive front's, both from the same reference point, which is 1.1
                   times the exhaustive front's worst in each objective (`dse.front_measures.hypervolume`)
"""

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from ..errors import UserError
from ..front import non_dominated
from ..front_measures import hypervolume
from ..job import SweepJob
from ..provenance import describe_problem, record_hash
from ..runs import open_run
from ..sweep import run_sweep
from .goals import Goals, Limit

AFFORDABLE = 1_000_000  # points: swept within a second or so
NEAR_OPTIMUM = 0.01
NEAR_FRONT = 0.99


@dataclass(frozen=True, eq=False)
class Reference:
    """The exhaustive answer.

    Attributes:
        front: float64[rows, objectives], not dominated.
        point: the reference point of hypervolumes.
        volume: the front's hypervolume.
        evaluations: that it took.
        source: in words.
    """

    front: np.ndarray
    point: tuple[float, ...]
    volume: float
    evaluations: int
    source: str

    @property
    def best(self) -> float:
        """The true best of the first objective."""
        return float(self.front[:, 0].min())


@dataclass(frozen=True)
class Quality:
    """How close a search came to the exhaustive answer.

    Attributes:
        best, true_best: of the first objective; infinite where nothing was found.
        regret: best / true_best - 1.
        hypervolume_share: of the exhaustive front's, 0 to 1; above 1 where the search may leave what was swept.
        trials_to_1_percent: trials until the best was within 1 % of the true best; None: it never was.
        trials_to_99_percent: trials until the share was 0.99; None: it never was. None of one objective.
        reference: the reference point of the hypervolumes.
        evaluations: of the exhaustive answer.
    """

    best: float
    true_best: float
    regret: float
    hypervolume_share: float
    trials_to_1_percent: int | None
    trials_to_99_percent: int | None
    reference: tuple[float, ...]
    evaluations: int

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {**asdict(self), "reference": list(self.reference)}


def reference_of(values: Any, evaluations: int, source: str) -> Reference:
    """The exhaustive answer from all vectors of objectives, or from their front.

    Raises:
        UserError: no rows.
    """
    values = np.unique(np.asarray(values, np.float64), axis=0)
    if not len(values):
        raise UserError(f"{source}: no schedule can run, so there is nothing to compare with")
    front = values[non_dominated(values)]
    volume = hypervolume(front)
    return Reference(front, volume.reference, volume.value, evaluations, source)


def share_of_front(reference: Reference, values: np.ndarray) -> float:
    """The hypervolume of some vectors over the exhaustive front's, from the same reference point."""
    inside = values[(values < np.array(reference.point)).all(axis=1)] if len(values) else values
    return hypervolume(inside, reference.point).value / reference.volume if len(inside) else 0.0


def share_of_box(reference: Reference, values: np.ndarray) -> float:
    """The hypervolume of some vectors over the box between the exhaustive front's ideal and the reference point."""
    width = np.array(reference.point) - reference.front.min(axis=0)
    return share_of_front(reference, values) * reference.volume / float(np.prod(width))


def quality_of(reference: Reference, values: np.ndarray, allowed: np.ndarray) -> Quality:
    """Regret and hypervolume of trials in their order.

    Args:
        reference: the exhaustive answer.
        values: float64[trials, objectives].
        allowed: bool[trials], whether a trial counts.
    """
    best = np.minimum.accumulate(np.where(allowed, values[:, 0], np.inf)) if len(values) else np.array([np.inf])
    near = np.flatnonzero(best <= reference.best * (1 + NEAR_OPTIMUM))
    history = hypervolume_history(reference, values, allowed)
    reached = [trial for trial, share in history if share >= NEAR_FRONT]
    several = values.shape[1] > 1
    return Quality(
        best=float(best[-1]),
        true_best=reference.best,
        regret=float(best[-1] / reference.best - 1),
        hypervolume_share=history[-1][1] if history else 0.0,
        trials_to_1_percent=int(near[0]) + 1 if len(near) else None,
        trials_to_99_percent=(reached[0] if reached else None) if several else None,
        reference=reference.point,
        evaluations=reference.evaluations,
    )


def hypervolume_history(reference: Reference, values: np.ndarray, allowed: np.ndarray) -> list[tuple[int, float]]:
    """(trials so far, hypervolume share) after every trial that changed the front."""
    front = np.zeros((0, values.shape[1]))
    found: list[tuple[int, float]] = []
    for place in np.flatnonzero(allowed & np.isfinite(values).all(axis=1)):
        row = values[place]
        if len(front) and (front <= row).all(axis=1).any():
            continue
        front = np.concatenate([front[~(row <= front).all(axis=1)], row[None]])
        found.append((int(place) + 1, share_of_front(reference, front)))
    return found


def swept_reference(job: SweepJob, goals: Goals) -> Reference:
    """The exhaustive answer by a sweep of the space."""
    swept = run_sweep(replace(job, objectives=goals.objectives, rank_by=goals.objectives[0], tie_limit=0))
    front = swept.front[list(goals.objectives)].to_numpy(float)
    return _limited(front, goals, swept.evaluated, f"a sweep of all {job.space.size:,} points")


def run_reference(folder: str | os.PathLike[str], job: SweepJob, goals: Goals) -> Reference:
    """The exhaustive answer of a finished sweep.

    Raises:
        UserError: no run there, or one of another problem, GPU, space or other objectives.
    """
    run = open_run(folder)
    there, differs = run.job, []
    if describe_problem(there.problem) != describe_problem(job.problem):
        differs.append(f"its problem is {there.problem_name}, not {job.problem_name} or of other types")
    if record_hash(there.gpu) != record_hash(job.gpu):
        differs.append(f"its GPU is {there.gpu_name} with other numbers")
    if there.space.hash != job.space.hash:
        differs.append(f"its space is {there.space.name} with {there.space.size:,} points, not {job.space.size:,}")
    if set(there.objectives) != set(goals.objectives):
        differs.append(f"its objectives are {', '.join(there.objectives)}, not {', '.join(goals.objectives)}")
    if run.stale:
        differs.append("the model's code has changed since")
    if differs:
        raise UserError(f"--reference {run.path} is of another question: {'; '.join(differs)}; sweep this one first")
    front = run.front[list(goals.objectives)].to_numpy(float)
    return _limited(front, goals, int(run.summary.get("evaluated", 0)), f"the sweep in {run.path}")


def why_not_compared(goals: Goals, gpu_axes: Sequence[str], size: int) -> str:
    """Why no exhaustive answer is computed by itself, in words; "": it can be."""
    if gpu_axes:
        return "not compared: the GPU is searched as well"
    beside = [limit.name for limit in goals.limits if limit.name not in goals.objectives]
    if beside:
        return f"not compared: the limit on {beside[0]} is no objective, so a sweep's front is of another question"
    if size > AFFORDABLE:
        return f"not compared: {size:,} points are more than {AFFORDABLE:,}; give --reference with a finished sweep"
    return ""


def _limited(front: np.ndarray, goals: Goals, evaluations: int, source: str) -> Reference:
    """Limits on objectives cut a front: whatever dominates a point that keeps to them does so too."""
    for limit in goals.limits:
        least = front[:, goals.objectives.index(limit.name)].min(initial=np.inf)
        front = front[front[:, goals.objectives.index(limit.name)] <= limit.most]
        if not len(front):
            raise UserError(_unreachable(limit, goals, float(least), source))
    return reference_of(front, evaluations, source)


def _unreachable(limit: Limit, goals: Goals, least: float, source: str) -> str:
    if not np.isfinite(least):
        return f"{source}: no schedule can run, so there is nothing to compare with"
    others = "" if goals.limits[0] is limit else " of those within the other limits"
    return (
        f"limit {limit.name} = {limit.most:g} is below what any schedule has ({source}): {least:g} is the least{others}"
    )
