"""What if the hardware were different: schedules tuned anew for every machine, beside those of today's kept.

dse whatif --gpu h200_sxm --vary l2_capacity=2x --shapes llama3_70b_prefill
dse whatif --gpu h100_sxm --vary l2_capacity=16e6:512e6:16 --vary ddr_bandwidth=0.5x:4x:8 --shape 8192x8192x8192
dse whatif --gpu b200_sxm --vary sm_count=0.5x,1x,2x --vary l2_bandwidth=1x,2x --grid --front latency_s,area_mm2 \\
    --shapes mine.csv --preset cutlass
dse whatif sharding --model llama3_405b --gpu h100_sxm --gpus 64 --vary fabric.link=2x     a whole model over GPUs

Every schedule of the space is evaluated on every machine. The answer goes to a folder (Parquet, figure, and study.toml,
which `dse study` runs again: edit it for what options cannot say, e.g. a power limit that grows with the SMs).
"""

import argparse
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import UserError
from . import whatif_sharding
from .options import (
    add_question,
    add_schedules,
    comma_names,
    kernel_help,
    overrides,
    progress_of,
    refinements,
    shape_word,
)
from .study_options import add_answer

if TYPE_CHECKING:
    from ..content.study import Study

SHARDING = "sharding"  # layouts of a model, in place of a kernel's schedules


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    if tuple(getattr(parser, "words", ()))[:1] == (SHARDING,):
        return whatif_sharding.add_arguments(parser)
    parser.add_argument("kernel", nargs="?", default="gemm", help=f"{kernel_help()}; or {SHARDING}: layouts of a model")
    add_question(parser, many=True)
    parser.add_argument("--shapes", metavar="NAME|FILE", help="a shape list by name or path: m,n,k[,count][,name]")
    group = parser.add_argument_group("what is varied")
    group.add_argument(
        "--vary", action="append", default=[], metavar="FIELD=VALUES", required=True,
        help="a number of the GPU (dse gpus NAME): l2_capacity=1x,2x  sm_count=66,132  l2_capacity=16e6:512e6:64 "
        "(64 values, each a fixed factor from the last; add :linear for equal steps)",
    )  # fmt: skip
    group.add_argument("--grid", action="store_true", help="every combination (default: one field at a time)")
    group.add_argument(
        "--front", default="", metavar="NAMES",
        help="mark the machines that no other beats: latency_s,area_mm2,power_w,energy_j,tdp_w",
    )  # fmt: skip
    add_schedules(parser)
    add_answer(parser)


def run(arguments: argparse.Namespace) -> int:
    """Answers and prints."""
    if arguments.kernel == SHARDING:
        if not hasattr(arguments, "model"):
            raise UserError(f"{SHARDING} stands first: dse whatif {SHARDING} --model NAME --gpus N (--help says more)")
        return whatif_sharding.run(arguments)
    return answer(arguments, _study(arguments), f"whatif-{Path(arguments.gpu).stem}")


def answer(arguments: argparse.Namespace, study: "Study", name: str) -> int:
    """Runs a study, writes its folder and prints what was found."""
    from dataclasses import replace

    from ..studies.answer_folder import free_folder, new_folder, without_litter
    from ..studies.what_if.files import as_dict, write_answer
    from ..studies.what_if.machines import check_names
    from ..studies.what_if.study import run_study
    from .interrupt import stoppable
    from .show import print_json
    from .what_if_text import answer_text

    root = arguments.out or free_folder(name)
    if arguments.no_figure:
        study = replace(study, figures=False)
    many = len(study.gpus) > 1 and bool(study.axes)
    baselines = study.gpus if many else study.gpus[:1]
    check_names(study.gpus)
    folders = [new_folder(Path(root) / Path(gpu).stem if many else root, arguments.overwrite) for gpu in baselines]
    with without_litter(folders), stoppable():
        answers = run_study(study, progress_of(arguments))
    command_line = shlex.join(["dse", *arguments.words])
    for found, folder in zip(answers, folders, strict=True):
        write_answer(found, folder, command_line)
    if arguments.json:
        content = [as_dict(found) | {"folder": str(folder)} for found, folder in zip(answers, folders, strict=True)]
        print_json(content[0] if len(content) == 1 else content)
        return 0
    for found, folder in zip(answers, folders, strict=True):
        print(answer_text(found))
        drawn = ", figure.svg" if found.curves and study.figures else ""
        print(f"written to {folder} (table.parquet, totals.parquet{drawn}, study.toml to edit and run again)")
    return 0


def _study(arguments: argparse.Namespace) -> "Study":
    from ..content.hardware_axis import parse_vary
    from ..content.study import Study
    from ..restrict import parse_axes

    if bool(arguments.shape) == bool(arguments.shapes):
        form = shape_word(arguments.kernel)
        raise UserError(f"give the problem as --shape {form}, or many as --shapes NAME or FILE.csv")
    refined = refinements(arguments)
    for name in ("overrides", "kernel"):
        refined.pop(name)
    return Study(
        name="whatif",
        gpus=(arguments.gpu,),
        shapes=arguments.shapes or tuple(arguments.shape),
        axes=tuple(parse_vary(text) for text in arguments.vary),
        kernel=arguments.kernel,
        dtype=arguments.dtype,
        combine="grid" if arguments.grid else "each",
        overrides=overrides(arguments.overrides),
        space=arguments.space,
        preset=arguments.preset,
        restrict={name: [str(value) for value in values] for name, values in parse_axes(arguments.axis).items()},
        refinements=refined,
        front=comma_names(arguments.front),
    )
