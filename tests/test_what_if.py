"""What-ifs: every machine's tuned schedules are those of a sweep, the kept ones cost what they cost, knees are where
they are."""

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dse import load_gpu, load_space, sweep, what_if
from dse.api import explain
from dse.cli.what_if_text import _knee_lines
from dse.content.hardware_axis import parse_vary
from dse.content.study import load_study
from dse.errors import UserError
from dse.studies.what_if.files import as_dict
from dse.studies.what_if.knees import Curve, bound_moves, where_enough
from dse.studies.what_if.study import run_study
from dse.studies.what_if.table import as_it_runs

SMALL = {"tile_m": [64, 128], "tile_n": [64, 128, 256], "stages": [2, 4], "raster": ["along_m:1", "along_n:8"]}


SHAPES = ("4096x4096x4096", "100x8192x1024")


@pytest.fixture(scope="module")
def found():
    return what_if(
        ["l2_capacity=0.5x,4x", "smem_per_sm=0.5x"], shapes=SHAPES, axes=SMALL, front=["latency_s", "area_mm2"]
    )


def test_tuned_latencies_are_those_of_sweeps(found) -> None:
    space = load_space("gemm", "wgmma", "bf16", None, SMALL)
    table = found.found.table
    for number, machine in enumerate(found.found.machines):
        for shape in SHAPES:
            best = sweep(shape=shape, gpu=machine.gpu, space=space).top.iloc[0]
            row = table[(table["machine"] == number) & (table["shape"] == shape)].iloc[0]
            assert row["latency_s"] == pytest.approx(float(best["latency_s"]), rel=1e-7)
            assert row["index"] == int(best["index"])
            assert row["bound"] == best["bound_name"]


def test_kept_schedules_cost_what_explain_says(found) -> None:
    table = found.found.table
    for row in table[table["machine"] > 0].to_dict("records"):
        told = explain(row["frozen_schedule"], shape=row["shape"], gpu=found.found.machines[row["machine"]].gpu)
        if row["frozen_reason"]:
            assert row["frozen_reason"] in told.why_not
            assert np.isnan(row["frozen_s"])
        else:
            assert row["frozen_s"] == pytest.approx(told.latency_s, rel=2e-5)


def test_some_kept_schedule_cannot_run_with_half_the_shared_memory(found) -> None:
    table = found.found.table
    half = table[table["axis"] == "smem_per_sm_bytes"]
    assert (half["frozen_reason"] == "SMEM").any()
    assert found.found.totals.iloc[3][["frozen_s", "frozen_speedup"]].isna().all()


def test_tuning_anew_never_loses_and_the_baseline_is_itself(found) -> None:
    table = found.found.table
    assert (table["retuning_gain"].dropna() > 1 - 1e-5).all()
    now = table[table["machine"] == 0]
    np.testing.assert_allclose(now["frozen_s"], now["latency_s"], rtol=2e-5)
    assert (now["speedup"] == 1).all()


def test_totals_are_weighted_sums_and_the_front_is_marked(found) -> None:
    table, totals = found.found.table, found.found.totals
    for number, row in totals.iterrows():
        rows = table[table["machine"] == number]
        assert row["latency_s"] == pytest.approx((rows["latency_s"] * rows["weight"]).sum())
        assert row["power_w"] == pytest.approx((rows["energy_j"] * rows["weight"]).sum() / row["latency_s"])
    for _, row in totals.iterrows():
        better = (totals["latency_s"] <= row["latency_s"]) & (totals["area_mm2"] <= row["area_mm2"])
        strictly = (totals["latency_s"] < row["latency_s"]) | (totals["area_mm2"] < row["area_mm2"])
        assert row["on_front"] == (not (better & strictly).any())


def test_curves_hold_the_baseline_in_its_place(found) -> None:
    l2, smem = found.curves
    assert list(l2.totals["value"] / l2.now) == [0.5, 1, 4]
    assert list(l2.totals["machine"]) == [1, 0, 2]
    assert list(smem.totals["machine"]) == [3, 0]


