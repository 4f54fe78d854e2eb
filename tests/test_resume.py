"""Whatever ends a sweep, the same call goes on with it, ends with the same result, and leaves no process behind."""

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
from cli_run import answer, small_sweep
from fake_kernel import fake_job, fake_space
from kills import SPACE, sweep_and_kill
from ray_runs import SlowKernel

from dse.errors import UserError
from dse.executors import make_executor
from dse.executors.ray_session import Session
from dse.machines import Admission, Machine, mixed_text
from dse.run_files import STATE_FILE, read_state
from dse.run_status import run_status
from dse.state import SweepState
from dse.sweep import run_sweep

ROOT = Path(__file__).resolve().parent.parent
FULL_AT_BYTES = 20_000


def same(one, other):
    assert one.top.equals(other.top)
    assert one.front.equals(other.front)
    assert (one.histogram.counts == other.histogram.counts).all()
    assert (one.evaluated, one.reasons, one.top_ties) == (other.evaluated, other.reasons, other.top_ties)


def always_checkpoint(monkeypatch):
    for name, value in (("CHECKPOINT_S", 0.0), ("CHECKPOINT_SHARE", 1e9)):
        monkeypatch.setattr(sys.modules["dse.sweep"], name, value)  # `dse.sweep` is the function


def resumed_is_whole(folder):
    job = fake_job(fake_space(*SPACE), kernel=SlowKernel(), chunk_lanes=256)
    told = []
    again = run_sweep(job, "serial", out=folder, notice=told.append)
    same(again, run_sweep(fake_job(job.space), "serial"))
    return told


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc to find the processes")
@pytest.mark.parametrize("victim", ["raylet", "driver"])  # a worker: test_executors.py; many: scripts/kill_runs.py
def test_a_killed_process_loses_nothing(victim, tmp_path):
    killed = sweep_and_kill(victim, tmp_path / "run")
    assert not killed.left
    assert "Traceback" not in killed.errors
    if not killed.finished:
        assert killed.code == (-9 if victim == "driver" else 1)
        if victim != "driver":  # what was merged has been kept to the last point
            assert "error: the local Ray has ended" in killed.errors
            assert killed.errors.count("\n") == 1
            state = read_state(tmp_path / "run")
            assert state is not None
            assert state.evaluated >= killed.done
    told = resumed_is_whole(tmp_path / "run")
    if (tmp_path / "run" / STATE_FILE).exists():
        assert "run in" in told[0]


def test_a_terminated_driver_keeps_what_it_has(tmp_path):
    long = (10 * SPACE[0], *SPACE[1:])
    killed = sweep_and_kill("driver", tmp_path / "run", after_s=0.1, how=signal.SIGTERM, space=long)
    assert (killed.code, killed.errors, killed.left) == (143, "", [])
    state = read_state(tmp_path / "run")
    assert state is not None
    assert state.evaluated >= killed.done > 0


def test_a_killed_serial_sweep_goes_on(tmp_path):
    killed = sweep_and_kill("driver", tmp_path / "run", executor="serial", after_s=0.0, hold=True)
    assert (killed.code, killed.left) == (-9, [])
    told = resumed_is_whole(tmp_path / "run")
    assert told[0].startswith(f"going on with the run in {tmp_path / 'run'}: ")  # the first checkpoint is after 1 s
    assert " of 40,960 points are done" in told[0]


@pytest.mark.parametrize("executor", ["serial", "ray"])
def test_checkpoints_are_written_meanwhile(executor, tmp_path, monkeypatch, request):
    if executor == "ray":
        request.getfixturevalue("local_ray")
    always_checkpoint(monkeypatch)
    job = fake_job(fake_space(5, 8, 16, 16), kernel=SlowKernel(), chunk_lanes=256)
    kept = []

    def look(snapshot):
        state = read_state(tmp_path / "run")
        kept.append(state.evaluated if state else 0)

    run_sweep(job, make_executor(executor, 2), look, out=tmp_path / "run")
    assert any(0 < count < job.candidates for count in kept)


