"""Closed form of cache reuse against its exact twins, on fresh drawn launches: the accuracy bars of the hit rates.

    python scripts/check_hits.py [--cases 1000] [--seed 2026]

Prints absolute errors in percentage points of the hit rate by bytes (mean, 95th and 99th percentile, maximum) and
exits with 1 when a bar is missed. Takes minutes: the twins play every access of every tile.
"""

import argparse
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.oracles import compare
from tests.oracles.cases import MIB, Case, draw_cases

CLUSTERS = np.array([(2, 1), (1, 2), (2, 2), (4, 1), (1, 4), (4, 2), (2, 4)])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=1000, help="launches of the L2 check; half as many for the others")
    parser.add_argument("--seed", type=int, default=2026)
    options = parser.parse_args()
    count, seed = options.cases, options.seed
    print("absolute error of the hit rate by bytes, percentage points")
    passed = [_check_l2(count, seed), _check_split_k(count // 2, seed + 1), _check_clusters(count // 2, seed + 2)]
    passed += _check_l15(count // 2, seed + 3)
    return 0 if all(passed) else 1


def _check_l2(count: int, seed: int) -> bool:
    cases = draw_cases(count, seed)
    errors = compare.l2_errors(cases)
    passed = _report("L2, 13 capacities", errors, mean_bar=0.08, p99_bar=1.2)
    concurrent, waves = (np.array([getattr(c, name) for c in cases]) for name in ("concurrent", "waves"))
    for name, chosen in (
        ("  concurrency >= 64", concurrent >= 64),
        ("  one wave", waves == 1),
        ("  2 to 4 waves", (waves > 1) & (waves <= 4)),
        ("  5 to 16 waves", (waves > 4) & (waves <= 16)),
        ("  more waves", waves > 16),
        ("  batches", np.array([c.batch > 1 for c in cases])),
    ):
        _report(name, errors[chosen])
    return passed


def _check_split_k(count: int, seed: int) -> bool:
    cases = [c for c in draw_cases(count, seed, max_tile_steps=250_000, batches=False) if c.k_steps > 1]
    splits = np.minimum(np.random.default_rng(seed).integers(2, 9, len(cases)), [c.k_steps for c in cases])
    passed = _report("split-K, steps of a full split", compare.split_k_errors(cases, splits), mean_bar=0.3)
    return _report("split-K, mean steps", compare.split_k_errors(cases, splits, mean_steps=True), mean_bar=0.3) & passed


def _check_clusters(count: int, seed: int) -> bool:
    cases = draw_cases(count, seed, max_tile_steps=250_000, batches=False)
    shapes = CLUSTERS[np.random.default_rng(seed).integers(0, len(CLUSTERS), count)]
    return _report("clusters", compare.cluster_errors(cases, shapes[:, 0], shapes[:, 1]), mean_bar=0.3)


def _check_l15(count: int, seed: int) -> list[bool]:
    passed = []
    plain = draw_cases(count, seed, max_tile_steps=250_000, any_concurrency=False, batches=False)
    batched = draw_cases(4 * count, seed, max_tile_steps=120_000, any_concurrency=False)
    batched = [c for c in batched if c.batch > 1 and c.k_steps >= 4]
    for kib in (180, 256):
        share, ddr = compare.l15_errors(plain, kib * 1024.0, 40 * MIB)
        deep = _has_steps(plain, 4)
        passed.append(_report(f"L1.5 share, {kib} KiB, 4 K-steps and more", share[deep], mean_bar=1.0))
        _report("  1 to 3 K-steps", share[~deep])
        _report("  batches, 4 K-steps and more", compare.l15_errors(batched, kib * 1024.0, 40 * MIB)[0])
        _report("  DDR share, taken as 1 - L2 hits", ddr)
    return passed


def _has_steps(cases: list[Case], least: int) -> np.ndarray:
    return np.array([c.k_steps >= least for c in cases])


def _report(name: str, errors: np.ndarray, mean_bar: float = np.inf, p99_bar: float = np.inf) -> bool:
    if not len(errors):
        return True
    size = np.abs(errors)
    p95, p99 = np.percentile(size, [95, 99])
    passed = bool(size.mean() <= mean_bar and p99 <= p99_bar)
    bars = [f"{what} <= {bar}" for what, bar in (("mean", mean_bar), ("p99", p99_bar)) if bar < np.inf]
    verdict = f"  [{', '.join(bars)}: {'met' if passed else 'MISSED'}]" if bars else ""
    print(
        f"{name:42s} {len(errors):5d} cases  mean {size.mean():.3f}  p95 {p95:.2f}  p99 {p99:.2f}  "
        f"max {size.max():.1f}  bias {errors.mean():+.3f}{verdict}",
        flush=True,
    )
    return passed


if __name__ == "__main__":
    sys.exit(main())
