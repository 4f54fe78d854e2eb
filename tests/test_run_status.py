"""`dse status`: how far a run is, from its files alone, whatever state they are in."""

import json
import os
import shlex
from datetime import UTC, datetime

import pytest
from cli_run import answer, json_answer, small_sweep
from fake_kernel import fake_job
from ray_runs import SlowKernel

from dse.cli import main
from dse.errors import UserError
from dse.run_files import claimed, read_state
from dse.run_status import run_status
from dse.sweep import run_sweep


def interrupted(folder, **options):
    job = fake_job(chunk_lanes=256, kernel=SlowKernel())

    def stop(snapshot):
        if snapshot.done and not snapshot.finished:
            raise KeyboardInterrupt

    result = run_sweep(job, "serial", stop, out=folder, workers=1, command_line="dse sweep fake", **options)
    assert result.incomplete
    return job, result


def test_a_finished_run(tmp_path, capsys):
    job = fake_job()
    result = run_sweep(job, "serial", out=tmp_path / "run", command_line="dse sweep fake --out here")
    (status,) = run_status(tmp_path / "run")
    assert (status.stage, status.done, status.candidates, status.share) == ("finished", 3185, 3185, 1.0)
    assert (status.missing, status.problems, status.writer) == ((), (), None)
    assert status.best == result.top["latency_s"].min()
    assert status.front_points == result.front_points
    assert status.machines == tuple(map(str, result.machines))
    assert status.written is not None
    assert abs((datetime.now(UTC) - status.written).total_seconds()) < 60
    code, out, err = answer(capsys, "status", tmp_path / "run")
    assert (code, err) == (0, "")
    assert out.startswith(f"{tmp_path / 'run'}: finished\nfake ")
    assert "done     3,185 of 3,185 points (100 %)" in out
    assert "to go on" not in out


def test_an_unfinished_run_says_what_is_missing_and_how_to_go_on(tmp_path, capsys):
    job, result = interrupted(tmp_path / "run")
    (status,) = run_status(tmp_path / "run")
    assert status.stage == "unfinished"
    assert status.done == result.evaluated == job.candidates - sum(stop - start for start, stop in status.missing)
    assert status.missing[0][0] == result.next_index
    code, out, _ = answer(capsys, "status", tmp_path / "run")
    assert code == 0
    command = shlex.join(["dse", "sweep", "fake", "--out", str(tmp_path / "run")])
    assert out.endswith(f"to go on:\n  {command}\n")
    assert f"missing  {status.missing[0][0]:,} to {status.missing[0][1]:,}" in out
    (held,) = json_answer(capsys, "status", tmp_path / "run")["runs"]
    assert held["how_to_go_on"] == command
    assert held["missing"][0] == [str(edge) for edge in status.missing[0]]
    assert held["done"] == result.evaluated


def test_the_command_that_status_gives_goes_on(tmp_path, capsys):
    words = small_sweep(tmp_path / "run", "--executor", "serial")
    assert main(words) == 0
    (tmp_path / "run" / "state.npz").unlink()  # as if killed before the first checkpoint
    command = json_answer(capsys, "status", tmp_path / "run")["runs"][0]["how_to_go_on"]
    assert shlex.split(command) == ["dse", *words]
    assert main(shlex.split(command)[1:]) == 0
    assert run_status(tmp_path / "run")[0].stage == "finished"


def test_a_process_that_writes_now_is_named(tmp_path, capsys):
    interrupted(tmp_path / "run")
    with claimed(tmp_path / "run"):
        (status,) = run_status(tmp_path / "run")
        assert status.stage == "running"
        assert status.writer in (0, os.getpid())
        assert "a process writes into it now" in answer(capsys, "status", tmp_path / "run")[1]
        with pytest.raises(UserError, match="another process writes a run into the folder"), claimed(tmp_path / "run"):
            pass
    assert run_status(tmp_path / "run")[0].stage == "unfinished"
    with claimed(tmp_path / "run"):
        pass


