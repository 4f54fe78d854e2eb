"""Validation against measured latencies: the packaged sample, the fitted roofline, the judgement's arithmetic."""

import json

import numpy as np
import pandas as pd
import pytest

from dse.cli import main
from dse.content import load_gpu
from dse.content.space import load_space
from dse.errors import UserError
from dse.problem import GemmProblem
from dse.studies.best_schedule import best_schedules
from dse.studies.measured import load_measured_gemm
from dse.studies.roofline_fit import FittedRoofline, fit_roofline
from dse.studies.validate import errors, validate_gemm
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


def test_errors_are_relative_to_the_measurement():
    found = errors(np.array([1.1, 0.8]), np.array([1.0, 1.0]))
    assert found.count == 2
    assert found.mape == pytest.approx(15.0)
    assert found.bias == pytest.approx(-5.0)


def test_the_best_over_a_space_is_what_evaluating_every_schedule_alone_finds():
    gpu = load_gpu("h100_sxm")
    axes = {"tile_m": [128], "tile_n": [64, 128], "stages": [4], "warps": ["1wg"], "cluster": ["1x1"]}
    space = load_space("gemm", "wgmma", "bf16", preset="library", axes=axes)
    problems = [GemmProblem(m=4096, n=4096, k=4096), GemmProblem(m=16, n=4096, k=8192)]
    best = best_schedules(problems, space, gpu)
    bound = gpu.bind("bf16", family="wgmma")
    columns = space.rows(range(space.size))
    for problem, latency_s in zip(problems, best.latency_s, strict=True):
        alone = []
        for index in range(0, space.size, 7):
            schedule = GemmSchedule(**{name: np.float32(values[index]) for name, values in columns.items()})
            result = cost(problem.arrays(), schedule, bound)
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
