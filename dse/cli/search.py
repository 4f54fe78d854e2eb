"""Samples schedules with Optuna where a space is too large to sweep; numbers of the GPU may be chosen with them.

  dse search gemm --shape 8192x8192x8192 --trials 500 --sampler tpe --seed 0
  dse search gemm --shape 8192x8192x8192 --trials 500 --sampler nsga2 --objectives latency_s,energy_j
      --gpu-axis l2_capacity_bytes=3e7:2e8:log --gpu-axis sm_count=108,132,160

A --gpu-axis is FROM:TO, FROM:TO:log or a list of values, in the field's unit (dse gpus NAME) or as factors of what the
GPU has (l2_capacity=1x:2x); fields bring along what belongs to them, as with --set.
"""

import argparse
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import UserError
from . import EXIT_INTERRUPTED
from .options import add_output, add_question, add_space, kernel_help, objectives, positive, refinements

if TYPE_CHECKING:
    from ..search import SearchResult


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument("kernel", nargs="?", default="gemm", help=kernel_help())
    add_question(parser)
    add_space(parser)
    parser.set_defaults(objectives="latency_s")
    group = parser.add_argument_group("the search")
    group.add_argument("--trials", type=positive, default=500, metavar="N", help="how many candidates (default: 500)")
    group.add_argument("--sampler", default="tpe", help="tpe (default), nsga2 or random")
    group.add_argument("--seed", type=int, default=0, help="of the sampler (default: 0)")
    group.add_argument("--gpu-axis", action="append", default=[], metavar="FIELD=FROM:TO", help="see above")
    group.add_argument("--out", metavar="FILE", help="write every trial to FILE.parquet or FILE.csv")
    add_output(parser)


def run(arguments: argparse.Namespace) -> int:
    """Searches and prints the best of what was tried, and the front for several objectives."""
    from ..api import search
    from ..progress import make_reporter
    from ..search import optuna  # noqa: F401  imported before `stoppable`: an import cut by Ctrl-C is not undone
    from .interrupt import stoppable
    from .show import print_json

    if arguments.out and Path(arguments.out).suffix not in (".parquet", ".csv"):
        raise UserError(f"--out {arguments.out}: end the name in .parquet or .csv")
    with stoppable():
        result = search(
            shape=arguments.shape,
            dtype=arguments.dtype,
            gpu=arguments.gpu,
            trials=arguments.trials,
            sampler=arguments.sampler,
            seed=arguments.seed,
            gpu_axes=dict(_gpu_axis(text) for text in arguments.gpu_axis),
            space=arguments.space,
            preset=arguments.preset,
            axes=arguments.axis,
            objectives=objectives(arguments.objectives),
            top=arguments.top,
            progress=make_reporter("quiet" if arguments.quiet else "auto"),
            **refinements(arguments),
        )
    if arguments.out:
        _write(Path(arguments.out), result, shlex.join(["dse", *arguments.words]))
    if arguments.json:
        print_json(_as_dict(result))
    else:
        print(_text(result))
    if result.incomplete:
        print(f"dse: interrupted after {len(result.trials)} trials", file=sys.stderr)
    return EXIT_INTERRUPTED if result.incomplete else 0


def _gpu_axis(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    parts = value.split(":")
    try:
        if not equals or not name:
            raise ValueError
        if len(parts) == 1:
            return name, [_value(entry) for entry in value.split(",")]
        return name, (_value(parts[0]), _value(parts[1]), *parts[2:])
    except ValueError:
        raise UserError(f"--gpu-axis {text}: write FIELD=FROM:TO, FIELD=FROM:TO:log or FIELD=VALUE,VALUE") from None


def _value(text: str) -> float | str:
    from ..content.overrides import factor_of

    return float(text) if factor_of(text) is None else text


def _text(result: "SearchResult") -> str:
    from ..kernels.registry import get_kernel
    from ..text import what_if_lines
    from .show import schedule_rows

    job = result.job
    kernel = job.space.kernel
    gpu = [name for name in result.trials.columns if str(name).startswith("gpu.")]
    lines = [
        f"{get_kernel(kernel).title} {job.problem_name} on {job.gpu_name}, space {job.space.name}: "
        f"{job.space.size:,} points",
        *what_if_lines(job.gpu_changes, job.clock),
        f"{len(result.trials):,} trials with {result.sampler}, seed {result.seed}: {result.feasible:,} can run, "
        f"{result.seconds:.1f} s",
        "",
    ]
    if not len(result.best):
        return "\n".join([*lines, "no trial can run: restrict the space, or try more"])
    lines += [f"the best {len(result.best)} by {job.rank_by}", schedule_rows(result.best, gpu, kernel=kernel)]
    if len(job.objectives) > 1:
        more = [name for name in job.objectives if name not in ("latency_s", "ddr_bytes")]
        lines += ["", f"front of the trials over {', '.join(job.objectives)}"]
        lines += [schedule_rows(result.front, [*more, *gpu], kernel=kernel)]
    lines.append("\na search samples: the best may have been missed; dse sweep looks at every schedule")
    return "\n".join(lines)


def _as_dict(result: "SearchResult") -> dict[str, Any]:
    return {
        "kernel": result.job.space.kernel,
        "shape": result.job.problem_name,
        "gpu": result.job.gpu_name,
        "gpu_changes": list(result.job.gpu_changes),
        "clock": result.job.clock,
        "space": result.job.space.name,
        "objectives": list(result.job.objectives),
        "sampler": result.sampler,
        "seed": result.seed,
        "trials": len(result.trials),
        "feasible": result.feasible,
        "seconds": result.seconds,
        "incomplete": result.incomplete,
        "best": result.best,
        "front": result.front,
    }


def _write(path: Path, result: "SearchResult", command_line: str) -> None:
    from ..provenance import provenance
    from ..store import as_table, write_rows

    trials = result.trials
    if path.suffix == ".parquet":
        columns = {str(name): trials[name].to_numpy() for name in trials}
        made = provenance(result.job, command_line) | {"sampler": result.sampler, "seed": result.seed}
        space = result.job.space
        write_rows(path, as_table(columns, space.size > 2**64, space.kernel), made | {"trials": len(trials)})
        return
    try:
        trials.to_csv(path, index=False)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror or error}; choose another with --out") from None
