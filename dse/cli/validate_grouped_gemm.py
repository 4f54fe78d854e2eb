"""Grouped GEMMs: published times beside predictions.

  dse validate grouped_gemm

Nothing is fitted to them. Predictions are the best of the preset that stands for the kernels: `deepgemm` of the space
grouped_gemm. The times are kernel times of a profiler: `predicted` has no launch, `with launch` is the error with it.
"""

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..validation.grouped_published import PublishedGrouped


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument("--json", action="store_true", help="the answer as JSON on standard output")


def run(arguments: argparse.Namespace) -> int:
    """Validates; prints a table for every published measurement, and the mean errors."""
    from ..platform import configure_jax
    from ..validation.grouped_published import published
    from .published import show_published

    configure_jax()
    return show_published(published(), arguments.json, ("error", "error_with_launch"), _table, _below)


def _table(rows: "list[PublishedGrouped]") -> str:
    from .show import table

    first = rows[0]
    cells = [
        {
            "groups": str(row.groups),
            "m": str(row.m),
            "n": str(row.n),
            "k": str(row.k),
            "TFLOP/s": f"{row.published_flop_per_s / 1e12:.0f}",
            "measured us": f"{row.measured_s * 1e6:.1f}",
            "predicted us": f"{row.predicted_s * 1e6:.1f}",
            "error": f"{row.error:+.1%}",
            "with launch": f"{row.error_with_launch:+.1%}",
        }
        for row in rows
    ]
    return "\n".join([f"{first.what}, on {first.gpu}", table(cells)])


def _below(rows: "Sequence[PublishedGrouped]") -> list[str]:
    means = [
        f"all {len(rows)} rows: {_mean([row.error for row in rows])}",
        f"with the launch: {_mean([row.error_with_launch for row in rows])}",
    ]
    sources = dict.fromkeys(f"{row.source}; measured on {row.note}" for row in rows)
    return ["\n".join(means), "\n".join(sources)]


def _mean(errors: Sequence[float]) -> str:
    count = len(errors)
    return f"mean absolute error {sum(map(abs, errors)) / count:.1%}, bias {sum(errors) / count:+.1%}"
