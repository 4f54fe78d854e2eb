"""How many trials searches need where the exhaustive answer is known: the H200's GEMM space, 8192 x 8192 x 8192, bf16.

python scripts/bench_search.py samplers [--samplers random,local,...] [--trials 1000] [--seeds 10] [--first-seed 10]
python scripts/bench_search.py joint [--seeds 10]

samplers  schedules alone, the whole space: trials to within 1 % of the fastest schedule, and to 99 % of the hypervolume
          of the front over latency, DDR bytes and shared memory; both are known by a sweep in the same run
joint     a grid of four hardware axes times the schedules of the preset `quick`, at an area budget: the hypervolume of
          (latency, area) that searches reach, and the share of the exhaustive evaluations that they take, inner sweeps,
          shortlists, derivatives and confirmations included

Figures are medians and worst over the seeds; "not" counts the seeds that did not reach it within the budget.
"""

import argparse
import os
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from dse.api import make_job
from dse.cli.options import positive
from dse.fitting import fitting
from dse.gpu_axes import gpu_file_maker, gpu_maker
from dse.question import ask
from dse.search import SAMPLERS, GpuQuantity, Reference, reference_of, run_search
from dse.search.goals import make_goals
from dse.search.inner import any_sms
from dse.search.quality import swept_reference
from dse.studies.gpu_quantities import gpu_quantities
from dse.tuning import tune

SHAPE, GPU = "8192x8192x8192", "h200_sxm"
FRONT = ("latency_s", "ddr_bytes", "smem_bytes")
QUICK = ("random", "local", "nsga2", "nsga3", "tpe", "qmc")
BUDGET_MM2 = 861.0  # the H200's own area by the model
GRID: dict[str, list[Any]] = {
    "sm_count": [72.0, 84.0, 96.0, 108.0, 120.0, 132.0, 144.0, 160.0],
    "l2_capacity_bytes": [f"{factor}x" for factor in (0.35, 0.5, 0.7, 0.85, 1.0, 1.2, 1.5, 2.0)],
    "ddr_bytes_per_s": [f"{factor}x" for factor in (0.35, 0.5, 0.6, 0.7, 0.85, 1.0, 1.2, 1.5)],
    "smem_per_sm_bytes": [65536.0, 98304.0, 131072.0, 163840.0, 196608.0, 233472.0, 262144.0, 327680.0],
}
# searcher, inner, trials: the joint search
JOINT = (
    ("random", "sweep", 48),
    ("nsga2", "sweep", 48),
    ("tpe", "sweep", 48),
    ("local", "sweep", 48),
    ("gradient", "sweep", 48),
    ("random", "shortlist", 400),
    ("nsga2", "shortlist", 400),
    ("local", "shortlist", 400),
    ("gradient", "shortlist", 400),
    ("random", None, 5_000),
    ("local", None, 5_000),
)


