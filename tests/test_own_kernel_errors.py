"""A kernel of the user's that is broken: one message says what and where, and no other kernel suffers."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
OWN, MODEL, FIELDS, SPACE = (
    "kernels/add_rmsnorm.py",
    "kernels/_add_rmsnorm.py",
    "spaces/add_rmsnorm/_fields.toml",
    "spaces/add_rmsnorm/simt.toml",
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The four files of docs/add-a-kernel.md."""
    page = (ROOT / "docs" / "add-a-kernel.md").read_text(encoding="utf-8")
    for text, path in re.findall(r"^```(?:python|toml)\n(# ((?:kernels|spaces)/[\w/.]+)\n.*?)^```", page, re.M | re.S):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text, encoding="utf-8")
    return tmp_path


def dse(folder: Path, *words: str) -> tuple[int, str]:
    """Exit code and standard error."""
    env = os.environ | {"DSE_PATH": str(folder), "PYTHONPATH": str(ROOT)}
    run = subprocess.run([sys.executable, "-m", "dse", *words], env=env, capture_output=True, text=True, check=False)
    return run.returncode, run.stderr


def changed(folder: Path, path: str, old: str, new: str) -> None:
    text = (folder / path).read_text(encoding="utf-8")
    assert old in text
    (folder / path).write_text(text.replace(old, new), encoding="utf-8")


def refusal(folder: Path, kernel: str = "add_rmsnorm") -> str:
    code, error = dse(folder, "sweep", kernel, "--shape", "64x64", "--out", str(folder / "run"), "--quiet")
    assert code == 2, error
    assert error.startswith("dse: ")
    assert error.count("\n") == 1, error
    return error


def test_a_file_that_cannot_be_read_breaks_no_other_kernel(folder: Path) -> None:
    (folder / OWN).write_text("def (\n", encoding="utf-8")
    assert "kernels/add_rmsnorm.py in DSE_PATH cannot be used: SyntaxError" in refusal(folder)
    for words in (("sweep", "--help"), ("sweep", "softmax", "--shape", "4x8", "--axis", "nothing=1")):
        code, error = dse(folder, *words)
        assert "add_rmsnorm" not in error
        assert code == (0 if "--help" in words else 2)  # the second: of an unknown axis alone


@pytest.mark.parametrize("name", ["softmax", "rows"])
def test_a_name_of_the_package_is_refused(folder: Path, name: str) -> None:
    (folder / OWN).rename(folder / "kernels" / f"{name}.py")
    assert f"{name}.py has the name of a file or kernel of the package: call the file" in refusal(folder, name)


def test_a_model_that_cannot_be_imported(folder: Path) -> None:
    (folder / MODEL).write_text("def (\n", encoding="utf-8")
    assert "_add_rmsnorm:cost, which a kernel names, cannot be used: SyntaxError" in refusal(folder)


def test_a_model_without_the_function(folder: Path) -> None:
    changed(folder, OWN, "{MODEL}:cost", "{MODEL}:kost")
    assert "_add_rmsnorm:kost, which a kernel names, cannot be used: AttributeError" in refusal(folder)


def test_a_cost_function_that_returns_nothing(folder: Path) -> None:
    changed(folder, MODEL, "    return program_cost(program, gpu)\n", "    program_cost(program, gpu)\n")
    assert "_add_rmsnorm:cost returns NoneType, no Cost: end it with" in refusal(folder)


def test_a_field_that_is_not_declared(folder: Path) -> None:
    changed(folder, FIELDS, "stages =", "# stages =")
    changed(folder, SPACE, '  { name = "stages"', '#  { name = "stages"')
    assert "stages of dse.kernels._add_rmsnorm:Schedule: declare every field" in refusal(folder)


def test_no_declared_fields_and_no_space(folder: Path) -> None:
    fields = (folder / FIELDS).read_text(encoding="utf-8")
    (folder / FIELDS).unlink()
    assert "spaces/add_rmsnorm has no file _fields.toml: declare every field" in refusal(folder)
    (folder / FIELDS).write_text(fields, encoding="utf-8")
    (folder / SPACE).unlink()
    assert "the kernel add_rmsnorm has no space: add spaces/add_rmsnorm/FAMILY.toml" in refusal(folder)


def test_a_run_without_its_kernel_says_where_the_kernel_is_missed(folder: Path) -> None:
    run = str(folder / "run")
    words = ("sweep", "add_rmsnorm", "--shape", "64x64", "--axis", "stages=1", "--out", run, "--quiet")
    assert dse(folder, *words)[0] == 0
    assert dse(folder, "top", run)[0] == 0
    for words in (("top", run), ("explain", run, "0"), ("compare", f"{run}:0", f"{run}:1")):
        code, error = dse(folder / "nowhere", *words)
        assert code == 2
        assert "unknown kernel 'add_rmsnorm'" in error
        assert "one of your own is found in a folder that DSE_PATH names" in error
        assert "damaged" not in error
