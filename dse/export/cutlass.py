"""Schedules as calls of CUTLASS's profiler and as filters of its kernel names.

Names follow the profiler's documentation ("CUTLASS 3.0 GEMM procedural names"): architecture, types of A, B,
accumulator, C and D, tile, cluster, stages (0: chosen by the collective builder), layouts, alignment, schedule. What a
kernel's name leaves open (stages, launch order, split) is an argument.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..content.dtypes import DTYPE_BYTES
from ..schedule_text import FIELDS
from .choose import choose
from .entry import Entry, Exported
from .text import comment, exported

TYPES = {"bf16": "bf16", "fp16": "f16", "fp8": "e4m3", "int8": "s8", "tf32": "f32", "fp32": "f32", "int32": "s32"}
ACCUMULATORS = {"fp32": ("f32", "s"), "fp16": ("f16", "h"), "int32": ("s32", "i")}
ARCHITECTURES = {"wgmma": "90a", "tcgen05": "100a", "mma_sync": "80"}
SWIZZLES = (1, 2, 4, 8)
INSTRUCTION_K_BYTES = 32


@dataclass(frozen=True)
class Call:
    """One profiler call.

    Attributes:
        kernel: filter of kernel names, with `*` where the name is open.
        arguments: flag -> value, besides the problem's.
    """

    kernel: str
    arguments: Mapping[str, Any]


def export_cutlass(
    entries: Sequence[Entry],
    problem: Any,
    family: str,
    accumulator: str,
    gpu_name: str,
    *,
    what_if: Sequence[str] = (),
    count: int | None = None,
    fallback: Sequence[Entry] = (),
) -> Exported:
    """A shell script: one `cutlass_profiler` call a schedule, and above them the filter that builds just these kernels.

    Args:
        entries: schedules, best first.
        problem: the user's problem.
        family: "wgmma" (sm90), "tcgen05" (sm100) or "mma_sync" (CUTLASS 2 kernels).
        accumulator: accumulator type.
        gpu_name: for the head of the file.
        what_if: lines for the head of the file, what was changed of the GPU.
        count: only the first so many that can be expressed; None: all.
        fallback: further schedules, best first, where `entries` hold too few; see `dse.export.choose.choose`.
    """

    def express(entry: Entry) -> Call | str:
        return call_of(entry.schedule, problem, family, accumulator)

    chosen = choose(entries, express, count, fallback)
    kernels = list(dict.fromkeys(call.kernel for _, call in chosen.made))
    head = comment(
        [
            f"GEMM {problem.shape} {problem.dtype} on {gpu_name}, {family}: predicted by tilesweep, best first.",
            *what_if,
            "Build the kernels with",
            f"  cmake .. -DCUTLASS_NVCC_ARCHS={ARCHITECTURES[family]} -DCUTLASS_LIBRARY_INSTANTIATION_LEVEL=max \\",
            f'    -DCUTLASS_LIBRARY_KERNELS="{",".join(kernels)}"',
            "The profiler picks --stages from what it built; it reports kernels that were built with another number as",
            "not run.",
        ],
        chosen,
    )
    lines = ["#!/bin/sh", *head, 'profiler="${CUTLASS_PROFILER:-cutlass_profiler}"']
    for entry, call in chosen.made:
        arguments = {**_problem_arguments(problem, family), **call.arguments}
        flags = " ".join(f"--{name}={value}" for name, value in arguments.items())
        lines += [f"# {entry.remark}", f"\"$profiler\" --operation=Gemm --kernels='{call.kernel}' {flags}"]
    return exported(lines, chosen)


def call_of(schedule: Mapping[str, int], problem: Any, family: str, accumulator: str) -> Call | str:
    """The profiler call of a schedule, or why CUTLASS's library has no such kernel."""
    at = {name: int(schedule[name]) for name in FIELDS}
    obstacle = _obstacle(at, problem, family)
    if obstacle:
        return obstacle
    if family == "mma_sync":
        return _call_2x(_panel_along_m(at, problem), problem, accumulator)
    kind, missing = _sm90_schedule(at) if family == "wgmma" else _sm100_schedule(at)
    return missing or _call_3x(at, problem, family, accumulator, kind)


def _obstacle(at: Mapping[str, int], problem: Any, family: str) -> str:
    obstacles = (
        (problem.dtype not in TYPES or problem.dtype in ("fp32", "int32"), f"input type {problem.dtype}"),
        (at["swap_ab"], "swapped operands (profile the transposed problem)"),
        (at["sms_free"], "SMs left free"),
        (at["swizzle"] not in SWIZZLES, "a raster panel that is none of 1, 2, 4, 8"),
        (family == "wgmma" and at["warps_n"] > 1, "consumer warpgroups side by side along n"),
        (at["split_k"] > 1 and at["stream_k"], "split-K under stream-K"),
    )
    return next((what for met, what in obstacles if met), "")


