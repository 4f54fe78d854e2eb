"""Commands with closed streams, or streams that cannot write every letter."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def dse(words: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess:
    command = f"{sys.executable} -m dse {words}"
    variables = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    return subprocess.run(command, shell=True, cwd=cwd, env=variables, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("closed", ["2>&-", "<&- 2>&-"])
def test_what_standard_error_is_closed_to_does_not_go_elsewhere(closed, tmp_path):
    told = dse(f"status nowhere {closed}", tmp_path)
    assert (told.returncode, told.stdout, told.stderr) == (2, "", "")


def test_a_closed_standard_output_takes_nothing_else_with_it(tmp_path):
    (tmp_path / "run.json").write_text("{}")
    told = dse("status . >&-", tmp_path)
    assert (told.returncode, told.stdout, told.stderr) == (1, "", "")


def test_letters_that_standard_output_lacks_are_escaped(tmp_path):
    (tmp_path / "l\u00e4uft").mkdir()
    (tmp_path / "l\u00e4uft" / "run.json").write_text("{}")
    told = dse("status l*uft", tmp_path, PYTHONIOENCODING="ascii")
    assert (told.returncode, told.stderr) == (1, "")
    assert told.stdout.startswith("l\\xe4uft: damaged\n")
