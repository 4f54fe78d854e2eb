"""What a user installs: a wheel that holds the content and works outside the checkout, and versions that fit."""

import os
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    build = "import sys; from hatchling.build import build_wheel; print(build_wheel(sys.argv[1]))"
    run = subprocess.run([sys.executable, "-c", build, str(folder)], cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return folder / run.stdout.split()[-1]


@pytest.fixture(scope="module")
def unpacked(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("unpacked")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def test_the_wheel_holds_all_code_and_content_and_nothing_else(unpacked: Path) -> None:
    expected = {path.relative_to(ROOT) for package in ("dse", "jaxmodel") for path in _files(ROOT / package)}
    for folder in ("hardware", "spaces", "studies"):
        expected |= {Path("dse/_content") / path.relative_to(ROOT) for path in _files(ROOT / folder)}
    found = {path.relative_to(unpacked) for path in _files(unpacked)}
    found = {path for path in found if not path.parts[0].endswith(".dist-info")}
    assert {str(path) for path in found} == {str(path) for path in expected}


def test_the_wheel_carries_licence_and_command(unpacked: Path) -> None:
    info = next(unpacked.glob("tilesweep-*.dist-info"))
    assert "dse = dse.cli:main" in (info / "entry_points.txt").read_text()
    assert {"LICENSE", "NOTICE"} <= {path.name for path in info.rglob("*")}
    metadata = (info / "METADATA").read_text()
    assert "License-Expression: Apache-2.0" in metadata
    assert "Name: tilesweep" in metadata


@pytest.mark.parametrize(
    "code",
    [
        "from dse.content import list_gpus, load_gpu; print(load_gpu('h200_sxm').title, list_gpus())",
        "from dse.content.space import list_spaces, load_space; load_space('gemm', 'wgmma'); print(list_spaces())",
        "import sys; sys.argv = ['dse', 'gpus']; from dse.cli import main; sys.exit(main())",
    ],
)
def test_the_wheel_works_outside_the_checkout(unpacked: Path, tmp_path: Path, code: str) -> None:
    start = f"import sys; sys.path.insert(0, {str(unpacked)!r}); import dse; print(dse.__file__); {code}"
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "DSE_PATH")}
    run = subprocess.run(
        [sys.executable, "-c", start], cwd=tmp_path, capture_output=True, text=True, env=environment, timeout=120
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.startswith(str(unpacked))
    assert "h200" in run.stdout.lower() or "wgmma" in run.stdout


def test_constraints_pin_every_requirement_within_its_range() -> None:
    project = PROJECT["project"]
    lines = [*PROJECT["build-system"]["requires"], *project["dependencies"]]
    lines += [line for extra in project["optional-dependencies"].values() for line in extra]
    pins = _pins()
    for python in ("3.11.7", "3.12.1", "3.13.0"):
        environment = {"python_version": python[:4], "python_full_version": python, "sys_platform": "linux"}
        for required in map(Requirement, lines):
            fitting = [pin for pin in pins if canonicalize_name(pin.name) == canonicalize_name(required.name)]
            fitting = [pin for pin in fitting if pin.marker is None or pin.marker.evaluate(environment)]
            assert len(fitting) == 1, f"{required.name} on Python {python}: {len(fitting)} pins in constraints.txt"
            version = str(fitting[0].specifier).removeprefix("==")
            assert required.specifier.contains(version), f"{required} but {version} in constraints.txt"


def test_constraints_are_exact_and_name_no_host() -> None:
    for pin in _pins():
        assert str(pin.specifier).startswith("=="), pin
        assert pin.url is None
    assert "://" not in (ROOT / "constraints.txt").read_text()


def test_jax_versions_that_compute_wrong_numbers_are_refused() -> None:
    (jax,) = [required for required in map(Requirement, PROJECT["project"]["dependencies"]) if required.name == "jax"]
    assert not jax.specifier.contains("0.10.2")
    assert not jax.specifier.contains("0.11.0")
    assert jax.specifier.contains("0.10.1")


def test_the_readme_has_the_commands_that_ci_runs() -> None:
    readme = (ROOT / "README.md").read_text()
    for name in ("sweep", "tests"):
        assert readme.count(f"\n<!-- ci: {name} -->\n```sh\n") == 1, name


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc"]


def _pins() -> list[Requirement]:
    lines = (line.partition("#")[0].strip() for line in (ROOT / "constraints.txt").read_text().splitlines())
    return [Requirement(line) for line in lines if line]
