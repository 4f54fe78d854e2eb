"""Evaluates every schedule of a space and keeps the best ones and the exact front.

dse sweep gemm --shape 8192x8192x8192 --dtype bf16 --gpu h200_sxm
dse sweep gemm --shape 4096x4096x4096 --preset quick --axis tile_m=64,128 --set l2_capacity=2x
dse sweep gemm --shapes shapes.csv --preset library --out runs/mine
dse sweep sharding --model llama3_70b --gpus 16      layouts of a whole model over GPUs; dse sweep sharding --help
dse sweep KERNEL --help                     the shape's grammar and the choices of one kernel
"""

import argparse
import shlex
import sys
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import UserError
from . import EXIT_INTERRUPTED, sweep_sharding
from .options import (
    add_output,
    add_question,
    add_space,
    comma_names,
    kernel_help,
    positive,
    progress_of,
    question,
    say_of,
    shape_word,
)

if TYPE_CHECKING:
    from ..question import Question
    from ..result import SweepResult

SHARDING = "sharding"  # layouts of a model, in place of a kernel's schedules


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    if tuple(getattr(parser, "words", ()))[:1] == (SHARDING,):
        return sweep_sharding.add_arguments(parser)
    parser.add_argument("kernel", nargs="?", default="gemm", help=f"{kernel_help()}; or {SHARDING}: layouts of a model")
    add_question(parser, many=True)
    parser.add_argument(
        "--shapes", metavar="FILE.csv",
        help="many shapes: columns m,n,k[,batch][,name][,dtype]; of other kernels shape[,name][,dtype][,CHOICE]",
    )  # fmt: skip
    add_space(parser)
    group = parser.add_argument_group("the run and its files")
    group.add_argument("--out", metavar="DIR", help="folder of the run (default: runs/<kernel>-<gpu>-<shape>-<time>)")
    group.add_argument("--keep", default="best", help="best (default), or all: every row to Parquet")
    group.add_argument(
        "--columns", metavar="NAMES", help="with --keep all, the columns to write: latency_s,reason,... (default: all)"
    )
    group.add_argument(
        "--prune", action="store_true",
        help="skip blocks whose lower bounds cannot enter the best or the front: the same answer, sooner",
    )  # fmt: skip
    add_executor(group)
    group.add_argument("--resume", action="store_true", help=argparse.SUPPRESS)  # what --out holds is gone on with
    group.add_argument("--overwrite", action="store_true", help="replace the run in --out")
    add_output(parser)


def _run_sharding(arguments: argparse.Namespace) -> int:
    if not hasattr(arguments, "model"):
        raise UserError(
            f"{SHARDING} stands first: dse sweep {SHARDING} --model NAME --gpus N; see dse sweep {SHARDING} --help"
        )
    return sweep_sharding.run(arguments)


