"""The GEMM cost against its scalar float64 twin on many drawn candidates: largest relative difference of every field.

python scripts/check_twin.py --count 21000
"""

import argparse
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.oracles.gemm_compare import differences, model_fields, twin_fields
from tests.oracles.gemm_draws import FAMILIES, draw_gemms

TOLERANCE = {np.float32: 1e-4, np.float64: 1e-9}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=21_000, help="candidates, over all instruction families")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()

    worst: dict[type, dict[str, float]] = {np.float32: {}, np.float64: {}}
    feasible = compared = 0
    for family in FAMILIES:
        draw = draw_gemms(arguments.count // len(FAMILIES), arguments.seed, family)
        exact = twin_fields(draw)
        compared += len(exact["reason"])
        feasible += int((exact["reason"] == 0).sum())
        for dtype, fields in worst.items():
            for name, difference in differences(draw, model_fields(draw, dtype), exact).items():
                fields[name] = max(fields.get(name, 0.0), float(difference.max()))

    print(
        f"{compared} candidates, {feasible} of them fit; largest difference of each field (of codes: 1 if any differs)"
    )
    print(f"{'field':24}{'float32':>12}{'float64':>12}")
    for name in worst[np.float32]:
        print(f"{name:24}{worst[np.float32][name]:12.1e}{worst[np.float64][name]:12.1e}")
    return int(any(max(fields.values()) > TOLERANCE[dtype] for dtype, fields in worst.items()))


if __name__ == "__main__":
    raise SystemExit(main())
