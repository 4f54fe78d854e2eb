"""The folder of one run: results, every row where asked for, and what is needed to go on after an interrupt."""

import json
import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile

from .content.files import home_expanded
from .errors import UserError
from .parts import PartFolder, part_path
from .provenance import differences, identity, provenance
from .state import SweepState
from .store import as_table, count_rows, read_rows, write_rows
from .trust import TrustLabel, label_of

if TYPE_CHECKING:
    import pandas as pd

    from .job import SweepJob
    from .result import SweepResult

RUN_FILE = "run.json"  # made first: marks the folder as ours and says of what run it is
STATE_FILE = "state.npz"
SUMMARY_FILE = "summary.json"
SHOWN_RUNS = 12
SUMMARY_KEYS = ("evaluated", "feasible", "reasons", "histogram", "top_rows", "top_ties_dropped", "front_points",
                "front_rows", "front_ties_dropped", "incomplete", "provenance")  # fmt: skip
PROVENANCE_KEYS = ("gpu", "gpu_hash", "model_hash", "objectives", "problem", "problem_name", "space", "space_hash")
OURS = (RUN_FILE, STATE_FILE, SUMMARY_FILE, "top.parquet", "front.parquet", "report.html")


class RunFolder:
    """A run's folder, opened for writing.

    Files: `top.parquet`, `front.parquet`, `summary.json` (counts, histogram, provenance), `rows-<index>.parquet` where
    every row is kept, `run.json` (what run this is) and `state.npz` (what has been done).

    Args:
        job: what is swept.
        path: the folder; made where it does not exist.
        keep_all: whether every row is written.
        resume: go on with what the folder holds; an empty folder starts anew.
        overwrite: remove the run that the folder holds.
        command_line: how a user would run this again.

    Raises:
        UserError: the folder cannot be written, holds something else or another run, or its files are damaged.
    """

    def __init__(
        self,
        job: "SweepJob",
        path: str | os.PathLike[str],
        keep_all: bool = False,
        resume: bool = False,
        overwrite: bool = False,
        command_line: str = "",
    ) -> None:
        self.path = home_expanded(path)
        self._job, self._keep_all = job, keep_all
        self._identity = identity(job) | {"keep": "all" if keep_all else "best"}
        self._provenance = provenance(job, command_line)
        _make_writable(self.path)
        used = any(self.path.iterdir())
        if used and not (resume or overwrite):
            raise UserError(
                f"the folder {self.path} is not empty: choose another with --out, go on with its run with --resume, or "
                "replace it with --overwrite"
            )
        if used and not (self.path / RUN_FILE).exists():
            raise UserError(
                f"the folder {self.path} holds no run of tilesweep (no {RUN_FILE}): choose another with --out"
            )
        if used and overwrite:
            _remove_run(self.path)
            used = False
        self.state = self._resumed() if used else SweepState.empty(job)
        if not used:
            _write_json(self.path / RUN_FILE, self._identity)

    @property
    def sink(self) -> PartFolder | None:
        """Where every row goes; None where only the best are kept."""
        if not self._keep_all:
            return None
        return PartFolder(self.path, self._job.space, self._provenance, trust=label_of(self._job))

    def checkpoint(self, state: SweepState) -> None:
        """Keeps what has been done so far."""
        _replace(self.path / STATE_FILE, state.to_bytes())

    def finish(self, result: "SweepResult", state: SweepState) -> None:
        """Writes the results, complete or not."""
        self.checkpoint(state)
        summary = summarize(result)
        made = self._provenance | {"summary": summary}
        big_index = self._job.space.size > 2**64
        for name, rows in (("top", result.top), ("front", result.front)):
            columns = {str(column): rows[column] for column in rows}
            write_rows(self.path / f"{name}.parquet", as_table(columns, big_index, self._job.space.kernel), made)
        _write_json(self.path / SUMMARY_FILE, summary | {"provenance": self._provenance})

    def _resumed(self) -> SweepState:
        changed = differences(_read_json(self.path / RUN_FILE), self._identity)
        if changed:
            raise UserError(
                f"the run in {self.path} is another one, results would not mix: {'; '.join(changed)}; use another "
                "folder with --out, or --overwrite"
            )
        file = self.path / STATE_FILE
        if not file.exists():
            return SweepState.empty(self._job)
        try:
            return SweepState.from_bytes(file.read_bytes())
        except (OSError, ValueError, KeyError, EOFError, BadZipFile) as error:
            raise UserError(f"{file} is damaged ({error}): start anew with --overwrite") from error

    def lost_parts(self) -> list[tuple[int, int]]:
        """Ranges of parts that should be there, but are missing or damaged: to be written again."""
        from .executors.worker import cut

        sink = self.sink
        if sink is None:
            return []
        due = [part for span in self.state.ranges for part in cut(*span, sink.part_rows, self._job.start)]
        return [(start, stop) for start, stop in due if count_rows(part_path(self.path, start)) != stop - start]


@dataclass(frozen=True)
class Run:
    """What a run folder holds.

    Attributes:
        path: the folder.
        top, front: the tables as `SweepResult` has them.
        summary: counts, histogram, ties, `incomplete`, and `provenance`.
    """

    path: Path
    top: "pd.DataFrame"
    front: "pd.DataFrame"
    summary: dict[str, Any]

    @property
    def trust(self) -> TrustLabel | None:
        """The label of the tables' intervals; None where they have none."""
        label = self.summary["provenance"].get("trust")  # older runs have none
        return TrustLabel.from_dict(label) if label else None


