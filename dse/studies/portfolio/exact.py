"""The best choice of kernels by integer programming (HiGHS, through `scipy.optimize.milp`).

* Mean: the p-median problem, in the formulation by radii (Elloumi, 2010): y_j says that kernel j is chosen, z_st that
  no chosen kernel serves shape s at its t-th smallest cost or less. One nonzero a cost, instead of a row a (shape,
  kernel). Before it, every kernel that provably is in no better choice leaves (`dse.studies.portfolio.bound`), then
  those that another is nowhere slower than, on the shapes that a better choice could use them for.
* Worst: p-center. The least number of kernels that keep every shape within a regret is a set cover; the regret is
  bisected.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import UserError
from .bound import TIGHT, mean_bound
from .greedy import Instance, polished
from .kernel_cover import cover_sets

ENTRIES_MAX = 1_000_000  # shapes x kernels of a program that is tried


@dataclass(frozen=True)
class Exact:
    """What an integer program found.

    Attributes:
        chosen: the kernels.
        bound: no choice of as many kernels has a smaller regret. Equal to the choice's own where it is proven best.
        candidates: kernels that the program chose from.
        proven: whether it ended before its time limit.
    """

    chosen: tuple[int, ...]
    bound: float
    candidates: int
    proven: bool


def exact_mean(given: Instance, start: Sequence[int], kernels: int, time_limit_s: float = 60.0) -> Exact:
    """The choice of so many kernels of the smallest mean regret.

    Args:
        given: the instance.
        start: a good choice; what it reaches is what has to be beaten.
        kernels: how many.
        time_limit_s: for the solver; a choice that is not proven best comes with a bound.

    Raises:
        UserError: too large a program.
    """
    known = mean_bound(given, start, kernels)
    if known.regret >= given.mean(start) - TIGHT:
        return Exact(tuple(start), known.regret, len(known.survivors), True)
    price = given.weight[:, None] * given.cost[:, known.survivors].astype(np.float64)
    reached = float((given.weight * given.cost[:, list(start)].min(axis=1)).sum())
    capped = np.minimum(price, reached + 1e-9)  # of one shape, a better choice pays no more
    kept = known.survivors[_undominated(capped)]
    if kernels >= len(kept):
        every = tuple(int(at) for at in kept)
        return Exact(every, given.mean(every), len(kept), True)
    capped = np.minimum(given.weight[:, None] * given.cost[:, kept].astype(np.float64), reached + 1e-9)
    if capped.size > ENTRIES_MAX:
        raise UserError(
            f"{len(kept):,} kernels x {len(capped)} shapes are left to choose from, too many for an exact choice: "
            "restrict the space by --preset or --axis, ask for other --kernels, or leave --exact"
        )
    answer = _p_median(capped, kernels, time_limit_s)
    proven = answer.status == 0
    lower = answer.fun if proven else getattr(answer, "mip_dual_bound", None)
    found = tuple(start)
    if answer.x is not None:
        solved = tuple(int(at) for at in kept[np.flatnonzero(answer.x[: len(kept)] > 0.5)])
        if given.mean(solved) < given.mean(start):
            found = solved
    value = given.mean(found)
    bound = value if proven else min(max(known.regret, lower or 0.0), value)
    return Exact(found, bound, len(kept), proven)


def exact_worst(given: Instance, start: Sequence[int], kernels: int, time_limit_s: float = 60.0) -> Exact:
    """The choice of so many kernels of the smallest worst regret; of those, one of small mean regret.

    Arguments and errors as `exact_mean`; the time limit is that of each of the covers.
    """
    levels = np.unique(given.regret[given.regret <= np.float32(given.worst(start))])
    best, low, high, proven, seen = list(start), 0, len(levels) - 1, True, 0
    while low < high:
        middle = (low + high) // 2
        cover = exact_cover(given, float(levels[middle]), time_limit_s, enough=kernels)
        seen = max(seen, cover.candidates)
        if len(cover.chosen) <= kernels:
            best, high = list(cover.chosen), middle
        else:
            proven &= cover.bound > kernels
            low = middle + 1
    limit = float(levels[high]) if len(levels) else 0.0
    chosen = polished(given, best, limit, kernels)
    return Exact(chosen, given.worst(chosen) if proven else 0.0, seen, proven)


def exact_cover(given: Instance, limit: float, time_limit_s: float = 60.0, enough: int = 0) -> Exact:
    """The fewest kernels that keep every shape within a worst regret.

    Args:
        given: the instance.
        limit: the regret.
        time_limit_s: for the solver.
        enough: a cover of that many is taken as it is.

    Returns:
        The cover; `bound` is the number that is needed at least.
    """
    import scipy.optimize as optimize
    from scipy.sparse import csr_array

    sets = cover_sets(given.regret, limit)
    greedy, first = sets.greedy(), sets.kernel
    if len(greedy) <= enough:
        return Exact(tuple(greedy), 1.0, len(first), True)
    rows = optimize.LinearConstraint(csr_array(sets.sets.astype(np.float64)), 1, np.inf)
    answer = optimize.milp(
        np.ones(len(first)),
        constraints=[rows],
        integrality=np.ones(len(first)),
        bounds=optimize.Bounds(0, 1),
        options={"time_limit": time_limit_s, "mip_rel_gap": 0.0},
    )
    proven = answer.status == 0
    lower = answer.fun if proven else getattr(answer, "mip_dual_bound", None) or 1.0
    found = tuple(greedy)
    if answer.x is not None and round(answer.fun) < len(greedy):
        found = tuple(int(first[at]) for at in np.flatnonzero(answer.x > 0.5))
    return Exact(found, float(np.ceil(lower - 1e-6)), len(first), proven)


def _p_median(cost: np.ndarray, kernels: int, time_limit_s: float) -> Any:
    import scipy.optimize as optimize
    from scipy.sparse import coo_array

    count = cost.shape[1]
    steps, rows, columns, entries, lower = [], [], [], [], []
    offset, constant = count, 0.0
    for own in cost:
        levels, level = np.unique(own, return_inverse=True)
        constant += levels[0]
        above = len(levels) - 1  # z_t of this shape: columns offset, offset + 1, ...
        inside = np.flatnonzero(level < above)
        row = len(lower) + level[inside]
        own_rows = len(lower) + np.arange(above)
        rows += [row, own_rows, own_rows[1:]]
        columns += [inside, offset + np.arange(above), offset + np.arange(above - 1) if above else own_rows[:0]]
        entries += [np.ones(len(inside)), np.ones(above), -np.ones(max(above - 1, 0))]
        lower += [1.0, *[0.0] * (above - 1)] if above else []
        steps.append(np.diff(levels))
        offset += above
    limits = np.array([*lower, 1.0])
    rows.append(np.full(count, len(lower)))
    columns.append(np.arange(count))
    entries.append(np.ones(count))
    matrix = coo_array(
        (np.concatenate(entries), (np.concatenate(rows), np.concatenate(columns))), shape=(len(limits), offset)
    ).tocsr()
    upper = np.full(len(limits), np.inf)
    upper[-1] = kernels
    scale = 1 / max(float(np.concatenate(steps).sum()), 1e-12)
    answer = optimize.milp(
        np.concatenate([np.zeros(count), *steps]) * scale,
        constraints=[optimize.LinearConstraint(matrix, limits, upper)],  # pyright: ignore[reportArgumentType]
        integrality=np.concatenate([np.ones(count), np.zeros(offset - count)]),
        bounds=optimize.Bounds(0, 1),
        options={"time_limit": time_limit_s, "mip_rel_gap": 0.0},
    )
    answer.fun = None if answer.fun is None else answer.fun / scale + constant
    dual = getattr(answer, "mip_dual_bound", None)
    answer.mip_dual_bound = None if dual is None else dual / scale + constant
    return answer


def _undominated(cost: np.ndarray) -> np.ndarray:
    """Places of the kernels that no other is nowhere slower than; of equal ones the first."""
    kept: list[int] = []
    so_far = np.empty((len(cost), 0))
    for place in np.argsort(cost.sum(axis=0), kind="stable"):
        own = cost[:, place : place + 1]
        if not (so_far <= own).all(axis=0).any():
            kept.append(int(place))
            so_far = np.concatenate([so_far, own], axis=1)
    return np.sort(np.array(kept))
