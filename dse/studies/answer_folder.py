"""The folder that a study's answer goes to, and tables in it with units and provenance."""

import hashlib
import itertools
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..content.files import home_expanded
from ..content.study import Study, study_text
from ..errors import UserError
from ..provenance import how_made, model_hash
from ..run_files import ANSWER_FILE

if TYPE_CHECKING:
    import pandas as pd

FILES = ("table.parquet", "totals.parquet", ANSWER_FILE, "study.toml", "figure.svg", "figure.png")


def new_folder(path: str | os.PathLike[str], overwrite: bool = False, files: Sequence[str] = FILES) -> Path:
    """The folder for an answer, made where it is missing. An older answer in it stays until `cleared`.

    Args:
        path: of the folder.
        overwrite: whether an older answer may be replaced.
        files: what an answer consists of.

    Raises:
        UserError: the folder holds something else, or an answer and `overwrite` is not asked for, or cannot be made or
            written to.
    """
    where = home_expanded(path)
    try:
        where.mkdir(parents=True, exist_ok=True)
        held = sorted(entry.name for entry in where.iterdir())
    except OSError as error:
        raise UserError(f"cannot write to {where}: {error.strerror}; choose another folder with --out") from None
    if not os.access(where, os.W_OK | os.X_OK):
        raise UserError(f"cannot write to {where}: Permission denied; choose another folder with --out")
    foreign = [name for name in held if not _own(name, files)]
    if held and (foreign or not overwrite):
        fix = "choose another with --out" if foreign else "choose another with --out, or replace it with --overwrite"
        raise UserError(f"{where} is not empty ({', '.join((foreign or held)[:3])}): {fix}")
    return where


def free_folder(name: str) -> Path:
    """A folder for an answer that nobody named one for: runs/<name>-<time>, with a number where that is taken."""
    wanted = Path("runs") / f"{name}-{datetime.now():%Y%m%d-%H%M%S}"
    taken = (wanted.with_name(f"{wanted.name}-{again}") for again in itertools.count(2))
    return next(path for path in itertools.chain([wanted], taken) if not path.exists())


def cleared(where: Path, files: Sequence[str] = FILES) -> None:
    """Removes an older answer, once the new one is there to take its place.

    Args:
        where: the folder.
        files: what an answer consists of.

    Raises:
        UserError: a file of it cannot be removed.
    """
    try:
        for entry in where.iterdir():
            if _own(entry.name, files):
                entry.unlink()
    except OSError as error:
        raise UserError(f"cannot replace {where}: {error.strerror}; choose another folder with --out") from None


@contextmanager
def without_litter(folders: Sequence[Path]) -> Iterator[None]:
    """Within the block, an error or Ctrl-C takes the folders away again that are still empty."""
    try:
        yield
    except BaseException:
        for folder in folders:
            with suppress(OSError):
                folder.rmdir()
        raise


def _own(name: str, files: Sequence[str]) -> bool:
    return name in files or (name.endswith(".tmp") and name.startswith(tuple(f".{own}." for own in files)))


def study_provenance(study: Study, command_line: str, **more: Any) -> dict[str, Any]:
    """How an answer was made: the study itself, model, versions, command line, time, and what more is given."""
    text = study_text(study)
    return {
        "schema_version": 1,
        "study": text,
        "study_hash": hashlib.sha256(text.encode()).hexdigest(),
        "model_hash": model_hash(),
        "seed": None,
        **how_made(command_line),
        **more,
    }


def write_text(path: Path, text: str) -> None:
    """Writes a text file.

    Raises:
        UserError: it cannot be written.
    """
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}; choose another folder with --out") from None


def records(frame: "pd.DataFrame") -> list[dict[str, Any]]:
    """A table's rows for JSON: every digit of every number; what is missing is null."""
    return [
        {
            str(name): None if isinstance(value, float) and not math.isfinite(value) else value
            for name, value in row.items()
        }
        for row in frame.to_dict("records")
    ]


def write_table(
    path: Path, frame: "pd.DataFrame", described: Callable[[str], tuple[str, str]], made: Mapping[str, Any]
) -> None:
    """Writes a pandas table as Parquet with the unit and meaning of every column and how it was made.

    Args:
        path: .parquet.
        frame: without an index that matters.
        described: column -> (unit, meaning).
        made: for the file's metadata.

    Raises:
        UserError: the file cannot be written.
    """
    import pyarrow as pa

    from ..store import row_writer

    table = pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata(None)
    about = [described(field.name) for field in table.schema]
    fields = [
        field.with_metadata({"unit": unit, "description": meaning})
        for field, (unit, meaning) in zip(table.schema, about, strict=True)
    ]
    table = table.cast(pa.schema(fields))
    with row_writer(path, table.schema, made) as writer:
        writer.write_table(table)
