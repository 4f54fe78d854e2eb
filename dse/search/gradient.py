"""Descent along the model's derivatives by the GPU's numbers, with the schedule tuned again in between.

Each start draws a GPU, and for several objectives the weights of their logarithms. In turns it steps along the axes of
the schedule (where schedules are searched), and goes down the slope of the weighted logarithms (`dse.search.slopes`) in
the ranges' own scales, with several lengths tried at once. A step that would break a limit on a quantity of the GPU is
projected onto the limit. Where neither helps, the start is done and another begins. A few are under way at a time;
what they leave of a batch are steps along one axis or two from the best so far, as in a local search. Listed values
are those nearest to where the step ends.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from .archive import Archive
from .candidates import Candidates, SearchSpace, joined
from .goals import Goals
from .machines import Machines
from .moves import Moves, ends, is_log, nearest, share_of
from .slopes import Slopes

Point: TypeAlias = tuple[np.ndarray, np.ndarray]
Told: TypeAlias = tuple[np.ndarray, np.ndarray]  # values, violations of one point
Descent: TypeAlias = Generator[list[Point], list[Told], None]

STEPS = (1.0, 0.5, 0.2, 0.05)  # lengths tried at once, of the present one
FIRST_STEP = 0.3  # as a share of a range
SMALLEST_STEP = 0.005
AT_ONCE = 4  # starts under way
NEIGHBOURS = 6  # schedules tried at once
TRIES = 20  # steps from the best so far before it counts as worked out
STALLS = 2  # turns in a row without a better point that end a start
AT_LIMIT = 0.98
CORRECTIONS = 8
TWO_AXES = 0.4  # how often a step along the schedule's axes is along two
NOBODY = 0


class GradientSearcher:
    """A `dse.search.Searcher` by derivatives.

    Args:
        space: with at least one GPU axis.
        goals: objectives and limits.
        seed: where chance comes from.
        machines: the GPUs.
        slopes: of the objectives.
        schedules: (digits, numbers) -> the schedules whose slopes count, one a problem.
    """

    def __init__(
        self,
        space: SearchSpace,
        goals: Goals,
        seed: int,
        machines: Machines,
        slopes: Slopes,
        schedules: Callable[[np.ndarray, np.ndarray], Sequence[Mapping[str, Any]]],
    ) -> None:
        self._space, self._goals, self._machines = space, goals, machines
        self._rng = np.random.default_rng(seed)
        self._moves = Moves(space, self._rng)
        self._slopes, self._schedules = slopes, schedules
        self._archive = Archive()
        self._waiting: list[tuple[int, Point]] = []  # asked for by a descent, not yet proposed
        self._descents: dict[int, tuple[Descent, list[Told], int]] = {}  # its answers so far, and how many it awaits
        self._owners: list[int] = []
        self._asked: Candidates | None = None
        self._count = 0

    @property
    def evaluations(self) -> int:
        """Of the model, beside the candidates'."""
        return self._slopes.evaluations

    def ask(self, count: int) -> Candidates:
        """See `dse.search.Searcher`."""
        while len(self._waiting) < count and len(self._descents) < AT_ONCE:
            self._begin()
        self._waiting += [(NOBODY, self._near_the_best()) for _ in range(count - len(self._waiting))]
        taken, self._waiting = self._waiting[:count], self._waiting[count:]
        self._owners = [owner for owner, _ in taken]
        self._asked = joined(
            self._space, np.stack([point[0] for _, point in taken]), np.stack([point[1] for _, point in taken])
        )
        return self._asked

    def tell(self, values: np.ndarray, violations: np.ndarray) -> None:
        """See `dse.search.Searcher`."""
        assert self._asked is not None
        self.learn(self._asked, values, violations)
        for owner, row, broken in zip(self._owners, values, violations, strict=True):
            if owner == NOBODY:
                continue
            descent, answers, awaited = self._descents[owner]
            answers.append((row, broken))
            if len(answers) == awaited:
                self._advance(owner, descent, answers)

    def learn(self, candidates: Candidates, values: np.ndarray, violations: np.ndarray) -> None:
        """Takes in points that were tried, its own or others'."""
        self._archive.add(candidates, values, violations)

    def _begin(self) -> None:
        self._count += 1
        self._advance(self._count, self._descent(self._count == 1), None)

    def _advance(self, owner: int, descent: Descent, answers: list[Told] | None) -> None:
        try:
            points = next(descent) if answers is None else descent.send(answers)
        except StopIteration:
            self._descents.pop(owner, None)
            return
        self._descents[owner] = (descent, [], len(points))
        self._waiting += [(owner, point) for point in points]

    def _near_the_best(self) -> Point:
        for _ in range(TRIES):
            known = self._archive.best(self._rng.dirichlet(np.ones(len(self._goals.objectives))))
            if known is None:
                break
            point = self._moves.step(*self._archive.point(known), axes=1 + int(self._rng.random() < TWO_AXES))
            if not self._archive.has(*point):
                self._archive.reserve(*point)
                return point
        digits, numbers = (part[0] for part in self._moves.random(1))
        return digits, numbers

    def _descent(self, from_the_middle: bool) -> Descent:
        weights = self._rng.dirichlet(np.ones(len(self._goals.objectives)))
        known = self._archive.best(weights)
        digits, numbers = (part[0] for part in self._moves.random(1))
        shares = np.full(len(numbers), 0.5) if from_the_middle else self._shares(numbers)
        if known is not None:
            digits = self._archive.point(known)[0]
        numbers = self._within(shares)
        here = (digits, numbers)
        told = (yield [here])[0]
        stalls, step = 0, FIRST_STEP
        while stalls < STALLS and step > SMALLEST_STEP:
            before = self._score(told, weights)
            if self._space.schedules:
                points = self._neighbours(here)
                answers = yield points
                here, told = self._better(here, told, points, answers, weights)
            points = self._steps(here, step, weights)
            if points:
                answers = yield points
                moved, told = self._better(here, told, points, answers, weights)
                step = step / 4 if moved is here else min(step * 2, 1.0) if moved is points[0] else step
                here = moved
            stalls = 0 if self._score(told, weights) < before else stalls + 1

    def _neighbours(self, here: Point) -> list[Point]:
        found = []
        for _ in range(NEIGHBOURS):
            digits, _ = self._moves.step(*here, axes=1 + int(self._rng.random() < TWO_AXES))
            found.append((digits, here[1]))
        return found

    def _better(
        self, here: Point, told: Told, points: list[Point], answers: list[Told], weights: np.ndarray
    ) -> tuple[Point, Told]:
        for point, answer in zip(points, answers, strict=True):
            if self._score(answer, weights) < self._score(told, weights):
                here, told = point, answer
        return here, told

    def _score(self, told: Told, weights: np.ndarray) -> tuple[float, float]:
        """What breaks a constraint is compared by how much."""
        values, broken = told
        amount = float(np.clip(broken, 0.0, None).sum())
        if amount > 0 or not np.isfinite(values).all():
            return (amount or np.inf, 0.0)
        return (0.0, float(weights @ np.log(np.maximum(values, 1e-300))))

    def _steps(self, here: Point, step: float, weights: np.ndarray) -> list[Point]:
        digits, numbers = here
        down = -self._by_share(weights @ self._slopes.objectives(self._schedules(digits, numbers), numbers), numbers)
        shares = self._shares(numbers)
        for name, most in self._own_limits():
            limit = self._by_share(self._slopes.quantity(name, numbers), numbers)
            near = self._quantity(name, numbers) > AT_LIMIT * most
            if near and down @ limit > 0:
                down = down - limit * (down @ limit) / max(float(limit @ limit), 1e-30)
        down[(shares <= 0) & (down < 0)] = 0.0
        down[(shares >= 1) & (down > 0)] = 0.0
        if not np.abs(down).max() > 0:
            return []
        found: dict[bytes, Point] = {}
        for length in STEPS:
            moved = self._within(shares + step * length * down / np.abs(down).max())
            if (moved != numbers).any() and not self._archive.has(digits, moved):
                found.setdefault(moved.tobytes(), (digits, moved))
        return list(found.values())

    def _within(self, shares: np.ndarray) -> np.ndarray:
        """The numbers at shares of the ranges, moved against its slope where a quantity is beyond its limit."""
        numbers = self._numbers(shares)
        for name, most in self._own_limits():
            for _ in range(CORRECTIONS):
                excess = float(np.log(self._quantity(name, numbers) / most))
                if excess <= 0:
                    break
                slope = self._by_share(self._slopes.quantity(name, numbers), numbers)
                shares = np.clip(shares, 0.0, 1.0)
                slope[(shares <= 0) & (slope > 0)] = 0.0
                shares = shares - slope * (1.1 * excess + 1e-3) / max(float(slope @ slope), 1e-12)
                numbers = self._numbers(shares)
            numbers = self._a_value_less(name, most, numbers)
        return numbers

    def _a_value_less(self, name: str, most: float, numbers: np.ndarray) -> np.ndarray:
        """Where listed values are too coarse for the projection, the axis that saves most goes to its next value."""
        for _ in range(CORRECTIONS):
            if self._quantity(name, numbers) <= most:
                break
            others = []
            for at, axis in enumerate(self._space.gpu):
                for value in axis.values:
                    moved = numbers.copy()
                    moved[at] = value
                    others.append((self._quantity(name, moved), moved))
            within = [entry for entry in others if entry[0] <= most]
            key = (lambda entry: -entry[0]) if within else (lambda entry: entry[0])
            if not others:
                break
            numbers = min(within or others, key=key)[1]
        return numbers

    def _own_limits(self) -> list[tuple[str, float]]:
        own = {quantity.name for quantity in self._machines.quantities}
        return [(limit.name, limit.most) for limit in self._goals.limits if limit.name in own]

    def _quantity(self, name: str, numbers: np.ndarray) -> float:
        place = [own.name for own in self._machines.quantities].index(name)
        named = {axis.name: float(value) for axis, value in zip(self._space.gpu, numbers, strict=True)}
        return self._machines.quantities_of(named)[place]

    def _by_share(self, slopes: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        """Slopes by the logarithms of numbers as slopes by shares of the ranges."""
        found = np.zeros(len(slopes))
        for at, axis in enumerate(self._space.gpu):
            low, high = ends(axis)
            found[at] = slopes[at] * (np.log(high / low) if is_log(axis) else (high - low) / max(numbers[at], 1e-300))
        return found

    def _shares(self, numbers: np.ndarray) -> np.ndarray:
        axes = enumerate(self._space.gpu)
        return np.array([float(share_of(axis, numbers[at : at + 1])[0]) for at, axis in axes])

    def _numbers(self, shares: np.ndarray) -> np.ndarray:
        axes = enumerate(self._space.gpu)
        return np.array([float(nearest(axis, shares[at : at + 1])[0]) for at, axis in axes])
