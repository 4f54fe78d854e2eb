"""docs/accuracy.md as the script writes it: every section from the validation, and a check of what it was made from."""

import re
from dataclasses import replace

import accuracy_schedules
import make_accuracy_page
import numpy as np
import pandas as pd
import pytest
from accuracy_text import Validation, markdown_table
from measured_tables import measured_table, predicted_best

from dse.content import load_gpu
from dse.validation.coverage import coverage, with_intervals
from dse.validation.residual_table import build_residuals, with_residuals
from dse.validation.validate import errors, validate_gemm


@pytest.fixture
def validation(tmp_path, monkeypatch):
    monkeypatch.setattr("dse.validation.validate.best_schedules", predicted_best)
    monkeypatch.setattr("dse.validation.nvmatmul.is_installed", lambda: False)
    path = tmp_path / "measured.csv"
    measured_table(("h100_sxm", "h200_sxm"), pairs=24).to_csv(path, index=False)
    return Validation("check", "library", validate_gemm(table=path), "figures/accuracy.png")


def _numbers_of(page: str, heading: str) -> str:
    return page.split(f"## {heading}")[1].split("\n## ")[0]


def test_the_page_says_what_the_validation_found(validation, monkeypatch, tmp_path):
    monkeypatch.setattr(accuracy_schedules, "TABLES", tmp_path / "none")
    page = make_accuracy_page.page(validation, {"model": "abc"}, "python scripts/make_accuracy_page.py")
    headings = re.findall(r"^## (.*)", page, re.M)
    assert headings == [
        "By measured latency",
        "By shape class",
        "Against the spread between sources",
        "Where it fails",
        "Deep K",
        "The speed-up from h100_sxm to h200_sxm",
        "Ranking of single schedules",
        "What is not modelled",
        "How this page was made",
    ]
    model = validation.results[0].model
    low, high = model.interval["mape"]
    assert f"| h100_sxm | {model.count} | {model.mape:.1f} [{low:.1f}, {high:.1f}] |" in page
    mean = sum(result.model.mape for result in validation.results) / 2
    assert f"mean absolute error **{mean:.1f} %**" in page
    deep = validation.rows[validation.rows["shape_class"] == "deep-K"]
    error = 100 * (deep["model_us"] / deep["latency_us"] - 1).abs().mean()
    assert f"| all rows | {len(deep)} | {error:.1f} " in _numbers_of(page, "Deep K")
    assert "(what-the-model-does-not-model.md)" in _numbers_of(page, "What is not modelled")
    assert "![Predicted over measured latency](figures/accuracy.png)" in page
    for table in re.findall(r"(?:^\|.*\n)+", page, re.M):
        assert len({line.count("|") for line in table.splitlines()}) == 1, table


def test_sections_of_other_studies_appear_with_their_results(validation):
    shown = replace(validation, zero_shot=validation.results[1:], low_precision=validation.results[:1])
    page = make_accuracy_page.page(shown, {}, "")
    assert "| h200_sxm | `h200_sxm` |" in _numbers_of(page, "Without a fit on the GPU in question")
    assert "| h100_sxm | bf16 |" in _numbers_of(page, "Low precision")
    picked = replace(
        validation.results[0],
        rows=validation.results[0].rows.assign(nvmatmul_us=2 * validation.results[0].rows["latency_us"]),
        errors=dict(validation.results[0].errors) | {"nvmatmul": errors(np.array([2.0, 2.0]), np.array([1.0, 1.0]))},
        same_tile=0.25,
    )
    beside = _numbers_of(make_accuracy_page.page(replace(validation, results=[picked]), {}, ""), "Beside nvMatmul")
    assert re.search(r"\| h100_sxm \| 48 \| 100.0 \| \+100.0 \| 100.0 \| 0.0 \| .* \| 25 % \|", beside)
    alone = replace(validation, results=validation.results[:1])
    assert "speed-up" not in make_accuracy_page.page(alone, {}, "")


def test_intervals_are_held_against_the_part_that_is_judged(validation):
    gpus = {name: load_gpu(name) for name in ("h100_sxm", "h200_sxm")}
    rows = with_residuals(validation.rows)
    table = build_residuals(rows, rows, gpus, {"parts": ["check"]})
    assert "Intervals" not in make_accuracy_page.page(validation, {}, "")
    shown = replace(validation, residuals=table)
    text = _numbers_of(make_accuracy_page.page(shown, {}, ""), "Intervals")
    assert "held against the part check (one of these: not a test)" in text
    (every,) = coverage(with_intervals(table, rows))
    assert f"| all | {len(rows)} | {every.pairs} | {100 * every.covered:.1f} " in text
    assert "| h200_sxm | 48 |" in text
    assert "GPUs left out" not in text
    three = pd.concat([rows, rows.assign(system="a100_sxm")])
    third = build_residuals(three, three, gpus | {"a100_sxm": load_gpu("a100_sxm")}, {"parts": ["fit"]})
    left = replace(shown, zero_shot=validation.results, zero_shot_files=gpus, residuals=third)
    text = _numbers_of(make_accuracy_page.page(left, {}, ""), "Intervals")
    assert "held against the part check. Latency" in text
    assert text.split("GPUs left out")[1].count("| h100_sxm | 48 |") == 1


def test_the_script_writes_page_and_figure_and_sees_when_they_are_out_of_date(
    validation, tmp_path, monkeypatch, capsys
):
    path = tmp_path / "docs" / "accuracy.md"
    path.parent.mkdir()
    monkeypatch.setattr(make_accuracy_page, "_validate", lambda arguments: validation)
    assert make_accuracy_page.main(["--out", str(path), "--check"]) == 1
    assert "is missing or says nothing of what it was made from" in capsys.readouterr().out
    assert make_accuracy_page.main(["--out", str(path)]) == 0
    assert (path.parent / "figures/accuracy.png").read_bytes().startswith(b"\x89PNG")
    assert f"python scripts/make_accuracy_page.py --out {path}" in path.read_text()
    assert make_accuracy_page.main(["--out", str(path), "--check"]) == 0
    monkeypatch.setattr(make_accuracy_page, "model_hash", lambda: "another")
    assert make_accuracy_page.main(["--out", str(path), "--check"]) == 1
    assert "changed since: model" in capsys.readouterr().out


def test_a_zero_shot_gpu_needs_a_file(capsys):
    assert make_accuracy_page.main(["--zero-shot", "h200_sxm"]) == 2
    assert "--zero-shot h200_sxm names no file; write h200_sxm=FILE" in capsys.readouterr().err


def test_a_markdown_table_has_a_head_and_a_rule():
    assert markdown_table([{"a": "1", "b": "2"}]) == "| a | b |\n| --- | --- |\n| 1 | 2 |"
