"""The pages say what is so: links and files exist, commands parse, the README's Python runs."""

import re
import shlex
from importlib import import_module
from pathlib import Path

import pytest

import dse
from dse.cli import COMMANDS, Parser

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])
FOLDERS = "dse|jaxmodel|tests|scripts|hardware|spaces|studies|docs"


def blocks(page: Path, language: str) -> list[str]:
    """The fenced blocks of that language, indented ones too."""
    return re.findall(rf"^ *```{language}\n(.*?)^ *```", page.read_text(encoding="utf-8"), re.M | re.S)


def joined(block: str) -> str:
    """A block with lines that end in a backslash put together."""
    return re.sub(r"\\\n\s*", " ", block)


def commands(page: Path) -> list[str]:
    """Every `dse ...` of the page's shell blocks, without comments and redirections."""
    lines = (line.partition(" #")[0] for block in blocks(page, "(?:sh)?") for line in joined(block).splitlines())
    parts = (part.strip() for line in lines for part in re.split(r";|&&", line))
    parts = (re.split(r"\s\d?>\s", part)[0] for part in parts)
    return [part.removeprefix(".venv/bin/") for part in parts if re.match(r"(\.venv/bin/)?dse [a-z]", part)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_that_are_named_exist(page: Path) -> None:
    for name in re.findall(rf"`((?:{FOLDERS})/[\w/.-]+\.(?:py|toml|md|csv))`", page.read_text(encoding="utf-8")):
        assert (ROOT / name).is_file(), f"{page.name} names {name}"


def test_the_index_lists_every_page() -> None:
    index = (ROOT / "docs/README.md").read_text()
    assert {page.name for page in ROOT.glob("docs/*.md")} - {"README.md"} == set(
        re.findall(r"\]\(([\w-]+\.md)\)", index)
    )


@pytest.mark.parametrize("page", [page for page in PAGES if commands(page)], ids=lambda page: page.name)
def test_commands_parse(page: Path) -> None:
    for command in commands(page):
        name, *words = shlex.split(command)[1:]
        assert name in COMMANDS, command
        module = import_module(f"dse.cli.{name}")
        parser = Parser(prog=f"dse {name}")
        parser.words = words
        module.add_arguments(parser)
        parser.parse_args(words)  # raises SystemExit, and prints what is wrong


def test_the_readme_names_every_command() -> None:
    named = {command.split()[1] for page in PAGES for command in commands(page)}
    assert named == set(COMMANDS)


@pytest.mark.parametrize("page", [ROOT / "README.md", ROOT / "docs/run-it.md"], ids=lambda page: page.name)
def test_python_runs(page: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    whole = dse.sweep
    monkeypatch.setattr(dse, "sweep", lambda *words, **named: whole(*words, preset="library", **named))
    (code,) = [block for block in blocks(page, "python") if "sweep(" in block]
    exec(code, {})
    assert "latency" in capsys.readouterr().out
