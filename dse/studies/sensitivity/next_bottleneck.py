"""How far a number of the GPU must change until something else binds: the distance to the next bottleneck.

The schedule is held. What binds is the cost's `bound`: the busiest pipeline, or latency, the epilogue or the launch; a
schedule that no longer fits counts as a change too. Factors from 1 up to 64 and down to 1/64 are walked on a grid that
is fine near 1 (0.2 %) and coarse at the ends (17 %); the first change is then bisected. A bottleneck that comes and
goes between two points of the grid is passed over.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from .gpu_numbers import STEPS, moved, ranges, settable
from .precise_costs import Rows, frozen_latencies

FARTHEST = 64.0
GRID = 48
BISECTIONS = 26  # of a grid interval in the logarithm: 17 % / 2^26 is below 1e-8
NO_FIT = "does not fit"

WORDS = {
    "tensor": "the tensor cores",
    "cuda": "the CUDA cores",
    "sfu": "the special functions",
    "tmem": "TMEM",
    "smem": "SMEM",
    "l15": "L1.5 / the SM ports",
    "l2": "L2 bandwidth",
    "ddr": "DDR",
    "net": "the network",
    "latency": "latency",
    "epilogue": "the epilogue",
    "launch": "launch",
}


def next_bottlenecks(rows: Rows, names: np.ndarray, base: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Factor and name of the next bottleneck of every row and number, up and down.

    Args:
        rows: of `dse.studies.sensitivity.precise_costs`.
        names: object[numbers], of the GPU.
        base: `bound` and `reason` of the rows as they are.

    Returns:
        `up_factor`, `up_binds`, `down_factor`, `down_binds`, each [rows, numbers]. A number that is 0 has none: the
        factors are NaN. Where nothing changes within the range `up_factor` is infinite and `down_factor` 0, and the
        names are "".
    """
    walks = {side: _walk(rows, names, base, sign) for side, sign in (("up", 1.0), ("down", -1.0))}
    return {
        f"{side}_{what}": found[place]
        for side, found in walks.items()
        for place, what in enumerate(("factor", "binds"))
    }


def bottleneck_words(bound: str, row: Mapping[Any, Any]) -> str:
    """The two distances of a row as a sentence part: `+18 % until SMEM binds; x0.42 until DDR binds`."""
    if math.isnan(row["up_factor"]):
        return "off"
    parts = [
        f"{_factor_words(row[f'{side}_factor'])} until {_binds_words(row[f'{side}_binds'])}"
        for side in ("up", "down")
        if row[f"{side}_binds"]
    ]
    if parts:
        return "; ".join(parts)
    return f"unlimited: {_binds(bound)} throughout"


def _binds_words(name: str) -> str:
    return "the schedule does not fit" if name == NO_FIT else _binds(name)


def _binds(name: str) -> str:
    return f"{WORDS[name]} bind{'' if WORDS[name].endswith('s') else 's'}"


def _factor_words(factor: float) -> str:
    if 0.5 <= factor < 2.0:
        percent = 100.0 * (factor - 1.0)
        return f"{percent:+.2g} %" if abs(percent) < 10 else f"{percent:+.0f} %"
    return f"x{factor:.3g}"


def _walk(rows: Rows, names: np.ndarray, base: Mapping[str, np.ndarray], sign: float) -> tuple[np.ndarray, np.ndarray]:
    shape = (len(rows), len(names))
    at, which = (each.reshape(-1) for each in np.indices(shape))
    number = names[which]
    value = np.stack([getattr(rows.gpu, name) for name in names], axis=1).reshape(-1)
    state = _state(base)[at]
    low, high = (end.reshape(-1) for end in ranges(rows.gpu, names))
    logs = sign * math.log(FARTHEST) * (np.arange(GRID + 1) / GRID) ** 2

    def values_at(places: np.ndarray, log: np.ndarray) -> np.ndarray:
        names, values = number[places], value[places] * np.exp(log)
        counted = settable(names, values, low[places], high[places])
        is_count = np.array([name in STEPS for name in names])
        return np.where(is_count, counted, np.clip(values, low[places], high[places]))

    def states(places: np.ndarray, log: np.ndarray) -> np.ndarray:
        return _state(frozen_latencies(moved(rows.take(at[places]), number[places], values_at(places, log))))

    asked = np.flatnonzero(value != 0.0)
    grid = states(np.repeat(asked, GRID), np.tile(logs[1:], len(asked))).reshape(len(asked), GRID)
    differs = grid != state[asked, None]
    place, hit = asked[differs.any(axis=1)], differs.argmax(axis=1)[differs.any(axis=1)]
    before, after = logs[hit], logs[hit + 1]
    found = grid[differs.any(axis=1), hit] if len(place) else np.zeros(0)
    for _ in range(BISECTIONS if len(place) else 0):
        middle = 0.5 * (before + after)
        there = states(place, middle)
        changed = there != state[place]
        before, after = np.where(changed, before, middle), np.where(changed, middle, after)
        found = np.where(changed, there, found)
    factor = np.where(value == 0.0, np.nan, math.inf if sign > 0 else 0.0)
    factor[place] = values_at(place, after) / value[place]
    binds = np.full(len(at), "", object)
    binds[place] = [_state_name(code) for code in found]
    return factor.reshape(shape), binds.reshape(shape)


def _state(costs: Mapping[str, np.ndarray]) -> np.ndarray:
    return np.where(costs["reason"] == 0, costs["bound"], -1.0)


def _state_name(code: float) -> str:
    from jaxmodel.types import BOUNDS

    return NO_FIT if code < 0 else BOUNDS[int(code)]
