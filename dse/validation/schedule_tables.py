"""Measured schedules: tables with one schedule and its latency a row, as the problems they were measured on."""

import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ..candidates import read_candidates
from ..content.files import home_expanded
from ..content.gpu import GpuFile
from ..errors import UserError
from ..kernels.gemm import LAYOUTS, GemmProblem
from ..schedule_text import distinct_raster, parse_schedule
from ..triton_config import TritonGpu

LATENCY = "latency_us"
CUTLASS_COLUMNS = ("size", "config_name", "median_time_ms")
CUTE_NUMBERS = ("M", "N", "K", "cta_m", "cta_n", "cta_k", "stages", "atom_m", "atom_n")
CUTE_COLUMNS = (*CUTE_NUMBERS, "a_major", "b_major", "avg_us")
# Stages that CUTLASS 3's automatic carve-out leaves of 227 KiB beside a bf16 epilogue of 32 KiB.
CUTLASS_STAGES = {"128x128x64": 6, "128x256x64": 4}
# The sweep casts 0 (called AlongM), 1 (AlongN) and 2 (Heuristic) to CUTLASS's enumeration, which counts Heuristic,
# AlongM, AlongN; and CUTLASS's heuristic walks along n where there are no more columns of tiles than rows.
CUTLASS_RASTERS = {"RasterM": "along_n", "RasterN": "along_m", "RasterH": "along_n"}
CUTLASS_NAME = re.compile(r"(\d+x\d+x\d+)_(\w+?)_(Raster[HMN])_Swz(\d+)(?:_Spl(\d+))?")
CUTE_PANELS = ((5, 8), (2, 4), (1, 2), (0, 1))  # more columns of tiles than the first: panels of the second


@dataclass(frozen=True)
class MeasuredSchedules:
    """Schedules of one problem with the latencies measured for them.

    Attributes:
        problem: what was computed, with its layout and the cache state at the start.
        names: what to call each schedule: the table's own name, or its line.
        families: the instruction family of each.
        schedules: field -> number, one a row.
        latency_us: measured, one a row.
    """

    problem: GemmProblem
    names: tuple[str, ...]
    families: tuple[str, ...]
    schedules: tuple[Mapping[str, int], ...]
    latency_us: np.ndarray

    @property
    def title(self) -> str:
        """Shape, layout and input type, in one line."""
        return f"{self.problem.shape} {self.problem.layout} {self.problem.dtype}"


def read_schedule_table(
    path: str | Path, gpu: GpuFile, problem: GemmProblem, family: str | None = None, sized: bool = True
) -> list[MeasuredSchedules]:
    """Reads a table of measured schedules, whichever of the known forms its columns show.

    * `latency_us` and a candidate a row, as `dse rank` takes it: a schedule (`tile`, `stages`, ... or single fields) or
      a Triton config (BLOCK_M, num_warps, ...). Columns m, n and k, where they are there, hold the row's problem.
    * `size, config_name, median_time_ms`: `read_cutlass_sweep`.
    * `M, N, K, a_major, b_major, cta_m, ..., avg_us`: `read_cute_sweep`.

    Args:
        path: a CSV file.
        gpu: families and SMs, to read Triton configs by.
        problem: of all rows; where rows bring m, n and k, only its types, layout and cache state count.
        family: of rows that are schedules; None: the GPU's fastest.
        sized: whether the problem's own m, n and k are meant; if not, the rows must bring theirs.

    Returns:
        One entry a problem, in the order in which the problems come.

    Raises:
        UserError: no such file, no column of latencies, a latency or dimension that is no number above 0, rows without
            a problem, or what `dse.candidates.read_candidates` raises.
    """
    rows = _rows(path)
    if set(CUTLASS_COLUMNS) <= set(rows[0]):
        return read_cutlass_sweep(path)
    if set(CUTE_COLUMNS) <= set(rows[0]):
        return read_cute_sweep(path)
    if LATENCY not in rows[0]:
        raise UserError(
            f"{path} has no column {LATENCY}; needed: {LATENCY} and a schedule or a Triton config, e.g. the columns "
            f"tile, stages, warps, raster, {LATENCY}"
        )
    latency_us = np.array([_positive(path, line, row, LATENCY) for line, row in enumerate(rows, 2)])
    problems = [_problem_of(path, line, row, problem, sized) for line, row in enumerate(rows, 2)]
    about = TritonGpu(gpu.families(problems[0].dtype), int(gpu["sm_count"]))
    tables = []
    for asked in dict.fromkeys(problems):
        candidates = read_candidates(path, asked, about, family)
        places = [place for place, found in enumerate(problems) if found == asked]
        chosen = [candidates[place] for place in places]
        tables.append(
            MeasuredSchedules(
                problem=asked,
                names=tuple(candidate.name for candidate in chosen),
                families=tuple(candidate.family for candidate in chosen),
                schedules=tuple(candidate.schedule for candidate in chosen),
                latency_us=latency_us[places],
            )
        )
    return tables


