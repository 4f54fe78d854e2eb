"""Numbers of a GPU that are varied: what users write, what it means, and what moves along."""

import math

import pytest

from dse import load_gpu
from dse.content.hardware_axis import HardwareAxis, parse_vary, read_hardware_axis
from dse.errors import UserError
from dse.studies.what_if.machines import listed_machines, varied_machines

H200 = load_gpu("h200_sxm")


def test_values_factors_and_ranges() -> None:
    assert parse_vary("l2_capacity=5e7,1e8").entries == (5e7, 1e8)
    assert parse_vary("sm-count = 0.5x, +10%").entries == ("0.5x", "+10%")
    assert parse_vary("l2_capacity=16e6:64e6:3").entries == (16e6, 32e6, 64e6)
    assert parse_vary("launch_overhead=0:4e-6:3:linear").entries == (0.0, 2e-6, 4e-6)
    assert parse_vary("ddr_bandwidth=0.5x:2x:3").entries == ("0.5x", "1.0x", "2.0x")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("l2_capacity", "cannot read 'l2_capacity': write FIELD=VALUE,VALUE or FIELD=FROM:TO:COUNT"),
        ("l2_capacty=2x", "unknown GPU field 'l2_capacty'; did you mean 'l2_capacity_bytes'?"),
        ("l2=2x", "GPU field 'l2' may mean l2_capacity_bytes, l2_effective_ratio"),
        ("l2_capacity=big", "GPU field l2_capacity_bytes: 'big' is no value: write a number in its unit, a factor"),
        ("l2_capacity=1e6:2e6", "a range is FROM:TO:COUNT, or FROM:TO:COUNT:linear"),
        ("l2_capacity=2e6:1e6:4", "a range runs upwards, not from 2000000.0 to 1000000.0"),
        ("l2_capacity=1x:2e6:4", "from 1x to 2000000.0 mixes a factor with a number"),
        ("l2_capacity=1e6:2e6:1", "count = 1 is not a whole number from 2 to 10,000"),
        ("l2_capacity=1e6:2e6:4:cubic", "scale 'cubic' is unknown; known: log, linear"),
        ("launch_overhead=0:1e-6:4", "which a log scale cannot begin with: add :linear"),
        ("l2_capacity=2x,2x", "the value 2x is there twice: keep one"),
        ("tensor_flop=2e3", "tensor rates are varied together by factors: write 0.5x,2x"),
        ("l2_capacity=1e6:2e6:²", "count = ² is not a whole number from 2 to 10,000"),
        ("l2_capacity=1e6:2e6:" + "9" * 5000, "is not a whole number from 2 to 10,000"),
        ("sm_count=132,132.5", "axis sm_count: 132.5 is not a whole number (SMs)"),
        ("gpc_sms=2x", "GPU field gpc_sms is a list and cannot be varied; vary sm_count"),
    ],
)
def test_what_is_wrong_is_said(text: str, said: str) -> None:
    with pytest.raises(UserError) as error:
        parse_vary(text)
    assert said in str(error.value)


def test_tables_of_a_study() -> None:
    axis = read_hardware_axis({"field": "sm_count", "factors": [0.5, 2], "name": "SMs", "follow": {"tdp": 1}})
    assert axis == HardwareAxis("sm_count", ("0.5x", "2x"), "SMs", {"tdp_w": 1.0})
    assert axis.factors(H200) == (0.5, 2.0)
    log = read_hardware_axis({"field": "ddr_bytes_per_s", "from": 1e12, "to": 4e12, "count": 3})
    assert log.entries == (1e12, 2e12, 4e12)


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"values": [1]}, 'an axis needs the field it varies: field = "l2_capacity_bytes"'),
        ({"field": "l2_ways", "vals": [1]}, "'vals' is not a key of an axis; did you mean 'values'?"),
        ({"field": "l2_ways"}, "axis l2_ways: give one of values, factors, or from, to and count"),
        ({"field": "l2_ways", "from": 1}, "axis l2_ways: to and count missing beside from"),
        ({"field": "l2_ways", "values": 3}, "axis l2_ways: values = 3 is not a list"),
        ({"field": "l2_ways", "values": []}, "axis l2_ways: no values: list at least one"),
        ({"field": "l2_ways", "values": [1], "follow": 2}, "follow = 2 is not a table of exponents"),
    ],
)
def test_what_is_wrong_with_a_table_is_said(table, said: str) -> None:
    with pytest.raises(UserError) as error:
        read_hardware_axis(table)
    assert said in str(error.value)


def test_machines_along_one_axis_then_the_next() -> None:
    machines = varied_machines("h200_sxm", [parse_vary("l2_capacity=2x,4x"), parse_vary("sm_count=66")])
    assert [machine.label for machine in machines] == [
        "now",
        "l2_capacity_bytes 104.9 MB",
        "l2_capacity_bytes 209.7 MB",
        "sm_count 66 SMs",
    ]
    assert [machine.gpu["l2_capacity_bytes"] / H200["l2_capacity_bytes"] for machine in machines] == [1, 2, 4, 1]
    assert machines[3].factors == {"sm_count": 0.5}
    assert sum(machines[3].gpu.values["gpc_sms"].value) == 66  # GPCs come along


