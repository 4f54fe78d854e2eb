"""`dse sensitivity`: of runs, typed and tuned schedules, shape lists and fronts; tables, figures, files, errors."""

import csv
import json

import numpy as np
import pyarrow.parquet as pq
import pytest
from cli_run import SHAPE, answer, json_answer, small_sweep

from dse.api import ask, make_job
from dse.cli import main
from dse.runs import open_run
from dse.studies.cases import case_of_run, cases_of_front, tuned_cases
from dse.studies.sensitivity.elasticities import central
from dse.studies.sensitivity.gpu_numbers import moved
from dse.studies.sensitivity.precise_costs import latency_slopes, make_rows
from dse.studies.sensitivity.sensitivity import sensitivity

FEW = ["--preset", "quick", "--axis", "tile_m=128", "--axis", "tile_k=64B", "--axis", "stages=3,4", "--quiet"]
TYPED = ["--shape", SHAPE, "--schedule", "tile=128x128x64 stages=4 warps=8 launch=persistent"]


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "small"
    assert main(small_sweep(folder)) == 0
    return folder


def test_a_runs_best_as_a_table(run_folder, capsys):
    code, out, _ = answer(capsys, "sensitivity", run_folder, "0")
    assert code == 0
    assert "on h200_sxm, wgmma" in out
    assert "the fastest of its space" in out
    assert "clock_hz" in out
    assert "until what binds changes" in out
    found = json_answer(capsys, "sensitivity", run_folder)["cases"][0]
    top = open_run(run_folder).top.iloc[0]
    assert found["latency_s"] == pytest.approx(top["latency_s"], rel=1e-4)
    assert found["tuned"] is True


def test_the_table_is_sorted_and_shows_what_matters(capsys):
    found = json_answer(capsys, "sensitivity", *TYPED)["cases"][0]
    sizes = [row["size"] for row in found["table"]]
    assert sizes == sorted(sizes, reverse=True)
    _, short, _ = answer(capsys, "sensitivity", *TYPED)
    _, whole, _ = answer(capsys, "sensitivity", *TYPED, "--all")
    assert "host_launch_overhead_s" not in short
    assert "more matter less than 0.0005 (--all)" in short
    assert all(row["number"] in whole for row in found["table"])


def test_without_a_schedule_the_fastest_of_the_space_is_meant(capsys):
    found = json_answer(capsys, "sensitivity", "--shape", SHAPE, *FEW)["cases"][0]
    job = make_job(ask(SHAPE), None, "quick", ["tile_m=128", "tile_k=64B", "stages=3,4"])
    best = tuned_cases([("", 1.0, job)])[0]
    assert sensitivity([best]).found[0].latency_s == found["latency_s"]
    assert found["tuned"] is True


def test_of_a_shape_list_the_whole_is_the_elasticity_of_the_weighted_total_time(tmp_path, capsys):
    shapes = tmp_path / "shapes.csv"
    shapes.write_text("name,m,n,k,count\nbig,4096,4096,4096,1\nsmall,512,1024,2048,40\n")
    found = json_answer(capsys, "sensitivity", "--shapes", shapes, *TYPED[2:])
    assert [case["case"] for case in found["cases"]] == ["big", "small"]
    weights = np.array([1.0, 40.0])
    rows = make_rows(
        [ask("4096x4096x4096").problem, ask("512x1024x2048").problem],
        [_fields(case["schedule"]) for case in found["cases"]],
        [ask(SHAPE).bound] * 2,
    )
    now = latency_slopes(rows)["latency_s"] @ weights
    for row in found["whole"]:
        if row["kind"] != "smooth":
            continue
        names = np.full(2, row["number"], object)
        up, down = (
            latency_slopes(moved(rows, names, getattr(rows.gpu, row["number"]) * f))["latency_s"] @ weights
            for f in (1 + 1e-6, 1 - 1e-6)
        )
        assert row["elasticity"] == pytest.approx(np.log(up / down) / 2e-6, abs=1e-4), row["number"]
        if row["change_plus_10"] is not None and row["unit"] != "ways":
            more = latency_slopes(moved(rows, names, getattr(rows.gpu, row["number"]) * 1.1))["latency_s"] @ weights
            assert row["change_plus_10"] == pytest.approx(more / now - 1.0, abs=1e-6)
    assert sum(case["share"] for case in found["cases"]) == pytest.approx(1.0)


def test_a_shape_list_may_mix_types(tmp_path, capsys):
    """fp8 has a quantisation kernel's numbers and scales, bf16 has not: off for one is no effect, not no answer."""
    shapes = tmp_path / "shapes.csv"
    shapes.write_text("name,m,n,k,dtype\nwide,2048,2048,2048,bf16\nnarrow,2048,2048,2048,fp8\n")
    code, out, err = answer(capsys, "sensitivity", "--shapes", shapes, *TYPED[2:])
    assert code == 0, err
    assert "narrow" in out
    found = json_answer(capsys, "sensitivity", "--shapes", shapes, *TYPED[2:])
    clock = next(row for row in found["whole"] if row["number"] == "clock_hz")
    assert clock["kind"] == "smooth"
    quantise = next(row for row in found["whole"] if row["number"] == "quantise_launch_s")
    assert quantise["kind"] in ("smooth", "zero")


