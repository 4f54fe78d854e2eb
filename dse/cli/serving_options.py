"""Options of what is served on what, for commands about whole models, and what is made of them."""

import argparse
from typing import Any

from ..errors import UserError
from .options import SHOWN_CHARACTERS, overrides, positive

DEGREES = {  # of a layout, as options of dse serve -> (metavar, help)
    "tp": ("N,N", "GPUs that share weights and heads (tensor parallel)"),
    "pp": ("N,N", "stages (pipeline parallel)"),
    "dp": ("N,N", "groups with sequences of their own that share experts (attention data parallel)"),
    "ep": ("N,N", "GPUs that share experts (expert parallel); the others of tp x cp x dp share an expert's columns"),
    "experts_tp": ("N,N", "the same, the other way round: GPUs that share an expert's columns"),
    "cp": ("N,N", "groups that share every sequence's tokens (context parallel)"),
    "kv_split": ("N,N", "of the tp GPUs, those that share keys of the same heads (decode context parallel)"),
    "hidden_split": ("N,N", "of the tp GPUs, those that share feed-forward weights along hidden (2D sharding)"),
    "sequence_parallel": ("0,1", "1: norms on a share of the tokens"),
    "placement": ("ORDER", "which axis lies innermost on the fabric: tp.cp.dp.pp (default), pp.tp.cp.dp, ..."),
    "exchange": ("HOW", "tokens to experts: all_gather (default) or all_to_all"),
    "overlap": ("HOW", "none (default); two_batches: a half computes while the other communicates; fused: in products"),
    "micro_batches": ("N,N", "parts of the batch in the pipeline (default: pp where it divides the batch)"),
    "batch": ("N,N", "sequences that an instance decodes at once (default: 1)"),
    "chunk": ("N,N", "tokens of prompts in a step beside decoded ones; 0 (default): whole prompts"),
}


def add_service(parser: argparse.ArgumentParser) -> None:
    """--model, --gpu, --gpus, --fabric, --engine, --set; types; the workload."""
    group = parser.add_argument_group("the model and the machine")
    group.add_argument("--model", metavar="NAME|FILE", help="dse models lists them")
    group.add_argument("--gpu", default="h200_sxm", help="a name (dse gpus) or a TOML file (default: h200_sxm)")
    group.add_argument("--gpus", type=positive, metavar="N", help="how many there are (default: a layout's, else 8)")
    group.add_argument("--gpus-per-node", type=positive, metavar="N", help="default: as many as the fabric joins, 8")
    group.add_argument(
        "--fabric", metavar="NAME|FILE",
        help="what joins them (dse fabrics), A+B: nodes of A on the network B (default: what such GPUs are sold with)",
    )  # fmt: skip
    group.add_argument("--engine", default="vllm", metavar="NAME|FILE", help="whose kernels run (default: vllm)")
    group.add_argument("--clock", default="boost", help="boost (default), less the power limit; or sustained, held")
    group.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", dest="overrides",
        help="what if: l2_capacity=2x (GPU), fabric.link=2x, fabric.1:link=2x (the network alone), engine.step_s=0",
    )  # fmt: skip
    group = parser.add_argument_group("types")
    group.add_argument("--dtype", help="of weights and activations (default: as the weights were published)")
    group.add_argument("--experts-dtype", metavar="DTYPE", help="of routed experts (default: as --dtype)")
    group.add_argument("--kv-dtype", metavar="DTYPE", help="of the KV cache, e.g. fp8 (default: as attention, bf16)")
    group.add_argument("--quantise-a", action="store_true", help="count the kernels that narrow activations")
    group = parser.add_argument_group("the workload")
    group.add_argument("--input", type=positive, metavar="TOKENS", help="of a prompt (default: 2048)")
    group.add_argument("--output", type=positive, metavar="TOKENS", help="of an answer (default: 512)")
    group.add_argument("--cached", type=_count, metavar="TOKENS", help="of a prompt, in the cache before (default: 0)")
    group.add_argument("--phase", help="serve (default): prefill and decode on the same GPUs; decode or prefill alone")
    group.add_argument(
        "--draft-tokens", type=_count, metavar="N", help="speculative decoding: drafted a step; with --acceptance"
    )
    group.add_argument("--acceptance", type=_number, metavar="P", help="chance that a drafted token is right, 0 to 1")
    group.add_argument("--draft-layers", type=_number, metavar="N", help="layers that a draft costs (default: 1)")
    group.add_argument("--ttft-max", type=_number, metavar="S", help="longest time to the first token, seconds")
    group.add_argument("--tpot-max", type=_number, metavar="S", help="longest time a token, seconds")
    group.add_argument("--no-graphs", action="store_true", help="the host launches every kernel of a decode step")


