"""One schedule, explained: time by pipeline and by phase, bytes at every level, occupancy, roofline, what to change.

  dse explain runs/gemm-h200_sxm-8192x8192x8192-... 0
  dse explain --shape 8192x8192x8192 --gpu h200_sxm --schedule "tile=128x256x64 stages=4 warps=8 cluster=2x1
      raster=along_m:8 launch=persistent"

A schedule is words KEY=VALUE or a JSON object. Of gemm tile=MxNxK and stages are needed; warps, cluster (2x1,
pair:2x1), raster (along_m:8), launch (data_parallel, persistent:free8, split_k:4, stream_k), epilogue (direct, staged,
overlapped), swap_ab, and measured registers and smem_bytes may follow. Of other kernels (--kernel NAME) the words are
the schedule's fields, see spaces/NAME/_fields.toml.
"""

import argparse
import sys
from typing import TYPE_CHECKING

from ..errors import UserError
from .options import add_question, changed_question, question, shape_word

if TYPE_CHECKING:
    from ..explanation import Explanation


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument("run", nargs="?", metavar="RUN", help="folder of a sweep")
    parser.add_argument("place", nargs="?", type=int, metavar="RANK", help="which of its best, from 0 (default: 0)")
    parser.add_argument("--rank", type=int, metavar="I", help="the same")
    parser.add_argument("--index", type=int, metavar="I", help="any schedule of the run's space, by its index")
    parser.add_argument("--schedule", metavar="WORDS", help="a schedule typed by hand")
    add_question(parser, shape_needed=False, named=True)
    parser.add_argument("--json", action="store_true", help="the answer as JSON on standard output")


def run(arguments: argparse.Namespace) -> int:
    """Explains one schedule; exit code 1 where it cannot run."""
    from .show import print_json

    explanation = _from_run(arguments) if arguments.run else _typed(arguments)
    if arguments.json:
        print_json(explanation.to_dict())
    else:
        print(explanation)
    return 0 if explanation.feasible else 1


def _from_run(arguments: argparse.Namespace) -> "Explanation":
    from ..explain import explain_fields, explain_row
    from ..runs import open_run

    if arguments.schedule:
        raise UserError("give either a RUN or --schedule, not both")
    changed = changed_question(arguments)
    if changed:
        raise UserError(
            f"a RUN brings its own problem and GPU, so {', '.join(changed)} cannot be given with it; to ask otherwise, "
            "give --shape, --gpu and --schedule"
        )
    opened = open_run(arguments.run)
    if opened.stale:
        print("dse: the model has changed since this run; numbers below are today's", file=sys.stderr)
    if arguments.index is not None:
        return explain_fields(opened.job, opened.job.space.schedule(arguments.index))
    rank = next((r for r in (arguments.rank, arguments.place) if r is not None), 0)
    return explain_row(opened.job, opened.top, rank)


def _typed(arguments: argparse.Namespace) -> "Explanation":
    from ..explain import explain_asked
    from ..schedule_words import words_of

    words = words_of(arguments.kernel)
    if not arguments.schedule or not arguments.shape:
        form = shape_word(arguments.kernel)
        raise UserError(f'give a RUN folder, or --shape {form} and --schedule "{words.example}"')
    asked = question(arguments)
    fields = words.parse(arguments.schedule, asked.family)
    return explain_asked(asked, fields)