def test_of_a_front_the_whole_is_the_mean_of_its_schedules(run_folder, capsys):
    opened = open_run(run_folder)
    cases = cases_of_front(opened)
    found = sensitivity(cases, mean=True, bottlenecks=False)
    assert len(found.found) == len(opened.front)
    np.testing.assert_allclose(found.shares, 1.0 / len(cases))
    each = [entry.of("clock_hz") for entry in found.found]
    row = found.whole.set_index("number").loc["clock_hz"]
    assert central(found.whole[found.whole["number"] == "clock_hz"]).iloc[0] == pytest.approx(np.mean(each))
    assert (row["least"], row["most"]) == (min(each), max(each))
    code, out, _ = answer(capsys, "sensitivity", run_folder, "--front")
    assert code == 0
    assert "the front of GEMM" in out
    assert "front 0" in out


def test_what_10_percent_buys_re_tuned_is_at_least_what_it_buys_frozen(run_folder):
    case = case_of_run(open_run(run_folder))
    table = sensitivity([case], bottlenecks=False, retune=True).found[0].table
    both = table.dropna(subset=["buys_10", "retuned_buys_10"])
    assert len(both) > 30
    assert (both["retuned_buys_10"] >= both["buys_10"] - 1e-5).all()
    clock = both.set_index("number").loc["clock_hz"]
    assert clock["retuned_buys_10"] == pytest.approx(clock["buys_10"], rel=0.3)
    assert clock["retuned_buys_10"] > 0.01


def test_re_tuning_equals_brute_force(run_folder):
    case = case_of_run(open_run(run_folder))
    job = case.job
    table = sensitivity([case], bottlenecks=False, retune=True).found[0].table.set_index("number")
    count = job.space.size
    columns = job.space.rows(list(range(count)))
    plans = [{name: int(columns[name][place]) for name in case.schedule} for place in range(count)]
    rows = make_rows([job.problem] * count, plans, [job.gpu] * count)

    def best_s(changed) -> float:
        found = latency_slopes(changed)
        return found["latency_s"][found["reason"] == 0].min()

    for name, factor in (("l2_bytes_per_s", 1.1), ("launch_overhead_s", 0.9), ("sm_count", 145 / 132)):
        better = moved(rows, np.full(count, name, object), getattr(rows.gpu, name) * factor)
        assert table.loc[name, "retuned_buys_10"] == pytest.approx(1 - best_s(better) / best_s(rows), abs=1e-5), name


def test_files_and_figure(tmp_path, capsys):
    for ending in ("parquet", "csv"):
        code, out, err = answer(capsys, "sensitivity", *TYPED, "-o", tmp_path / f"s.{ending}")
        assert code == 0, err
        assert f"written to {tmp_path / f's.{ending}'}" in out
    found = pq.read_table(tmp_path / "s.parquet")
    rows = list(csv.DictReader((tmp_path / "s.csv").open()))
    assert found.num_rows == len(rows) > 40
    assert found.schema.field("elasticity").metadata[b"description"].startswith(b"d log latency")
    made = json.loads(found.schema.metadata[b"tilesweep"])
    assert made["kind"] == "sensitivity"
    assert "dse sensitivity" in made["command_line"]
    figures = [tmp_path / "a.svg", tmp_path / "b.svg"]
    for figure in figures:
        assert answer(capsys, "sensitivity", *TYPED, "--figure", figure)[0] == 0
    first, second = (figure.read_bytes() for figure in figures)
    assert first == second
    assert b"clock_hz" in first
    assert b"10 % more of it" in first


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "give a RUN folder, or --shape MxNxK, or many as --shapes NAME or FILE.csv"),
        (["--shape", SHAPE, "--shapes", "llama3_70b_prefill"], "give a RUN folder, or --shape MxNxK, or many as"),
        (["--shape", SHAPE, "--front"], "--front is of a run: give the folder that dse sweep wrote"),
        (["RUN", "--schedule", "tile=1x1x1 stages=1"], "so --schedule cannot be given with it"),
        (["RUN", "--gpu", "b200_sxm", "--preset", "quick"], "so --gpu, --preset cannot be given with it"),
        (["RUN", "0", "--front"], "give a RANK, or --front for every schedule of the front, not both"),
        (["RUN", "99"], "rank 99 is not there: the table has the rows 0 to 11"),
        ([*TYPED, "-o", "s.xlsx"], "a table ends in .parquet or .csv, not '.xlsx': s.xlsx"),
        ([*TYPED, "-o", "nowhere/s.csv"], "for the table; make it first"),
        ([*TYPED, "--figure", "s.bmp"], "a figure ends in .png, .svg, .pdf, not '.bmp'"),
        (["--shape", SHAPE, "--schedule", "tile=256x256x128 stages=9 warps=8"], "SMEM: needs"),
    ],
)
def test_errors_name_the_thing_and_the_fix(run_folder, capsys, words, said):
    code, _, err = answer(capsys, "sensitivity", *(run_folder if word == "RUN" else word for word in words))
    assert code == 2
    assert said in err


def _fields(words: str) -> dict[str, int]:
    from dse.schedule_text import parse_schedule

    return parse_schedule(words, "wgmma")
