"""Decode attention beside measured library kernels: the best over a preset, with the library's fitted numbers.

  dse validate decode_attention
  dse validate decode_attention --table mla --gpu h100_sxm

Rows are of the packaged samples (studies/measured/README.md): bf16 decode of FlashAttention-3, TensorRT-LLM and others,
and MLA. An implementation's numbers were fitted on the part fit; the part judge holds other combinations of heads and
head dim (MLA: of heads and batch). The roofline's three rates are fitted on the same part fit.
"""

import argparse
from typing import TYPE_CHECKING

from .options import add_output, say_of

if TYPE_CHECKING:
    from ..validation.decode_attention import DecodeValidation


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument("--table", action="append", metavar="NAME", help="gqa or mla (default: both)")
    parser.add_argument("--part", default="judge", help="judge or fit (default: judge)")
    parser.add_argument("--gpu", action="append", metavar="NAME", help="only this GPU (may be repeated)")
    parser.add_argument("--kernel", action="append", metavar="NAME", help="only this kernel (may be repeated)")
    add_output(parser)


def run(arguments: argparse.Namespace) -> int:
    """Validates; prints a line a kernel and GPU."""
    from ..platform import configure_jax
    from ..validation.decode_attention import pooled, validate_decode_attention
    from ..validation.decode_measured import TABLES
    from .show import print_json

    configure_jax()
    tables = arguments.table or list(TABLES)
    results = validate_decode_attention(tables, arguments.part, arguments.gpu, arguments.kernel, say_of(arguments))
    there = [table for table in TABLES if any(result.table == table for result in results)]
    if arguments.json:
        print_json(
            {
                "part": arguments.part,
                "kernels": [result.to_dict() for result in results],
                "pooled": {table: pooled(results, table).to_dict() for table in there},
            }
        )
        return 0
    print(f"per cent of the measured latency, part {arguments.part}; bias by measured latency\n")
    print(_table(results))
    for table in there:
        of = pooled(results, table)
        print(f"\n{table}: {of.count} rows, MAPE {of.mape:.1f}, bias {of.bias:+.1f}")
    return 0


def _table(results: "list[DecodeValidation]") -> str:
    from ..validation.decode_attention import BUCKETS_US
    from .show import table

    rows = []
    for result in results:
        row = {
            "table": result.table,
            "GPU": result.system,
            "kernel": result.kernel,
            "rows": str(result.errors.count),
            "MAPE": f"{result.errors.mape:.1f}",
            "p90": f"{result.errors.p90:.1f}",
            "roofline": f"{result.roofline.mape:.1f}",
        }
        for bucket in BUCKETS_US:
            of = result.by_latency.get(bucket)
            row[f"bias {bucket}"] = "-" if of is None else f"{of.bias:+.1f} ({of.count})"
        rows.append(row)
    return table(rows, left=("table", "GPU", "kernel"))
