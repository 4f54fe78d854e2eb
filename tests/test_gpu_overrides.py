"""What-if changes of a GPU do what a user would expect, and say what they did."""

import re

import pytest

from dse.content import load_gpu
from dse.errors import UserError

BASE = load_gpu("h100_sxm")
EFFICIENCY = BASE["tensor_efficiency"]


def changed(**overrides):
    return load_gpu("h100_sxm", overrides)


def test_more_sms_bring_their_engines_gpcs_and_groups():
    gpu = changed(sm_count="2x")
    assert gpu["sm_count"] == 264
    assert gpu.peak_flop_per_s("bf16") == 2 * BASE.peak_flop_per_s("bf16")
    assert gpu.cluster_sms() == tuple(2 * sms for sms in BASE.cluster_sms())
    assert gpu["l15_group_sms"] == BASE["l15_group_sms"]
    assert gpu["l2_bytes_per_s"] == BASE["l2_bytes_per_s"]
    assert gpu.peaks == {}
    assert gpu.values["sm_count"].kind == "assumed"
    assert gpu.values["sm_count"].source == "--set sm_count=2x, was 132"


def test_whole_fields_stay_whole_and_say_so():
    gpu = changed(sm_count="1.1x")
    assert gpu["sm_count"] == 145
    assert gpu.values["gpc_sms"].value == (18, 18, 18, 16, 16, 16, 16, 14, 13)
    assert gpu.changes == (
        "sm_count: 132 -> 145 (1.1x, rounded to a whole number)",
        "gpc_sms: [18, 18, 18, 16, 16, 16, 16, 14, 13] (follows sm_count)",
    )


def test_capacity_scales_nominal_and_effective_but_not_the_rate():
    gpu = changed(l2_capacity="2x")
    assert gpu["l2_capacity_bytes"] == 2 * BASE["l2_capacity_bytes"]
    assert gpu["l2_effective_ratio"] == BASE["l2_effective_ratio"]
    assert gpu["l2_bytes_per_s"] == BASE["l2_bytes_per_s"]


def test_clock_moves_both_clocks_and_the_private_engines():
    for name in ("clock", "clock_hz", "boost_hz"):
        gpu = changed(**{name: "+10%"})
        assert gpu["boost_hz"] == pytest.approx(1.1 * BASE["boost_hz"])
        assert gpu["sustained_hz"] == pytest.approx(1.1 * BASE["sustained_hz"])
        assert gpu.peak_flop_per_s("fp8") == pytest.approx(1.1 * BASE.peak_flop_per_s("fp8"))
        assert gpu["ddr_bytes_per_s"] == BASE["ddr_bytes_per_s"]
    assert changed(boost_hz=2e9, sustained_hz=1e9)["sustained_hz"] == 1e9


def test_shared_memory_and_warps_move_together():
    gpu = changed(smem_per_sm="2x", threads_per_sm="0.5x")
    assert gpu["smem_per_sm_bytes"] == 466_944
    assert gpu["smem_per_cta_max_bytes"] == 465_920
    assert gpu["warps_per_sm"] == 32
    assert changed(warps_per_sm=96)["threads_per_sm"] == 3072


def test_tensor_rates():
    gpu = changed(tensor_flop_per_clock="2x")
    assert gpu.peak_flop_per_s("bf16") == 2 * BASE.peak_flop_per_s("bf16")
    assert gpu.peak_flop_per_s("int8", family="mma_sync") == 2 * BASE.peak_flop_per_s("int8", family="mma_sync")
    one = load_gpu("h100_sxm", {"tensor.wgmma.bf16_fp32": 5000})
    assert one.tensor["wgmma"]["bf16_fp32"].value == 5000
    assert one.peak_flop_per_s("fp16") == BASE.peak_flop_per_s("fp16")


