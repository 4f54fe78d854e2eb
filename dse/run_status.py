"""How far the runs and batches in a folder are, read from their files alone."""

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from .batch_status import BatchStatus, batch_status
from .content.files import home_expanded
from .errors import UserError
from .provenance import SCHEMA_VERSION
from .run_files import (
    BATCH_FILE,
    PARTS,
    RUN_FILE,
    STATE_FILE,
    SUMMARY_FILE,
    is_ours,
    is_whole_parquet,
    read_json,
    read_state,
    refuse_layouts,
    writer_of,
)
from .state import Range, SweepState

LONGEST_LINE = 2**20  # of a journal that is looked at
FILES_OF_FINISHED = ("top.parquet", "front.parquet")


@dataclass(frozen=True)
class RunStatus:
    """How far one run is.

    Attributes:
        path: its folder.
        stage: "finished", "running", "unfinished" or "damaged".
        what: kernel, problem, gpu, space, keep: what it is of, as far as known.
        candidates: to be evaluated; None: not known.
        done: of these, how many are covered.
        skipped: of those done, how many were not evaluated because their lower bounds say that they cannot win.
        missing: the ranges of the index that are not, ascending.
        best: the least value of `rank_by` so far; None: none yet.
        rank_by: what is ranked.
        front_points: on the front so far.
        parts: files of rows.
        machines: on what it was computed, in words.
        written: when anything was last written, UTC.
        writer: process that writes into it now; 0: one that cannot be seen from here; None: none.
        command_line: that goes on with it, or makes it again; "": not known.
        problems: what is wrong with the folder, each with its fix.
    """

    path: Path
    stage: str
    what: Mapping[str, Any] = field(default_factory=dict)
    candidates: int | None = None
    done: int = 0
    skipped: int = 0
    missing: tuple[Range, ...] = ()
    best: float | None = None
    rank_by: str = "latency_s"
    front_points: int = 0
    parts: int = 0
    machines: tuple[str, ...] = ()
    written: datetime | None = None
    writer: int | None = None
    command_line: str = ""
    problems: tuple[str, ...] = ()

    @property
    def share(self) -> float | None:
        """Of the candidates, how many are done; None: not known."""
        return self.done / self.candidates if self.candidates else None


def run_status(path: str | os.PathLike[str]) -> list[RunStatus | BatchStatus]:
    """The status of the run or the batch in a folder, or of all in the folders below it, in the order of their names.

    Raises:
        UserError: there is no such folder, or nothing in it; or it is a file, such as the journal of a search.
    """
    where = home_expanded(path)
    if where.is_file():
        raise UserError(_about_file(where))
    if not where.is_dir():
        raise UserError(f"no folder {where}: give one that dse sweep or dse batch wrote (its last lines name it)")
    if (where / BATCH_FILE).exists():
        return [batch_status(where)]
    refuse_layouts(where)
    if _holds_a_run(where):
        return [_status(where)]
    found = sorted({file.parent for name in (RUN_FILE, STATE_FILE, BATCH_FILE) for file in where.rglob(name)})
    if not found:
        raise UserError(
            f"{where} holds no run and no batch, nor do the folders in it: give one that dse sweep or dse batch wrote "
            "with --out"
        )
    return [batch_status(one) if (one / BATCH_FILE).exists() else _status(one) for one in found]


def _about_file(file: Path) -> str:
    with suppress(OSError, ValueError, TypeError, RecursionError), open(file, "rb") as held:
        if "op_code" in json.loads(held.readline(LONGEST_LINE)):  # of an Optuna journal
            return (
                f"{file} is the journal of a search, no folder: optuna-dashboard and optuna.visualization show its "
                f"trials, and the dse search command with --storage {file} goes on with it"
            )
    return f"{file} is a file: give the folder of a run or a batch"


def _holds_a_run(folder: Path) -> bool:
    return any((folder / name).exists() for name in (RUN_FILE, STATE_FILE, SUMMARY_FILE)) or any(folder.glob(PARTS))


