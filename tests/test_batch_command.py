"""`dse batch` and `dse query` on the command line: what they print, what they refuse."""

import json
import re
import subprocess
import sys

import pytest
from cli_run import answer, json_answer, small_sweep
from own_model import OWN_MODEL

from dse.cli import EXIT_INTERRUPTED, main
from dse.query import EXAMPLES

SMALL = ["--preset", "quick", "--axis", "launch=data_parallel:staged", "--axis", "tile_n=64,128", "--quiet"]
SHAPES = ["--shape", "4096x4096x4096", "--shape", "16x8192x8192", "--gpu", "h100_sxm,h200_sxm"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("command") / "run"
    assert main(["batch", "gemm", *SHAPES, *SMALL, "--top", "2", "--out", str(out)]) == 0
    return out


def test_the_table_has_a_column_a_gpu_and_says_where_the_files_are(capsys, folder) -> None:
    code, out, err = answer(capsys, "batch", "gemm", *SHAPES, *SMALL, "--top", "2", "--out", folder)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].split() == ["step", "problems", "h100_sxm", "h200_sxm"]
    assert lines[1].startswith("all shapes")
    assert "already finished, 4 of 4 problem(s): nothing was evaluated" in out
    assert f"next: dse query {folder}" in out


def test_json_has_steps_and_the_best_of_each(capsys, folder) -> None:
    found = json_answer(capsys, "batch", "gemm", *SHAPES, *SMALL, "--top", "2", "--out", folder)
    assert found["problems"] == 4
    assert found["problems_now"] == 0
    assert [row["gpu"] for row in found["best"]] == ["h100_sxm", "h200_sxm"] * 2
    assert [row["rank"] for row in found["best"]] == [0] * 4
    total = sum(row["count"] * row["latency_s"] for row in found["best"] if row["gpu"] == "h200_sxm")
    assert found["steps"][1]["seconds"] == pytest.approx(total)
    assert json.loads((folder / "summary.json").read_text())["steps"] == found["steps"]


