"""A finished run as one HTML file: opens offline, prints, and has every figure's numbers beside it.

  dse sweep gemm --shape 8192x8192x8192 --gpu h200_sxm --out runs/mine
  dse report runs/mine                                   writes runs/mine/report.html
  dse report runs/mine -o mine.html --figures figures/   and every figure as PNG and SVG, for papers
  dse report runs/mine --trace mine.json                 and one SM's timeline for Perfetto (ui.perfetto.dev)

It holds the question, the best schedules with where their time goes, the roofline, the front with its knees, a timeline
of one SM, what-if curves and elasticities of the machine's numbers, the space with why schedules cannot run, every
number of the machine with its source, how far to trust the predictions, and how the run was made.
"""

import argparse
import sys
from typing import TYPE_CHECKING

from ..errors import UserError
from .options import add_output, progress_of

if TYPE_CHECKING:
    from ..report.report import Report


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument("run", metavar="RUN", help="folder of a sweep, of schedules or of layouts (dse sweep sharding)")
    parser.add_argument(
        "-o", "--output", metavar="FILE.html", help="the page (default: report.html in the run's folder)"
    )
    parser.add_argument("--figures", metavar="FOLDER", help="every figure as PNG and SVG as well")
    parser.add_argument("--trace", metavar="FILE.json", help="the best schedule's timeline as a trace for Perfetto")
    parser.add_argument(
        "--what-if", default="auto", metavar="SPACE",
        help="space that the what-if curves are tuned over: whole (the run's), quick (a coarse preset), none (no "
        "curves); auto (default) is whole up to 12 million schedules, else quick",
    )  # fmt: skip
    add_output(parser)


def run(arguments: argparse.Namespace) -> int:
    """Writes the report and says where it is."""
    from ..report import make_report
    from ..studies.layouts.disaggregated_files import is_disaggregated
    from ..studies.layouts.files import is_layout_run
    from .show import print_json

    if arguments.output == "-":
        raise UserError(
            "-o - is not allowed: the page is a file, give its name, or leave -o out for report.html in RUN"
        )
    if is_layout_run(arguments.run) or is_disaggregated(arguments.run):
        made = _of_layouts(arguments)
    else:
        made = make_report(
            arguments.run,
            arguments.output,
            figures=arguments.figures,
            trace_file=arguments.trace,
            what_if=arguments.what_if,
            progress=progress_of(arguments, silent=arguments.json),
        )
    if arguments.json:
        print_json(
            {
                "page": str(made.page),
                "bytes": made.page.stat().st_size,
                "title": made.title,
                "sections": [section.anchor for section in made.sections],
                "figures": [str(path) for path in made.figures],
                "trace": None if made.trace is None else str(made.trace),
            }
        )
        return 0
    print(f"{made.title}: {made.page} ({made.page.stat().st_size / 1e6:.2f} MB)")
    if made.figures:
        print(f"{len(made.figures)} figures in {made.figures[0].parent}")
    if made.trace:
        print(f"trace {made.trace}: open it in Perfetto or chrome://tracing")
    sys.stdout.flush()
    return 0


def _of_layouts(arguments: argparse.Namespace) -> "Report":
    from ..report.layouts.disaggregated import make_disaggregated_report
    from ..report.layouts.report import make_layout_report
    from ..studies.layouts.disaggregated_files import is_disaggregated, open_disaggregated
    from ..studies.layouts.files import open_layouts

    if arguments.trace:
        raise UserError(f"--trace {arguments.trace}: a sweep of layouts has no timeline of one SM; leave --trace out")
    if arguments.what_if != "auto":
        raise UserError(
            f"--what-if {arguments.what_if}: what-ifs of layouts are sweeps of their own, dse sweep sharding --set "
            "fabric.link=2x, or dse study faster_links"
        )
    if is_disaggregated(arguments.run):
        return make_disaggregated_report(open_disaggregated(arguments.run), arguments.output, arguments.figures)
    return make_layout_report(open_layouts(arguments.run), arguments.output, arguments.figures)
