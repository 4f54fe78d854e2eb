"""The streaming sweep: every schedule of a space evaluated, the best and the exact front kept, nothing else stored."""

import contextlib
import os
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from .errors import UserError, unknown
from .executors import Executor, Notice, PartSink, make_executor, unheard
from .executors.worker import this_machine, write_again
from .front_growth import FrontGrowth
from .histogram import feasible_of, histogram_of, reasons_of
from .job import SweepJob
from .machines import Admission
from .platform import configure_jax
from .progress import Progress, Reporter, Snapshot, is_silent, reporter
from .result import SweepResult
from .rows import evaluate_rows
from .state import SweepState
from .trust import label_of

if TYPE_CHECKING:
    import pandas as pd

    from .run_folder import RunFolder

KEEP = ("best", "all")
CHECKPOINT_S = 1.0  # at least, and
CHECKPOINT_SHARE = 0.01  # of the time, at most, goes into them


def run_sweep(
    job: SweepJob,
    executor: str | Executor = "serial",
    progress: Progress = None,
    *,
    workers: int | None = None,
    address: str | None = None,
    out: str | os.PathLike[str] | None = None,
    keep: str = "best",
    overwrite: bool = False,
    command_line: str = "",
    mix_devices: bool = False,
    notice: Notice = unheard,
) -> SweepResult:
    """Evaluates every schedule of the job's range and returns the best ones and the exact front.

    The result does not depend on the executor, the number of workers or the size of chunks.

    Args:
        job: what to sweep and what to find.
        executor: "serial", "ray", "auto" (`dse.executors.auto`), or an executor of your own.
        progress: None: silent; True: a bar on a terminal, plain lines elsewhere; or a function of `Snapshot`.
        workers: how many; None: one a usable core, or a core of the cluster.
        address: of a Ray cluster, "HOST:PORT" or "auto"; None: `RAY_ADDRESS`, or a Ray of this sweep's own.
        out: run folder for the results as Parquet; None: nothing is written. What it holds of the same run is gone on
            with, and a finished one is returned at once.
        keep: "best": top and front; "all": every evaluated row too, which needs `out`.
        overwrite: replace the run in `out`, once the executor has a worker: until then, and where it gets none, the
            old run stays.
        command_line: how a user would run this again, for the files.
        mix_devices: let machines of several kinds contribute; values then agree to `dse.machines.MIX_TOLERANCE`.
        notice: called with what a user should know meanwhile: that a run is gone on with, that a worker was lost.

    Returns:
        The result. After Ctrl-C (KeyboardInterrupt) the result of what was evaluated, with `incomplete` set; with `out`
        the same call goes on from there, as it does after an error or the end of the process.

    Raises:
        UserError: an unknown executor or `keep`, a folder that is in use, not writable, full or of another run, a
            cluster that cannot be reached or has been lost, machines that do not mix.
    """
    configure_jax()
    runs = make_executor(executor, workers, address, job) if isinstance(executor, str) else executor
    with contextlib.ExitStack() as stack:
        folder = _open_folder(job, out, keep, stack, overwrite, command_line, mix_devices)
        done = folder.state if folder else SweepState.empty(job)
        if folder and folder.continued:
            notice(_going_on(job, folder))
        clock = _Clock(job, done, reporter(progress), folder)
        stack.callback(clock.close)
        begun = done
        interrupted = False
        if job.prune and not done.settled:
            from .bounding import needed_ranges

            try:
                done = done.without(needed_ranges(job, runs.workers, progress).skipped)
            except KeyboardInterrupt:
                interrupted = True
        sink = folder.sink if folder else None
        admission = folder.admission if folder else Admission(mix=mix_devices)
        if folder and sink:
            write_again(job, folder.lost_parts(), sink, admission)
        state = done if interrupted else _run(runs, job, done, clock, sink, admission, notice)
        seconds = clock.finish(state)
        finished = folder is not None and not begun.missing(job.start, job.end)
        held = folder.tables() if folder and finished else None
        if finished and held is None:
            admission(this_machine(job))  # tables that are lost are evaluated here
        top, front = held or _tables(job, state)
        result = _result(job, state, top, front, seconds, state.settled - begun.settled, runs, folder, admission)
        if folder and finished:
            result = replace(result, **folder.how_it_went())
        if folder and folder.untouched and not state.evaluated:  # the run that was to be replaced is still there
            result = replace(result, folder=None)
        elif folder and held is None:
            folder.finish(result, state)
    return result


def _run(
    runs: Executor,
    job: SweepJob,
    done: SweepState,
    clock: "_Clock",
    sink: PartSink | None,
    admission: Admission,
    notice: Notice,
) -> SweepState:
    if not done.missing(job.start, job.end):
        return done
    try:
        return runs.run(job, done, clock.tick, sink, admission, notice)[0]
    except BaseException:  # SIGTERM too, which Ray turns into SystemExit
        with contextlib.suppress(UserError):  # the disk may be full: then the last checkpoint stays
            clock.keep()
        raise


