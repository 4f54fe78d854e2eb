"""Measures the speed and memory that the README states, each beside its baseline in the same run.

python scripts/bench.py [rate] [memory] [command]     # all three without arguments; about three minutes on two cores

rate     candidates a second of the complete model with top-10 and a three-objective front (steady state: after the
         first sweep of a process), against the same model executed by NumPy: plain, as the source reads, on arrays of
         2^20 candidates; and tuned, in chunks that stay in cache, on every core, equal operations done once
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
PLAIN_LANES, TUNED_LANES = 2**20, (2**13, 2**14, 2**15)
NUMPY_SECONDS = 4.0  # a measurement
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
    began = time.process_time()
    rates = sorted(run_sweep(job).rate for _ in range(repeats))
    core_seconds = time.process_time() - began
    in_numpy, tuned, latency_error = _numpy_rates(job)
    return {
        "points": job.candidates,
        "rate": statistics.median(rates),
        "rate_min": rates[0],
        "rate_max": rates[-1],
        "core_rate": repeats * job.candidates / core_seconds,
        "numpy_rate": in_numpy,
        "tuned_rate": tuned,
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


def _numpy_rates(job: Any) -> tuple[float, float, float]:
    import jax
    from numpy_model import numpy_program

    from dse.platform import usable_cores

    model, space = job.model, job.space
    problem, gpu = job.problem_arrays, job.gpu

    def cost(columns: dict[str, Any]) -> Any:
        return model.cost(problem, model.schedule(columns), gpu)

    def objectives(columns: dict[str, Any]) -> tuple[Any, ...]:
        found = cost(columns)
        return found.latency_s, found.ddr_bytes, found.smem_bytes, found.reason

    spread = _columns(space, np.arange(PLAIN_LANES) * (space.size // PLAIN_LANES))
    tuned = numpy_program(objectives, spread)
    error = _difference(tuned, objectives, {name: values[:: 2**4] for name, values in spread.items()})
    plain_rate = _timed(numpy_program(cost, spread, tuned=False), [jax.tree.leaves(spread)], 1)
    tuned_rate = 0.0
    for lanes in TUNED_LANES:  # neighbouring candidates, as the sweep meets them
        starts = range(0, space.size - lanes, space.size // NUMPY_CHUNKS)
        chunks = [jax.tree.leaves(_columns(space, np.arange(start, start + lanes))) for start in starts]
        tuned_rate = max(tuned_rate, _timed(tuned, chunks, usable_cores()))
    return plain_rate, tuned_rate, error


def _columns(space: Any, indices: np.ndarray) -> dict[str, np.ndarray]:
    return {name: values.astype(np.float32) for name, values in space.rows(indices).items()}


def _difference(program: Any, objectives: Any, columns: dict[str, np.ndarray]) -> float:
    """Largest relative difference of latencies between NumPy and XLA, once all objectives agree."""
    import jax

    expected = [np.asarray(values) for values in jax.jit(objectives)(columns)]
    feasible = expected[3] == 0
    with np.errstate(all="ignore"):
        found = [np.broadcast_to(values, feasible.shape) for values in program(*jax.tree.leaves(columns))]
    errors = [np.max(np.abs(f - e)[feasible] / e[feasible]) for f, e in zip(found[:3], expected[:3], strict=True)]
    if np.any((found[3] == 0) != feasible) or errors[0] > LATENCY_TOLERANCE or max(errors) > BYTES_TOLERANCE:
        raise AssertionError(f"NumPy and XLA disagree: relative differences {errors}")
    return float(errors[0])


def _timed(program: Any, chunks: list[list[np.ndarray]], workers: int) -> float:
    """Candidates a second of a NumPy program over the chunks in turn, at least one a worker."""
    lanes = len(chunks[0][0])
    deadline = time.perf_counter() + NUMPY_SECONDS

    def work(worker: int) -> int:
        done = 0
        with np.errstate(all="ignore"):
            while not done or time.perf_counter() < deadline:
                program(*chunks[(worker + done // lanes) % len(chunks)])
                done += lanes
        return done

    began = time.perf_counter()
    with ThreadPoolExecutor(workers) as pool:
        done = sum(pool.map(work, range(workers)))
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
    names = ("rate_min", "rate", "rate_max", "core_rate", "numpy_rate", "tuned_rate")
    low, rate, high, core, plain, tuned = (found[name] / 1e6 for name in names)
    print(f"sweep    {rate:8.1f} M candidates/s ({low:.1f} to {high:.1f}): complete model, top-10, 3-objective front")
    print(f"         {found['points']:,.0f} points, {_cores()} cores, {SHAPE} bf16 on {GPU}")
    print(f"         {core:8.1f} M candidates a core-second: what a busy machine still shows")
    print(f"NumPy    {plain:8.2f} M candidates/s plain, ratio {rate / plain:.0f}: the same model, cost alone")
    print(
        f"         {tuned:8.2f} M candidates/s tuned, ratio {rate / tuned:.0f}: cache-sized chunks, {_cores()} threads"
    )
    print(f"         latencies agree to {found['latency_error']:.0e}", flush=True)


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
