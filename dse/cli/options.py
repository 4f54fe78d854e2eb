"""Options that several commands share, and what is made of them."""

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..errors import UserError, unknown
from ..kernels.problem import default_of, shape_form
from ..kernels.registry import choices_by_option, get_kernel, kernel_names, usable_kernels

if TYPE_CHECKING:
    from ..progress import Reporter
    from ..question import Question

SHOWN_CHARACTERS = 40  # of a value that is refused


def add_question(
    parser: argparse.ArgumentParser,
    shape_needed: bool = True,
    many: bool = False,
    kernels: Sequence[str] | None = None,
    named: bool = False,
) -> None:
    """--shape, --dtype, --gpu, what refines them, and the kernels' choices.

    Args:
        parser: where they are added.
        shape_needed: the command makes no sense without a shape.
        many: shapes may be given several times.
        kernels: that the command serves; None: all.
        named: the kernel is an option, `--kernel`; else the command has an argument for it, or serves one.
    """
    words, usable = getattr(parser, "words", ()), usable_kernels()
    served = tuple(kernels or (name for name in kernel_names() if name in usable or name in words))
    shown = (
        tuple(name for name in words if name in served)[:1]
        or tuple(name for name in served if name == "gemm")
        or served
    )
    group = parser.add_argument_group("the problem and the machine")
    if named:
        group.add_argument(
            "--kernel",
            default="gemm",
            metavar="NAME",
            help=f"{', '.join(served)} (default: gemm); with --help, its choices",
        )
    what = _shape_help(shown)
    if many:
        group.add_argument("--shape", action="append", metavar="SHAPE", help=f"{what}; may be given several times")
    else:
        group.add_argument("--shape", required=shape_needed, metavar="SHAPE", help=what)
    group.add_argument("--dtype", default="bf16", help="input type, of A and B for gemm (default: bf16)")
    group.add_argument("--gpu", default="h200_sxm", help="a name (dse gpus) or a TOML file (default: h200_sxm)")
    group.add_argument(
        "--set", action="append", default=[], metavar="FIELD=VALUE", dest="overrides",
        help="change a number of the GPU: l2_capacity=2x, sm_count=+10%%, ddr_bytes_per_s=6e12; or of the "
        "implementation: implementation.NAME=VALUE",
    )  # fmt: skip
    group.add_argument("--family", help="instruction family: mma_sync, wgmma, tcgen05 (default: the fastest)")
    group.add_argument("--accumulator", help="fp32, fp16 or int32 (default: fp32, int32 for integers)")
    group.add_argument("--clock", default="boost", help="boost (default), less the power limit; or sustained, held")
    _add_choices(parser, served, shown)


def kernel_help() -> str:
    """What the argument KERNEL may be."""
    return f"{', '.join(kernel_names())} (default: gemm); KERNEL --help shows the choices of that one"


def shape_word(kernel: str) -> str:
    """The grammar of a kernel's shapes as messages have it: `MxNxK`."""
    return shape_form(get_kernel(kernel).problem).partition(" or ")[0]


def _shape_help(kernels: Sequence[str]) -> str:
    forms: dict[str, list[str]] = {}
    for name in kernels:
        forms.setdefault(shape_form(get_kernel(name).problem), []).append(name)
    if len(forms) == 1:
        example = getattr(get_kernel(kernels[0]).problem, "EXAMPLE", "")
        return next(iter(forms)) + (f", e.g. {example}" if example else "")
    return "; ".join(f"{', '.join(names)}: {form}" for form, names in forms.items())


def _add_choices(parser: argparse.ArgumentParser, served: Sequence[str], shown: Sequence[str]) -> None:
    """An option a choice, in a group a set of kernels that have it; those of kernels not asked about are not shown."""
    groups: dict[tuple[str, ...], Any] = {}
    for option, own in choices_by_option(served).items():
        names = tuple(name for name in own if name in shown)
        if names not in groups:
            groups[names] = parser.add_argument_group(f"choices of {', '.join(names)}") if names else parser
        choice = own[names[0] if names else next(iter(own))]
        defaults = {default_of(get_kernel(name).problem, own[name]) for name in names}
        text = choice.help(defaults.pop() if len(defaults) == 1 else None).replace("%", "%%")
        truth = {"nargs": "?", "const": "true"} if any(at.kind is bool for at in own.values()) else {}
        groups[names].add_argument(
            option, dest=choice.name, metavar="true|false" if truth else choice.name.rpartition("_")[2].upper(),
            help=text if names else argparse.SUPPRESS, **truth,
        )  # fmt: skip


