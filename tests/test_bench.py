"""The front door of the measurements: each is listed, and each is reached by its name with its own arguments."""

import subprocess
import sys
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parent.parent / "scripts"


def bench(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, SCRIPTS / "bench.py", *words], capture_output=True, text=True, check=False, timeout=100
    )


def test_every_measurement_is_listed_with_what_it_measures() -> None:
    done = bench()
    listed = dict(line.split(maxsplit=1) for line in done.stdout.splitlines()[2:])
    scripts = {path.stem.removeprefix("bench_") for path in SCRIPTS.glob("bench_*.py")}
    assert listed.keys() == scripts | {"kill_runs"}
    assert {"sweep", "ray", "search", "batch", "bounding", "rows", "kill_runs"} <= listed.keys()
    assert all(len(text) > 20 and text[-1] in ".:," for text in listed.values()), listed
    assert (done.returncode, bench("--help").stdout) == (0, done.stdout)


def test_a_name_runs_its_script_with_the_other_words() -> None:
    done = bench("sweep", "--help")
    assert done.returncode == 0, done.stderr
    assert "bench_sweep.py" in done.stdout
    wrong = bench("sweep", "speed")
    assert wrong.returncode == 2
    assert "invalid choice: 'speed'" in wrong.stderr


def test_an_unknown_name_is_one_message() -> None:
    done = bench("serch", "samplers")
    assert done.returncode == 2
    assert done.stderr.startswith("bench: unknown measurement 'serch'; known: batch, bounding, ")
    assert done.stderr.endswith("; did you mean 'search'?\n")
