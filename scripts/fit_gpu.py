"""Fits a few numbers of a GPU file to the measured GEMM latencies of the part `fit`, and prints the TOML lines.

    python scripts/fit_gpu.py h100_sxm --rows 400 --generations 20

Every fitted number keeps its meaning: it is bounded around what a datasheet or a microbenchmark says. The search is
CMA-ES on the mean absolute relative error of the best predicted latency over the library preset.
"""

import argparse
import sys
from pathlib import Path

import numpy as np
from cmaes import CMA

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from dse.content import load_gpu
from dse.content.space import load_space
from dse.problem import GemmProblem
from dse.studies.best_schedule import BatchedMinimum, runnable_columns, stack_problems
from dse.studies.measured import load_measured_gemm

# name -> (lowest, highest): factors of the file's value where they say "x", else absolute
BOUNDS: dict[str, tuple[float, float, str]] = {
    "tensor_efficiency": (0.70, 1.0, ""),
    "ddr_bytes_per_s": (0.87, 1.10, "x"),
    "ddr_write_cost": (1.0, 1.7, ""),
    "l2_bytes_per_s": (0.55, 1.2, "x"),
    "ddr_latency_s": (0.75, 1.6, "x"),
    "cta_launch_s": (0.1e-6, 1.5e-6, ""),
    "launch_overhead_s": (0.8e-6, 3.5e-6, ""),
    "dependent_launch_s": (0.5e-6, 4.0e-6, ""),
    "step_overhead_s": (1e-9, 60e-9, ""),
}


def main() -> None:
    """Reads the arguments, runs the search, prints what it found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("gpu")
    parser.add_argument("--rows", type=int, default=400)
    parser.add_argument("--generations", type=int, default=20)
    parser.add_argument("--population", type=int, default=12)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()

    gpu = load_gpu(arguments.gpu)
    table = load_measured_gemm(part="fit")
    rows = table[table["system"] == arguments.gpu].sample(arguments.rows, random_state=arguments.seed)
    measured_s = rows["latency_us"].to_numpy(float) * 1e-6
    problems = stack_problems([GemmProblem(m=int(r.m), n=int(r.n), k=int(r.k)) for r in rows.itertuples()])
    space = load_space("gemm", gpu.families("bf16")[0], "bf16", preset="library")
    _, columns = runnable_columns(space, gpu.bind("bf16", family=space.family))
    fastest = BatchedMinimum(columns, space.kernel)

    low, high = np.array([_bounds(name, gpu[name]) for name in BOUNDS]).T

    def values(point: np.ndarray) -> dict[str, float]:
        return dict(zip(BOUNDS, np.exp(np.log(low) + point * np.log(high / low)), strict=True))

    def error(point: np.ndarray) -> float:
        changed = load_gpu(arguments.gpu, {name: float(value) for name, value in values(point).items()})
        latency_s, _ = fastest.over(problems, changed.bind("bf16", family=space.family))
        return float(np.mean(np.abs(latency_s / measured_s - 1.0)))

    start = np.clip(np.log([gpu[name] for name in BOUNDS] / low) / np.log(high / low), 0.02, 0.98)
    search = CMA(
        mean=start,
        sigma=0.2,
        bounds=np.array([[0.0, 1.0]] * len(BOUNDS)),
        seed=arguments.seed,
        population_size=arguments.population,
    )
    best, best_point = error(start), start
    print(f"{arguments.gpu}: start {100 * best:.2f} %", flush=True)
    for _ in range(arguments.generations):
        told = [(point, error(point)) for point in (search.ask() for _ in range(search.population_size))]
        search.tell(told)
        point, value = min(told, key=lambda pair: pair[1])
        if value < best:
            best, best_point = value, point
    print(f"{arguments.gpu}: fitted {100 * best:.2f} % on {len(rows)} rows")
    for name, value in values(best_point).items():
        print(f"{name} = {value:.4g}")


def _bounds(name: str, value: float) -> tuple[float, float]:
    low, high, kind = BOUNDS[name]
    return (low * value, high * value) if kind else (low, high)


if __name__ == "__main__":
    main()
