"""Published rates of whole models beside predictions: a line a figure, then errors by kind of model, GPU and phase.

  dse validate serving                               all figures of studies/measured/serving.toml, some minutes
  dse validate serving --gpu b200_sxm --model deepseek_v3
  dse validate serving --comparable yes --parts      only those that count; where a step's time goes
  dse validate serving --table mine.toml --json

Errors are of times, above 0 where the prediction is too slow, and count rows whose `comparable` is "yes". Rows without
a batch take the largest that fits the memory. docs/serving-validation.md tells of the sources and of what is weak.
"""

import argparse
from typing import TYPE_CHECKING

from .options import comma_names

if TYPE_CHECKING:
    from ..validation.latency_errors import Errors
    from ..validation.serving import JudgedFigure

LEAST_SHARE = 0.02  # of a step's parts that --parts shows


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument("--table", metavar="FILE", help="published figures, TOML; default: the packaged ones")
    parser.add_argument("--gpu", type=comma_names, default=(), metavar="GPU[,GPU]", help="figures of these alone")
    parser.add_argument("--model", type=comma_names, default=(), metavar="MODEL[,MODEL]", help="figures of these alone")
    parser.add_argument(
        "--comparable",
        type=comma_names,
        default=(),
        metavar="WORD[,WORD]",
        help="yes, max-throughput, unsure, calibration (default: all)",
    )
    parser.add_argument("--clock", default="boost", choices=("boost", "sustained"), help="of the GPU (default: boost)")
    parser.add_argument("--parts", action="store_true", help="where the time of each step goes")
    parser.add_argument("--json", action="store_true", help="the answer as JSON on standard output")


def run(arguments: argparse.Namespace) -> int:
    """Validates; prints a line a figure and a line a group."""
    from ..platform import configure_jax
    from ..validation.serving import validate_serving
    from .show import print_json, table

    configure_jax()
    found = validate_serving(arguments.table, arguments.gpu, arguments.model, arguments.comparable, arguments.clock)
    if arguments.json:
        print_json(found.to_dict())
        return 0
    left = ("figure", "counts", "unit", "why not")
    print(table([_line(row) for row in found.rows], left=left))
    if arguments.parts:
        print()
        print(table([_parts(row) for row in found.rows if row.prediction], left=("figure", "parts of a step")))
    lines = [_said("all", "", found.all)] if found.all else []
    for group, members in found.groups.items():
        lines += [_said(group, name, errors) for name, errors in members.items()]
    if lines:
        print()
        print(table(lines, left=("by", "")))
    else:
        print('\nNo figure counts: none with comparable = "yes" could be predicted.')
    return 0


def _line(row: "JudgedFigure") -> dict[str, str]:
    figure, prediction = row.figure, row.prediction
    said = {
        "figure": figure.name,
        "counts": figure.comparable,
        "unit": figure.unit,
        "published": f"{figure.value:.5g}",
        "predicted": f"{prediction.value:.5g}" if prediction else "-",
        "error %": f"{row.error:+.1f}" if prediction else "-",
        "batch": str(prediction.batch) if prediction else "-",
        "fits": ("yes" if prediction.fits else "no") if prediction else "-",
    }
    return said | {"why not": row.why_not}


def _parts(row: "JudgedFigure") -> dict[str, str]:
    assert row.prediction
    total = sum(row.prediction.parts.values())
    longest = sorted(row.prediction.parts.items(), key=lambda part: -part[1])
    shown = [f"{name} {1e3 * seconds:.3g}" for name, seconds in longest if seconds > LEAST_SHARE * total]
    return {"figure": row.figure.name, "parts of a step": "ms: " + ", ".join(shown)}


def _said(by: str, name: str, found: "Errors") -> dict[str, str]:
    return {
        "by": by,
        "": name,
        "figures": str(found.count),
        "MAPE %": f"{found.mape:.1f}",
        "weighted %": f"{found.weighted_mape:.1f}",
        "bias %": f"{found.bias:+.1f}",
        "median %": f"{found.p50:.1f}",
    }
