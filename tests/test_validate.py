"""Validation against measured latencies: the packaged sample, the fitted roofline, the judgement's arithmetic."""

import json
import re

import jax
import numpy as np
import pandas as pd
import pytest
from cli_run import answer, json_answer
from measured_tables import measured_table, predicted_best
from oracles.quick_compile import QUICK

from dse.best_schedule import best_schedules
from dse.cli import main
from dse.content import load_gpu
from dse.content.space import load_space
from dse.errors import UserError
from dse.kernels.gemm import GemmProblem
from dse.validation.deal import deal_pairs
from dse.validation.measured import load_measured_gemm
from dse.validation.roofline_fit import FittedRoofline, fit_roofline
from dse.validation.validate import all_rows, pooled, validate_gemm
from jaxmodel.kernels.gemm import cost
from jaxmodel.reasons import Reason
from jaxmodel.types import GemmSchedule


def test_the_sample_keeps_every_weight_shape_in_one_part():
    parts = [load_measured_gemm(part=part) for part in ("fit", "check", "report")]
    shapes = [set(zip(rows["n"], rows["k"], strict=True)) for rows in parts]
    assert not shapes[0] & shapes[1]
    assert not shapes[0] & shapes[2]
    assert not shapes[1] & shapes[2]
    assert {rows["system"].nunique() for rows in parts} == {4}


def test_the_roofline_fit_finds_the_constants_it_was_made_with():
    rng = np.random.default_rng(0)
    shape = {name: rng.choice([64, 256, 1024, 4096, 16384], 400).astype(float) for name in ("m", "n", "k")}
    truth = FittedRoofline(2e-6, 7e14, 3e12)
    fitted = fit_roofline(pd.DataFrame({**shape, "latency_us": truth.latency_s(**shape) * 1e6}))
    assert fitted.overhead_s == pytest.approx(truth.overhead_s, rel=0.02)
    assert fitted.flop_per_s == pytest.approx(truth.flop_per_s, rel=0.02)
    assert fitted.bytes_per_s == pytest.approx(truth.bytes_per_s, rel=0.02)
    narrow = FittedRoofline(2e-6, 7e14, 3e12, operand_bytes=1.0)
    assert narrow.latency_s(1.0, 4096.0, 8192.0) < truth.latency_s(1.0, 4096.0, 8192.0)


def test_the_best_over_a_space_is_what_evaluating_every_schedule_alone_finds():
    gpu = load_gpu("h100_sxm")
    axes = {"tile_m": [128], "tile_n": [64, 128], "stages": [4], "warps": ["1wg"], "cluster": ["1x1"]}
    space = load_space("gemm", "wgmma", "bf16", preset="library", axes=axes)
    problems = [GemmProblem(m=4096, n=4096, k=4096), GemmProblem(m=16, n=4096, k=8192)]
    best = best_schedules(problems, space, gpu)
    bound = gpu.bind("bf16", family="wgmma")
    columns = space.rows(range(space.size))
    cost_of_one = jax.jit(cost, compiler_options=QUICK)
    for problem, latency_s in zip(problems, best.latency_s, strict=True):
        alone = []
        for index in range(0, space.size, 7):
            schedule = GemmSchedule(**{name: np.float32(values[index]) for name, values in columns.items()})
            result = cost_of_one(problem.arrays(), schedule, bound)
            if float(result.reason) in (Reason.OK, Reason.SAME_ORDER):
                alone.append(float(result.latency_s))
        assert latency_s <= min(alone) * (1 + 1e-5)
        chosen = GemmSchedule(
            **{name: np.float32(values[best.index[problems.index(problem)]]) for name, values in columns.items()}
        )
        assert float(cost(problem.arrays(), chosen, bound).latency_s) == pytest.approx(latency_s, rel=1e-5)


