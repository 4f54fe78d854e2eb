"""Measures the Ray executor against the serial one, and how evenly it divides work over simulated nodes.

python scripts/bench_ray.py [rate] [start] [balance] [overhead]      # rate, start and balance without arguments

Needs a machine that does nothing else for minutes: ratios are of seconds. Core-seconds, of this process and all that it
started, say what they would be without other work.

rate      candidates a second from --points (10^9) on, alternating: the serial executor, two Ray workers
start     from Ray up to the first chunk finished, with compiled functions on disk
balance   2, 4, 8 simulated nodes of one core: the largest and smallest share of chunks beside the mean. The nodes share
          this machine, so a chunk is a pause here: it takes one time on all, as on machines apart
overhead  what the chunks of one sweep cost Python, per chunk, beside the compiled code: how many threads one process
          can keep busy, `dse.executors.auto.SERIAL_CORES`
"""

import argparse
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PARTS = ("rate", "start", "balance", "overhead")
WORKERS = 2
BALANCE_CHUNKS, BALANCE_CHUNK_S = 80, 0.1  # of each node


def core_seconds() -> float:
    """Processor time of this process and of all its descendants that live."""
    stats = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            words = entry.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        stats[int(entry.parent.name)] = (int(words[1]), int(words[11]) + int(words[12]))
    family = {os.getpid()}
    while grown := {pid for pid, (parent, _) in stats.items() if parent in family} - family:
        family |= grown
    return sum(ticks for pid, (_, ticks) in stats.items() if pid in family) / os.sysconf("SC_CLK_TCK")


def measure_rate(points: int, repeats: int) -> dict[str, list[tuple[float, float]]]:
    """(candidates a second, candidates a core-second) of each repeat, start of Ray not counted."""
    from bench_sweep import sweep_job

    from dse.executors.ray import RayExecutor
    from dse.executors.ray_session import ray_session
    from dse.executors.serial import SerialExecutor
    from dse.sweep import run_sweep

    job = sweep_job(points)
    run_sweep(sweep_job(10**7), SerialExecutor(WORKERS))
    found: dict[str, list[tuple[float, float]]] = {"serial": [], "ray": []}
    for _ in range(repeats):
        found["serial"].append(_timed(job, SerialExecutor(WORKERS)))
        with ray_session(None, WORKERS, 0):
            found["ray"].append(_timed(job, RayExecutor(WORKERS)))
    return found


def _timed(job: Any, executor: Any) -> tuple[float, float]:
    from dse.sweep import run_sweep

    watch = _CoreWatch()
    began = time.perf_counter()
    result = run_sweep(job, executor, watch)
    return result.evaluated / (time.perf_counter() - began), watch.done / watch.core_seconds


class _CoreWatch:
    """Processor time while a sweep runs: its workers, and what they took, are gone at its end."""

    PAUSE_S = 2.0

    def __init__(self) -> None:
        self.done, self.core_seconds = 0, 0.0
        self._before, self._next = core_seconds(), 0.0

    def __call__(self, snapshot: Any) -> None:
        if not snapshot.finished and snapshot.done > self.done and time.perf_counter() > self._next:
            self.done, self.core_seconds = snapshot.done, core_seconds() - self._before
            self._next = time.perf_counter() + self.PAUSE_S


def measure_start(repeats: int) -> tuple[list[float], list[float]]:
    """Seconds to start Ray, and from then to the first chunk finished."""
    from bench_sweep import sweep_job

    from dse.executors.ray import RayExecutor
    from dse.executors.ray_session import ray_session
    from dse.sweep import run_sweep

    job = sweep_job(10**7)
    run_sweep(job)  # compiled functions are on disk now
    up, first = [], []
    for _ in range(repeats):
        began = time.perf_counter()
        with ray_session(None, WORKERS, 0):
            up.append(time.perf_counter() - began)
            watch = _Watch()
            run_sweep(job, RayExecutor(WORKERS), watch)
        first.append(watch.first_s)
    return up, first


class _Watch:
    """When the first chunk was finished."""

    def __init__(self) -> None:
        self.first_s = 0.0
        self._began = time.perf_counter()

    def __call__(self, snapshot: Any) -> None:
        if snapshot.done and not self.first_s:
            self.first_s = time.perf_counter() - self._began


