"""How far the batch in a folder is, read from its files alone."""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from .batch_files import part_path, read_question
from .errors import UserError
from .run_files import BATCH_FILE, SUMMARY_FILE, is_whole_parquet, read_json, writer_of


@dataclass(frozen=True)
class BatchStatus:
    """How far one batch is.

    Attributes:
        path: its folder.
        stage: "finished", "running", "unfinished" or "damaged".
        parts, done: files of best schedules, each some seconds of work; and how many of them are there.
        rows: problems asked.
        gpus, kernels: of the question, in order.
        top: schedules kept of each problem; None: not known.
        written: when anything was last written, UTC.
        writer: process that writes into it now; 0: one that cannot be seen from here; None: none.
        command_line: that goes on with it, or makes it again; "": not known.
        problems: what is wrong with the folder, each with its fix.
    """

    path: Path
    stage: str
    parts: int | None = None
    done: int = 0
    rows: int = 0
    gpus: tuple[str, ...] = ()
    kernels: tuple[str, ...] = ()
    top: int | None = None
    written: datetime | None = None
    writer: int | None = None
    command_line: str = ""
    problems: tuple[str, ...] = ()

    @property
    def share(self) -> float | None:
        """Of the parts, how many are done; None: not known."""
        return self.done / self.parts if self.parts else None


def batch_status(folder: Path) -> BatchStatus:
    """The status of the batch in a folder, whatever state its files are in."""
    writer, problems = writer_of(folder), []
    try:
        asked = read_question(folder)
        files = [part_path(folder, name) for name in asked["parts"]]
        rows, gpus = len(asked["rows"]), tuple(map(str, asked["gpus"]))
        kernels = tuple(dict.fromkeys(str(name["kernel"]) for name in asked["parts"]))
    except UserError as error:
        problems.append(str(error))
    except (KeyError, TypeError, ValueError) as error:
        problems.append(f"{folder / BATCH_FILE} is damaged ({error}): start anew with --overwrite")
    if problems:
        stage = "damaged" if writer is None else "running"
        return BatchStatus(folder, stage, written=_written(folder, []), writer=writer, problems=tuple(problems))
    there = [file for file in files if file.exists()]
    whole = [file for file in there if is_whole_parquet(file)]
    if len(whole) < len(there):
        problems.append(
            f"{len(there) - len(whole)} of {len(files)} parts are damaged: the same command writes them again"
        )
    left = len(whole) < len(files) or not (folder / SUMMARY_FILE).exists()
    return BatchStatus(
        path=folder,
        stage="running" if writer is not None else "damaged" if problems else "unfinished" if left else "finished",
        parts=len(files),
        done=len(whole),
        rows=rows,
        gpus=gpus,
        kernels=kernels,
        top=asked.get("top"),
        written=_written(folder, there),
        writer=writer,
        command_line=_command_line(folder, whole),
        problems=tuple(problems),
    )


def _command_line(folder: Path, parts: list[Path]) -> str:
    """As the summary of a finished batch has it, else the last part that was written."""
    from .store import read_provenance

    made = {}
    try:
        if (folder / SUMMARY_FILE).exists():
            made = read_json(folder / SUMMARY_FILE).get("provenance")
        elif parts:
            made = read_provenance(max(parts, key=lambda file: file.stat().st_mtime))
    except (UserError, OSError, ValueError):
        return ""
    return str(made.get("command_line") or "") if isinstance(made, dict) else ""


def _written(folder: Path, parts: list[Path]) -> datetime | None:
    files = [file for file in (folder / BATCH_FILE, folder / SUMMARY_FILE, *parts) if file.exists()]
    return datetime.fromtimestamp(max(file.stat().st_mtime for file in files), UTC) if files else None
