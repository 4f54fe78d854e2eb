"""Measures how many candidates a second each kernel's sweep evaluates, beside GEMM's in the same run.

python scripts/bench_kernels.py [KERNEL ...] [--gpu h200_sxm] [--json]     # all kernels without arguments

Each sweep is the kernel's whole space on that GPU's fastest family, or as much of it as --seconds allows, with a top-10
and a front of three objectives, compiled before: the fastest of a few. A space of few points is enlarged by values
between those that its axes list, so that the fixed cost of a sweep (about 20 ms) does not count: the time a candidate
costs is the same. Core-seconds are processor time: on a machine that does other work too, they say what seconds would
be without it.
"""

import argparse
import json
import time
from dataclasses import replace
from typing import Any, NamedTuple

SHAPES = {  # a problem of ordinary size each
    "gemm": "8192x8192x8192",
    "attention": "4x32/8x4096x128",
    "decode_attention": "64x32/8x1:8192x128",
    "grouped_gemm": "4096x14336x4096x8x2",
    "moe": "4096x4096x14336x8x2",
    "dequant_gemm": "16x8192x8192",
    "gemm_epilogue": "8192x8192x8192",
    "gemm_chain": "4096x4096x1024x4096",
    "ag_gemm": "8192x28672x8192",
    "gemm_rs": "8192x8192x28672",
    "gemm_ar": "8192x8192x28672",
    "moe_ep": "8192x7168x2048x256x8",
    "ulysses": "1x32/8x65536x128",
    "ring_attention": "1x32/8x65536x128",
    "elementwise": "8192x8192",
    "reduction": "8192x8192",
    "softmax": "8192x8192",
    "layernorm": "8192x8192",
    "rmsnorm": "8192x8192",
    "rope": "8192x4096",
    "kv_cache_write": "8192x2048",
    "quantise": "8192x8192",
}
POINTS = 2**23  # a sweep of so many takes about a core-second


class Rate(NamedTuple):
    """Candidates a second by the clock and a core-second, of a space with so many points."""

    kernel: str
    space: str
    listed: int  # points of the kernel's own space
    points: int  # of the one swept
    rate: float
    core_rate: float


def measure(kernel: str, gpu: str, seconds: float, repeats: int) -> Rate:
    """The rates of the fastest of a few sweeps over a kernel's space, enlarged to at least `POINTS`."""
    from dse.api import make_job
    from dse.question import ask
    from dse.sweep import run_sweep

    def stop_when_late(snapshot: Any) -> None:
        if snapshot.seconds > seconds and not snapshot.finished:
            raise KeyboardInterrupt

    job = make_job(ask(SHAPES[kernel], gpu=gpu, kernel=kernel), kernel)
    listed = job.space.size
    job = replace(job, space=enlarged(job.space))
    run_sweep(job, progress=stop_when_late)
    rates, core_rates = [], []
    for _ in range(repeats):
        began = time.process_time()
        result = run_sweep(job, progress=stop_when_late)
        core_rates.append(result.evaluated / (time.process_time() - began))
        rates.append(result.rate)
    return Rate(kernel, job.space.name, listed, job.space.size, max(rates), max(core_rates))


def enlarged(space: Any) -> Any:
    """The space with every whole number between an axis's smallest and largest, on as few axes as give `POINTS`."""
    from dse.axis import Axis

    numbers = [axis for axis in space.axes if axis.fields == (axis.name,) and axis.name not in space.codes]
    for axis in sorted(numbers, key=lambda axis: max(axis.values)[0] - min(axis.values)[0], reverse=True):
        if space.size >= POINTS:
            break
        finer = Axis.of(axis.name, range(min(axis.values)[0], max(axis.values)[0] + 1))
        space = replace(space, axes=tuple(finer if at.name == axis.name else at for at in space.axes))
    return space


def main() -> None:
    """Prints a line a kernel, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kernels", nargs="*", choices=[[], *SHAPES], metavar="KERNEL")
    parser.add_argument("--gpu", default="h200_sxm")
    parser.add_argument("--seconds", type=float, default=4.0, help="of a sweep at most")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    chosen = ["gemm", *(name for name in arguments.kernels or SHAPES if name != "gemm")]
    rates = []
    for kernel in chosen:
        rates.append(measure(kernel, arguments.gpu, arguments.seconds, arguments.repeats))
        if not arguments.json:
            at, base = rates[-1], rates[0]
            print(
                f"{at.kernel:17s} {at.space:28s} {at.listed:>12,} points, swept {at.points:>12,}  "
                f"{at.rate / 1e6:6.1f} M/s  {at.core_rate / 1e6:6.1f} M a core-second  "
                f"{at.core_rate / base.core_rate:5.2f} of GEMM",
                flush=True,
            )
    if arguments.json:
        print(json.dumps([rate._asdict() for rate in rates], indent=2))


if __name__ == "__main__":
    main()
