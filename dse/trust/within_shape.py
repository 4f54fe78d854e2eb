"""How schedules of one shape err against each other: what decides how many of them have to be measured.

A tuned kernel's residual (`dse.trust.residuals`) says how far a shape's latency is off. Most of that is common to the
schedules of the shape and leaves their order as it is. The rest differs from schedule to schedule, and near relations
share it: two orders of one kernel err alike, two tiles do not. It is drawn here.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from ..content.files import content_files
from ..errors import UserError

SCHEMA_VERSION = 1
FOLDER, NAME = "studies/measured", "within_shape"
DRAWS_AT_ONCE = 64

# which rate separates schedules that differ in a field; sizes by their ratio, in octaves, others by being different
SIZES = {
    **dict.fromkeys(("tile_m", "tile_n", "tile_k"), "tile"),
    **dict.fromkeys(("warps_m", "warps_n", "cluster_m", "cluster_n"), "structure"),
    "stages": "stages",
    "split_k": "algorithm",
    "swizzle": "order",
}
KINDS = {
    **dict.fromkeys(("cta_pair", "swap_ab", "persistent", "epilogue"), "structure"),
    **dict.fromkeys(("stream_k", "family"), "algorithm"),
    **dict.fromkeys(("raster_along_n", "sms_free"), "order"),
}
RATES = tuple(dict.fromkeys((*SIZES.values(), *KINDS.values())))


@dataclass(frozen=True)
class WithinShape:
    """The numbers of the error model, natural logarithms of latency.

    Two schedules' errors have the covariance sigma^2 exp(-d), d being the sum over their fields of the rate times the
    octaves between two sizes, or the rate once where two kinds differ.

    Attributes:
        sigma: standard deviation of a schedule's own part.
        rates: "tile", "stages", "order", "structure", "algorithm" -> how fast errors part, 1 per octave or difference.
        noise: standard deviations of what a measurement adds, one a measured problem; a new problem's is one of them.
        spread: half of the 68 % interval of tuned kernels' residuals where `sigma` was measured; where they are wider,
            so are these errors taken to be.
        made_from: tables, GPU files, and what is fitted and what assumed.
    """

    sigma: float
    rates: Mapping[str, float]
    noise: tuple[float, ...]
    spread: float
    made_from: Mapping[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "schema_version": SCHEMA_VERSION,
            "made_from": dict(self.made_from),
            "sigma": self.sigma,
            "rates": dict(self.rates),
            "noise": list(self.noise),
            "spread": self.spread,
        }

    def scaled_to(self, spread: float) -> float:
        """The factor on `sigma` where tuned kernels' residuals have this half-width: never below 1."""
        return max(1.0, spread / self.spread)


