"""Two kernels of one problem, side by side, and where their difference in time comes from, term by term.

dse compare runs/gemm-...:0 runs/gemm-...:7
dse compare runs/gemm-...:0 "tile=128x256x64 stages=4 warps=8 cluster=2x1 launch=persistent"
dse compare --shape 8192x8192x8192 "tile=256x128x64 stages=4" "tile=128x256x64 stages=4"
dse compare runs/gemm-... --set-b l2_capacity=2x                   (the same schedule on two machines)
dse compare --shape 8192x8192x8192 --gpu h100_sxm --gpu-b h200_sxm   (the fastest schedule of each machine)

A and B are RUN:RANK, counted from 0 (RUN alone: its best), or a schedule (dse explain --help). A schedule beside a RUN
is for the run's problem and GPU. Without B, B is A's schedule on the other machine, or with --retune the fastest there.
Terms add up to the difference: phases are subtracted; causes are credited what they add in the mean over all orders in
which A can be turned into B (Shapley values), so that no order is preferred.
"""

import argparse
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import UserError
from .options import (
    add_output,
    add_question,
    add_schedules,
    changed_question,
    overrides,
    progress_of,
    question,
    shape_word,
)

if TYPE_CHECKING:
    from ..question import Question
    from ..studies.cases import Case


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument("a", nargs="?", metavar="A", help="RUN:RANK, or a schedule in quotes")
    parser.add_argument("b", nargs="?", metavar="B", help="the same; left out where the machines differ")
    add_question(parser, shape_needed=False, named=True)
    group = parser.add_argument_group("the machine of B, where it is another")
    group.add_argument("--gpu-b", metavar="NAME|FILE", help="another GPU (default: that of A)")
    group.add_argument(
        "--set-b", action="append", default=[], metavar="FIELD=VALUE", help="change a number of B's GPU: l2_capacity=2x"
    )
    group.add_argument("--retune", action="store_true", help="B is the fastest schedule of the space on its machine")
    add_schedules(parser)
    add_output(parser)


def run(arguments: argparse.Namespace) -> int:
    """Prints the comparison."""
    from ..studies.compare.compare import compare
    from .compare_text import as_dict, comparison_text
    from .interrupt import stoppable
    from .show import print_json

    with stoppable():
        a, b = _sides(arguments, progress_of(arguments))
        found = compare(a, b)
    if arguments.json:
        print_json(as_dict(found))
    else:
        print(comparison_text(found))
    return 0


def _sides(arguments: argparse.Namespace, progress: Any) -> "tuple[Case, Case]":
    texts = [text for text in (arguments.a, arguments.b) if text is not None]
    if not all(text.strip() for text in texts):
        raise UserError("A and B are each RUN:RANK or a schedule, not an empty text: e.g. 'tile=128x256x64 stages=4'")
    runs = [_run_place(text) for text in texts]
    changed = changed_question(arguments)
    if all(runs) and runs and changed:
        raise UserError(
            f"a RUN brings its own problem and GPU, so {', '.join(changed)} cannot be given with it; the other "
            "machine is --gpu-b and --set-b"
        )
    other = bool(arguments.gpu_b or arguments.set_b)
    if len(texts) == 2 and (other or arguments.retune):
        raise UserError("A and B are both given, so --gpu-b, --set-b and --retune say nothing: leave B out, or them")
    if len(texts) == 1 and not (other or arguments.retune):
        raise UserError(
            "give B: a second RUN:RANK or schedule, or another machine with --gpu-b NAME or --set-b FIELD=VALUE"
        )
    if not texts and not other:
        raise UserError("give A and B, each RUN:RANK or a schedule, or another machine with --gpu-b NAME or --set-b")
    if not texts:
        asked = _question(arguments)
        return _tuned(arguments, asked, progress), _tuned(arguments, _other(arguments, asked), progress)
    opened = [_opened(*place) if place else None for place in runs]
    given = next((case for case in opened if case is not None), None)
    if given is not None and changed:
        raise UserError(
            f"the schedule is for the RUN's problem and GPU, so {', '.join(changed)} cannot be given with it"
        )
    sides = [
        case if case is not None else _typed(arguments, text, given) for case, text in zip(opened, texts, strict=True)
    ]
    if len(sides) == 2:
        return sides[0], sides[1]
    return sides[0], _elsewhere(arguments, sides[0], progress)


def _run_place(text: str) -> tuple[str, int] | None:
    """Folder and rank, or None for a schedule."""
    if Path(text).expanduser().is_dir():
        return text, 0
    match = re.fullmatch(r"(.+):(\d+)", text)
    if match and (Path(match[1]).expanduser().is_dir() or "=" not in text):
        return match[1], int(match[2])
    return None if "=" in text or text.lstrip().startswith("{") else (text, 0)


