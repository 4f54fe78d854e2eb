"""Predictions beside measured latencies: the best over a space against a library kernel, shape by shape.

Beside the model stands a roofline with three constants fitted to the same table's part `fit`. The packaged sample
(studies/measured/README.md) holds bf16 GEMMs on A100, H100, H200 and B200; --table takes your own Parquet or CSV with
the columns system, m, n, k, latency_us and, to fit the roofline on other rows than those judged, part. A column dtype
says what other rows than bf16 are. Intervals resample whole (n, k) pairs: rows of a pair are correlated.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..content.files import home_expanded
from ..errors import UserError, unknown
from .options import add_output, say_of
from .validation_options import add_table_gpus, gpu_files

if TYPE_CHECKING:
    import pandas as pd

    from ..validation.validate import GpuValidation

AXES = ("gpu", "latency", "class", "dtype")
DEFAULT_CUTS = ("latency", "class", "dtype", "gpu,latency", "gpu,class")  # what --json holds unless --by says otherwise
ENDINGS = (".parquet", ".csv")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    add_table_gpus(parser)
    parser.add_argument(
        "--table", metavar="FILE", help="measured latencies, a file or a packaged table; default: the bf16 sample"
    )
    parser.add_argument("--part", default="check", help="which part of the table is judged (default: check)")
    parser.add_argument(
        "--same-split", action="store_true", help="give --table the parts that the packaged sample's (n, k) pairs have"
    )
    parser.add_argument("--dtype", action="append", help="only rows of this data type (may be repeated)")
    parser.add_argument("--source", help="only rows of this source, where the table has a column source")
    parser.add_argument("--preset", default="library", help="sub-space whose best is taken (default: library)")
    parser.add_argument("--rows", type=int, metavar="N", help="judge at most N rows a GPU and data type")
    parser.add_argument(
        "--by", action="append", metavar="AXIS[,AXIS]", help=f"all metrics, broken down by {', '.join(AXES)}"
    )
    parser.add_argument(
        "--speedup", metavar="GPU:GPU", help="predicted against measured speed-up, e.g. h100_sxm:h200_sxm"
    )
    parser.add_argument("--figure", metavar="FILE", help="predicted over measured, a panel a GPU: .png, .svg or .pdf")
    parser.add_argument("--out", metavar="FILE", help="the rows with their predictions: .parquet or .csv")
    add_output(parser)


def run(arguments: argparse.Namespace) -> int:
    """Validates; prints the answer first: a line a GPU, then by latency and by shape class."""
    cuts = [_axes(text) for text in arguments.by or ()]
    out = _checked_out(arguments.out)
    files = gpu_files(arguments)
    if arguments.speedup is not None:
        return _speedup(arguments, files, out)
    from ..figure_file import check_figure_path
    from ..platform import configure_jax
    from ..validation.error_figure import draw_errors
    from ..validation.validate import all_rows, validate_gemm
    from . import validation_text
    from .show import print_json

    figure = check_figure_path(arguments.figure) if arguments.figure is not None else None
    configure_jax()
    results = validate_gemm(
        files,
        arguments.table,
        arguments.part,
        arguments.preset,
        arguments.rows,
        dtypes=arguments.dtype,
        source=arguments.source,
        same_split=arguments.same_split,
        progress=say_of(arguments),
    )
    if figure is not None:
        draw_errors(results, figure)
    if out is not None:
        _write(all_rows(results), out)
    if arguments.json:
        print_json(_document(arguments, results, cuts or [_axes(text) for text in DEFAULT_CUTS]))
        return 0
    asked = {"part": arguments.part, "preset": arguments.preset}
    if cuts:
        print("\n\n".join(validation_text.detail(results, cut, **asked) for cut in cuts))
    else:
        print(validation_text.summary(results, **asked))
    for what, path in (("figure", figure), ("rows", out)):
        if path is not None:
            print(f"{what}: {path}")
    return 0


def _document(arguments: argparse.Namespace, results: "Sequence[GpuValidation]", cuts: list[list[str]]) -> dict:
    from dataclasses import asdict

    from ..validation.error_tables import breakdown, errors_of, mean_of_gpus, pooled_bias, source_spread
    from ..validation.latency_errors import DRAWS, LEVEL, SEED
    from ..validation.validate import all_rows

    rows = all_rows(results)
    return {
        "part": arguments.part,
        "preset": arguments.preset,
        "unit": "per cent of the measured latency",
        "bootstrap": {"resampled": "(n, k) pairs", "draws": DRAWS, "level": LEVEL, "seed": SEED},
        "gpus": [result.to_dict() for result in results],
        "pooled": {method: found.to_dict() for method, found in errors_of(rows).items()},
        "mean_of_gpus": {
            dtype: {method: asdict(mean) for method, mean in found.items()}
            for dtype, found in mean_of_gpus(rows).items()
        },
        "pooled_bias": [asdict(found) for found in pooled_bias(rows)],
        "source_spread": [found.to_dict() for found in source_spread(rows)],
        "by": {",".join(cut): [cell.to_dict() for cell in breakdown(rows, cut)] for cut in cuts},
    }


def _speedup(arguments: argparse.Namespace, files: dict[str, str] | None, out: Path | None) -> int:
    for option in ("by", "figure"):
        if getattr(arguments, option):
            raise UserError(f"--{option} does not go with --speedup: ask twice")
    base, _, other = arguments.speedup.partition(":")
    if not base or not other or ":" in other:
        raise UserError(f"--speedup {arguments.speedup!r} names two GPUs of the table, e.g. h100_sxm:h200_sxm")
    from ..platform import configure_jax
    from ..validation.speedup import speedup_gemm
    from . import validation_text
    from .show import print_json

    configure_jax()
    found = speedup_gemm(
        base,
        other,
        arguments.table,
        arguments.part,
        arguments.preset,
        arguments.rows,
        files,
        dtypes=arguments.dtype,
        source=arguments.source,
        same_split=arguments.same_split,
        progress=say_of(arguments),
    )
    if out is not None:
        _write(found.rows, out)
    if arguments.json:
        print_json({"part": arguments.part, "preset": arguments.preset, "speedup": found.to_dict()})
        return 0
    print(validation_text.speedup(found, part=arguments.part, preset=arguments.preset))
    if out is not None:
        print(f"rows: {out}")
    return 0


def _axes(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in AXES:
            raise unknown("axis of --by", name, AXES)
    return list(dict.fromkeys(names))


def _checked_out(given: str | None) -> Path | None:
    if given is None:
        return None
    path = home_expanded(given)
    if path.suffix not in ENDINGS:
        raise UserError(f"--out writes {' or '.join(ENDINGS)}, not {path.suffix or 'nothing'!r}: {given}")
    if not path.absolute().parent.is_dir():
        raise UserError(f"no folder {path.absolute().parent} for the rows; make it first")
    return path


def _write(rows: "pd.DataFrame", path: Path) -> None:
    if path.suffix == ".csv":
        rows.to_csv(path, index=False)
    else:
        rows.to_parquet(path.absolute(), index=False)
