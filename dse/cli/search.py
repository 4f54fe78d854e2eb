"""Samples schedules where a space is too large to sweep; numbers of the GPU may be chosen with them, or alone.

  dse search gemm --shape 8192x8192x8192 --trials 1000 --seed 0
  dse search gemm --shape 8192x8192x8192 --trials 500 --objectives latency_s,energy_j
      --gpu-axis l2_capacity_bytes=3e7:2e8:log --gpu-axis sm_count=108,132,160
  dse search gemm --shape 8192x8192x8192 --trials 400 --inner shortlist --preset quick
      --gpu-axis l2_capacity=0.5x:2x:log --gpu-axis ddr_bytes_per_s=0.5x:2x:log
      --objectives latency_s,area_mm2 --at-most area_mm2=861
  dse search gemm --shape 8192x8192x8192 --trials 2000 --storage search.journal     # and again, or in other shells

A --gpu-axis is FROM:TO, FROM:TO:log or a list of values, in the field's unit (dse gpus NAME) or as factors of what the
GPU has (l2_capacity=1x:2x); fields bring along what belongs to them, as with --set. docs/search.md says more.
"""

import argparse
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import UserError
from . import EXIT_INTERRUPTED
from .options import add_output, add_question, add_space, comma_names, kernel_help, positive, progress_of, refinements

if TYPE_CHECKING:
    from ..search import SearchResult


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    from ..search.samplers import SAMPLERS

    parser.add_argument("kernel", nargs="?", default="gemm", help=kernel_help())
    add_question(parser, many=True)
    add_space(parser)
    parser.set_defaults(objectives="latency_s")
    group = parser.add_argument_group("the search")
    group.add_argument("--trials", type=positive, default=500, metavar="N", help="how many candidates (default: 500)")
    known = "; ".join(f"{name}: {own.text}" for name, own in SAMPLERS.items())
    group.add_argument(
        "--sampler", default="auto",
        help=f"auto (default: gradient with --inner, else local; of a file's trials the one that drew them); {known}",
    )  # fmt: skip
    group.add_argument("--seed", type=int, default=0, help="of the sampler (default: 0)")
    group.add_argument(
        "--batch", type=positive, metavar="N", help="candidates at once (default: 32, or 8 with --inner)"
    )
    group.add_argument("--gpu-axis", action="append", default=[], metavar="FIELD=FROM:TO", help="see above")
    group.add_argument(
        "--inner",
        metavar="sweep|shortlist",
        help="a trial chooses a GPU, whose schedules are all swept; or a list of good ones of them",
    )
    group.add_argument(
        "--at-most", action="append", default=[], metavar="NAME=VALUE",
        help="a limit: a cost, or area_mm2 and power_w of the GPU (assumed, first order), which may be objectives too",
    )  # fmt: skip
    group.add_argument(
        "--first", action="append", default=[], metavar="SCHEDULE",
        help="try it first: a schedule in words, an index, preset:NAME (its fastest), or a run folder (its best)",
    )  # fmt: skip
    group.add_argument(
        "--storage", metavar="FILE", help="keep the trials in an Optuna journal; goes on with what it has"
    )
    group.add_argument("--study-name", metavar="NAME", help="of the study in it (default: kernel, shape and GPU)")
    group.add_argument(
        "--reference", default="auto", metavar="FOLDER|none",
        help="compare with a finished sweep (default: sweep the space where that takes a second)",
    )  # fmt: skip
    group.add_argument("--out", metavar="FILE", help="write every trial to FILE.parquet or FILE.csv")
    add_output(parser)


def run(arguments: argparse.Namespace) -> int:
    """Searches and prints the best of what was tried, and the front for several objectives; exit code 1 where there is
    none."""
    from ..search import optuna, search  # noqa: F401  optuna before `stoppable`: an import cut by Ctrl-C is not undone
    from ..studies.gpu_quantities import gpu_quantities
    from .interrupt import stoppable
    from .show import print_json

    if arguments.out:
        _check_out(Path(arguments.out))
    if not arguments.shape:
        raise UserError("--shape is missing: say what to search for, e.g. --shape 8192x8192x8192")
    with stoppable():
        result = search(
            shape=list(arguments.shape),
            dtype=arguments.dtype,
            gpu=arguments.gpu,
            trials=arguments.trials,
            sampler=arguments.sampler,
            seed=arguments.seed,
            batch=arguments.batch,
            gpu_axes=_gpu_axes(arguments.gpu_axis),
            space=arguments.space,
            preset=arguments.preset,
            axes=arguments.axis,
            objectives=comma_names(arguments.objectives),
            quantities=gpu_quantities(),
            limits=_limits(arguments.at_most),
            inner=arguments.inner,
            first=arguments.first,
            storage=arguments.storage,
            study_name=arguments.study_name,
            reference=None if arguments.reference == "none" else arguments.reference,
            top=arguments.top,
            progress=progress_of(arguments),
            **refinements(arguments),
        )
    if arguments.json:
        from .search_text import as_dict

        print_json(as_dict(result))
    else:
        from .search_next import next_command
        from .search_text import as_text

        print(as_text(result, arguments.trials))
        following = next_command(arguments, result)
        if following:
            print(f"next: {following}")
    if arguments.out:  # after the answer: it stands there even where the disk is full
        _write(Path(arguments.out), result, shlex.join(["dse", *arguments.words]))
    if result.incomplete:
        print(f"dse: interrupted after {len(result.trials)} trials", file=sys.stderr)
    return EXIT_INTERRUPTED if result.incomplete else int(not len(result.best))


def _check_out(path: Path) -> None:
    """What can be known before the search: so that it is not for nothing."""
    if path.suffix not in (".parquet", ".csv"):
        raise UserError(f"--out {path}: end the name in .parquet or .csv")
    if not path.expanduser().parent.is_dir():
        raise UserError(f"--out {path}: there is no folder {path.parent}; make it, or choose another")


def _gpu_axes(texts: list[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for text in texts:
        name, wanted = _gpu_axis(text)
        if name in found:
            raise UserError(f"--gpu-axis {name} is given twice: give it once")
        found[name] = wanted
    return found


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


def _limits(texts: list[str]) -> dict[str, float]:
    found: dict[str, float] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        try:
            number = float(value)
        except ValueError:
            equals = ""
        if not equals or not name:
            raise UserError(f"--at-most {text}: write NAME=NUMBER, e.g. --at-most area_mm2=861")
        if name in found:
            raise UserError(f"--at-most {name} is given twice: give it once")
        found[name] = number
    return found


def _write(path: Path, result: "SearchResult", command_line: str) -> None:
    from ..provenance import provenance
    from ..store import as_table, write_rows

    trials = result.trials
    if path.suffix == ".parquet":
        columns = {str(name): trials[name].to_numpy() for name in trials}
        columns = {name: own.astype(int) if own.dtype == bool else own for name, own in columns.items()}
        made = provenance(result.job, command_line) | {"sampler": result.sampler, "seed": result.seed}
        space = result.job.space
        write_rows(path, as_table(columns, space.size > 2**64, space.kernel), made | {"trials": len(trials)})
        return
    try:
        trials.to_csv(path, index=False)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror or error}; choose another with --out") from None