def test_weights_move_the_total_only(tmp_path) -> None:
    shapes = tmp_path / "s.csv"
    shapes.write_text("m,n,k,count\n4096,4096,4096,1\n100,8192,1024,1000\n")
    found = what_if("l2_capacity=4x", shapes=shapes, axes=SMALL).found
    one = found.table["latency_s"].to_numpy()
    assert found.totals["latency_s"].iloc[0] == pytest.approx(one[0] + 1000 * one[1])


def test_gpus_of_different_families_are_tuned_over_their_own_spaces(tmp_path) -> None:
    study = tmp_path / "s.toml"
    study.write_text('gpus = ["a100_sxm", "h100_sxm"]\nshapes = ["2048x2048x2048"]\npreset = "quick"\n')
    found = run_study(load_study(study))[0].found
    assert len(found.spaces) == 2
    assert found.table["frozen_reason"].tolist() == ["", "another instruction family"]
    for row, gpu in zip(found.table.to_dict("records"), ("a100_sxm", "h100_sxm"), strict=True):
        best = sweep(shape="2048x2048x2048", gpu=gpu, preset="quick").top.iloc[0]
        assert row["latency_s"] == pytest.approx(float(best["latency_s"]), rel=1e-7)


def test_a_launch_that_has_nothing_to_do_runs_without_it() -> None:
    assert as_it_runs({"stream_k": 1, "persistent": 0}, "STREAM_K") == {"stream_k": 0, "persistent": 1}
    assert as_it_runs({"sms_free": 4}, "SMS_FREE") == {"sms_free": 0}
    assert as_it_runs({"sms_free": 4}, "SMEM") == {"sms_free": 4}


@given(st.lists(st.sampled_from("abc"), min_size=2, max_size=9))
def test_moves_are_the_way_without_detours(bounds) -> None:
    """The changes lead from the first bound to the last, and no bound is met twice."""
    table = pd.DataFrame({"shape_name": "s", "value": range(1, len(bounds) + 1), "bound": bounds})
    moves = sorted(bound_moves(table), key=lambda move: move.below)
    met = [bounds[0], *(move.after for move in moves)]
    assert [move.before for move in moves] == met[:-1]
    assert met[-1] == bounds[-1]
    assert len(set(met)) == len(met)
    for move in moves:
        last = max(at for at, bound in enumerate(bounds) if bound == move.before)
        assert move.below == last + 1  # it never binds again after that


def test_moves_of_many_shapes_are_counted() -> None:
    bounds = {"a": ("ddr", "tensor", "tensor"), "b": ("ddr", "ddr", "tensor"), "c": ("l2", "l2", "l2")}
    rows = [(name, value, at) for name, own in bounds.items() for value, at in zip((1, 2, 4), own, strict=True)]
    (move,) = bound_moves(pd.DataFrame(rows, columns=["shape_name", "value", "bound"]))
    assert (move.before, move.after, move.shapes, move.of) == ("ddr", "tensor", 2, 3)
    assert (move.below, move.above, move.first, move.last) == (1, 2, 1, 2)


def test_enough_is_where_doubling_stops_to_pay() -> None:
    values = [1.0, 2.0, 4.0, 8.0, 16.0]
    assert where_enough(values, [10, 8, 7, 6.99, 6.98]) == 4.0
    assert where_enough(values, [5, 5, 5, 5, 5]) == 1.0
    assert where_enough(values, [16, 8, 4, 2, 1]) is None
    assert where_enough([1.0, 1.5], [2, 1]) is None  # doubling leads past the end


def test_more_of_anything_good_never_hurts(found) -> None:
    base = load_gpu("h200_sxm")
    better = what_if(
        ["ddr_bytes_per_s=2x", "l2_bytes_per_s=2x", "tensor_flop=2x"],
        shapes=SHAPES,
        axes=SMALL,
        overrides={"power_time_s": 0},
    ).found.totals
    assert (better["speedup"] >= 1 - 1e-6).all()
    assert base.changes == ()


