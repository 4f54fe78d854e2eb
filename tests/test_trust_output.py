"""Intervals where predictions are shown and kept: Parquet, tables, JSON, the page of an explanation."""

import json
import re

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from cli_run import SHAPE, answer, json_answer, small_sweep
from fake_kernel import fake_job
from trust_tables import packaged

from dse import explain, load_gpu, rank, sweep
from dse.cli import main
from dse.read_run import read_run
from dse.store import read_provenance
from dse.sweep import run_sweep
from dse.trust import SINGLE_SCHEDULE, TrustLabel

GOOD = "tile=128x256x64 stages=4 warps=8 cluster=2x1 raster=along_m:8 launch=persistent"
COLUMNS = ["latency_low_s", "latency_high_s"]


@pytest.fixture(autouse=True)
def residuals(tmp_path, monkeypatch):
    return packaged(tmp_path, monkeypatch)


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """One sweep with every row kept, and one of a GPU that was never measured."""
    with pytest.MonkeyPatch.context() as patch:
        base = tmp_path_factory.mktemp("trust")
        packaged(base, patch)
        for gpu in ("h200_sxm", "l40s"):
            more = ("--keep", "all") if gpu == "h200_sxm" else ()
            words = [word.replace("stages=3,7", "stages=3") for word in small_sweep(base / gpu, "--gpu", gpu, *more)]
            assert main(words) == 0
        return base


def test_every_file_of_rows_has_the_interval_and_says_whose_it_is(kept):
    top = pd.read_parquet(kept / "h200_sxm/top.parquet")
    label = TrustLabel.from_dict(read_provenance(kept / "h200_sxm/top.parquet")["trust"])
    assert (label.validated_gpu, label.shape_class, label.extrapolates) == ("h200_sxm", "square", ())
    paths = sorted((kept / "h200_sxm").glob("*.parquet"))
    assert len(paths) >= 3
    for path in paths:
        rows = pd.read_parquet(path)
        low, high = label.interval(rows["latency_s"].to_numpy())
        np.testing.assert_allclose(rows["latency_low_s"], low, rtol=1e-6)
        np.testing.assert_allclose(rows["latency_high_s"], high, rtol=1e-6)
        assert read_provenance(path)["trust"]["validated_gpu"] == "h200_sxm"
        field = pq.read_schema(path).field("latency_low_s")
        assert (str(field.type), field.metadata[b"unit"]) == ("float", b"s")
        assert b"lower end of the interval" in field.metadata[b"description"]
    assert (top["latency_low_s"] < top["latency_s"]).all()
    made = read_provenance(kept / "l40s/top.parquet")["trust"]
    assert made["extrapolates"] == ["l40s was not measured: a100_sxm is the nearest that was"]
    assert made["validated_gpu"] == "a100_sxm"


def test_top_and_front_show_it(kept, capsys):
    code, out, _ = answer(capsys, "top", kept / "h200_sxm", "-n", "2")
    assert code == 0
    assert "90 % interval" in out.splitlines()[1]
    top = read_run(kept / "h200_sxm").top.iloc[0]
    assert f"{top['latency_low_s'] * 1e6:.2f} to {top['latency_high_s'] * 1e6:.2f}" in out
    assert out.splitlines()[-1] == "90 % intervals from residuals on h200_sxm, bf16; shape class square"
    for row in json_answer(capsys, "top", kept / "l40s", "-n", "2"):
        assert row["latency_low_s"] < row["latency_s"] < row["latency_high_s"]
        assert (row["validated_gpu"], row["shape_class"]) == ("a100_sxm", "square")
        assert row["extrapolates"] == "l40s was not measured: a100_sxm is the nearest that was"
    _, out, _ = answer(capsys, "front", kept / "l40s", "-n", "1")
    assert out.splitlines()[-1] == "extrapolates: l40s was not measured: a100_sxm is the nearest that was"
    front = json_answer(capsys, "front", kept / "l40s", "-n", "1")
    assert front["trust"]["validated_gpu"] == "a100_sxm"
    assert set(COLUMNS) <= set(front["front"][0])


def test_runs_from_before_have_no_interval_and_are_shown_without(kept, capsys):
    run = kept / "old"
    run.mkdir()
    for path in (kept / "l40s").iterdir():
        (run / path.name).write_bytes(path.read_bytes())
    summary = json.loads((run / "summary.json").read_text())
    del summary["provenance"]["trust"]
    (run / "summary.json").write_text(json.dumps(summary))
    for command in ("top", "front"):
        code, out, _ = answer(capsys, command, run, "-n", "1")
        assert code == 0
        assert "interval" not in out


