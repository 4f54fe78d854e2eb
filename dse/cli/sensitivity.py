"""What a latency owes to each number of its GPU: elasticities, what the next 10 % buys, when something else binds.

dse sensitivity runs/gemm-h200_sxm-8192x8192x8192-... 0
dse sensitivity --shape 8192x8192x8192 --gpu h200_sxm
dse sensitivity --shape 8192x8192x8192 --schedule "tile=128x256x64 stages=4 warps=8 cluster=2x1 launch=persistent"
dse sensitivity --shapes llama3_70b_prefill --gpu h200_sxm --preset cutlass --figure tornado.svg
dse sensitivity runs/gemm-... --front -o front.parquet

An elasticity of -0.7: 1 % more of the number, 0.7 % less latency. It is that of a schedule; where the schedule is the
fastest of its space, the one that is found where none is given, it is that of the tuned latency too, because tuning
anew changes nothing in the first order. What 10 % buys is evaluated, not extrapolated: with the schedule kept, and with
--retune also with the schedule chosen anew out of the whole space.
"""

import argparse
import shlex
import sys
from typing import TYPE_CHECKING, Any

from ..errors import UserError
from .options import add_output, add_question, add_schedules, changed_question, progress_of, refinements

if TYPE_CHECKING:
    from ..studies.cases import Case


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument("run", nargs="?", metavar="RUN", help="folder of a sweep")
    parser.add_argument("place", nargs="?", type=int, metavar="RANK", help="which of its best, from 0 (default: 0)")
    parser.add_argument("--front", action="store_true", help="every schedule of the run's front")
    parser.add_argument("--schedule", metavar="WORDS", help="a schedule typed by hand (dse explain --help)")
    parser.add_argument("--shapes", metavar="NAME|FILE", help="a shape list by name or path: m,n,k[,count][,name]")
    add_question(parser, many=True, named=True)
    add_schedules(parser)
    group = parser.add_argument_group("the answer")
    group.add_argument(
        "--retune", action="store_true", help="what 10 %% buys with the schedule chosen anew too (45 times the work)"
    )  # fmt: skip
    group.add_argument("--all", action="store_true", help="numbers that do not matter too")
    group.add_argument("-o", "--out", metavar="FILE", help="every case and number as .parquet or .csv")
    group.add_argument("--figure", metavar="FILE", help="a tornado chart, .svg, .png or .pdf")
    add_output(parser)


def run(arguments: argparse.Namespace) -> int:
    """Prints the elasticities."""
    from ..figure_file import check_figure_path
    from ..studies.sensitivity.files import as_dict, check_table_path, write_sensitivity
    from ..studies.sensitivity.sensitivity import sensitivity
    from ..studies.sensitivity.tornado import draw_tornado
    from .interrupt import stoppable
    from .sensitivity_text import case_title, sensitivity_text
    from .show import print_json

    if arguments.figure:
        check_figure_path(arguments.figure)
    if arguments.out:
        check_table_path(arguments.out)
    progress = progress_of(arguments)
    with stoppable():
        cases = _cases(arguments, progress)
        found = sensitivity(cases, mean=arguments.front, retune=arguments.retune, progress=progress)
    if arguments.out:
        write_sensitivity(found, arguments.out, shlex.join(["dse", *arguments.words]))
    if arguments.figure:
        draw_tornado(found.whole, case_title(found), arguments.figure)
    if arguments.json:
        print_json(as_dict(found))
        return 0
    print(sensitivity_text(found, everything=arguments.all))
    written = [name for name in (arguments.out, arguments.figure) if name]
    if written:
        print(f"written to {', '.join(written)}")
    return 0


def _cases(arguments: argparse.Namespace, progress: Any) -> "list[Case]":
    if arguments.run:
        return _of_run(arguments)
    if arguments.front:
        raise UserError("--front is of a run: give the folder that dse sweep wrote, dse sensitivity RUN --front")
    if bool(arguments.shape) == bool(arguments.shapes):
        raise UserError("give a RUN folder, or --shape MxNxK, or many as --shapes NAME or FILE.csv")
    from ..studies.cases import cases_asked

    return cases_asked(
        arguments.shapes or arguments.shape,
        arguments.schedule,
        dtype=arguments.dtype,
        gpu=arguments.gpu,
        space=arguments.space,
        preset=arguments.preset,
        axes=arguments.axis,
        progress=progress,
        **refinements(arguments),
    )


def _of_run(arguments: argparse.Namespace) -> "list[Case]":
    from ..runs import open_run
    from ..studies.cases import case_of_run, cases_of_front

    changed = changed_question(arguments)
    changed += [f"--{name}" for name in ("schedule", "shapes", "space", "preset", "axis") if getattr(arguments, name)]
    if changed:
        raise UserError(
            f"a RUN brings its own problem, GPU, space and schedules, so {', '.join(changed)} cannot be given with it; "
            "to ask otherwise, give --shape and --gpu"
        )
    if arguments.front and arguments.place is not None:
        raise UserError("give a RANK, or --front for every schedule of the front, not both")
    opened = open_run(arguments.run)
    if opened.stale:
        print("dse: the model has changed since this run; numbers below are today's", file=sys.stderr)
    return cases_of_front(opened) if arguments.front else [case_of_run(opened, arguments.place or 0)]
