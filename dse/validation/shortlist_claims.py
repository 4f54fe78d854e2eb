"""Do shortlists keep what they claim? On measured schedules of shapes that the error model has not seen."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..trust.within_shape import WithinShape
from .within_shape_fit import SchedulesOfShape, fit_within_shape

# the study, given by the caller: `choose_shortlist` of dse.studies.benchmark, or something that is asked the same
Choose = Callable[..., Any]


@dataclass(frozen=True)
class Claim:
    """One shortlist of one measured problem.

    Attributes:
        problem: its name.
        within: how near the best measured one is near enough.
        schedules: measured.
        listed: how many the list holds.
        claimed: its chance.
        held: whether one of them was measured that near the best.
        by_prediction_held: the same for as many predicted fastest.
    """

    problem: str
    within: float
    schedules: int
    listed: int
    claimed: float
    held: bool
    by_prediction_held: bool


def held_out_claims(
    problems: Sequence[SchedulesOfShape],
    choose: Choose,
    withins: Sequence[float] = (0.02, 0.05),
    chance: float = 0.95,
    seed: int = 0,
) -> list[Claim]:
    """Fits the error model without a shape, makes a list for each of its problems, and looks whether it holds.

    Problems of one shape in several layouts are left out together. What a measurement adds is drawn too, since the
    best of measured latencies is in part the luckiest.

    Args:
        problems: at least two shapes.
        choose: `choose_shortlist`.
        withins, chance, seed: what is asked of it.
    """
    claims = []
    for shape in dict.fromkeys(shape_of(problem) for problem in problems):
        model = fit_within_shape([problem for problem in problems if shape_of(problem) != shape], spread=1.0)
        for problem in problems:
            if shape_of(problem) == shape:
                claims += [_claim(problem, choose, model, within, chance, seed) for within in withins]
    return claims


def shape_of(problem: SchedulesOfShape) -> str:
    """A problem's shape, without layout and type."""
    return problem.name.split(" ")[0]


def _claim(
    problem: SchedulesOfShape, choose: Choose, model: WithinShape, within: float, chance: float, seed: int
) -> Claim:
    found = choose(problem.columns, problem.predicted_s, within, chance, seed=seed, noise=True, model=model)
    listed = list(found.listed)
    near = problem.measured_s <= problem.measured_s.min() * (1.0 + within)
    fastest = np.argsort(problem.predicted_s, kind="stable")[: len(listed)]
    return Claim(
        problem=problem.name,
        within=within,
        schedules=len(near),
        listed=len(listed),
        claimed=float(found.chances[len(listed) - 1]),
        held=bool(near[listed].any()),
        by_prediction_held=bool(near[fastest].any()),
    )