def changed_question(arguments: argparse.Namespace, kernels: Sequence[str] | None = None) -> list[str]:
    """The options of `add_question` that are not at their defaults."""
    blank = argparse.ArgumentParser()
    add_question(blank, shape_needed=False, kernels=kernels, named=True)
    actions = {action.dest: action for action in blank._actions if action.dest != "help"}
    return [a.option_strings[0] for name, a in actions.items() if getattr(arguments, name, a.default) != a.default]


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
    """--json, --quiet, --progress."""
    parser.add_argument("--json", action="store_true", help="the answer as JSON on standard output")
    add_progress(parser)


def add_progress(parser: argparse.ArgumentParser) -> None:
    """--quiet, --progress."""
    parser.add_argument("--quiet", action="store_true", help="no progress on standard error")
    parser.add_argument(
        "--progress", default="auto", metavar="HOW",
        help="auto (default: a bar on a terminal, else lines), bar, lines, json (events, one a line) or none",
    )  # fmt: skip


def progress_mode(arguments: argparse.Namespace, silent: bool = False) -> str:
    """How progress is shown: a mode of `dse.progress.make_reporter`.

    Args:
        arguments: of a command with the options of `add_progress`.
        silent: say nothing unless --progress says how.

    Raises:
        UserError: --progress with another word, or beside --quiet.
    """
    from ..progress import MODES

    mode = arguments.progress
    if mode not in MODES:
        raise unknown("progress", mode, MODES)
    if arguments.quiet and mode not in ("auto", "none"):
        raise UserError(f"--quiet and --progress {mode} contradict each other: leave one out")
    return "none" if arguments.quiet or (silent and mode == "auto") else mode


def progress_of(arguments: argparse.Namespace, silent: bool = False) -> "Reporter":
    """What shows the progress of a command, on standard error; arguments and errors as `progress_mode`."""
    from ..progress import make_reporter

    return make_reporter(progress_mode(arguments, silent))


def say_of(arguments: argparse.Namespace) -> "Callable[[str], None]":
    """What tells a user a line of text on standard error: a line, with --progress json an event, or nothing.

    Raises:
        UserError: as `progress_mode`.
    """
    from ..progress import tell, write_event

    mode = progress_mode(arguments)
    if mode == "none":
        return lambda text: None
    if mode == "json":
        return lambda text: write_event(sys.stderr, "note", text=text)
    return lambda text: tell(sys.stderr, text)


def positive(text: str) -> int:
    """A whole number from 1."""
    try:
        number = int(text) if text.isdecimal() else 0  # "²" is a digit, but no number
    except ValueError:  # of more digits than Python reads
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text[:SHOWN_CHARACTERS]!r} is not a whole number from 1")
    return number


def question(
    arguments: argparse.Namespace,
    shape: Any = None,
    dtype: str | None = None,
    choices: Mapping[str, Any] | None = None,
) -> "Question":
    """What the options of `add_question` ask; a line of a shape list may say shape, dtype and choices itself."""
    from ..question import ask

    shape = arguments.shape if shape is None else shape
    refined = refinements(arguments) | dict(choices or {})
    return ask(shape, dtype or arguments.dtype, arguments.gpu, **refined)


def refinements(arguments: argparse.Namespace) -> dict[str, Any]:
    """What refines a question beside shape, dtype and GPU, as `dse.question.ask` and the functions of `dse` take it:
    the kernel, its choices where they are given, and the machine's."""
    names = ("kernel", "family", "accumulator", "clock")
    found = {"overrides": overrides(arguments.overrides)} | {name: getattr(arguments, name, None) for name in names}
    choices = {choice.name for own in choices_by_option().values() for choice in own.values()}
    given = {name: getattr(arguments, name, None) for name in sorted(choices)}
    return found | {name: value for name, value in given.items() if value is not None}


def overrides(texts: list[str]) -> dict[str, str]:
    """`l2_capacity=2x` of `--set` as name and value; raises as `named_values`."""
    return named_values(texts, "--set", "FIELD=VALUE", "--set l2_capacity=2x")


def named_values(texts: Sequence[str], option: str, form: str, example: str) -> dict[str, str]:
    """`NAME=VALUE` texts of an option that may be repeated, as name and value.

    Raises:
        UserError: no `=`, or a name given twice; the message says the form and an example.
    """
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name or not value:
            raise UserError(f"{option} {text}: write {form}, e.g. {example}")
        if name in found:
            raise UserError(f"{option} {name} is given twice: give it once")
        found[name] = value
    return found


def comma_names(text: str) -> tuple[str, ...]:
    """Names separated by commas."""
    return tuple(name.strip() for name in text.split(",") if name.strip())
