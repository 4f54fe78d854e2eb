"""Fits three numbers a GPU and narrow type to the part `fit` of the packaged gemm_lowprec sample, on top of bf16's.

    python scripts/fit_lowprec.py                 # prints what it found, with errors on `fit` and `check`
    python scripts/fit_lowprec.py --write         # and puts it into the GPU files, as [by_dtype.<type>]

All other numbers stay those of the GPU file, which were fitted to bf16: run it again when they change.
"""

import argparse
import dataclasses
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from dse.calibrate.fit_measured import Predictor, fit_measured
from dse.calibrate.measurements import Measurements, measurements
from dse.calibrate.parameters import Parameter
from dse.calibrate.write_toml import fitted_gpu
from dse.content.gpu import GpuFile, load_gpu
from dse.platform import configure_jax
from dse.validation.measured_split import judged_and_fitted

TABLE = "gemm_lowprec"
ROOT = Path(__file__).resolve().parents[1]
LAUNCH = Parameter("quantise_launch_s", 0.5e-6, 9e-6, "a kernel that quantises activations, without its bytes")
RATE = Parameter("quantise_bytes_per_s", 0.5e12, 20e12, "what such a kernel reads and writes at best")
TENSOR = Parameter("tensor_efficiency", 0.4, 1.0, "share of this type's tensor peak that a long main loop sustains")
STEP = Parameter(
    "step_overhead_s", 1e-9, 2e-7, "a K-step: its barrier, then promotion (Hopper) or scales into TMEM (B200)"
)
FREE: dict[tuple[str, str], tuple[Parameter, ...]] = {
    ("wgmma", "fp8"): (LAUNCH, RATE, TENSOR),
    ("wgmma", "fp8_block"): (LAUNCH, RATE, STEP),
    ("tcgen05", "fp8"): (LAUNCH, RATE, TENSOR),
    ("tcgen05", "fp8_block"): (LAUNCH, RATE, TENSOR),
    ("tcgen05", "nvfp4"): (LAUNCH, TENSOR, STEP),
}
FIRST = {"quantise_launch_s": 3e-6, "quantise_bytes_per_s": 3e12, "step_overhead_s": 1e-7}  # where the search starts
ROWS = 300


def main() -> None:
    """Fits every GPU and type asked for; prints a line each; writes the GPU files if told to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpu", action="append", help="only this GPU (may be repeated)")
    parser.add_argument("--dtype", action="append", help="only this type (may be repeated)")
    parser.add_argument("--rows", type=int, default=ROWS, help=f"rows to fit on, a GPU and type (default: {ROWS})")
    parser.add_argument("--evaluations", type=int, default=800, help="of the error, a round (default: 800)")
    parser.add_argument("--write", action="store_true", help="put the numbers into hardware/gpus")
    arguments = parser.parse_args()
    configure_jax()
    check, fit = judged_and_fitted(TABLE, "check")
    for (name, dtype), rows in fit.groupby(["system", "dtype"]):
        if name in (arguments.gpu or [name]) and dtype in (arguments.dtype or [dtype]):
            drawn = rows.sample(min(len(rows), arguments.rows), random_state=1)
            judged = check[(check["system"] == name) & (check["dtype"] == dtype)]
            values, line = fitted(load_gpu(str(name)), str(dtype), drawn, judged, arguments.evaluations)
            print(line, flush=True)
            if arguments.write:
                write(str(name), str(dtype), values)


def fitted(gpu: GpuFile, dtype: str, fit: Any, check: Any, evaluations: int) -> tuple[dict[str, float], str]:
    """The fitted numbers, and a line with them and the errors on both parts."""
    common = dataclasses.replace(gpu, by_dtype={})
    free = FREE[gpu.families(dtype)[0], dtype]
    first = fitted_gpu(common, {item.name: FIRST.get(item.name, common[item.name]) for item in free})
    found = fit_measured(first, Predictor(common, measured(fit, dtype)), free, evaluations=evaluations)
    judged = measured(check, dtype)
    error = Predictor(common, judged)(fitted_gpu(common, found.values)) / judged.latency_s - 1.0
    numbers = ", ".join(f"{name} {value:.4g}" for name, value in found.values.items())
    line = f"{gpu.name} {dtype}: fit {100 * found.error:.2f} %, check {100 * np.mean(np.abs(error)):.2f} % "
    return found.values, f"{line}(bias {100 * np.mean(error):+.1f} %): {numbers}"


def measured(rows: Any, dtype: str) -> Measurements:
    """The rows of a table as a fit takes them."""
    latency_s = rows["latency_us"] * 1e-6
    return measurements(rows["m"], rows["n"], rows["k"], latency_s, dtype=dtype, quantise_a=rows["quantise_a"])


def write(gpu: str, dtype: str, values: Mapping[str, float]) -> None:
    """Replaces or appends the table [by_dtype.<dtype>] of a packaged GPU file, and names the source if it is new."""
    path = ROOT / "hardware/gpus" / f"{gpu}.toml"
    text = path.read_text(encoding="utf-8")
    source = "lowprec-sample"
    if f"\n{source} = " not in text:
        said = f'{source} = "scripts/fit_lowprec.py on the part `fit` of studies/measured/gemm_lowprec.parquet"\n'
        text = text.replace("[sources]\n", f"[sources]\n{said}", 1)
    family = load_gpu(gpu).families(dtype)[0]
    notes = {item.name: item.meaning for item in FREE[family, dtype]}
    head = f"[by_dtype.{dtype}]"
    body = [
        f'{name} = {{ value = {value:.4g}, kind = "fitted", source = "{source}", note = "{notes[name]}" }}'
        for name, value in values.items()
    ]
    block = "\n".join([head, *body]) + "\n"
    blocks = [part for part in text.split("\n\n") if not part.lstrip().startswith(head)]
    path.write_text("\n\n".join([*(part.strip("\n") for part in blocks), block]), encoding="utf-8")


if __name__ == "__main__":
    main()
