"""What `--out` holds stays until a run that replaces it has begun, and is read where nothing can be written."""

import errno
import json
import os
from pathlib import Path

import pytest
from cli_run import answer, small_sweep
from fake_kernel import fake_job

from dse.errors import UserError
from dse.sweep import run_sweep


def test_what_is_overwritten_stays_until_there_is_a_worker(tmp_path, capsys):
    words = small_sweep(tmp_path / "run", "--executor", "serial")
    assert answer(capsys, *words)[0] == 0
    before = {file.name: file.read_bytes() for file in (tmp_path / "run").iterdir()}
    anew = [*words[:-1], "ray", "--address", "127.0.0.1:1", "--overwrite"]
    for more in ([], ["--prune"]):
        code, _, told = answer(capsys, *anew, *more)
        assert (code, "cluster at 127.0.0.1:1 cannot be reached" in told, "is kept in" in told) == (2, True, False)
        assert {file.name: file.read_bytes() for file in (tmp_path / "run").iterdir()} == before
    assert answer(capsys, *words, "--overwrite", "--objectives", "latency_s")[0] == 0
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["provenance"]["objectives"] == ["latency_s"]


class Interrupted:
    """An executor that is stopped before it has a worker."""

    name, workers = "none", 1

    def run(self, job, done, tick, *more):
        tick(done)
        return done, True


def test_what_is_overwritten_stays_where_nothing_was_evaluated(tmp_path):
    first = run_sweep(fake_job(), "serial", out=tmp_path / "run")
    before = {file.name: file.read_bytes() for file in (tmp_path / "run").iterdir()}
    result = run_sweep(fake_job(top=3), Interrupted(), out=tmp_path / "run", overwrite=True)
    assert (result.incomplete, result.evaluated, result.folder) == (True, 0, None)
    assert {file.name: file.read_bytes() for file in (tmp_path / "run").iterdir()} == before
    assert run_sweep(fake_job(), "serial", out=tmp_path / "run").top.equals(first.top)


def test_a_finished_run_is_read_where_nothing_can_be_written(tmp_path, monkeypatch):
    first = run_sweep(fake_job(), "serial", out=tmp_path / "run", keep="all")
    run_sweep(fake_job(), Interrupted(), out=tmp_path / "begun")

    def refused(*_, **__):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    for name in ("touch", "unlink", "mkdir"):
        monkeypatch.setattr(Path, name, refused)
    monkeypatch.setattr(os, "replace", refused)
    again = run_sweep(fake_job(), "serial", out=tmp_path / "run", keep="all")
    assert again.top.equals(first.top)
    assert again.front.equals(first.front)
    for folder, options in (("begun", {}), ("run", {"keep": "all", "overwrite": True}), ("new", {})):
        with pytest.raises(UserError, match=rf"cannot write into the folder .*{folder}: Read-only file system; choose"):
            run_sweep(fake_job(), "serial", out=tmp_path / folder, **options)
