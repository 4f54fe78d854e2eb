"""`dse validate grouped_gemm`: published rates of grouped GEMMs beside predictions."""

import math
from typing import Any

import pytest
from cli_run import answer, json_answer

import dse
from dse.best_schedule import best_schedules
from dse.content.files import find_content
from dse.content.gpu import load_gpu
from dse.content.space import load_space
from dse.content.toml import read_toml
from dse.validation.grouped_published import PublishedGrouped, problem_of, published

MAPE, WORST, BIAS = 0.11, 0.18, 0.06  # 9.1 %, 15.0 % and -3.3 % on 2026-11-30; a fifth more for refits of the GPU
UNCLUSTERED = {"cluster_m": 1, "cluster_n": 1}


@pytest.fixture(scope="module")
def rows() -> list[PublishedGrouped]:
    return published()


def test_times_follow_from_both_published_rates(rows: list[PublishedGrouped]) -> None:
    """FLOP over FLOP/s and bytes over bytes/s are one time, to the rounding of both: a mistyped figure is found."""
    assert len(rows) == 14
    for row in rows:
        moved = row.groups * (row.m * row.k + row.k * row.n + 2 * row.m * row.n)
        assert row.measured_s == pytest.approx(2 * row.groups * row.m * row.n * row.k / row.published_flop_per_s)
        rounding = 0.5e12 / row.published_flop_per_s + 0.5e9 / row.published_bytes_per_s
        assert moved / row.published_bytes_per_s == pytest.approx(row.measured_s, rel=1.1 * rounding), row


def test_groups_hold_the_published_rows(rows: list[PublishedGrouped]) -> None:
    for row in rows:
        problem = problem_of(row.groups, row.m, row.n, row.k, "fp8_block", "cold")
        assert problem.classes == ((row.m, row.groups),)
        assert problem.flop == 2.0 * row.groups * row.m * row.n * row.k


def test_predictions_are_as_near_as_the_page_says(rows: list[PublishedGrouped]) -> None:
    errors = [row.error for row in rows]
    assert all(math.isfinite(row.predicted_s) and row.predicted_s > 0 for row in rows)
    assert sum(map(abs, errors)) / len(errors) < MAPE
    assert abs(sum(errors)) / len(errors) < BIAS
    assert max(map(abs, errors)) < WORST
    assert all(row.launch_s == rows[0].launch_s > 0 for row in rows)
    assert all(row.error < row.error_with_launch for row in rows)


def test_one_group_is_a_gemm(rows: list[PublishedGrouped]) -> None:
    """The best schedule of a row of one group, as a GEMM without clusters, costs what the row says, to 1 %."""
    entry = read_toml(find_content("table", "studies/measured", "grouped_gemm"))["published"][-1]
    dtype, family, cache = entry["dtype"], entry["family"], entry["cache"]
    space = load_space("grouped_gemm", family, dtype, preset=entry["preset"])
    alone = [row for row in rows if row.groups == 1]
    assert len(alone) == 6
    problems: list[Any] = [problem_of(1, row.m, row.n, row.k, dtype, cache) for row in alone]
    found = best_schedules(problems, space, load_gpu(entry["gpu"]))
    for row, place in zip(alone, found.index, strict=True):
        fields = {name: value for name, value in space.schedule(int(place)).items() if name != "producers"}
        asked = {"shape": f"{row.m}x{row.n}x{row.k}", "dtype": dtype, "gpu": entry["gpu"], "cache": cache}
        dense = dse.explain(fields | UNCLUSTERED, family=family, kernel="gemm", **asked)
        assert row.predicted_s + row.launch_s == pytest.approx(float(dense.cost["latency_s"]), rel=0.01)


def test_the_command_answers_as_tables_and_as_json(rows: list[PublishedGrouped], capsys) -> None:
    said = json_answer(capsys, "validate", "grouped_gemm")
    assert [entry["predicted_s"] for entry in said] == pytest.approx([row.predicted_s for row in rows])
    assert [entry["error"] for entry in said] == pytest.approx([row.error for row in rows])
    assert all(entry["source"] and "H800" in entry["note"] for entry in said)
    code, text, _ = answer(capsys, "validate", "grouped_gemm")
    assert code == 0
    assert {row.what for row in rows} <= {line.removesuffix(", on h100_sxm") for line in text.splitlines()}
    assert "all 14 rows: mean absolute error" in text
    assert text.count("deepseek-ai/DeepGEMM") == 1
