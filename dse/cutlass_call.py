"""The calls of CUTLASS's profiler that run a schedule; `dse.cutlass_kernel` reads them back.

Names follow the profiler's documentation ("CUTLASS 3.0 GEMM procedural names"): architecture, types of A, B,
accumulator, C and D, tile, cluster, stages (0: chosen by the collective builder), layouts, alignment, then tile
scheduler, mainloop and epilogue. What a kernel's name leaves open (launch order, split) is an argument. The library
builds CUTLASS 3 kernels with one number of stages, the most that fit, and `--stages` would only filter by it; so the
schedule's own number goes into a tag, a column of the profiler's output.

What a call does not show, but CUTLASS does:

* Panels (`--swizzle_size`) are as wide as the grid allows: 8 needs 6 tiles on the shorter side, 4 needs 3, 2 needs 2;
  of CUTLASS 2, which cuts panels of columns, the columns count.
* sm90 kernels that are not persistent have no tile scheduler: their grid is walked along m.
* The library's sm90 and CUTLASS 2 kernels write D column-major (`dse.cutlass_library`); the product is the same.
* A split of sm90 and sm100 is the stream-K scheduler's, with `--split_k_slices`. sm100 kernels are persistent, with
  the epilogue under the next tile's main loop.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .content.dtypes import DTYPE_BYTES
from .cutlass_library import not_in_library
from .schedule_text import EPILOGUES, FIELDS, distinct_raster

TYPES = {"bf16": "bf16", "fp16": "f16", "fp8": "e4m3", "int8": "s8", "tf32": "f32", "fp32": "f32", "int32": "s32"}
ACCUMULATORS = {"fp32": ("f32", "s"), "fp16": ("f16", "h"), "int32": ("s32", "i")}
ARCHITECTURES = {"wgmma": "90a", "tcgen05": "100a", "mma_sync": "80"}
SWIZZLES = (1, 2, 4, 8)
STAGES_TAG = "predicted_stages"
INSTRUCTION_K_BYTES = 32
DIRECT, STAGED, OVERLAPPED = range(len(EPILOGUES))


@dataclass(frozen=True)
class CutlassCall:
    """One profiler call.

    Attributes:
        kernel: filter of kernel names, with `*` where the name is open.
        arguments: flag -> value; of `call_of` those besides the problem's.
    """

    kernel: str
    arguments: Mapping[str, Any]


def call_of(schedule: Mapping[str, int], problem: Any, family: str, accumulator: str) -> CutlassCall | str:
    """The profiler call of a schedule, or why CUTLASS's library has no such kernel.

    What is returned reads back, through `dse.cutlass_kernel.schedule_of`, to the same schedule.

    Args:
        schedule: field -> number.
        problem: the user's problem.
        family: "wgmma" (sm90), "tcgen05" (sm100) or "mma_sync" (CUTLASS 2 kernels).
        accumulator: accumulator type.
    """
    at = distinct_raster({name: int(schedule[name]) for name in FIELDS}, problem.m, problem.n)
    obstacle = _obstacle(at, problem, family)
    if obstacle:
        return obstacle
    if family == "mma_sync":
        panelled = _panel_along_m(at, problem)
        return (
            _not_2x(panelled, problem)
            or not_in_library(at, problem, family)
            or _call_2x(panelled, problem, accumulator)
        )
    kind, missing = _sm90_schedule(at) if family == "wgmma" else _sm100_schedule(at)
    scheduled = at["persistent"] or at["split_k"] > 1
    if not missing and scheduled and at["swizzle"] != narrowed_panel(at["swizzle"], _short(at, problem)):
        missing = "a raster panel that CUTLASS narrows on a grid of so few tiles"
    missing = missing or not_in_library(at, problem, family)
    return missing or _call_3x(at, problem, family, accumulator, kind)


def narrowed_panel(asked: int, tiles: int) -> int:
    """The width of CUTLASS's panels on a grid of so many tiles (get_log_swizzle_size), where `asked` was asked for."""
    return next((width for width, needed in ((8, 6), (4, 3), (2, 2)) if asked >= width and tiles >= needed), 1)


