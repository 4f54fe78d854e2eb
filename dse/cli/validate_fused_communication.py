"""Fused kernels of several GPUs: published times beside predictions.

  dse validate fused_communication
  dse validate fused_communication --kernel ring_attention,moe_layer --all

Nothing is fitted to these rows beyond the transport's named numbers (docs/fused-communication-moe-attention.md). Rows
whose shape, type, number of GPUs and GPU are all published; with --all the others too.
"""

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from .options import comma_names

if TYPE_CHECKING:
    from ..validation.fused_communication import FusedRow


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument("--kernel", default="", metavar="NAME,...", help="only these kernels of the table")
    parser.add_argument("--all", action="store_true", help="also rows of which something is not published")
    parser.add_argument(
        "--apart", action="store_true", help="what GEMMs were compared with: the library's kernels one after the other"
    )
    parser.add_argument("--json", action="store_true", help="the answer as JSON on standard output")


def run(arguments: argparse.Namespace) -> int:
    """Validates; prints a table for every kernel and implementation, and the mean errors."""
    from ..platform import configure_jax
    from ..validation.fused_communication import fused_rows
    from .published import show_published

    configure_jax()
    rows = fused_rows(comma_names(arguments.kernel), None if arguments.all else True, arguments.apart)
    return show_published(rows, arguments.json, ("error",), _table, _below)


def _table(rows: "list[FusedRow]") -> str:
    from .show import table

    cells = [
        {
            "figure": row.name if row.exact else f"{row.name} *",
            "measured us": f"{row.measured_s * 1e6:.1f}",
            "predicted us": f"{row.predicted_s * 1e6:.1f}",
            "error": f"{row.error:+.1%}",
            "how": row.how,
        }
        for row in rows
    ]
    return "\n".join([rows[0].what, table(cells)])


def _below(rows: "Sequence[FusedRow]") -> list[str]:
    from ..validation.fused_communication import bias, mean_error, weighted_error

    groups = dict.fromkeys(row.what.partition(", ")[0] for row in rows)
    lines = [
        f"{name}: {len(own)} rows, weighted error {weighted_error(own):.1%}, mean {mean_error(own):.1%}, "
        f"bias {bias(own):+.1%}"
        for name in groups
        for own in [[row for row in rows if row.what.partition(", ")[0] == name]]
    ]
    if any(not row.exact for row in rows):
        lines.append("* something of the row is not published: docs/fused-communication-moe-attention.md")
    return ["\n".join(lines)]
