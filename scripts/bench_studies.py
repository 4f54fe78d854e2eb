"""Times the studies that must answer within a minute, as whole commands in processes of their own.

python scripts/bench_studies.py [headline] [whatif] [uncertainty]     # all three without arguments

Seconds are by the clock, core-seconds processor time: on a machine that does other work too, they say what the clock
would say without it (two cores: about half of them).

headline     the README's what-if: twice the L2 for the shapes of a model, over the whole space
whatif       64 L2 sizes x 12 shapes, tuned anew over at least a million schedules that fit, each
uncertainty  the front of a space of a million points under 256 draws of the GPU's numbers
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SHAPES = [f"{m}x{n}" for m in (2048, 4096, 8192) for n in ("10240x8192", "8192x8192", "57344x8192", "8192x28672")]
MILLION = ["--axis", "raster=along_m:1,along_m:8,along_n:1,along_n:8", "--axis", "operands=straight"]


def headline(folder: Path) -> str:
    """The README's question."""
    out = folder / "headline"
    found = _dse("whatif", "--gpu", "h200_sxm", "--vary", "l2_capacity=2x", "--shapes", "llama3_70b_prefill", out=out)
    return f"{found['evaluations'] / 1e6:.1f} M evaluations"


def whatif(folder: Path) -> str:
    """64 machines x 12 shapes x a million schedules."""
    words = ["--vary", "l2_capacity=16e6:512e6:64", *MILLION, "--axis", "tile_k=32,64,128", "--axis", "stages=2:8"]
    shapes = [word for shape in SHAPES for word in ("--shape", shape)]
    found = _dse("whatif", "--gpu", "h200_sxm", *words, *shapes, out=folder / "whatif")
    sizes = next(iter(found["spaces"].values()))
    evaluations = f"{found['evaluations'] / 1e6:.1f} M evaluations"
    return f"{sizes['declared']:,} schedules declared, {sizes['fit']:,} fit, {evaluations}"


def uncertainty(folder: Path) -> str:
    """256 draws on a space of a million points."""
    out = folder / "run"
    words = [*MILLION, "--axis", "tile_k=64,128", "--axis", "stages=2,4,6"]
    swept = _dse("sweep", "gemm", "--shape", "8192x8192x8192", *words, out=out)
    began = time.perf_counter()
    _run(["front", str(out), "--draws", "256", "--json"])
    return f"{swept['declared']:,} points, the draws alone {time.perf_counter() - began:.1f} s"


PARTS: dict[str, Callable[[Path], str]] = {"headline": headline, "whatif": whatif, "uncertainty": uncertainty}


def main() -> None:
    """Runs the parts that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}")
    asked = parser.parse_args().parts or list(PARTS)
    unknown = [name for name in asked if name not in PARTS]
    if unknown:
        parser.error(f"unknown part {unknown[0]!r}; known: {', '.join(PARTS)}")
    print(f"{len(os.sched_getaffinity(0))} cores")
    for name in asked:
        with tempfile.TemporaryDirectory() as folder:
            began, busy = time.perf_counter(), _children_core_seconds()
            said = PARTS[name](Path(folder))
            seconds, core_seconds = time.perf_counter() - began, _children_core_seconds() - busy
        print(f"{name:<12} {seconds:6.1f} s, {core_seconds:6.1f} core-seconds: {said}", flush=True)


def _dse(*words: str, out: Path) -> dict[str, Any]:
    return json.loads(_run([*words, "--out", str(out), "--json", "--quiet"]))


def _run(words: list[str]) -> str:
    command = [sys.executable, "-m", "dse", *words]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout


def _children_core_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    main()
