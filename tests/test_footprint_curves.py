"""Streaming reads against their footprint: laws of the prediction, features of a curve, and the published sweeps."""

import re
from pathlib import Path

import numpy as np
import pytest

from dse.content.gpu import list_gpus, load_gpu
from dse.errors import UserError
from dse.validation.footprint import (
    FootprintCurve,
    compare_curve,
    curve_of,
    features,
    read_footprint_curves,
    streaming_bytes_per_s,
)

MEASURED = Path(__file__).resolve().parents[2] / "shared/data/measured/l2_bandwidth_vs_footprint.csv"
FOOTPRINTS = np.geomspace(2**18, 2**33, 200)
MIB = 2.0**20


def bound(name: str, **changes: str):
    gpu = load_gpu(name, changes)
    family = next(iter(gpu.tensor))
    return gpu.bind(gpu.dtypes(family)[0], family=family)


@pytest.mark.parametrize("name", list_gpus())
def test_a_stream_falls_from_the_caches_rate_to_memorys(name):
    gpu = bound(name)
    rate = streaming_bytes_per_s(gpu, FOOTPRINTS)
    assert (np.diff(rate) <= 1e-6 * rate[:-1]).all()
    assert rate[-1] == pytest.approx(float(gpu.ddr_bytes_per_s), rel=1e-5)
    port = float(gpu.sm_count * gpu.sm_port_bytes_per_clock * gpu.clock_hz)
    assert rate[0] <= port * (1 + 1e-6)
    middle = 0.3 * float(gpu.l2_capacity_bytes)
    assert streaming_bytes_per_s(gpu, middle) == pytest.approx(min(float(gpu.l2_bytes_per_s), port), rel=0.01)


def test_more_capacity_moves_the_fall_and_nothing_else():
    small, large = (streaming_bytes_per_s(bound("h200_sxm", l2_capacity=by), FOOTPRINTS) for by in ("1x", "2x"))
    assert (large >= small * (1 - 1e-6)).all()
    assert large.max() == pytest.approx(small.max(), rel=1e-5)
    assert large.min() == pytest.approx(small.min(), rel=1e-5)


def test_half_of_the_requests_miss_where_the_footprint_is_just_below_the_effective_capacity():
    gpu = load_gpu("a100_sxm")
    rate = streaming_bytes_per_s(bound("a100_sxm"), FOOTPRINTS)
    found = features(FootprintCurve(FOOTPRINTS, np.asarray(rate, float)), gpu["l2_capacity_bytes"])
    effective = gpu["l2_capacity_bytes"] * gpu["l2_effective_ratio"]
    ways = gpu["l2_ways"]
    assert found.fall_bytes == pytest.approx(effective * (ways - 0.5) / ways, rel=0.02)
    assert found.ddr_bytes_per_s == pytest.approx(gpu["ddr_bytes_per_s"], rel=1e-3)
    assert found.l2_bytes_per_s == pytest.approx(gpu["l2_bytes_per_s"], rel=0.02)


def test_features_of_a_curve_drawn_by_hand():
    footprint = np.array([10, 20, 30, 40, 50, 200, 400]) * MIB
    rate = np.array([9.0, 9.0, 6.0, 3.0, 2.5, 2.0, 2.0])
    found = features(FootprintCurve(footprint, rate), 40 * MIB)
    assert (found.l2_bytes_per_s, found.ddr_bytes_per_s) == (9.0, 2.0)
    # 1/rate goes from 1/6 to 1/3 between 30 and 40 MiB and is 1/4 half way
    assert found.fall_bytes == pytest.approx(35 * MIB)


@pytest.mark.parametrize(
    ("footprint", "rate", "message"),
    [
        (
            [1.0, 2.0],
            [9.0, 9.0],
            "the curve needs footprints between 0.25 and 0.6 and from 4 times L2's nominal 40 MiB",
        ),
        ([15.0, 20.0, 200.0], [3.0, 3.0, 2.0], "the curve never exceeds twice its DDR level: no fall to be found"),
    ],
)
def test_a_curve_without_a_fall_says_so(footprint, rate, message):
    with pytest.raises(UserError, match=re.escape(message)):
        features(FootprintCurve(np.array(footprint) * MIB, np.array(rate)), 40 * MIB)


def test_curves_are_read_by_device_in_order_and_in_si(tmp_path):
    path = tmp_path / "curves.csv"
    path.write_text("device,total_data_kB,eff_bw_GBs\na,2048,3\nb,1,1\na,1024,4\n")
    curves = read_footprint_curves(path)
    assert curves["a"].footprint_bytes.tolist() == [1 * MIB, 2 * MIB]
    assert curves["a"].bytes_per_s.tolist() == [4e9, 3e9]
    with pytest.raises(UserError, match="unknown device in the table of bandwidths 'c'; known: a, b"):
        curve_of(curves, "c")
    path.write_text("device,total_data_kB\na,1\n")
    with pytest.raises(UserError, match="has no column eff_bw_GBs; needed: device, total_data_kB, eff_bw_GBs"):
        read_footprint_curves(path)
    path.write_text("device,total_data_kB,eff_bw_GBs\na,1,\n")
    with pytest.raises(UserError, match="line 2: a number is missing or is none"):
        read_footprint_curves(path)
    with pytest.raises(UserError, match=r"no table of bandwidths at .*none\.csv"):
        read_footprint_curves(tmp_path / "none.csv")


@pytest.mark.parametrize(
    ("gpu", "device"),
    [("a100_sxm", "a100_80"), ("h200_sxm", "h200"), ("h100_pcie", "h100_pcie"), ("l40s", "l40")],
)
def test_capacity_and_memory_rate_of_the_published_sweeps(gpu, device):
    if not MEASURED.is_file():
        pytest.skip(f"the published sweep {MEASURED} is not here: it may not be copied into the repository")
    found = compare_curve(load_gpu(gpu), device, curve_of(read_footprint_curves(MEASURED), device))
    assert abs(found.errors["fall_bytes"]) <= 10.0
    assert abs(found.errors["ddr_bytes_per_s"]) <= 10.0
    assert found.to_dict()["sources"]["l2_effective_ratio"]
