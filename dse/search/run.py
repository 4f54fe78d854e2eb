"""The search loop: ask a batch, evaluate it in one call, tell; then the best and the front of what was tried."""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from numbers import Integral
from typing import Any

import numpy as np

from ..errors import UserError
from ..job import SweepJob
from ..platform import configure_jax
from ..progress import Progress, reporter
from .candidates import Candidates, SearchSpace, gpu_fields, search_space
from .choice import AUTO, choice_of
from .evaluate import Evaluated, Evaluator
from .goals import Goals, GpuQuantity, make_goals
from .machines import Machines, MakeGpu
from .make import Task, make_evaluator, make_keeper, make_study
from .quality import Reference, quality_of, run_reference, swept_reference, why_not_compared
from .record import Record, SearchResult
from .samplers import SAMPLERS, check_sampler
from .unchanged import Unchanged, costs_of

BATCH = 32
INNER_BATCH = 8
SWEPT = "auto"  # the exhaustive answer, where it is affordable


def run_search(
    job: SweepJob,
    trials: int,
    sampler: str = AUTO,
    seed: int = 0,
    *,
    gpu: Mapping[str, Any] | None = None,
    make_gpu: MakeGpu | None = None,
    first: Sequence[int] = (),
    batch: int | None = None,
    progress: Progress = None,
    objectives: Sequence[str] | None = None,
    quantities: Sequence[GpuQuantity] = (),
    limits: Mapping[str, float] | None = None,
    inner: str | None = None,
    problems: Sequence[Any] = (),
    weights: Sequence[float] = (),
    storage: str | os.PathLike[str] | None = None,
    study_name: str | None = None,
    reference: str | os.PathLike[str] | Reference | None = None,
    spent: int = 0,
    now: Callable[[], Unchanged | None] | None = None,
) -> SearchResult:
    """Tries `trials` candidates and returns them with the best and the front among them.

    The same seed, batch and number of trials give the same trials, but where a file of another run is gone on with or
    shared.

    Args:
        job: problem, GPU, space and objectives; its range is not used. With one objective the search minimises it, with
            several it seeks their front.
        trials: the budget; with `storage` of all processes together, earlier ones included.
        sampler: a name of `dse.search.SAMPLERS`, or "auto": `dse.search.choice`; a file's trials go on with the sampler
            that drew them.
        seed: of the sampler.
        gpu: numbers of the GPU to choose as well, name -> (low, high), (low, high, "log") or a list of choices. Names
            are fields of the model's GPU record, e.g. "l2_capacity_bytes".
        make_gpu: makes the GPU record of the chosen numbers, where their names are something else (overrides of a GPU
            file, for example); None: they replace fields of the job's GPU.
        first: indices of schedules to try first, e.g. known-good ones (`dse.search.first`).
        batch: candidates asked for and evaluated at once; None: 32, or 8 with `inner`.
        progress: as in `dse.sweep.run_sweep`; counts trials.
        objectives: what is minimised, the first of which ranks; None: the job's. Quantities of the GPU are allowed.
        quantities: of the GPU, e.g. its area.
        limits: cost or quantity -> the most it may be.
        inner: "sweep": a trial chooses a GPU alone, and its schedules are swept; "shortlist": as that, with a list of
            schedules for the space until the end (`dse.search.inner`). None: a trial chooses both.
        problems, weights: with `inner`, the problems whose latencies add up, and how often each counts; none: the
            job's.
        storage: a journal file to keep the study in; what it holds is gone on with. None: in memory.
        study_name: of the study in it; None: by kernel, shape and GPU.
        reference: the exhaustive answer to compare with: "auto" (a sweep, where that takes a second), a folder of a
            finished sweep, or a `Reference`; None: none.
        spent: evaluations that finding `first` took, to be counted with the search's.
        now: finds the GPU without what is searched, to compare with: the first trial where the ranges hold it.

    Raises:
        UserError: a budget or batch below 1, a seed out of range, an unknown sampler, objective or GPU field, a range
            that is none, a sampler that cannot do what is asked, a file that is damaged or of another question.
    """
    for name, value in (("trials", trials), ("batch", BATCH if batch is None else batch)):
        if not isinstance(value, Integral) or value < 1:
            raise UserError(f"{name} = {value} is not allowed: a whole number, 1 or more")
    if not isinstance(seed, Integral) or not 0 <= seed < 2**32:
        raise UserError(f"seed = {seed} is not allowed: a whole number from 0 to 2^32 - 1")
    space = search_space(job.space, gpu, None if make_gpu else gpu_fields(job.gpu))
    own, counts = list(problems or [job.problem]), list(weights or [1.0] * max(len(problems), 1))
    _check_inner(inner, space, own, first)
    axes = [axis.name for axis in space.gpu]
    goals = make_goals(job.objectives if objectives is None else objectives, quantities, limits or {}, axes, len(own))
    if inner:
        space = SearchSpace(None, space.gpu)
    choice = choice_of(sampler, inner)
    check_sampler(choice.sampler, space, len(goals.objectives))
    configure_jax()
    machines = Machines(job.gpu, make_gpu, goals.used)
    as_it_is = now() if now else None
    task = Task(job, space, goals, machines, choice.sampler, seed, own, counts, inner, as_it_is)
    study, own_seed = make_study(task, storage, study_name)
    if study is not None:
        from .storage import kept_choice

        choice = kept_choice(study, choice)
        check_sampler(choice.sampler, space, len(goals.objectives))
        task = replace(task, sampler=choice.sampler)
    compared, exhaustive = _reference(reference, job, goals, axes)
    size = min(batch or (INNER_BATCH if inner else BATCH), trials)
    evaluator = make_evaluator(task, size)
    keeper, searcher = make_keeper(task, evaluator, study, own_seed)
    record = Record(job, goals, trials, exhaustive)
    record.evaluations = spent + (as_it_is.evaluations if as_it_is else 0)
    report = reporter(progress)
    known = _first_parameters(job, space, first)
    keeper.begin([*as_it_is.trial(space), *known] if as_it_is else known)
    incomplete = False
    costs_now: dict[str, float] | None = None
    in_file = others = 0
    try:
        if as_it_is:
            measured = evaluator.unchanged(as_it_is.candidate(space))
            record.evaluations += measured.evaluations
            costs_now = costs_of(goals, measured.columns)
        in_file = _take_in(keeper, evaluator, record, choice.sampler)
        while record.done < trials:
            began = time.perf_counter()
            candidates = keeper.ask(min(size, trials - record.done))
            record.asking_s += time.perf_counter() - began
            evaluated = evaluator(candidates)
            record.add(candidates, evaluated)
            began = time.perf_counter()
            keeper.tell(_told(evaluated, record, choice.sampler), evaluated.violations, evaluator.notes(evaluated))
            record.asking_s += time.perf_counter() - began
            others += _take_in(keeper, evaluator, record, choice.sampler)
            report(record.snapshot())
    except KeyboardInterrupt:
        keeper.abandon()
        incomplete = True
        if not record.done:
            raise
    record.evaluations += int(getattr(searcher, "evaluations", 0))
    candidates, costs = record.candidates, record.costs
    if not incomplete:
        _confirm(record, evaluator)
    report(record.snapshot(finished=True))
    values, broken = record.costs
    quality = quality_of(exhaustive, values, np.asarray((broken <= 0).all(axis=1))) if exhaustive else None
    return record.result(
        evaluator,
        sampler=choice.sampler,
        choice=choice,
        seed=seed,
        in_file=in_file,
        others=others,
        now=costs_now,
        now_how=as_it_is.how if as_it_is else "",
        incomplete=incomplete,
        make_study=lambda: keeper.study(candidates, *costs),
        quality=quality,
        compared=exhaustive.source if exhaustive else compared,
    )


