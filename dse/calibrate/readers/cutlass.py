"""Measured latencies from the CSV that `cutlass_profiler --output` writes, or prints below "CSV Results:".

Columns as in the profiler's sources (performance_report.cpp, gemm_operation_profiler.cu, operation_profiler.cu):
Problem, Provider, OperationKind, Operation, Disposition, Status, the arguments, and the runtime in milliseconds.
What a kernel's name says of its schedule is read by the grammar that `dse.cutlass_call` writes.
"""

import csv
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...content.dtypes import default_accumulator
from ...cutlass_call import ACCUMULATORS, narrowed_panel
from ...errors import UserError, unknown
from ...kernels.gemm import GemmProblem
from ...schedule_text import EPILOGUES, FIELDS, distinct_raster
from .entry import Content, Entry, Named, ReadOptions, problem_at, seconds, whole

HEADER = re.compile(r"^(?:[^\n]*,)?Problem,Provider,OperationKind,Operation,Disposition,Status,", re.M)
TYPES = {  # the profiler's names of element types; e4m3 with and without the f of the library's own table
    "bf16": "bf16", "f16": "fp16", "e4m3": "fp8", "fe4m3": "fp8", "e5m2": "fp8", "fe5m2": "fp8", "s8": "int8",
    "tf32": "tf32", "f32": "tf32",
}  # fmt: skip
OUTPUTS = {**TYPES, "f32": "fp32", "s32": "int32"}
GOOD = ("passed", "not_verified")
_NEEDED = ("Provider", "Operation", "Disposition", "Status", "m", "n", "k", "A", "B", "C", "Runtime")
_NAME_3X = re.compile(
    r"cutlass3x_sm(?P<arch>\d+)_\w*?_(?P<m>\d+)x(?P<n>\d+)x(?P<k>\d+)_(?P<cluster_m>\d+)x(?P<cluster_n>\d+)x\d+"
    r"_\d+_[nt]{3}_align\d+(?P<kind>\w*)"
)


class _LeftOut(Exception):
    """A row that cannot be used, and why."""


def read_cutlass(path: Path, content: bytes, options: ReadOptions) -> Content:
    """The successful rows of a profiler run: CUTLASS rows with their schedule, cuBLAS rows without.

    The profiler rotates over operands larger than L2, so kernels start cold.

    Raises:
        UserError: a missing column, a cell that is no number, kernels for a family that the GPU does not have, or no
            row that can be used, with the reasons.
    """
    entries, left_out = [], Counter()
    for where, row in _rows(path, content.decode("utf-8", errors="replace")):
        try:
            entries.append(_entry(where, row, options, path))
        except _LeftOut as reason:
            left_out[str(reason)] += 1
    if not entries:
        reasons = "; ".join(f"{count}: {reason}" for reason, count in left_out.most_common()) or "there are none"
        raise UserError(f"{path} has no row that can be used ({reasons}): profile GEMMs of {options.gpu.name}")
    return Content(entries, left_out)


def _rows(path: Path, text: str) -> list[tuple[str, dict[str, str]]]:
    header = HEADER.search(text)
    if not header:
        raise UserError(
            f"{path} has no line Problem,Provider,OperationKind,...: give the file that cutlass_profiler "
            "--output=FILE.csv wrote (FILE.gemm.csv), or what it printed"
        )
    first = text.count("\n", 0, header.start()) + 1
    lines = text[header.start() :].splitlines()
    names = lines[0].split(",")
    missing = [name for name in _NEEDED if name not in names]
    if missing:
        raise UserError(f"{path}, line {first}: no column {', '.join(missing)}: profile with --operation=Gemm")
    rows = []
    for number, cells in enumerate(csv.reader(lines[1:]), first + 1):
        if len(cells) == len(names) and cells != names:
            rows.append((f"{path}, line {number}", dict(zip(names, cells, strict=True))))
        elif cells and cells[0].isdecimal() and len(cells) != len(names):
            raise UserError(f"{path}, line {number}: {len(cells)} values for {len(names)} columns: the line is cut off")
    return rows


def _entry(where: str, row: Mapping[str, str], options: ReadOptions, path: Path) -> Entry:
    if row["Provider"] not in ("CUTLASS", "cuBLAS"):
        raise _LeftOut(f"provider {row['Provider']}")
    if row["Status"] != "success" or row["Disposition"] not in GOOD:
        raise _LeftOut("not run, failed or incorrect")
    if row.get("OperationKind", "gemm") != "gemm" or "_tensorop_" not in row["Operation"]:
        raise _LeftOut("not a tensor-core GEMM")
    if row.get("split_k_slices", "1") not in ("1", "") or "stream_k" in row["Operation"]:
        raise _LeftOut("split-K or stream-K: the profiler's time holds the clearing of their workspace")
    problem = _problem(where, row)
    named = _named(where, row, problem, options) if row["Provider"] == "CUTLASS" else None
    latency_s = seconds(row["Runtime"], 1e-3, where, "Runtime")
    return Entry(where, problem, latency_s, f"{path.name} {row['Provider']}", named=named)


