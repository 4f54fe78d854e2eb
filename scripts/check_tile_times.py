"""Closed forms of tile programs in time against their exact twins, on fresh drawn loops and launches.

    python scripts/check_tile_times.py [--loops 150] [--launches 3000] [--seed 2026]

Prints relative errors (positive: the closed form is too slow) of cyclic schedules: initiation interval, finite loops by
trips, CTAs that share pipelines; and of ordered tiles: makespan by launch order and waves. Exits with 1 when a bar of
docs/tile-programs-in-time.md is missed. Takes about a minute.
"""

import argparse
import sys
from pathlib import Path

import jax
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.oracles.cyclic_compare import interval_errors, loop_errors, resident_errors
from tests.oracles.list_compare import ORDERS, class_errors, draw_launches, makespan_errors, waves

INTERVAL_BAR, LOOP_BAR, LONGEST_FIRST_BAR, HEADS_BAR = 1e-9, 0.001, 0.005, 0.01  # mean |error|
WAVES = ((0, 1), (1, 2), (2, 3), (3, 5), (5, 10), (10, np.inf))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--loops", type=int, default=150)
    parser.add_argument("--launches", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=2026)
    options = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    passed = [_check_loops(options.loops, options.seed, ahead) for ahead in (False, True)]
    passed.append(_check_launches(options.launches, options.seed))
    return 0 if all(passed) else 1


def _check_loops(count: int, seed: int, ahead: bool) -> bool:
    print("\nloops with actions that run ahead" if ahead else "loops in step")
    passed = [_report("initiation interval", interval_errors(count // 3, 20, seed, ahead), INTERVAL_BAR)]
    errors, off, trips = loop_errors(count, 40, seed + 1, ahead)
    passed.append(_report("finite loop", errors, LOOP_BAR))
    for first, last in ((1, 1), (2, 3), (4, 7), (8, 48)):
        _report(f"  {first} to {last} trips", errors[(trips >= first) & (trips <= last)])
    print(f"  by intervals: {off.min():+.2f} to {off.max():+.2f}")
    for resident in (1, 2, 3, 4):
        _report(f"{resident} CTAs, shared pipelines", resident_errors(count // 5, 20, seed + 2, resident, ahead))
    return all(passed)


def _check_launches(count: int, seed: int) -> bool:
    launches, slots = draw_launches(count, seed)
    a_slot, passed = waves(launches, slots), []
    for order in ORDERS:
        print(f"\nmakespan, {order}")
        errors = makespan_errors(launches, slots, order)
        passed.append(_report("all", errors, HEADS_BAR if order.startswith("head") else LONGEST_FIRST_BAR))
        for low, high in WAVES:
            _report(f"  {low} to {high} waves", errors[(a_slot > low) & (a_slot <= high)])
        long = np.array([np.mean(launch.blocks()) >= 8 for launch in launches])
        _report("  8 and more blocks a tile", errors[long])
    print("\nmakespan of up to 16 classes")
    errors, a_slot = class_errors(count // 2, seed)
    for low, high in ((0, np.inf), (0, 1), (1, 2), (2, 4), (4, 10), (10, np.inf)):
        _report(f"  {low} to {high} waves", errors[(a_slot > low) & (a_slot <= high)])
    return all(passed)


def _report(name: str, errors: np.ndarray, mean_bar: float = np.inf) -> bool:
    if not len(errors):
        return True
    mean = np.abs(errors).mean()
    low, high = np.quantile(errors, [0.01, 0.99])
    passed = bool(mean <= mean_bar)
    verdict = f"  [mean <= {mean_bar:.1%}: {'met' if passed else 'MISSED'}]" if mean_bar < np.inf else ""
    print(
        f"{name:28s} {len(errors):5d} cases  mean {mean:8.4%}  bias {errors.mean():+8.3%}  "
        f"1 to 99 % {low:+7.2%} to {high:+7.2%}  extremes {errors.min():+6.1%} to {errors.max():+6.1%}{verdict}"
    )
    return passed


if __name__ == "__main__":
    sys.exit(main())
