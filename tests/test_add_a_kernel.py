"""The page about adding a kernel, followed literally: its files are written, counted, run and checked."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli_run import answer, json_answer

import dse.kernels

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/add-a-kernel.md"
SCHEDULES = "cta_threads,vector_bytes,stages,persistent,latency_us\n256,16,2,0,101\n32,2,1,0,900\n512,16,1,1,100\n"


def files() -> dict[str, str]:
    """Path -> text, of every block whose first line is a comment that names a file."""
    blocks = re.findall(r"^```(?:python|toml)\n(# ([\w/.]+)\n.*?)^```", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    return {path: text for text, path in blocks}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder that DSE_PATH names while this module runs."""
    root = tmp_path_factory.mktemp("my_kernels")
    for path, text in files().items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")
    known = list(dse.kernels.__path__)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DSE_PATH", str(root))
        dse.kernels.with_user_folders()
        yield root
    dse.kernels.__path__[:] = known
    for name in ("dse.kernels.add_rmsnorm", "dse.kernels._add_rmsnorm"):
        sys.modules.pop(name, None)


def test_a_kernel_takes_four_files_and_fewer_than_100_lines() -> None:
    own = {path: text for path, text in files().items() if path.startswith(("kernels/", "spaces/"))}
    assert sorted(own) == [
        "kernels/_add_rmsnorm.py",
        "kernels/add_rmsnorm.py",
        "spaces/add_rmsnorm/_fields.toml",
        "spaces/add_rmsnorm/simt.toml",
    ]
    lines = [line for text in own.values() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    assert len(lines) < 100, len(lines)
    assert max(len(line) for line in lines) <= 120
    assert not any("kernels.rows" in line for line in lines)


def test_the_commands_of_the_page_run(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    run, table = str(tmp_path / "mine"), str(tmp_path / "my_schedules.csv")
    Path(table).write_text(SCHEDULES)
    code, out, err = answer(
        capsys, "sweep", "add_rmsnorm", "--shape", "8192x8192", "--gpu", "h100_sxm", "--out", run, "--quiet"
    )
    assert code == 0, err
    assert "add + RMS norm 8192x8192 bf16" in out
    assert "1,024 points" in out
    best = json_answer(capsys, "explain", run, "0")
    assert best["cost"]["ddr_bytes"] == pytest.approx((4 * 8192 + 1) * 8192 * 2, rel=1e-4)
    code, out, err = answer(
        capsys, "rank", table, "--kernel", "add_rmsnorm", "--shape", "8192x8192", "--gpu", "h100_sxm"
    )
    assert code == 0, err
    assert out.index("vector_bytes=16") < out.index("vector_bytes=2 ")


def test_help_shows_the_kernel_and_does_not_load_jax(folder: Path) -> None:
    code = "import sys; from dse.cli import main; code = main(['sweep', '--help']); print('JAX', 'jax' in sys.modules)"
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    run = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert "add_rmsnorm" in run.stdout
    assert run.stdout.endswith("JAX False\n")


def test_the_laws_hold(folder: Path) -> None:
    """The page's own test file, run as it stands."""
    path = os.pathsep.join(map(str, (ROOT, ROOT / "tests")))
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "addopts=", "test_add_rmsnorm.py"]
    run = subprocess.run(
        words, cwd=folder, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stdout[-3000:]
    passed = re.search(r"(\d+) passed", run.stdout)
    assert passed
    assert int(passed[1]) > 40
