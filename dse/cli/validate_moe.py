"""Predictions beside measured fused MoE layers, by GPU and implementation.

  dse validate moe
  dse validate moe --gpu h100_sxm --implementation sglang_triton --part fit

A row whose framework reads its schedule from a config is predicted with that schedule, one of an autotuned library with
the best of the library's sub-space; both with the implementation's fitted numbers (part `fit`). The packaged sample
(studies/measured/README.md) holds bf16 and fp8 block-scaled layers of TensorRT-LLM, FlashInfer, vLLM and SGLang on
A100, H100, H200 and B200; how rows were chosen: docs/moe.md. Intervals resample whole (hidden, inter, experts, topk).
"""

import argparse
import itertools
from typing import TYPE_CHECKING

from .options import add_output, say_of
from .validation_options import add_table_gpus, gpu_files

if TYPE_CHECKING:
    from ..validation.latency_errors import Errors
    from ..validation.moe import MoeValidation

EDGES_US = (20, 50, 100, 300, 1000, 3000, float("inf"))
PART = "report"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    add_table_gpus(parser)
    parser.add_argument(
        "--implementation", action="append", metavar="NAME", help="only rows of this one (may be repeated)"
    )
    parser.add_argument("--table", metavar="FILE", help="measured layers, Parquet; default: the packaged sample")
    parser.add_argument(
        "--part", default=PART, help=f"which part of the table is judged: fit, report or all (default: {PART})"
    )
    add_output(parser)


def run(arguments: argparse.Namespace) -> int:
    """Validates; prints a line a GPU and implementation, all together, then by measured latency."""
    from ..platform import configure_jax
    from ..validation.moe import pooled, validate_moe
    from .show import print_json

    configure_jax()
    implementations = None if arguments.implementation is None else tuple(arguments.implementation)
    part = None if arguments.part == "all" else arguments.part
    results = validate_moe(arguments.table, part, gpu_files(arguments), implementations, progress=say_of(arguments))
    together = pooled(results)
    if arguments.json:
        document = [result.to_dict() for result in results]
        print_json({"part": arguments.part, "results": document, "pooled": together.to_dict()})
        return 0
    print("\n\n".join([_by_implementation(results, together), _by_latency(results)]))
    return 0


def _by_implementation(results: "list[MoeValidation]", together: "Errors") -> str:
    from .show import table

    rows = [
        {"implementation": result.implementation, "GPU": result.gpu} | _said(result.model)
        for result in sorted(results, key=lambda result: result.implementation)
    ]
    return table([*rows, {"implementation": "all", "GPU": "all"} | _said(together)], left=("implementation", "GPU"))


def _by_latency(results: "list[MoeValidation]") -> str:
    import pandas as pd

    from ..validation.latency_errors import errors
    from .show import table

    judged = pd.concat([result.rows for result in results], ignore_index=True)
    rows = []
    for low, high in itertools.pairwise(EDGES_US):
        inside = judged[(judged["latency_us"] >= low) & (judged["latency_us"] < high)]
        if len(inside):
            name = f"{low:g} to {high:g}" if high < EDGES_US[-1] else f"over {low:g}"
            found = errors(inside["model_us"].to_numpy(), inside["latency_us"].to_numpy(float))
            rows.append({"measured us": name} | _said(found))
    return table(rows, left=("measured us",))


def _said(found: "Errors") -> dict[str, str]:
    said = {
        "rows": f"{found.count:,}",
        "MAPE %": f"{found.mape:.1f}",
        "bias %": f"{found.bias:+.1f}",
        "median %": f"{found.p50:.1f}",
        "p90 %": f"{found.p90:.1f}",
    }
    if found.pairs:
        low, high = found.interval.get("mape", (None, None))
        said["MAPE 95 %"] = "-" if low is None else f"{low:.1f} to {high:.1f}"
    return said
