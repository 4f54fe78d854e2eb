"""How many schedules to benchmark, and which: a list that most likely holds one near the best of a run's whole space.

dse shortlist RUN                               for a 95 % chance of being within 5 % of the best
dse shortlist RUN --within 2% --chance 90%
dse shortlist RUN --to triton -o configs.py     the list for an autotuner: triton, cutlass, tilelang, json or csv
dse shortlist RUN --json                        the list, and the chance of every shorter one

The list is not the top of the ranking: schedules that are alike err alike, so each is chosen for what it adds.
"""

import argparse
import sys
from typing import TYPE_CHECKING, Any

from ..errors import UserError
from .options import positive

if TYPE_CHECKING:
    from ..runs import OpenRun
    from ..studies.benchmark.shortlist_size import RunShortlist

CURVE_POINTS = 12


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument("run", metavar="RUN", help="folder of a sweep")
    parser.add_argument(
        "--within", default="5%", metavar="SHARE", help="how near the best is near enough (default: 5%%)"
    )
    parser.add_argument("--chance", default="95%", metavar="SHARE", help="wanted (default: 95%%)")
    parser.add_argument("--draws", type=positive, default=2000, metavar="N", help="behind each chance (default: 2000)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the draws (default: 0)")
    parser.add_argument(
        "--figure", metavar="FILE", help=".svg, .png or .pdf: the chance against the length of the list"
    )
    parser.add_argument("--to", metavar="TARGET", help="with -o: triton, cutlass, tilelang, json or csv (dse export)")
    parser.add_argument("-o", "--output", metavar="FILE", help="write the list there, for the tool that --to names")
    parser.add_argument("--json", action="store_true", help="the answer as JSON on standard output")


def run(arguments: argparse.Namespace) -> int:
    """Prints the list, the sentence and the curve."""
    from ..figure_file import check_figure_path
    from ..runs import open_run
    from ..studies.benchmark.shortlist_size import draw_chances, shortlist_of
    from .show import print_json, schedule_rows
    from .top import heading

    within, chance = share("within", arguments.within), share("chance", arguments.chance)
    if arguments.figure:
        check_figure_path(arguments.figure)
    if bool(arguments.to) != bool(arguments.output):
        raise UserError("--to says for which tool the list is written, -o where: give both, e.g. --to triton -o c.py")
    opened = open_run(arguments.run)
    if opened.stale:
        print("dse: the model has changed since this run; numbers below are today's", file=sys.stderr)
    found = shortlist_of(opened.job, within, chance, draws=arguments.draws, seed=arguments.seed)
    if arguments.figure:
        draw_chances(found, arguments.figure)
    if arguments.output:
        _export(opened, found, arguments.to, arguments.output)
    if arguments.json:
        print_json(_content(opened, found, arguments.seed))
        return 0
    print(heading({**opened.summary, "incomplete": False}))  # of the whole space, however far the sweep came
    shown = found.table.assign(**{"chance so far %": (100.0 * found.table["chance"]).round(1)})
    print(schedule_rows(shown, ["chance so far %"]))
    print()
    print(found.sentence())
    print("\n".join(about(found)))
    if arguments.figure:
        print(f"figure written to {arguments.figure}")
    return 0


def _export(opened: "OpenRun", answer: "RunShortlist", target: str, output: str) -> None:
    from ..export.run import export_table
    from .export import write_export

    exported = export_table(opened, answer.table, target)
    write_export(output, exported.text)
    print(f"dse: {exported.summary}; written to {output}", file=sys.stderr)


def about(answer: "RunShortlist") -> list[str]:
    """The curve, what the ranking alone would give, and what the chances rest on."""
    found = answer.found
    number = len(found.listed)
    places = sorted({round(1 + at * (number - 1) / max(CURVE_POINTS - 1, 1)) for at in range(CURVE_POINTS)})
    curve = ", ".join(f"{place}: {100 * found.chances[place - 1]:.0f} %" for place in places)
    wider = f", times {answer.scale:.2f} as residuals of this kind are wider" if answer.scale > 1.005 else ""
    fastest = "the one predicted fastest" if number == 1 else f"the {number} predicted fastest"
    return [
        f"chance of the first n: {curve}",
        f"{fastest}: {100 * found.by_prediction[number - 1]:.0f} %, since schedules that are alike err alike",
        f"{answer.candidates:,} kernels looked at, {found.draws} draws of how schedules of one shape err against each "
        f"other{wider}; what the chances rest on: docs/how-many-to-benchmark.md",
    ]


def share(name: str, text: str) -> float:
    """`5%` or `0.05`.

    Raises:
        UserError: something else.
    """
    try:
        return float(text.rstrip("%")) / (100.0 if text.endswith("%") else 1.0)
    except ValueError:
        raise UserError(f"--{name} {text}: write a share, e.g. 5% or 0.05") from None


def _content(opened: "OpenRun", answer: "RunShortlist", seed: int) -> dict[str, Any]:
    found = answer.found
    return {
        "gpu_changes": list(opened.job.gpu_changes),
        "clock": opened.job.clock,
        "sentence": answer.sentence(),
        "within": found.within,
        "chance_wanted": found.chance,
        "count": found.count,
        "chances": found.chances.tolist(),
        "chances_by_prediction": found.by_prediction.tolist(),
        "draws": found.draws,
        "seed": seed,
        "runnable": answer.runnable,
        "candidates": answer.candidates,
        "scale": answer.scale,
        "schedules": answer.table,
    }