def test_the_model_beats_the_fitted_roofline_on_shapes_no_number_was_fitted_on(capsys):
    assert main(["validate", "gemm", "--rows", "40", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [entry["gpu"] for entry in found["gpus"]] == ["a100_sxm", "b200_sxm", "h100_sxm", "h200_sxm"]
    assert found["pooled"]["model"]["count"] == 160
    assert found["pooled"]["model"]["mape"] < found["pooled"]["roofline"]["mape"]
    # the bar on all rows is 10; 160 rows scatter by about 0.8
    assert found["pooled"]["model"]["mape"] < 12.5


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"dtypes": ["fp8"]}, "unknown dtype in the packaged sample 'fp8'; known: bf16; .*or another --table"),
        ({"source": "vllm"}, "the packaged sample has no column source, so --source vllm chooses nothing"),
        ({"gpus": ["l40s"]}, "unknown GPU in the measured table 'l40s'; known: a100_sxm"),
        ({"part": "test"}, "unknown part 'test'; known: check, fit, report"),
        ({"rows_per_gpu": 0}, "rows_per_gpu = 0: at least 1"),
        ({"table": "nowhere.csv"}, "no table at nowhere.csv; give a Parquet or CSV file"),
    ],
)
def test_bad_questions_are_refused(arguments, message):
    with pytest.raises(UserError, match=message):
        validate_gemm(**arguments)


def test_a_table_without_a_needed_column_is_named(tmp_path):
    path = tmp_path / "mine.csv"
    path.write_text("system,m,n\nh100_sxm,1,2\n")
    with pytest.raises(UserError, match="has no column k, latency_us"):
        validate_gemm(table=path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            "system,m,n,k,latency_us\nh100_sxm,128,128,128,fast\n",
            "the column latency_us holds something else than numbers",
        ),
        ("system,m,n,k,latency_us\nh100_sxm,128.5,128,128,4\n", "m = '128.5' in shape '128.5x128x128' is not a whole"),
        ("system,m,n,k,latency_us\nh100_sxm,99999999,128,128,4\n", r"is past 16777215 \(2\^24 - 1\)"),
        ("system,m,n,k,latency_us\nh10O,128,128,128,4\n", "unknown GPU 'h10O'"),
        (
            "system,m,n,k,latency_us,part\nh100_sxm,8,8,8,5,check\na100_sxm,8,8,8,5,fit\n",
            "no rows of h100_sxm in the part fit",
        ),
        ("", "is not a readable table"),
        (
            "system,m,n,k,latency_us,dtype\na100_sxm,128,128,128,4,fp8\n",
            "a100_sxm has no tensor rate for fp8, but the table has 1 rows of it; it has .*bf16.*leave them out with",
        ),
        ("system,m,n,k,latency_us,dtype\na100_sxm,128,128,128,4,fp9\n", "unknown dtype 'fp9'; known: bf16.*rename it"),
        ("system,m,n,k,latency_us,part\nh100_sxm,8,8,8,5,fit\n", "has no row in the part check; it has fit"),
    ],
)
def test_bad_tables_are_named(content, message, tmp_path):
    path = tmp_path / "mine.csv"
    path.write_text(content)
    with pytest.raises(UserError, match=message):
        validate_gemm(table=path)


def test_a_damaged_parquet_table_is_named(tmp_path):
    path = tmp_path / "mine.parquet"
    path.write_text("nonsense")
    with pytest.raises(UserError, match=r"mine.parquet is not a readable table \(.*\); give a Parquet file"):
        validate_gemm(table=path)


@pytest.fixture
def without_a_model(monkeypatch):
    monkeypatch.setattr("dse.validation.validate.best_schedules", predicted_best)
    monkeypatch.setattr("dse.validation.nvmatmul.is_installed", lambda: False)


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "measured.csv"
    measured_table().to_csv(path, index=False)
    return str(path)


def test_every_data_type_is_judged_over_its_own_space_with_its_own_roofline(tmp_path, without_a_model):
    rows = measured_table(("h100_sxm",))
    path = tmp_path / "two.parquet"
    both = [
        rows.assign(dtype="bf16", source=None),
        rows.assign(dtype="fp8", source="vllm", latency_us=rows.latency_us / 2),
    ]
    pd.concat(both, ignore_index=True).to_parquet(path)
    found = validate_gemm(table=path)
    assert [(one.gpu, one.dtype) for one in found] == [("h100_sxm", "bf16"), ("h100_sxm", "fp8")]
    assert found[1].sources == ("vllm",)
    named = pd.read_parquet(path).rename(columns={"dtype": "gemm_dtype"})
    named.assign(source=named["m"].map({1: "one", 64: "two"})).to_parquet(tmp_path / "named.parquet")
    renamed = validate_gemm(table=tmp_path / "named.parquet")
    assert [one.dtype for one in renamed] == ["bf16", "fp8"]
    assert renamed[0].notes == ("h100_sxm bf16: 2 sources are judged together; --source takes one",)
    assert found[1].model.bias == pytest.approx(100 * (2 * (1 + found[0].model.bias / 100) - 1))
    assert found[1].roofline.mape < 40  # fitted on the fp8 rows
    assert (found[0].rows["dtype"] == "bf16").all()
    assert [one.dtype for one in validate_gemm(table=path, dtypes=["fp8"])] == ["fp8"]
    assert [one.dtype for one in validate_gemm(table=path, source="vllm")] == ["fp8"]
    with pytest.raises(UserError, match=r"unknown source in .*two.parquet 'vlm'; known: .*vllm"):
        validate_gemm(table=path, source="vlm")


