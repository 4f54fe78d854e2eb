"""`dse portfolio`: what it prints and writes, the rule as Python and C, a user's own candidates, errors."""

import json
import runpy
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from cli_run import answer, json_answer

from dse.kernels.gemm import gemm_problem
from dse.schedule_text import parse_schedule
from dse.studies.portfolio.decision_tree import Leaf, Split
from dse.studies.portfolio.dispatch import Dispatch, Loss, Rule, between_shapes, features_of
from dse.studies.portfolio.figure import knee
from dse.studies.portfolio.rule_text import c_source, python_source, rule_text

LIST = "name,m,n,k,count\nlarge,4096,4096,4096,3\nskinny,16,8192,4096,80\nmiddle,512,4096,2048,8\nodd,300,3008,1024,1\n"
SPACE = ["--preset", "quick", "--axis", "launch=data_parallel:staged,split_k:4:staged", "--axis", "stages=4"]
SPACE += ["--axis", "tile_n=32,64,128,256", "--axis", "cluster=1x1"]
TREE = Split("m", 64, Leaf(0, (0, 1)), Split("m * n", 10**6, Leaf(1, (2,)), Leaf(0, (3,))))


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch) -> None:
    """Answers go to runs/ of the folder that the command runs in."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def shapes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("lists") / "mine.csv"
    path.write_text(LIST)
    return path


@pytest.fixture(scope="module")
def written(shapes: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder of a portfolio, and what the command printed."""
    from contextlib import redirect_stdout
    from io import StringIO

    from dse.cli import main

    folder = tmp_path_factory.mktemp("portfolio") / "out"
    words = ["portfolio", "--shapes", str(shapes), *SPACE, "--kernels", "2", "--between", "--out", str(folder)]
    with redirect_stdout(StringIO()) as text:
        assert main([*words, "--figure", str(folder.parent / "regret.svg"), "--quiet"]) == 0
    return folder, text.getvalue()


def test_the_answer_says_what_was_chosen_and_how_good_it_is(written: tuple[Path, str]) -> None:
    text = written[1]
    assert text.startswith("4 GEMM shapes, bf16 -> bf16, fp32 accumulation, layout tn, on NVIDIA H200 SXM5 141 GB")
    assert "schedules that can run, " in text
    assert " compiled kernels\n\n2 kernels: mean regret " in text
    assert "proven: no 2 have a smaller mean regret" in text
    assert "the rule:\n  if m" in text
    assert "rule, with those of its leaves:" in text
    assert "portfolio there, each with its best:" not in text  # no two shapes differ in m alone
    assert "dispatch.csv, rule.py, rule.h, rule.txt, summary.json" in text


def test_the_table_is_what_the_kernels_do(written: tuple[Path, str]) -> None:
    folder, _ = written
    rows = pd.read_csv(folder / "dispatch.csv")
    kernels = pq.read_table(folder / "portfolio.parquet")
    summary = json.loads((folder / "summary.json").read_text())
    assert list(rows["name"]) == ["large", "skinny", "middle", "odd"]
    np.testing.assert_allclose(rows["weight"], np.array([3, 80, 8, 1]) / 92)
    np.testing.assert_allclose(rows["regret"], rows["latency_s"] / rows["best_s"] - 1, atol=1e-6)
    assert (rows["regret"] >= 0).all()
    assert float((rows["weight"] * rows["regret"]).sum()) == pytest.approx(summary["mean_regret"], abs=1e-6)
    assert set(rows["kernel"]) == set(kernels["kernel"].to_pylist())
    assert sum(kernels["shapes"].to_pylist()) == 4
    assert kernels.schema.field("weight").metadata[b"unit"] == b"1"
    assert summary["provenance"]["command_line"].startswith("dse portfolio --shapes")
    values = [point["mean"] for point in summary["curve"]]
    assert values == sorted(values, reverse=True)


def test_every_latency_is_that_of_its_schedule(written: tuple[Path, str], capsys) -> None:
    folder, _ = written
    for row in pd.read_csv(folder / "dispatch.csv").to_dict("records")[:2]:
        shape = f"{row['m']}x{row['n']}x{row['k']}"
        explained = json_answer(capsys, "explain", "--shape", shape, "--schedule", row["schedule"])
        assert explained["cost"]["latency_s"] == pytest.approx(row["latency_s"], rel=1e-5)