def samplers(names: Sequence[str], trials: int, seeds: range, axes: Sequence[str]) -> None:
    """Schedules alone."""
    asked = ask(SHAPE, "bf16", GPU)
    job = make_job(asked, None, None, axes, objectives=FRONT)
    began = time.perf_counter()
    several = swept_reference(job, make_goals(FRONT, (), {}, ()))
    one = reference_of(several.front[:, :1], several.evaluations, several.source)
    print(
        f"{several.source}, {time.perf_counter() - began:.1f} s: fastest {one.best * 1e6:.1f} us, "
        f"{len(several.front):,} points on the front"
    )
    print(f"{trials:,} trials, seeds {seeds[0]} to {seeds[-1]}, batches of 32")
    print(
        "| sampler | to 1 %: median | worst | not | regret | to 99 % HV: median | worst | not | HV share | ms a trial |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    for name in names:
        single, ms = _runs(replace(job, objectives=("latency_s",)), name, trials, seeds, one)
        cells = [name, *_reached([at.trials_to_1_percent for at in single])]
        cells.append(f"{100 * np.median([at.regret for at in single]):.2f} %")
        if SAMPLERS[name].several:
            many, more_ms = _runs(job, name, trials, seeds, several)
            cells += _reached([at.trials_to_99_percent for at in many])
            cells.append(f"{100 * np.median([at.hypervolume_share for at in many]):.2f} %")
            ms = (ms + more_ms) / 2
        else:
            cells += ["", "", "", ""]
        print("| " + " | ".join([*cells, f"{ms:.2f}"]) + " |", flush=True)


def joint(seeds: range, keep: Path | None) -> None:
    """GPUs and schedules."""
    asked = ask(SHAPE, "bf16", GPU)
    job = make_job(asked, None, "quick", None, objectives=("latency_s",))
    axes = {name: [_number(name, value, asked.gpu) for value in values] for name, values in GRID.items()}
    make_gpu, file_of = gpu_maker(asked, GPU, {}), gpu_file_maker(GPU, {})
    known = [GpuQuantity(n, lambda at, of=of: of(file_of(at)), tuple(by)) for n, (of, by) in gpu_quantities().items()]
    cached = _Remembered(make_gpu, known[0])
    began, busy = time.perf_counter(), time.process_time()
    exhaustive, machines, fit = _exhaustive(job, axes, cached, keep)
    print(
        f"{np.prod([len(values) for values in axes.values()]):,} GPUs, {machines:,} of them within {BUDGET_MM2:g} mm2; "
        f"{job.space.size:,} schedules, {fit:,} fit: {exhaustive.evaluations:,} evaluations, "
        f"{time.perf_counter() - began:.0f} s, {time.process_time() - busy:.0f} core-seconds, "
        f"{len(exhaustive.front)} points on the front"
    )
    print(
        "| searcher | inner | trials | HV share: median | worst | below 99 % | evaluations | share of all | seconds |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for name, inner, trials in JOINT:
        shares, spent, seconds = [], [], []
        for seed in seeds:
            began = time.perf_counter()
            found = run_search(
                job, trials, name, seed, gpu=axes, make_gpu=cached.record, objectives=("latency_s", "area_mm2"),
                quantities=[cached.area], limits={"area_mm2": BUDGET_MM2}, inner=inner, reference=exhaustive,
            )  # fmt: skip
            assert found.quality is not None
            shares.append(found.quality.hypervolume_share)
            spent.append(found.evaluations)
            seconds.append(time.perf_counter() - began)
        below = sum(share < 0.99 for share in shares)
        print(
            f"| {name} | {inner or '-'} | {trials:,} | {100 * np.median(shares):.2f} % | {100 * min(shares):.2f} % | "
            f"{below} of {len(seeds)} | {max(spent):,} | {100 * max(spent) / exhaustive.evaluations:.3f} % | "
            f"{np.median(seconds):.1f} |",
            flush=True,
        )


class _Remembered:
    """GPUs of the grid are met again in every seed: reading their files is no part of what is compared."""

    def __init__(self, make_gpu: Any, area: GpuQuantity) -> None:
        self._make, self._records, self._areas = make_gpu, {}, {}
        self.area = GpuQuantity(area.name, lambda numbers: self._area(area, numbers), area.moved_by)

    def record(self, numbers: Any) -> Any:
        key = tuple(numbers.values())
        if key not in self._records:
            self._records[key] = self._make(numbers)
        return self._records[key]

    def _area(self, area: GpuQuantity, numbers: Any) -> float:
        key = tuple(numbers.values())
        if key not in self._areas:
            self._areas[key] = area.of(numbers)
        return self._areas[key]


def _exhaustive(job: Any, axes: dict[str, list[float]], cached: _Remembered, keep: Path | None) -> Any:
    grids = np.stack(np.meshgrid(*axes.values(), indexing="ij"), axis=-1).reshape(-1, len(axes))
    named = [dict(zip(axes, row, strict=True)) for row in grids.tolist()]
    area = np.array([cached.area.of(numbers) for numbers in named])
    within = np.flatnonzero(area <= BUDGET_MM2)
    gpus = [cached.record(named[at]) for at in within]
    schedules = fitting(job.space, [job.problem], [any_sms(gpu) for gpu in gpus])
    evaluations = len(schedules) * len(gpus)
    if keep and keep.exists():
        latency_s = np.load(keep)
    else:
        latency_s = tune(schedules, [(job.problem, gpu) for gpu in gpus]).latency_s
        if keep:
            np.save(keep, latency_s)
    runs = np.isfinite(latency_s)
    values = np.stack([latency_s, area[within]], axis=1)[runs]
    return reference_of(values, evaluations, "the grid"), len(gpus), len(schedules)


def _runs(job: Any, name: str, trials: int, seeds: range, reference: Reference) -> tuple[list[Any], float]:
    found, seconds = [], 0.0
    for seed in seeds:
        began = time.perf_counter()
        result = run_search(job, trials, name, seed, reference=reference)
        seconds += time.perf_counter() - began
        found.append(result.quality)
    return found, 1e3 * seconds / (trials * len(seeds))


def _reached(trials: Sequence[int | None]) -> list[str]:
    """Median and worst over all seeds; one that did not get there counts as later than any that did."""
    known = sorted(np.inf if at is None else at for at in trials)
    shown = [f"{at:,.0f}" if np.isfinite(at) else "not reached" for at in (float(np.median(known)), known[-1])]
    return [*shown, f"{sum(at is None for at in trials)} of {len(trials)}"]


def _number(name: str, value: Any, gpu: Any) -> float:
    return round(float(value[:-1]) * gpu[name]) if isinstance(value, str) else value


def main() -> None:
    """Runs the part that was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("samplers", "joint"))
    parser.add_argument("--samplers", default=",".join(QUICK))
    parser.add_argument("--trials", type=positive, default=1000)
    parser.add_argument("--seeds", type=positive, default=10)
    parser.add_argument(
        "--first-seed", type=int, default=0, help="settings were chosen on seeds 0 to 9: others are fresh"
    )
    parser.add_argument("--axis", action="append", default=[], help="restrict the space, as dse search")
    parser.add_argument("--keep", type=Path, help="a file for the latencies of the grid, to sweep it once")
    options = parser.parse_args()
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    print(f"{len(os.sched_getaffinity(0))} cores")
    if options.part == "samplers":
        samplers(options.samplers.split(","), options.trials, seeds, options.axis)
    else:
        joint(seeds, options.keep)


if __name__ == "__main__":
    main()