def read_within_shape(path: Path) -> WithinShape:
    """The numbers from their JSON file.

    Raises:
        UserError: the file cannot be read or holds something else.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["schema_version"] != SCHEMA_VERSION or set(content["rates"]) != set(RATES):
            raise ValueError("written by another version")
        rates = {name: float(rate) for name, rate in content["rates"].items()}
        noise = tuple(float(entry) for entry in content["noise"])
        return WithinShape(float(content["sigma"]), rates, noise, float(content["spread"]), content["made_from"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"{path} holds no errors within a shape ({error}); make it again with scripts/make_within_shape.py"
        ) from error


def packaged_within_shape() -> WithinShape:
    """The packaged numbers, or the user's own of the same name in a folder of `DSE_PATH`.

    Raises:
        UserError: there are none, or the file is damaged.
    """
    path = content_files(FOLDER, ".json").get(NAME)
    if path is None:
        raise UserError(
            f"no {FOLDER}/{NAME}.json: make it with scripts/make_within_shape.py, or install tilesweep again"
        )
    return _read_once(path, path.stat().st_mtime_ns)


def draw_log_latencies(
    schedules: Any,
    predicted_s: Any,
    draws: int,
    seed: int = 0,
    *,
    scale: float = 1.0,
    noise: bool = False,
    model: WithinShape | None = None,
) -> np.ndarray:
    """Random log latencies that the schedules of one shape could turn out to have, given what is predicted of them.

    The part of the error that all schedules share is left out: it changes neither their order nor their ratios.

    Args:
        schedules: of one problem on one GPU: a pandas table or a mapping of columns, field -> numbers[schedules], or a
            sequence of schedules, each field -> number. Fields that are missing are taken as equal.
        predicted_s: seconds, above 0, one a schedule; infinite where it cannot run.
        draws, seed: how many; equal seeds give equal draws of equal lists.
        scale: factor on the standard deviation, e.g. `WithinShape.scaled_to`.
        noise: whether what a measurement adds is drawn too; without it these are the latencies of many measurements.
        model: None: the packaged one.

    Returns:
        float32[draws, schedules], natural logarithms of seconds.

    Raises:
        UserError: no packaged numbers, or a seed below 0.
    """
    with np.errstate(divide="ignore"):
        logs = np.log(np.asarray(predicted_s, np.float64)).astype(np.float32)
    return logs + draw_errors(schedules, draws, seed, scale=scale, noise=noise, model=model)


def draw_errors(
    schedules: Any,
    draws: int,
    seed: int = 0,
    *,
    scale: float = 1.0,
    noise: bool = False,
    model: WithinShape | None = None,
) -> np.ndarray:
    """The errors of `draw_log_latencies` alone, float32[draws, schedules].

    A draw throws cuts on each field's axis, a Poisson process of the field's rate an octave; schedules that no cut
    parts share one normal number. The covariance is then sigma^2 exp(-d) exactly, at a cost in proportion to the number
    of schedules (random binning features, Rahimi and Recht 2007).
    """
    if seed < 0:
        raise UserError(f"seed = {seed} is not allowed: 0 or more")
    model = model or packaged_within_shape()
    columns = columns_of(schedules)
    count = len(next(iter(columns.values()), ()))
    random = np.random.default_rng(seed)
    cells = [_cells(model, name, columns[name], draws, random) for name in sorted({*SIZES, *KINDS} & set(columns))]
    errors = np.empty((draws, count), np.float32)
    for start in range(0, draws, DRAWS_AT_ONCE):
        stop = min(start + DRAWS_AT_ONCE, draws)
        key = np.broadcast_to(random.integers(2**63, size=(stop - start, 1)).astype(np.uint64), (stop - start, count))
        for of_value, place in cells:
            key = _mixed(key + of_value[start:stop][:, place])
        errors[start:stop] = scale * model.sigma * _normal(key)
    if noise:
        each = random.choice(np.asarray(model.noise), draws)
        errors += each[:, None] * random.standard_normal((draws, count), np.float32)
    return errors


def covariance(schedules: Any, model: WithinShape | None = None) -> np.ndarray:
    """What `draw_errors` without noise has as covariance, float64[schedules, schedules]."""
    model = model or packaged_within_shape()
    apart = np.zeros(())
    for name, values in columns_of(schedules).items():
        if name in SIZES:
            at = _octaves(values)
            apart = apart + model.rates[SIZES[name]] * np.abs(at[:, None] - at)
        elif name in KINDS:
            apart = apart + model.rates[KINDS[name]] * (values[:, None] != values)
    return model.sigma**2 * np.exp(-apart)


def columns_of(schedules: Any) -> dict[str, np.ndarray]:
    """Schedules as columns: of a table, a mapping of columns, or a sequence of schedules."""
    if isinstance(schedules, Sequence):
        names = [name for name in (*SIZES, *KINDS) if schedules and name in schedules[0]]
        return {name: np.array([schedule[name] for schedule in schedules]) for name in names}
    return {name: np.asarray(schedules[name]) for name in (*SIZES, *KINDS) if name in schedules}


def _octaves(values: np.ndarray) -> np.ndarray:
    return np.log2(np.maximum(values.astype(np.float64), 1.0))


def _cells(
    model: WithinShape, name: str, values: np.ndarray, draws: int, random: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Each distinct value's piece of the field's axis, uint64[draws, distinct], and where each schedule's value is."""
    distinct, place = np.unique(values, return_inverse=True)
    if name in SIZES:
        gaps = np.diff(_octaves(distinct))
        cut = random.random((draws, len(gaps))) < -np.expm1(-model.rates[SIZES[name]] * gaps)
        piece = np.concatenate([np.zeros((draws, 1), np.uint64), np.cumsum(cut, axis=1).astype(np.uint64)], axis=1)
    else:
        cut = random.random((draws, 1)) < -np.expm1(-model.rates[KINDS[name]])
        piece = cut.astype(np.uint64) * np.arange(len(distinct), dtype=np.uint64)
    return piece, place.reshape(-1)


def _mixed(key: np.ndarray) -> np.ndarray:
    """A well-mixed 64-bit hash (the finaliser of splitmix64, Steele et al. 2014); wraps around."""
    key = (key ^ (key >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    key = (key ^ (key >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return key ^ (key >> np.uint64(31))


def _normal(key: np.ndarray) -> np.ndarray:
    from scipy.special import ndtri

    return ndtri((_mixed(key) >> np.uint64(11)).astype(np.float64) * 2.0**-53 + 2.0**-54)


@cache
def _read_once(path: Path, modified: int) -> WithinShape:
    return read_within_shape(path)