def _opened(folder: str, rank: int) -> "Case":
    from ..runs import open_run
    from ..studies.cases import case_of_run

    opened = open_run(folder)
    if opened.stale:
        print(f"dse: the model has changed since {folder}; numbers below are today's", file=sys.stderr)
    case = case_of_run(opened, rank)
    return replace(case, name=f"{folder}:{rank}", accumulator=opened.accumulator)


def _typed(arguments: argparse.Namespace, text: str, beside: "Case | None") -> "Case":
    from ..api import make_job
    from ..schedule_words import words_of
    from ..studies.cases import Case

    if beside is not None:
        space = beside.job.space
        return replace(beside, name="schedule", schedule=words_of(space.kernel).parse(text, space.family), tuned=False)
    asked = _question(arguments)
    fields = words_of(arguments.kernel).parse(text, asked.family)
    return Case("schedule", make_job(asked), fields, accumulator=asked.accumulator)


def _question(arguments: argparse.Namespace) -> "Question":
    if not arguments.shape:
        form = shape_word(arguments.kernel)
        raise UserError(f"a schedule is compared on a shape: give --shape {form}, or a RUN:RANK as A or B")
    return question(arguments)


def _elsewhere(arguments: argparse.Namespace, a: "Case", progress: Any) -> "Case":
    """B: A's schedule, or the fastest, on the other machine (or, re-tuned, on A's own)."""
    from ..api import make_job

    if not (arguments.gpu_b or arguments.set_b):
        return _fastest(arguments, a, progress)
    asked = _asked_again(arguments, a)
    if asked.family != a.job.space.family and not arguments.retune:
        raise UserError(
            f"A's schedule is for {a.job.space.family}, but {asked.gpu.name} runs {asked.family}: give --retune for "
            "its own fastest schedule"
        )
    other = replace(a, name=asked.gpu.name, job=make_job(asked), tuned=False)
    return _tuned(arguments, asked, progress) if arguments.retune else other


def _asked_again(arguments: argparse.Namespace, a: "Case") -> "Question":
    from ..binding import families_of
    from ..content.gpu import load_gpu
    from ..question import ask

    job, changes = a.job, _changes_of_b(arguments)
    if arguments.gpu_b is None and job.gpu_changes and arguments.a and _run_place(arguments.a):
        raise UserError(
            f"the GPU of {a.name} was changed ({'; '.join(job.gpu_changes)}), so --set-b alone does not say what B is: "
            f"give --gpu-b {job.gpu_name} and all of B's changes with --set-b"
        )
    if arguments.gpu_b is None and not (arguments.a and _run_place(arguments.a)):
        changes = {**overrides(arguments.overrides), **changes}
    gpu = load_gpu(arguments.gpu_b or _gpu_of(arguments, a), changes)
    same = job.space.family if job.space.family in families_of(job.problem, gpu, a.accumulator) else None
    family = None if arguments.retune else same
    return ask(job.problem, gpu=gpu, family=family, accumulator=_named(job.problem, a.accumulator), clock=job.clock)


def _changes_of_b(arguments: argparse.Namespace) -> dict[str, str]:
    try:
        return overrides(arguments.set_b)
    except UserError as error:
        raise UserError(str(error).replace("--set ", "--set-b ")) from None


def _gpu_of(arguments: argparse.Namespace, a: "Case") -> str:
    return a.job.gpu_name if arguments.a and _run_place(arguments.a) else arguments.gpu


def _other(arguments: argparse.Namespace, asked: "Question") -> "Question":
    from ..content.gpu import load_gpu
    from ..question import ask

    changes = _changes_of_b(arguments)
    if arguments.gpu_b is None:
        changes = {**overrides(arguments.overrides), **changes}
    gpu = load_gpu(arguments.gpu_b or arguments.gpu, changes)
    accumulator = _named(asked.problem, asked.accumulator)
    return ask(asked.problem, gpu=gpu, family=arguments.family, accumulator=accumulator, clock=asked.clock)


def _named(problem: Any, accumulator: str | None) -> str | None:
    """The accumulator as a question names it: a kernel without tensor instructions names none."""
    from ..kernels.registry import kernel_of

    return accumulator if kernel_of(problem).tensor_cores else None


def _tuned(arguments: argparse.Namespace, asked: "Question", progress: Any) -> "Case":
    from ..api import make_job
    from ..studies.cases import tuned_cases

    job = make_job(asked, arguments.space, arguments.preset, arguments.axis)
    return replace(tuned_cases([(asked.gpu.name, 1.0, job)], progress)[0], accumulator=asked.accumulator)


def _fastest(arguments: argparse.Namespace, a: "Case", progress: Any) -> "Case":
    from ..studies.cases import tuned_cases

    found = tuned_cases([(a.job.gpu_name, 1.0, a.job)], progress)[0]
    return replace(found, name=f"the fastest of {a.job.space.name}", accumulator=a.accumulator)