def _problem(where: str, row: Mapping[str, str]) -> GemmProblem:
    (a, a_layout), (b, b_layout) = (_tensor(row[name]) for name in "AB")
    out = _tensor(row.get("D") or row["C"])[0]
    if a != b or a not in TYPES or out not in OUTPUTS:
        raise _LeftOut(f"types {a}, {b} -> {out}")
    dtype = TYPES[a]
    if row.get("accum") not in (None, "", ACCUMULATORS[default_accumulator(dtype)][0]):
        raise _LeftOut(f"accumulates {a} in {row['accum']}")
    return problem_at(
        where,
        **{name: whole(row[name], where, name) for name in "mnk"},
        batch=whole(row.get("batch_count") or 1, where, "batch_count"),
        dtype=dtype,
        out_dtype=OUTPUTS[out],
        layout=a_layout + b_layout,
        beta=row.get("beta", "0") not in ("", "0"),
        cache="cold",
    )


def _tensor(cell: str) -> tuple[str, str]:
    element, _, layout = cell.partition(":")
    return element.lower(), "t" if layout.startswith(("row", "t")) else "n"


def _named(where: str, row: Mapping[str, str], problem: GemmProblem, options: ReadOptions) -> Named:
    name = row["Operation"]
    family, schedule = _schedule_3x(where, row) if name.startswith("cutlass3x") else _schedule_2x(where, row)
    families = options.gpu.families(problem.dtype)
    if family not in families:
        raise unknown(f"family in {where} ({name})", family, families, f"these {options.gpu.name} has")
    complete = {field: schedule.get(field, 0) for field in FIELDS} | _order(where, row, schedule, problem)
    return family, distinct_raster(complete, problem.m, problem.n)


def _schedule_3x(where: str, row: Mapping[str, str]) -> tuple[str, dict[str, int]]:
    match = _NAME_3X.fullmatch(row["Operation"])
    if not match:
        raise _LeftOut("a kernel name that does not state tile and cluster")
    kind, arch = match["kind"], int(match["arch"])
    pair = arch >= 100 and "_2sm" in kind
    at = {f"tile_{axis}": int(match[axis]) for axis in "mnk"}
    at["tile_m"] //= 2 if pair else 1  # the name counts a pair's rows
    for axis in ("cluster_m", "cluster_n"):  # a cluster chosen at run time is 0 in the name
        stated = _count(where, row, axis, int(match[axis]))
        at[axis] = stated or (2 if pair and axis == "cluster_m" else 1)
    at |= {"stages": whole(row.get("stages"), where, "stages"), "split_k": 1, "warps_n": 1, "cta_pair": int(pair)}
    if 100 <= arch < 120:
        return "tcgen05", {**at, "warps_m": 4, "persistent": 1, "epilogue": EPILOGUES.index("overlapped")}
    if arch != 90 or "warpspecialized" not in kind:
        raise _LeftOut(f"sm{arch} kernels of another kind than warp-specialised wgmma or tcgen05")
    direct = "_epi_tma" not in kind  # without a suffix the builder takes the epilogue without shared memory
    at["epilogue"] = EPILOGUES.index("direct" if direct else "staged")
    if "pingpong" in kind:
        return "wgmma", {**at, "warps_m": 4, "persistent": 1, "epilogue": EPILOGUES.index("overlapped")}
    if "cooperative" in kind:
        return "wgmma", {**at, "warps_m": 8, "persistent": 1}
    return "wgmma", {**at, "warps_m": 4}


def _schedule_2x(where: str, row: Mapping[str, str]) -> tuple[str, dict[str, int]]:
    names = {"tile_m": "cta_m", "tile_n": "cta_n", "tile_k": "cta_k", "stages": "stages", "warps_m": "warps_m"}
    at = {field: whole(row.get(name), where, name) for field, name in (names | {"warps_n": "warps_n"}).items()}
    if row.get("warps_k", "1") not in ("1", ""):
        raise _LeftOut("warps that share a tile along k")
    staged = EPILOGUES.index("staged")
    return "mma_sync", {**at, "cluster_m": 1, "cluster_n": 1, "split_k": 1, "epilogue": staged}


def _order(where: str, row: Mapping[str, str], at: Mapping[str, int], problem: Any) -> dict[str, int]:
    """Launch order: panels no wider than the grid allows, and along the shorter side where the choice is CUTLASS's.

    The rules are those of its tile scheduler's parameters (get_log_swizzle_size, get_rasterization_order).
    """
    rows, cols = -(-problem.m // at["tile_m"]), -(-problem.n // at["tile_n"])
    asked = _count(where, row, "swizzle_size", 1)
    if not at.get("persistent") and row["Operation"].startswith("cutlass_"):  # CUTLASS 2: panels of tile columns
        return {"raster_along_n": 0, "swizzle": narrowed_panel(asked, cols)}
    order = row.get("raster_order") or "heuristic"
    along_n = order == "along_n" if order != "heuristic" else cols <= rows
    return {"raster_along_n": int(along_n), "swizzle": narrowed_panel(asked, min(rows, cols))}


def _count(where: str, row: Mapping[str, str], name: str, default: int) -> int:
    cell = row.get(name) or "0"
    return default if cell == "0" else whole(cell, where, name)
