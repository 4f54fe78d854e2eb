"""The scripts that make the packaged residuals and check their coverage, on a small table and without the model."""

import json

import check_intervals
import make_residuals
import pytest
from measured_tables import measured_table, predicted_best

from dse.trust.residuals import read_residuals
from dse.validation.coverage import coverage

GPUS = ("a100_sxm", "h100_sxm", "h200_sxm")
ZERO_SHOT = [word for name in GPUS for word in ("--zero-shot", f"{name}={name}")]


@pytest.fixture(autouse=True)
def small_table(tmp_path, monkeypatch):
    monkeypatch.setattr("dse.validation.validate.best_schedules", predicted_best)
    monkeypatch.setattr("dse.validation.nvmatmul.is_installed", lambda: False)
    monkeypatch.setattr(make_residuals, "gemm_tables", lambda: ["gemm_bf16"])
    path = tmp_path / "content/studies/measured/gemm_bf16.parquet"
    path.parent.mkdir(parents=True)
    rows = measured_table(GPUS, pairs=36)
    rows.loc[rows["n"] == 128, "part"] = "report"
    rows.to_parquet(path)
    monkeypatch.setenv("DSE_PATH", str(tmp_path / "content"))
    return path


def test_the_table_is_made_of_fit_and_check_and_knows_when_it_is_old(tmp_path, monkeypatch, capsys):
    out = tmp_path / "residuals.json"
    assert make_residuals.main(["--out", str(out), "--check"]) == 1
    assert "is missing: make it" in capsys.readouterr().out
    assert make_residuals.main(["--out", str(out), *ZERO_SHOT]) == 0
    table = read_residuals(out)
    assert table.gpus == GPUS
    assert table.made_from["parts"] == ["fit", "check"]
    assert table.made_from["command"].startswith("python scripts/make_residuals.py --out ")
    assert min(entry.ranges["n"][0] for entry in table.validated) > 128  # those are in report
    assert make_residuals.main(["--out", str(out), "--check"]) == 0
    assert "up to date" in capsys.readouterr().out
    monkeypatch.setattr(make_residuals, "model_hash", lambda: "another")
    assert make_residuals.main(["--out", str(out), "--check"]) == 1
    assert "changed since: model" in capsys.readouterr().out


def test_too_few_files_without_a_fit(capsys):
    assert make_residuals.main(ZERO_SHOT[:4]) == 2
    assert "--zero-shot GPU=FILE is needed for at least three GPUs, 2 were given" in capsys.readouterr().err
    assert check_intervals.main([*ZERO_SHOT, "--zero-shot", "b200_sxm"]) == 2
    assert "3 were given" in capsys.readouterr().err


def test_coverage_is_printed_and_held_against_its_bars(capsys, monkeypatch):
    monkeypatch.setattr(check_intervals, "SHAPES_BAR", (0.5, 1.0))
    assert check_intervals.main(ZERO_SHOT) == 0
    out = capsys.readouterr().out
    assert "shapes of check, intervals from fit alone: " in out
    assert "shapes of check in the half of the (n, k) that was left out, 8 deals together" in out
    assert "each class left out as a whole, shapes of fit and check" in out
    assert "each latency left out as a whole, shapes of fit and check" in out
    assert out.count("\nmet: h") == 2
    monkeypatch.setattr(check_intervals, "GPU_BAR", 1.01)
    assert check_intervals.main(ZERO_SHOT) == 1
    assert "MISSED: a100_sxm" in capsys.readouterr().out


def test_predicted_rows_may_be_kept(tmp_path, monkeypatch, capsys):
    kept = tmp_path / "rows.parquet"
    made = make_residuals.main(["--out", str(tmp_path / "a.json"), "--rows", str(kept), *ZERO_SHOT])
    assert made == 0
    assert "over the preset" in capsys.readouterr().out
    make_residuals.main(["--out", str(tmp_path / "b.json"), "--rows", str(kept), *ZERO_SHOT])
    assert "over the preset" not in capsys.readouterr().out
    one, other = (read_residuals(tmp_path / f"{name}.json") for name in "ab")
    assert one.validated == other.validated
    check_intervals.main(["--part", "report", "--rows", str(kept), *ZERO_SHOT])
    assert capsys.readouterr().out.count("over the preset") == 6  # only the part that was not there
    check_intervals.main(["--rows", str(kept), *ZERO_SHOT])
    out = capsys.readouterr().out
    assert "over the preset" not in out
    assert "shapes of check in the half" in out
    monkeypatch.setattr(make_residuals, "model_hash", lambda: "another")
    check_intervals.main(["--rows", str(kept), *ZERO_SHOT])
    assert "over the preset" in capsys.readouterr().out


def test_the_part_report_is_judged_by_the_two_others(capsys, monkeypatch):
    seen = []
    monkeypatch.setattr(check_intervals, "SHAPES_BAR", (0.5, 1.0))
    monkeypatch.setattr(check_intervals, "coverage", lambda rows, by=(): seen.append(rows) or coverage(rows, by))
    check_intervals.main([*ZERO_SHOT, "--part", "report"])
    assert "shapes of the part report, intervals from fit and check" in capsys.readouterr().out
    assert {part for rows in seen for part in rows["part"]} == {"report"}
    assert {n for rows in seen for n in rows["n"]} == {128}


def test_the_table_stays_small(tmp_path):
    out = tmp_path / "residuals.json"
    make_residuals.main(["--out", str(out), *ZERO_SHOT])
    assert len(out.read_bytes()) < 200_000
    assert set(json.loads(out.read_text())) == {
        "schema_version", "made_from", "probabilities", "validated", "unfitted",
    }  # fmt: skip
