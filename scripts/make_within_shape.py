"""Makes studies/measured/within_shape.json: how schedules of one shape err against each other.

    python scripts/make_within_shape.py [--data ../shared/data/measured]

Two public tables of measured schedules speak, which the project does not carry: CUTLASS on H100 at sizes 2048 and 6144,
and CuTe on RTX 3090 (docs/schedule-ranking.md says what they are). The file holds three fitted numbers and a noise a
problem, no row of the tables. Half a minute.
"""

import argparse
import json
import shlex
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

from dse.api import make_job
from dse.content.gpu import load_gpu
from dse.errors import UserError
from dse.platform import configure_jax
from dse.provenance import model_hash
from dse.question import ask
from dse.trust import label_of
from dse.validation.ranking import rank_measured
from dse.validation.schedule_tables import read_cute_sweep, read_cutlass_sweep
from dse.validation.within_shape_fit import ASSUMED, SchedulesOfShape, fit_within_shape, schedules_of, tile_pairs

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT.parent / "shared/data/measured"
OUT = ROOT / "studies/measured/within_shape.json"
CUTLASS, CUTE = "cutlass_h100_schedules.csv", "cutedsl_rtx3090_schedules.csv"
SIZES = (2048, 6144)
ONE_SIGMA = 0.68


def main(words: list[str] | None = None) -> int:
    """Fits and writes; 0, or 2 where the tables are missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the two tables")
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args(words)
    configure_jax()
    try:
        problems = measured_problems(options.data)
    except UserError as error:
        print(f"make_within_shape: {error}", file=sys.stderr)
        return 2
    command = shlex.join(["python", "scripts/make_within_shape.py", *(sys.argv[1:] if words is None else words)])
    made_from = {
        "command": command,
        "tables": [
            f"{CUTLASS} (kapilsh.github.io, post of 2025-12-31), sizes 2048 and 6144",
            f"{CUTE} (sinamps/libgen)",
        ],
        "problems": len(problems),
        "schedules": sum(len(problem.predicted_s) for problem in problems),
        "fitted": ["sigma", "stages", "order", "noise"],
        "assumed": dict(ASSUMED),
        "gpus": {name: load_gpu(name).hash for name in ("h100_sxm", "rtx_3090")},
        "model": model_hash(),
    }
    found = fit_within_shape(problems, residual_spread(), made_from)
    content = found.to_dict()
    content |= {"sigma": round(found.sigma, 4), "spread": round(found.spread, 4)}
    content |= {"rates": {name: round(rate, 4) for name, rate in found.rates.items()}}
    content |= {"noise": [round(entry, 4) for entry in found.noise]}
    options.out.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    for name, octaves, apart in tile_pairs(problems):
        print(f"{name}: two tiles {octaves:g} octaves apart err apart by {100 * apart:+.1f} %")
    print(f"sigma {found.sigma:.4f}, rates {content['rates']}, median noise {np.median(found.noise):.4f}")
    print(f"wrote {options.out}")
    return 0


def measured_problems(data: Path) -> list[SchedulesOfShape]:
    """The measured schedules of both tables, predicted with the packaged GPU files."""
    cutlass = rank_measured(read_cutlass_sweep(data / CUTLASS, SIZES), load_gpu("h100_sxm"), launch="host")
    cute = rank_measured(read_cute_sweep(data / CUTE), load_gpu("rtx_3090"))
    return [*schedules_of(cutlass), *schedules_of(cute)]


def residual_spread() -> float:
    """Half of the 68 % interval of tuned kernels' residuals, as a logarithm, at the measured problems of the H100."""
    found = []
    for size, latency_s in zip(SIZES, (35e-6, 760e-6), strict=True):
        label = label_of(make_job(ask(f"{size}x{size}x{size}", "bf16", "h100_sxm")), ONE_SIGMA)
        assert label is not None
        low, high = label.interval(latency_s)
        found.append(float(np.log(high / low)) / 2.0)
    return float(np.mean(found))


if __name__ == "__main__":
    sys.exit(main())
