"""Measures the speed and memory of the streaming sweep, each beside its baseline in the same run.

python scripts/bench_sweep.py [rate] [memory] [command]     # all three without arguments; three minutes on two cores

Core-seconds are processor time: on a machine that does other work too, they say what seconds would be without it.

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
from typing import Any, NamedTuple

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
    from dse.kernels.gemm import gemm_problem

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
    plain, tuned, latency_error = _numpy_rates(job)
    return {
        "points": job.candidates,
        "rate": statistics.median(rates),
        "rate_min": rates[0],
        "rate_max": rates[-1],
        "core_rate": repeats * job.candidates / core_seconds,
        "plain_rate": plain.wall,
        "plain_core_rate": plain.core,
        "tuned_rate": tuned.wall,
        "tuned_core_rate": tuned.core,
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
        seconds, core_seconds = [], []
        for run in range(runs):
            began, core_began = time.perf_counter(), _children_core_seconds()
            command = [*COMMAND, "--out", f"{folder}/run{run}"]
            subprocess.run(command, cwd=ROOT, env=environment, check=True, stdout=subprocess.DEVNULL)
            seconds.append(time.perf_counter() - began)
            core_seconds.append(_children_core_seconds() - core_began)
    later = {"median_later_s": statistics.median(seconds[1:]), "later_core_s": statistics.median(core_seconds[1:])}
    return {"first_s": seconds[0], "second_s": seconds[1], **later}


def _children_core_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class _Rate(NamedTuple):
    wall: float  # candidates a second
    core: float  # candidates a second of processor time


def _numpy_rates(job: Any) -> tuple[_Rate, _Rate, float]:
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
    tuned_rates = []
    for lanes in TUNED_LANES:  # neighbouring candidates, as the sweep meets them
        starts = range(0, space.size - lanes, space.size // NUMPY_CHUNKS)
        chunks = [jax.tree.leaves(_columns(space, np.arange(start, start + lanes))) for start in starts]
        tuned_rates.append(_timed(tuned, chunks, usable_cores()))
    return plain_rate, max(tuned_rates), error


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


def _timed(program: Any, chunks: list[list[np.ndarray]], workers: int) -> _Rate:
    """How fast a NumPy program goes over the chunks in turn, at least one a worker."""
    lanes = len(chunks[0][0])
    deadline = time.perf_counter() + NUMPY_SECONDS

    def work(worker: int) -> int:
        done = 0
        with np.errstate(all="ignore"):
            while not done or time.perf_counter() < deadline:
                program(*chunks[(worker + done // lanes) % len(chunks)])
                done += lanes
        return done

    began, core_began = time.perf_counter(), time.process_time()
    with ThreadPoolExecutor(workers) as pool:
        done = sum(pool.map(work, range(workers)))
    return _Rate(done / (time.perf_counter() - began), done / (time.process_time() - core_began))


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
    parser = argparse.ArgumentParser(description="The speed and memory of the streaming sweep.")
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
    at = {name: value / 1e6 for name, value in found.items()}
    print(f"sweep    {at['rate']:8.1f} M candidates/s ({at['rate_min']:.1f} to {at['rate_max']:.1f}), ", end="")
    print(f"{at['core_rate']:.1f} M a core-second: complete model, top-10, 3-objective front")
    print(f"         {found['points']:,.0f} points, {_cores()} cores, {SHAPE} bf16 on {GPU}")
    for name, what in (("plain", "as the source reads"), ("tuned", f"cache-sized chunks, {_cores()} threads")):
        wall, core = at[f"{name}_rate"], at[f"{name}_core_rate"]
        ratios = f"ratio {at['rate'] / wall:.0f}, by core-seconds {at['core_rate'] / core:.0f}"
        print(f"NumPy    {wall:8.2f} M candidates/s, {core:.2f} M a core-second, {ratios}: cost alone, {what}")
    print(f"         latencies agree to {found['latency_error']:.0e}", flush=True)


def _print_memory(found: dict[str, Any]) -> None:
    share = found["evaluated"] / found["points"]
    print(
        f"memory   {found['peak_bytes'] / 1e9:8.2f} GB peak: {found['points']:,.0f} points, {share:.0%} evaluated",
        flush=True,
    )


def _print_command(found: dict[str, Any]) -> None:
    later, cores = found["median_later_s"], found["later_core_s"]
    print(
        f"command  {found['second_s']:8.2f} s second run, {later:.2f} s median of later runs, {cores:.2f} core-seconds"
    )
    print(f"         {found['first_s']:8.2f} s first run, nothing compiled yet")


def _cores() -> int:
    from dse.platform import usable_cores

    return usable_cores()


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    main()
