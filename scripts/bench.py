"""Measures the speed and memory that the README states, each beside its baseline in the same run.

python scripts/bench.py [rate] [memory] [command]     # all three without arguments; about three minutes on two cores

rate     candidates a second of the complete model with top-10 and a three-objective front (steady state: the second
         sweep of one process), against the same model executed by NumPy on the same cores
memory   peak memory of a process that sweeps 10^6 points, and 10^9 for as long as --seconds allows
command  `dse sweep` as a whole command on a space of about 10^7 points, first and second run
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
SHAPE, GPU = "8192x8192x8192", "h200_sxm"
PARTS = ("rate", "memory", "command")
NUMPY_LANES = (2**13, 2**14, 2**15, 2**16)
NUMPY_SECONDS = 4.0  # a chunk size
NUMPY_CHUNKS = 24
LATENCY_TOLERANCE, BYTES_TOLERANCE = 1e-5, 1e-4  # float32; DDR bytes are a small difference of large hit shares
COMMAND = [
    *(sys.executable, "-c", "import sys; from dse.cli import main; sys.exit(main())"),
    *("sweep", "gemm", "--shape", SHAPE, "--dtype", "bf16", "--gpu", GPU, "--axis", "stages=3,4,5", "--quiet"),
]


def sweep_job(points: int | None = None) -> Any:
    """The sweep that is timed: the whole Hopper GEMM space, or one of at least `points` points built from it."""
    from dse.axis import Axis
    from dse.content import load_gpu
    from dse.content.space import load_space
    from dse.job import SweepJob
    from dse.problem import gemm_problem

    space = load_space("gemm", "wgmma", "bf16")
    if points is not None and points < space.size:
        space = space.restrict({"stages": [3, 4], "launch": list(space.axis("launch").labels[:4])})
    elif points is not None:
        finer = {"tile_n": range(1, 257), "stages": range(2, 2 + 9 * -(-points // (8 * space.size)))}
        axes = (Axis.of(axis.name, finer[axis.name]) if axis.name in finer else axis for axis in space.axes)
        space = replace(space, axes=tuple(axes))
    return SweepJob(space, gemm_problem(SHAPE), load_gpu(GPU).bind("bf16"))


def measure_rate(repeats: int = 3) -> dict[str, float]:
    """Candidates a second: the sweep in steady state, and the same model in NumPy."""
    from dse.sweep import run_sweep

    job = sweep_job()
    run_sweep(job)
    rates = sorted(run_sweep(job).rate for _ in range(repeats))
    numpy_rate, latency_error = _numpy_rate(job)
    return {
        "points": job.candidates,
        "rate": statistics.median(rates),
        "rate_min": rates[0],
        "rate_max": rates[-1],
        "numpy_rate": numpy_rate,
        "ratio": statistics.median(rates) / numpy_rate,
        "latency_error": latency_error,
    }


def measure_memory(points: int, seconds: float) -> dict[str, float]:
    """Peak memory of this process after sweeping a space of that size for at most so long."""
    from dse.sweep import run_sweep

    def stop_when_late(snapshot: Any) -> None:
        if snapshot.seconds > seconds and not snapshot.finished:
            raise KeyboardInterrupt

    job = sweep_job(points)
    result = run_sweep(job, progress=stop_when_late)
    unit = 1 if sys.platform == "darwin" else 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    return {"points": job.candidates, "evaluated": result.evaluated, "rate": result.rate, "peak_bytes": peak}


def measure_command(runs: int = 4) -> dict[str, float]:
    """Wall time of the command; its cache of compiled functions is empty at the first run only."""
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"XDG_CACHE_HOME": folder, "JAX_COMPILATION_CACHE_DIR": f"{folder}/jax"}
        seconds = []
        for run in range(runs):
            began = time.perf_counter()
            command = [*COMMAND, "--out", f"{folder}/run{run}"]
            subprocess.run(command, cwd=ROOT, env=environment, check=True, stdout=subprocess.DEVNULL)
            seconds.append(time.perf_counter() - began)
    return {"first_s": seconds[0], "second_s": seconds[1], "median_later_s": statistics.median(seconds[1:])}


def _numpy_rate(job: Any) -> tuple[float, float]:
    import jax
    from numpy_model import numpy_program

    model, space = job.model, job.space
    problem, gpu = job.problem_arrays, job.gpu

    def objectives(columns: dict[str, Any]) -> tuple[Any, ...]:
        cost = model.cost(problem, model.schedule(columns), gpu)
        return cost.latency_s, cost.ddr_bytes, cost.smem_bytes, cost.reason

    spread = np.arange(max(NUMPY_LANES)) * (space.size // max(NUMPY_LANES))
    columns = {name: values.astype(np.float32) for name, values in space.rows(spread).items()}
    program = numpy_program(objectives, columns)
    expected = [np.asarray(values) for values in jax.jit(objectives)(columns)]
    feasible = expected[3] == 0
    with np.errstate(all="ignore"):
        found = [np.broadcast_to(values, feasible.shape) for values in program(*jax.tree.leaves(columns))]
    errors = [np.max(np.abs(f - e)[feasible] / e[feasible]) for f, e in zip(found[:3], expected[:3], strict=True)]
    if np.any((found[3] == 0) != feasible) or errors[0] > LATENCY_TOLERANCE or max(errors) > BYTES_TOLERANCE:
        raise AssertionError(f"NumPy and XLA disagree: relative differences {errors}")
    rates = [_timed_numpy(program, space, lanes) for lanes in NUMPY_LANES]
    return max(rates), float(errors[0])


def _timed_numpy(program: Any, space: Any, lanes: int) -> float:
    import jax

    from dse.platform import usable_cores

    starts = [place * (space.size // NUMPY_CHUNKS) for place in range(NUMPY_CHUNKS)]
    chunks = [space.rows(range(start, start + lanes)) for start in starts]  # neighbours, as the sweep meets them
    inputs = [jax.tree.leaves({name: values.astype(np.float32) for name, values in chunk.items()}) for chunk in chunks]
    deadline = time.perf_counter() + NUMPY_SECONDS

    def work(worker: int) -> int:
        done = 0
        with np.errstate(all="ignore"):
            while not done or time.perf_counter() < deadline:
                program(*inputs[(worker + done // lanes) % NUMPY_CHUNKS])
                done += lanes
        return done

    began = time.perf_counter()
    with ThreadPoolExecutor(usable_cores()) as pool:
        done = sum(pool.map(work, range(usable_cores())))
    return done / (time.perf_counter() - began)


def _in_its_own_process(part: str, *arguments: str) -> dict[str, Any]:
    command = [sys.executable, __file__, "--child", part, *arguments]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    run = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(run.stdout.splitlines()[-1])


def _child(part: str, points: int, seconds: float) -> None:
    found = measure_rate() if part == "rate" else measure_memory(points, seconds)
    print(json.dumps({name: float(value) for name, value in found.items()}))


def main() -> None:
    """Measures the parts named and prints a table."""
    parser = argparse.ArgumentParser(description="The speed and memory that the README states.")
    parser.add_argument("part", nargs="*", choices=[*PARTS, []], help="what to measure (default: everything)")
    parser.add_argument("--seconds", type=float, default=60.0, help="bound on the 10^9-point sweep")
    parser.add_argument("--points", type=int, default=10**9, help=argparse.SUPPRESS)
    parser.add_argument("--child", choices=PARTS[:2], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        _child(options.child, options.points, options.seconds)
        return
    parts = options.part or PARTS
    if "rate" in parts:
        _print_rate(_in_its_own_process("rate"))
    if "memory" in parts:
        for points, seconds in ((10**6, 1e9), (options.points, options.seconds)):
            _print_memory(_in_its_own_process("memory", "--points", str(points), "--seconds", str(seconds)))
    if "command" in parts:
        _print_command(measure_command())


def _print_rate(found: dict[str, Any]) -> None:
    low, middle, high, in_numpy = (found[name] / 1e6 for name in ("rate_min", "rate", "rate_max", "numpy_rate"))
    print(f"sweep    {middle:8.1f} M candidates/s ({low:.1f} to {high:.1f}): complete model, top-10, 3-objective front")
    print(f"         {found['points']:,.0f} points, {_cores()} cores, {SHAPE} bf16 on {GPU}")
    print(f"NumPy    {in_numpy:8.2f} M candidates/s: same model and cores, cost alone")
    print(f"ratio    {found['ratio']:8.0f} (latencies agree to {found['latency_error']:.0e})", flush=True)


def _print_memory(found: dict[str, Any]) -> None:
    share = found["evaluated"] / found["points"]
    print(
        f"memory   {found['peak_bytes'] / 1e9:8.2f} GB peak: {found['points']:,.0f} points, {share:.0%} evaluated",
        flush=True,
    )


def _print_command(found: dict[str, Any]) -> None:
    print(f"command  {found['second_s']:8.2f} s second run, {found['median_later_s']:.2f} s median of all later runs")
    print(f"         {found['first_s']:8.2f} s first run, nothing compiled yet")


def _cores() -> int:
    from dse.platform import usable_cores

    return usable_cores()


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    main()
