"""Runs a measurement by its name: the commands behind the speeds that the README and the pages state.

python scripts/bench.py                         # the names, and what each measures
python scripts/bench.py NAME [ARGUMENT ...]     # scripts/bench_NAME.py with these arguments; --help says which it has
python scripts/bench.py ray rate

Every measurement has its baseline in the same run. Core-seconds are processor time: on a machine that does other work
too, they say what seconds would be without it.
"""

import ast
import difflib
import os
import sys
from collections.abc import Sequence
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parent
PREFIX = "bench_"
OTHERS = ("kill_runs",)  # measures what survives, not how fast


def benches() -> dict[str, Path]:
    """Name -> script of every measurement."""
    named = {path.stem.removeprefix(PREFIX): path for path in sorted(SCRIPTS.glob(f"{PREFIX}*.py"))}
    return named | {name: SCRIPTS / f"{name}.py" for name in OTHERS}


def about(script: Path) -> str:
    """The first line of a script's text about itself."""
    return (ast.get_docstring(ast.parse(script.read_text(encoding="utf-8"))) or "").partition("\n")[0]


def listing() -> str:
    """The names with what each measures, a line each."""
    found = benches()
    width = max(map(len, found))
    lines = [f"{name:<{width}}  {about(script)}" for name, script in found.items()]
    return "\n".join(["python scripts/bench.py NAME [ARGUMENT ...], where NAME is one of", "", *lines])


def main(words: Sequence[str]) -> int:
    """Lists the measurements, or becomes the process that measures."""
    if not words or words[0] in ("-h", "--help"):
        print(listing())
        return 0
    found = benches()
    if words[0] not in found:
        near = difflib.get_close_matches(words[0], found, n=1)
        meant = f"; did you mean {near[0]!r}?" if near else ""
        print(f"bench: unknown measurement {words[0]!r}; known: {', '.join(found)}{meant}", file=sys.stderr)
        return 2
    os.execv(sys.executable, [sys.executable, str(found[words[0]]), *words[1:]])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