def test_a_dry_run_shows_a_models_problems_and_writes_nothing(capsys, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    words = ("batch", "--model", "llama3_70b", "--phase", "decode", "--batch", "1,64", "--tp", "8", "--dry-run")
    code, out, _ = answer(capsys, *words)
    assert code == 0
    assert "llama3_70b decode tp 8, 64 x 4096 keys" in out
    rows = json_answer(capsys, *words)["rows"]
    assert [row["name"] for row in rows[:4]] == ["qkv_1", "attention_1x4096", "o_1", "gate_up_1"]
    assert [row["count"] for row in rows[:4]] == [80.0] * 4
    assert not list(tmp_path.iterdir())


def test_several_models_are_several_steps(capsys) -> None:
    words = ["batch", "--model", "llama3_8b,gpt_oss_20b", "--phase", "decode", "--batch", "1", "--dry-run"]
    rows = json_answer(capsys, *words)["rows"]
    kept = json_answer(capsys, *words, "--kernel", "gemm,moe", "--layer", "qkv,o,experts", "--preset", "library")
    assert kept["rows"] == [row for row in rows if row["layer"] in ("qkv", "o", "experts")]
    assert kept["notes"] == ["moe: no preset library, so the whole space is evaluated"]
    assert {row["kernel"] for row in json_answer(capsys, *words, "--kernel", "moe")["rows"]} == {"moe"}
    assert list(dict.fromkeys(row["model"] for row in rows)) == ["llama3_8b", "gpt_oss_20b"]


def test_choices_go_to_the_kernels_that_have_them(capsys) -> None:
    words = ["batch", "--model", "mixtral_8x7b", "--phase", "decode", "--batch", "64", "--tp", "2", "--dtype", "fp8"]
    words += ["--quantise-a", "--choice", "implementation=none", "--choice", "moe.distribution=power_law_1.2"]
    rows = {row["layer"]: row for row in json_answer(capsys, *words, "--dry-run")["rows"]}
    assert rows["qkv"]["choices"] == {"quantise_a": "true"}
    assert rows["router"]["choices"] == {}
    assert rows["attention"]["choices"] == {"implementation": "none"}
    assert rows["experts"]["choices"] == {"implementation": "none", "distribution": "power_law_1.2", "tp": "2"}


def test_a_model_of_ones_own_over_its_kernels_spaces(capsys, tmp_path) -> None:
    (tmp_path / "small.toml").write_text(OWN_MODEL)
    words = ["batch", "--model", str(tmp_path / "small.toml"), "--phase", "decode", "--batch", "4,8", *SMALL[:2]]
    words += ["--axis", "gemm.launch=data_parallel:staged", "--axis", "gemm.tile_n=64,128", "--quiet"]
    words += ["--axis", "decode_attention.tile_n=64,128", "--choice", "decode_attention.page_tokens=0"]
    found = json_answer(capsys, *words, "--out", tmp_path / "run")
    assert [(step["model"], step["tokens"], step["problems"]) for step in found["steps"]] == [
        ("small", 4, 6),
        ("small", 8, 6),
    ]
    attention = [row for row in found["best"] if row["kernel"] == "decode_attention"]
    assert {row["choices"] for row in attention} == {"page_tokens=0"}
    assert all("heads" in row["schedule"] or "tile_n" in row["schedule"] for row in attention)
    assert found["steps"][0]["seconds"] > 2 * sum(row["latency_s"] for row in found["best"][:5])


def test_ctrl_c_says_how_to_go_on(capsys, tmp_path, monkeypatch) -> None:
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("dse.batch.run.tune_few", interrupted)
    words = ["batch", "gemm", *SHAPES, *SMALL, "--top", "2", "--out", str(tmp_path / "run")]
    code, _, err = answer(capsys, *words)
    assert code == EXIT_INTERRUPTED
    assert "interrupted before anything was finished" in err
    assert f"dse batch gemm {' '.join(SHAPES)}" in err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("", "no problem is given: give --model NAME, or --shapes FILE.csv, or --shape SHAPE"),
        ("--model llama3_8b --shapes llama3_70b", "--model and --shapes are given"),
        ("gemm --model llama3_8b", "gemm and --model: a model brings its own kernels"),
        ("--model lama3_8b", "unknown model 'lama3_8b'"),
        ("--model llama3_8b,llama3_8b", "the model llama3_8b is given twice"),
        ("--model llama3_8b --phase training", "unknown phase 'training'; known: decode, prefill"),
        ("--model llama3_8b --layer qk", r"unknown layer of these steps 'qk'; known: .*; did you mean 'qkv'\?"),
        (
            "--model llama3_8b --kernel moe",
            "unknown kernel of these steps 'moe'; known: attention, decode_attention, gemm",
        ),
        ("--shapes llama3_70b --kernel gemm", "--kernel is of a model's steps: give it with --model"),
        ("--model llama3_8b --tp 3", "tp = 3 does not divide the 32 heads of llama3_8b"),
        ("--model llama3_8b --tp 0", "--tp 0: whole numbers from 1, separated by commas"),
        ("--model llama3_8b --tp ²", "--tp ²: whole numbers from 1, separated by commas"),
        ("--model llama3_8b --prompts 1,2", "--prompts 1,2: a whole number from 1"),
        ("--model llama3_8b --batch 1,x", "--batch 1,x: whole numbers from 1"),
        ("--model llama3_8b --gpu h200_sxm,h200_sxm", "the GPU h200_sxm is given twice"),
        ("--model llama3_8b --gpu h200_smx", "unknown GPU 'h200_smx'"),
        ("--model llama3_8b --preset quik", "unknown preset of the space gemm/wgmma 'quik'; .*did you mean 'quick'"),
        ("--model llama3_8b --preset quick --preset library", "a preset is given twice for all kernels"),
        ("--model llama3_8b --choice moe.ep=2", "--choice is given for moe, but the batch holds gemm, "),
        ("--model llama3_8b --choice warm=true", "--warm is a choice of .*; gemm has --out-dtype"),
        (
            "--model llama3_8b --choice decode_attention.layout=nn",
            "--layout is a choice of gemm, .*; decode_attention has",
        ),
        ("--model llama3_8b --axis tile_m", "--axis tile_m: write NAME=VALUE, or KERNEL.NAME=VALUE"),
        ("--shapes llama3_70b --tp 8", "--tp is of a model's steps: give it with --model"),
        ("attention --shapes llama3_70b", "unknown column in .*llama3_70b.csv, line 7: 'm'; known: .*shape"),
        ("attention --shape 4096x4096x4096", "4096x4096x4096 .attention. on h200_sxm: .*is no attention"),
        ("gem --shape 4096x4096x4096", "unknown kernel 'gem'.*did you mean 'gemm'"),
        ("gemm --shape 8x8x8 --gpu a100_sxm --dtype fp8", r"8x8x8 .gemm. on a100_sxm: "),
    ],
)
def test_bad_input_is_one_line(capsys, tmp_path, words: str, said: str) -> None:
    code, out, err = answer(capsys, "batch", *words.split(), "--out", tmp_path / "run")
    assert (code, out) == (2, "")
    assert err.startswith("dse: ")
    assert err.count("\n") == 1
    assert re.search(said, err), err
    assert not (tmp_path / "run").exists()


BEST = "select name, gpu, latency_s from best where rank = 0 order by row, gpu"


