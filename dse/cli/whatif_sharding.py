"""Other machines for a whole model: the best layout of each, kernels tuned anew, beside today's way to share the GPUs.

dse whatif sharding --model llama3_405b --gpu h100_sxm --gpus 64 --dtype fp8 --preset plain --vary fabric.link=0.5x,2x
dse whatif sharding --model llama3_70b --gpus 8 --preset plain --vary l2_capacity=2x --vary engine.step_s=0x
dse whatif sharding --model deepseek_v3 --gpus 64 --preset plain --vary fabric.1:link=2x,4x --users 20,50

The answer goes to a folder (Parquet, figure, and study.toml, which dse study runs again).
"""

import argparse
from typing import TYPE_CHECKING, Any

from ..errors import UserError
from .serving_options import add_axes, add_service, read_axes, service_words
from .study_options import add_answer

if TYPE_CHECKING:
    from ..content.layout_study import LayoutStudy

SHOWN = 20  # characters of a value that is refused


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `dse whatif sharding`."""
    parser.description = __doc__
    parser.add_argument("kernel", metavar="sharding", help="layouts of a model in place of a kernel's schedules")
    add_service(parser)
    group = parser.add_argument_group("what is varied")
    group.add_argument(
        "--vary", action="append", default=[], metavar="NAME=VALUES", required=True,
        help="of the fabric by factors (fabric.link=0.5x,2x  fabric.1:link=2x), of the engine (engine.step_s=0x), of "
        "the GPU (l2_capacity=1x,2x  sm_count=66,132)",
    )  # fmt: skip
    group.add_argument("--grid", action="store_true", help="every combination (default: one at a time)")
    group.add_argument("--users", default="", metavar="N,N", help="tokens/s a user at which throughput is compared too")
    group = parser.add_argument_group("the layouts")
    group.add_argument("--space", metavar="NAME|FILE", help="of layouts (default: sharding/serving)")
    group.add_argument("--preset", help="plain, decode, prefill (dse spaces); default: every layout")
    add_axes(group)
    add_answer(parser)


def run(arguments: argparse.Namespace) -> int:
    """Answers and prints."""
    from .layout_study import answer_layouts

    return answer_layouts(arguments, _study(arguments))


def _study(arguments: argparse.Namespace) -> "LayoutStudy":
    from ..content.hardware_axis import parse_vary
    from ..content.layout_study import LayoutStudy
    from ..serving.asked import GPUS

    words: dict[str, Any] = service_words(arguments)
    changes = words.pop("overrides")
    plain = {"engine": "vllm", "clock": "boost", "quantise_a": False, "graphs": True, "gpus_per_node": 0}
    service = {name: value for name, value in words.items() if value is not None and plain.get(name) != value}
    restrict = {name: [str(value) for value in values] for name, values in read_axes(arguments).items()}
    return LayoutStudy(
        name="whatif",
        services=({**service, "gpus": arguments.gpus or GPUS},),
        axes=tuple(parse_vary(text) for text in arguments.vary),
        combine="grid" if arguments.grid else "each",
        overrides=changes,
        space=arguments.space,
        preset=arguments.preset,
        restrict=restrict,
        users=_users(arguments.users),
    )


def _users(text: str) -> tuple[float, ...]:
    found = []
    for part in text.split(",") if text else ():
        try:
            value = float(part)
        except ValueError:
            value = float("nan")
        if not 0 < value < float("inf"):
            raise UserError(f"--users {part[:SHOWN]!r} is not allowed: tokens a second for a user, e.g. --users 20,50")
        found.append(value)
    return tuple(found)
