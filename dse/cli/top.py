"""The best schedules of a finished run.

dse top runs/gemm-... -n 20
dse top runs/gemm-... --distinct tile          of each tile only the best: not ten rasters of one tile
"""

import argparse
from typing import TYPE_CHECKING, Any

from .options import positive

if TYPE_CHECKING:
    import pandas as pd


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument("run", metavar="RUN", help="folder of a sweep")
    parser.add_argument("-n", type=positive, default=10, metavar="N", help="how many (default: 10)")
    parser.add_argument(
        "--distinct", metavar="WORDS",
        help="of schedules that agree in these only the best: tile, or tile,stages,warps, ... (words of dse explain "
        "--help, or fields)",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="the answer as JSON on standard output")


def run(arguments: argparse.Namespace) -> int:
    """Prints the table; says where the run kept fewer than asked for."""
    from ..read_run import read_run
    from .show import print_json, schedule_rows

    opened = read_run(arguments.run)
    rows, note = _chosen(opened, arguments.n, arguments.distinct)
    trust = opened.trust
    if arguments.json:
        print_json(rows.assign(**trust.words()) if trust else rows)
        return 0
    print(heading(opened.summary))
    print(schedule_rows(rows, trust=trust, kernel=opened.summary["provenance"]["kernel"]))
    if note:
        print(note)
    return 0


def _chosen(opened: Any, wanted: int, distinct: str | None) -> "tuple[pd.DataFrame, str]":
    """The rows, and what to say where there are fewer than wanted."""
    feasible, evaluated = opened.summary["feasible"], opened.summary["evaluated"]
    if distinct is None:
        rows = opened.top.head(wanted)
        few = f"the run kept {len(opened.top)}: sweep with --top {wanted} for more"
        if len(opened.top) >= feasible:
            few = f"no more of the {evaluated:,} schedules can run" if feasible else cannot_run(opened.summary)
        return rows, few if len(rows) < wanted else ""
    if not feasible:
        return opened.top, cannot_run(opened.summary)
    import pandas as pd

    from ..distinct import distinct_rows

    by_latency = opened.front.sort_values("latency_s", kind="stable")
    kernel = opened.summary["provenance"]["kernel"]
    own = len(distinct_rows(opened.top, distinct, kernel))
    rows = distinct_rows(pd.concat([opened.top, by_latency], ignore_index=True), distinct, kernel).head(wanted)
    if own >= wanted:
        return rows, ""
    more = len(rows) - own
    text = f"{own} distinct by {distinct} among the {len(opened.top)} best that the run kept"
    text += f"; the last {more} are from the front, by latency" if more else ""
    return rows, f"{text}: sweep with a larger --top for more"


def cannot_run(summary: dict) -> str:
    """What is said of a run in which nothing fits."""
    evaluated = summary["evaluated"]
    return f"none of the {evaluated:,} schedules can run: widen the space; dse report RUN says what rules them out"


def heading(summary: dict) -> str:
    """What run this is, whether it was interrupted, and what was changed of the GPU, a line each."""
    from ..kernels.registry import get_kernel
    from ..text import what_if_lines

    made = summary["provenance"]
    title = get_kernel(made["kernel"]).problem_of(made["problem"]).title
    text = f"{title} on {made['gpu']}, {made['space']}"
    text += " (interrupted: of the part evaluated so far)" if summary["incomplete"] else ""
    return "\n".join([text, *what_if_lines(made.get("gpu_changes", ()), made.get("clock", "boost"))])
