"""Measured schedules and bandwidth curves against the model: what is asked of its ranking, its hits and its rates.

    python scripts/check_ranking.py [--data ../shared/data/measured] [--set FIELD=VALUE ...]

Prints each figure with its bar and exits with 1 where one is missed. Nothing was fitted on the schedules; which of the
curves a GPU file's own numbers come from is printed beside them. --set changes a number of the H100 (a what-if, e.g.
overlap_loss=0.1). Half a minute.
"""

import argparse
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from dse.cli.options import overrides
from dse.content.gpu import load_gpu
from dse.platform import configure_jax
from dse.text import table
from dse.validation.footprint import compare_curve, curve_of, read_footprint_curves
from dse.validation.ranking import gains, rank_measured
from dse.validation.schedule_tables import read_cute_sweep, read_cutlass_sweep

DATA = Path(__file__).resolve().parents[2] / "shared/data/measured"
CURVES = (("a100_sxm", "a100_80"), ("h200_sxm", "h200"), ("h100_pcie", "h100_pcie"), ("l40s", "l40"))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the tables")
    parser.add_argument("--set", action="append", default=[], metavar="FIELD=VALUE", dest="overrides")
    options = parser.parse_args()
    if not options.data.is_dir():
        print(f"no measured tables at {options.data}: give their folder with --data")
        return 1
    configure_jax()
    passed = [
        *cutlass_on_h100(options.data / "cutlass_h100_schedules.csv", options.overrides),
        *cute_on_rtx_3090(options.data / "cutedsl_rtx3090_schedules.csv"),
        *footprints(options.data / "l2_bandwidth_vs_footprint.csv"),
    ]
    print(f"\n{sum(passed)} of {len(passed)} bars met")
    return 0 if all(passed) else 1


def cutlass_on_h100(path: Path, changes: list[str]) -> list[bool]:
    """Tiles, the predicted best 15 %, and what swizzle 8 gains over 1."""
    gpu = load_gpu("h100_sxm", overrides(changes))
    found = rank_measured(read_cutlass_sweep(path, [2048, 6144]), gpu, launch="host")
    print("\n".join(["\nCUTLASS on H100, data-parallel, host launch included", *gpu.changes]))
    print(table(found.table_rows(), left=("problem",)))
    passed = []
    for entry, low, high in zip(found.problems, (-2.0, 4.0), (2.0, 14.0), strict=True):
        rows = entry.rows.assign(label=[" ".join(name.split()[1:3]) for name in entry.rows["name"]])
        by_tile = rows.groupby("tile_n")[["predicted_us", "measured_us"]]
        slowest, fastest = (
            float(kind["predicted_us"].loc[n]) for kind, n in ((by_tile.max(), 256), (by_tile.min(), 128))
        )
        mean = by_tile.mean()
        print(f"\n{entry.problem}: time of 128x128 over 128x256, predicted {_ratio(mean['predicted_us'])}, measured "
              f"{_ratio(mean['measured_us'])}")  # fmt: skip
        passed.append(_bar("slowest 128x256 / fastest 128x128", slowest / fastest, 0.0, 1.0))
        passed.append(_bar("best 15 % retain, %", entry.quality.retained[15], 97.0, 100.0))
        pairs = gains(rows[rows["tile_n"] == 128], "swizzle", 1, 8, ["label"])
        print("  measured gains of swizzle 8 on 128x128: " + ", ".join(
            f"{pair['label']} {pair['measured_gain']:+.1f}" for pair in pairs.to_dict("records")))  # fmt: skip
        passed += [_bar(f"{which} predicted gain, %", getattr(pairs["predicted_gain"], which)(), low, high)
                   for which in ("min", "max")]  # fmt: skip
    return passed


def cute_on_rtx_3090(path: Path) -> list[bool]:
    """The register rule's verdicts, regret and rank correlation."""
    found = rank_measured(read_cute_sweep(path), load_gpu("rtx_3090"))
    print("\nCuTe on RTX 3090")
    print(table(found.table_rows(), left=("problem",)))
    slow = [(row["measured_us"] / entry.rows["measured_us"].min(), row["predicted_us"] == np.inf)
            for entry in found.problems for row in entry.rows.to_dict("records")]  # fmt: skip
    refused = [factor for factor, cannot in slow if cannot]
    kept = [factor for factor, cannot in slow if not cannot]
    print(f"refused for their registers: {len(refused)}, {min(refused):.1f} to {max(refused):.1f} times the best; "
          f"kept: {len(kept)}, at most {max(kept):.2f} times")  # fmt: skip
    passed = [_bar("top-1 regret, mean, %", found.mean.top1_regret, 0.0, 8.0)]
    return [*passed, _bar("Spearman, mean", found.mean.spearman, 0.7, 1.0)]


def footprints(path: Path) -> list[bool]:
    """Position of the fall and DDR level of the streaming curves."""
    curves = read_footprint_curves(path)
    passed = []
    for name, device in CURVES:
        found = compare_curve(load_gpu(name), device, curve_of(curves, device))
        ours, theirs, errors = found.predicted, found.measured, found.errors
        print(f"\nstreaming reads of {device} against {name}")
        print("\n".join(f"  {field}: {source}" for field, source in found.sources.items()))
        passed.append(_bar(f"fall, {ours.fall_bytes / 1e6:.1f} MB against {theirs.fall_bytes / 1e6:.1f}, error %",
                           errors["fall_bytes"], -10.0, 10.0))  # fmt: skip
        level = f"{ours.ddr_bytes_per_s / 1e12:.2f} TB/s against {theirs.ddr_bytes_per_s / 1e12:.2f}"
        passed.append(_bar(f"DDR level, {level}, error %", errors["ddr_bytes_per_s"], -10.0, 10.0))
        print(f"  L2 level, {ours.l2_bytes_per_s / 1e12:.2f} TB/s against {theirs.l2_bytes_per_s / 1e12:.2f}, "
              f"error %: {errors['l2_bytes_per_s']:+.1f} (no bar)")  # fmt: skip
    return passed


def _ratio(mean) -> str:
    return f"{mean.loc[128] / mean.loc[256]:.3f}"


def _bar(what: str, value: float, low: float, high: float) -> bool:
    passed = low <= value <= high
    print(f"  {'met   ' if passed else 'MISSED'} {what}: {value:.3g} (bar {low:g} to {high:g})")
    return passed


if __name__ == "__main__":
    sys.exit(main())
