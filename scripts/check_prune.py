"""Does `dse prune` keep what it expects to keep? Measured schedules pruned, and what was really kept beside it.

    python scripts/check_prune.py [--data ../shared/data/measured] [--keep 5% --keep 10% ...]

Every problem of the two public tables of measured schedules (CUTLASS on an H100, sizes from 2048 on, whose rows hold
no host overhead to speak of; CuTe on an RTX 3090). Exits with 1 where the mean of the real shares is below the mean
that was expected by more than two standard errors. The error model within a shape was fitted on these tables
(scripts/make_within_shape.py): this shows that it is no promise they break, and no more.
"""

import argparse
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from dse.content.gpu import load_gpu
from dse.platform import configure_jax
from dse.studies.benchmark.prune import prune
from dse.text import table
from dse.validation.schedule_tables import MeasuredSchedules, read_cute_sweep, read_cutlass_sweep

DATA = Path(__file__).resolve().parents[2] / "shared/data/measured"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the tables")
    parser.add_argument("--keep", action="append", help="as of dse prune; several times (default: 5%% 10%% 20%% 50%%)")
    options = parser.parse_args()
    if not options.data.is_dir():
        print(f"no measured tables at {options.data}: give their folder with --data")
        return 1
    configure_jax()
    cutlass = read_cutlass_sweep(options.data / "cutlass_h100_schedules.csv", [2048, 6144])
    cute = read_cute_sweep(options.data / "cutedsl_rtx3090_schedules.csv")
    tables = [("h100_sxm", entry) for entry in cutlass] + [("rtx_3090", entry) for entry in cute]
    holds = []
    for keep in options.keep or ["5%", "10%", "20%", "50%"]:
        rows = [measure(gpu, entry, keep) for gpu, entry in tables]
        print(f"\nkeep {keep}")
        print(table([{name: _shown(value) for name, value in row.items()} for row in rows], left=("problem",)))
        real, expected = (np.array([row[name] for row in rows], float) for name in ("really kept %", "expected %"))
        error = float((real - expected).std(ddof=1) / np.sqrt(len(rows)))
        low = np.array([row["9 of 10 at least %"] for row in rows], float)
        print(
            f"mean of {len(rows)}: kept {real.mean():.2f} %, expected {expected.mean():.2f} % (standard error of the "
            f"difference {error:.2f}); {int((real >= low).sum())} kept at least what 9 of 10 should"
        )
        holds.append(real.mean() >= expected.mean() - 2.0 * error)
    return 0 if all(holds) else 1


def measure(gpu: str, measured: MeasuredSchedules, keep: str) -> dict[str, object]:
    """One problem: what is kept, what that keeps of the best measured performance, and what was expected."""
    entries = [
        (f"{place} {name}", {"family": family, **schedule})
        for place, (name, family, schedule) in enumerate(
            zip(measured.names, measured.families, measured.schedules, strict=True)
        )
    ]
    pruned = prune(entries, [(measured.title, measured.problem)], load_gpu(gpu), keep)
    places = [int(name.split()[0]) for name in pruned.kept]
    real = measured.latency_us.min() / measured.latency_us[places].min()
    (shape,) = pruned.shapes
    assert shape.retained is not None
    return {
        "problem": f"{gpu} {measured.title}",
        "schedules": len(entries),
        "can run": shape.runnable,
        "kept": len(places),
        "really kept %": 100.0 * real,
        "expected %": 100.0 * shape.retained.expected,
        "9 of 10 at least %": 100.0 * shape.retained.low,
        "errors x": shape.retained.scale,
        "tied": shape.tied,
    }


def _shown(value: object) -> str:
    return f"{value:.1f}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    sys.exit(main())
