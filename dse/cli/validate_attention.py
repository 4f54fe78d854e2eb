"""Predicted prefill latencies beside measured ones, implementation by implementation, and published throughputs.

Each implementation (whose kernel a row names) has numbers in hardware/implementations/attention, fitted on one half of
the (heads, KV heads, head dim) combinations; the rows of the other half are judged. The packaged sample
(studies/measured/README.md) holds causal bf16 prefill on A100, H100, H200 and B200; --table takes the whole public
table. Intervals resample whole combinations. docs/attention.md says which rows are left out and why.
"""

import argparse
from typing import TYPE_CHECKING

from ..text import table
from .options import add_output, say_of
from .validation_options import add_table_gpus, gpu_files

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..validation.attention import AttentionValidation
    from ..validation.attention_published import Published
    from ..validation.latency_errors import Errors


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    add_table_gpus(parser)
    parser.add_argument("--implementation", action="append", help="only this implementation (may be repeated)")
    parser.add_argument("--table", metavar="FILE", help="measured latencies; default: the packaged sample")
    parser.add_argument("--part", default="report", help="which part is judged: report or fit (default: report)")
    add_output(parser)


def run(arguments: argparse.Namespace) -> int:
    """Validates; prints a line an implementation, then by latency, then the published throughputs."""
    from ..platform import configure_jax
    from ..validation.attention import validate_attention
    from ..validation.attention_published import published_fa3
    from .show import print_json

    configure_jax()
    results = validate_attention(
        gpu_files(arguments), arguments.table, arguments.part, arguments.implementation, progress=say_of(arguments)
    )
    published = published_fa3()
    if arguments.json:
        print_json(_document(arguments.part, results, published))
        return 0
    print(_latencies(arguments.part, results))
    print()
    print(_published(published))
    return 0


def _latencies(part: str, results: "Sequence[AttentionValidation]") -> str:
    from ..validation.attention import all_rows, bucket_errors, errors_of

    lines = [_line(one.gpu, one.implementation, one.errors, one.by_latency) for one in results]
    for gpu in dict.fromkeys(one.gpu for one in results):
        rows = all_rows([one for one in results if one.gpu == gpu])
        lines.append(_line(gpu, "all", errors_of(rows), bucket_errors(rows)))
    if len({one.gpu for one in results}) > 1:
        rows = all_rows(results)
        lines.append(_line("all", "all", errors_of(rows), bucket_errors(rows)))
    head = (
        f"causal bf16 prefill, fastest of each implementation's presets, part `{part}`\n"
        "errors in per cent of the measured latency, 95 % intervals over (heads, KV heads, head dim); "
        "by measured us: MAPE, bias"
    )
    return f"{head}\n{table(lines, left=('GPU', 'implementation'))}"


def _line(gpu: str, implementation: str, found: "Errors", by_latency: "Mapping[str, Errors]") -> dict[str, str]:
    from ..validation.attention import BUCKETS_US
    from .validation_text import interval_text

    return {
        "GPU": gpu,
        "implementation": implementation,
        "rows": str(found.count),
        "MAPE": interval_text(found, "mape"),
        "bias": interval_text(found, "bias", signed=True),
        "p90": f"{found.p90:.1f}",
        **{
            name: f"{by_latency[name].mape:.1f}, {by_latency[name].bias:+.1f}" if name in by_latency else ""
            for name in BUCKETS_US
        },
    }


def _published(published: "Sequence[Published]") -> str:
    lines = [
        {
            "published TFLOP/s": one.what,
            "there": f"{one.tflops:.0f}",
            **{order: f"{value:.0f}" for order, value in one.by_order.items()},
            "error %": f"{100.0 * (one.by_order['both'] / one.tflops - 1.0):+.1f}",
        }
        for one in published
    ]
    foot = (
        "columns serial to both: the model with the warpgroups in that order; FlashAttention-3 runs both.\n"
        "The paper's own ablation of the last row: 582 without pipelining inside a warpgroup, 570 without warp\n"
        "specialisation; and 570 to 620-640 by turns (section 3.1)"
    )
    return f"{table(lines, left=('published TFLOP/s',))}\n{foot}"


def _document(part: str, results: "Sequence[AttentionValidation]", published: "Sequence[Published]") -> dict:
    from dataclasses import asdict

    from ..validation.attention import all_rows, bucket_errors, errors_of

    pooled = {}
    for gpu in dict.fromkeys(one.gpu for one in results):
        rows = all_rows([one for one in results if one.gpu == gpu])
        buckets = {name: found.to_dict() for name, found in bucket_errors(rows).items()}
        pooled[gpu] = {"errors": errors_of(rows).to_dict(), "by_latency": buckets}
    return {
        "part": part,
        "unit": "per cent of the measured latency",
        "implementations": [one.to_dict() for one in results],
        "gpus": pooled,
        "published": [asdict(one) for one in published],
    }