def test_a_gpu_whose_die_nobody_knows_has_no_area(tmp_path) -> None:
    from dse.content.files import find_content
    from dse.content.toml import read_toml

    alone = find_content("GPU", "hardware/gpus", "h100_sxm")
    assert "base" not in read_toml(alone)  # a file that stands by itself
    mine = tmp_path / "mine.toml"
    mine.write_text(alone.read_text())
    totals = what_if("l2_capacity=2x", shapes=["512x512x512"], gpu=mine, axes=SMALL).found.totals
    assert totals["area_mm2"].isna().all()
    with pytest.raises(UserError, match="the area of mine is not known, so no front can have area_mm2"):
        what_if("l2_capacity=2x", shapes=["512x512x512"], gpu=mine, axes=SMALL, front=["area_mm2"])


def test_enough_claims_nothing_where_values_are_far_apart_or_more_is_slower() -> None:
    assert where_enough([1.0, 2.0, 1000.0, 2000.0], [10, 10, 8, 8]) == 1000.0  # 10 to 8 may be one doubling
    assert where_enough([1.0, 2.0, 4.0, 8.0], [8, 9, 10, 11]) is None
    assert where_enough([0.0, 1.0, 2.0, 4.0], [8, 9, 9, 9.5]) is None


def _told(lines_of, latency_s, frozen_s, bounds, value=(1.0, 2.0, 4.0), now=2.0):
    """The knees in words of a curve with one shape."""
    machine = [0 if at == now else place + 1 for place, at in enumerate(value)]
    base = latency_s[value.index(now)]
    rows = pd.DataFrame({"value": value, "machine": machine, "latency_s": latency_s, "frozen_s": frozen_s})
    rows["energy_j"], rows["area_mm2"] = rows["latency_s"], 100.0 * rows["value"]
    rows["speedup"], rows["frozen_speedup"] = base / rows["latency_s"], base / rows["frozen_s"]
    rows["retuning_gain"] = rows["frozen_s"] / rows["latency_s"]
    reasons = ["SMEM" if at != at else "" for at in frozen_s]
    table = rows.assign(shape_name="s", bound=bounds, frozen_reason=reasons)
    enough = where_enough(list(value), list(latency_s))
    return "\n".join(lines_of(Curve(parse_vary("l2_bytes_per_s=2x"), now, rows, table, bound_moves(table), enough)))


def test_sentences_are_true_of_the_numbers() -> None:
    nan = float("nan")
    alone = _told(_knee_lines, [1.0], [1.0], ["l2"], (2.0,))
    assert alone == "no value differs from the one it has now"
    same = _told(_knee_lines, [1.0] * 3, [1.0] * 3, ["l2"] * 3)
    assert same == "nothing changes: the kernels do not feel this number, or the model does not use it"
    kept = _told(_knee_lines, [1.0] * 3, [1.2, 1.0, 1.0], ["l2"] * 3)
    assert "nothing changes" not in kept
    assert "tuning anew buys at most 20.0 % (at 1 B/s)" in kept
    worse = _told(_knee_lines, [1.5, 1.0, 1.0], [1.5, 1.0, 1.0], ["l2"] * 3)
    assert "no value is faster; at worst, at 1 B/s (0.5x) the total is 50.00 % slower" in worse
    assert ", for -100 mm2" in worse
    cannot = _told(_knee_lines, [1.5, 1.0, 0.5], [nan, 1.0, 0.6], ["l2"] * 3)
    assert "tuning anew buys at most 20.0 % (at 4 B/s)" in cannot
    there_and_back = _told(_knee_lines, [1.5, 1.0, 0.5], [1.5, 1.0, 0.5], ["l2", "ddr", "l2"])
    assert "what binds is the same at both ends for every shape, but not in between" in there_and_back
    assert "what binds stays the same" in _told(_knee_lines, [1.5, 1.0, 0.5], [1.5, 1.0, 0.5], ["l2"] * 3)