def _status(folder: Path) -> RunStatus:
    problems: list[str] = []
    run = _read(folder / RUN_FILE, problems) if (folder / RUN_FILE).exists() else {}
    if not run and not problems:
        problems.append(f"{RUN_FILE} is lost, so nobody knows what it is of: start anew with --overwrite")
    if run and run.get("schema_version") != SCHEMA_VERSION:
        problems.append(
            f"written by another version of tilesweep (format {run.get('schema_version')}, this one has "
            f"{SCHEMA_VERSION}): its tables can be read; to go on, start anew with --overwrite"
        )
    state = _state(folder, problems)
    start, stop = _range(run)
    known = stop is not None
    if state and stop is not None and state.ranges and not start <= state.ranges[0][0] < state.ranges[-1][1] <= stop:
        problems.append(f"{STATE_FILE} is not of the run in {RUN_FILE}: start anew with --overwrite")
    missing = tuple(state.missing(start, stop)) if state and known else ((start, stop),) if known else ()
    complete = known and state is not None and not missing
    if state and known and run.get("keep") == "all":
        problems += _lost_parts(folder, state, start)
    if complete:
        summary = _read(folder / SUMMARY_FILE, problems)
        if summary:
            lost = [name for name in FILES_OF_FINISHED if not is_whole_parquet(folder / name)]
            problems += [f"{name} is lost or damaged: the same command writes it again" for name in lost]
    writer = writer_of(folder)
    made = run.get("made") if isinstance(run.get("made"), dict) else {}
    listed = run.get("machines")
    machines = listed if isinstance(listed, list) else []
    return RunStatus(
        path=folder,
        stage="running" if writer is not None else "damaged" if problems else "finished" if complete else "unfinished",
        what=_what(run, made),
        candidates=stop - start if known else None,
        done=stop - start - sum(end - begin for begin, end in missing) if known else state.evaluated if state else 0,
        skipped=state.skipped if state else 0,
        missing=missing,
        best=float(state.top.values[0]) if state and len(state.top.values) else None,
        rank_by=str(run.get("rank_by", "latency_s")),
        front_points=state.front.candidates if state else 0,
        parts=sum(1 for _ in folder.glob(PARTS)),
        machines=tuple(_machine(entry) for entry in machines),
        written=_written(folder),
        writer=writer,
        command_line=str((made or {}).get("command_line") or ""),
        problems=tuple(problems),
    )


def _lost_parts(folder: Path, state: SweepState, start: int) -> list[str]:
    from .executors.worker import cut
    from .parts import PART_ROWS, part_path

    due = [first for span in state.ranges for first, _ in cut(*span, PART_ROWS, start)]
    lost = sum(not is_whole_parquet(part_path(folder, first)) for first in due)
    return (
        [f"{lost} of {len(due)} files of rows are lost or damaged: the same command writes them again"] if lost else []
    )


def _read(file: Path, problems: list[str]) -> dict[str, Any]:
    try:
        return read_json(file)
    except UserError as error:
        problems.append(str(error))
        return {}


def _state(folder: Path, problems: list[str]) -> SweepState | None:
    try:
        return read_state(folder)
    except UserError as error:
        problems.append(str(error))
        return None


def _range(run: Mapping[str, Any]) -> tuple[int, int | None]:
    try:
        start, stop = run["range"]
        return int(start), int(stop)
    except (KeyError, TypeError, ValueError):
        return 0, None


def _what(run: Mapping[str, Any], made: Any) -> dict[str, Any]:
    names = {"kernel": "kernel", "gpu": "gpu", "space": "space", "objectives": "objectives", "keep": "keep"}
    found = {ours: run[theirs] for ours, theirs in names.items() if theirs in run}
    shape = (made or {}).get("problem_name")
    return found | ({"shape": shape} if shape else {})


def _machine(entry: Any) -> str:
    from .machines import Machine

    try:
        return str(Machine.from_dict(entry))
    except (KeyError, TypeError, ValueError):
        return "a machine that cannot be read"


def _written(folder: Path) -> datetime | None:
    times = [file.stat().st_mtime for file in folder.iterdir() if is_ours(file) and file.exists()]
    return datetime.fromtimestamp(max(times), UTC) if times else None