def test_a_row_without_a_type_is_bf16(tmp_path, without_a_model):
    path = tmp_path / "mine.csv"
    measured_table(("a100_sxm",)).assign(dtype=np.nan).to_csv(path, index=False)
    assert validate_gemm(table=path)[0].dtype == "bf16"


def test_another_gpu_file_may_stand_for_a_gpu_of_the_table(table, without_a_model):
    (own,) = validate_gemm(["h200_sxm"], table)
    (other,) = validate_gemm({"h200_sxm": "h100_sxm"}, table)
    assert (other.gpu, other.gpu_file) == ("h200_sxm", "h100_sxm")
    assert other.model.bias > own.model.bias
    assert other.roofline == own.roofline


def test_a_full_table_can_take_the_parts_of_the_packaged_sample(tmp_path, without_a_model):
    sample = load_measured_gemm(part=None)
    sample = sample[sample["system"] == "h100_sxm"]
    path = tmp_path / "full.parquet"
    strange = sample.head(3).assign(n=77)
    pd.concat([sample.drop(columns="part"), strange], ignore_index=True).to_parquet(path)
    (found,) = validate_gemm(table=path, same_split=True, rows_per_gpu=50)
    check = sample[sample["part"] == "check"]
    assert set(zip(found.rows["n"], found.rows["k"], strict=True)) <= set(zip(check["n"], check["k"], strict=True))
    strange.to_csv(tmp_path / "strange.csv", index=False)
    with pytest.raises(UserError, match=r"no \(n, k\) of the table is in the packaged sample"):
        validate_gemm(table=tmp_path / "strange.csv", same_split=True)


def test_pairs_are_dealt_as_the_packaged_sample_has_them():
    sample = load_measured_gemm(part=None)
    dealt = deal_pairs(sample)
    packaged = sample[["n", "k", "part"]].drop_duplicates().sort_values(["n", "k"], ignore_index=True)
    pd.testing.assert_frame_equal(dealt, packaged[["n", "k", "part"]], check_dtype=False)


def test_pooled_errors_are_those_of_all_rows(table, without_a_model):
    found = validate_gemm(table=table)
    rows = all_rows(found)
    assert len(rows) == sum(one.model.count for one in found) == pooled(found).count
    assert pooled(found).mape == pytest.approx(100 * (rows["model_us"] / rows["latency_us"] - 1).abs().mean())
    assert pooled(found, "roofline").pairs == 6


def test_the_answer_fits_a_screen_and_starts_with_the_gpus(table, without_a_model, capsys):
    code, out, err = answer(capsys, "validate", "gemm", "--table", table)
    assert code == 0
    assert "h100_sxm bf16: 24 shapes over the preset library\n" in err
    lines = out.splitlines()
    assert len(lines) < 40
    assert max(map(len, lines)) < 140
    assert lines[2].split()[:4] == ["GPU", "rows", "MAPE", "bias"]
    assert [line.split()[0] for line in lines[3:7]] == ["h100_sxm", "h200_sxm", "mean", "all"]
    assert "the rows carry no schedule" in out
    assert "roofline is judged on the rows" not in out


def test_fitting_and_judging_on_the_same_rows_is_said(table, without_a_model, capsys):
    _, out, _ = answer(capsys, "validate", "gemm", "--table", table, "--part", "fit", "--gpu", "h200_sxm")
    assert "h200_sxm: the roofline is judged on the rows it is fitted on" in out


