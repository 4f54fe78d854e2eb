"""Schedules tuned over whole spaces: those of a sweep, whatever the number of workers, for many GPUs at once."""

from dataclasses import fields, replace

import numpy as np
import pytest

from dse import load_gpu, load_space, sweep
from dse.errors import UserError
from dse.fitting import DECIDES_WHAT_FITS, fitting
from dse.kernels.gemm import gemm_problem
from dse.paired import paired_costs
from dse.schedule_set import CPU_BLOCK_LANES, listed
from dse.schedule_text import parse_schedule
from dse.tuning import tune, tune_few
from jaxmodel.machine import Gpu

SMALL = {"tile_m": [64, 128], "tile_n": [64, 128, 256], "stages": [2, 4, 8], "raster": ["along_m:1", "along_n:8"]}
SHAPES = ("4096x4096x4096", "100x8192x1024", "33x3008x704")


@pytest.fixture(scope="module")
def space():
    return load_space("gemm", "wgmma", "bf16", None, SMALL)


@pytest.fixture(scope="module")
def machines():
    changes = ({}, {"l2_capacity": "4x"}, {"smem_per_sm_bytes": "0.5x"}, {"sm_count": "2x"})
    return [load_gpu("h200_sxm", change) for change in changes]


@pytest.fixture(scope="module")
def problems():
    return [gemm_problem(shape) for shape in SHAPES]


def test_tuned_schedules_are_those_of_a_sweep(space, machines, problems) -> None:
    bound = [gpu.bind("bf16") for gpu in machines]
    rows = [(problem, gpu) for problem in problems for gpu in bound]
    found = tune(fitting(space, problems, bound), rows)
    wanted = [sweep(shape=problem, gpu=gpu, space=space).top.iloc[0] for problem in problems for gpu in machines]
    np.testing.assert_array_equal(found.latency_s, [row["latency_s"] for row in wanted])
    np.testing.assert_array_equal(found.index, [int(row["index"]) for row in wanted])


@pytest.mark.parametrize("count", [1, 7, 300])
def test_the_fastest_few_are_the_first_of_all_in_order(space, machines, problems, count) -> None:
    """300 are more than tie with the last of some row; ties keep the order of the space."""
    bound = machines[0].bind("bf16")
    schedules = fitting(space, problems, [bound])
    found = tune_few(schedules, [(problem, bound) for problem in problems], count)
    for row, problem in enumerate(problems):
        (values,) = schedules.values(*_records(problem, bound))
        order = np.argsort(values, kind="stable")[:count]
        assert len(set(values[order])) < count or count == 1  # there are ties
        np.testing.assert_array_equal(found.latency_s[row], values[order])
        np.testing.assert_array_equal(found.index[row], schedules.index[order])


def test_fewer_can_run_than_are_asked_for(space, machines) -> None:
    bound, problem = machines[0].bind("bf16"), gemm_problem("33x3008x704")
    schedules = fitting(space.restrict({"tile_m": 64, "tile_n": 64, "stages": 4}), [problem], [bound])
    (values,) = schedules.values(*_records(problem, bound))
    runs = int(np.isfinite(values).sum())
    found = tune_few(schedules, [(problem, bound)], len(values))
    assert 0 < runs < len(values)
    assert np.isfinite(found.latency_s[0]).sum() == runs
    assert (found.index[0] >= 0).sum() == runs
    assert set(found.index[0][runs:]) == {-1}


def test_sets_that_share_what_is_compiled_have_the_same_values(space, machines, problems) -> None:
    bound = machines[0].bind("bf16")
    own, alike = (fitting(space, problems, [bound], alike=alike) for alike in (False, True))
    assert any(group.scalars for group in own.groups)
    assert not any(group.scalars for group in alike.groups)
    np.testing.assert_array_equal(own.index, alike.index)
    for problem in problems:
        np.testing.assert_array_equal(*(at.values(*_records(problem, bound)) for at in (own, alike)))
    places = np.arange(0, len(own), 501)
    for name, values in own.fields(places).items():
        np.testing.assert_array_equal(values, alike.fields(places)[name], err_msg=name)


def test_workers_do_not_change_the_answer(space, machines, problems) -> None:
    bound = machines[0].bind("bf16")
    schedules = fitting(space, problems, [bound])
    rows = [(problem, bound) for problem in problems]
    one, three = (tune(schedules, rows, workers=count) for count in (1, 3))
    np.testing.assert_array_equal(one.index, three.index)
    np.testing.assert_array_equal(one.latency_s, three.latency_s)


def test_what_fits_one_machine_only_stays_in_the_set(space, machines, problems) -> None:
    small, large = machines[2].bind("bf16"), machines[0].bind("bf16")
    both, on_small = fitting(space, problems, [small, large]), fitting(space, problems, [small])
    assert len(on_small) < len(both)
    assert set(on_small.index) <= set(both.index)


def test_fields_and_values_belong_to_the_index(space, machines, problems) -> None:
    bound = machines[0].bind("bf16")
    schedules = fitting(space, problems, [bound])
    places = np.linspace(0, len(schedules) - 1, 97).astype(int)
    at = schedules.fields(places)
    expected = space.rows(schedules.index[places])
    for name, values in expected.items():
        np.testing.assert_array_equal(at[name], values, err_msg=name)
    values = schedules.values(*_records(problems[0], bound), ("latency_s", "ddr_bytes"))
    costs = paired_costs([problems[0]] * len(places), at, [bound] * len(places))
    runs = costs["reason"] == 0
    np.testing.assert_allclose(values[0][places][runs], costs["latency_s"][runs], rtol=1e-5)
    np.testing.assert_allclose(values[1][places][runs], costs["ddr_bytes"][runs], rtol=1e-5)
    assert np.isinf(values[:, places][:, ~runs]).all()


