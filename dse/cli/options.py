"""Options that several commands share, and what is made of them."""

import argparse
from typing import TYPE_CHECKING, Any

from ..errors import UserError

if TYPE_CHECKING:
    from ..question import Question


def add_question(parser: argparse.ArgumentParser, shape_needed: bool = True, many: bool = False) -> None:
    """--shape, --dtype, --gpu and what refines them."""
    group = parser.add_argument_group("the problem and the machine")
    what = "MxNxK or BATCHxMxNxK, e.g. 8192x8192x8192"
    if many:
        group.add_argument("--shape", action="append", metavar="SHAPE", help=f"{what}; may be given several times")
    else:
        group.add_argument("--shape", required=shape_needed, metavar="SHAPE", help=what)
    group.add_argument("--dtype", default="bf16", help="type of A and B (default: bf16)")
    group.add_argument("--gpu", default="h200_sxm", help="a name (dse gpus) or a TOML file (default: h200_sxm)")
    group.add_argument(
        "--set", action="append", default=[], metavar="FIELD=VALUE", dest="overrides",
        help="change a number of the GPU: l2_capacity=2x, sm_count=+10%%, ddr_bytes_per_s=6e12",
    )  # fmt: skip
    group.add_argument("--family", help="instruction family: mma_sync, wgmma, tcgen05 (default: the fastest)")
    group.add_argument("--out-dtype", help="type of the output (default: bf16, or what suits --dtype)")
    group.add_argument("--accumulator", help="fp32, fp16 or int32 (default: fp32, int32 for integers)")
    group.add_argument("--layout", default="tn", help="tn: both operands contiguous along k (default), nn, tt, nt")
    group.add_argument("--beta", action="store_true", help="C is read and added")
    group.add_argument(
        "--cache", default="a_warm", help="what L2 holds at the start: cold, a_warm (default), b_warm, warm"
    )
    group.add_argument("--align", type=int, dest="align_bytes", metavar="BYTES", help="alignment of every row's start")
    group.add_argument(
        "--quantise-a", action="store_true", help="count the kernels that make a narrow A of a bf16 one before the GEMM"
    )
    group.add_argument("--clock", default="boost", help="boost (default), less the power limit; or sustained, held")


def changed_question(arguments: argparse.Namespace) -> list[str]:
    """The options of `add_question` that are not at their defaults."""
    blank = argparse.ArgumentParser()
    add_question(blank, shape_needed=False)
    actions = {action.dest: action for action in blank._actions if action.dest != "help"}
    return [a.option_strings[0] for name, a in actions.items() if getattr(arguments, name) != a.default]


def add_space(parser: argparse.ArgumentParser) -> None:
    """--space, --preset, --axis, --objectives, --top."""
    group = add_schedules(parser, "the space and what is looked for")
    group.add_argument(
        "--objectives", default="latency_s,ddr_bytes,smem_bytes", metavar="NAMES",
        help="what the front minimises (default: latency_s,ddr_bytes,smem_bytes)",
    )  # fmt: skip
    group.add_argument("--top", type=positive, default=10, metavar="N", help="how many of the best (default: 10)")


def add_schedules(parser: argparse.ArgumentParser, title: str = "the schedules that are tuned over") -> Any:
    """--space, --preset, --axis, in a group that is returned."""
    group = parser.add_argument_group(title)
    group.add_argument(
        "--space", metavar="NAME|FILE", help="a space (dse spaces) or a TOML file (default: the family's)"
    )
    group.add_argument("--preset", help="a sub-space: triton, cutlass, library, quick, ... (dse spaces)")
    group.add_argument(
        "--axis", action="append", default=[], metavar="NAME=VALUES",
        help="keep only these values: tile_m=64,128  stages=2:6  raster=along_m:8",
    )  # fmt: skip
    return group


def add_output(parser: argparse.ArgumentParser) -> None:
    """--json, --quiet."""
    parser.add_argument("--json", action="store_true", help="the answer as JSON on standard output")
    parser.add_argument("--quiet", action="store_true", help="no progress on standard error")


def positive(text: str) -> int:
    """A whole number from 1."""
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1")
    return int(text)


def question(arguments: argparse.Namespace, shape: Any = None, dtype: str | None = None) -> "Question":
    """What the options of `add_question` ask."""
    from ..question import ask

    shape = arguments.shape if shape is None else shape
    return ask(shape, dtype or arguments.dtype, arguments.gpu, **refinements(arguments))


def refinements(arguments: argparse.Namespace) -> dict[str, Any]:
    """What refines a question beside shape, dtype and GPU, as `dse.question.ask` and the functions of `dse` take it."""
    names = ("family", "accumulator", "clock", "out_dtype", "layout", "beta", "cache", "align_bytes", "quantise_a")
    return {"overrides": overrides(arguments.overrides)} | {name: getattr(arguments, name) for name in names}


def overrides(texts: list[str]) -> dict[str, str]:
    """`l2_capacity=2x` as name and value.

    Raises:
        UserError: no `=`, or a name given twice.
    """
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name or not value:
            raise UserError(f"--set {text}: write FIELD=VALUE, e.g. --set l2_capacity=2x")
        if name in found:
            raise UserError(f"--set {name} is given twice: give it once")
        found[name] = value
    return found


def objectives(text: str) -> tuple[str, ...]:
    """Names separated by commas."""
    return tuple(name.strip() for name in text.split(",") if name.strip())
