"""A run's schedules for the tools that run them, each with its predicted latency and what binds it.

  dse export runs/gemm-... --to triton -o configs.py       lists of triton.Config
  dse export runs/gemm-... --to tilelang -o configs.py     a list of dictionaries for tilelang.autotune
  dse export runs/gemm-... --to cutlass --what front       a script of cutlass_profiler calls with kernel filters
  dse export runs/gemm-... --to json | csv                 every field of the schedule, interval and reason
  dse export runs/gemm-... --to triton --distinct tile --count 10      ten different tiles, the best schedule of each

  dse export runs/layouts --to vllm | sglang | trtllm | yaml | json    a layout of dse sweep sharding, ready to launch

What the target cannot express is left out and counted; `dse rank FILE` reads what was written back to the same
schedules. Where the best that the run kept are too few for --count, the front goes on, by latency. For more that the
target can express, sweep with --preset triton (for TileLang add --axis launch=data_parallel:staged) or with --preset
cutlass --axis tile_k=128B, and with --top 1000 for --distinct.
"""

import argparse
import sys

from ..content.files import home_expanded
from ..errors import UserError
from .options import positive


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument("run", metavar="RUN", help="folder of a sweep")
    parser.add_argument(
        "--to",
        required=True,
        help="triton, cutlass, tilelang, json or csv; of layouts vllm, sglang, trtllm, yaml, json",
    )
    parser.add_argument("--what", default="top", help="top (default), of layouts best; or front")
    parser.add_argument(
        "--count", type=positive, metavar="K",
        help="the first K that can be expressed (default: all; of layouts for a framework 1)",
    )  # fmt: skip
    parser.add_argument(
        "--distinct", metavar="WORDS", help="of schedules that agree in these only the best: tile, or tile,stages, ..."
    )
    parser.add_argument("-o", "--output", metavar="FILE", help="default, and -: standard output")
    parser.add_argument("--json", action="store_true", help="what was written and left out, as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Writes the export; exit code 1 where the target can express none of the schedules."""
    from ..export import export_run
    from ..runs import open_run
    from ..studies.layouts.disaggregated_files import is_disaggregated
    from ..studies.layouts.files import is_layout_run
    from .show import print_json

    if arguments.output == "-":
        arguments.output = None
    if is_layout_run(arguments.run) or is_disaggregated(arguments.run):
        return _run_layouts(arguments)
    opened = open_run(arguments.run)
    exported = export_run(opened, arguments.to, arguments.what, arguments.count, arguments.distinct)
    if arguments.output:
        write_export(arguments.output, exported.text)
    if arguments.json:
        about = {"written": exported.written, "from_front": exported.from_front, "repeated": exported.repeated}
        about |= {"skipped": dict(exported.skipped), "file": arguments.output}
        print_json(about if arguments.output else {**about, "text": exported.text})
    elif not arguments.output:
        sys.stdout.write(exported.text)
    print(f"dse: {exported.summary}", file=sys.stderr)
    return 0 if exported.written else 1


def _run_layouts(arguments: argparse.Namespace) -> int:
    """Exit code 1 where the target can express none of the layouts."""
    from ..export.layouts.disaggregated import export_disaggregated
    from ..export.layouts.run import export_layouts
    from ..studies.layouts.disaggregated_files import is_disaggregated, open_disaggregated
    from ..studies.layouts.files import open_layouts
    from .show import print_json

    if arguments.distinct is not None:
        raise UserError(f"--distinct {arguments.distinct} is of schedules; layouts are all different: leave it out")
    what = "best" if arguments.what == "top" else arguments.what
    if is_disaggregated(arguments.run):
        exported = export_disaggregated(open_disaggregated(arguments.run), arguments.to, what, arguments.count)
    else:
        exported = export_layouts(open_layouts(arguments.run), arguments.to, what, arguments.count)
    if arguments.output:
        write_export(arguments.output, exported.text)
    if arguments.json:
        about = {"written": exported.written, "refused": exported.refused, "file": arguments.output}
        print_json(about if arguments.output else {**about, "text": exported.text})
    elif not arguments.output:
        sys.stdout.write(exported.text)
    print(f"dse: {exported.summary}", file=sys.stderr)
    return 0 if exported.written else 1


def write_export(output: str, text: str) -> None:
    """Writes an export.

    Raises:
        UserError: the file cannot be written.
    """
    path = home_expanded(output)
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}; choose another with -o") from None
