"""What the options of `dse batch` ask: the problems, and the machines and spaces."""

import argparse
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..errors import UserError, unknown
from ..kernels.registry import check_choices, get_kernel, kernel_names
from .options import comma_names, overrides

if TYPE_CHECKING:
    from ..batch import BatchRow, Setting

OF_MODELS = (
    "kernels",
    "layer",
    "tp",
    "ep",
    "phase",
    "prompt_length",
    "prompts",
    "batch",
    "context",
    "kv_dtype",
    "quantise_a",
)


def rows_asked(arguments: argparse.Namespace) -> "list[BatchRow]":
    """The problems of a model's steps, of a shape list, or of shapes.

    Raises:
        UserError: none or several of them are given, or what is wrong with them.
    """
    from ..batch import Serving, listed_rows, model_rows
    from ..content.model import load_model

    given = [name for name, value in (("--model", arguments.model), ("--shapes", arguments.shapes)) if value]
    given += ["--shape"] if arguments.shape else []
    if len(given) != 1:
        what = f"{' and '.join(given)} are given" if given else "no problem is given"
        raise UserError(f"{what}: give --model NAME, or --shapes FILE.csv, or --shape SHAPE")
    choices = _by_kernel(arguments.choice, "--choice", ".")
    if arguments.model:
        if arguments.kernel:
            raise UserError(
                f"{arguments.kernel} and --model: a model brings its own kernels, leave {arguments.kernel} out, or "
                f"write --kernel {arguments.kernel} for these alone"
            )
        numbers = {
            "tps": arguments.tp,
            "eps": arguments.ep,
            "lengths": arguments.prompt_length,
            "batches": arguments.batch,
            "contexts": arguments.context,
        }
        serving: dict[str, Any] = {name: _numbers(text, name) for name, text in numbers.items() if text is not None}
        if arguments.prompts is not None:
            serving["prompts"] = _numbers(arguments.prompts, "prompts", many=False)[0]
        if arguments.quantise_a:
            serving["quantise_a"] = True
        if arguments.phase is not None:
            serving["phases"] = tuple(name.strip() for name in arguments.phase.split(","))
        asked = Serving(**serving, dtype=arguments.dtype, kv_dtype=arguments.kv_dtype)
        models = [load_model(name.strip()) for name in arguments.model.split(",")]
        names = [model.name for model in models]
        twice = next((name for place, name in enumerate(names) if name in names[:place]), None)
        if twice:
            raise UserError(f"the model {twice} is given twice: give each once, and name your own file otherwise")
        rows = [row for model in models for row in model_rows(model, asked)]
        for option, attribute, text in (("kernel", "kernel", arguments.kernels), ("layer", "layer", arguments.layer)):
            rows = rows if text is None else _only(rows, option, attribute, text)
        return _chosen(rows, choices)
    wrong = next((name for name in OF_MODELS if getattr(arguments, name) is not None), None)
    if wrong:
        option = "kernel" if wrong == "kernels" else wrong.replace("_", "-")
        raise UserError(f"--{option} is of a model's steps: give it with --model")
    kernel = arguments.kernel or "gemm"
    return _chosen(listed_rows(arguments.shapes or arguments.shape, kernel, arguments.dtype), choices)


def _only(rows: "Sequence[BatchRow]", option: str, attribute: str, text: str) -> "list[BatchRow]":
    """The rows of the names that are given, in the order of the steps."""
    known = list(dict.fromkeys(getattr(row, attribute) for row in rows))
    names = comma_names(text)
    if not names:
        raise UserError(f"--{option} {text}: name one or several of {', '.join(known)}")
    for name in names:
        if name not in known:
            raise unknown(f"{option} of these steps", name, known)
    return [row for row in rows if getattr(row, attribute) in names]


def _chosen(rows: "Sequence[BatchRow]", choices: Mapping[str, Mapping[str, str]]) -> "list[BatchRow]":
    """Rows with the choices of the command, which count where a row does not choose itself."""
    from dataclasses import replace

    kernels = dict.fromkeys(row.kernel for row in rows)
    for kernel, given in choices.items():
        if kernel and kernel not in kernels:
            raise UserError(f"--choice is given for {kernel}, but the batch holds {', '.join(kernels)} only")
        for name in given:
            if kernel or not any(name in _choices_of(one) for one in kernels):
                check_choices(get_kernel(kernel or next(iter(kernels))), [name])
    found = []
    for row in rows:
        general = {name: value for name, value in choices.get("", {}).items() if name in _choices_of(row.kernel)}
        chosen = {**general, **choices.get(row.kernel, {}), **dict(row.choices)}
        found.append(replace(row, choices=tuple(chosen.items())))
    return found


def _choices_of(kernel: str) -> set[str]:
    return {choice.name for choice in get_kernel(kernel).problem.CHOICES}


def setting_asked(arguments: argparse.Namespace) -> "Setting":
    """The machines and the spaces."""
    from ..batch import Setting
    from ..restrict import parse_axis

    axes: dict[str, dict[str, Any]] = {}
    for kernel, texts in _by_kernel(arguments.axis, "--axis", ".").items():
        axes[kernel] = dict(parse_axis(f"{name}={values}") for name, values in texts.items())
    presets: dict[str, str] = {}
    for text in arguments.preset:
        kernel, _, preset = text.rpartition("=")
        if kernel in presets:
            raise UserError(f"--preset {text}: a preset is given twice for {kernel or 'all kernels'}, give it once")
        presets[kernel] = preset
    gpus = comma_names(arguments.gpu)
    return Setting(gpus, overrides(arguments.overrides), arguments.clock, presets, axes)


def _by_kernel(texts: Sequence[str], option: str, separator: str) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        kernel, _, own = name.partition(separator) if name.partition(separator)[0] in kernel_names() else ("", "", name)
        if not equals or not own or not value:
            raise UserError(f"{option} {text}: write NAME=VALUE, or KERNEL{separator}NAME=VALUE")
        if own in found.setdefault(kernel, {}):
            raise UserError(f"{option} {name} is given twice: give it once")
        found[kernel][own] = value
    return found


def _numbers(text: str, what: str, many: bool = True) -> tuple[int, ...]:
    option = {"tps": "tp", "eps": "ep", "lengths": "prompt-length", "batches": "batch", "contexts": "context"}
    words = [word.strip() for word in text.split(",")]
    if not all(word.isascii() and word.isdecimal() and 1 <= int(word) < 2**24 for word in words) or (
        len(words) > 1 and not many
    ):
        allowed = "whole numbers from 1, separated by commas" if many else "a whole number from 1"
        raise UserError(f"--{option.get(what, what)} {text}: {allowed}")
    return tuple(int(word) for word in words)
