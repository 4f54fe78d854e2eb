"""A small sweep of layouts that tests of its command, exports and report share."""

from pathlib import Path

from dse.cli import main

MODEL = ("--model", "mixtral_8x7b", "--gpu", "h100_sxm")
SMALL = ("sweep", "sharding", *MODEL, "--gpus", "8", "--preset", "plain", "--quiet")
AXES = ("tp=1,2,8", "dp=1,4", "pp=1,2", "batch=8,64,256", "chunk=0,1024")
TINY = ("tp=8", "dp=1", "pp=1", "batch=8", "experts_tp=8")


def axes(texts: tuple[str, ...]) -> list[str]:
    """As options."""
    return [word for text in texts for word in ("--axis", text)]


def layout_sweep(folder: Path) -> Path:
    """Sweeps into a folder."""
    assert main([*SMALL, *axes(AXES), "--out", str(folder)]) == 0
    return folder
