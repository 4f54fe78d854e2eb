"""Predictions beside measurements: latencies of library kernels, or your own measured schedules.

  dse validate gemm                    the best predicted latency against the library's, shape by shape
  dse validate schedules --table FILE  is the predicted order of schedules right?
  dse validate memory_bound            norms, softmax, copies: both limits, and published times
  dse validate dequant_gemm            narrow weights: published times and speed-ups over 16 bits
  dse validate grouped_gemm            grouped GEMMs: published times
  dse validate gemm_epilogue           epilogues in one kernel and in two, predicted
  dse validate gemm_chain              two GEMMs in one kernel and in two, published and predicted
  dse validate attention               prefill latencies of libraries, published throughputs
  dse validate moe                     fused MoE layers of frameworks, by GPU and implementation
  dse validate decode_attention        decode latencies of libraries: GQA and MLA
  dse validate collectives             NCCL's collectives and an engine's all-reduce, inside a node
  dse validate serving                 published rates of whole models
  dse validate fused_communication     kernels that join computation and communication: published times

Both answer as tables or, with --json, for a program. `dse validate gemm --help` and `dse validate schedules --help` say
more.
"""

import argparse

from . import (
    validate_attention,
    validate_collectives,
    validate_decode_attention,
    validate_dequant_gemm,
    validate_fused_communication,
    validate_gemm,
    validate_gemm_chain,
    validate_gemm_epilogue,
    validate_grouped_gemm,
    validate_memory_bound,
    validate_moe,
    validate_schedules,
    validate_serving,
)

WHAT = {
    "gemm": validate_gemm,
    "schedules": validate_schedules,
    "memory_bound": validate_memory_bound,
    "dequant_gemm": validate_dequant_gemm,
    "grouped_gemm": validate_grouped_gemm,
    "gemm_epilogue": validate_gemm_epilogue,
    "gemm_chain": validate_gemm_chain,
    "attention": validate_attention,
    "moe": validate_moe,
    "decode_attention": validate_decode_attention,
    "collectives": validate_collectives,
    "serving": validate_serving,
    "fused_communication": validate_fused_communication,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What is validated, each with its own options."""
    choices = parser.add_subparsers(dest="what", metavar="WHAT", required=True, help=f"one of {', '.join(WHAT)}")
    for name, command in WHAT.items():
        own = choices.add_parser(
            name, description=command.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        command.add_arguments(own)


def run(arguments: argparse.Namespace) -> int:
    """Runs what was chosen."""
    return WHAT[arguments.what].run(arguments)