@pytest.mark.parametrize(
    ("name", "data", "problem"),
    [
        ("run.json", None, "run.json is lost, so nobody knows what it is of: start anew with --overwrite"),
        ("run.json", b"[1]", "run.json is damaged (a list, not an object): start anew with --overwrite"),
        ("state.npz", b"PK", "state.npz is damaged"),
        ("summary.json", None, "summary.json is damaged"),
        ("state.npz", b"junk", "state.npz is damaged (not an archive of NumPy): start anew with --overwrite"),
        ("top.parquet", None, "top.parquet is lost or damaged: the same command writes it again"),
        ("front.parquet", b"PAR1 cut off", "front.parquet is lost or damaged: the same command writes it again"),
        ("rows-00000000000000000000.parquet", None, "1 of 1 files of rows are lost or damaged: the same command"),
        ("rows-00000000000000000000.parquet", b"", "1 of 1 files of rows are lost or damaged: the same command"),
    ],
)
def test_damage_is_told_and_the_rest_still_shown(name, data, problem, tmp_path, capsys):
    run_sweep(fake_job(), "serial", out=tmp_path / "run", keep="all")
    (tmp_path / "run" / name).unlink()
    if data is not None:
        (tmp_path / "run" / name).write_bytes(data)
    code, out, err = answer(capsys, "status", tmp_path / "run")
    assert (code, err) == (1, "")
    assert f"{tmp_path / 'run'}: damaged\n" in out
    assert any(line.startswith("problem  ") and problem in line for line in out.splitlines())


@pytest.mark.parametrize("content", [{}, {"schema_version": 1, "range": ["0", "5"], "machines": "x", "made": 3}])
def test_a_run_of_another_version_is_told(content, tmp_path):
    (tmp_path / "run.json").write_text(json.dumps(content or {"kernel": "gemm"}))
    (status,) = run_status(tmp_path)
    assert status.stage == "damaged"
    assert "written by another version of tilesweep" in status.problems[0]


def test_a_folder_of_many_runs(tmp_path, capsys):
    run_sweep(fake_job(), "serial", out=tmp_path / "runs" / "a")
    interrupted(tmp_path / "runs" / "deep" / "b")
    code, out, _ = answer(capsys, "status", tmp_path / "runs")
    assert code == 0
    assert "2 runs: 1 finished, 1 unfinished" in out
    assert [held["stage"] for held in json_answer(capsys, "status", tmp_path / "runs")["runs"]] == [
        "finished",
        "unfinished",
    ]


def test_a_folder_without_runs(tmp_path, capsys):
    code, _, err = answer(capsys, "status", tmp_path)
    told = f"dse: {tmp_path} holds no run and no batch, nor do the folders in it: give one that dse sweep or dse batch "
    assert (code, err) == (2, told + "wrote with --out\n")
    code, _, err = answer(capsys, "status", tmp_path / "nowhere")
    assert code == 2
    assert err.startswith(f"dse: no folder {tmp_path / 'nowhere'}: give one")


def test_a_pruned_run_says_what_was_skipped(tmp_path, capsys):
    interrupted(tmp_path / "run")
    assert "skipped" not in answer(capsys, "status", tmp_path / "run")[1]
    state = read_state(tmp_path / "run")
    left = (state.ranges[-1][1], 3185)
    (tmp_path / "run" / "state.npz").write_bytes(state.without([left]).to_bytes())  # as bounds would have it
    skipped = left[1] - left[0]
    (held,) = json_answer(capsys, "status", tmp_path / "run")["runs"]
    assert held["skipped"] == skipped
    assert held["done"] == state.evaluated + skipped
    text = f"skipped  {skipped:,} of these: by their lower bounds they cannot win (--prune)"
    assert text in answer(capsys, "status", tmp_path / "run")[1].splitlines()


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b'{"op_code": 0, "worker_id": "a"}\n', " is the journal of a search, no folder: optuna-dashboard and "
                                                "optuna.visualization show its trials, and the dse search command "
                                                "with --storage {file} goes on with it"),
        (b"thesis", " is a file: give the folder of a run or a batch"),
        (b"3\n", " is a file: give the folder of a run or a batch"),
    ],
)  # fmt: skip
def test_a_file_is_told_from_a_folder(content, told, tmp_path, capsys):
    file = tmp_path / "a.journal"
    file.write_bytes(content)
    assert answer(capsys, "status", file) == (2, "", f"dse: {file}{told.format(file=file)}\n")
