"""Runs that tests of reports are made of: small ones, hostile ones, interrupted ones."""

import os
from pathlib import Path

from dse import sweep

TINY = ["tile_m=64,128", "tile_n=64:256", "stages=3,7", "tile_k=64B,128B", "swizzle=1,8"]
HOSTILE_NAME = "ev\"il $x$ <b> & 'q'"
HOSTILE_TITLE = '<script>alert(1)</script> " onload="x $100$ &amp;'
HOSTILE_SOURCE = "</td><script>alert(2)</script><img src=x onerror=alert(3)> & \"a\" 'b'"
HOSTILE_COMMAND = "dse sweep '</script><script>alert(4)</script>' --axis \"<!--\""


def small_run(folder: Path, **options):
    """A run of a few thousand schedules."""
    given = {"shape": "2048x2048x4096", "gpu": "h200_sxm", "preset": "triton", "axes": TINY, **options}
    return sweep("gemm", out=folder, **given)


def hostile_gpu(home: Path) -> Path:
    """A GPU file whose name, title and sources try to be markup; `DSE_PATH=home` finds it by its name."""
    folder = home / "hardware" / "gpus"
    folder.mkdir(parents=True)
    path = folder / f"{HOSTILE_NAME}.toml"
    title, source = (text.replace('"', '\\"') for text in (HOSTILE_TITLE, HOSTILE_SOURCE))
    path.write_text(
        f'base = "h200_sxm"\ntitle = "{title}"\n[l2]\n'
        f'l2_bytes_per_s = {{ value = 9.7e12, kind = "measured", source = "{source}", note = "<i>$n$" }}\n'
    )
    return path


def hostile_run(home: Path, folder: Path):
    """A run on it, changed, from a hostile command line."""
    os.environ["DSE_PATH"] = str(home)  # of the test process: a fixture restores it
    gpu = hostile_gpu(home)
    return small_run(folder, gpu=str(gpu), overrides={"ddr_bytes_per_s": "2x"}, command_line=HOSTILE_COMMAND)


def interrupted_run(folder: Path):
    """A run that a user stopped after its first chunks."""

    def interrupt(snapshot):
        if snapshot.done and not snapshot.finished:
            raise KeyboardInterrupt

    result = sweep("gemm", shape="4096x4096x4096", gpu="h200_sxm", out=folder, progress=interrupt)
    assert result.incomplete
    return result
