"""Streaming reads against their footprint: the effective capacity of L2, and the rates on either side of the fall."""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..content.files import home_expanded
from ..content.gpu import GpuFile
from ..errors import UserError, unknown

COLUMNS = ("device", "total_data_kB", "eff_bw_GBs")
PLATEAU = (0.25, 0.6)  # of L2's nominal capacity: past what an L1.5 holds, well before any fall
BEYOND = 4.0  # of it: from here on nothing is left of one pass when the next begins
HALF_MISSES = 2.0  # while DDR binds, half of the requests miss where the rate is twice DDR's


@dataclass(frozen=True)
class FootprintCurve:
    """Read bandwidth of CTAs that walk one buffer again and again.

    Attributes:
        footprint_bytes: size of the buffer, rising.
        bytes_per_s: bytes requested a second, whole chip.
    """

    footprint_bytes: np.ndarray
    bytes_per_s: np.ndarray


@dataclass(frozen=True)
class CurveFeatures:
    """What a curve says of the memory.

    Attributes:
        l2_bytes_per_s: level of the plateau before the fall.
        fall_bytes: footprint at which the rate is twice the DDR level: half of the requests miss.
        ddr_bytes_per_s: level far beyond the fall.
    """

    l2_bytes_per_s: float
    fall_bytes: float
    ddr_bytes_per_s: float


@dataclass(frozen=True)
class FootprintComparison:
    """A GPU file against a measured curve.

    Attributes:
        gpu: name of the file.
        device: name of the curve.
        predicted, measured: features of the two curves.
        sources: field -> kind and source of the number in the file that decides a feature.
    """

    gpu: str
    device: str
    predicted: CurveFeatures
    measured: CurveFeatures
    sources: Mapping[str, str]

    @property
    def errors(self) -> dict[str, float]:
        """Feature -> error of the prediction, per cent."""
        ours, theirs = asdict(self.predicted), asdict(self.measured)
        return {name: 100.0 * (ours[name] / theirs[name] - 1.0) for name in theirs}

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {**asdict(self), "errors_percent": self.errors}


def streaming_bytes_per_s(gpu: Any, footprint_bytes: np.ndarray) -> np.ndarray:
    """Predicted read bandwidth of CTAs on all SMs that walk one buffer again and again.

    A byte is used again after the whole buffer has gone by, so L2 serves it with the hit probability at that distance
    (`jaxmodel.sdcm`, effective capacity). A group of SMs walks its share of the buffer, so its L1.5 is asked at that
    share's distance. Each level is busy with what it serves and the busiest one sets the rate.

    Args:
        gpu: the model's record (`GpuFile.bind`).
        footprint_bytes: any shape, above 0.

    Returns:
        bytes a second, same shape.
    """
    from jaxmodel.resources import Demand, chip_seconds
    from jaxmodel.sdcm import hit_probability

    footprint = np.asarray(footprint_bytes, np.float32)
    groups = np.maximum(gpu.sm_count / np.maximum(gpu.l15_group_sms, 1.0), 1.0)
    l2_hit = hit_probability(footprint, gpu.l2_capacity_bytes * gpu.l2_effective_ratio, gpu.l2_ways)
    l15_hit = np.minimum(hit_probability(footprint / groups, gpu.l15_capacity_bytes, gpu.l15_ways), l2_hit)
    byte = Demand(fabric_bytes=np.ones_like(footprint), l2_bytes=1.0 - l15_hit, ddr_bytes=1.0 - l2_hit)
    return 1.0 / np.max(np.broadcast_arrays(*chip_seconds(byte, 1.0, gpu)), axis=0)


