"""What-ifs: every machine's tuned schedules are those of a sweep, the kept ones cost what they cost, knees are where
they are, and a study file says the same as the options."""

import json

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from cli_run import answer
from hypothesis import given
from hypothesis import strategies as st

from dse import load_gpu, load_space, sweep, what_if
from dse.api import explain
from dse.content.study import list_studies, load_study, study_text
from dse.errors import UserError
from dse.studies.what_if.knees import bound_moves, where_enough
from dse.studies.what_if.tuned import as_it_runs

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
    from dse.studies.what_if.study import run_study

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


def test_every_packaged_study_loads_and_says_itself_again(tmp_path) -> None:
    studies = list_studies()
    assert {"bigger_l2", "memory_bandwidth", "more_sms", "shared_memory", "tensor_rate", "launch_overhead"} <= set(
        studies
    )
    for path in studies.values():
        study = load_study(path)
        copy = tmp_path / path.name
        copy.write_text(study_text(study))
        assert load_study(copy) == study, path


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            'gpu = "h200_sxm"\nshapes = "llama3_70b"',
            "axis: nothing is varied: write [[axis]] with a field, or several gpus",
        ),
        ('shapes = "llama3_70b"', 'gpu: give one of gpu = "h200_sxm" and gpus = ["h100_sxm", "h200_sxm"]'),
        (
            'gpu = "h200_sxm"\n[[axis]]\nfield = "l2_ways"\nvalues = [2]',
            "shapes: is missing: the name or path of a list",
        ),
        ('gpu = "h200_sxm"\nshape = "x"\n', "shape: is not a key of a study; did you mean 'shapes'?"),
        ('gpu = 3\nshapes = "llama3_70b"', "gpu: 3 is not a text"),
        (
            'gpu = "h200_sxm"\nshapes = "a"\n[[axis]]\nfield = "l2way"\nvalues = [2]',
            "axis 1: unknown GPU field 'l2way'",
        ),
        ('gpu = "h100_sxm"\n[measured]\npart = "check"', "measured: compares GPUs with their measurements: give gpus"),
    ],
)
def test_everything_wrong_with_a_study_is_said(tmp_path, text: str, said: str) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(text)
    with pytest.raises(UserError) as error:
        load_study(path)
    assert said in str(error.value)


def test_the_command_answers_and_leaves_a_study_that_answers_the_same(capsys, tmp_path) -> None:
    options = ["--axis", "tile_m=64,128", "--axis", "stages=2,4", "--preset", "quick", "--quiet"]
    one = ("whatif", "--vary", "l2_capacity=2x", "--shape", "4096x4096x4096", "--out", str(tmp_path / "one"), *options)
    code, out, err = answer(capsys, *one)
    assert (code, err) == (0, "")
    assert "at 104.9 MB (2x) the total is" in out
    assert "shape by shape, l2_capacity_bytes 1.049e+08" in out
    again = ("study", str(tmp_path / "one" / "study.toml"), "--out", str(tmp_path / "two"), "--json", "--quiet")
    code, out, _ = answer(capsys, *again)
    assert code == 0
    first, second = (pq.read_table(tmp_path / name / "table.parquet") for name in ("one", "two"))
    assert first.equals(second)
    assert json.loads(out)["totals"][1]["speedup"] == pytest.approx(first["speedup"][1].as_py())
    field = first.schema.field("latency_s")
    assert field.metadata[b"unit"] == b"s"
    made = json.loads(pq.read_schema(tmp_path / "one" / "totals.parquet").metadata[b"tilesweep"])
    assert made["command_line"].startswith("dse whatif --vary l2_capacity=2x")
    assert made["spaces"]
    assert (tmp_path / "one" / "figure.svg").read_text().startswith("<?xml")


def test_a_folder_with_something_else_in_it_is_left_alone(capsys, tmp_path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    code, _, err = answer(
        capsys, "whatif", "--vary", "l2_capacity=2x", "--shape", "8x8x8", "--out", str(tmp_path), "--overwrite"
    )
    assert code == 2
    assert f"{tmp_path} is not empty (mine.txt): choose another with --out" in err
    assert (tmp_path / "mine.txt").read_text() == "mine"


def test_a_shape_that_nothing_runs_is_named(capsys, tmp_path) -> None:
    words = ("whatif", "--vary", "l2_capacity=2x", "--shape", "33x3001x700", "--out", str(tmp_path / "x"), "--quiet")
    code, _, err = answer(capsys, *words, "--preset", "quick")
    assert code == 2
    assert "no schedule of the space can run 33x3001x700 on h200_sxm: widen the space or its preset" in err


def test_a_change_that_happened(capsys, tmp_path) -> None:
    code, out, err = answer(capsys, "study", "h100_to_h200", "--out", str(tmp_path / "back"))
    assert code == 0
    assert err.splitlines() == [
        "h100_sxm bf16: 900 shapes over the preset library",
        "h200_sxm bf16: 900 shapes over the preset library",
    ]
    assert "h100_sxm -> h200_sxm: 900 shapes" in out
    rows = pq.read_table(tmp_path / "back" / "table.parquet").to_pandas()
    assert len(rows) == 900
    np.testing.assert_allclose(rows["error"], rows["model"] / rows["measured"] - 1)
    assert 100 * np.abs(rows["error"]).mean() < 6  # the accuracy page says what it is


def test_the_list_of_studies(capsys) -> None:
    code, out, _ = answer(capsys, "study")
    assert code == 0
    assert "bigger_l2" in out
    code, _, err = answer(capsys, "study", "biger_l2")
    assert code == 2
    assert "did you mean 'bigger_l2'?" in err


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
