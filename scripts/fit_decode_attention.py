"""Fits the numbers of decode attention's implementations to measured latencies.

    python scripts/fit_decode_attention.py                      # the packaged samples' part `fit`: prints what it found
    python scripts/fit_decode_attention.py --gqa FILE --mla FILE --write
                                                                # aiconfigurator's tables, into hardware/implementations

Every (kernel, GPU) is fitted by itself: soft-L1 least squares on the logarithm of best predicted over measured latency,
rows below 30 us, from 30 to 300 and above weighted so that a bucket counts with its rows to the power 0.3. What the
library would launch ([all] of its file) is not fitted. Errors are printed for the part `fit` and, with --judge, for
`judge`.
"""

import argparse
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.optimize import least_squares

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from dse.content.implementation import implementation_defaults, read_implementation
from dse.platform import configure_jax
from dse.validation.decode_measured import FAMILIES, DecodeFamily, load_decode, read_raw
from dse.validation.decode_predict import KERNEL, DecodePredictor

ROOT = Path(__file__).resolve().parents[1] / "hardware/implementations" / KERNEL
ROWS = 900  # of a (kernel, GPU)
BUCKETS_US = (30.0, 300.0)
FIRST_AND_BOUNDS = {
    "framework_s": (4e-6, 1e-7, 2e-5),
    "tile_setup_s": (5e-7, 1e-9, 5e-6),
    "wide_tile_setup_s": (1e-6, 1e-9, 8e-6),
    "row_s": (1e-8, 1e-11, 2e-7),
    "step_s": (1e-7, 1e-10, 3e-6),
    "combine_scale": (0.9, 0.01, 10.0),
    "read_scale": (1.05, 0.5, 1.3),
    "shared_read_scale": (0.4, 0.03, 1.0),
    "cache_share": (0.8, 0.1, 1.6),
    "overhead_loss": (0.4, 0.01, 1.0),
    "helper_q": (1.0, 0.01, 8.0),
    "helper_kv": (1.0, 0.001, 30.0),
    "sequence_s": (1e-8, 1e-11, 1e-7),
    "long_batch_sequence_s": (8e-9, 1e-11, 1e-7),
}


def main() -> None:
    """Fits every kernel and GPU asked for, prints errors, writes the files if told to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gqa", help="aiconfigurator's attention_generation table (default: the packaged sample)")
    parser.add_argument("--mla", help="aiconfigurator's mla_generation table (default: the packaged sample)")
    parser.add_argument("--kernel", action="append", help="only this kernel (may be repeated)")
    parser.add_argument("--rows", type=int, default=ROWS, help=f"to fit on, a kernel and GPU (default: {ROWS})")
    parser.add_argument("--judge", action="store_true", help="print errors on the part judge as well")
    parser.add_argument("--write", action="store_true", help="put the numbers into hardware/implementations")
    arguments = parser.parse_args()
    configure_jax()
    tables = {
        table: read_raw(table, path) if path else load_decode(table, None)
        for table, path in (("gqa", arguments.gqa), ("mla", arguments.mla))
    }
    for family, system, rows in _groups(tables, arguments.kernel):
        fit = rows[rows["part"] == "fit"]
        numbers = fitted(fit.sample(min(len(fit), arguments.rows), random_state=1), system, family)
        parts = ("fit", "judge") if arguments.judge else ("fit",)
        shown = "; ".join(f"{part} {_errors(rows[rows['part'] == part], system, family, numbers)}" for part in parts)
        print(f"{family.kernel:30} {system:9} {shown}")
        print("    " + " ".join(f"{name}={numbers[name]:.4g}" for name in family.free), flush=True)
        if arguments.write:
            write(family, system, numbers)


def fitted(rows: pd.DataFrame, system: str, family: DecodeFamily) -> dict[str, float]:
    """The implementation's numbers on a GPU: its library's own, and the fitted ones."""
    own = read_implementation(KERNEL, family.kernel).gpus
    known = implementation_defaults(KERNEL) | {name: datum.number for name, datum in own["all"].items()}
    known |= {name: d.number for name, d in own.get(system, {}).items() if d.kind != "fitted"}
    first, low, high = (np.log([FIRST_AND_BOUNDS[name][at] for name in family.free]) for at in range(3))
    measured_us = rows["latency_us"].to_numpy(float)
    bucket = np.digitize(measured_us, BUCKETS_US)
    weight = (len(rows) / np.bincount(bucket, minlength=3)[bucket]) ** 0.35
    weight /= weight.mean()
    started = known | {name: FIRST_AND_BOUNDS[name][0] for name in family.free}
    predictor = DecodePredictor(rows, system, family).narrowed(started)

    def numbers_at(place: np.ndarray) -> dict[str, float]:
        return known | dict(zip(family.free, map(float, np.exp(first + place - 1.0)), strict=True))

    def residuals(place: np.ndarray) -> np.ndarray:
        numbers = numbers_at(place)
        return np.log(predictor.predict(numbers)[0] / measured_us) * weight

    ones = np.ones(len(first))  # where the search starts; its steps are relative, so not at 0
    bounds = (low - first + 1.0, high - first + 1.0)
    found = least_squares(residuals, ones, bounds=bounds, loss="soft_l1", f_scale=0.1, diff_step=1e-2, max_nfev=40)
    return numbers_at(found.x)


def write(family: DecodeFamily, system: str, numbers: dict[str, float]) -> None:
    """Puts a GPU's fitted numbers into the implementation's file; everything else stays."""
    path = ROOT / f"{family.kernel}.toml"
    own = read_implementation(KERNEL, family.kernel).gpus.get(system, {})
    lines = [f"[{system}]"]
    lines += [
        f'{name} = {{ value = {datum.number:g}, kind = "{datum.kind}", source = "heads" }}'
        for name, datum in own.items()
        if datum.kind != "fitted"
    ]
    lines += [f'{name} = {{ value = {numbers[name]:.4g}, kind = "fitted", source = "fit" }}' for name in family.free]
    text = re.sub(rf"\n\[{system}\]\n(?:[^\[\n][^\n]*\n|\n(?!\[))*", "\n", path.read_text()).rstrip("\n")
    path.write_text(text + "\n\n" + "\n".join(lines) + "\n")


def _groups(
    tables: dict[str, pd.DataFrame], kernels: list[str] | None
) -> Iterator[tuple[DecodeFamily, str, pd.DataFrame]]:
    for family in FAMILIES:
        for system in family.systems:
            rows = tables[family.table]
            rows = rows[(rows["system"] == system) & (rows["kernel"] == family.kernel)]
            if len(rows) and family.kernel in (kernels or [family.kernel]):
                yield family, system, rows


def _errors(rows: pd.DataFrame, system: str, family: DecodeFamily, numbers: dict[str, float]) -> str:
    measured_us = rows["latency_us"].to_numpy(float)
    error = DecodePredictor(rows, system, family).narrowed(numbers).predict(numbers)[0] / measured_us - 1.0
    bucket = np.digitize(measured_us, BUCKETS_US)
    biases = [f"{100 * error[bucket == at].mean():+.1f}" if (bucket == at).any() else "-" for at in range(3)]
    return f"{len(rows)} rows MAPE {100 * np.abs(error).mean():.2f} bias {' '.join(biases)}"


if __name__ == "__main__":
    main()
