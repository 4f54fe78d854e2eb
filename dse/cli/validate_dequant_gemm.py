"""Dequantised GEMMs: published times and speed-ups over the 16-bit GEMM, beside predictions of both.

  dse validate dequant_gemm

Nothing is fitted to them. Predictions are the best of the presets that stand for the kernels: `marlin` of the space
dequant_gemm, `library` of gemm.
"""

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..validation.dequant_published import PublishedDequant


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument("--json", action="store_true", help="the answer as JSON on standard output")


def run(arguments: argparse.Namespace) -> int:
    """Validates; prints a table for every published measurement."""
    from ..platform import configure_jax
    from ..validation.dequant_published import published
    from .published import show_published

    configure_jax()
    return show_published(published(), arguments.json, ("error", "speedup_error"), _table)


def _table(rows: "list[PublishedDequant]") -> str:
    from .show import table

    first = rows[0]
    cells = [
        {
            "m": str(row.m),
            "measured us": "" if row.measured_s is None else f"{row.measured_s * 1e6:.1f}",
            "predicted us": f"{row.predicted_s * 1e6:.1f}",
            "error": "" if row.error is None else f"{row.error:+.1%}",
            "speed-up": f"{row.measured_speedup:.2f}",
            "predicted": f"{row.predicted_speedup:.2f}",
            "off": f"{row.speedup_error:+.1%}",
        }
        for row in rows
    ]
    return "\n".join([f"{first.what}, on {first.gpu}", table(cells), f"{first.source}; {first.note}"])
