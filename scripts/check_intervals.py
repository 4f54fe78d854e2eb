"""Coverage of the 90 % intervals, on shapes and on whole GPUs that were left out.

    python scripts/check_intervals.py --zero-shot h100_sxm=H100.toml --zero-shot h200_sxm=H200.toml ...
    python scripts/check_intervals.py --part report --zero-shot ...      # once, for a final statement

Shapes: the (n, k) of `fit` and `check` are dealt into two halves, several times; the table of residuals is made of one
half and held against the rows of `check` in the other; and a table of `fit` alone is held against all of `check`. With
--part report a table of `fit` and `check` is held against `report`.

Kinds: a whole shape class, or all shapes of one latency bucket, is left out; the interval is that of a problem outside
of what was measured.

GPUs: what is known of a GPU is taken out of the table, the GPU is predicted with a file whose numbers were not fitted
on it (--zero-shot), and its intervals are those of a GPU that was never measured.

Exits with 1 where a bar is missed.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import pandas as pd
from make_residuals import PARTS, Residuals, add_inputs, measured_residuals, zero_shot_files

from dse.errors import UserError
from dse.platform import configure_jax
from dse.text import table
from dse.trust.residuals import ResidualTable
from dse.validation.coverage import (
    Coverage,
    coverage,
    cross_validated,
    with_intervals,
    with_intervals_elsewhere,
    with_intervals_of_other_kinds,
)
from dse.validation.residual_table import build_residuals

SHAPES_BAR = (0.87, 0.93)
GPU_BAR = 0.80
BREAKDOWNS = (["gpu"], ["dtype"], ["latency"], ["class"])


def main(words: list[str] | None = None) -> int:
    """Prints coverage.

    Returns:
        0; 1 where a bar is missed; 2 for bad input.
    """
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_inputs(parser)
    parser.add_argument("--part", choices=("check", "report"), default="check", help="what is judged (default: check)")
    arguments = parser.parse_args(words)
    try:
        files = zero_shot_files(arguments.zero_shot)
        configure_jax()
        parts = PARTS if arguments.part == "check" else (*PARTS, arguments.part)
        rows = measured_residuals(files, parts, arguments.rows)
    except UserError as error:
        print(f"check_intervals: {error}", file=sys.stderr)
        return 2
    shapes = of_shapes(rows, arguments.part)
    if arguments.part == "check":
        of_kinds(rows)
    gpus = of_gpus(rows, arguments.part)
    return 0 if shapes and gpus else 1


def of_shapes(rows: Residuals, part: str) -> bool:
    """Prints coverage of shapes that were left out; whether it meets its bar."""
    if part == "report":
        judged = with_intervals(built(rows), rows.fitted[rows.fitted["part"] == part])
        title = "shapes of the part report, intervals from fit and check"
    else:
        known = rows.fitted[rows.fitted["part"].isin(PARTS)]
        runs = cross_validated(known, lambda some: build_residuals(some, some.iloc[:0], rows.files), judge=part)
        shares = [coverage(run)[0].covered for run in runs]
        print(f"shapes, deal by deal: {', '.join(f'{share:.1%}' for share in shares)}")
        only_fit = replace(rows, fitted=known[known["part"] == "fit"])
        alone = with_intervals(built(only_fit), known[known["part"] == part])
        print(f"shapes of check, intervals from fit alone: {coverage(alone)[0].covered:.1%}")
        judged = pd.concat(runs, ignore_index=True)
        title = f"shapes of check in the half of the (n, k) that was left out, {len(runs)} deals together"
    print(f"\n{title}\n{text([coverage(judged), *(coverage(judged, by) for by in BREAKDOWNS)])}")
    return verdict("shapes", coverage(judged)[0].covered, *SHAPES_BAR)


def of_kinds(rows: Residuals) -> None:
    """Prints coverage of shape classes and of latency buckets that were left out as wholes; there is no bar for it."""
    known = rows.fitted[rows.fitted["part"].isin(PARTS)]
    for axis in ("class", "latency"):
        judged = with_intervals_of_other_kinds(
            known, lambda some: build_residuals(some, some.iloc[:0], rows.files), axis
        )
        print(f"\neach {axis} left out as a whole, shapes of {' and '.join(PARTS)}\n{text([coverage(judged, [axis])])}")


def of_gpus(rows: Residuals, part: str) -> bool:
    """Prints coverage of GPUs that were left out; whether all meet their bar."""
    judged = with_intervals_elsewhere(built(rows), rows.unfitted[rows.unfitted["part"] == part], rows.unfitted_files)
    print(
        f"\nGPUs left out, shapes of {part}\n{text([coverage(judged, ['gpu']), coverage(judged, ['gpu', 'latency'])])}"
    )
    met = [verdict(at.at["gpu"], at.covered, GPU_BAR) for at in coverage(judged, ["gpu"])]
    return all(met)


def built(rows: Residuals) -> ResidualTable:
    """The table of residuals of the parts that may speak."""
    fitted, unfitted = (some[some["part"].isin(PARTS)] for some in (rows.fitted, rows.unfitted))
    return build_residuals(fitted, unfitted, rows.files)


def text(groups: Sequence[Sequence[Coverage]]) -> str:
    """Coverage as a table."""
    lines = [
        {
            "of": ", ".join(at.at.values()) or "all",
            "rows": str(at.rows),
            "pairs": str(at.pairs),
            "covered": f"{at.covered:.1%}",
            "95 % interval": f"{at.interval[0]:.1%} to {at.interval[1]:.1%}" if at.interval else "",
            "below": f"{at.below:.1%}",
            "above": f"{at.above:.1%}",
            "high / low - 1": f"{at.width:.1%}",
        }
        for group in groups
        for at in group
    ]
    return table(lines, left=("of",))


def verdict(what: str, covered: float, low: float, high: float = 1.0) -> bool:
    """Prints and returns whether coverage lies within a bar."""
    met = low <= covered <= high
    print(f"{'met' if met else 'MISSED'}: {what} {covered:.1%}, bar {low:.0%} to {high:.0%}")
    return met


if __name__ == "__main__":
    sys.exit(main())