def test_rank_reads_the_portfolio(written: tuple[Path, str], capsys) -> None:
    folder, _ = written
    rows = pd.read_csv(folder / "dispatch.csv")
    ranked = json_answer(capsys, "rank", str(folder / "portfolio.json"), "--shape", "16x8192x4096")["candidates"]
    wanted = {tuple(parse_schedule(text, "wgmma").items()) for text in rows["schedule"]}
    assert len(ranked) == len(wanted)
    assert ranked[0]["latency_s"] == pytest.approx(rows.set_index("name").loc["skinny", "latency_s"], rel=1e-5)


def test_the_rule_that_is_imported_is_the_rule_that_is_stated(written: tuple[Path, str]) -> None:
    folder, _ = written
    rule = runpy.run_path(str(folder / "rule.py"))
    summary = json.loads((folder / "summary.json").read_text())
    lost = 0.0
    for row in summary["dispatch"]:
        sizes = (row["m"], row["n"], row["k"])
        assert rule["DISPATCH"][(*sizes, 1)] == (row["kernel"], row["schedule"]) == rule["schedule"](*sizes)
        at = summary["rule"]
        while "feature" in at:
            value = {"m": row["m"], "n": row["n"], "k": row["k"], "m * n": row["m"] * row["n"]}[at["feature"]]
            at = at["low"] if value <= at["threshold"] else at["high"]
        assert rule["choose"](*sizes) == at["kernel"]
        assert at["kernel"] in rule["KERNELS"]
        if at["kernel"] == row["kernel"]:
            lost += row["weight"] * row["regret"]
    assert summary["rule_regret"]["listed"]["mean"] >= summary["mean_regret"] - 1e-9
    assert summary["rule_regret"]["listed"]["mean"] >= lost - 1e-6
    assert summary["rule_regret"]["fixed"]["mean"] >= summary["rule_regret"]["listed"]["mean"] - 1e-6


def test_a_folder_is_not_replaced_unasked(written: tuple[Path, str], shapes: Path, capsys) -> None:
    words = ["portfolio", "--shapes", str(shapes), *SPACE, "--out", str(written[0])]
    code, _, err = answer(capsys, *words)
    assert code == 2
    assert "is not empty (dispatch.csv, portfolio.json, portfolio.parquet): " in err
    assert "or replace it with --overwrite" in err


def test_a_users_candidates_are_chosen_from(shapes: Path, tmp_path: Path, capsys) -> None:
    configs = tmp_path / "mine.json"
    words = ["tile=128x128x64 stages=4", "tile=64x32x64 stages=4", "tile=64x32x64 stages=4 raster=along_n:8"]
    configs.write_text(json.dumps([dict(pair.split("=") for pair in text.split()) for text in words]))
    found = json_answer(capsys, "portfolio", "--shapes", str(shapes), "--configs", str(configs), "--kernels", "2")
    assert found["counted"] == "schedules"
    assert found["candidates"] == found["schedules"] == 3
    assert {row["kernel"] for row in found["dispatch"]} <= {"entry 0", "entry 1", "entry 2"}
    ranked = json_answer(capsys, "rank", str(configs), "--shape", "4096x4096x4096")["candidates"]
    assert found["dispatch"][0]["best_s"] == pytest.approx(ranked[0]["latency_s"], rel=1e-5)
    kernels = json_answer(
        capsys, "portfolio", "--shapes", str(shapes), "--configs", str(configs), "--count", "kernels", "--kernels", "9"
    )
    assert kernels["candidates"] == 2