def _going_on(job: SweepJob, folder: "RunFolder") -> str:
    done = folder.state.settled
    if not folder.state.missing(job.start, job.end):
        return f"the run in {folder.path} is finished: nothing is evaluated anew (--overwrite does it again)"
    return f"going on with the run in {folder.path}: {done:,} of {job.candidates:,} points are done"


class _Clock:
    def __init__(self, job: SweepJob, done: SweepState, report: Reporter, folder: "RunFolder | None") -> None:
        self._job, self._done, self._report, self._folder = job, done.evaluated, report, folder
        self._began = time.perf_counter()
        self._next_save = self._began + CHECKPOINT_S
        self._state = self._saved = done
        left = bool(done.missing(job.start, job.end))
        self._growth = FrontGrowth(job, wanted=not is_silent(report), tables=left)

    def tick(self, state: SweepState) -> None:
        self._state = state
        now = time.perf_counter()
        if now > self._next_save:
            self.keep()
            took = time.perf_counter() - now
            self._next_save = now + max(CHECKPOINT_S, took / CHECKPOINT_SHARE)
        self._report(self._snapshot(state, now - self._began))

    def keep(self) -> None:
        """Writes a checkpoint of the state of the last tick, unless that is in the folder."""
        if self._folder and self._state is not self._saved:
            self._folder.checkpoint(self._state)
            self._saved = self._state

    def finish(self, state: SweepState) -> float:
        seconds = time.perf_counter() - self._began
        self._report(self._snapshot(state, seconds, finished=True))
        return seconds

    def close(self) -> None:
        """Waits for what runs beside the sweep."""
        self._growth.close()

    def _snapshot(self, state: SweepState, seconds: float, finished: bool = False) -> Snapshot:
        complete = finished and not state.missing(self._job.start, self._job.end)
        compiling = state.evaluated == self._done and not finished  # no chunk is done yet
        return Snapshot(
            done=state.evaluated,
            total=self._job.candidates - state.skipped,
            seconds=seconds,
            rate=(state.evaluated - self._done) / max(seconds, 1e-9),
            best=float(state.top.values[0]) if len(state.top.values) else None,
            best_name=self._job.rank_by,
            front=len(state.front.positions) if state.evaluated else None,
            finished=finished,
            hypervolume=self._growth.hypervolume(state.front, at_once=complete),
            phase="compiling" if compiling else "evaluating" if self._job.prune else None,
        )


def _open_folder(job: SweepJob, out: Any, keep: str, stack: contextlib.ExitStack, *options: Any) -> "RunFolder | None":
    if keep not in KEEP:
        raise unknown("keep", keep, KEEP)
    if job.prune and keep == "all":
        raise UserError("--prune skips rows that --keep all wants: give one of the two")
    if out is None:
        if keep == "all":
            raise UserError("keep = 'all' writes every row: say where with out (--out FOLDER)")
        return None
    from .run_files import claimed
    from .run_folder import RunFolder

    stack.enter_context(claimed(out, read_only=True))  # a finished run may stand there
    return RunFolder(job, out, keep == "all", *options)


def _tables(job: SweepJob, state: SweepState) -> "tuple[pd.DataFrame, pd.DataFrame]":
    front = evaluate_rows(job, [job.start + int(position) for position in state.front.positions])
    for column, name in enumerate(job.objectives):
        front[name] = state.front.values[:, column]  # the sweep's own bits, whatever the batch they are evaluated in
    top = evaluate_rows(job, [job.start + int(position) for position in state.top.positions])
    top[job.rank_by] = state.top.values
    trust = label_of(job)
    if trust:
        top = top.assign(**trust.columns(top["latency_s"]))
        front = front.assign(**trust.columns(front["latency_s"]))
    return top, front


def _result(
    job: SweepJob,
    state: SweepState,
    top: "pd.DataFrame",
    front: "pd.DataFrame",
    seconds: float,
    settled: int,
    runs: Executor,
    folder: "RunFolder | None",
    admission: Admission,
) -> SweepResult:
    gaps = state.missing(job.start, job.end)
    return SweepResult(
        job=job,
        top=top,
        front=front,
        declared=job.space.size,
        evaluated=state.evaluated,
        skipped=state.skipped,
        feasible=feasible_of(state.counts),
        reasons=reasons_of(state.counts),
        histogram=histogram_of(state.counts),
        top_ties=state.top.ties,
        top_ties_dropped=state.top.ties_dropped,
        front_ties_dropped=state.front.ties_dropped,
        front_points=state.front.candidates,
        seconds=seconds,
        rate=settled / max(seconds, 1e-9),
        incomplete=bool(gaps),
        next_index=gaps[0][0] if gaps else None,
        executor=f"{runs.name} x {runs.workers}",
        folder=str(folder.path) if folder else None,
        trust=label_of(job),
        machines=admission.machines,
    )
