"""Which kernel of a portfolio runs a shape, with which run-time parameters: a table, and a rule for any shape."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ...kernels.gemm import GemmProblem
from ...schedule_text import format_schedule, launch_label, raster_label
from .decision_tree import Leaf, Tree, decide, leaves, optimal_tree, worst_of
from .kernel_matrix import Variants

FOLDS = 10
LIMIT = 0.25  # a rule of small mean regret shall not be this much slower on a shape that counts for little


@dataclass(frozen=True)
class Dispatch:
    """How a portfolio runs one shape.

    Attributes:
        kernel: the kernel, a place in the portfolio.
        variant: its schedule, a place in the portfolio's variants.
        schedule: in words, complete.
        run_time: the run-time part of it, e.g. "raster=along_m:8 launch=split_k:4".
        latency_s: predicted.
        best_s: of the fastest kernel of all.
    """

    kernel: int
    variant: int
    schedule: str
    run_time: str
    latency_s: float
    best_s: float

    @property
    def regret(self) -> float:
        """How much slower than the fastest kernel of all, e.g. 0.01 for 1 %."""
        return self.latency_s / self.best_s - 1


@dataclass(frozen=True)
class Loss:
    """Regrets of a way to choose, over shapes.

    Attributes:
        mean: weighted.
        worst: the largest.
        shapes: over how many.
    """

    mean: float
    worst: float
    shapes: int


@dataclass(frozen=True)
class Rule:
    """A decision tree over the sizes of a problem.

    Attributes:
        tree: its leaves name kernels by their place in the portfolio.
        schedules: a complete schedule in words for each leaf, from the low side to the high one: of its kernel the
            run-time parameters that lose least on the leaf's shapes.
        listed: on the list, run-time parameters chosen a shape.
        fixed: on the list, with the schedules of the leaves.
        held_out: on shapes that the tree was not made with, a tenth of the list at a time; None for lists of one.
        between: on shapes between those of the list; None where there are none or they were not asked for.
        portfolio_between: of the portfolio there, each shape with its best kernel.
    """

    tree: Tree
    schedules: tuple[str, ...]
    listed: Loss
    fixed: Loss
    held_out: Loss | None
    between: Loss | None = None
    portfolio_between: Loss | None = None


def dispatch_table(latency_s: np.ndarray, best_s: np.ndarray, variants: Variants) -> tuple[Dispatch, ...]:
    """Each shape's kernel and schedule.

    Args:
        latency_s: [shapes, kernels of the portfolio].
        best_s: [shapes], of the fastest kernel of all.
        variants: the portfolio's; of equally fast ones the first is taken.
    """
    rows = []
    for shape, own in enumerate(latency_s):
        kernel = int(own.argmin())
        variant = int(np.where(variants.kernel == kernel, variants.latency_s[shape], np.inf).argmin())
        schedule = variants.schedule(shape, variant)
        words = f"raster={raster_label(schedule)} launch={launch_label(schedule)}"
        rows.append(
            Dispatch(kernel, variant, format_schedule(schedule), words, float(own[kernel]), float(best_s[shape]))
        )
    return tuple(rows)


def features_of(problems: Sequence[GemmProblem]) -> dict[str, list[int]]:
    """What a rule may ask: the sizes, and the elements of the output, which the number of tiles follows."""
    sizes = [sizes_of(problem) for problem in problems]
    names = [name for name in sizes[0] if "batch" not in name or any(problem.batch > 1 for problem in problems)]
    if "m * n * batch" in names:
        names.remove("m * n")
    return {name: [own[name] for own in sizes] for name in names}


def sizes_of(problem: GemmProblem) -> dict[str, int]:
    """Every feature of a problem."""
    m, n, k, batch = problem.m, problem.n, problem.k, problem.batch
    return {"m": m, "n": n, "k": k, "m * n": m * n, "batch": batch, "m * n * batch": m * n * batch}


def make_rule(
    problems: Sequence[GemmProblem],
    latency_s: np.ndarray,
    best_s: np.ndarray,
    weight: np.ndarray,
    variants: Variants,
    depth: int,
    worst: bool = False,
) -> Rule:
    """The rule that loses least on the list; no shape is more than 25 % slower than at best, where a tree can do that.

    Args:
        problems: the shapes.
        latency_s: [shapes, kernels of the portfolio].
        best_s: [shapes].
        weight: [shapes], 1 in all.
        variants: the portfolio's, on these shapes.
        depth: questions on the longest way, at most 4.
        worst: minimise the largest regret first.
    """
    features = features_of(problems)
    regret = (latency_s / best_s[:, None] - 1).astype(np.float64)
    tree = _tree(features, regret, weight, depth, worst)
    kernel_of = np.empty(len(regret), np.int64)
    variant_of = np.empty(len(regret), np.int64)
    schedules = []
    for leaf in leaves(tree):
        shapes = list(leaf.shapes)
        kernel_of[shapes] = leaf.kernel
        variant_of[shapes] = variant = _leaf_variant(leaf, best_s, weight, variants)
        schedules.append(format_schedule(variants.schedule(shapes[0], variant)))
    every = np.arange(len(regret))
    fixed = variants.latency_s[every, variant_of] / best_s - 1
    return Rule(
        tree,
        tuple(schedules),
        loss(regret[every, kernel_of], weight),
        loss(fixed, weight),
        _held_out(features, regret, weight, depth, worst),
    )


def loss(regrets: np.ndarray, weight: np.ndarray) -> Loss:
    """The weighted mean and the largest of regrets."""
    return Loss(float(weight @ regrets / weight.sum()), float(regrets.max()), len(regrets))


def ruled_regrets(tree: Tree, problems: Sequence[GemmProblem], regret: np.ndarray) -> np.ndarray:
    """[shapes]: the regrets with the kernels that a tree names, on any shapes."""
    return np.array(
        [row[decide(tree, sizes_of(problem)).kernel] for row, problem in zip(regret, problems, strict=True)]
    )


def between_shapes(problems: Sequence[GemmProblem]) -> list[tuple[int, int, int, int]]:
    """(m, n, k, batch) halfway, by ratio, between neighbouring m of one n, k and batch of a list."""
    found: dict[tuple[int, int, int, int], None] = {}
    groups: dict[tuple[int, int, int], set[int]] = {}
    for problem in problems:
        groups.setdefault((problem.n, problem.k, problem.batch), set()).add(problem.m)
    for (n, k, batch), sides in groups.items():
        ordered = sorted(sides)
        for low, high in pairwise(ordered):
            middle = round((low * high) ** 0.5)
            if low < middle < high:
                found[middle, n, k, batch] = None
    return list(found)


def _tree(
    features: Mapping[str, Sequence[int]], regret: np.ndarray, weight: np.ndarray, depth: int, worst: bool
) -> Tree:
    if not worst:
        limited = np.where(regret <= max(LIMIT, float(regret.min(axis=1).max())), regret, np.inf)
        tree = optimal_tree(features, limited, weight, depth)
        if np.isfinite(worst_of(tree, limited)):
            return tree
    return optimal_tree(features, regret, weight, depth, worst)


def _leaf_variant(leaf: Leaf, best_s: np.ndarray, weight: np.ndarray, variants: Variants) -> int:
    shapes = list(leaf.shapes)
    own = np.flatnonzero(variants.kernel == leaf.kernel)
    slowed = variants.latency_s[shapes][:, own] / best_s[shapes, None]
    worst = slowed.max(axis=0)
    usable = worst <= max(1 + LIMIT, float(worst.min()))
    return int(own[np.where(usable, weight[shapes] @ slowed, np.inf).argmin()])


def _held_out(
    features: Mapping[str, Sequence[int]], regret: np.ndarray, weight: np.ndarray, depth: int, worst: bool
) -> Loss | None:
    count = len(regret)
    folds = min(FOLDS, count)
    if folds < 2:
        return None
    found = np.empty(count)
    for fold in range(folds):
        out = range(fold, count, folds)
        kept = [at for at in range(count) if at not in out]
        own = {name: [values[at] for at in kept] for name, values in features.items()}
        share = weight[kept] / weight[kept].sum()
        tree = _tree(own, regret[kept], share, depth, worst)
        for at in out:
            found[at] = regret[at, decide(tree, {name: values[at] for name, values in features.items()}).kernel]
    return loss(found, weight)
