"""GEMMs with fused epilogues: one kernel beside a GEMM and a memory-bound kernel after it, both predicted.

  dse validate gemm_epilogue --gpu h100_sxm

No measurement stands beside them: what fusing saves is the second kernel's launch, read and write, which
`dse validate memory_bound` and `dse validate gemm` judge.
"""

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..validation.fused_gemm import Fused


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument("--gpu", default="h100_sxm", help="a name (dse gpus) or a TOML file (default: h100_sxm)")
    parser.add_argument("--shape", action="append", help="MxNxK (may be repeated; default: three)")
    parser.add_argument("--json", action="store_true", help="the answer as JSON on standard output")


def run(arguments: argparse.Namespace) -> int:
    """Predicts; prints a line an epilogue and shape."""
    from ..platform import configure_jax
    from ..validation.fused_gemm import EPILOGUE_SHAPES, epilogues

    configure_jax()
    return show(epilogues(arguments.gpu, tuple(arguments.shape or EPILOGUE_SHAPES)), arguments.json)


def show(rows: "Sequence[Fused]", as_json: bool) -> int:
    """Prints work in one kernel beside the same in two."""
    from .show import print_json, table

    if as_json:
        print_json([asdict(row) | {"speedup": row.speedup, "published_speedup": row.published_speedup} for row in rows])
        return 0
    cells = [
        {
            "work": row.what,
            "shape": row.shape,
            "apart us": f"{row.apart_s * 1e6:.1f}",
            "fused us": f"{row.fused_s * 1e6:.1f}",
            "speed-up": f"{row.speedup:.2f}",
            **_published(row),
        }
        for row in rows
    ]
    print(table(cells, left=("work", "shape")))
    for line in dict.fromkeys(f"{row.source}: {row.note}; on {row.gpu}" for row in rows if row.source):
        print(line)
    return 0


def _published(row: "Fused") -> dict[str, str]:
    if row.published_apart_s is None or row.published_fused_s is None:
        return {}
    return {
        "published apart": f"{row.published_apart_s * 1e6:.1f}",
        "fused": f"{row.published_fused_s * 1e6:.1f}",
        "published speed-up": f"{row.published_speedup:.2f}",
    }
