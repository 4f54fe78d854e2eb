"""A kernel portfolio for a shape list on a GPU: the question, every kernel on every shape, the choice, the dispatch."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ...api import make_job, shape_rows
from ...content.shapes import ShapeRow
from ...errors import UserError, unknown
from ...fitting import fitting
from ...kernels.registry import check_served
from ...platform import configure_jax
from ...progress import Progress
from ...question import Question, ask
from ...schedule_text import cluster_label, warps_label
from .choice import SOLVERS, Choice, choices, value_of
from .decision_tree import DEPTH_MAX
from .dispatch import Dispatch, Rule, between_shapes, dispatch_table, loss, make_rule, ruled_regrets
from .greedy import REGRETS, Instance, instance
from .kernel_matrix import COUNTS, KernelPool, Variants, space_kernels
from .listed_kernels import listed_kernels

WEIGHS = ("count", "time", "equal")
LEAST_SHARE = 1e-6  # of the largest weight: a shape of less counts for nothing in float32 regrets
CURVE = 10  # points of the curve, at least, where they are cheap


@dataclass(frozen=True, eq=False)
class Portfolio:
    """A few kernels for a list of shapes.

    Attributes:
        questions: a question a shape, in the order of the list.
        names: of the shapes.
        weight: float64[shapes], 1 in all.
        skipped: names of shapes that no schedule runs, left out.
        regret: what was minimised, "mean" or "worst".
        counted: "kernels" or "schedules".
        source: what was chosen from, in words.
        kernel_count, schedule_count: how much of it.
        curve: the choices of 1, 2, ... kernels.
        choice: the one of them that was taken.
        kernel_names: of the kernels that it uses.
        latency_s: float32[shapes, kernels used]: each with its best run-time parameters.
        best_s: float32[shapes], of the fastest kernel of all.
        variants: the schedules of the kernels used.
        dispatch: a row a shape.
        rule: which kernel for any shape.
    """

    questions: tuple[Question, ...]
    names: tuple[str, ...]
    weight: np.ndarray
    skipped: tuple[str, ...]
    regret: str
    counted: str
    source: str
    kernel_count: int
    schedule_count: int
    curve: tuple[Choice, ...]
    choice: Choice
    kernel_names: tuple[str, ...]
    latency_s: np.ndarray
    best_s: np.ndarray
    variants: Variants
    dispatch: tuple[Dispatch, ...]
    rule: Rule

    @property
    def problems(self) -> tuple[Any, ...]:
        """The problem of every shape."""
        return tuple(question.problem for question in self.questions)

    @property
    def title(self) -> str:
        """One line for heads of reports."""
        asked = self.questions[0]
        problem = asked.problem
        what = f"{problem.dtype} -> {problem.out_dtype}, {asked.accumulator} accumulation, layout {problem.layout}"
        count = f"{len(self.names)} GEMM shape{'s' if len(self.names) > 1 else ''}"
        return f"{count}, {what}, on {asked.gpu.title} ({asked.gpu.name})"


def portfolio(
    shapes: str | Path | Sequence[Any],
    *,
    kernels: int | None = None,
    within: float | None = None,
    regret: str = "mean",
    weigh: str = "count",
    counted: str | None = None,
    solver: str = "auto",
    time_limit_s: float = 60.0,
    depth: int = 3,
    between: bool = False,
    skip_infeasible: bool = False,
    dtype: str = "bf16",
    gpu: Any = "h200_sxm",
    space: Any = None,
    preset: str | None = None,
    axes: Any = None,
    configs: str | Path | Sequence[Any] | None = None,
    progress: Progress = None,
    **question: Any,
) -> Portfolio:
    """Chooses the kernels that lose least against the fastest kernel of every shape.

    Args:
        shapes: a shape list by name or path, a sequence of shapes, or of `dse.content.shapes.ShapeRow`.
        kernels: how many at most; None with `within` None: 8.
        within: instead, as few as reach this regret, e.g. 0.01 for 1 %.
        regret: "mean", weighted, or "worst".
        weigh: a shape counts by its "count" (or weight) in the list; by "time", its count x its fastest latency, which
            makes the mean regret that of the list's total time; or all "equal".
        counted: "kernels": schedules that differ in run-time parameters alone count once (`kernel_matrix.py`
            says which those are); "schedules": each counts. None: kernels of a space, schedules of `configs`.
        solver: "auto", "greedy" or "exact", see `dse.studies.portfolio.choice.choices`.
        time_limit_s: of each integer program.
        depth: of the decision rule, 0 to 4.
        between: evaluate shapes between those of the list too, as a test of portfolio and rule: as much work again.
        skip_infeasible: leave out shapes that no schedule runs.
        dtype, gpu, question: as in `dse.sweep`.
        space, preset, axes: the schedules, as in `dse.sweep`.
        configs: the user's own candidates instead, as `dse.rank` takes them.
        progress: as in `dse.sweep`.

    Raises:
        UserError: whatever of this is wrong, or a shape that no schedule runs.
    """
    _check(kernels, within, regret, weigh, counted, solver, depth, configs, (space, preset, axes))
    configure_jax()
    check_served(question.get("kernel") or "gemm", "dse portfolio")
    rows = _rows(shapes)
    _check_weights(rows)
    asked = [ask(row.shape, row.dtype or dtype, gpu, **question) for row in rows]
    _check_one_type(rows, asked)
    counted = counted or ("kernels" if configs is None else "schedules")
    pool, source = _pool(asked, space, preset, axes, configs, counted, question.get("family"))
    latency_s = pool.latencies([one.problem for one in asked], progress)
    runs = np.asarray(np.isfinite(latency_s).any(axis=1))
    if not runs.all() and not (skip_infeasible and runs.any()):
        name = rows[int(np.argmin(runs))].name
        raise UserError(
            f"no schedule of {source} runs the shape {name} on {asked[0].gpu.name}: widen it, take the shape from the "
            "list, or leave such shapes out with --skip-infeasible"
        )
    skipped = tuple(row.name for row, can in zip(rows, runs, strict=True) if not can)
    rows = [row for row, can in zip(rows, runs, strict=True) if can]
    asked = [one for one, can in zip(asked, runs, strict=True) if can]
    latency_s = latency_s[runs]
    best_s = latency_s.min(axis=1)
    given = instance(latency_s, _weights(rows, best_s, weigh))
    curve, choice = _chosen(given, kernels, within, regret, solver, time_limit_s)
    if not np.isfinite(choice.worst):
        name = rows[int(given.regrets(choice.kernels).argmax())].name
        few = "1 kernel does" if choice.count == 1 else f"{choice.count} kernels do"
        raise UserError(f"{few} not run every shape (not {name}): allow more --kernels")
    used = _used(given, choice.kernels)
    problems = [one.problem for one in asked]
    variants = pool.variants(used, problems)
    own = latency_s[:, list(used)]
    rule = make_rule(problems, own, best_s, given.weight, variants, depth, regret == "worst")
    found = Portfolio(
        questions=tuple(asked),
        names=tuple(row.name for row in rows),
        weight=given.weight,
        skipped=skipped,
        regret=regret,
        counted=counted,
        source=source,
        kernel_count=pool.count,
        schedule_count=pool.schedule_count,
        curve=tuple(curve),
        choice=choice,
        kernel_names=_names(variants, len(used), counted),
        latency_s=own,
        best_s=best_s,
        variants=variants,
        dispatch=dispatch_table(own, best_s, variants),
        rule=rule,
    )
    return replace(found, rule=_tested_between(found, pool, used, progress)) if between else found


def _rows(shapes: str | Path | Sequence[Any]) -> list[ShapeRow]:
    if isinstance(shapes, (str, Path)):
        return shape_rows(shapes)
    return [row if isinstance(row, ShapeRow) else shape_rows([row])[0] for row in shapes]


def _check_weights(rows: Sequence[ShapeRow]) -> None:
    if not rows:
        raise UserError("a portfolio needs shapes: give at least one")
    least, most = min(rows, key=lambda row: row.weight), max(rows, key=lambda row: row.weight)
    if least.weight < LEAST_SHARE * most.weight:
        raise UserError(
            f"the weight {least.weight:g} of the shape {least.name} is not allowed beside the {most.weight:g} of "
            f"{most.name}: at least {LEAST_SHARE:g} of the largest; take the shape from the list, or give it more"
        )


def _tested_between(found: Portfolio, pool: KernelPool, used: Sequence[int], progress: Progress) -> Rule:
    sizes = between_shapes(found.problems)
    problems = [replace(found.problems[0], m=m, n=n, k=k, batch=batch) for m, n, k, batch in sizes]
    if not problems:
        return found.rule
    latency_s = pool.latencies(problems, progress)
    own = latency_s[:, list(used)]
    runs = np.asarray(np.isfinite(own).all(axis=1))
    if not runs.any():
        return found.rule
    regret = (own / latency_s.min(axis=1, keepdims=True) - 1)[runs].astype(np.float64)
    equal = np.ones(len(regret))
    ruled = ruled_regrets(
        found.rule.tree, [problem for problem, can in zip(problems, runs, strict=True) if can], regret
    )
    return replace(found.rule, between=loss(ruled, equal), portfolio_between=loss(regret.min(axis=1), equal))


def _chosen(
    given: Instance, kernels: int | None, within: float | None, regret: str, solver: str, time_limit_s: float
) -> tuple[list[Choice], Choice]:
    points = CURVE if regret == "mean" else 1  # of the worst, a point costs seconds
    wanted = min(kernels or 8, *given.regret.shape)
    if within is None:
        curve = choices(given, max(wanted, points), regret, solver, time_limit_s)
        return curve, curve[min(wanted, len(curve)) - 1]
    curve = choices(given, points, regret, solver, time_limit_s, within)
    return curve, next((at for at in curve if value_of(at, regret) <= within), curve[-1])


def _used(given: Instance, kernels: Sequence[int]) -> tuple[int, ...]:
    """The kernels that run a shape, the one that counts for most first."""
    own = given.regret[:, list(kernels)].argmin(axis=1)
    counts = np.bincount(own, weights=given.weight, minlength=len(kernels))
    order = np.argsort(-counts, kind="stable")
    return tuple(int(kernels[at]) for at in order if (own == at).any())


def _weights(rows: Sequence[ShapeRow], best_s: np.ndarray, weigh: str) -> np.ndarray:
    counts = np.array([row.weight for row in rows])
    counts /= counts.max()
    return {"count": counts, "time": counts * best_s, "equal": np.ones(len(rows))}[weigh]


def _pool(
    asked: Sequence[Question], space: Any, preset: str | None, axes: Any, configs: Any, counted: str, family: str | None
) -> tuple[KernelPool, str]:
    first = asked[0]
    if configs is not None:
        pool = listed_kernels(configs, first.problem, first.gpu, first.accumulator, first.clock, family, counted)
        return pool, str(configs) if isinstance(configs, (str, Path)) else "the candidates"
    chosen = make_job(first, space, preset, axes).space
    schedules = fitting(chosen, [one.problem for one in asked], [first.bound])
    part = f", preset {preset}" if preset else ""
    return space_kernels(first.family, first.bound, schedules, counted), f"the space {chosen.name}{part}"


def _names(variants: Variants, count: int, counted: str) -> tuple[str, ...]:
    names = []
    for kernel in range(count):
        members = np.flatnonzero(variants.kernel == kernel)
        if variants.labels and len(members) == 1:
            names.append(variants.labels[members[0]])
        else:
            names.append(kernel_name(variants.schedule(0, int(members[0])), counted == "schedules"))
    return tuple(names)


def kernel_name(schedule: Mapping[str, int], whole: bool = False) -> str:
    """A name that is an identifier: what is compiled of a schedule, or all of it where `whole`."""
    at = schedule
    kind = "stream_k" if at["stream_k"] else "split_k" if at["split_k"] > 1 else ""
    kind = kind or ("persistent" if at["persistent"] else "tile_a_cta")
    if at["persistent"] and kind == "split_k":
        kind = "persistent_split_k"
    words = [
        f"t{at['tile_m']}x{at['tile_n']}x{at['tile_k']}",
        f"s{at['stages']}",
        f"w{warps_label(at)}",
        f"c{cluster_label({**at, 'cta_pair': 0})}",
        *(["pair"] if at["cta_pair"] else []),
        *(["swap"] if at["swap_ab"] else []),
        kind,
        ("direct", "staged", "overlapped")[at["epilogue"]],
    ]
    words += [
        f"{short}{at[name]}" for short, name in (("r", "registers_measured"), ("b", "smem_measured_bytes")) if at[name]
    ]
    if whole:
        words.append(f"{'n' if at['raster_along_n'] else 'm'}{at['swizzle']}")
        words += [f"split{at['split_k']}"] if at["split_k"] > 1 else []
        words += [f"free{at['sms_free']}"] if at["sms_free"] else []
    return "_".join(words)


def _check(
    kernels: int | None,
    within: float | None,
    regret: str,
    weigh: str,
    counted: str | None,
    solver: str,
    depth: int,
    configs: Any,
    restricted: Sequence[Any],
) -> None:
    words = (("regret", regret, REGRETS), ("way to weigh", weigh, WEIGHS), ("solver", solver, SOLVERS))
    for what, value, known in words:
        if value not in known:
            raise unknown(what, value, known)
    if counted is not None and counted not in COUNTS:
        raise unknown("thing to count", counted, COUNTS)
    if kernels is not None and within is not None:
        raise UserError("--kernels and --within both say how many kernels: give one")
    if kernels is not None and kernels < 1:
        raise UserError(f"--kernels {kernels} is not allowed: 1 or more")
    if within is not None and not 0 <= within < float("inf"):
        raise UserError(f"--within {within:g} is not allowed: a regret of 0 or more, e.g. 1%")
    if not 0 <= depth <= DEPTH_MAX:
        raise UserError(f"--depth {depth} is not allowed: 0 to {DEPTH_MAX} questions")
    if configs is not None and any(restricted):
        raise UserError("--configs are the schedules to choose from: leave --space, --preset and --axis")


def _check_one_type(rows: Sequence[ShapeRow], asked: Sequence[Question]) -> None:
    for row, one in zip(rows, asked, strict=True):
        if one.problem.dtype != asked[0].problem.dtype:
            raise UserError(
                f"a kernel is compiled for one type, but {rows[0].name} is {asked[0].problem.dtype} and {row.name} is "
                f"{one.problem.dtype}: make a list for each"
            )
