"""The house: which way imports run, what stands where, and how little `dse --help` needs to load."""

import ast
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parent.parent
TOP_LEVEL = {
    "pyproject.toml", "README.md", "dse", "jaxmodel", "spaces", "hardware", "studies", "tests", "scripts",
    "docs", ".ci", "constraints.txt", "LICENSE", "NOTICE", "CONTRIBUTING.md", ".gitignore",
}  # fmt: skip
HEAVY = ("jax", "ray", "optuna", "pandas", "pyarrow", "scipy", "matplotlib")

# Layers of dse, lowest first. What is not named is the engine. Words are what every layer speaks in.
WORDS = {"errors", "axis", "restrict", "space", "decode", "platform"}
CONTENT = {"content"}
ABOVE_ENGINE = {"studies", "validation", "report", "export", "calibrate"}
TOP = {"cli", "__main__"}
LAYERS = ("words", "content", "engine", "studies, validation, calibrate, report, export", "cli")


def test_jaxmodel_imports_only_arrays() -> None:
    allowed = {"numpy", "jax", "jaxtyping"} | sys.stdlib_module_names
    for path in _sources("jaxmodel"):
        for line, module in _imports(path):
            if not module.startswith("jaxmodel"):
                assert module.split(".")[0] in allowed, f"{_where(path, line)} imports {module}"


def test_the_layers_of_dse_import_downwards_only() -> None:
    wrong = [
        f"{_where(path, line)}: {LAYERS[_layer(_module(path))]} imports {module} ({LAYERS[_layer(module)]})"
        for path in _sources("dse")
        if _module(path) != "dse"
        for line, module in _imports(path)
        if module.split(".")[0] == "dse" and _layer(module) > _layer(_module(path))
    ]
    assert not wrong, "\n".join(wrong)


def test_no_module_of_the_package_imports_its_front() -> None:
    """`from dse import sweep` is for users: inside the package it would tie every module to every other."""
    wrong = [
        _where(path, line)
        for path in _sources("dse")
        for line, module in _imports(path)
        if module == "dse" and _layer(_module(path)) < LAYERS.index("cli")
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("package", ["dse", "jaxmodel"])
def test_modules_do_not_import_each_other_in_a_circle(package: str) -> None:
    arrows = {_module(path): set() for path in _sources(package)}
    for path in _sources(package):
        arrows[_module(path)] |= {module for _, module in _imports(path, lazy=False) if module in arrows}
    circle = _circle(arrows)
    assert not circle, " -> ".join(circle)


def test_every_import_is_a_declared_dependency() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = {Requirement(line).name for line in project["dependencies"]}
    known = names | {"dse", "jaxmodel"} | sys.stdlib_module_names
    for package in ("dse", "jaxmodel"):
        for path in _sources(package):
            for line, module in _imports(path):
                assert module.split(".")[0] in known, f"{_where(path, line)} imports {module}: not in pyproject.toml"


def test_content_holds_no_python() -> None:
    found = [path for folder in ("hardware", "spaces", "studies") for path in (ROOT / folder).rglob("*.py*")]
    assert not found


def test_oracles_are_for_tests_only() -> None:
    for package in ("dse", "jaxmodel"):
        for path in _sources(package):
            for line, module in _imports(path):
                assert not module.startswith(("tests", "oracles")), _where(path, line)


def test_top_level_holds_what_a_repository_needs_and_no_more() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout")
    assert {name.split("/")[0] for name in listed.stdout.split("\n") if name} <= TOP_LEVEL


def test_no_source_file_is_too_long() -> None:
    run = subprocess.run([sys.executable, "scripts/size.py"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, "\n".join(line for line in run.stdout.splitlines() if "too long" in line)


@pytest.mark.parametrize(
    "start", ["import dse", "import sys; sys.argv = ['dse', '--help']; from dse.cli import main; sys.exit(main())"]
)
def test_help_and_import_load_nothing_heavy(start: str) -> None:
    code = f"import atexit, sys; atexit.register(lambda: print('LOADED', *sys.modules)); {start}"
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    loaded = run.stdout.rpartition("LOADED ")[2].split()
    assert "dse" in loaded
    assert not set(HEAVY) & set(loaded)


def _sources(package: str) -> list[Path]:
    return sorted((ROOT / package).rglob("*.py"))


def _module(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def _where(path: Path, line: int) -> str:
    return f"{path.relative_to(ROOT)}:{line}"


def _imports(path: Path, lazy: bool = True) -> Iterator[tuple[int, str]]:
    """(line, module) of every import; without the lazy ones only those that run when the module is imported."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    package = _module(path).split(".") if path.name == "__init__.py" else _module(path).split(".")[:-1]
    for node in ast.walk(tree) if lazy else _run_at_import(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            stem = ".".join([*base, *([node.module] if node.module else [])])
            for alias in node.names:  # `from . import worker` means the module worker
                inner = f"{stem}.{alias.name}"
                yield node.lineno, inner if _is_module(inner) else stem


def _run_at_import(tree: ast.AST) -> Iterator[ast.AST]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        yield node
        yield from _run_at_import(node)


def _is_module(name: str) -> bool:
    path = ROOT.joinpath(*name.split("."))
    return path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()


def _layer(module: str) -> int:
    room = module.partition(".")[2].split(".")[0]
    for layer, rooms in enumerate((WORDS, CONTENT, None, ABOVE_ENGINE, TOP)):
        if rooms and room in rooms:
            return layer
    return LAYERS.index("engine")


def _circle(arrows: dict[str, set[str]]) -> list[str]:
    finished: set[str] = set()

    def follow(module: str, trail: list[str]) -> list[str]:
        if module in trail:
            return [*trail[trail.index(module) :], module]
        if module in finished:
            return []
        for target in sorted(arrows[module]):
            if circle := follow(target, [*trail, module]):
                return circle
        finished.add(module)
        return []

    return next((circle for module in sorted(arrows) if (circle := follow(module, []))), [])
