"""Runs a list of schedules as Triton matmuls on this machine's GPU and writes one row a schedule and shape.

    python scripts/calibrate_gpu/measure_gemm.py runs/gemm-.../top.parquet --shape 4096x4096x4096 --gpu h200_sxm
    python scripts/calibrate_gpu/compare_gemm.py measured.csv --gpu h200_sxm

The list is top.parquet of a run, the JSON of `dse top --json`, CSV, or the module of `dse export --to triton`. Weights
are cold (copies of them rotate), activations stay warm, latencies are medians of graph replays, every result is checked
against PyTorch. With --ncu, Nsight Compute counts L2 hits and DRAM bytes of each schedule from cold caches.
Needs PyTorch and Triton.
"""

import argparse
import csv
import importlib.util
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from dse.content.gpu import load_gpu
from dse.errors import UserError
from dse.kernels.gemm import GemmProblem, gemm_problem
from scripts.calibrate_gpu.ncu import METRICS, combine, ncu_command, parse_ncu
from scripts.calibrate_gpu.schedules import OPTIONS, Planned, plan

NEEDED = ("torch", "triton")
KERNELS = "tilesweep_.*"
COLUMNS = (
    *("m", "n", "k", "dtype", "name", "family", *OPTIONS),
    *("latency_s", "latency_low_s", "latency_high_s", "replays", "error", "correct", "registers", "smem_bytes", "why"),
    *METRICS,
)


def require_gpu_software() -> None:
    """Raises UserError, one message, where PyTorch, Triton or a GPU is missing."""
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise UserError(
            f"measuring needs {' and '.join(missing)}, not installed here; install PyTorch with CUDA (it brings "
            "Triton) on a machine with an NVIDIA GPU and run this there"
        )
    import torch  # pyright: ignore[reportMissingImports]

    if not torch.cuda.is_available():
        raise UserError("measuring needs an NVIDIA GPU: PyTorch finds none here")


def row_of(problem: GemmProblem, planned: Planned, outcome: Mapping[str, Any]) -> dict[str, Any]:
    """One row of the table: the shape, the schedule's options, and what came of it (a `why` where nothing did)."""
    shape = {"m": problem.m, "n": problem.n, "k": problem.k, "dtype": problem.dtype}
    return (
        dict.fromkeys(COLUMNS, "")
        | shape
        | {"name": planned.name, "family": planned.family}
        | planned.options
        | dict(outcome)
    )


def outcome_of(
    latency_s: Sequence[float], error: float, tolerance: float, registers: int, smem_bytes: int
) -> dict[str, Any]:
    """Columns of a schedule that ran: the median and the range of the replays' latencies, and whether it was right."""
    return {
        "latency_s": median(latency_s),
        "latency_low_s": min(latency_s),
        "latency_high_s": max(latency_s),
        "replays": len(latency_s),
        "error": error,
        "correct": int(error <= tolerance),  # NaN is not
        "registers": registers,
        "smem_bytes": smem_bytes,
    }


def write_table(rows: Sequence[Mapping[str, Any]], path: str | Path) -> None:
    """Writes the rows as CSV.

    Raises:
        UserError: the file cannot be written.
    """
    try:
        with Path(path).open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, COLUMNS)
            writer.writeheader()
            writer.writerows(rows)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}; choose another with -o") from None


