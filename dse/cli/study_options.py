"""Options of commands whose answer is a folder: what-ifs and studies."""

import argparse

from .options import add_output


def add_answer(parser: argparse.ArgumentParser) -> None:
    """--out, --overwrite, --no-figure, --json, --quiet."""
    group = parser.add_argument_group("the answer")
    group.add_argument("--out", metavar="DIR", help="folder of the answer (default: runs/<name>-<time>)")
    group.add_argument("--overwrite", action="store_true", help="replace the answer in --out")
    group.add_argument("--no-figure", action="store_true", help="no figure")
    add_output(parser)
