"""Errors of predicted latencies, with intervals that resample the measured (n, k) pairs."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

LEVEL = 0.95
DRAWS = 1000
SEED = 0
QUANTILES = {"p50": 0.50, "p90": 0.90, "p99": 0.99}
CHUNK_ELEMENTS = 2**22


@dataclass(frozen=True)
class Errors:
    """Errors of one method on one set of rows, per cent of the measured latency.

    Attributes:
        count: rows.
        mape: mean absolute error.
        weighted_mape: sum of absolute errors over sum of measured latencies: long kernels count as long as they run.
        bias: mean signed error (negative: predicted too fast).
        p50, p90, p99: percentiles of the absolute error.
        pairs: groups of rows that were resampled, i.e. (n, k) pairs; 0 where none were given.
        interval: name of a number above -> the bounds of its 95 % bootstrap interval; empty without at least two pairs.
    """

    count: int
    mape: float
    weighted_mape: float
    bias: float
    p50: float
    p90: float
    p99: float
    pairs: int = 0
    interval: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; the intervals as lists."""
        numbers = {name: getattr(self, name) for name in ("count", *METRICS, "pairs")}
        return numbers | {"interval": {name: list(bounds) for name, bounds in self.interval.items()}}


METRICS = ("mape", "weighted_mape", "bias", "p50", "p90", "p99")


def errors(predicted: np.ndarray, measured: np.ndarray, pairs: np.ndarray | None = None, draws: int = DRAWS) -> Errors:
    """Errors of predicted against measured latencies, same unit.

    Rows of one weight shape (n, k) are correlated: the library picks one kernel for many m, and what the model gets
    wrong there it gets wrong for all of them. Resampling rows would call that evidence and give intervals that are far
    too narrow, so the bootstrap draws whole pairs with replacement (a cluster bootstrap), with a fixed seed, and the
    interval runs between percentiles of what the draws give. With few pairs it is still somewhat too narrow.

    Args:
        predicted, measured: float[rows].
        pairs: any label a row; rows with equal labels are drawn together. None: no intervals.
        draws: of the bootstrap.
    """
    predicted, measured = np.asarray(predicted, float), np.asarray(measured, float)
    relative = 100.0 * (predicted / measured - 1.0)
    absolute = np.abs(relative)
    p50, p90, p99 = (float(np.quantile(absolute, level)) for level in QUANTILES.values())
    weighted = float(100.0 * np.abs(predicted - measured).sum() / measured.sum())
    found = Errors(len(relative), float(absolute.mean()), weighted, float(relative.mean()), p50, p90, p99)
    if pairs is None:
        return found
    labels, group = np.unique(np.asarray(pairs), return_inverse=True)
    if len(labels) < 2:
        return replace(found, pairs=len(labels))
    times = drawn_times(len(labels), draws)
    sums = {
        "mape": (absolute, np.ones_like(measured)),
        "weighted_mape": (100.0 * np.abs(predicted - measured), measured),
        "bias": (relative, np.ones_like(measured)),
    }
    spread = {name: _ratio_of_sums(times, group, top, below) for name, (top, below) in sums.items()}
    spread |= dict(zip(QUANTILES, _quantiles(times, group, absolute, list(QUANTILES.values())), strict=True))
    bounds = {name: percentile_interval(values) for name, values in spread.items()}
    return replace(found, pairs=len(labels), interval=bounds)


def drawn_times(groups: int, draws: int = DRAWS) -> np.ndarray:
    """How often each group is drawn: int64[draws, groups], every row sums to `groups`; always the same numbers."""
    return np.random.default_rng(SEED).multinomial(groups, np.full(groups, 1.0 / groups), size=draws)


def percentile_interval(values: np.ndarray) -> tuple[float, float]:
    """The middle `LEVEL` of the draws of a statistic, float[draws]."""
    low, high = np.quantile(values, [(1.0 - LEVEL) / 2.0, (1.0 + LEVEL) / 2.0])
    return float(low), float(high)


def _ratio_of_sums(times: np.ndarray, group: np.ndarray, top: np.ndarray, below: np.ndarray) -> np.ndarray:
    groups = times.shape[1]
    above = times @ np.bincount(group, top, groups)
    return above / (times @ np.bincount(group, below, groups))


def _quantiles(times: np.ndarray, group: np.ndarray, values: np.ndarray, levels: list[float]) -> list[np.ndarray]:
    """Quantiles of the rows of every draw, interpolated as `np.quantile` does, without making the drawn rows."""
    order = np.argsort(values, kind="stable")
    ordered, owner = values[order], group[order]
    chunk = max(CHUNK_ELEMENTS // len(values), 1)
    found = [
        _quantiles_of_repeated(ordered, times[start : start + chunk][:, owner], levels)
        for start in range(0, len(times), chunk)
    ]
    return [np.concatenate([part[place] for part in found]) for place in range(len(levels))]


def _quantiles_of_repeated(ordered: np.ndarray, repeats: np.ndarray, levels: list[float]) -> list[np.ndarray]:
    reached = np.cumsum(repeats, axis=1)  # rows of a draw up to and with this one
    total = reached[:, -1]
    offset = np.arange(len(reached)) * (total.max() + 1)  # makes one sorted list of all draws'
    flat = (reached + offset[:, None]).ravel()
    first = np.arange(len(reached)) * reached.shape[1]

    def row_at(place: np.ndarray) -> np.ndarray:
        return ordered[np.searchsorted(flat, place + offset, side="right") - first]

    quantiles = []
    for level in levels:
        place = level * (total - 1)
        below = np.floor(place).astype(np.int64)
        low, high = row_at(below), row_at(np.minimum(below + 1, total - 1))
        quantiles.append(low + (place - below) * (high - low))
    return quantiles