def test_a_query_as_table_json_and_csv(capsys, folder) -> None:
    rows = json_answer(capsys, "query", folder, BEST)
    assert [(row["name"], row["gpu"]) for row in rows] == [
        (name, gpu) for name in ("4096x4096x4096", "16x8192x8192") for gpu in ("h100_sxm", "h200_sxm")
    ]
    code, out, err = answer(capsys, "query", folder, BEST)
    assert (code, err) == (0, "")
    assert [line.split()[:2] for line in out.splitlines()[1:]] == [[row["name"], row["gpu"]] for row in rows]
    code, out, _ = answer(capsys, "query", folder, "--csv", BEST)
    assert code == 0
    head, *lines = out.splitlines()
    assert head == "name,gpu,latency_s"
    assert [float(line.split(",")[2]) for line in lines] == [row["latency_s"] for row in rows]
    assert json_answer(capsys, "query", folder, "select 1 as a, 2 as a, null as b") == [{"a": 1, "a (1)": 2, "b": None}]


def test_every_example_of_the_help_runs(capsys, folder) -> None:
    for title, sql in EXAMPLES:
        code, out, err = answer(capsys, "query", folder, sql)
        assert (code, err) == (0, ""), title
        assert out
    _, shown, _ = answer(capsys, "query", "--help")
    assert all(title in shown for title, _ in EXAMPLES)


def test_without_sql_the_columns_are_listed_with_units(capsys, folder) -> None:
    (view,) = json_answer(capsys, "query", folder)
    assert (view["view"], view["rows"]) == ("best", 8)
    about = {column["name"]: column for column in view["columns"]}
    assert about["latency_s"]["unit"] == "s"
    assert about["gpu"]["type"] == "VARCHAR"
    assert all(column["unit"] and column["meaning"] for column in view["columns"])


def test_folders_of_sweeps_have_top_front_and_rows(capsys, tmp_path) -> None:
    assert main(small_sweep(tmp_path / "one", "--keep", "all")) == 0
    views = {view["view"]: view for view in json_answer(capsys, "query", tmp_path / "one")}
    assert set(views) == {"top", "front", "rows"}
    (best,) = json_answer(capsys, "query", tmp_path / "one", "select min(latency_s) as s from top")
    (of_all,) = json_answer(capsys, "query", tmp_path / "one", "select min(latency_s) as s from rows where reason = 0")
    assert best["s"] == pytest.approx(of_all["s"], rel=1e-6)
    (run,) = json_answer(capsys, "query", tmp_path, "select distinct run from top")
    assert run == {"run": "one"}


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("select nothing from best", "SQL: .*nothing.*; best has row, name, model, phase"),
        ("select * from bests", "SQL: .*bests.*; best has row"),
        ("selct 1", "SQL: .*syntax error"),
        ("", "0 statements: write one"),
        ("select 1; select 2", "2 statements: write one"),
        ("copy best to 'x.csv'", "COPY statements are not allowed: results are only read"),
        ("create table t as select 1", "CREATE statements are not allowed"),
        ("drop view best", "DROP statements are not allowed"),
        ("set threads = 1", "SET statements are not allowed"),
        ("pragma threads = 1", "SET statements are not allowed"),
        ("explain analyze copy best to 'x.csv'", "EXPLAIN statements are not allowed"),
        ("export database 'x'", "EXPORT statements are not allowed"),
        ("attach 'x.db'", "ATTACH statements are not allowed"),
    ],
)
def test_a_query_that_is_wrong_or_writes(capsys, folder, tmp_path, monkeypatch, sql: str, said: str) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = answer(capsys, "query", folder, sql)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert re.search(said, err), err
    assert not list(tmp_path.iterdir())


def test_folders_without_results(capsys, tmp_path, folder) -> None:
    code, _, err = answer(capsys, "query", tmp_path / "none", "select 1")
    assert (code, err) == (2, f"dse: no folder at {tmp_path / 'none'}: give one that dse batch or dse sweep wrote\n")
    code, _, err = answer(capsys, "query", tmp_path, "select 1")
    assert code == 2
    assert "holds no results" in err
    code, _, err = answer(capsys, "query", folder, BEST, "--json", "--csv")
    assert (code, err) == (2, "dse: --json and --csv: choose one\n")
    damaged = tmp_path / "best" / "gpu=a" / "kernel=gemm" / "part-00000.parquet"
    damaged.parent.mkdir(parents=True)
    damaged.write_bytes(b"PAR1 not whole")
    code, _, err = answer(capsys, "query", tmp_path, "select 1")
    assert code == 2
    assert "the files of best in" in err
    assert err.count("\n") == 1


def test_a_query_does_not_wait_for_what_it_does_not_need(folder) -> None:
    code = f"import sys; from dse.cli import main; main(['query', {str(folder)!r}, {BEST!r}]); print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    loaded = set(run.stdout.splitlines()[-1].split())
    assert "duckdb" in loaded
    assert not loaded & {"jax", "pandas", "optuna", "ray", "pyarrow"}
