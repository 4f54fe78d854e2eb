"""Prints the source files by length and says which are too long to hold one concept.

python scripts/size.py [--limit 400] [FOLDER ...]
"""

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("dse", "jaxmodel", "scripts", "tests")
LIMIT = 400


def sizes(folders: tuple[str, ...] = FOLDERS, root: Path = ROOT) -> list[tuple[int, str]]:
    """(lines, path relative to `root`) of every Python file in the folders, longest first."""
    files = (path for folder in folders for path in (root / folder).rglob("*.py"))
    return sorted(((_lines(path), path.relative_to(root).as_posix()) for path in files), reverse=True)


def main(arguments: list[str] | None = None) -> int:
    """Prints the list; the exit status is 1 if a file is longer than the limit."""
    parser = argparse.ArgumentParser(description="Source files by length, longest first.")
    parser.add_argument("folder", nargs="*", default=list(FOLDERS), help="below the checkout (default: all sources)")
    parser.add_argument("--limit", type=int, default=LIMIT, help=f"lines that are too many past (default: {LIMIT})")
    options = parser.parse_args(arguments)
    found = sizes(tuple(options.folder))
    too_long = [name for lines, name in found if lines > options.limit]
    for lines, name in found:
        print(f"{lines:5d}  {name}{'  <-- too long: two concepts?' if name in too_long else ''}")
    median = found[len(found) // 2][0] if found else 0
    total = sum(lines for lines, _ in found)
    print(f"{total:5d}  lines in {len(found)} files, median {median}; {len(too_long)} past {options.limit}")
    return 1 if too_long else 0


def _lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


if __name__ == "__main__":
    sys.exit(main())
