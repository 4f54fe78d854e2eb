"""Which kernels CUTLASS's library has: what its generator instantiates at most, as of CUTLASS 4.2.

Read off python/cutlass_library of github.com/NVIDIA/cutlass: generator.py (GenerateSM80_TensorOp_16816, _1688,
_16832_TN, GenerateSM89_TensorOp_16832_fp8), sm90_shapes.py, sm90_utils.py (is_tile_desc_valid, get_valid_schedules) and
sm100_shapes.py, and off the names that it emits for bf16. A profiler call for another kernel finds nothing to run.

* sm90: 64, 128 or 256 rows, K-steps of 4, 8 or 16 instructions (128, 256, 512 bytes) with room for two of them by a
  rough rule; results column-major; kernels that are not persistent store directly.
* sm100: K-steps of 128 bytes.
* CUTLASS 2: a list of tiles with their stages and warps; results column-major.
* 8-bit operands of sm90 and CUTLASS 2: both contiguous along k (layout tn).
"""

from collections.abc import Mapping
from typing import Any

from .content.dtypes import DTYPE_BYTES

POWERS_OF_TWO = "max"
EVERY_WIDTH = "9993"  # CUTLASS_LIBRARY_INSTANTIATION_LEVEL; "max" leaves out sm90's widths that are no powers of two
STEP_BYTES_90, STEP_BYTES_100 = (128, 256, 512), 128
ROWS_90 = (64, 128, 256)
EPILOGUE_BITS_MAX = 2**20  # of C and D in shared memory
WARPS_2X = {  # tile -> warps
    (256, 128): (4, 2), (128, 256): (2, 4), (256, 64): (4, 1), (64, 256): (1, 4), (128, 128): (2, 2), (128, 64): (2, 2),
    (64, 128): (2, 2), (64, 64): (2, 2), (256, 32): (4, 1), (32, 256): (1, 4), (128, 32): (4, 1), (32, 128): (1, 4),
}  # fmt: skip
_WIDE = {(256, 128): (3,), (128, 256): (3,)}
_THIN = {(256, 32): (4,), (32, 256): (4,)}
STAGES_2X: dict[str, dict[int, dict[tuple[int, int], tuple[int, ...]]]] = {  # type -> K-step in bytes -> tile -> stages
    "bf16": {
        64: {**_WIDE, (256, 64): (3, 4), (64, 256): (4,), (128, 128): (3, 4, 5), (128, 64): (6,), (64, 128): (6,),
             (64, 64): (10,)},
        128: {**_WIDE, (256, 64): (3, 4), (64, 256): (3, 4), (128, 128): (3, 4), (128, 64): (3,), (64, 128): (3,),
              (64, 64): (5,)},
    },
    "tf32": {
        64: {**_WIDE, (256, 64): (4,), (64, 256): (4,), (128, 128): (3, 4, 5), (128, 64): (6,), (64, 128): (6,),
             (64, 64): (10,)},
        128: {**_WIDE, (256, 64): (4,), (64, 256): (4,), (128, 128): (3, 4), (128, 64): (3,), (64, 128): (3,),
              (64, 64): (5,)},
    },
    "int8": {
        64: {**_WIDE, **_THIN, (256, 64): (4,), (64, 256): (4,), (128, 128): (5,), (128, 64): (6,), (64, 128): (6,),
             (128, 32): (6,), (32, 128): (6,), (64, 64): (10,)},
        128: {**_WIDE, **_THIN, (256, 64): (4,), (64, 256): (4,), (128, 128): (4,), (128, 64): (3,), (64, 128): (3,),
              (128, 32): (4,), (32, 128): (4,), (64, 64): (5,)},
    },
    "fp8": {
        64: {**_THIN, (256, 128): (3, 6), (128, 256): (3, 6), (256, 64): (3, 4), (64, 256): (3, 4),
             (128, 128): (3, 4, 5, 6), (128, 64): (3, 4, 5, 6), (64, 128): (3, 4, 5, 6), (128, 32): (6,),
             (32, 128): (6,), (64, 64): (6, 10)},
        128: {**_WIDE, **_THIN, (256, 64): (4,), (64, 256): (4,), (128, 128): (3, 4, 5), (128, 64): (3, 4),
              (64, 128): (3, 4), (128, 32): (4,), (32, 128): (4,), (64, 64): (5, 6)},
    },
}  # fmt: skip
STAGES_2X["fp16"] = STAGES_2X["bf16"]


