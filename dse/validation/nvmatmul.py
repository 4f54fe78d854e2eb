"""Picks and times of nvMatmulHeuristics, NVIDIA's closed predictor, where its PyPI package is installed.

The package `nvidia-matmul-heuristics` (import name `nvMatmulHeuristics`) is never needed. Its interface, layouts, GPU
names and precision strings are those of its public Python reference, checked with 0.1.0.27. It orders kernels for
CUTLASS; its absolute times are estimates for that purpose.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module, metadata
from importlib.util import find_spec
from typing import Any

import numpy as np

MODULE, DISTRIBUTION = "nvMatmulHeuristics", "nvidia-matmul-heuristics"
GPUS = {  # our file -> the name in its enumeration NvMatmulHeuristicsNvidiaGpu
    "a100_sxm": "A100_SXM_80GB",
    "h100_sxm": "H100_SXM",
    "h100_pcie": "H100_PCIE",
    "h200_sxm": "H200_SXM",
    "b200_sxm": "B200",
    "l40s": "L40S",
    "rtx_3090": "RTX_3090",
    "rtx_4090": "RTX_4090",
    "rtx_5090": "RTX_5090",
    "rtx_pro_6000": "RTX_PRO_6000",
}
PRECISIONS = {"bf16": "TST", "fp16": "HSH", "fp8": "QQTST"}  # operands, accumulator, output: T bf16, H fp16, Q e4m3
LAYOUT = "NT_ROW_MAJOR"  # x[m, k] and W[n, k], both contiguous along k


@dataclass(frozen=True)
class Picks:
    """What nvMatmulHeuristics would run, one entry a shape.

    Attributes:
        latency_us: its own estimate for its first choice; NaN where it gave none.
        tile: (m, n) of that choice's CTA tile, int[shapes, 2]; 0 where it gave none.
        text: the choice in words; "" where it gave none.
        version: of the package.
    """

    latency_us: np.ndarray
    tile: np.ndarray
    text: tuple[str, ...]
    version: str


def is_installed() -> bool:
    """Whether the package can be imported; nothing is loaded."""
    return find_spec(MODULE) is not None


def heuristic_picks(shapes: Sequence[tuple[int, int, int]], gpu: str, dtype: str) -> Picks | str:
    """Asks nvMatmulHeuristics for its first choice and its time, shape by shape (some 50 us each, on the CPU).

    Its generic target with selection by its performance model is asked for.

    Args:
        shapes: (m, n, k).
        gpu, dtype: ours.

    Returns:
        The picks, or one line that says why there are none: a GPU or type it does not know, or a package that does not
        load.
    """
    if gpu not in GPUS:
        return f"nvMatmulHeuristics is not asked about {gpu}: it knows no such GPU"
    if dtype not in PRECISIONS:
        return f"nvMatmulHeuristics is not asked about {dtype}: known are {', '.join(PRECISIONS)}"
    try:
        library = import_module(MODULE)
        interface = library.NvMatmulHeuristicsInterfaceEx(
            backend=library.NvMatmulHeuristicsTarget.GENERIC,
            flags=library.NvMatmulHeuristicsFlags.PERF_MODEL_BASED_AUTO_TUNING,
            gpu=library.NvMatmulHeuristicsNvidiaGpu[GPUS[gpu]],
        )
        layout = library.NvMatmulHeuristicsMatmulLayout[LAYOUT]
        problems = [interface.makeNvMatmulHeuristicsProblem(*shape, layout) for shape in shapes]
        chosen = [_first(interface.get(problem, 1, PRECISIONS[dtype])) for problem in problems]
    except (ImportError, OSError, AssertionError, RuntimeError, KeyError, AttributeError, TypeError) as error:
        return f"nvMatmulHeuristics is installed but cannot be used ({type(error).__name__}: {error})"
    return Picks(
        latency_us=np.array([one["runtime"] * 1e6 if one else np.nan for one in chosen]),
        tile=np.array([_tile(one["kernel"]) if one else (0, 0) for one in chosen]).reshape(-1, 2),
        text=tuple(_words(one["kernel"]) if one else "" for one in chosen),
        version=_version(),
    )


def _first(found: Sequence[Any]) -> Any:
    return found[0] if found else None


def _tile(kernel: Any) -> tuple[int, int]:
    return int(kernel.cta_tile_m), int(kernel.cta_tile_n)


def _words(kernel: Any) -> str:
    tile = f"tile={kernel.cta_tile_m}x{kernel.cta_tile_n}x{kernel.cta_tile_k} stages={kernel.stages}"
    order = f"cta_order={'col' if kernel.cta_order else 'row'} grid_swizzle={kernel.swizzle_factor}"  # its own terms
    return f"{tile} cluster={kernel.cluster_m}x{kernel.cluster_n} {order} split_k={kernel.split_k}"


def _version() -> str:
    try:
        return metadata.version(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        return "unknown"
