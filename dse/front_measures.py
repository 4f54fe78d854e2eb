"""Measures of a front whose objectives are all minimised: its hypervolume and its knees."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .errors import UserError

REFERENCE_FACTOR = 1.1
NEAR = 0.15  # of the front's extent: two knees are no nearer to each other than this
AT_ONCE = 512
GROWING_OBJECTIVES = 3  # with more, a front of thousands takes seconds
GROWING_EVERY_S = 0.5
GROWING_TIME_SHARE = 0.05
QUICK_POINTS = {5: 2000, 6: 500}  # more take the exact hypervolume over some seconds; fewer objectives are quick


@dataclass(frozen=True)
class Hypervolume:
    """How much of the objective space a front dominates.

    Attributes:
        value: of the space between the front and the reference, in the product of the objectives' units.
        share: of the box between the front's best in every objective and the reference, 0 to 1.
        reference: the reference point, an entry an objective.
        rule: where the reference comes from, in words.
        beyond: rows that are not better than the reference in every objective; they add nothing.
    """

    value: float
    share: float
    reference: tuple[float, ...]
    rule: str
    beyond: int

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {**vars(self), "reference": list(self.reference)}


@dataclass(frozen=True)
class Knee:
    """A point of a front from which every step costs more than it brings.

    Attributes:
        place: its row.
        distance: how far it lies below the plane through the ends, see `knees`; above 0.
    """

    place: int
    distance: float


def is_quick(values: Any) -> bool:
    """Whether the hypervolume of these rows takes no more than a few seconds."""
    values = np.asarray(values)
    return values.shape[1] < min(QUICK_POINTS) or len(np.unique(values, axis=0)) <= QUICK_POINTS[values.shape[1]]


def hypervolume(values: Any, reference: Sequence[float] | None = None) -> Hypervolume:
    """The volume of the points that some row dominates and that dominate the reference; moocore computes it.

    Two fronts compare by it only with the same reference, so the result holds the reference and where it comes from.

    Args:
        values: float[rows, objectives], at least one row.
        reference: an entry an objective, worse than what counts; None: 1.1 times the worst of the rows in each
            objective, or 1 where that is 0.

    Raises:
        UserError: no rows, a reference of another length or one that is not finite.
    """
    import moocore

    values = np.asarray(values, np.float64)
    if not values.size:
        raise UserError("the hypervolume of an empty front is not defined: no schedule can run")
    if reference is None:
        at = reference_point(values)
        rule = f"{REFERENCE_FACTOR:g} times the front's worst in each objective"
    else:
        at, rule = np.asarray(reference, np.float64), "given"
        if at.shape != (values.shape[1],) or not np.isfinite(at).all():
            shown = ", ".join(f"{entry:g}" for entry in np.ravel(at))
            raise UserError(f"reference ({shown}): needs {values.shape[1]} finite numbers, one an objective")
    ideal = values.min(axis=0)
    inside = (values < at).all(axis=1)
    width = np.where(at > ideal, at - ideal, 1.0)
    share = 0.0
    if inside.any():
        distinct = np.unique(values[inside], axis=0)
        share = float(moocore.hypervolume((distinct - ideal) / width, ref=np.ones(values.shape[1])))
    return Hypervolume(
        value=share * float(np.prod(width)),
        share=share,
        reference=tuple(float(entry) for entry in at),
        rule=rule,
        beyond=int((~inside).sum()),
    )


def reference_point(values: Any) -> np.ndarray:
    """1.1 times the worst of the rows in each objective, or 1 where that is 0: float64[objectives].

    Args:
        values: float[rows, objectives], at least one row.
    """
    worst = np.asarray(values, np.float64).max(axis=0)
    return np.where(worst == 0, 1.0, worst + (REFERENCE_FACTOR - 1.0) * np.abs(worst))


class GrowingHypervolume:
    """The hypervolume of a front that grows while a run goes on, against one reference from first to last.

    It is given as the share of the box between zero and the reference that some row dominates: all objectives are
    amounts, so none is below zero, and the share is between 0 and 1. Since neither end of the box moves and a front
    only gains, the share only rises, and shares of two runs compare where their references are equal.

    It is measured at most every `every_s`, and so seldom that it takes no more than a twentieth of the time; in between
    the last share stands.

    Args:
        reference: an entry an objective, above 0; one to three of them.
        every_s: seconds between two measurements, at least.

    Raises:
        UserError: more than three objectives, or an entry that is not above 0 and finite.
    """

    def __init__(self, reference: Sequence[float] | np.ndarray, every_s: float = GROWING_EVERY_S) -> None:
        self.reference = np.asarray(reference, np.float64)
        if not 1 <= self.reference.size <= GROWING_OBJECTIVES:
            raise UserError(f"{self.reference.size} objectives: the hypervolume is followed for 1 to 3")
        if not (np.isfinite(self.reference) & (self.reference > 0)).all():
            shown = ", ".join(f"{entry:g}" for entry in self.reference)
            raise UserError(f"reference ({shown}): all of it must be finite and above 0")
        import moocore  # noqa: F401 (here, so that no measurement seems long for it)

        self._every_s, self._next = every_s, float("-inf")
        self._share = 0.0

    def share(self, values: Any, at_once: bool = False) -> float:
        """The share of the box that the front dominates.

        Args:
            values: float[rows, objectives], the front so far or any rows that hold it; none below 0.
            at_once: measure, however short a time ago the last measurement was.
        """
        began = time.monotonic()
        if at_once or began >= self._next:
            self._share = max(self._share, _share_of_box(np.asarray(values, np.float64) / self.reference))
            took = time.monotonic() - began
            self._next = began + max(self._every_s, took / GROWING_TIME_SHARE)
        return self._share


def _share_of_box(values: np.ndarray) -> float:
    import moocore

    inside = values[(values < 1.0).all(axis=1)]
    if not len(inside):
        return 0.0
    if inside.shape[1] == 1:
        return float(1.0 - inside.min())
    return float(moocore.hypervolume(inside, ref=np.ones(inside.shape[1])))


def knees(values: Any, near: float = NEAR) -> tuple[Knee, ...]:
    """The knees of a front, the most pronounced first.

    Each objective is put on a logarithmic scale from 0, the front's best, to 1, its worst, so that equal steps are
    equal percentages of what the front spans (linearly where a value is not above 0). The sum of a point's coordinates
    is what it gives up in all. The ends of the front, the best point of each objective, give up some sums; the plane of
    the least of these is for two objectives the chord between the ends. A knee lies below that plane, and farther below
    than every other point within `near` of it in every coordinate; of equally deep ones the first row is the knee.
    A front of one point, or one that bulges outwards, has none.

    Args:
        values: float[rows, objectives], a front: no row dominates another.
        near: 0 to 1, share of the front's extent within which there is one knee.

    Raises:
        UserError: `near` outside of 0 to 1.
    """
    if not 0.0 <= near <= 1.0:
        raise UserError(f"near = {near} is not allowed: from 0 to 1, a share of the front's extent")
    values = np.asarray(values, np.float64)
    if len(values) < 3 or values.shape[1] < 2:
        return ()
    at = normalised(values)
    given_up = at.sum(axis=1)
    ends = [np.lexsort((given_up, at[:, objective]))[0] for objective in range(at.shape[1])]
    distance = (given_up[ends].min() - given_up) / np.sqrt(at.shape[1])
    order = np.lexsort((np.arange(len(at)), -distance))
    found: list[Knee] = []
    for rank, place in enumerate(order):
        if distance[place] <= 1e-9:
            break
        if not _any_near(at[order[:rank]], at[place], near):
            found.append(Knee(int(place), float(distance[place])))
    return tuple(found)


def _any_near(points: np.ndarray, point: np.ndarray, near: float) -> bool:
    """Looked for from the last point on: a neighbour is most likely of nearly the same depth."""
    for stop in range(len(points), 0, -AT_ONCE):
        if (np.abs(points[max(0, stop - AT_ONCE) : stop] - point) <= near).all(axis=1).any():
            return True
    return False


def normalised(values: Any) -> np.ndarray:
    """Objectives from 0, the rows' best, to 1, their worst, logarithmic where all are above 0; equal ones are 0."""
    values = np.asarray(values, np.float64)
    positive = (values > 0).all(axis=0)
    scale = np.where(positive, np.log(np.where(positive, values, 1.0)), values)
    low, high = scale.min(axis=0), scale.max(axis=0)
    return (scale - low) / np.where(high > low, high - low, 1.0)