def test_weighed_by_time_the_mean_regret_is_that_of_the_total(shapes: Path, tmp_path: Path, capsys) -> None:
    configs = tmp_path / "mine.csv"
    configs.write_text("tile,stages\n128x128x64,4\n64x32x64,4\n256x128x64,3\n")
    words = ["portfolio", "--shapes", str(shapes), "--configs", str(configs), "--kernels", "1"]
    counts = np.array([3, 80, 8, 1])

    def of_total(found: dict) -> float:
        seconds = np.array([[row["latency_s"], row["best_s"]] for row in found["dispatch"]])
        return float(np.divide(*(counts @ seconds))) - 1

    by_time, by_count = json_answer(capsys, *words, "--weigh", "time"), json_answer(capsys, *words)
    assert by_time["mean_regret"] == pytest.approx(of_total(by_time), abs=1e-5)
    assert of_total(by_time) <= of_total(by_count) + 1e-6
    equal = json_answer(capsys, *words, "--weigh", "equal")
    assert equal["mean_regret"] == pytest.approx(np.mean([row["regret"] for row in equal["dispatch"]]), abs=1e-5)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--kernels", "2", "--within", "1%"], "--kernels and --within both say how many kernels: give one"),
        (["--within", "little"], "--within little is not a share: write e.g. 1% or 0.01"),
        (["--within", "-1%"], "--within -0.01 is not allowed: a regret of 0 or more"),
        (["--regret", "median"], "unknown regret 'median'; known: mean, worst"),
        (["--weigh", "size"], "unknown way to weigh 'size'; known: count, equal, time"),
        (["--solver", "gurobi"], "unknown solver 'gurobi'; known: auto, exact, greedy"),
        (["--count", "tiles"], "unknown thing to count 'tiles'; known: kernels, schedules"),
        (["--depth", "5"], "--depth 5 is not allowed: 0 to 4 questions"),
        (["--time-limit", "0"], "--time-limit 0 is not allowed: seconds above 0"),
        (["--configs", "a.json", "--preset", "quick"], "leave --space, --preset and --axis"),
        (["--configs", "nowhere.json"], "no file of candidates at nowhere.json"),
        (["--shape", "8x8x8"], "give the shapes as --shapes NAME or FILE.csv, or each as --shape MxNxK"),
        (["--figure", "a.txt"], "a figure ends in .png, .svg, .pdf"),
    ],
)
def test_what_cannot_be_asked_is_refused(shapes: Path, words: list[str], message: str, capsys) -> None:
    code, _, err = answer(capsys, "portfolio", "--shapes", str(shapes), *words)
    assert code == 2
    assert message in err


def test_two_types_are_two_portfolios(tmp_path: Path, capsys) -> None:
    path = tmp_path / "types.csv"
    path.write_text("m,n,k,dtype\n64,64,64,bf16\n64,64,64,e4m3\n".replace("e4m3", "fp16"))
    code, _, err = answer(capsys, "portfolio", "--shapes", str(path))
    assert code == 2
    assert "a kernel is compiled for one type, but 64x64x64 is bf16 and 64x64x64 is fp16: make a list for each" in err


def test_a_shape_that_nothing_runs_is_named_or_left_out(tmp_path: Path, capsys) -> None:
    path = tmp_path / "odd.csv"
    path.write_text("name,m,n,k\nunaligned,512,512,1023\neven,512,512,1024\n")
    code, _, err = answer(capsys, "portfolio", "--shapes", str(path), *SPACE)
    assert code == 2
    assert "runs the shape unaligned on h200_sxm" in err
    assert "--skip-infeasible" in err
    found = json_answer(capsys, "portfolio", "--shapes", str(path), *SPACE, "--skip-infeasible", "--kernels", "1")
    assert found["skipped"] == ["unaligned"]
    assert [row["name"] for row in found["dispatch"]] == ["even"]
    assert found["rule_regret"]["held_out"] is None


def test_too_few_kernels_to_run_every_shape_are_refused_and_have_no_regret(tmp_path: Path, capsys) -> None:
    """Stream-K has too little to share on one tile; a K of 512 has no 32 splits."""
    path, configs = tmp_path / "two.csv", tmp_path / "mine.json"
    path.write_text("name,m,n,k\nshallow,4096,4096,512\nsmall,64,64,8192\n")
    tile = {"tile": "128x128x64", "stages": 4}
    configs.write_text(json.dumps([{**tile, "launch": "stream_k"}, {**tile, "launch": "split_k:32"}]))
    words = ["portfolio", "--shapes", str(path), "--configs", str(configs)]
    for regret in ("mean", "worst"):
        code, _, err = answer(capsys, *words, "--kernels", "1", "--regret", regret)
        assert code == 2
        assert "1 kernel does not run every shape (not " in err
        assert "allow more --kernels" in err
    folder = tmp_path / "out"
    code, text, _ = answer(capsys, *words, "--kernels", "2", "--out", str(folder), "--figure", str(tmp_path / "a.svg"))
    assert code == 0
    assert "cannot run all" in text
    curve = json.loads((folder / "summary.json").read_text())["curve"]
    assert [point["mean"] for point in curve] == [None, 0.0]


