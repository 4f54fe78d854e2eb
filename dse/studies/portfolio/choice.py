"""The choice of a portfolio's kernels: by greedy and swaps, then by integer programming where that can prove more."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ...errors import UserError
from .bound import TIGHT, mean_bound
from .exact import Exact, exact_mean, exact_worst
from .greedy import Instance, choose_mean, choose_worst, swapped

SOLVERS = ("auto", "greedy", "exact")
GROWTH = 8  # kernels of the first search; twice as many each time that they do not reach what is asked


@dataclass(frozen=True)
class Choice:
    """A choice of at most so many kernels.

    Attributes:
        count: how many were allowed.
        kernels: the chosen ones.
        mean, worst: their regrets.
        bound: no choice of `count` kernels has a smaller regret of the kind that was minimised.
        proven: whether none is better than this one (by more than 1e-7).
    """

    count: int
    kernels: tuple[int, ...]
    mean: float
    worst: float
    bound: float
    proven: bool


def choices(
    given: Instance,
    points: int,
    regret: str,
    solver: str = "auto",
    time_limit_s: float = 60.0,
    within: float | None = None,
) -> list[Choice]:
    """The choices of 1, 2, ... kernels; a larger one is never worse.

    Args:
        given: the instance.
        points: how many choices, at least; as many kernels as shapes lose nothing, more are not looked at.
        regret: "mean" or "worst".
        solver: "greedy": greedy, swaps from two starts and a bound; "exact": the integer program as well; "auto": that,
            where it is not too large.
        time_limit_s: of each integer program.
        within: go on until this regret is reached.

    Raises:
        UserError: too large a program for "exact".
    """
    most = min(given.regret.shape)
    found: list[Choice] = []
    limit = max(points, GROWTH)
    while True:
        starts = choose_mean(given, min(limit, most))
        for count in range(len(found) + 1, len(starts) + 1):
            best = _choice(given, count, starts[count - 1], regret, solver, time_limit_s)
            found.append(_no_worse(best, found[-1], regret) if found else best)
            reached = within is None or value_of(found[-1], regret) <= within
            if reached and count >= points:
                return found
        if limit >= most:
            return found
        limit *= 2


def bounded_mean(given: Instance, start: Sequence[int], kernels: int) -> tuple[tuple[int, ...], float]:
    """The better of a choice and of what swaps make of the bound's own start; and the bound on the mean regret."""
    known = mean_bound(given, start, kernels)
    if given.mean(start) - known.regret <= TIGHT:
        return tuple(start), known.regret
    other = swapped(given, known.promising[:kernels].tolist(), known.promising)
    if given.mean(other) >= given.mean(start):
        return tuple(start), known.regret
    return other, max(known.regret, mean_bound(given, other, kernels).regret)


def value_of(choice: Choice, regret: str) -> float:
    """The regret that was minimised."""
    return choice.mean if regret == "mean" else choice.worst


def _no_worse(choice: Choice, smaller: Choice, regret: str) -> Choice:
    reached = value_of(smaller, regret)
    if value_of(choice, regret) < reached:
        return choice
    proven = choice.proven or reached - choice.bound <= TIGHT
    return replace(choice, kernels=smaller.kernels, mean=smaller.mean, worst=smaller.worst, proven=proven)


def _choice(given: Instance, count: int, start: Sequence[int], regret: str, solver: str, time_limit_s: float) -> Choice:
    if regret == "mean":
        kernels, bound = bounded_mean(given, start, count)
    else:
        kernels, bound = choose_worst(given, start, count)
    best: Exact | None = None
    if solver != "greedy":
        solve = exact_mean if regret == "mean" else exact_worst
        try:
            best = solve(given, kernels, count, time_limit_s)
        except UserError:
            if solver == "exact":
                raise
    if best is not None:
        kernels, bound = best.chosen, best.bound
    made = Choice(count, kernels, given.mean(kernels), given.worst(kernels), bound, False)
    gap = value_of(made, regret) - bound
    return Choice(count, kernels, made.mean, made.worst, bound, (best is not None and best.proven) or gap <= TIGHT)
