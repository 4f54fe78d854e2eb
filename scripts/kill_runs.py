"""Kills sweeps on Ray at random moments, goes on with them, and prints what came of it.

python scripts/kill_runs.py [--runs 20] [--victims worker,raylet,gcs,driver]

Each run is a sweep on a local Ray with two workers in a process of its own. One of its processes gets SIGKILL some
time after its first points are done. Then the same sweep is called again on its folder, and its result compared with
that of a sweep that nobody killed: every row of the best and the front, every count. Last, /proc is searched for
processes that are left. Exit status 1 where a result differs or a process is left.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from fake_kernel import fake_job, fake_space
from kills import SPACE, VICTIMS, Killed, sweep_and_kill
from ray_runs import SlowKernel

from dse.sweep import run_sweep

COLUMNS = "{:>3}  {:<7} {:>10} {:>5}  {:<9} {:>11} {:>8} {:>5}  {:>6}"


def resumed(folder: Path) -> tuple[bool, int]:
    """Whether the resumed result equals the uninterrupted one, and how many points it did not evaluate anew."""
    job = fake_job(fake_space(*SPACE), kernel=SlowKernel(), chunk_lanes=256)
    whole = run_sweep(fake_job(job.space), "serial")
    seen: list[int] = []
    again = run_sweep(job, "serial", lambda snapshot: seen.append(snapshot.done), out=folder)
    equal = (
        again.top.equals(whole.top)
        and again.front.equals(whole.front)
        and bool((again.histogram.counts == whole.histogram.counts).all())
        and (again.evaluated, again.reasons, again.top_ties) == (whole.evaluated, whole.reasons, whole.top_ties)
    )
    return equal, seen[0]


def main() -> int:
    """Kills, resumes, compares, prints a table."""
    parser = argparse.ArgumentParser(description="Kills sweeps on Ray at random moments and goes on with them.")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--victims", default=",".join(VICTIMS), help=f"of {', '.join(VICTIMS)}")
    options = parser.parse_args()
    victims = options.victims.split(",")
    print(COLUMNS.format("run", "killed", "points then", "code", "went on", "kept points", "equal", "left", "s"))
    wrong = 0
    for run in range(options.runs):
        with tempfile.TemporaryDirectory() as scratch:
            began = time.monotonic()
            folder, victim = Path(scratch) / "run", victims[run % len(victims)]
            killed: Killed = sweep_and_kill(victim, folder)
            equal, kept = resumed(folder)
        wrong += not equal or bool(killed.left)
        row = (run, victim, killed.done, killed.code, "by itself" if killed.finished else "by resume", kept)
        seconds = f"{time.monotonic() - began:.1f}"
        print(COLUMNS.format(*row, "yes" if equal else "NO", len(killed.left), seconds), flush=True)
    print(f"{options.runs} runs, {wrong} wrong")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