def measure_balance(nodes: int) -> dict[str, int]:
    """Candidates that each of so many simulated nodes evaluated."""
    from fake_kernel import fake_job, fake_space
    from ray_runs import SlowKernel, cluster

    from dse.executors.ray import RayExecutor
    from dse.sweep import run_sweep

    executor = RayExecutor(nodes)
    kernel = SlowKernel(chunk_s=BALANCE_CHUNK_S)
    with cluster(nodes):
        run_sweep(fake_job(fake_space(nodes, BALANCE_CHUNKS, 16, 16), kernel=kernel, chunk_lanes=256), executor)
    return executor.done_by


def measure_overhead() -> tuple[float, float]:
    """Seconds a chunk, and of these what Python has for itself: all but the compiled functions."""
    from bench_sweep import sweep_job

    from dse.executors import worker
    from dse.platform import configure_jax
    from dse.state import BoundsKeeper, Collector

    configure_jax()
    import jax

    job = sweep_job()
    inside = [0.0]

    def watched(compiled: Any) -> Any:
        def call(*arguments: Any) -> Any:
            began = time.process_time()
            found = jax.block_until_ready(compiled(*arguments))
            inside[0] += time.process_time() - began
            return found

        return call

    model, reduction = worker.compiled_model, worker.compiled_reduction
    worker.compiled_model = lambda spec: watched(model(spec))
    worker.compiled_reduction = lambda spec: watched(reduction(spec))
    runner, keeper, collector = worker.ChunkRunner(job), BoundsKeeper(job), Collector(job)
    chunks = list(runner.chunks(0, job.end))[:400]
    for start, stop in chunks[:100]:
        runner.run(start, stop, keeper.bounds, collector)
    found, survivors = collector.take()
    keeper.update(found, survivors)
    inside[0], began = 0.0, time.process_time()
    for start, stop in chunks[100:]:
        runner.run(start, stop, keeper.bounds, collector)
    total = time.process_time() - began
    return total / (len(chunks) - 100), max(0.0, total - inside[0]) / (len(chunks) - 100)


def main() -> None:
    """Measures the parts named and prints lines."""
    parser = argparse.ArgumentParser(description="The Ray executor against the serial one.")
    parser.add_argument("part", nargs="*", choices=[*PARTS, []], help="what to measure (default: all but overhead)")
    parser.add_argument("--points", type=int, default=10**9)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    parts = options.part or PARTS[:3]
    print(f"load {os.getloadavg()[0]:.1f} before")
    if "rate" in parts:
        _print_rate(measure_rate(options.points, options.repeats))
    if "start" in parts:
        up, first = measure_start(options.repeats)
        print(f"start    {statistics.median(up):.2f} s to start Ray; then {statistics.median(first):.2f} s", end="")
        print(f" ({min(first):.2f} to {max(first):.2f}) until the first chunk is finished", flush=True)
    if "balance" in parts:
        for nodes in (2, 4, 8):
            shares = measure_balance(nodes)
            mean = sum(shares.values()) / nodes
            most, least = max(shares.values()) / mean - 1, 1 - min(shares.values()) / mean
            print(
                f"balance  {nodes} nodes: {most:.1%} above the mean, {least:.1%} below, {len(shares)} workers",
                flush=True,
            )
    if "overhead" in parts:
        chunk, python = measure_overhead()
        print(
            f"overhead {chunk * 1e3:.2f} ms a chunk, {python * 1e3:.2f} ms of it Python: {chunk / python:.0f} threads"
        )
    print(f"load {os.getloadavg()[0]:.1f} after")


def _print_rate(found: dict[str, list[tuple[float, float]]]) -> None:
    for name, measured in found.items():
        walls, cores = [wall for wall, _ in measured], [core for _, core in measured]
        print(f"rate     {name:<7}{statistics.median(walls) / 1e6:6.1f} M candidates/s ", end="")
        print(f"({min(walls) / 1e6:.1f} to {max(walls) / 1e6:.1f}), ", end="")
        print(f"{statistics.median(cores) / 1e6:.1f} M a core-second")
    for place, what in enumerate(("seconds", "core-seconds")):
        ratios = [ray[place] / serial[place] for ray, serial in zip(found["ray"], found["serial"], strict=True)]
        spread = f"{min(ratios):.0%} to {max(ratios):.0%}"
        print(f"         Ray / serial by {what}: {statistics.median(ratios):.0%} ({spread})", flush=True)


if __name__ == "__main__":
    sys.path[:0] = [str(ROOT), str(ROOT / "scripts"), str(ROOT / "tests")]
    main()
