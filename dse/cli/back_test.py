"""What a study with measurements says: predicted speed-ups beside measured ones."""

import argparse
import shlex
from typing import TYPE_CHECKING, Any

from ..text import table
from .options import say_of

if TYPE_CHECKING:
    from ..content.study import Study
    from ..validation.speedup import SpeedUp

SHOWN = 12  # shapes of a pair, evenly through the measured speed-ups


def answer(arguments: argparse.Namespace, study: "Study") -> int:
    """Runs the comparison, writes its folder and prints it."""
    from ..studies.answer_folder import free_folder, new_folder, without_litter
    from ..studies.back_test.files import write_back_test
    from ..studies.back_test.speedups import back_test
    from .interrupt import stoppable
    from .show import print_json

    folder = new_folder(arguments.out or free_folder(study.name), arguments.overwrite)
    with without_litter([folder]), stoppable():
        results = back_test(study, say_of(arguments))
    figure = study.figures and not arguments.no_figure
    write_back_test(study, results, folder, shlex.join(["dse", *arguments.words]), figure)
    if arguments.json:
        print_json({"title": study.title, "folder": str(folder), "speedups": [result.to_dict() for result in results]})
        return 0
    print("\n".join([study.title, study.question]))
    for result in results:
        print("\n" + "\n".join(_lines(result)))
    drawn = ", figure.svg" if figure else ""
    print(f"\nwritten to {folder} (table.parquet with every shape{drawn}, study.toml)")
    return 0


def _lines(result: "SpeedUp") -> list[str]:
    from ..studies.back_test.speedups import as_table

    low, high = result.measured_range
    rows = as_table([result]).sort_values("measured", kind="stable", ignore_index=True)
    errors = ", ".join(f"{name} {found.mape:.1f} %" for name, found in result.errors.items())
    ranks = ", ".join(f"{name} {rank:.2f}" for name, rank in result.spearman.items())
    chosen = (
        [round(at * (len(rows) - 1) / (SHOWN - 1)) for at in range(SHOWN)] if len(rows) > SHOWN else range(len(rows))
    )
    shown = [_row(row) for row in rows.iloc[list(dict.fromkeys(chosen))].to_dict("records")]
    return [
        f"{result.base} -> {result.other}: {len(rows)} shapes, measured speed-up {result.measured_median:.3f} "
        f"(90 % between {low:.3f} and {high:.3f})",
        f"mean error of the predicted speed-up: {errors}",
        f"rank correlation with the measured ones: {ranks}",
        "",
        _grouped(result, "latency_bucket", "on the first, us"),
        "",
        _grouped(result, "shape_class", "shapes"),
        "",
        "shapes, evenly through the measured speed-ups",
        table(shown),
    ]


def _grouped(result: "SpeedUp", by: str, title: str) -> str:
    from ..studies.back_test.speedups import grouped

    rows = [
        {
            title: str(row[by]),
            "count": f"{row['shapes']}",
            "measured": f"{row['measured']:.3f}",
            "predicted": f"{row['predicted']:.3f}",
            "mean error %": f"{row['mean_error_percent']:.1f}",
            "bias %": f"{row['bias_percent']:+.1f}",
        }
        for row in grouped(result, by).to_dict("records")
    ]
    return table(rows, left=(title,))


def _row(row: dict[Any, Any]) -> dict[str, str]:
    return {
        "shape": f"{row['m']}x{row['n']}x{row['k']}",
        "us": str(row["latency_bucket"]),
        "measured": f"{row['measured']:.3f}",
        "predicted": f"{row['model']:.3f}",
        "error %": f"{100 * row['error']:+.1f}",
    }
