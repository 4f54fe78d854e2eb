"""Ctrl-C in a real process: it ends with 130, keeps what is finished, and says how to go on."""

import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dse.cli import main

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def sweeping(tmp_path):
    words = ["sweep", "gemm", "--shape", "8192x8192x8192", "--workers", "1", "--out", str(tmp_path / "run")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(
        [sys.executable, "-m", "dse", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        start_new_session=True,
    )
    yield process
    process.kill()
    process.communicate()


def interrupt(process: subprocess.Popen) -> tuple[str, str]:
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in err
    return out, err


def test_in_the_middle_of_a_sweep(sweeping, tmp_path, capsys):
    while not (tmp_path / "run" / "state.npz").exists():  # a checkpoint, after a second
        assert sweeping.poll() is None, "the sweep ended before it could be interrupted"
        time.sleep(0.005)
    _, err = interrupt(sweeping)
    folder = tmp_path / "run"
    assert f"what is finished is kept in {folder}. To go on:" in err
    command = err.strip().splitlines()[-1].strip()
    assert command == f"dse sweep gemm --shape 8192x8192x8192 --workers 1 --out {folder}"
    assert (folder / "state.npz").exists()
    smaller = [*shlex.split(command)[1:], "--axis", "stages=3"]
    assert main(smaller) == 2  # another space: what is kept is not mixed with it
    assert "results would not mix" in capsys.readouterr().err


@pytest.mark.parametrize("wait_s", [0.0, 0.2, 0.5, 1.2])
def test_while_it_is_starting(sweeping, wait_s):
    """Imports, garbage collector callbacks, compilation: an exception at these points is lost or kills the process."""
    threads = Path(f"/proc/{sweeping.pid}/task")
    if not threads.exists():
        pytest.skip("needs /proc to see that the command has begun")
    while len(list(threads.iterdir())) < 2:  # the watchdog
        time.sleep(0.005)
    time.sleep(wait_s)
    _, err = interrupt(sweeping)
    assert "interrupted" in err
