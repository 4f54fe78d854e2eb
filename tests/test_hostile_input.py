"""Damaged run folders, names that try to leave their comment, numbers that no machine could take: one clear error."""

import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from cli_run import answer, json_answer, small_sweep

from dse.cli import main
from dse.content.shapes import ShapeRow
from dse.errors import UserError
from dse.read_run import PROVENANCE_KEYS, SUMMARY_KEYS
from dse.runs import open_run
from dse.studies.benchmark.prune import kept_count
from dse.studies.benchmark.shortlist_size import choose_shortlist
from dse.studies.fronts.uncertain_run import uncertain_run
from dse.studies.portfolio.study import portfolio
from dse.text import one_line, table

SHAPE = ["--shape", "2048x2048x4096"]
CONFIG = '{"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64, "num_warps": 4, "num_stages": 3}'
NAME = 'a "gpu", <b>\nimport os; raise SystemExit("run")\n'


@pytest.fixture(scope="module")
def kept(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("kept") / "run"
    assert main(small_sweep(folder)) == 0
    return folder


@pytest.fixture
def run(kept, tmp_path) -> Path:
    return Path(shutil.copytree(kept, tmp_path / "run"))


@pytest.mark.parametrize("name", [*SUMMARY_KEYS, *(f"provenance.{name}" for name in PROVENANCE_KEYS)])
def test_a_summary_that_lacks_something_is_damaged(name, run, capsys):
    content = json.loads((run / "summary.json").read_text())
    place = content["provenance"] if name.startswith("provenance.") else content
    del place[name.removeprefix("provenance.")]
    (run / "summary.json").write_text(json.dumps(content))
    for words in (["top", run], ["front", run], ["export", run, "--to", "csv"]):
        code, out, err = answer(capsys, *words)
        assert (code, out) == (2, "")
        assert err == f"dse: {run / 'summary.json'} is damaged (no {name}): start anew with --overwrite\n"


def test_a_table_of_another_run_is_refused(run, capsys):
    rows = pq.read_table(run / "top.parquet")
    pq.write_table(rows.slice(0, 3), run / "top.parquet")
    err = answer(capsys, "top", run)[2]
    assert f"top.parquet is not the table that summary.json speaks of (3 rows, not {len(rows)})" in err
    pq.write_table(rows.drop_columns("smem_bytes"), run / "top.parquet")
    assert "speaks of (no column smem_bytes): start anew with --overwrite" in answer(capsys, "front", run)[2]


def test_a_gpu_name_stays_in_its_comment(tmp_path, capsys):
    gpu = tmp_path / f"{NAME}.toml"
    gpu.write_text('base = "h200_sxm"\ntitle = "mine"\n')
    assert main(small_sweep(tmp_path / "run", "--gpu", str(gpu))) == 0
    for target in ("triton", "tilelang", "cutlass"):
        code, out, _ = answer(capsys, "export", tmp_path / "run", "--to", target, "--what", "front")
        assert code in (0, 1)
        lines = [line for line in out.splitlines() if "import os" in line]
        assert lines
        assert all(line.startswith("# GEMM") for line in lines)


def test_control_characters_are_spaces():
    assert one_line("a\r\n\x1b[31mb\u2028c\u0085d \u00e9") == "a [31mb c d \u00e9"
    assert table([{"shape": "a\nb"}]).splitlines() == ["shape", "  a b"]


def test_reference_of_a_hypervolume_needs_a_finite_number_an_objective(kept, capsys):
    for text in ("1", "1,2", "1,2,3,4", "nan,1,1", "1e400,1,1", "a,b,c", ""):
        assert answer(capsys, "front", kept, "--reference", text)[2] == (
            f"dse: --reference {text}: write a finite number an objective, 3 in the order latency_s, ddr_bytes, "
            "smem_bytes, SI units, separated by commas\n"
        )


def test_the_most_robust_schedule_is_told_however_few_are_shown(kept, capsys):
    found = json_answer(capsys, "front", kept, "--draws", "3", "-n", "1", "--quiet")
    assert len(found["schedules"]) == 1
    whole = json_answer(capsys, "front", kept, "--draws", "3", "--quiet")["schedules"]
    assert found["most_robust_schedule"] == whole[found["most_robust"]]
    assert found["safest_schedule"] == whole[found["safest"]]
    assert (found["clock"], found["gpu_changes"]) == ("boost", [])


def test_draws_of_another_gpu_and_too_many_are_refused(kept, capsys):
    err = answer(capsys, "front", kept, "--draws", "3", "--gpu", "b200_sxm")[2]
    assert err.startswith("dse: the run's GPU is h200_sxm, not b200_sxm: how far its numbers may be off stands in")
    with pytest.raises(UserError, match="draws = 100001 is not allowed: 1 to 100,000"):
        uncertain_run(open_run(kept), 100_001)
    with pytest.raises(UserError, match="draws = 20001 is not allowed: at most 20,000"):
        choose_shortlist({}, np.ones(1), draws=20_001)


@pytest.mark.parametrize("keep", ["inf", "1e400", "-inf", "nan%", "inf%"])
def test_no_endless_number_of_configs_is_kept(keep):
    with pytest.raises(UserError, match="write a share such as 5% or a number of configs such as 20"):
        kept_count(keep, 10)


def test_pruning_never_replaces_the_file_of_all_configs(tmp_path, capsys):
    path = tmp_path / "all.json"
    path.write_text(f"[{CONFIG}, {CONFIG}]")
    (tmp_path / "link.json").symlink_to(path)
    for output in (path, tmp_path / "link.json"):
        code, _, err = answer(capsys, "prune", path, *SHAPE, "-o", output)
        assert code == 2
        assert err == (f"dse: -o {output} is the file of all configs: choose another, what is left out would be lost\n")
    assert path.read_text() == f"[{CONFIG}, {CONFIG}]"
    path.write_text("[]")
    assert "all.json holds no config: a list of at least one is needed" in answer(capsys, "prune", path, *SHAPE)[2]


def test_values_that_python_has_no_text_for_are_left_to_the_user(tmp_path, capsys):
    path = tmp_path / "odd.py"
    path.write_text(
        "import triton, triton.language as tl\n"
        'configs = [triton.Config({"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64, "ACC": tl.float32, '
        '"F": float("inf"), "TEXT": "a\\"\\n"}, num_warps=4, num_stages=3)]\n'
    )
    assert answer(capsys, "prune", path, *SHAPE, "-o", tmp_path / "few.py")[0] == 0
    assert "# ACC, F: set again by hand\n" in (tmp_path / "few.py").read_text()
    both = [json_answer(capsys, "rank", file, *SHAPE)["candidates"][0] for file in (path, tmp_path / "few.py")]
    assert both[0]["latency_s"] == both[1]["latency_s"]


def test_weights_are_of_one_order_and_of_any_size(tmp_path):
    rows = [ShapeRow("large", "4096x4096x4096", None, 1.0), ShapeRow("none", "16x4096x4096", None, 1e-300)]
    with pytest.raises(UserError, match="the weight 1e-300 of the shape none is not allowed beside the 1 of large"):
        portfolio(rows)
    with pytest.raises(UserError, match="a portfolio needs shapes: give at least one"):
        portfolio([])
    small = {"preset": "quick", "axes": ["tile_m=128", "stages=4", "tile_k=64", "cluster=1x1", "warps=2wg"]}
    big = [ShapeRow(row.name, row.shape, None, 1e308) for row in rows]
    found = portfolio(big, kernels=1, **small)
    assert found.weight.tolist() == [0.5, 0.5]


def test_a_dash_is_standard_output_or_refused(kept, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert answer(capsys, "export", kept, "--to", "csv", "-o", "-")[1].startswith("index,gpu,m,n,k")
    assert "dse: -o - is not allowed: the page is a file" in answer(capsys, "report", kept, "-o", "-")[2]
    assert not list(tmp_path.iterdir())


def test_words_to_tell_schedules_apart_are_listed_once(kept, capsys):
    known = answer(capsys, "top", kept, "--distinct", "tiles")[2].partition("known: ")[2].partition(";")[0].split(", ")
    assert len(known) == len(set(known))


def test_a_run_in_which_nothing_fits_does_not_ask_for_a_larger_top(tmp_path, capsys):
    axes = ["--axis", "tile_m=256", "--axis", "tile_n=256", "--axis", "stages=7"]
    assert main(["sweep", "gemm", *SHAPE, "--preset", "triton", *axes, "--out", str(tmp_path / "none"), "--quiet"]) == 1
    for words in (["top"], ["top", "--distinct", "tile"], ["front"], ["front", "--knees"]):
        code, out, _ = answer(capsys, words[0], tmp_path / "none", *words[1:])
        assert code == 0
        assert "schedules can run: widen the space; dse report RUN says what rules them out" in out
        assert "--top" not in out
        assert "knee" not in out


def test_all_that_can_run_is_said_to_be_all(tmp_path, capsys):
    assert main(small_sweep(tmp_path / "few", "--top", "100000")) == 0
    rows = len(pq.read_table(tmp_path / "few" / "top.parquet"))
    out = answer(capsys, "top", tmp_path / "few", "-n", str(rows + 1))[1]
    assert "schedules can run" in out
    assert "sweep with --top" not in out


def test_a_column_that_is_there_twice_is_refused(tmp_path, capsys):
    path = tmp_path / "twice.csv"
    path.write_text("BLOCK_M,BLOCK_N, BLOCK_M,BLOCK_K,num_warps,num_stages\n128,64,256,64,4,3\n")
    for command in ("rank", "prune"):
        err = answer(capsys, command, path, *SHAPE)[2]
        assert err == f"dse: {path}, line 1: the column BLOCK_M is there twice: keep one\n"


def test_what_looks_at_the_whole_space_does_not_say_that_it_saw_a_part(run, capsys):
    content = json.loads((run / "summary.json").read_text())
    (run / "summary.json").write_text(json.dumps(content | {"incomplete": True}))
    assert "(interrupted: of the part evaluated so far)" in answer(capsys, "top", run)[1]
    for words in (["shortlist", run, "--draws", "20"], ["front", run, "--draws", "2", "--quiet"]):
        code, out, _ = answer(capsys, *words)
        assert code == 0
        assert "interrupted" not in out


def test_an_empty_list_of_configs_is_said(tmp_path, capsys) -> None:
    run = tmp_path / "run"
    words = ("sweep", "--shape", "4096x4096x4096", "--preset", "triton", "--quiet", "--axis", "tile_m=128")
    assert answer(capsys, *words, "--axis", "launch=persistent:free0:staged", "--out", run)[0] == 0
    code, _, err = answer(capsys, "export", run, "--to", "triton", "-o", tmp_path / "configs.py")
    assert code == 0
    assert "configs is empty, all are in configs_persistent, for kernels of that kind; for one program a" in err
