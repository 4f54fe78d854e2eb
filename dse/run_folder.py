"""The folder of one run: results, every row where asked for, and what is needed to go on after an interrupt."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .content.files import home_expanded
from .errors import UserError
from .machines import MIX_TOLERANCE, Admission, Machine
from .parts import PartFolder, part_path
from .provenance import differences, identity, provenance
from .read_run import read_run
from .run_files import (
    RUN_FILE,
    STATE_FILE,
    SUMMARY_FILE,
    UNFINISHED,
    is_ours,
    make_writable,
    read_json,
    read_state,
    remove_run,
    remove_unfinished,
    replace_file,
    write_json,
)
from .state import SweepState
from .store import as_table, count_rows, write_rows
from .trust import label_of

if TYPE_CHECKING:
    import pandas as pd

    from .job import SweepJob
    from .result import SweepResult


class RunFolder:
    """A run's folder, opened for writing.

    Files: `top.parquet`, `front.parquet`, `summary.json` (counts, histogram, provenance), `rows-<index>.parquet` where
    every row is kept, `run.json` (what run this is, what it was computed on, how to run it again) and `state.npz` (what
    has been done). What the folder holds of the same run is gone on with; a finished one is read where nothing can be
    written, too.

    Args:
        job: what is swept.
        path: the folder; made where it does not exist.
        keep_all: whether every row is written.
        overwrite: remove the run that the folder holds, as soon as a worker of the new one is there.
        command_line: how a user would run this again.
        mix_devices: whether machines of several kinds may contribute.

    Attributes:
        state: what has been done.
        admission: which machines may contribute; those that have are kept in `run.json`.
        continued: whether the folder held something of this run.

    Raises:
        UserError: the folder cannot be written, holds something else or another run, or its files are damaged.
    """

    def __init__(
        self,
        job: "SweepJob",
        path: str | os.PathLike[str],
        keep_all: bool = False,
        overwrite: bool = False,
        command_line: str = "",
        mix_devices: bool = False,
    ) -> None:
        self.path = home_expanded(path)
        self._job, self._keep_all = job, keep_all
        self._identity = identity(job) | {"keep": "all" if keep_all else "best"}
        self._provenance = provenance(job, command_line)
        read_only = _why_not_writable(self.path)
        held = sorted(file for file in self.path.iterdir() if not file.match(UNFINISHED))
        self._check_ours(held, overwrite)
        self.continued = bool(held) and not overwrite
        self._replaces = bool(held) and overwrite  # until something of the new run is there
        before = self._held() if self.continued else ()
        self.state = (read_state(self.path) if self.continued else None) or SweepState.empty(job)
        if not self.state.fits(job):
            raise UserError(f"{self.path / STATE_FILE} is not of the run in {RUN_FILE}: start anew with --overwrite")
        self.admission = Admission(before, mix_devices, f"the run in {self.path}", self._write_run_file)
        if read_only and not (self.continued and not self.state.missing(job.start, job.end)):
            raise read_only
        if self.continued and not read_only:
            remove_unfinished(self.path)
        elif not held:
            self._write_run_file(())

    @property
    def sink(self) -> PartFolder | None:
        """Where every row goes; None where only the best are kept."""
        if not self._keep_all:
            return None
        job = self._job
        return PartFolder(self.path, job.space, self._provenance, trust=label_of(job), columns=job.row_columns)

    def checkpoint(self, state: SweepState) -> None:
        """Keeps what has been done so far; of a run that replaces another, from its first worker on."""
        if self.untouched and not state.evaluated:
            return
        self._make_room()
        replace_file(self.path / STATE_FILE, state.to_bytes())

    @property
    def untouched(self) -> bool:
        """Whether the folder still holds the run that this one is to replace."""
        return self._replaces

    def finish(self, result: "SweepResult", state: SweepState) -> None:
        """Writes the results, complete or not."""
        self.checkpoint(state)
        summary = summarize(result)
        made = self._provenance | self._computed_on()
        big_index = self._job.space.size > 2**64
        for name, rows in (("top", result.top), ("front", result.front)):
            columns = {str(column): rows[column] for column in rows}
            write_rows(
                self.path / f"{name}.parquet",
                as_table(columns, big_index, self._job.space.kernel),
                made | {"summary": summary},
            )
        write_json(self.path / SUMMARY_FILE, summary | {"provenance": made})

    def _computed_on(self) -> dict[str, Any]:
        machines = [machine.to_dict() for machine in self.admission.machines]
        return {"machines": machines} | (machines[0] if len(machines) == 1 else {})

    def tables(self) -> "tuple[pd.DataFrame, pd.DataFrame] | None":
        """Best and front of the complete run that the folder holds, as they were written; None where they are lost or
        damaged."""
        try:
            held = read_run(self.path)
        except UserError:
            return None
        return None if held.summary["incomplete"] else (held.top, held.front)

    def how_it_went(self) -> dict[str, Any]:
        """Seconds, rate and executor of the complete run that the folder holds; nothing where its summary is lost."""
        try:
            held = read_json(self.path / SUMMARY_FILE)
            if held["incomplete"]:
                return {}
            return {"seconds": held["seconds"], "rate": held["candidates_per_s"], "executor": held["executor"]}
        except (UserError, KeyError):
            return {}

    def _check_ours(self, held: list[Path], overwrite: bool) -> None:
        if not held or self.path / RUN_FILE in held:
            return
        if not any(is_ours(file) for file in held):
            raise UserError(
                f"the folder {self.path} is not empty and holds no run of tilesweep (no {RUN_FILE}): choose another "
                "with --out"
            )
        if not (overwrite and all(is_ours(file) for file in held)):
            raise UserError(
                f"the run in {self.path} has lost its {RUN_FILE}, so nobody knows what it is of: replace it with "
                "--overwrite, or choose another folder with --out"
            )

    def _held(self) -> tuple[Machine, ...]:
        held = read_json(self.path / RUN_FILE)
        changed = differences(held, self._identity)
        if changed:
            raise UserError(
                f"the run in {self.path} is another one, results would not mix: {'; '.join(changed)}; use another "
                "folder with --out, or --overwrite"
            )
        return machines_in(self.path / RUN_FILE, held)

    def _make_room(self) -> None:
        if self._replaces:
            self._write_run_file(())

    def _write_run_file(self, machines: tuple[Machine, ...]) -> None:
        if self._replaces:
            remove_run(self.path)
            self._replaces = False
        made = {name: value for name, value in self._provenance.items() if name not in self._identity}
        run = self._identity | {"machines": [machine.to_dict() for machine in machines], "made": made}
        write_json(self.path / RUN_FILE, run)

    def lost_parts(self) -> list[tuple[int, int]]:
        """Ranges of parts that should be there, but are missing or damaged: to be written again."""
        from .executors.worker import cut

        sink = self.sink
        if sink is None:
            return []
        due = [part for span in self.state.ranges for part in cut(*span, sink.part_rows, self._job.start)]
        return [(start, stop) for start, stop in due if count_rows(part_path(self.path, start)) != stop - start]


def _why_not_writable(path: Path) -> UserError | None:
    try:
        make_writable(path)
    except UserError as error:
        if not path.is_dir():
            raise
        return error
    return None


def machines_in(file: Path, run: dict[str, Any]) -> tuple[Machine, ...]:
    """The machines that a `run.json` names.

    Raises:
        UserError: it is damaged.
    """
    try:
        return tuple(Machine.from_dict(held) for held in run["machines"])
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{file} is damaged (machines: {error}): start anew with --overwrite") from error


def summarize(result: "SweepResult") -> dict[str, Any]:
    """The numbers of a result, as JSON has them; indices as text, for they may pass 2^53."""
    return {
        "declared": str(result.declared),
        "evaluated": result.evaluated,
        "skipped": result.skipped,
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
        "machines": [machine.to_dict() for machine in result.machines],
        "tolerance": MIX_TOLERANCE if len(result.machines) > 1 else 0.0,
        "incomplete": result.incomplete,
        "next_index": None if result.next_index is None else str(result.next_index),
        "how_to_go_on": "the same command" if result.incomplete else None,
    }
