"""Measures how many candidates a second each kernel's sweep evaluates, beside GEMM's in the same run.

python scripts/bench_kernels.py [KERNEL ...] [--gpu h200_sxm] [--json]     # all kernels without arguments

Each sweep is the kernel's whole space on that GPU's fastest family, or as much of it as --seconds allows, with a top-10
and a front of three objectives, in steady state: compiled before. Core-seconds are processor time: on a machine that
does other work too, they say what seconds would be without it.
"""

import argparse
import json
import statistics
import time
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
    "elementwise": "8192x8192",
    "reduction": "8192x8192",
    "softmax": "8192x8192",
    "layernorm": "8192x8192",
    "rmsnorm": "8192x8192",
    "rope": "8192x4096",
    "kv_cache_write": "8192x2048",
    "quantise": "8192x8192",
}


class Rate(NamedTuple):
    """Candidates a second by the clock and a core-second, of a space with so many points."""

    kernel: str
    space: str
    points: int
    rate: float
    core_rate: float


def measure(kernel: str, gpu: str, seconds: float, repeats: int) -> Rate:
    """The rate of a kernel's sweep, the median of a few."""
    from dse.api import make_job
    from dse.question import ask
    from dse.sweep import run_sweep

    def stop_when_late(snapshot: Any) -> None:
        if snapshot.seconds > seconds and not snapshot.finished:
            raise KeyboardInterrupt

    asked = ask(SHAPES[kernel], gpu=gpu, kernel=kernel)
    job = make_job(asked, kernel)
    run_sweep(job, progress=stop_when_late)
    results, began = [], time.process_time()
    for _ in range(repeats):
        results.append(run_sweep(job, progress=stop_when_late))
    core_seconds = time.process_time() - began
    rate = statistics.median(result.rate for result in results)
    evaluated = sum(result.evaluated for result in results)
    return Rate(kernel, job.space.name, job.space.size, rate, evaluated / core_seconds)


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
                f"{at.kernel:17s} {at.space:28s} {at.points:>13,} points  {at.rate / 1e6:6.1f} M/s  "
                f"{at.core_rate / 1e6:6.1f} M a core-second  {at.core_rate / base.core_rate:5.2f} of GEMM",
                flush=True,
            )
    if arguments.json:
        print(json.dumps([rate._asdict() for rate in rates], indent=2))


if __name__ == "__main__":
    main()
