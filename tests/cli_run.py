"""One small sweep through the command line, and what tests of commands share."""

import json
from pathlib import Path

from dse.cli import main

SHAPE = "2048x2048x4096"
TINY = ["--preset", "triton", "--axis", "tile_m=64,128", "--axis", "tile_n=64:256", "--axis", "stages=3,7"]
TINY += ["--axis", "tile_k=64B,128B", "--axis", "swizzle=1,8"]


def small_sweep(folder: Path, *more: str) -> list[str]:
    """The words of a sweep of a few thousand schedules."""
    return ["sweep", "gemm", "--shape", SHAPE, *TINY, "--out", str(folder), "--quiet", *more]


def answer(capsys, *words: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of `dse WORDS`."""
    capsys.readouterr()
    code = main([str(word) for word in words])
    shown = capsys.readouterr()
    return code, shown.out, shown.err


def json_answer(capsys, *words: str):
    """The JSON that `dse WORDS --json` prints."""
    code, out, err = answer(capsys, *words, "--json")
    assert code in (0, 1), err
    return json.loads(out)
