"""GEMM chains: two products in one kernel and in two, published and predicted.

  dse validate gemm_chain

Nothing is fitted to the published times. Predicted are the best spilled order (two kernels) and the best fused one.
"""

import argparse

from .validate_gemm_epilogue import show


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument("--json", action="store_true", help="the answer as JSON on standard output")


def run(arguments: argparse.Namespace) -> int:
    """Validates; prints a line a published comparison."""
    from ..platform import configure_jax
    from ..validation.fused_gemm import published_chains

    configure_jax()
    return show(published_chains(), arguments.json)
