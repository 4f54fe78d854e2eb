"""Schedules that studies ask about: of a run, of its front, typed, or the fastest of a space."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..api import make_job, shape_rows
from ..errors import UserError
from ..explain import ranked_schedule
from ..fitting import fitting
from ..job import SweepJob
from ..platform import configure_jax
from ..progress import Progress
from ..question import ask
from ..schedule_words import schedule_in, words_of
from ..tuning import tune

if TYPE_CHECKING:
    from ..runs import OpenRun


@dataclass(frozen=True)
class Case:
    """One schedule on one machine.

    Attributes:
        name: of the shape, or the place in a front.
        job: problem, GPU and space.
        schedule: field -> number.
        weight: how much its latency counts in a total, e.g. how often the shape runs.
        tuned: whether the schedule is the fastest of the job's space.
        accumulator: accumulator type; None: the input type's own.
    """

    name: str
    job: SweepJob
    schedule: dict[str, int]
    weight: float = 1.0
    tuned: bool = False
    accumulator: str | None = None

    @property
    def schedule_text(self) -> str:
        """The schedule in its kernel's words."""
        return words_of(self.job.space.kernel).format(self.schedule)


def cases_asked(
    shapes: str | Path | Sequence[Any],
    schedule: str | Mapping[str, Any] | None = None,
    *,
    dtype: str = "bf16",
    gpu: Any = "h200_sxm",
    space: Any = None,
    preset: str | None = None,
    axes: Any = None,
    progress: Progress = None,
    **question: Any,
) -> list[Case]:
    """Cases as a user puts them: shapes on a GPU, with one schedule for all or the fastest of the space for each.

    Args:
        shapes: name or path of a shape list, or a sequence of shapes, each a text or its numbers.
        schedule: words or fields (`dse.schedule_words.Words.parse`); None: each shape is tuned.
        dtype, gpu, space, preset, axes, question: as in `dse.sweep`, `kernel` among the last.
        progress: of tuning, as in `dse.sweep.run_sweep`.

    Raises:
        UserError: whatever of this is wrong, with what is allowed.
    """
    jobs = []
    for row in shape_rows(shapes, question.get("kernel")):
        chosen: dict[str, Any] = {**question, **row.choices}
        asked = ask(row.shape, row.dtype or dtype, gpu, **chosen)
        jobs.append((row.name, row.weight, make_job(asked, space, preset, axes)))
    if schedule is None:
        return tuned_cases(jobs, progress)
    words = words_of(question.get("kernel") or "gemm")
    return [Case(name, job, words.parse(schedule, job.space.family), weight) for name, weight, job in jobs]


def case_of_run(opened: "OpenRun", rank: int = 0) -> Case:
    """One of a run's best, counted from 0.

    Raises:
        UserError: a rank past the end.
    """
    schedule, tuned = ranked_schedule(opened.top, rank, opened.job.space.kernel)
    return Case(opened.job.problem_name, opened.job, schedule, tuned=tuned)


def cases_of_front(opened: "OpenRun") -> list[Case]:
    """Every schedule of a run's front, in its order.

    Raises:
        UserError: the front is empty.
    """
    if not len(opened.front):
        raise UserError(f"the front of {opened.path} is empty: run the sweep with a wider space")
    rows = opened.front.to_dict("records")
    kernel = opened.job.space.kernel
    return [Case(f"front {place}", opened.job, schedule_in(kernel, row)) for place, row in enumerate(rows)]


def tuned_cases(jobs: Sequence[tuple[str, float, SweepJob]], progress: Progress = None) -> list[Case]:
    """The fastest schedule of each job's space.

    Args:
        jobs: (name, weight, job) each.
        progress: as in `dse.sweep.run_sweep`.

    Raises:
        UserError: no schedule of a space can run its problem.
    """
    configure_jax()
    cases: list[Any] = [None] * len(jobs)
    for key in dict.fromkeys(job.space.hash for _, _, job in jobs):
        places = [place for place, (_, _, job) in enumerate(jobs) if job.space.hash == key]
        group = [jobs[place][2] for place in places]
        schedules = fitting(group[0].space, [job.problem for job in group], [job.gpu for job in group])
        found = tune(schedules, [(job.problem, job.gpu) for job in group], progress)
        for place, index, schedule in zip(places, found.index, schedules.schedules(found.place), strict=True):
            name, weight, job = jobs[place]
            if index < 0:
                raise UserError(
                    f"no schedule of the space {job.space.name} can run {job.problem_name} on {job.gpu_name}: widen "
                    "the space or its preset, or leave the shape out"
                )
            cases[place] = Case(name, job, schedule, weight, tuned=True)
    return cases