def test_a_breakdown_shows_every_metric_of_every_cell(table, without_a_model, capsys):
    _, out, _ = answer(capsys, "validate", "gemm", "--table", table, "--by", "gpu,class", "--by", "latency")
    assert re.search(r"^h100_sxm +decode +6 ", out, re.M)
    assert re.search(r"^gpu +class +rows +MAPE +bias +p50 +p90 +p99 +weighted +roofline", out, re.M)
    assert re.search(r"^latency +rows", out, re.M)
    code, _, err = answer(capsys, "validate", "gemm", "--by", "shape")
    assert code == 2
    assert "unknown axis of --by 'shape'; known: class, dtype, gpu, latency" in err


def test_the_json_holds_every_table_with_its_intervals(table, without_a_model, capsys):
    found = json_answer(capsys, "validate", "gemm", "--table", table)
    assert found["bootstrap"] == {"resampled": "(n, k) pairs", "draws": 1000, "level": 0.95, "seed": 0}
    assert set(found["by"]) == {"latency", "class", "dtype", "gpu,latency", "gpu,class"}
    model = found["gpus"][0]["model"]
    metrics = {"mape", "weighted_mape", "bias", "p50", "p90", "p99"}
    assert set(model) == metrics | {"count", "pairs", "interval"}
    assert all(low <= high for low, high in model["interval"].values())
    assert set(model["interval"]) == metrics
    assert {cell["class"] for cell in found["by"]["class"]} >= {"decode", "deep-K"}
    assert {"dtype", "bucket", "count", "gpus", "by_rows", "by_gpus"} == set(found["pooled_bias"][0])
    assert found["source_spread"][0]["spread_percent"] == pytest.approx(5.0)
    assert found["mean_of_gpus"]["bf16"]["model"]["value"] == pytest.approx(
        np.mean([one["model"]["mape"] for one in found["gpus"]])
    )


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_the_rows_are_written_with_their_predictions(ending, table, without_a_model, capsys, tmp_path):
    path = tmp_path / f"rows.{ending}"
    code, out, _ = answer(capsys, "validate", "gemm", "--table", table, "--out", path)
    assert code == 0
    assert f"rows: {path}" in out
    rows = pd.read_parquet(path) if ending == "parquet" else pd.read_csv(path)
    assert len(rows) == 48
    assert {"system", "latency_us", "model_us", "roofline_us", "schedule", "latency_bucket", "shape_class"} <= set(rows)
    assert rows["schedule"].str.startswith("tile=").all()


@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_the_figure_is_written_and_is_the_same_each_time(ending, table, without_a_model, capsys, tmp_path):
    paths = [tmp_path / f"{name}.{ending}" for name in "ab"]
    for path in paths:
        code, out, err = answer(capsys, "validate", "gemm", "--table", table, "--figure", path)
        assert code == 0, err
        assert f"figure: {path}" in out
    start = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}[ending]
    assert paths[0].read_bytes().startswith(start)
    assert paths[0].read_bytes() == paths[1].read_bytes()
    if ending == "svg":
        text = paths[0].read_text()
        assert "h100_sxm bf16, MAPE" in text
        assert "three-constant roofline" in text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--figure", "fig.jpg"], "a figure ends in .png, .svg, .pdf, not '.jpg': fig.jpg"),
        (["--figure", "nowhere/fig.png"], "nowhere for the figure; make it first"),
        (["--out", "rows.xlsx"], "--out writes .parquet or .csv, not '.xlsx': rows.xlsx"),
        (["--out", "nowhere/rows.csv"], "nowhere for the rows; make it first"),
        (["--speedup", "h100_sxm"], "--speedup 'h100_sxm' names two GPUs of the table, e.g. h100_sxm:h200_sxm"),
        (["--speedup", "h100_sxm:h100_sxm"], "a speed-up is between two GPUs, not h100_sxm and itself"),
        (["--speedup", "h100_sxm:h200_sxm", "--by", "class"], "--by does not go with --speedup: ask twice"),
    ],
)
def test_bad_options_are_refused_before_any_work(words, message, capsys):
    code, out, err = answer(capsys, "validate", "gemm", *words)
    assert code == 2
    assert not out
    assert message in err


def test_what_is_validated_is_named(capsys):
    code, _, err = answer(capsys, "validate", "gem")
    assert code == 2
    assert "'gem'" in err
    assert "gemm" in err
    assert "schedules" in err
    code, out, _ = answer(capsys, "validate", "schedules", "--help")
    assert code == 0
    assert "--launch" in out