def test_a_grid_has_every_combination() -> None:
    axes = [parse_vary("l2_capacity=1x,2x"), parse_vary("ddr_bytes_per_s=1x,2x,3x")]
    machines = varied_machines("h200_sxm", axes, combine="grid")
    found = [tuple(machine.factors.values()) for machine in machines[1:]]
    assert found == [(a, b) for a in (1, 2) for b in (1, 2, 3)]


def test_what_follows_an_axis_has_its_power() -> None:
    axis = HardwareAxis("sm_count", ("2x",), "SMs", {"tdp_w": 1.0, "clock_hz": -0.5})
    changed = varied_machines("h200_sxm", [axis])[1].gpu
    assert changed["tdp_w"] == pytest.approx(2 * H200["tdp_w"])
    assert changed["boost_hz"] == pytest.approx(H200["boost_hz"] / math.sqrt(2))
    assert changed["sustained_hz"] == pytest.approx(H200["sustained_hz"] / math.sqrt(2))


def test_factors_refer_to_the_baseline_as_it_was_changed() -> None:
    machines = varied_machines("h200_sxm", [parse_vary("l2_capacity=2x")], {"sm_count": "2x"})
    assert machines[0].gpu["sm_count"] == machines[1].gpu["sm_count"] == 264


@pytest.mark.parametrize(
    ("axes", "overrides", "combine", "said"),
    [
        (["l2_capacity=2x"], {"l2_capacity": "3x"}, "each", "l2_capacity_bytes is both set and varied"),
        (["l2_capacity=2x", "l2_capacity=3x"], {}, "each", "two axes are called 'l2_capacity_bytes'"),
        (["l2_capacity=2x", "l2_capacity=3x"], {}, "grid", "two axes vary l2_capacity_bytes"),
        (["l2_capacity=2x"], {}, "all", "unknown combine 'all'; known: each, grid"),
        (["tensor_efficiency=2x"], {}, "each", "out of range"),
        (["l2_capacity=1e6:1e9:400", "ddr_bandwidth=1e12:4e12:400"], {}, "grid", "160,000 machines are too many"),
    ],
)
def test_machines_that_cannot_be(axes, overrides, combine, said: str) -> None:
    with pytest.raises(UserError) as error:
        varied_machines("h200_sxm", [parse_vary(text) for text in axes], overrides, combine)
    assert said in str(error.value)


def test_gpus_side_by_side() -> None:
    machines = listed_machines(["h100_sxm", "h200_sxm"], {})
    assert [(machine.is_baseline, machine.gpu.name) for machine in machines] == [
        (True, "h100_sxm"),
        (False, "h200_sxm"),
    ]
    with pytest.raises(UserError, match="GPUs side by side are at least two"):
        listed_machines(["h100_sxm"], {})


def test_whole_numbers_of_a_range_are_there_once() -> None:
    assert parse_vary("sm_count=130:133:10").entries == (130.0, 131.0, 132.0, 133.0)
    machines = varied_machines("h200_sxm", [parse_vary("sm_count=0.99x,131,1x,2x,264")])
    assert [machine.values.get("sm_count") for machine in machines] == [None, 131, 132, 264]
    followed = HardwareAxis("sm_count", ("0.99x", "0.991x"), follow={"tdp_w": 1})
    assert len(varied_machines("h200_sxm", [followed])) == 3  # their power differs


@pytest.mark.parametrize(
    ("follow", "said"),
    [
        ({"sm_count": 2}, "axis sm_count: sm_count is what is varied, it cannot follow itself: leave it out"),
        ({"tdp_w": math.inf}, "is not a table of exponents"),
    ],
)
def test_what_cannot_follow(follow, said) -> None:
    with pytest.raises(UserError, match=said):
        read_hardware_axis({"field": "sm_count", "values": ["2x"], "follow": follow})


def test_a_factor_to_a_power_may_be_too_large() -> None:
    with pytest.raises(UserError, match="axis sm_count: tdp_w cannot follow, 2 to the power 100000 is too large"):
        HardwareAxis("sm_count", ("2x",), follow={"tdp_w": 1e5}).overrides("2x", H200)


@pytest.mark.parametrize("written", ["l2-bytes-per-s", "L2_bandwidth", "l2_bytes_per_s"])
def test_set_and_varied_however_it_is_written(written) -> None:
    with pytest.raises(UserError, match="GPU field l2_bytes_per_s is both set and varied: do one of the two"):
        varied_machines("h200_sxm", [parse_vary("l2_bandwidth=2x")], {written: "2x"})


def test_a_value_that_is_not_allowed_is_named() -> None:
    with pytest.raises(UserError, match=r"^l2_retention = 1\.5x: --set on h200_sxm: 1 problem"):
        varied_machines("h200_sxm", [parse_vary("l2_retention=1.5x")])