def test_a_list_of_schedules_keeps_its_places(space, machines, problems) -> None:
    bound = machines[0].bind("bf16")
    columns = space.rows(range(0, space.size, space.size // 50))
    schedules = listed(columns)
    assert sorted(schedules.index) == list(range(len(columns["tile_m"])))
    at = schedules.fields(np.arange(len(schedules)))
    for name, values in columns.items():
        np.testing.assert_array_equal(at[name], values[schedules.index], err_msg=name)
    assert tune(schedules, [(problems[0], bound)]).latency_s[0] > 0


def test_a_few_schedules_take_one_block(space, machines, problems) -> None:
    columns = space.rows(range(0, space.size, space.size // 50)) | {"stream_k": np.zeros(51)}
    columns = {name: values[:50] for name, values in columns.items()}
    (group,) = listed(columns).groups
    assert group.columns["tile_m"].shape == (1, 1, CPU_BLOCK_LANES)
    (group,) = listed({name: np.resize(values, CPU_BLOCK_LANES + 1) for name, values in columns.items()}).groups
    assert group.columns["tile_m"].shape == (1, 2, CPU_BLOCK_LANES)


def test_rows_with_scales_or_drift_and_rows_without_may_be_mixed() -> None:
    gpus = [load_gpu("b200_sxm", {} if row < 3 else {"drift_skew_steps": 4}) for row in range(4)]
    schedule = parse_schedule("tile=128x128x256 stages=3 warps=4", "tcgen05")
    problems = [gemm_problem(shape, dtype=dtype) for shape in SHAPES[:2] for dtype in ("nvfp4", "bf16")]
    bound = [gpu.bind(problem.dtype) for gpu, problem in zip(gpus, problems, strict=True)]
    found = paired_costs(problems, {name: np.full(4, value) for name, value in schedule.items()}, bound)
    for row, (problem, record) in enumerate(zip(problems, bound, strict=True)):
        alone = paired_costs([problem], {name: np.array([value]) for name, value in schedule.items()}, [record])
        for name, values in alone.items():
            assert found[name][row] == values[0], (name, problem.dtype)
    assert len(set(found["latency_s"])) == 4


def test_no_other_number_decides_what_fits(space, machines, problems) -> None:
    """`fitting` looks at GPUs that differ in `DECIDES_WHAT_FITS` only."""
    bound = machines[0].bind("bf16")
    rng = np.random.default_rng(3)
    places = rng.integers(0, space.size, 4000)
    columns = space.rows(places)
    alone = [problems[1]] * len(places)
    before = paired_costs(alone, columns, [bound] * len(places))["reason"]
    others = {
        field.name: np.float32(getattr(bound, field.name) * 1.7 + 0.1)
        for field in fields(Gpu)
        if field.name not in DECIDES_WHAT_FITS and getattr(bound, field.name) is not None
    }
    after = paired_costs(alone, columns, [replace(bound, **others)] * len(places))["reason"]
    np.testing.assert_array_equal(before, after)
    assert len(set(before)) > 3


def test_nothing_fits(machines, problems) -> None:
    space = load_space("gemm", "wgmma", "bf16", None, {"tile_m": 256, "tile_n": 256, "warps": "1wg"})
    with pytest.raises(UserError, match=r"no schedule of the space gemm/wgmma fits: widen the space or its preset"):
        fitting(space, problems, [machines[0].bind("bf16")])


def test_a_problem_that_nothing_can_run_is_infinite(machines) -> None:
    space = load_space("gemm", "wgmma", "bf16", None, {**SMALL, "split_k": 16})
    problems = [gemm_problem("256x256x64"), gemm_problem("256x256x65536")]
    bound = machines[0].bind("bf16")
    found = tune(fitting(space, problems, [bound]), [(problem, bound) for problem in problems])
    assert np.isinf(found.latency_s[0])
    assert found.index[0] == -1
    assert np.isfinite(found.latency_s[1])


def _records(problem, gpu):
    from dse.job import as_float32

    return as_float32(problem.arrays()), as_float32(gpu)


def test_a_renamed_launch_order_hides_nothing_that_stops_a_schedule(machines) -> None:
    """On a narrow grid along_m:8 is along_m:1: in a list both run or neither does, and for the same time."""
    problem, bound = gemm_problem("33x3008x704"), machines[0].bind("bf16")
    for launch in ("stream_k", "persistent", "data_parallel"):
        words = f"tile=64x64x64 stages=3 warps=4x1 launch={launch} epilogue=staged swap_ab=1"
        pair = [parse_schedule(f"{words} raster={raster}", "wgmma") for raster in ("along_m:1", "along_m:8")]
        columns = {name: np.array([schedule[name] for schedule in pair]) for name in pair[0]}
        one, eight = listed(columns).values(*_records(problem, bound))[0]
        assert one == eight
        assert np.isinf(one) == (launch == "stream_k")


def test_the_chunks_of_an_accelerator_give_the_same(monkeypatch, space, machines, problems) -> None:
    bound = machines[0].bind("bf16")
    rows = [(problem, bound) for problem in problems]
    expected = tune(fitting(space, problems, [bound]), rows)
    monkeypatch.setattr("dse.schedule_set.is_accelerator", lambda device: True)
    whole = fitting(space, problems, [bound])
    assert all(group.calls == 1 for group in whole.groups)
    found = tune(whole, rows)
    np.testing.assert_allclose(found.latency_s, expected.latency_s, rtol=1e-6)
    np.testing.assert_array_equal(found.index, expected.index)
