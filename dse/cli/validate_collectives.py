"""Predictions beside measured collectives inside one node, by GPU and collective.

  dse validate collectives
  dse validate collectives --table mine.parquet --part all --fabric h100_sxm=my_fabric.toml

NCCL's rows are predicted by the library's rule, an inference engine's by the engine's. The packaged sample
(studies/measured/README.md) has A100, H100, H200 and B200 with 2, 4 and 8 GPUs; numbers are fitted on the part `fit`,
every other size. Intervals resample whole (collective, GPUs).
"""

import argparse
from typing import TYPE_CHECKING

from .options import named_values

if TYPE_CHECKING:
    from ..validation.collectives import CollectiveValidation
    from ..validation.latency_errors import Errors

PART = "report"


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
    from .show import print_json, table

    configure_jax()
    part = None if arguments.part == "all" else arguments.part
    fabrics = named_values(arguments.fabric, "--fabric", "GPU=NAME", "h100_sxm=nvlink4_x8")
    results = validate_collectives(arguments.table, part, fabrics)
    if arguments.json:
        print_json({"part": arguments.part, "results": [result.to_dict() for result in results]})
        return 0
    print(table([row for result in results for row in _lines(result)], left=("GPU", "fabric", "rule", "collective")))
    return 0


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