def not_in_library(at: Mapping[str, int], problem: Any, family: str) -> str:
    """Why CUTLASS's library has no kernel of a schedule that its templates could be; "" where it has one.

    Args:
        at: a schedule that `dse.cutlass_call` can name.
        problem: the user's problem, of a type that CUTLASS multiplies.
        family: "wgmma", "tcgen05" or "mma_sync".
    """
    if family != "tcgen05" and DTYPE_BYTES[problem.dtype] == 1 and problem.layout != "tn":
        return f"8-bit operands in layout {problem.layout} (the library has tn)"
    step_bytes = round(at["tile_k"] * DTYPE_BYTES[problem.dtype])
    if family == "wgmma":
        return _not_sm90(at, problem, step_bytes)
    if family == "tcgen05":
        if step_bytes != STEP_BYTES_100:
            return "a K-step other than 128 bytes (the library's sm100 kernels have no other)"
        granule = 32 if at["cta_pair"] else 16
        return f"a tile_n that is no multiple of {granule}" if at["tile_n"] % granule else ""
    stages = STAGES_2X[problem.dtype].get(step_bytes, {}).get((at["tile_m"], at["tile_n"]), ())
    if at["stages"] not in stages:
        return "a tile, K-step and stages that no CUTLASS 2 kernel of the library has"
    warps = (at["warps_m"], at["warps_n"])
    return "" if warps == WARPS_2X[at["tile_m"], at["tile_n"]] else "warps that no CUTLASS 2 kernel of this tile has"


def instantiation_level(schedules: list[Mapping[str, int]], family: str) -> str:
    """The CUTLASS_LIBRARY_INSTANTIATION_LEVEL at which the generator emits kernels of these schedules."""
    wide = family == "wgmma" and any(at["tile_n"] & (at["tile_n"] - 1) for at in schedules)
    return EVERY_WIDTH if wide else POWERS_OF_TWO


def _not_sm90(at: Mapping[str, int], problem: Any, step_bytes: int) -> str:
    if step_bytes not in STEP_BYTES_90 or at["tile_k"] > 256:
        return "a K-step other than 128, 256 or 512 bytes (the library's sm90 kernels have no other)"
    if at["tile_m"] not in ROWS_90:
        return "a tile_m that is none of 64, 128, 256"
    if at["warps_m"] == 8 and at["tile_m"] % 128:
        return "two warpgroups on 64 rows"
    if at["tile_n"] < 16 or (problem.dtype == "int8" and at["tile_n"] % 16):
        return "a tile_n that the library does not have"
    if _too_deep(at, problem):
        return "a K-step that the library counts as too deep for the tile"
    one_tile = not at["persistent"] and at["split_k"] == 1
    if one_tile and at["epilogue"]:
        return "a staged epilogue of a kernel that is not persistent"
    bits = 8 * DTYPE_BYTES[problem.out_dtype] * (2 if problem.beta else 1)
    if at["epilogue"] and bits * at["tile_m"] * at["tile_n"] > EPILOGUE_BITS_MAX:
        return "a staged epilogue that the library counts as too large"
    return ""


def _too_deep(at: Mapping[str, int], problem: Any) -> bool:
    rows, columns = at["tile_m"] * at["cluster_m"], at["tile_n"] * at["cluster_n"]
    one_side, both = max(rows, columns) >= 128, min(rows, columns) >= 256
    limits = {
        "tf32": (one_side and at["tile_k"] >= 128) or (both and at["tile_k"] >= 64),
        "bf16": both and at["tile_k"] >= 128,
        "fp16": both and at["tile_k"] >= 128,
    }
    return limits.get(problem.dtype, False) or (one_side and at["tile_k"] >= 256)