def read_cutlass_sweep(path: str | Path, sizes: Sequence[int] | None = None) -> list[MeasuredSchedules]:
    """A sweep of CUTLASS 3's stream-K scheduler over square bf16 problems: 128x256x64_SplitK_RasterM_Swz8_Spl1, ...

    The kernels: persistent and cooperative, two warpgroups on 128 rows, no clusters, row-major operands and output,
    warm L2. Rows that split K are left out: their time holds the allocation of a workspace. DataParallel and SplitK
    with one split are one schedule measured twice and are averaged; Heuristic, which decides for the data-parallel
    decomposition at sizes that fill their waves, stays a row of its own. Rasters are those that ran, which are not
    those of the names (`CUTLASS_RASTERS`).

    Args:
        path: a CSV file with the columns size, config_name, median_time_ms.
        sizes: m = n = k of the problems wanted; None: all.

    Raises:
        UserError: an unreadable file or name, a tile of unknown stages, or a size that the file lacks.
    """
    measured: dict[int, dict[str, list[float]]] = {}
    for line, row in enumerate(_rows(path), 2):
        match = CUTLASS_NAME.fullmatch(row["config_name"])
        if not match or match[1] not in CUTLASS_STAGES:
            raise UserError(
                f"{path}, line {line}: {row['config_name']!r} is not a name like 128x256x64_DataParallel_RasterM_Swz8 "
                f"of a tile whose stages are known ({', '.join(CUTLASS_STAGES)})"
            )
        tile, decomposition, raster, swizzle, splits = match.groups()
        if decomposition == "StreamK" or int(splits or 1) > 1:
            continue
        name = f"{tile} {'Heuristic' if decomposition == 'Heuristic' else 'DataParallel'} {raster} {swizzle}"
        size = int(_positive(path, line, row, "size"))
        latency_us = _positive(path, line, row, "median_time_ms") * 1e3
        measured.setdefault(size, {}).setdefault(name, []).append(latency_us)
    missing = [size for size in sizes or () if size not in measured]
    if missing:
        raise UserError(f"{path} has no data-parallel rows of size {missing[0]}; it has {sorted(measured)}")
    return [_cutlass_problem(size, measured[size]) for size in sizes or sorted(measured)]


def read_cute_sweep(path: str | Path) -> list[MeasuredSchedules]:
    """A sweep of CuTe's multistage tensor-op GEMM: mma.sync, fp16 in and out, fp32 accumulation, warm L2.

    The kernel walks panels of 8 columns of tiles (4, 2 or 1 where the grid has few) along m and stages its output
    through shared memory. The layout belongs to the problem: a_major and b_major say what is contiguous.

    Args:
        path: a CSV file with the columns `CUTE_COLUMNS`.

    Raises:
        UserError: an unreadable file, or a number that is none.
    """
    layouts = {majors: name for name, majors in LAYOUTS.items()}
    grouped: dict[GemmProblem, list[tuple[str, Mapping[str, int], float]]] = {}
    for line, row in enumerate(_rows(path), 2):
        at = {name: int(_positive(path, line, row, name)) for name in CUTE_NUMBERS}
        layout = layouts[float(row["a_major"] == "k"), float(row["b_major"] == "k")]
        sizes = (at["M"], at["N"], at["K"])
        problem = GemmProblem(*sizes, dtype="fp16", out_dtype="fp16", layout=layout, cache="warm").checked()
        columns = -(-at["N"] // at["cta_n"])
        panel = next(width for more_than, width in CUTE_PANELS if columns > more_than)
        name = (
            f"tile={at['cta_m']}x{at['cta_n']}x{at['cta_k']} stages={at['stages']} "
            f"warps={at['atom_m']}x{at['atom_n']} raster=along_m:{panel}"
        )
        schedule = distinct_raster(parse_schedule(name, "mma_sync"), problem.m, problem.n)
        grouped.setdefault(problem, []).append((name, schedule, _positive(path, line, row, "avg_us")))
    return [_of_one_family(problem, "mma_sync", rows) for problem, rows in grouped.items()]


def _cutlass_problem(size: int, measured: Mapping[str, Sequence[float]]) -> MeasuredSchedules:
    problem = GemmProblem(size, size, size, layout="tt", cache="warm").checked()
    rows = []
    for name, latencies in measured.items():
        tile, _, raster, swizzle = name.split()
        text = f"tile={tile} stages={CUTLASS_STAGES[tile]} warps=2wg raster={CUTLASS_RASTERS[raster]}:{swizzle}"
        schedule = parse_schedule(f"{text} launch=persistent", "wgmma")
        rows.append((name, distinct_raster(schedule, size, size), float(np.mean(latencies))))
    return _of_one_family(problem, "wgmma", rows)


def _of_one_family(
    problem: GemmProblem, family: str, rows: Sequence[tuple[str, Mapping[str, int], float]]
) -> MeasuredSchedules:
    names, schedules, latencies = zip(*rows, strict=True)
    return MeasuredSchedules(problem, names, (family,) * len(rows), schedules, np.array(latencies))


def _problem_of(path: str | Path, line: int, row: Mapping[str, str], problem: GemmProblem, sized: bool) -> GemmProblem:
    given = [name for name in ("m", "n", "k") if name in row]
    if len(given) == 3:
        m, n, k = (int(_positive(path, line, row, name)) for name in given)
        return replace(problem, m=m, n=n, k=k).checked()
    if given:
        raise UserError(f"{path} has a column {given[0]} but not all of m, n, k: give all three, or none and a shape")
    if not sized:
        raise UserError(f"{path} has no columns m, n, k: give the shape of its rows, --shape MxNxK")
    return problem


def _rows(path: str | Path) -> list[dict[str, str]]:
    path = home_expanded(path)
    if not path.is_file():
        raise UserError(f"no table of measured schedules at {path}; give a CSV file")
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = list(csv.DictReader(file, skipinitialspace=True))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"{path} is not a readable CSV file: {error}") from None
    if not rows:
        raise UserError(f"{path} holds no row: one schedule with its latency a line is needed")
    return [{str(name).strip(): str(value or "").strip() for name, value in row.items()} for row in rows]


def _positive(path: str | Path, line: int, row: Mapping[str, str], name: str) -> float:
    try:
        number = float(row[name])
    except ValueError:
        number = float("nan")
    if not 0 < number < float("inf"):
        raise UserError(f"{path}, line {line}: {name} = {row[name]!r} is not a number above 0")
    return number