def drawn_rule() -> tuple[Rule, list[str], list, list[Dispatch]]:
    loss = Loss(0.0, 0.0, 4)
    words = ["tile=64x64x64 stages=2 a", 'tile=64x64x64 stages=3 "b"', "tile=64x64x64 stages=4"]
    problems = [gemm_problem(shape) for shape in ("32x64x8", "64x64x8", "100x100x8", "4096x4096x8")]
    dispatch = [Dispatch(kernel, 0, f"s{at}", "", 1.0, 1.0) for at, kernel in enumerate((0, 0, 1, 0))]
    return Rule(TREE, tuple(words), loss, loss, None), ['it\'s "quoted" */ \\', "plain"], problems, dispatch


def test_names_of_any_kind_survive_in_python() -> None:
    rule, names, problems, dispatch = drawn_rule()
    source = python_source(['about """this"""'], rule, names, problems, dispatch)
    made: dict = {}
    exec(source, made)
    assert [made["choose"](m, n, 8) for m, n in ((1, 1), (64, 10**9), (65, 100), (10**4, 10**4))] == [
        *names[:1] * 2,
        names[1],
        names[0],
    ]
    assert made["schedule"](32, 64, 8) == (names[0], "s0")
    assert made["schedule"](33, 64, 8) == (names[0], rule.schedules[0])
    assert rule_text(TREE, ["A", "B"]).splitlines()[:2] == ["if m <= 64:", "    A   (2 shapes)"]


def test_the_c_rule_compiles_and_says_what_python_says(tmp_path: Path) -> None:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler here")
    rule, names, problems, dispatch = drawn_rule()
    made: dict = {}
    exec(python_source(["x"], rule, names, problems, dispatch), made)
    (tmp_path / "rule.h").write_text(c_source(["of /* any */ kind"], rule, names))
    sizes = [(m, n) for m in (1, 64, 65, 100000) for n in (1, 100, 15384, 15385, 100000)]
    calls = "".join(f"puts(portfolio_kernels[portfolio_choose({m}, {n}, 8, 1)]);" for m, n in sizes)
    (tmp_path / "main.c").write_text(f'#include <stdio.h>\n#include "rule.h"\nint main(void) {{ {calls} return 0; }}\n')
    flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-o", str(tmp_path / "main")]
    subprocess.run([compiler, *flags, str(tmp_path / "main.c")], check=True)
    said = subprocess.run([str(tmp_path / "main")], capture_output=True, text=True, check=True).stdout.splitlines()
    assert said == [made["choose"](m, n, 8) for m, n in sizes]


def test_shapes_between_are_halfway_by_ratio() -> None:
    problems = [gemm_problem(shape) for shape in ("64x8x8", "16x8x8", "17x8x8", "16x8x9", "4x16x8x8")]
    assert between_shapes(problems) == [(33, 8, 8, 1)]
    assert list(features_of(problems)) == ["m", "n", "k", "batch", "m * n * batch"]
    assert list(features_of(problems[:2])) == ["m", "n", "k", "m * n"]


def test_the_knee_is_where_the_curve_bends() -> None:
    assert knee([1, 2, 3, 4], [8.0, 2.0, 1.0, 0.5]) == 2
    assert knee([1, 2, 3], [3.0, 2.0, 1.0]) is None
    assert knee([1, 2], [3.0, 1.0]) is None
    assert knee([1, 2, 3], [1.0, 1.0, 1.0]) is None
    assert knee([1, 2, 3, 4, 5], [np.inf, 8.0, 2.0, 1.0, 0.5]) == 3
