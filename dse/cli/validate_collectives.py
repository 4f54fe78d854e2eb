"""Predictions beside measured collectives: inside one node by GPU and collective, over nodes by published table.

  dse validate collectives
  dse validate collectives --table mine.parquet --part all --fabric h100_sxm=my_fabric.toml

NCCL's rows are predicted by the library's rule, an inference engine's by the engine's. The packaged sample
(studies/measured/README.md) has A100, H100, H200 and B200 with 2, 4 and 8 GPUs; numbers are fitted on the part `fit`,
every other size. Intervals resample whole (collective, GPUs). The second table has published times of nccl-tests over
two nodes (studies/measured/collectives_over_nodes.toml), of rows that nothing was fitted on; a table of one's own is
shown alone.
"""

import argparse
from dataclasses import asdict
from typing import TYPE_CHECKING

from .options import named_values

if TYPE_CHECKING:
    from ..validation.collectives import CollectiveValidation
    from ..validation.collectives_published import PublishedCollective
    from ..validation.latency_errors import Errors

PART = "report"
LARGE = 2**26  # bytes


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument("--table", metavar="FILE", help="measured collectives, Parquet; default: the packaged sample")
    parser.add_argument("--part", default=PART, help=f"which part is judged: fit, report or all (default: {PART})")
    parser.add_argument(
        "--fabric", action="append", default=[], metavar="GPU=NAME", help="another fabric for a GPU of the table"
    )
    parser.add_argument("--json", action="store_true", help="the answer as JSON on standard output")


def run(arguments: argparse.Namespace) -> int:
    """Validates; prints a line a GPU and collective."""
    from ..platform import configure_jax
    from ..validation.collectives import validate_collectives
    from ..validation.collectives_published import published
    from .show import print_json, table

    configure_jax()
    part = None if arguments.part == "all" else arguments.part
    fabrics = named_values(arguments.fabric, "--fabric", "GPU=NAME", "h100_sxm=nvlink4_x8")
    results = validate_collectives(arguments.table, part, fabrics)
    over_nodes = published() if arguments.table is None else []
    if arguments.json:
        told = [{**asdict(row), "error": row.error} for row in over_nodes]
        print_json({"part": arguments.part, "results": [one.to_dict() for one in results], "over_nodes": told})
        return 0
    print(table([row for result in results for row in _lines(result)], left=("GPU", "fabric", "rule", "collective")))
    if over_nodes:
        names = dict.fromkeys(row.what for row in over_nodes)
        lines = [_over_nodes([row for row in over_nodes if row.what == what]) for what in names]
        print("", table(lines, left=("over nodes, published", "fabric")), sep="\n")
    return 0


def _over_nodes(rows: "list[PublishedCollective]") -> dict[str, str]:
    judged = [row for row in rows if not row.fitted]
    large = [row for row in judged if row.bytes >= LARGE]
    return {
        "over nodes, published": rows[0].what,
        "fabric": rows[0].fabric,
        "rows": str(len(judged)),
        "MAPE %": _percent([abs(row.error) for row in judged]),
        "bias %": _percent([row.error for row in judged], "+"),
        "MAPE % from 64 MiB": _percent([abs(row.error) for row in large]),
    }


def _percent(errors: list[float], sign: str = "") -> str:
    return f"{100 * sum(errors) / len(errors):{sign}.1f}" if errors else "-"


def _lines(result: "CollectiveValidation") -> list[dict[str, str]]:
    about = {"GPU": result.system, "fabric": result.fabric, "rule": result.rule}
    several = result.by_collective if len(result.by_collective) > 1 else {}
    lines = [about | {"collective": name} | _said(found) for name, found in several.items()]
    only = "all" if several else next(iter(result.by_collective))
    return [*lines, about | {"collective": only} | _said(result.model)]


def _said(found: "Errors") -> dict[str, str]:
    low, high = found.interval.get("mape", (None, None))
    return {
        "rows": f"{found.count:,}",
        "MAPE %": f"{found.mape:.1f}",
        "MAPE 95 %": "-" if low is None else f"{low:.1f} to {high:.1f}",
        "bias %": f"{found.bias:+.1f}",
        "p90 %": f"{found.p90:.1f}",
    }
