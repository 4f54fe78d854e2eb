"""The natural experiment: predicted against measured speed-ups on tables whose answer is known."""

import numpy as np
import pandas as pd
import pytest
from cli_run import answer, json_answer
from measured_tables import latency_s, measured_table, predicted_best

from dse.errors import UserError
from dse.validation.speedup import speedup_gemm, speedups


def _rows(measured: dict[str, list[float]], predicted: dict[str, list[float]]) -> pd.DataFrame:
    frames = [
        pd.DataFrame(
            {
                "system": system,
                "dtype": "bf16",
                "m": [1, 2, 3, 4],
                "n": [8, 8, 16, 16],
                "k": 8,
                "latency_us": measured[system],
                "model_us": predicted[system],
                "roofline_us": 1.0,
                "latency_bucket": "<10",
                "shape_class": "decode",
            }
        )
        for system in measured
    ]
    return pd.concat(frames, ignore_index=True)


def test_ratios_are_compared_row_by_row():
    measured = {"old": [2.0, 3.0, 4.0, 6.0], "new": [1.0, 2.0, 2.0, 2.0]}
    predicted = {"old": [2.0, 3.0, 4.4, 6.0], "new": [1.0, 1.5, 2.0, 2.0]}
    found = speedups(_rows(measured, predicted), "old", "new")
    assert found.rows["measured"].tolist() == [2.0, 1.5, 2.0, 3.0]
    assert found.measured_median == 2.0
    assert found.errors["model"].mape == pytest.approx((0 + 100 / 3 + 10 + 0) / 4)
    assert found.errors["constant"].mape == pytest.approx((0 + 100 / 3 + 0 + 100 / 3) / 4)
    assert found.errors["roofline"].mape == pytest.approx((50 + 100 / 3 + 50 + 200 / 3) / 4)
    ranks = np.corrcoef([1.5, 1.5, 3, 4], [2.5, 1, 2.5, 4])[0, 1]  # of predicted 2, 2, 2.2, 3 and of measured
    assert found.spearman["model"] == pytest.approx(ranks)
    assert np.isnan(found.spearman["roofline"])
    assert found.errors["model"].pairs == 2


def test_only_shapes_of_both_gpus_count():
    rows = _rows({"old": [2.0, 3.0, 4.0, 6.0], "new": [1.0] * 4}, {"old": [2.0] * 4, "new": [1.0] * 4})
    assert speedups(rows.drop(index=[0, 5]), "old", "new").errors["model"].count == 2
    with pytest.raises(UserError, match="no shape was measured on both old and newer; give a --table that has both"):
        speedups(rows, "old", "newer")


@pytest.fixture
def table(tmp_path, monkeypatch):
    monkeypatch.setattr("dse.validation.validate.best_schedules", predicted_best)
    monkeypatch.setattr("dse.validation.nvmatmul.is_installed", lambda: False)
    rows = measured_table()
    rows = rows.drop(index=rows[(rows["system"] == "h100_sxm") & (rows["m"] == 64)].index)
    path = tmp_path / "measured.parquet"
    rows.to_parquet(path)
    return path


def test_a_table_gives_the_speedup_that_was_put_in(table):
    found = speedup_gemm("h100_sxm", "h200_sxm", table)
    assert set(found.rows["m"]) == {1, 1024, 4096}  # of m = 64 the table has only one side
    shape = found.rows[["m", "n", "k"]].to_numpy(float).T
    assert found.rows["model"].to_numpy() == pytest.approx(
        latency_s("h100_sxm", *shape) / latency_s("h200_sxm", *shape)
    )
    assert found.errors["model"].mape < found.errors["constant"].mape
    assert found.spearman["model"] > 0.6
    few = speedup_gemm("h100_sxm", "h200_sxm", table, shapes=5)
    assert few.errors["model"].count == 5


def test_no_common_shape_is_said(tmp_path, table):
    rows = pd.read_parquet(table)
    apart = rows[(rows["system"] == "h100_sxm") == (rows["m"] == 1)]
    apart.to_csv(tmp_path / "apart.csv", index=False)
    with pytest.raises(UserError, match="no shape that was measured on all of h100_sxm, h200_sxm"):
        speedup_gemm("h100_sxm", "h200_sxm", tmp_path / "apart.csv")
    pd.concat([rows.assign(source="one"), rows.assign(source="two")]).to_csv(tmp_path / "twice.csv", index=False)
    with pytest.raises(UserError, match=r"several rows of one shape on one GPU.*choose one with --source"):
        speedup_gemm("h100_sxm", "h200_sxm", tmp_path / "twice.csv")
    assert speedup_gemm("h100_sxm", "h200_sxm", tmp_path / "twice.csv", source="two").errors["model"].count == 18


def test_the_command_says_the_answer_first(table, tmp_path, capsys):
    words = ("validate", "gemm", "--speedup", "h100_sxm:h200_sxm", "--table", table)
    code, out, err = answer(capsys, *words, "--out", tmp_path / "ratios.csv")
    assert code == 0, err
    assert out.startswith("speed-up h100_sxm -> h200_sxm, 18 shapes of 6 (n, k) pairs, part `check`")
    assert [line.split()[0] for line in out.splitlines()[3:6]] == ["tilesweep", "roofline", "the"]
    assert len(pd.read_csv(tmp_path / "ratios.csv")) == 18
    found = json_answer(capsys, *words)["speedup"]
    assert set(found) == {"base", "other", "measured_median", "measured_range", "errors", "spearman"}
    assert found["errors"]["model"]["count"] == 18