def test_a_lost_ray_is_noticed_by_its_doors(tmp_path, monkeypatch):
    """An open port answers; a closed one does not, and after some patience the sweep ends."""
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        door = server.getsockname()
        session = Session([door], started=False, patience_s=0.0)
        assert not session.silent(now=True)
    assert session.silent(now=True)
    monkeypatch.setattr("dse.executors.ray_session.WATCH_S", 0.0)
    with pytest.raises(UserError, match=r"the Ray cluster at 127\.0\.0\.1:\d+ has ended .* while it swept"):
        session.check()


@contextmanager
def full_disk(size):
    """Files of this process cannot grow past some size."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_says_so_and_room_lets_it_go_on(tmp_path):
    job = fake_job(fake_space(60, 8, 16, 16), chunk_lanes=1024)
    with full_disk(FULL_AT_BYTES), pytest.raises(UserError, match=r"cannot write .*rows-\d+\.parquet: .*make room"):
        run_sweep(job, "serial", out=tmp_path / "run", keep="all")
    assert not list((tmp_path / "run").glob("rows-*"))
    again = run_sweep(job, "serial", out=tmp_path / "run", keep="all")
    same(again, run_sweep(job, "serial"))


def test_a_disk_that_fills_up_at_a_checkpoint_keeps_the_one_before(tmp_path, monkeypatch):
    always_checkpoint(monkeypatch)
    job = fake_job(fake_space(10, 8, 16, 16), kernel=SlowKernel(), chunk_lanes=256)
    before = []

    def fill_up(snapshot):
        if snapshot.done and not before:
            before.append((tmp_path / "run" / STATE_FILE).read_bytes())
            resource.setrlimit(resource.RLIMIT_FSIZE, (100, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))

    with (
        full_disk(2**30),
        pytest.raises(UserError, match=r"cannot write .*state\.npz: .*; make room or choose another"),
    ):
        run_sweep(job, "serial", fill_up, out=tmp_path / "run", workers=2)
    assert (tmp_path / "run" / STATE_FILE).read_bytes() == before[0]
    assert [path.name for path in (tmp_path / "run").glob(".*")] == []
    same(run_sweep(job, "serial", out=tmp_path / "run"), run_sweep(fake_job(job.space), "serial"))


def test_a_command_on_a_full_disk_tells_how_to_go_on(tmp_path):
    words = [*small_sweep(tmp_path / "run"), "--keep", "all", "--executor", "serial"]
    code = (
        f"import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, ({FULL_AT_BYTES},) * 2); "
        f"from dse.cli import main; sys.exit(main({words!r}))"
    )
    environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path)}  # cut-off entries stay in it
    full = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert full.returncode == 2
    assert "Traceback" not in full.stderr
    assert full.stderr.splitlines()[0].startswith("dse: cannot write ")


@pytest.mark.usefixtures("local_ray")
def test_what_a_worker_cannot_do_is_said_as_in_this_process(tmp_path):
    job = fake_job(chunk_lanes=256)
    with pytest.raises(UserError, match=r"^cannot write rows: no room$"):
        make_executor("ray", 2).run(job, SweepState.empty(job), lambda state: None, FullSink())


class FullSink:
    part_rows = 1024

    def on(self, machine):
        return self

    @contextmanager
    def part(self, start):
        raise UserError("cannot write rows: no room")
        yield


def test_the_same_command_twice_evaluates_once(tmp_path, capsys, monkeypatch):
    words = small_sweep(tmp_path / "run", "--executor", "serial", "--json")
    words.remove("--quiet")
    code, first, _ = answer(capsys, *words)
    assert code == 0
    monkeypatch.setattr(sys.modules["dse.sweep"], "evaluate_rows", None)  # the tables are read, not made again
    code, second, told = answer(capsys, *words)
    assert code == 0
    assert f"dse: the run in {tmp_path / 'run'} is finished: nothing is evaluated anew" in told
    assert second == first  # seconds and rate included: they are of the run that evaluated
    with full_disk(0):
        assert answer(capsys, *words, "--quiet")[:2] == (0, first)
    code, _, error = answer(capsys, *words, "--objectives", "latency_s")
    assert code == 2
    assert "is another one, results would not mix: objectives was" in error


def damaged(folder, name, data):
    run_sweep(fake_job(), "serial", out=folder)
    (folder / name).unlink()
    if data is not None:
        (folder / name).write_bytes(data)


@pytest.mark.parametrize(
    ("name", "data", "text"),
    [
        ("run.json", None, "has lost its run.json, so nobody knows what it is of: replace it with --overwrite, or"),
        ("run.json", b"{", r"run\.json is damaged \(.*\): start anew with --overwrite"),
        ("run.json", b"{}", "was written by another version of tilesweep"),
        ("state.npz", b"", r"state\.npz is damaged \(.*\): start anew with --overwrite"),
    ],
)
def test_a_damaged_folder_is_one_message_and_may_be_replaced(name, data, text, tmp_path):
    damaged(tmp_path / "run", name, data)
    with pytest.raises(UserError, match=text):
        run_sweep(fake_job(), "serial", out=tmp_path / "run")
    assert run_sweep(fake_job(), "serial", out=tmp_path / "run", overwrite=True).evaluated == fake_job().candidates


@pytest.mark.parametrize("changes", [{"space": fake_space(20, 8, 16, 16)}, {"objectives": ("latency_s",)}, {"top": 3}])
def test_a_state_of_another_run_is_not_taken(changes, tmp_path):
    for folder, different in (("run", {}), ("other", changes)):
        run_sweep(fake_job(**different), "serial", out=tmp_path / folder)
    shutil.copy(tmp_path / "other" / STATE_FILE, tmp_path / "run" / STATE_FILE)
    with pytest.raises(UserError, match=r"state\.npz is not of the run in run\.json: start anew with --overwrite"):
        run_sweep(fake_job(), "serial", out=tmp_path / "run")
    if "space" in changes:
        assert run_status(tmp_path / "run")[0].problems == (
            "state.npz is not of the run in run.json: start anew with --overwrite",
        )


@pytest.mark.parametrize("name", ["state.npz", "summary.json", "top.parquet"])
def test_what_is_lost_of_a_finished_run_is_made_again(name, tmp_path):
    damaged(tmp_path / "run", name, None)
    run_sweep(fake_job(), "serial", out=tmp_path / "run")
    assert (tmp_path / "run" / name).exists()


def test_a_finished_run_of_another_machine_is_read_but_not_mixed(tmp_path):
    first = run_sweep(fake_job(), "serial", out=tmp_path / "run")
    run_file = tmp_path / "run" / "run.json"
    run_file.write_text(run_file.read_text().replace(f'"cpu": "{first.machines[0].cpu}"', '"cpu": "another"'))
    held = run_sweep(fake_job(), "serial", out=tmp_path / "run")
    same(held, first)
    assert [machine.cpu for machine in held.machines] == ["another"]
    (tmp_path / "run" / "top.parquet").unlink()
    with pytest.raises(UserError, match=r"is computed on another, chunks of 256, this worker is .*--mix-devices"):
        run_sweep(fake_job(), "serial", out=tmp_path / "run")
    same(run_sweep(fake_job(), "serial", out=tmp_path / "run", mix_devices=True), first)


def test_a_folder_of_an_older_version_is_refused(tmp_path):
    run_sweep(fake_job(), "serial", out=tmp_path / "run")
    run_file = tmp_path / "run" / "run.json"
    run_file.write_text(json.dumps(json.loads(run_file.read_text()) | {"schema_version": 1}))
    with pytest.raises(
        UserError, match=r"written by another version of tilesweep \(format 1, this one has \d+\).*--out"
    ):
        run_sweep(fake_job(), "serial", out=tmp_path / "run")


def test_machines_of_several_kinds_mix_only_where_asked():
    one, other = Machine("A", "cpu", 256), Machine("B", "H200", 1024)
    seen = []
    Admission((one,))(one)
    with pytest.raises(
        UserError, match=r"on A, chunks of 256, this worker is H200 on B, chunks of 1,024: .*--mix-devices"
    ):
        Admission((one,))(other)
    mixing = Admission((one,), mix=True, on_new=seen.append)
    mixing(other)
    assert mixing.machines == (one, other) == seen[0]
    assert mixed_text(mixing.machines).startswith("computed on 2 kinds of machines (A, chunks of 256; H200 on B")
    assert mixed_text((one,)) == ""
    assert Machine.from_dict(one.to_dict()) == one
