"""Runs a batch: the best schedules of every problem on every GPU, exhaustively, part by part."""

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from itertools import groupby
from numbers import Integral
from pathlib import Path

from ..errors import UserError
from ..fitting import fitting
from ..platform import configure_jax, usable_cores
from ..progress import Progress, Reporter, Snapshot, reporter
from ..rows import evaluate_schedules
from ..run_files import claimed
from ..schedule_set import ColumnGroup, ScheduleSet
from ..tuning import Tuned, tune, tune_few
from .columns import case_columns, part_table
from .folder import BatchFolder
from .plan import Part, Plan, space_key
from .result import BatchResult, read_batch


def run_batch(
    plan: Plan,
    out: str | Path,
    *,
    top: int = 1,
    progress: Progress = None,
    workers: int | None = None,
    overwrite: bool = False,
    command_line: str = "",
) -> BatchResult:
    """Evaluates every schedule for every distinct (problem, GPU) and writes the best of each; goes on where an earlier
    call with the same question was stopped.

    Args:
        plan: `dse.batch.make_plan`.
        out: the folder, see `dse.batch.folder`.
        top: schedules kept of each problem, the fastest first, ties by index: the first rows of a sweep's best.
        progress: as in `dse.sweep.run_sweep`; counts points of spaces.
        workers: threads; None: one a usable core.
        overwrite: replace the batch in `out`.
        command_line: for the files; how this would be run again.

    Returns:
        What the folder holds.

    Raises:
        UserError: the folder is in use, cannot be written, or holds something else.
    """
    for name, value in (("top", top), ("workers", workers)):
        if value is not None and (not isinstance(value, Integral) or value < 1):
            raise UserError(f"{name} = {value} is not allowed: a whole number, 1 or more")
    configure_jax()
    began = time.perf_counter()
    with claimed(out):
        folder = BatchFolder(out, plan, top, overwrite, command_line)
        left = [part for part in plan.parts if not folder.is_done(part)]
        clock = _Clock(sum(part.candidates for part in left), reporter(progress))
        kernels = list(dict.fromkeys(row.kernel for row in plan.rows))
        evaluated = 0
        for parts, schedules in _prepared(left):
            for part in parts:
                found = _tuned(part, schedules, top, clock, workers)
                evaluated += len(schedules) * len(part.cases) if schedules else 0
                folder.write(part, part_table(part, plan.rows, kernels, _columns(part, schedules, found, workers)))
                clock.add(part)
        clock.finish()
        result = read_batch(folder.path)
        done = {
            "problems": plan.cases,
            "problems_now": sum(len(part.cases) for part in left),
            "candidates": plan.candidates,
            "candidates_now": sum(part.candidates for part in left),
            "evaluated_now": evaluated,
            "seconds": time.perf_counter() - began,
        }
        folder.write_summary({**done, "steps": result.steps, "none_fits": result.none_fits})
        return replace(result, run=done)


def _prepared(parts: Sequence[Part]) -> "Iterator[tuple[list[Part], ScheduleSet | None]]":
    """The parts of each space with the schedules that fit one of their GPUs; the next space's are found while this
    one's are evaluated."""
    groups = [list(group) for _, group in groupby(parts, key=lambda part: space_key(part.space))]
    with _ahead(1) as pool, _ahead(usable_cores()) as compiling:
        first_of_kernel = {group[0].kernel: group[0].cases[0].job for group in reversed(groups)}
        for job in first_of_kernel.values():
            compiling.submit(evaluate_schedules, job, job.space.rows([0]))
        waiting: list[Future[ScheduleSet | None]] = [pool.submit(_ready, group, compiling) for group in groups[:1]]
        for place, group in enumerate(groups):
            schedules = waiting.pop().result()
            waiting += [pool.submit(_ready, following, compiling) for following in groups[place + 1 : place + 2]]
            yield group, schedules


@contextmanager
def _ahead(workers: int) -> Iterator[ThreadPoolExecutor]:
    pool = ThreadPoolExecutor(workers)
    try:
        yield pool
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _ready(parts: Sequence[Part], compiling: ThreadPoolExecutor) -> ScheduleSet | None:
    """The schedules that fit, their functions compiled at the same time."""
    schedules = _fitting(parts)
    if schedules is not None:
        list(compiling.map(lambda group: _compile(schedules, group, parts[0]), schedules.groups))
    return schedules


def _compile(schedules: ScheduleSet, group: ColumnGroup, part: Part) -> None:
    """Evaluates the first block of a group."""
    call = replace(group, columns={name: values[:1] for name, values in group.columns.items()}, count=1)
    job = part.cases[0].job
    for _ in replace(schedules, groups=(call,)).chunks(job.problem_arrays, job.gpu):
        pass


def _fitting(parts: Sequence[Part]) -> ScheduleSet | None:
    problems = dict.fromkeys(case.job.problem for part in parts for case in part.cases)
    try:
        return fitting(parts[0].space, list(problems), [part.cases[0].job.gpu for part in parts], alike=True)
    except UserError:  # nothing fits: every problem of these parts is left without a schedule
        return None


def _tuned(part: Part, schedules: ScheduleSet | None, top: int, clock: "_Clock", workers: int | None) -> Tuned | None:
    if schedules is None:
        return None
    rows = [(case.job.problem, case.job.gpu) for case in part.cases]
    shown = clock.within(part)
    if top == 1:
        found = tune(schedules, rows, shown, workers=workers)
        return Tuned(found.latency_s[:, None], found.place[:, None], found.index[:, None], found.evaluations)
    return tune_few(schedules, rows, top, shown, workers=workers)


def _columns(part: Part, schedules: ScheduleSet | None, found: Tuned | None, workers: int | None) -> list[dict]:
    if schedules is None or found is None:
        return [{} for _ in part.cases]
    runs = found.index >= 0

    def of_case(place: int) -> dict:
        here = runs[place]
        if not here.any():
            return {}
        fields = schedules.fields(found.place[place][here])
        index, latency_s = found.index[place][here], found.latency_s[place][here]
        return case_columns(part.cases[place], index, fields, latency_s)

    with ThreadPoolExecutor(workers or usable_cores()) as pool:
        return list(pool.map(of_case, range(len(part.cases))))


class _Clock:
    """Turns the progress of one part into that of the batch."""

    def __init__(self, total: int, report: Reporter) -> None:
        self._total, self._report, self._done = total, report, 0
        self._began = time.perf_counter()

    def within(self, part: Part) -> Reporter:
        def show(snapshot: Snapshot) -> None:
            share = snapshot.done / max(snapshot.total, 1)
            self._show(self._done + int(share * part.candidates))

        return show

    def add(self, part: Part) -> None:
        self._done += part.candidates
        self._show(self._done)

    def finish(self) -> None:
        self._show(self._total, finished=True)

    def _show(self, done: int, finished: bool = False) -> None:
        seconds = time.perf_counter() - self._began
        rate = done / max(seconds, 1e-9)
        self._report(Snapshot(done, self._total, seconds, rate, None, "latency_s", None, finished))