def main(arguments: Sequence[str] | None = None) -> int:
    """Reads the arguments, runs, writes the table; 2 on bad input."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("schedules", help="top.parquet, JSON, CSV or a Python module of Triton configs")
    parser.add_argument("--shape", action="append", required=True, metavar="MxNxK", help="may be given several times")
    parser.add_argument("--gpu", required=True, help="name or TOML file: decides what Triton compiles a schedule to")
    parser.add_argument("--dtype", default="bf16", help="bf16 (default), fp16 or fp8")
    parser.add_argument("--count", type=int, default=64, help="the first so many schedules of the list (default: 64)")
    parser.add_argument("--replays", type=int, default=20, help="graph replays (default: 20)")
    parser.add_argument("--ncu", action="store_true", help="count L2 hits and DRAM bytes where ncu is on PATH")
    parser.add_argument("-o", "--output", default="measured.csv", help="default: measured.csv")
    parser.add_argument("--profiled", metavar="FILE", help=argparse.SUPPRESS)  # what runs under ncu
    options = parser.parse_args(arguments)
    try:
        return _run(options)
    except UserError as error:
        print(f"measure_gemm: {error}", file=sys.stderr)
        return 2


def _run(options: argparse.Namespace) -> int:
    gpu = load_gpu(options.gpu)
    problems = [gemm_problem(shape, dtype=options.dtype) for shape in options.shape]
    if options.dtype not in ("bf16", "fp16", "fp8"):
        raise UserError(f"dtype {options.dtype!r} is not measured here; bf16, fp16 and fp8 are")
    plans = [(problem, *plan(options.schedules, problem, gpu)) for problem in problems]
    require_gpu_software()
    if options.profiled:
        _profiled_child(options, plans)
        return 0
    if options.ncu and shutil.which("ncu") is None:
        raise UserError("--ncu needs Nsight Compute: no ncu on PATH; install it or leave --ncu out")
    rows: list[dict[str, Any]] = []
    for problem, planned, left in plans:
        for what, count in left.items():
            print(f"{problem.shape}: {count} left out with {what}", file=sys.stderr)
        rows += _measure(problem, planned[: options.count], options.replays)
        write_table(rows, options.output)  # after each shape: what comes later may fail or be stopped
    if options.ncu:
        write_table(_counted(options, rows), options.output)
    print(f"wrote {options.output}: {len(rows)} rows, {sum(row['why'] == '' for row in rows)} of them ran")
    return 0


def _measure(problem: GemmProblem, planned: Sequence[Planned], replays: int) -> list[dict[str, Any]]:
    from scripts.calibrate_gpu.run_matmul import TOLERANCE, make_buffers, time_library, time_matmul

    buffers = make_buffers(problem)
    rows = []
    for one in planned:
        try:
            timed = time_matmul(one, problem, buffers, replays)
        except Exception as error:  # whatever the compiler or the driver raises is this schedule's outcome
            rows.append(row_of(problem, one, {"why": " ".join(f"{type(error).__name__}: {error}".split())[:200]}))
            continue
        tolerance = TOLERANCE[problem.dtype]
        outcome = outcome_of(timed.latency_s, timed.error, tolerance, timed.registers, timed.smem_bytes)
        rows.append(row_of(problem, one, outcome))
        print(f"{problem.shape} {outcome['latency_s'] * 1e6:9.2f} us  {one.key}", file=sys.stderr)
    library = time_library(problem, buffers, replays)
    if library is not None:
        about = {
            "m": problem.m,
            "n": problem.n,
            "k": problem.k,
            "dtype": problem.dtype,
            "name": "library",
            "family": "library",
        }
        rows.append(dict.fromkeys(COLUMNS, "") | about | outcome_of(library, 0.0, 1.0, 0, 0))
    return rows


def _profiled_child(options: argparse.Namespace, plans: Sequence[tuple[GemmProblem, list[Planned], Any]]) -> None:
    from scripts.calibrate_gpu.run_matmul import call_once_profiled, make_buffers

    kernels: list[int] = []
    for problem, planned, _ in plans:
        buffers = make_buffers(problem)
        for one in planned[: options.count]:
            try:
                kernels.append(call_once_profiled(one, problem, buffers))
            except Exception:  # it has said why where it was timed
                kernels.append(0)
    Path(options.profiled).write_text(json.dumps(kernels))


def _counted(options: argparse.Namespace, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        ran = Path(folder) / "kernels.json"
        shapes = [word for shape in options.shape for word in ("--shape", shape)]
        words = [
            options.schedules,
            *shapes,
            "--gpu",
            options.gpu,
            "--dtype",
            options.dtype,
            "--count",
            str(options.count),
        ]
        command = ncu_command([sys.executable, str(Path(__file__).resolve()), *words, "--profiled", str(ran)], KERNELS)
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if not ran.is_file():
            raise UserError(
                f"the run under ncu failed ({done.returncode}): {(done.stderr or done.stdout).strip()[-500:]}"
            )
        kernels = json.loads(ran.read_text())
    own = [row for row in rows if row["family"] != "library"]
    if len(own) != len(kernels):
        raise UserError(f"the run under ncu had {len(kernels)} schedules, the table has {len(own)}")
    counted = iter(combine(parse_ncu(done.stdout), [number for number in kernels if number]))
    for row, number in zip(own, kernels, strict=True):
        if number:
            one = next(counted)
            row |= {name: getattr(one, name) for name in METRICS}
    return rows


if __name__ == "__main__":
    sys.exit(main())
