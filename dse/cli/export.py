"""A run's schedules for the tools that run them.

  dse export runs/gemm-... --to triton -o configs.py       lists of triton.Config, with predicted latencies
  dse export runs/gemm-... --to cutlass --what front       a script of cutlass_profiler calls with kernel filters

What the target cannot express is left out and counted. Where the best that the run kept are too few for --count, the
front goes on, by latency. For more that the target can express, sweep with --preset triton or cutlass.
"""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import UserError, unknown
from .options import positive

if TYPE_CHECKING:
    import pandas as pd

    from ..export import Entry, Exported
    from ..runs import OpenRun

TARGETS = ("triton", "cutlass")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument("run", metavar="RUN", help="folder of a sweep")
    parser.add_argument("--to", required=True, help="triton or cutlass")
    parser.add_argument("--what", default="top", help="top (default) or front")
    parser.add_argument("--count", type=positive, metavar="K", help="the first K that can be expressed (default: all)")
    parser.add_argument("-o", "--output", metavar="FILE", help="default: standard output")
    parser.add_argument("--json", action="store_true", help="what was written and left out, as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Writes the export; exit code 1 where the target can express none of the schedules."""
    from ..runs import open_run
    from .show import print_json

    if arguments.to not in TARGETS:
        raise unknown("target", arguments.to, TARGETS)
    if arguments.what not in ("top", "front"):
        raise unknown("table", arguments.what, ("top", "front"))
    opened = open_run(arguments.run)
    exported = _export(arguments.to, opened, arguments.what, arguments.count)
    if arguments.output:
        _write(Path(arguments.output), exported.text)
    if arguments.json:
        about = {"written": exported.written, "from_front": exported.from_front, "skipped": dict(exported.skipped)}
        about |= {"file": arguments.output}
        print_json(about if arguments.output else {**about, "text": exported.text})
    elif not arguments.output:
        sys.stdout.write(exported.text)
    print(f"dse: {exported.summary}", file=sys.stderr)
    return 0 if exported.written else 1


def _entries(table: "pd.DataFrame") -> "list[Entry]":
    from ..export import Entry
    from ..schedule_text import FIELDS

    return [
        Entry(
            schedule={name: int(row[name]) for name in FIELDS},
            latency_s=float(row["latency_s"]),
            tflop_per_s=float(row["flop"]) / float(row["latency_s"]) / 1e12,
            bound=str(row["bound_name"]),
            label=f"index {row['index']}",
        )
        for row in table.to_dict("records")
    ]


def _export(target: str, opened: "OpenRun", what: str, count: int | None) -> "Exported":
    from ..export import export_cutlass, export_triton
    from ..text import what_if_lines
    from ..triton_config import TritonGpu

    job = opened.job
    family = job.space.family
    if what == "top":
        entries, fallback = _entries(opened.top), _entries(opened.front.sort_values("latency_s", kind="stable"))
    else:
        entries, fallback = _entries(opened.front), []
    what_if = what_if_lines(job.gpu_changes, job.clock)
    options: dict[str, Any] = {"what_if": what_if, "count": count, "fallback": fallback}
    if target == "triton":
        gpu = TritonGpu(opened.families, int(job.gpu.sm_count))
        return export_triton(entries, job.problem, family, gpu, job.gpu_name, **options)
    return export_cutlass(entries, job.problem, family, opened.accumulator, job.gpu_name, **options)


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}; choose another with -o") from None