@pytest.mark.parametrize(
    ("written", "field", "value", "expected"),
    [
        ("ddr_bytes_per_s", "ddr_bytes_per_s", "6e12", 6e12),
        ("ddr_bandwidth", "ddr_bytes_per_s", "2x", 2 * BASE["ddr_bytes_per_s"]),
        ("HBM-bandwidth", "ddr_bytes_per_s", "2x", 2 * BASE["ddr_bytes_per_s"]),
        ("l2-bandwidth", "l2_bytes_per_s", "-5%", 0.95 * BASE["l2_bytes_per_s"]),
        ("tdp", "tdp_w", 500, 500),
        ("ddr_latency", "ddr_latency_s", " 1.5 X ", 1.5 * BASE["ddr_latency_s"]),
        ("L2_CAPACITY", "l2_capacity_bytes", "1e8", 1e8),
    ],
)
def test_names_and_values(written, field, value, expected):
    assert load_gpu("h100_sxm", {written: value})[field] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("overrides", "text"),
    [
        ({"l2_capacity_mb": "50"}, "l2_capacity_mb: wrong unit: the field is l2_capacity_bytes, in bytes; or write a"),
        ({"l2_capacty": "2x"}, "l2_capacty: unknown field; did you mean 'l2_capacity_bytes'?; known: ddr_capacity"),
        (
            {"l2": "2x"},
            "l2: may mean l2_capacity_bytes, l2_effective_ratio, l2_ways, l2_retention, l2_bytes_per_s, l2_latency_s",
        ),
        ({"tdp": 0}, "tdp_w: 0 is out of range; allowed: a number above 0 (watts)"),
        ({"tdp": -3}, "tdp_w: -3 is out of range"),
        ({"tdp": "nan"}, "tdp_w: nan is out of range"),
        ({"tdp": "inf"}, "tdp_w: inf is out of range"),
        ({"tdp": "-100%"}, "tdp_w: -100% (from 700 to 0) is out of range"),
        ({"tdp": "700W"}, "tdp: '700W' is not a value: write a number in the field's unit, a factor (2x) or +10%"),
        ({"tdp": "1.2.3x"}, "tdp: '1.2.3x' is not a value"),
        ({"tdp": True}, "tdp: 'True' is not a value"),
        ({"sm_count": 132.5}, "sm_count: 132.5 is out of range; allowed: a whole number above 0, at most 100000 (SMs)"),
        ({"sm_count": "0.001x"}, "sm_count: 0.001x (from 132 to 0) is out of range"),
        (
            {"tensor_efficiency": "2x"},
            f"tensor_efficiency: 2x (from {EFFICIENCY:g} to {2 * EFFICIENCY:g}) is out of range",
        ),
        ({"tmem_columns": "2x"}, "tmem_columns: is 0 on this GPU, so 2x changes nothing; give a whole number at least"),
        ({"gpc_sms": "2x"}, "gpc_sms: is a list: write your own file with base = and [clusters] gpc_sms"),
        ({"clock": "2x", "boost_hz": 2e9}, "clock_hz: scales boost_hz and sustained_hz; do not set these as well"),
        ({"tdp": 1, "tdp_w": 2}, "tdp_w: tdp_w is set twice"),
        ({"tdp": 100}, "static_w: static power must be below the power limit, but static_w is 120, tdp_w is 100"),
        ({"sustained": 3e9}, "sustained_hz: the sustained clock cannot exceed boost"),
        ({"tensor_flop_per_clock": 9}, "give a factor for all tensor rates (tensor_flop_per_clock_sm=2x), or name one"),
        ({"tensor.wgmma.bf16": 9}, "no such tensor rate; this GPU has tensor.wgmma.bf16_fp32, "),
        ({"tensor.wgmma.bf16_fp32": 0}, "tensor.wgmma.bf16_fp32: 0 is out of range; allowed: a number above 0 (FLOP"),
    ],
)
def test_errors(overrides, text):
    with pytest.raises(UserError, match=re.escape(text)) as error:
        load_gpu("h100_sxm", overrides)
    assert str(error.value).startswith("--set on h100_sxm: 1 problem\n")


def test_all_errors_in_one_message():
    with pytest.raises(UserError, match=r"^--set on h100_sxm: 3 problems\n"):
        changed(l2_capacity_mb=1, foo=1, tdp=-1)


def test_a_refused_change_leaves_the_file_alone():
    before = load_gpu("h100_sxm").hash
    with pytest.raises(UserError):
        changed(tdp=500, foo=1)
    assert load_gpu("h100_sxm").hash == before
    assert changed(tdp=500).hash != before
