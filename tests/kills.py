"""A sweep in a process of its own that is killed in the middle, and what is left of it."""

import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VICTIMS = {"worker": "ray::SweepWorker", "raylet": "raylet/raylet", "gcs": "gcs_server", "driver": "killed_sweep.py"}
LOST_S = 30.0

SCRIPT = """
import os, sys, time
sys.path[:0] = [{root!r}, {tests!r}]
from fake_kernel import fake_job, fake_space
from ray_runs import SlowKernel
from dse.errors import UserError
from dse.sweep import run_sweep

def say(snapshot):
    print("done", snapshot.done, flush=True)
    while {hold} and os.path.exists(os.path.join(sys.argv[2], "state.npz")):
        print("held", flush=True)
        time.sleep(1.0)

if __name__ == "__main__":
    job = fake_job(fake_space{space}, kernel=SlowKernel(), chunk_lanes=256)
    try:
        result = run_sweep(job, sys.argv[1], say, out=sys.argv[2], workers=2)
    except UserError as error:
        sys.exit(f"error: {{error}}")
    print("finished", result.evaluated, flush=True)
"""
SPACE = (20, 8, 16, 16)  # 160 chunks, nearly two seconds on two workers


@dataclass(frozen=True)
class Killed:
    """What came of it.

    Attributes:
        code: exit code; negative: the signal.
        errors: standard error.
        finished: whether it got to its end all the same.
        done: points that were done when it was killed.
        left: processes that are left some time after.
    """

    code: int
    errors: str
    finished: bool
    done: int
    left: list[int]


def sweep_and_kill(
    victim: str,
    folder: Path,
    executor: str = "ray",
    after_s: float | None = None,
    how: int = signal.SIGKILL,
    space: tuple[int, ...] = SPACE,
    hold: bool = False,
) -> Killed:
    """Starts a sweep, waits until something is done and a random time more, and kills one of its processes.

    Args:
        victim: of `VICTIMS`.
        folder: the run's; the script goes beside it.
        executor: "ray" or "serial".
        after_s: how long after the first points are done; None: random, while most of the work is to come.
        how: the signal.
        space: what is swept.
        hold: the sweep waits once it has written a checkpoint, and is killed there.
    """
    mark = f"TILESWEEP_TEST_MARK={os.getpid()}-{time.monotonic_ns()}"
    script = folder.parent / "killed_sweep.py"
    script.write_text(SCRIPT.format(root=str(ROOT), tests=str(ROOT / "tests"), space=space, hold=hold))
    name, _, value = mark.partition("=")
    sweep = subprocess.Popen(
        [sys.executable, str(script), executor, str(folder)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ | {name: value},
        start_new_session=True,
    )  # fmt: skip
    assert sweep.stdout is not None
    done = 0
    for line in sweep.stdout:
        done = int(line.split()[1]) if line.startswith("done") else done
        if line.startswith("held") if hold else done:
            break
    time.sleep(random.uniform(0.0, 1.0) if after_s is None else after_s)
    wanted = [sweep.pid] if victim == "driver" else processes_of(mark, VICTIMS[victim])
    if wanted:
        os.kill(random.choice(wanted), how)
    out, errors = sweep.communicate(timeout=120)
    done = max([done, *(int(line.split()[1]) for line in out.splitlines() if line.startswith("done"))])
    return Killed(sweep.returncode, errors, "finished" in out, done, _left(mark))


def processes_of(mark: str, command: str = "") -> list[int]:
    """Processes with this variable in their environment, and this in their command line."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            marked = mark.encode() in (entry / "environ").read_bytes().split(b"\0")
            if marked and command.encode() in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def _left(mark: str) -> list[int]:
    deadline = time.monotonic() + LOST_S
    while (left := processes_of(mark)) and time.monotonic() < deadline:
        time.sleep(0.1)
    return left