def service_words(arguments: argparse.Namespace) -> dict[str, Any]:
    """What the options of `add_service` ask, as `dse.serving.asked.ask_service` takes it, without --gpus.

    Raises:
        UserError: no --model, or --set that cannot be read.
    """
    if not arguments.model:
        raise UserError("no model is given: say which with --model, e.g. --model llama3_70b (dse models lists them)")
    found: dict[str, Any] = {
        "model": arguments.model,
        "gpu": arguments.gpu,
        "fabric": arguments.fabric,
        "engine": arguments.engine,
        "clock": arguments.clock,
        "dtype": arguments.dtype,
        "experts_dtype": arguments.experts_dtype,
        "kv_dtype": arguments.kv_dtype,
        "quantise_a": arguments.quantise_a,
        "graphs": not arguments.no_graphs,
        "gpus_per_node": arguments.gpus_per_node or 0,
        "overrides": overrides(arguments.overrides),
    }
    if arguments.draft_tokens and arguments.acceptance is None:
        raise UserError(
            f"--draft-tokens {arguments.draft_tokens} needs --acceptance: the chance, 0 to 1, that a drafted token is "
            "right where those before it are, e.g. 0.7"
        )
    workload = {
        "input_tokens": arguments.input,
        "output_tokens": arguments.output,
        "cached_tokens": arguments.cached,
        "phase": arguments.phase,
        "draft_tokens": arguments.draft_tokens,
        "acceptance": arguments.acceptance,
        "draft_layers": arguments.draft_layers,
        "ttft_max_s": arguments.ttft_max,
        "tpot_max_s": arguments.tpot_max,
    }
    return found | {name: value for name, value in workload.items() if value is not None}


def add_axes(group: Any) -> None:
    """--axis, of layouts; and, not shown, the degrees of `dse serve`, so that --tp is told from --tpot-max."""
    group.add_argument(
        "--axis", action="append", default=[], metavar="NAME=VALUES",
        help="keep only these: tp=4,8  batch=1:256  chunk=0  placement=tp.cp.dp.pp; counts before the preset",
    )  # fmt: skip
    for name in DEGREES:
        group.add_argument(f"--{name.replace('_', '-')}", dest=f"degree_{name}", help=argparse.SUPPRESS)


def read_axes(arguments: argparse.Namespace) -> dict[str, list[Any]]:
    """What the options of `add_axes` keep of layouts, as `dse.serving.api.layout_space` takes it.

    Raises:
        UserError: a degree as an option of its own, and as `axes_of`.
    """
    for name in DEGREES:
        given = getattr(arguments, f"degree_{name}")
        if given is not None:
            raise UserError(
                f"--{name.replace('_', '-')} {given[:SHOWN_CHARACTERS]} is an option of dse serve: layouts that are "
                f"chosen from are narrowed with --axis {'experts_tp=1' if name == 'ep' else f'{name}={given}'}"
            )
    return axes_of(arguments.axis, "--axis")


def axes_of(texts: list[str], option: str) -> dict[str, list[Any]]:
    """Texts like `tp=4,8`, as axis and values.

    Raises:
        UserError: an unknown name, or one that is given twice.
    """
    from ..errors import unknown
    from ..restrict import parse_axes
    from ..serving.layouts import FIELDS

    found = parse_axes(texts)
    for name in found:
        if name == "ep":
            raise UserError(
                f"{option} ep: layouts name experts_tp, with tp x cp x dp = ep x experts_tp; {option} experts_tp=1"
            )
        if name not in FIELDS:
            raise unknown("axis of a layout", name, FIELDS)
    return {name: list(values) for name, values in found.items()}


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise argparse.ArgumentTypeError(f"{text[:SHOWN_CHARACTERS]!r} is not a whole number")
    return int(text)


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not value >= 0 or value == float("inf"):
        raise argparse.ArgumentTypeError(f"{text[:SHOWN_CHARACTERS]!r} is not a number from 0")
    return value