@contextmanager
def claimed(path: str | os.PathLike[str]) -> Iterator[None]:
    """Makes a folder where it does not exist, and within the block keeps other processes from writing a run into it.

    Raises:
        UserError: the folder cannot be written, or another process is at it.
    """
    import fcntl

    where = home_expanded(path)
    _make_writable(where)
    handle = os.open(where, os.O_RDONLY)
    try:
        with suppress(OSError):  # file systems without locks, some network ones: then nobody keeps watch
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise UserError(
                    f"another process writes a run into the folder {where}: wait for it, or choose another with --out"
                ) from None
        yield
    finally:
        os.close(handle)


def read_run(path: str | os.PathLike[str]) -> Run:
    """The results in a run folder.

    Raises:
        UserError: there are none, or a file is damaged.
    """
    path = home_expanded(path)
    if not (path / SUMMARY_FILE).exists():
        runs = sorted(file.parent.name for file in path.glob(f"*/{SUMMARY_FILE}"))
        if runs:
            raise UserError(_holds_runs(path, runs))
        raise UserError(f"{path} holds no finished run (no {SUMMARY_FILE}): run dse sweep with --out {path} first")
    summary = _read_json(path / SUMMARY_FILE)
    _check_summary(path / SUMMARY_FILE, summary)
    tables = {name: _table(path, name, summary) for name in ("top", "front")}
    return Run(path, tables["top"], tables["front"], summary)


def summarize(result: "SweepResult") -> dict[str, Any]:
    """The numbers of a result, as JSON has them; indices as text, for they may pass 2^53."""
    return {
        "declared": str(result.declared),
        "evaluated": result.evaluated,
        "feasible": result.feasible,
        "reasons": result.reasons,
        "histogram": [{"from_s": low, "to_s": high, "count": n} for low, high, n in result.histogram.nonempty()],
        "top_rows": len(result.top),
        "top_ties": result.top_ties,
        "top_ties_dropped": result.top_ties_dropped,
        "front_points": result.front_points,
        "front_rows": len(result.front),
        "front_ties_dropped": result.front_ties_dropped,
        "seconds": result.seconds,
        "candidates_per_s": result.rate,
        "executor": result.executor,
        "incomplete": result.incomplete,
        "next_index": None if result.next_index is None else str(result.next_index),
        "how_to_go_on": "the same command with --resume" if result.incomplete else None,
    }


def _check_summary(file: Path, summary: dict[str, Any]) -> None:
    made = summary.get("provenance")
    missing = [name for name in SUMMARY_KEYS if name not in summary]
    if not isinstance(made, dict):
        missing = missing or ["provenance"]
    else:
        missing += [f"provenance.{name}" for name in PROVENANCE_KEYS if name not in made]
    if missing:
        raise UserError(f"{file} is damaged (no {', '.join(missing)}): start anew with --overwrite")


def _table(path: Path, name: str, summary: dict[str, Any]) -> "pd.DataFrame":
    file = path / f"{name}.parquet"
    table = read_rows(file).to_pandas()
    missing = [column for column in ("index", *summary["provenance"]["objectives"]) if column not in table]
    if missing or len(table) != summary[f"{name}_rows"]:
        what = f"no column {missing[0]}" if missing else f"{len(table)} rows, not {summary[f'{name}_rows']}"
        raise UserError(f"{file} is not the table that {SUMMARY_FILE} speaks of ({what}): start anew with --overwrite")
    return table


def _holds_runs(path: Path, runs: list[str]) -> str:
    shown = [str(path / name) for name in runs[:SHOWN_RUNS]]
    more = [f"{len(runs) - SHOWN_RUNS} more"] if len(runs) > SHOWN_RUNS else []
    return (
        f"{path} holds {len(runs)} run{'s' if len(runs) > 1 else ''}: {', '.join([*shown, *more])}; "
        f"give one of these folders in place of {path}, e.g. dse top {shlex.quote(shown[0])}"
    )


def _make_writable(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
        probe = path / ".tilesweep-probe"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise UserError(f"cannot write into the folder {path}: {error.strerror}; choose another with --out") from error


def _remove_run(path: Path) -> None:
    for file in (*(path / name for name in OURS), *path.glob("rows-*.parquet"), *path.glob(".*.tmp")):
        file.unlink(missing_ok=True)


def _replace(path: Path, data: bytes) -> None:
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        unfinished.write_bytes(data)
        os.replace(unfinished, path)
    except OSError as error:
        unfinished.unlink(missing_ok=True)
        raise UserError(f"cannot write {path}: {error.strerror}; make room or choose another folder") from error


def _write_json(path: Path, content: dict[str, Any]) -> None:
    _replace(path, json.dumps(content, indent=1).encode())


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_bytes())
        if not isinstance(content, dict):
            raise ValueError(f"a {type(content).__name__}, not an object")
        return content
    except (OSError, ValueError) as error:
        raise UserError(f"{path} is damaged ({error}): start anew with --overwrite") from error