def test_drift_may_be_off_on_some_machines() -> None:
    """Records with and without drift are not of one kind; off is the same as 0."""
    found = what_if("drift_skew_steps=0,8", shapes=SHAPES, axes=SMALL).found
    zero, eight = (found.table[found.table["machine"] == number] for number in (1, 2))
    assert (zero["speedup"] == 1).all()
    for row in eight.to_dict("records"):
        told = explain(row["schedule"], shape=row["shape"], overrides={"drift_skew_steps": 8})
        assert row["latency_s"] == pytest.approx(told.latency_s, rel=2e-5)


def test_the_area_of_an_unknown_die_is_missed_before_anything_is_evaluated(tmp_path, monkeypatch) -> None:
    from dse.content.files import find_content

    mine = tmp_path / "mine.toml"
    mine.write_text(find_content("GPU", "hardware/gpus", "h100_sxm").read_text())
    monkeypatch.setattr("dse.studies.what_if.study.tune_machines", lambda *_: pytest.fail("evaluated"))
    with pytest.raises(UserError, match="the area of mine is not known, so no front can have area_mm2"):
        what_if("l2_capacity=2x", gpu=mine, shapes=SHAPES, axes=SMALL, front=["area_mm2"])


def test_two_machines_of_one_name_are_not_told_apart(tmp_path) -> None:
    study = tmp_path / "s.toml"
    study.write_text('gpus = ["h200_sxm", "h200_sxm"]\nshapes = ["512x512x512"]\n')
    with pytest.raises(UserError, match="gpus: 'h200_sxm' is there twice: leave one out, or give one of the files"):
        run_study(load_study(study))


def test_json_holds_every_digit_of_small_numbers() -> None:
    """Joules per FLOP are 1e-12: fifteen decimals would keep three digits."""
    found = what_if("joule_per_tensor_flop=0.777x,0.1234567x", shapes=SHAPES[:1], axes=SMALL)
    told = json.loads(json.dumps(as_dict(found), allow_nan=False))
    for name, frame in (("table", found.found.table), ("totals", found.found.totals)):
        back = pd.DataFrame(told[name])
        for column in frame.columns:
            same = (back[column] == frame[column]) | (back[column].isna() & frame[column].isna())
            assert same.all(), column


@pytest.mark.parametrize(
    ("choices", "said"),
    [
        ({"vary": []}, "vary = \\[\\] is nothing that is varied: write e.g. 'l2_capacity=1x,2x'"),
        ({"vary": 3}, "vary = 3 is nothing that is varied"),
        ({"shapes": []}, "no shape is given: write at least one"),
        ({"foo": 1}, "unknown choice of a question 'foo'; known: .*align_bytes"),
        ({"overrides": [1]}, "overrides = \\[1\\] is no mapping: write e.g."),
        ({"gpu": load_gpu("h100_sxm")}, "not a loaded one: give gpu='h100_sxm'"),
        ({"front": "latency"}, "unknown quantity of a front of machines 'latency'"),
        (
            {"space": "gemm/mma_sync"},
            "the space gemm/mma_sync is for mma_sync, but wgmma is what .* or family mma_sync",
        ),
    ],
)
def test_what_is_wrong_in_python_is_said(choices, said) -> None:
    with pytest.raises(UserError, match=said):
        what_if(**({"vary": "l2_capacity=2x", "shapes": SHAPES} | choices))


def test_axes_may_be_texts_and_shapes_numbers() -> None:
    texts = [f"{name}={','.join(map(str, values))}" for name, values in SMALL.items()]
    found = what_if("l2_capacity=4x", shapes=[(4096, 4096, 4096)], axes=texts).found
    assert found.spaces == what_if("l2_capacity=4x", shapes=SHAPES[:1], axes=SMALL).found.spaces
    assert found.table["shape"].tolist() == ["4096x4096x4096"] * 2
