"""Measures exact pruning (`dse sweep --prune`) on a GEMM space of some 8 x 10^9 schedules, and against whole sweeps.

python scripts/bench_bounding.py [--shapes MxNxK,...] [--gpu h200_sxm] [--json]

large   top-10 and the (latency, SMEM) front of the fine space: seconds, schedules settled a second, share evaluated;
        the baseline is the plain sweep's rate of the same run, on a part of that space
equal   the same answer as the plain sweep on the packaged space (31 x 10^6): seconds of both, whether tables are equal
"""

import argparse
import json
import time
from dataclasses import asdict, dataclass, replace
from typing import Any

SHAPES = ("8192x8192x8192", "4096x4096x4096", "64x8192x8192")
OBJECTIVES = ("latency_s", "smem_bytes")
BASELINE_POINTS = 2**26


@dataclass(frozen=True)
class Measured:
    """One shape: the fine space pruned, the packaged space pruned and whole."""

    shape: str
    points: int
    seconds: float
    core_seconds: float
    evaluated: int
    settled_per_s: float
    plain_per_s: float
    whole_s: float
    pruned_s: float
    equal: bool


def fine_space(family: str = "wgmma") -> Any:
    """The packaged Hopper space with every split, every number of free SMs, depth, stage, cluster and swizzle between
    the ones it lists: distinct schedules all of them."""
    from dse.axis import Axis
    from dse.content.space import load_space

    space = load_space("gemm", family, "bf16")
    launch = space.axis("launch")
    fields = launch.fields
    kinds = [dict(zip(fields, entry, strict=True)) for entry in launch.values]
    finer = list(launch.values)
    for kind in kinds:
        for name, values in (("split_k", range(2, 65)), ("sms_free", range(0, 33, 2))):
            listed = {other[name] for other in kinds if all(other[at] == kind[at] for at in fields if at != name)}
            if len(listed) > 1:
                finer += [tuple({**kind, name: value}[at] for at in fields) for value in values]
    finer = sorted(set(finer), key=lambda entry: (entry[fields.index("stream_k")], entry))
    clusters = [(m, n) for m in (1, 2, 4, 8) for n in (1, 2, 4, 8) if m * n <= 8]
    swizzles = [(along_n, swizzle) for along_n in (0, 1) for swizzle in range(1, 65)]
    axes = {
        "launch": Axis("launch", fields, tuple(finer), tuple(f"launch{place}" for place in range(len(finer)))),
        "tile_k": Axis.of("tile_k", range(16, 129, 16)),
        "stages": Axis.of("stages", range(2, 13)),
        "cluster": Axis("cluster", ("cluster_m", "cluster_n"), tuple(clusters), tuple(f"{m}x{n}" for m, n in clusters)),
        "raster": Axis(
            "raster", ("raster_along_n", "swizzle"), tuple(swizzles), tuple(f"{a}:{s}" for a, s in swizzles)
        ),
    }
    return replace(space, name="gemm/wgmma, fine", axes=tuple(axes.get(axis.name, axis) for axis in space.axes))


def measure(shape: str, gpu: str) -> Measured:
    """Both parts for one shape, each after a run that compiles."""
    from dse.api import make_job
    from dse.question import ask
    from dse.sweep import run_sweep

    asked = ask(shape, gpu=gpu)
    job = make_job(asked, fine_space(), objectives=OBJECTIVES, prune=True)
    plain = replace(job, prune=False, start=0, stop=BASELINE_POINTS)
    for warm in (job, plain):
        run_sweep(warm)
    plain_per_s = run_sweep(plain).rate
    began, core_began = time.perf_counter(), time.process_time()
    found = run_sweep(job)
    seconds, core_seconds = time.perf_counter() - began, time.process_time() - core_began

    packaged = make_job(asked, objectives=OBJECTIVES)
    results, times = [], []
    for prune in (False, True):
        run_sweep(replace(packaged, prune=prune))
        began = time.perf_counter()
        results.append(run_sweep(replace(packaged, prune=prune)))
        times.append(time.perf_counter() - began)
    whole, pruned = results
    return Measured(
        shape=shape,
        points=job.candidates,
        seconds=seconds,
        core_seconds=core_seconds,
        evaluated=found.evaluated,
        settled_per_s=job.candidates / seconds,
        plain_per_s=plain_per_s,
        whole_s=times[0],
        pruned_s=times[1],
        equal=whole.top.equals(pruned.top) and whole.front.equals(pruned.front),
    )


def main() -> None:
    """Prints a block a shape, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", default=",".join(SHAPES))
    parser.add_argument("--gpu", default="h200_sxm")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    found = []
    for shape in arguments.shapes.split(","):
        found.append(measure(shape, arguments.gpu))
        if not arguments.json:
            at = found[-1]
            print(
                f"{at.shape}: {at.points:,} schedules in {at.seconds:.2f} s ({at.core_seconds:.1f} core-seconds), "
                f"{at.settled_per_s / 1e6:,.0f} M/s, {at.settled_per_s / at.plain_per_s:.0f} times a plain sweep's "
                f"{at.plain_per_s / 1e6:.1f} M/s; {at.evaluated / at.points:.4%} evaluated\n"
                f"  packaged space: whole {at.whole_s:.2f} s, pruned {at.pruned_s:.2f} s, "
                f"{'equal' if at.equal else 'NOT EQUAL'}",
                flush=True,
            )
    if arguments.json:
        print(json.dumps([asdict(at) for at in found], indent=2))


if __name__ == "__main__":
    main()