def _check_inner(inner: str | None, space: SearchSpace, problems: Sequence[Any], first: Sequence[int]) -> None:
    from ..errors import unknown
    from .inner import MODES

    if inner is None:
        if len(problems) > 1:
            raise UserError(
                f"{len(problems)} shapes at once need --inner sweep: one schedule does not serve all of them"
            )
        return
    if inner not in MODES:
        raise unknown("inner", inner, MODES)
    if not space.gpu:
        raise UserError(
            f"--inner {inner} sweeps the schedules of every GPU tried, and none is searched: add --gpu-axis"
        )
    if first:
        raise UserError(f"--first gives schedules, but with --inner {inner} they are swept: leave one of the two out")


def _reference(wanted: Any, job: SweepJob, goals: Goals, axes: Sequence[str]) -> tuple[str, Reference | None]:
    if wanted is None or isinstance(wanted, Reference):
        return "not compared", wanted
    if wanted != SWEPT:
        if axes:
            raise UserError(
                f"--reference {wanted} is of one GPU, but GPU numbers are searched: leave one of the two out"
            )
        return "", run_reference(wanted, job, goals)
    why = why_not_compared(goals, axes, job.space.size)
    return why, None if why else swept_reference(job, goals)


def _first_parameters(job: SweepJob, space: SearchSpace, first: Sequence[int]) -> list[dict[str, Any]]:
    from .parameters import schedule_parameters

    return [schedule_parameters(space.schedules, job.space.digits(index)) for index in first]


def _take_in(keeper: Any, evaluator: Evaluator, record: Record, sampler: str) -> int:
    """Trials of a file that this process has not seen, and how many they are."""
    found = keeper.others()
    if found is None:
        return 0
    candidates, notes = found
    evaluated = evaluator.recalled(candidates, notes)
    record.add(candidates, evaluated)
    keeper.learn(candidates, _told(evaluated, record, sampler), evaluated.violations)
    return len(candidates)


def _told(evaluated: Evaluated, record: Record, sampler: str) -> np.ndarray:
    """Values for the searcher: what breaks a limit and was not computed for that gets the worst so far, and so does
    whatever breaks a constraint where the sampler knows none."""
    values = evaluated.values.copy()
    broken = (evaluated.violations > 0).any(axis=1)
    known = np.isfinite(values[broken]) & SAMPLERS[sampler].constraints
    values[broken] = np.where(known, values[broken], np.where(np.isnan(record.worst), np.inf, record.worst))
    return values


def _confirm(record: Record, evaluator: Evaluator) -> None:
    places = record.front_trials
    candidates = record.candidates
    chosen = Candidates(candidates.digits[places], {name: values[places] for name, values in candidates.gpu.items()})
    if len(places) and (exact := evaluator.confirmed(chosen)) is not None:
        record.replace(places, exact)
