"""Measures `dse batch` as a whole command: many shapes x several GPUs x a sub-space, beside `dse sweep` of the same.

python scripts/bench_batch.py [--shapes 1000] [--gpus h200_sxm,b200_sxm] [--swept 10]

The command runs twice, first with an empty compilation cache, then with what the first run compiled. `dse query` then
asks for the best schedule of each shape. The baseline is one `dse sweep --shapes` a GPU over the first few shapes, with
a warm cache as well, extrapolated to all by the time that each further shape takes; both must find the same schedules.

Core-seconds are processor time: on a machine that does other work too, they say what seconds would be without it.
"""

import argparse
import csv
import itertools
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
DSE = (sys.executable, "-c", "import sys; from dse.cli import main; sys.exit(main())")
SPACE = ("--preset", "quick", "--axis", "stages=2,3,4,5,6")  # 110,880 points on Hopper, 112,320 on Blackwell
BEST = "select name, gpu, index, latency_s from best where rank = 0 order by row, gpu"
M = (1, 16, 64, 100, 256, 512, 1000, 2048, 4096, 8192)
N = tuple(range(1024, 1024 * 11, 1024))
K = (512, 1024, 2048, 3072, 4096, 5120, 7168, 8192, 14336, 28672)


class Run(NamedTuple):
    """A command: seconds, core-seconds, what it printed."""

    seconds: float
    core_seconds: float
    printed: str


def shapes(count: int) -> list[tuple[int, int, int]]:
    """So many distinct GEMMs, m fastest, so that a few of them are of every height."""
    listed = [(m, n, k) for k, n, m in itertools.product(K, N, M)]
    if count > len(listed):
        raise SystemExit(f"--shapes {count}: at most {len(listed)}")
    return listed[:count]


def write_shapes(path: Path, listed: list[tuple[int, int, int]]) -> Path:
    """A shape list."""
    with path.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([("m", "n", "k"), *listed])
    return path


def run(words: list[str], cache: Path) -> Run:
    """Runs `dse WORDS` with a compilation cache of its own."""
    environment = {**os.environ, "JAX_COMPILATION_CACHE_DIR": str(cache), "PYTHONPATH": str(ROOT)}
    environment |= {
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.1",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "0",
    }
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run([*DSE, *words], env=environment, capture_output=True, text=True, check=False)
    seconds, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise SystemExit(f"dse {' '.join(words)} failed:\n{done.stderr}")
    used = (after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime)
    return Run(seconds, used, done.stdout)


def measure(folder: Path, count: int, gpus: str, swept: int) -> dict[str, Any]:
    """All figures."""
    everything, cache = write_shapes(folder / "all.csv", shapes(count)), folder / "cache"
    words = ["batch", "gemm", "--shapes", str(everything), "--gpu", gpus, *SPACE, "--quiet"]
    runs = {name: run([*words, "--out", str(folder / name)], cache) for name in ("cold", "warm")}
    made = json.loads((folder / "warm" / "summary.json").read_text())
    query = run(["query", str(folder / "warm"), BEST, "--json"], cache)
    best = {(row["name"], row["gpu"]): row for row in json.loads(query.printed)}
    baseline = {gpu: sweep_seconds(folder, gpu, swept, count, cache, best) for gpu in gpus.split(",")}
    found = {
        "shapes": count,
        "gpus": gpus,
        "candidates": made["candidates"],
        "evaluated": made["evaluated_now"],
        "cold_s": runs["cold"].seconds,
        "cold_core_s": runs["cold"].core_seconds,
        "warm_s": runs["warm"].seconds,
        "warm_core_s": runs["warm"].core_seconds,
        "candidates_per_s": made["candidates"] / runs["warm"].seconds,
        "candidates_per_core_s": made["candidates"] / runs["warm"].core_seconds,
        "query_s": query.seconds,
        "query_core_s": query.core_seconds,
        "sweep_s": sum(one.seconds for one in baseline.values()),
        "sweep_core_s": sum(one.core_seconds for one in baseline.values()),
    }
    return found | {
        "speedup": found["sweep_s"] / found["warm_s"],
        "core_speedup": found["sweep_core_s"] / found["warm_core_s"],
    }


def sweep_seconds(folder: Path, gpu: str, swept: int, count: int, cache: Path, best: dict[tuple[str, str], Any]) -> Run:
    """What `dse sweep --shapes` would take for `count` shapes, from a few and twice as many; their answers are checked.

    A first run compiles, so that both that are measured find everything compiled.
    """
    few = {size: write_shapes(folder / f"{size}.csv", shapes(size)) for size in (1, swept, 2 * swept)}
    times = {}
    for size, path in few.items():
        out = folder / f"sweep-{gpu}-{size}"
        words = ["sweep", "gemm", "--shapes", str(path), "--gpu", gpu, *SPACE, "--top", "1", "--quiet"]
        times[size] = run([*words, "--out", str(out)], cache)
        _check(json.loads(run([*words, "--out", str(out), "--resume", "--json"], cache).printed), gpu, best)
    one = [(times[2 * swept][at] - times[swept][at]) / swept for at in (0, 1)]
    seconds, core_seconds = (times[swept][at] + one[at] * (count - swept) for at in (0, 1))
    return Run(seconds, core_seconds, "")


def _check(answer: dict[str, Any], gpu: str, best: dict[tuple[str, str], Any]) -> None:
    for result in answer["results"]:
        row, found = result["top"][0], best[result["shape"], gpu]
        if (int(row["index"]), row["latency_s"]) != (int(found["index"]), found["latency_s"]):
            raise SystemExit(f"{result['shape']} on {gpu}: dse batch found {found}, dse sweep {row}")


def text(found: dict[str, Any]) -> str:
    """The figures in words."""
    return "\n".join(
        [
            f"{found['shapes']} shapes on {found['gpus']}: {found['candidates']:,} points, "
            f"{found['evaluated']:,} evaluated",
            f"cold compilation cache  {found['cold_s']:8.1f} s  {found['cold_core_s']:8.1f} core-s",
            f"warm                    {found['warm_s']:8.1f} s  {found['warm_core_s']:8.1f} core-s  "
            f"{found['candidates_per_s'] / 1e6:.1f} M points/s, {found['candidates_per_core_s'] / 1e6:.1f} M a core-s",
            f"dse query, best of each {found['query_s']:8.2f} s  {found['query_core_s']:8.2f} core-s",
            f"dse sweep, extrapolated {found['sweep_s']:8.1f} s  {found['sweep_core_s']:8.1f} core-s  "
            f"{found['speedup']:.1f} times as long, {found['core_speedup']:.1f} times the core-seconds",
        ]
    )


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", type=int, default=1000, help="how many (default: 1000)")
    parser.add_argument("--gpus", default="h200_sxm,b200_sxm", help="names, separated by commas")
    parser.add_argument("--swept", type=int, default=10, help="shapes of the baseline's shorter run (default: 10)")
    parser.add_argument("--json", action="store_true", help="the figures as JSON")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-batch-") as folder:
        found = measure(Path(folder), asked.shapes, asked.gpus, asked.swept)
    print(json.dumps(found, indent=1) if asked.json else text(found))


if __name__ == "__main__":
    main()