def add_executor(group: Any) -> None:
    """--executor, --address, --workers, --mix-devices."""
    group.add_argument(
        "--executor", default="auto",
        help="serial: this process; ray: a local Ray, or a cluster; auto (default): ray where it is sooner done",
    )  # fmt: skip
    group.add_argument(
        "--address", metavar="HOST:PORT", help="of a Ray cluster's head, or auto (default: RAY_ADDRESS, or a local Ray)"
    )
    group.add_argument("--workers", type=positive, metavar="N", help="how many at once (default: one a core or GPU)")
    group.add_argument(
        "--mix-devices", action="store_true", help="let processors or GPUs of several kinds contribute (values to 1e-5)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Sweeps one shape or many and prints what was found; exit code 1 where nothing can run for one of them."""
    from ..api import shape_rows
    from ..content.files import home_expanded
    from ..kernels.registry import get_kernel

    if arguments.kernel == SHARDING:
        return _run_sharding(arguments)
    get_kernel(arguments.kernel)
    if bool(arguments.shape) == bool(arguments.shapes):
        raise UserError(f"give the problem as --shape {shape_word(arguments.kernel)}, or many as --shapes FILE.csv")
    if arguments.out is not None and not arguments.out.strip():
        raise UserError(f"--out {arguments.out!r} is empty: name a folder, or leave it out for one below runs/")
    if arguments.resume and arguments.overwrite:
        raise UserError("--resume goes on with the run in --out, --overwrite replaces it: give one of the two")
    rows = shape_rows(arguments.shapes or arguments.shape, arguments.kernel)
    asked = [question(arguments, row.shape, row.dtype, row.choices) for row in rows]
    root = home_expanded(arguments.out) if arguments.out else _default_folder(arguments, asked)
    if len(rows) == 1 and not arguments.shapes:
        result = _sweep(arguments, asked[0], root)
        _print_one(arguments, asked[0], result)
        return EXIT_INTERRUPTED if result.incomplete else int(not len(result.top))
    return _sweep_many(arguments, [row.name for row in rows], asked, root)


def _sweep(arguments: argparse.Namespace, asked: "Question", folder: Path, root: Path | None = None) -> "SweepResult":
    from ..api import make_job, run_job
    from ..executors import make_executor
    from ..row_layout import with_columns
    from .interrupt import Watched, keeps

    job = make_job(
        asked,
        arguments.space,
        arguments.preset,
        arguments.axis,
        objectives=comma_names(arguments.objectives),
        top=arguments.top,
        prune=arguments.prune,
    )
    columns = None if arguments.columns is None else comma_names(arguments.columns)
    job = with_columns(job, columns, arguments.keep)
    say = say_of(arguments)
    say("\n".join([asked.title, *asked.what_if, f"space {job.space.name}: {job.space.size:,} points"]))
    executor = Watched(make_executor(arguments.executor, arguments.workers, arguments.address, job))
    how_to_go_on = _how_to_go_on(arguments, root or folder)
    with keeps(executor, folder, how_to_go_on):
        return run_job(
            asked,
            job,
            executor,
            progress_of(arguments),
            out=folder,
            keep=arguments.keep,
            overwrite=arguments.overwrite,
            command_line=how_to_go_on,
            mix_devices=arguments.mix_devices,
            notice=lambda text: say(f"dse: {text}"),
        )


def _sweep_many(arguments: argparse.Namespace, names: list[str], asked: "list[Question]", root: Path) -> int:
    from ..api import folder_name
    from ..summary import summary_table
    from .interrupt import message
    from .show import print_json
    from .sweep_text import as_dict, summary_text

    results: list[SweepResult] = []
    folders = [folder_name(name) for name in names]
    repeated = next((name for place, name in enumerate(folders) if name in folders[:place]), None)
    if repeated:
        raise UserError(f"two shapes are called {repeated!r}: give each line of the list its own name")
    for one, folder in zip(asked, folders, strict=True):
        results.append(_sweep(arguments, one, root / folder, root))
        if results[-1].incomplete:
            break
    summary = summary_table(zip(names, results, strict=False))
    summary.to_csv(root / "summary.csv", index=False)
    if arguments.json:
        print_json(
            {
                "summary": summary.astype(object).where(summary.notna(), None),
                "results": [as_dict(result) for result in results],
                "folder": str(root),
            }
        )
    else:
        print("\n".join([*asked[0].what_if, summary_text(summary, arguments.kernel)]))
        print(f"\neach shape has its folder in {root}, the table above is {root / 'summary.csv'}")
    stopped = results[-1].incomplete
    if stopped:
        print(message(root, _how_to_go_on(arguments, root)), file=sys.stderr)
    return EXIT_INTERRUPTED if stopped else int(not all(len(result.top) for result in results))


def _print_one(arguments: argparse.Namespace, asked: "Question", result: "SweepResult") -> None:
    from .interrupt import message
    from .show import print_json
    from .sweep_text import as_dict, result_text

    if arguments.json:
        print_json(as_dict(result))
    else:
        print(result_text(asked.title, result))
    if result.incomplete and result.folder:
        print(message(Path(result.folder), _how_to_go_on(arguments, Path(result.folder))), file=sys.stderr)
    elif result.incomplete:  # what is in --out was to be overwritten, and is there still
        print(message(None, shlex.join(["dse", *arguments.words])), file=sys.stderr)


def _default_folder(arguments: argparse.Namespace, asked: "list[Question]") -> Path:
    from ..api import folder_name

    shape = folder_name(asked[0].problem.shape) if len(asked) == 1 else f"{len(asked)}shapes"
    stamp = datetime.now().strftime("%Y%m%d-%H%M%S")
    return Path("runs") / f"{arguments.kernel}-{asked[0].gpu.name}-{shape}-{stamp}"


def _how_to_go_on(arguments: argparse.Namespace, folder: Path) -> str:
    words = [word for word in arguments.words if word not in ("--resume", "--overwrite")]
    if arguments.out is None:
        words += ["--out", str(folder)]
    return shlex.join(["dse", *words])
