"""The files of a batch's folder: where a part stands, and what was asked. Nothing is imported that evaluating needs."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .errors import UserError
from .run_files import BATCH_FILE, read_json

BEST = "best"


def part_path(folder: Path, name: Mapping[str, Any]) -> Path:
    """Where the file of that name (`gpu`, `kernel`, `number`) stands."""
    return folder / BEST / f"gpu={name['gpu']}" / f"kernel={name['kernel']}" / f"part-{name['number']:05}.parquet"


def read_question(path: Path) -> dict[str, Any]:
    """What the batch in a folder asked.

    Raises:
        UserError: there is none, or its file is damaged.
    """
    file = path / BATCH_FILE
    if not file.exists():
        raise UserError(f"{path} holds no batch (no {BATCH_FILE}): give the folder that dse batch wrote")
    content = read_json(file)
    lacking = [name for name in ("rows", "gpus", "parts") if not content.get(name)]
    if lacking:
        raise UserError(f"{file} is damaged (no {', '.join(lacking)}): start anew with --overwrite")
    return content