def _sm90_schedule(at: Mapping[str, int]) -> tuple[str, str]:
    """The end of a kernel's name, or what CUTLASS has no kernel for."""
    two_groups, overlapped = at["warps_m"] == 8, at["epilogue"] == 2
    store = "_epi_nosmem" if at["epilogue"] == 0 else "_epi_tma"
    if at["stream_k"] or at["split_k"] > 1:
        if not two_groups or overlapped:
            return "", "a split that is not two-warpgroup cooperative"
        return f"_stream_k_warpspecialized_cooperative{store}", ""
    if overlapped:
        missing = "an overlapped epilogue of two warpgroups" if two_groups else ""
        return f"_warpspecialized_pingpong{store}", missing
    if at["persistent"]:
        missing = "" if two_groups else "a persistent one-warpgroup kernel, not ping-pong"
        return f"_warpspecialized_cooperative{store}", missing
    return f"_warpspecialized{store}", "a two-warpgroup kernel that is not persistent" if two_groups else ""


def _sm100_schedule(at: Mapping[str, int]) -> tuple[str, str]:
    if not at["persistent"] and at["split_k"] == 1:
        return "", "a tcgen05 kernel that is not persistent"
    if at["persistent"] and not at["stream_k"] and at["epilogue"] != 2:
        return "", "a persistent tcgen05 kernel without overlapped epilogue"
    stream = "_stream_k" if at["stream_k"] or at["split_k"] > 1 else ""
    return f"{stream}*{'_2sm' if at['cta_pair'] else '_1sm'}*", ""


def _call_3x(at: Mapping[str, int], problem: Any, family: str, accumulator: str, kind: str) -> Call:
    types = "_".join(
        [TYPES[problem.dtype]] * 2 + [ACCUMULATORS[accumulator][0], _c_type(problem), TYPES[problem.out_dtype]]
    )
    core = "tf32gemm" if problem.dtype == "tf32" else "gemm"
    tile_m = at["tile_m"] * (2 if at["cta_pair"] else 1)
    tile = f"{tile_m}x{at['tile_n']}x{at['tile_k']}"
    cluster = f"{at['cluster_m']}x{at['cluster_n']}x1"
    sm = "90" if family == "wgmma" else "100"
    name = f"cutlass3x_sm{sm}_tensorop_{core}_{types}_{tile}_{cluster}_0_{problem.layout}t_align{_align(problem)}"
    arguments = {"op_class": "tensorop", "accum": ACCUMULATORS[accumulator][0]}
    if family == "wgmma":
        arguments |= {f"cta_{axis}": at[f"tile_{axis}"] for axis in "mnk"}
    arguments |= {"cluster_m": at["cluster_m"], "cluster_n": at["cluster_n"], "cluster_k": 1, "stages": at["stages"]}
    return Call(name + kind, arguments | _order(at) | _split(at, "serial"))


def _panel_along_m(at: Mapping[str, int], problem: Any) -> dict[str, int]:
    """A walk along n of a grid that one panel covers, as that panel: the same order, and CUTLASS 2 can say it."""
    cols = -(-problem.n // at["tile_n"])
    wide_enough = [width for width in SWIZZLES if width >= cols]
    if not at["raster_along_n"] or at["swizzle"] > 1 or not wide_enough:
        return dict(at)
    return {**at, "raster_along_n": 0, "swizzle": wide_enough[0]}


def _call_2x(at: Mapping[str, int], problem: Any, accumulator: str) -> Call | str:
    unlike = (
        (at["persistent"], "a persistent or stream-K CUTLASS 2 kernel"),
        (at["epilogue"] != 1, "an epilogue that does not go through shared memory"),
        (at["stages"] < 2, "a single stage"),
        (at["raster_along_n"], "a raster along n (CUTLASS 2 swizzles along m)"),
    )
    for met, what in unlike:
        if met:
            return what
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
    return Call(name, {**arguments, "swizzle_size": at["swizzle"], **_split(at, "parallel")})


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


def _problem_arguments(problem: Any, family: str) -> dict[str, Any]:
    layouts = {"t": "row", "n": "column"}
    a, b = (layouts[letter] for letter in problem.layout)
    dtype, out = TYPES[problem.dtype], TYPES[problem.out_dtype]
    tensors = {"A": f"{dtype}:{a}", "B": f"{dtype}:{b}"}
    if family == "mma_sync":
        tensors["C"] = f"{out}:row"  # CUTLASS 2: C and D are of one type
    else:
        tensors |= {"C": f"{out}:row" if problem.beta else "void", "D": f"{out}:row"}
    sizes = {"m": problem.m, "n": problem.n, "k": problem.k, "batch_count": problem.batch}
    return sizes | tensors | {"alpha": 1, "beta": int(problem.beta)}