def _short(at: Mapping[str, int], problem: Any) -> int:
    return min(-(-problem.m // at["tile_m"]), -(-problem.n // at["tile_n"]))


def _obstacle(at: Mapping[str, int], problem: Any, family: str) -> str:
    obstacles = (
        (problem.dtype not in TYPES or problem.dtype in ("fp32", "int32"), f"input type {problem.dtype}"),
        (at["swap_ab"], "swapped operands (profile the transposed problem)"),
        (at["sms_free"], "SMs left free"),
        (at["swizzle"] not in SWIZZLES, "a raster panel that is none of 1, 2, 4, 8"),
        (family == "wgmma" and at["warps_n"] > 1, "consumer warpgroups side by side along n"),
        (family == "wgmma" and at["warps_m"] not in (4, 8), "neither one nor two consumer warpgroups"),
        (family == "tcgen05" and (at["warps_m"], at["warps_n"]) != (4, 1), "epilogue warps other than four"),
        (family != "tcgen05" and at["cta_pair"], "a 2-CTA pair"),
        (at["split_k"] > 1 and at["stream_k"], "split-K under stream-K"),
        (at["split_k"] > 1 and at["persistent"], "split-K on a persistent grid"),
        (at["stream_k"] and not at["persistent"], "stream-K without a persistent grid"),
    )
    return next((what for met, what in obstacles if met), "")


def _sm90_schedule(at: Mapping[str, int]) -> tuple[str, str]:
    """The end of a kernel's name, or what CUTLASS has no kernel for."""
    two_groups, overlapped = at["warps_m"] == 8, at["epilogue"] == OVERLAPPED
    store = "_epi_nosmem" if at["epilogue"] == DIRECT else "_epi_tma"
    if at["stream_k"] or at["split_k"] > 1:
        if not two_groups or overlapped:
            return "", "a split that is not two-warpgroup cooperative"
        return f"_stream_k_warpspecialized_cooperative{store}", ""
    if overlapped:
        missing = "an overlapped epilogue of two warpgroups" if two_groups else ""
        return f"_warpspecialized_pingpong{store}", missing or (
            "" if at["persistent"] else "an overlapped epilogue of one tile"
        )
    if at["persistent"]:
        missing = "" if two_groups else "a persistent one-warpgroup kernel, not ping-pong"
        return f"_warpspecialized_cooperative{store}", missing
    if two_groups:
        return "", "a two-warpgroup kernel that is not persistent"
    walked = (at["raster_along_n"], at["swizzle"]) == (0, 1)
    return (
        f"_warpspecialized{store}",
        "" if walked else "a raster other than along_m:1 of a kernel that is not persistent",
    )


def _sm100_schedule(at: Mapping[str, int]) -> tuple[str, str]:
    split = at["split_k"] > 1
    if not at["persistent"] and not split:
        return "", "a tcgen05 kernel that is not persistent"
    if at["persistent"] and at["epilogue"] != OVERLAPPED:
        return "", "a persistent tcgen05 kernel without overlapped epilogue"
    if split and at["epilogue"] != STAGED:
        return "", "a split-K tcgen05 kernel with another than a staged epilogue"
    stream = "_stream_k" if at["stream_k"] or split else ""
    return f"{stream}_{'2sm' if at['cta_pair'] else '1sm'}*", ""


def _call_3x(at: Mapping[str, int], problem: Any, family: str, accumulator: str, kind: str) -> CutlassCall:
    types = "_".join(
        [TYPES[problem.dtype]] * 2 + [ACCUMULATORS[accumulator][0], _c_type(problem), TYPES[problem.out_dtype]]
    )
    core = "tf32gemm" if problem.dtype == "tf32" else "gemm"
    tile_m = at["tile_m"] * (2 if at["cta_pair"] else 1)
    tile = f"{tile_m}x{at['tile_n']}x{at['tile_k']}"
    cluster = f"{at['cluster_m']}x{at['cluster_n']}x1"
    sm = "90" if family == "wgmma" else "100"
    layouts = f"{problem.layout}{out_layout(family)}"
    name = f"cutlass3x_sm{sm}_tensorop_{core}_{types}_{tile}_{cluster}_0_{layouts}_align{_align(problem)}"
    arguments = {"op_class": "tensorop", "accum": ACCUMULATORS[accumulator][0]}
    if family == "wgmma":
        arguments |= {f"cta_{axis}": at[f"tile_{axis}"] for axis in "mnk"}
    arguments |= {"cluster_m": at["cluster_m"], "cluster_n": at["cluster_n"], "cluster_k": 1}
    arguments |= {"tags": f"{STAGES_TAG}:{at['stages']}"}
    return CutlassCall(name + kind, arguments | _order(at) | _split(at, "serial"))


def _panel_along_m(at: Mapping[str, int], problem: Any) -> dict[str, int]:
    """A walk along n of a grid that one panel covers, as that panel: the same order, and CUTLASS 2 can say it."""
    cols = -(-problem.n // at["tile_n"])
    wide_enough = [width for width in SWIZZLES if narrowed_panel(width, cols) >= cols]
    if not at["raster_along_n"] or at["swizzle"] > 1 or not wide_enough:
        return dict(at)
    return {**at, "raster_along_n": 0, "swizzle": wide_enough[0]}


def _not_2x(at: Mapping[str, int], problem: Any) -> str:
    columns = -(-problem.n // at["tile_n"])
    unlike = (
        (at["persistent"], "a persistent or stream-K CUTLASS 2 kernel"),
        (at["epilogue"] != STAGED, "an epilogue that does not go through shared memory"),
        (at["stages"] < 2, "a single stage"),
        (at["cluster_m"] * at["cluster_n"] > 1, "a cluster in CUTLASS 2"),
        (at["raster_along_n"], "a raster along n (CUTLASS 2 swizzles along m)"),
        (
            at["swizzle"] != narrowed_panel(at["swizzle"], columns) < columns,
            "a raster panel that CUTLASS narrows on a grid of so few tiles",
        ),
    )
    return next((what for met, what in unlike if met), "")


def _call_2x(at: Mapping[str, int], problem: Any, accumulator: str) -> CutlassCall:
    accumulated, letter = ACCUMULATORS[accumulator]
    k = int(INSTRUCTION_K_BYTES / DTYPE_BYTES[problem.dtype])
    dtype, out = TYPES[problem.dtype], TYPES[problem.out_dtype]
    before = f"{out}_" if out != accumulated else ""
    inner = "tf32" if problem.dtype == "tf32" else ""
    after = f"_{dtype}" if dtype != accumulated else ""
    tile = f"{at['tile_m']}x{at['tile_n']}_{at['tile_k']}x{at['stages']}"
    align = _align(problem)
    name = f"cutlass_tensorop_{before}{letter}168{k}{inner}gemm{after}_{tile}_{problem.layout}_align{align}"
    arguments = {"op_class": "tensorop", "accum": accumulated}
    arguments |= {f"cta_{axis}": at[f"tile_{axis}"] for axis in "mnk"} | {"stages": at["stages"]}
    arguments |= {"warps_m": at["warps_m"], "warps_n": at["warps_n"], "warps_k": 1}
    return CutlassCall(name, {**arguments, "swizzle_size": at["swizzle"], **_split(at, "parallel")})


def out_layout(family: str) -> str:
    """The layout of C and D in the library's kernels: "t", row-major, as problems have it, or "n", column-major, where
    there is no other."""
    return "t" if family == "tcgen05" else "n"


def _c_type(problem: Any) -> str:
    return TYPES[problem.out_dtype] if problem.beta else "void"


def _align(problem: Any) -> int:
    record = problem.arrays()
    aligned = min(float(record.a_align_bytes), float(record.b_align_bytes), 16.0)
    return max(1, int(aligned / DTYPE_BYTES[problem.dtype]))


def _order(at: Mapping[str, int]) -> dict[str, Any]:
    return {"raster_order": "along_n" if at["raster_along_n"] else "along_m", "swizzle_size": at["swizzle"]}


def _split(at: Mapping[str, int], mode: str) -> dict[str, Any]:
    return {"split_k_mode": mode, "split_k_slices": at["split_k"]} if at["split_k"] > 1 else {}
