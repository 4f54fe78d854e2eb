"""`dse status` of a batch: parts done of all, on what, who writes, how to go on; also beside runs."""

import json
import shlex

import pytest
from cli_run import answer, json_answer
from fake_kernel import fake_job

from dse.cli import main
from dse.run_files import claimed
from dse.sweep import run_sweep

SMALL = ["--preset", "quick", "--axis", "tile_n=64,128", "--axis", "stages=2,4", "--quiet"]
WORDS = ["batch", "gemm", "--shape", "512x512x512", "--gpu", "h100_sxm,h200_sxm", *SMALL]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("batch") / "b"
    assert main([*WORDS, "--out", str(folder)]) == 0
    return folder


@pytest.fixture
def stopped(whole, tmp_path):
    """The same, as if killed between its two parts."""
    folder = tmp_path / "runs" / "b"
    for file in whole.rglob("*"):
        if file.is_file() and file.name != "summary.json" and "gpu=h200_sxm" not in str(file):
            (folder / file.relative_to(whole)).parent.mkdir(parents=True, exist_ok=True)
            (folder / file.relative_to(whole)).write_bytes(file.read_bytes())
    return folder


def test_a_finished_batch(whole, capsys):
    code, out, err = answer(capsys, "status", whole)
    assert (code, err) == (0, "")
    first, about, done, written = out.splitlines()
    assert first == f"{whole}: finished"
    assert about == "batch of 1 problem on h100_sxm, h200_sxm (gemm)"
    assert done == "done     2 of 2 parts (100 %)"
    assert written.startswith("written  ")
    found = json_answer(capsys, "status", whole)
    assert found["runs"] == []
    (held,) = found["batches"]
    assert (held["stage"], held["parts"], held["done"], held["share"]) == ("finished", 2, 2, 1.0)
    assert (held["gpus"], held["kernels"], held["top"]) == (["h100_sxm", "h200_sxm"], ["gemm"], 1)


def test_the_command_of_a_stopped_batch_goes_on_with_it(stopped, whole, capsys):
    (held,) = json_answer(capsys, "status", stopped)["batches"]
    assert (held["stage"], held["parts"], held["done"], held["share"]) == ("unfinished", 2, 1, 0.5)
    assert shlex.split(held["how_to_go_on"]) == ["dse", *WORDS, "--out", str(whole)]
    assert answer(capsys, "status", stopped)[1].endswith(f"to go on:\n  {held['how_to_go_on']}\n")
    with claimed(stopped):
        assert "a process writes into it now" in answer(capsys, "status", stopped)[1]
    assert main([*WORDS, "--out", str(stopped)]) == 0
    assert json_answer(capsys, "status", stopped)["batches"][0]["stage"] == "finished"


def test_batches_are_listed_beside_runs(stopped, capsys):
    run_sweep(fake_job(), "serial", out=stopped.parent / "a")
    code, out, _ = answer(capsys, "status", stopped.parent)
    assert code == 0
    assert out.endswith("\n1 run and 1 batch: 1 finished, 1 unfinished\n")
    (line,) = [line for line in out.splitlines() if line.startswith(str(stopped))]
    assert [word for word in ("unfinished", "50.0 %", "2 parts", "batch, 1 problem") if word not in line] == []
    found = json_answer(capsys, "status", stopped.parent)
    assert [len(found[kind]) for kind in ("runs", "batches")] == [1, 1]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"cut off", "batch.json is damaged"),
        (b"{}", "batch.json is damaged (no rows, gpus, parts): start anew with --overwrite"),
        (json.dumps({"rows": [1], "gpus": {"a": 1}, "parts": [3]}).encode(), "batch.json is damaged"),
        (None, "1 of 2 parts are damaged: the same command writes them again"),
    ],
)
def test_damage_is_told(stopped, content, told, capsys):
    if content is None:
        next(stopped.rglob("part-*.parquet")).write_bytes(b"PAR1 cut")
    else:
        (stopped / "batch.json").write_bytes(content)
    code, out, err = answer(capsys, "status", stopped)
    assert (code, err) == (1, "")
    assert out.startswith(f"{stopped}: damaged\n")
    assert any(line.startswith("problem  ") and told in line for line in out.splitlines())
