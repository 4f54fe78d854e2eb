"""Which GPUs of a measured table are judged, and with which GPU file in whose place: `--gpu NAME[=FILE]`."""

import argparse


def add_table_gpus(parser: argparse.ArgumentParser) -> None:
    """--gpu."""
    parser.add_argument(
        "--gpu",
        action="append",
        metavar="NAME[=FILE]",
        help="only this GPU of the table; =FILE: with another GPU file in its place (may be repeated)",
    )


def gpu_files(arguments: argparse.Namespace) -> dict[str, str] | None:
    """`h100_sxm`, `h200_sxm=mine.toml` -> name in the table -> GPU file; None: all GPUs of the table, each its own."""
    if arguments.gpu is None:
        return None
    return {name: file or name for name, _, file in (text.partition("=") for text in arguments.gpu)}