def test_an_explanation_has_one_line_and_its_warnings(kept, capsys):
    _, out, _ = answer(capsys, "explain", kept / "h200_sxm", "0")
    assert re.search(r"^trust     90 % interval [\d.]+ to [\d.]+ us: residuals of \d+ measured shapes ", out, re.M)
    assert SINGLE_SCHEDULE not in out  # the fastest of a space, as was validated
    run = read_run(kept / "h200_sxm")
    slower = int(np.flatnonzero(run.top["latency_s"] > run.top["latency_s"].min())[0])
    assert SINGLE_SCHEDULE in answer(capsys, "explain", kept / "h200_sxm", str(slower))[1]
    words = ["explain", "--shape", SHAPE, "--schedule", GOOD, "--set", "l2_capacity=2x"]
    _, out, _ = answer(capsys, *words)
    assert "\n          extrapolates: h200_sxm was validated with other numbers, more than 10% off: " in out
    assert f"\n          {SINGLE_SCHEDULE}\n" in out
    found = json_answer(capsys, *words)
    low, high = found["interval_s"]
    assert low < found["latency_s"] < high
    assert found["trust"]["extrapolates"][0].endswith("l2_capacity_bytes is 2 x")
    assert found["tuned"] is False


def test_a_schedule_that_cannot_run_has_no_interval():
    found = explain("tile=256x256x128 stages=8 warps=8", shape=SHAPE)
    assert not found.feasible
    assert found.interval_s is None
    assert found.to_dict()["interval_s"] is None
    assert "interval" not in str(found)


def test_candidates_have_one_each(tmp_path, capsys):
    configs = [{"BLOCK_M": side, "BLOCK_N": 128, "BLOCK_K": 64, "num_warps": 8, "num_stages": 3} for side in (64, 128)]
    configs.append(configs[0] | {"BLOCK_M": 256, "BLOCK_N": 256, "num_stages": 8})
    ranked = rank(configs, shape=SHAPE, gpu="h100_sxm")
    fits = ranked[ranked["feasible"]]
    assert len(fits) == 2
    assert (fits["latency_low_s"] < fits["latency_s"]).all()
    assert (fits["latency_high_s"] > fits["latency_s"]).all()
    assert ranked.loc[~ranked["feasible"], COLUMNS].isna().all(axis=None)
    assert set(ranked["validated_gpu"]) == {"h100_sxm"}
    path = tmp_path / "configs.json"
    path.write_text(json.dumps(configs))
    _, out, _ = answer(capsys, "rank", path, "--shape", SHAPE, "--gpu", "l40s")
    assert "90 % interval" in out
    assert out.rstrip().splitlines()[-2:] == [
        "extrapolates: l40s was not measured: a100_sxm is the nearest that was",
        SINGLE_SCHEDULE,
    ]
    rows = json_answer(capsys, "rank", path, "--shape", SHAPE, "--gpu", "l40s")["candidates"]
    assert rows[0]["extrapolates"] == "l40s was not measured: a100_sxm is the nearest that was"


def test_a_sweep_of_several_shapes_sums_up_with_intervals(tmp_path, capsys):
    shapes = tmp_path / "shapes.csv"
    shapes.write_text("m,n,k,name\n512,512,512,near\n512,512,200000,far\n")
    words = ["sweep", "gemm", "--shapes", shapes, *small_sweep(tmp_path / "runs")[4:]]
    code, out, _ = answer(capsys, *words)
    assert code == 0
    assert "interval us" in out.splitlines()[0]
    assert "extrapolates (far): k = 200000 is outside of what was measured on h200_sxm, 128 to 16384" in out
    summary = pd.read_csv(tmp_path / "runs/summary.csv")
    assert (summary["latency_low_s"] < summary["latency_s"]).all()
    assert summary["extrapolates"].isna().tolist() == [True, False]


def test_results_of_the_python_face_carry_it():
    result = sweep(shape=SHAPE, preset="quick", axes={"tile_m": [128], "tile_n": [128], "tile_k": ["128B"]}, top=2)
    assert result.trust is not None
    low, high = result.trust.interval(result.top["latency_s"].to_numpy())
    np.testing.assert_allclose(result.top["latency_low_s"], low, rtol=1e-6)
    np.testing.assert_allclose(
        result.front["latency_high_s"], result.trust.interval(result.front["latency_s"])[1], rtol=1e-6
    )
    assert (high > low).all()


def test_other_kernels_and_missing_residuals_have_none(residuals, tmp_path):
    fake = run_sweep(fake_job(chunk_lanes=1024), out=tmp_path / "fake")
    assert fake.trust is None
    assert not set(COLUMNS) & set(fake.top)
    residuals.write_text(residuals.read_text().replace('"validated": [', '"validated": [], "was": ['))
    assert explain(GOOD, shape=SHAPE, gpu=load_gpu("h100_sxm")).trust is None