def features(curve: FootprintCurve, l2_capacity_bytes: float) -> CurveFeatures:
    """Levels and position of the fall of a curve.

    Args:
        curve: reaching from the plateau to far beyond the fall.
        l2_capacity_bytes: nominal; says where the plateau and the DDR level are looked for.

    Raises:
        UserError: the curve has no point in one of the two ranges, or never falls to twice its DDR level.
    """
    share = curve.footprint_bytes / l2_capacity_bytes
    before, beyond = (share >= PLATEAU[0]) & (share <= PLATEAU[1]), share >= BEYOND
    if not before.any() or not beyond.any():
        raise UserError(
            f"the curve needs footprints between {PLATEAU[0]} and {PLATEAU[1]} and from {BEYOND:g} times L2's nominal "
            f"{l2_capacity_bytes / 2**20:.0f} MiB"
        )
    level = float(np.median(curve.bytes_per_s[beyond]))
    inside = np.flatnonzero((share >= PLATEAU[0]) & (curve.bytes_per_s > HALF_MISSES * level))
    if not len(inside):
        raise UserError("the curve never exceeds twice its DDR level: no fall to be found")
    first = inside[-1]
    pair = slice(first, first + 2)
    # between the two points the rate is that of a mean of their times, so 1 / rate is straight
    fall = np.interp(
        1.0 / (HALF_MISSES * level), 1.0 / curve.bytes_per_s[pair], curve.footprint_bytes[pair].astype(float)
    )
    return CurveFeatures(float(np.median(curve.bytes_per_s[before])), float(fall), level)


def compare_curve(gpu: GpuFile, device: str, measured: FootprintCurve) -> FootprintComparison:
    """The features of a measured curve beside those of the curve predicted at the same footprints.

    Raises:
        UserError: what `features` raises.
    """
    family = next(iter(gpu.tensor))
    bound = gpu.bind(gpu.dtypes(family)[0], family=family)  # rates of memory depend on neither
    rate = streaming_bytes_per_s(bound, measured.footprint_bytes)
    predicted = FootprintCurve(measured.footprint_bytes, np.asarray(rate, float))
    fields = ("l2_bytes_per_s", "l2_effective_ratio", "ddr_bytes_per_s")
    return FootprintComparison(
        gpu=gpu.name,
        device=device,
        predicted=features(predicted, gpu["l2_capacity_bytes"]),
        measured=features(measured, gpu["l2_capacity_bytes"]),
        sources={name: f"{gpu.values[name].kind}: {gpu.values[name].source}" for name in fields},
    )


def read_footprint_curves(path: str | Path) -> dict[str, FootprintCurve]:
    """Curves by device from a CSV file with the columns device, total_data_kB (1024 bytes) and eff_bw_GBs (1e9 B/s).

    Raises:
        UserError: no such file, a missing column, or a number that is none.
    """
    path = home_expanded(path)
    if not path.is_file():
        raise UserError(f"no table of bandwidths at {path}; give a CSV file with the columns {', '.join(COLUMNS)}")
    found: dict[str, list[tuple[float, float]]] = {}
    with path.open(newline="", encoding="utf-8-sig") as file:
        reader = csv.DictReader(file)
        missing = [name for name in COLUMNS if name not in (reader.fieldnames or ())]
        if missing:
            raise UserError(f"{path} has no column {', '.join(missing)}; needed: {', '.join(COLUMNS)}")
        for row in reader:
            try:
                point = (float(row["total_data_kB"]) * 1024.0, float(row["eff_bw_GBs"]) * 1e9)
            except (TypeError, ValueError):
                raise UserError(f"{path}, line {reader.line_num}: a number is missing or is none") from None
            found.setdefault(row["device"], []).append(point)
    return {device: _curve(points) for device, points in found.items()}


def curve_of(curves: Mapping[str, FootprintCurve], device: str) -> FootprintCurve:
    """The curve of a device.

    Raises:
        UserError: naming the known ones.
    """
    if device not in curves:
        raise unknown("device in the table of bandwidths", device, curves)
    return curves[device]


def _curve(points: Sequence[tuple[float, float]]) -> FootprintCurve:
    footprint, rate = np.array(sorted(points)).T
    return FootprintCurve(footprint, rate)
