"""Known-good schedules that a search tries first: written in words, by index, a preset's fastest, or a run's best."""

from collections.abc import Sequence
from pathlib import Path

from ..content.files import home_expanded
from ..errors import UserError, unknown
from ..fitting import fitting
from ..job import SweepJob
from ..rows import evaluate_rows
from ..runs import open_run
from ..schedule_words import schedule_in, words_of
from ..space import Space
from ..tuning import tune

PRESET = "preset:"
OF_A_RUN = 10  # schedules that a run gives


def first_schedules(texts: Sequence[str], job: SweepJob, whole: Space) -> tuple[list[int], int]:
    """Indices of the schedules that texts name, in their order, each once.

    Args:
        texts: schedules in words ("tile=128x256x64 stages=4"), indices, "preset:NAME" (the fastest of it), or folders
            of finished sweeps (their ten fastest that the space has).
        job: problem, GPU and space.
        whole: the space that `job.space` is restricted from, for its presets.

    Returns:
        the indices, and how many evaluations finding them took.

    Raises:
        UserError: a text that is none of these, or a schedule that the space does not have.
    """
    found: list[int] = []
    evaluations = 0
    for text in texts:
        if text.startswith(PRESET):
            index, spent = _of_preset(text.removeprefix(PRESET), job, whole)
            evaluations += spent
            found.append(index)
        elif text.strip().isascii() and text.strip().isdecimal():
            job.space.digits(int(text))
            found.append(int(text))
        elif "=" in text and not Path(text).exists():
            found.append(_in_words(text, job))
        else:
            found += _of_run(text, job)
    return list(dict.fromkeys(found)), evaluations


def _in_words(text: str, job: SweepJob) -> int:
    schedule = words_of(job.space.kernel).parse(text, job.space.family)
    own = {name: value for name, value in schedule.items() if name in job.space.fields}
    try:
        return job.space.index_of_schedule(own)
    except UserError as error:
        raise UserError(f"--first {text}: {error}") from None


def _of_preset(name: str, job: SweepJob, whole: Space) -> tuple[int, int]:
    if name not in whole.presets:
        raise unknown(f"preset of the space {whole.name}", name, whole.presets)
    preset = whole.restrict(whole.presets[name])
    schedules = fitting(preset, [job.problem], [job.gpu])
    best = tune(schedules, [(job.problem, job.gpu)])
    if best.index[0] < 0:
        raise UserError(f"--first {PRESET}{name}: no schedule of it can run {job.problem_name} on {job.gpu_name}")
    fields = schedules.schedules(best.place)[0]
    own = {name: value for name, value in fields.items() if name in job.space.fields}
    return job.space.index_of_schedule(own), best.evaluations


def _of_run(text: str, job: SweepJob) -> list[int]:
    if not text.strip() or not home_expanded(text).is_dir():
        raise UserError(
            f"--first {text}: no schedule in words (e.g. {words_of(job.space.kernel).example!r}), no index, no "
            f"{PRESET}NAME and no folder of a finished sweep"
        )
    run = open_run(text)
    if run.job.space.kernel != job.space.kernel:
        raise UserError(f"--first {text} is a run of {run.job.space.kernel}, not of {job.space.kernel}")
    found = []
    for row in run.top.head(OF_A_RUN).to_dict("records"):
        schedule = schedule_in(job.space.kernel, row)
        try:
            found.append(job.space.index_of_schedule({n: v for n, v in schedule.items() if n in job.space.fields}))
        except UserError:
            continue  # not in this space
    runs = [index for index, reason in zip(found, evaluate_rows(job, found)["reason"], strict=True) if reason == 0]
    if not runs:
        raise UserError(f"--first {text}: none of its fastest schedules is in the space {job.space.name} and runs here")
    return runs
