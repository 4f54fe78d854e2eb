"""Every layout of a model over GPUs: the best, the exact front of throughput against what a user sees, and why not.

dse sweep sharding --model llama3_405b --gpu h100_sxm --gpus 64 --dtype fp8 --preset plain
dse sweep sharding --model deepseek_v3 --gpus 64 --axis tp=1:8 --axis batch=64:4096 --out runs/v3
dse sweep sharding --model llama3_70b --gpus 16 --disaggregated         prefill and decode on GPUs of their own
dse sweep sharding --model llama3_70b --gpus 8 --preset plain --set fabric.link=2x --tpot-max 0.02

Every kernel of every layout is tuned, once a distinct problem. RUN = the folder of --out: dse report RUN, dse export
RUN --to vllm, dse query RUN. docs/serving.md says what is modelled; without --preset all of the space is enumerated.
"""

import argparse
import shlex
from typing import TYPE_CHECKING, Any

from ..errors import UserError
from .options import add_output, comma_names, positive, progress_of, say_of
from .serving_options import add_axes, add_service, read_axes, service_words
from .serving_progress import one_progress

if TYPE_CHECKING:
    from ..space import Space


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `dse sweep sharding`."""
    parser.description = __doc__
    parser.add_argument("kernel", metavar="sharding", help="layouts of a model in place of a kernel's schedules")
    add_service(parser)
    group = parser.add_argument_group("the layouts")
    group.add_argument("--space", metavar="NAME|FILE", help="of layouts (default: sharding/serving)")
    group.add_argument("--preset", help="plain, decode, prefill (dse spaces); default: every layout")
    add_axes(group)
    group.add_argument(
        "--disaggregated", action="store_true", help="prefill and decode on GPUs of their own, and how many of each"
    )
    group.add_argument(
        "--prefill-axis", action="append", default=[], metavar="NAME=VALUES",
        help="with --disaggregated: as --axis, of the layouts that prefill alone (default: batch=1,2,4,...,64; --axis "
        "batch is that of decode)",
    )  # fmt: skip
    group = parser.add_argument_group("the answer")
    group.add_argument(
        "--objectives", metavar="NAMES",
        help="of the front (default: tokens_per_s_per_gpu,tokens_per_s_per_user; of prefill ttft_s in its place)",
    )  # fmt: skip
    group.add_argument("--top", type=positive, default=10, metavar="N", help="how many of the best (default: 10)")
    group.add_argument("--out", metavar="DIR", help="folder for Parquet, for report, export and query")
    group.add_argument("--overwrite", action="store_true", help="replace the answer in --out")
    add_output(parser)


def run(arguments: argparse.Namespace) -> int:
    """Sweeps and prints; exit code 1 where no layout can run."""
    from ..serving.api import SPACE, layout_space
    from ..serving.asked import GPUS, ask_service
    from .serve_text import head_lines

    words = service_words(arguments)
    service = ask_service(gpus=arguments.gpus or GPUS, **words)
    axes = read_axes(arguments)
    if arguments.disaggregated:
        from .sweep_disaggregated import run_disaggregated

        return run_disaggregated(arguments, service, axes)
    if arguments.prefill_axis:
        raise UserError("--prefill-axis says what prefills alone: give --disaggregated with it")
    space = layout_space(arguments.space or SPACE, arguments.preset, axes)
    say_of(arguments)("\n".join([*head_lines(service), f"space {space.name}: {space.size:,} layouts"]))
    return _sweep(arguments, service, space)


def _sweep(arguments: argparse.Namespace, service: Any, space: "Space") -> int:
    from ..serving.serve import sweep_layouts
    from ..studies.answer_folder import cleared, without_litter
    from ..studies.layouts.files import FILES, layout_folder, write_layouts
    from ..studies.layouts.points import point_parts
    from .interrupt import stoppable
    from .sharding_text import as_dict, result_text
    from .show import print_json

    folder = layout_folder(arguments.out, arguments.overwrite) if arguments.out else None
    steps = service.steps()
    wanted = None if arguments.objectives is None else comma_names(arguments.objectives)
    with without_litter([folder] if folder else []), stoppable():
        with one_progress(progress_of(arguments)) as progress:
            result = sweep_layouts(
                service, space, objectives=wanted, top=arguments.top, kernels=steps.kernels, progress=progress
            )
        parts = point_parts(result, steps)
        if folder:
            cleared(folder, FILES)
            write_layouts(result, space, parts, folder, shlex.join(["dse", *arguments.words]))
    if arguments.json:
        print_json(as_dict(result, space, parts, folder))
    else:
        print(result_text(result, space, parts, folder))
    return int(not len(result.best))
