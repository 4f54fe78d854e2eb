"""The Ray executor: long-lived actors, each evaluating and reducing ranges of the index by itself."""

import time
from collections import deque
from collections.abc import Iterator

from ..job import SweepJob
from ..platform import usable_cores
from ..state import Range, SweepState
from . import Admit, Notice, PartSink, Tick, anyone, unheard
from .ray_crew import Crew, Worker
from .ray_plan import Plan, local_gpus, make_plan
from .ray_session import Session, asked_address, import_ray, ray_session
from .worker import cut, tasks

WINDOW = 3  # tasks a worker has before it: never idle, and little is lost with it
TASK_CHUNKS = 64  # some tenths of a second: dear enough to outweigh a call, cheap enough to lose
SHARES = 4  # a task is at most this part of what is left for a worker's window: all end together
TICK_S = 0.1
STOP_S = 1.0  # of the two seconds that Ctrl-C may take


class RayExecutor:
    """Sweeps on Ray: a local one that lives as long as the sweep, a cluster, or the one that runs in this process.

    Tasks are ranges, never arrays; what comes back is the range's best and front. A worker that is lost is replaced
    where Ray has room, and what it had before it goes to the others; one that joins later takes its part.

    Args:
        workers: actors; None: one a GPU where Ray has GPUs, else one a core.
        address: of a cluster; None: RAY_ADDRESS, or a local Ray unless one runs in this process.
        gpus: one actor a GPU, or a core; None: see `dse.executors.ray_plan`.

    Attributes:
        done_by: after a run, candidates evaluated by each worker that took part.
    """

    name = "ray"

    def __init__(self, workers: int | None = None, address: str | None = None, gpus: bool | None = None) -> None:
        self.workers = workers or usable_cores()
        self.done_by: dict[str, int] = {}
        self._asked, self._address, self._gpus = workers, address, gpus

    def run(
        self,
        job: SweepJob,
        done: SweepState,
        tick: Tick,
        sink: PartSink | None = None,
        admit: Admit = anyone,
        notice: Notice = unheard,
    ) -> tuple[SweepState, bool]:
        """See `dse.executors.Executor`.

        Raises:
            UserError: a cluster that cannot be reached, or workers that must not take part.
            RayLostError: Ray ended; what was merged has been given to `tick`.
        """
        if not done.missing(job.start, job.end):
            return done, False
        gpus = 0 if asked_address(self._address) else local_gpus(self._gpus)
        with ray_session(self._address, max(self.workers, gpus), gpus) as session:
            plan = make_plan(self._asked, self._gpus)
            self.workers = plan.workers
            run = _Run(session, plan, job, done, sink, admit, notice)
            try:
                return run.until_finished(tick)
            finally:
                self.done_by = run.crew.done_by


class _Run:
    def __init__(
        self,
        session: Session,
        plan: Plan,
        job: SweepJob,
        done: SweepState,
        sink: PartSink | None,
        admit: Admit,
        notice: Notice,
    ) -> None:
        self.ray = import_ray()
        self.session, self.plan, self.job, self.sink = session, plan, job, sink
        self.crew = Crew(plan, job, sink, admit, notice)
        self.state = done
        self.again: deque[Range] = deque()  # lost with a worker
        self.tasks: Iterator[Range] = iter(())
        self.all_given = False

    def until_finished(self, tick: Tick) -> tuple[SweepState, bool]:
        try:
            self.crew.start(self.session, lambda: tick(self.state))
            self.tasks = _tasks(self.job, self.state, self.plan.workers, self.crew.lanes, self.sink)
            self._feed(self.crew.ready * WINDOW)
            while self.crew.busy() or self.again or not self.all_given:
                self.session.check()
                self._step()
                tick(self.state)
            return self.state, False
        except KeyboardInterrupt:
            self._stop()
            return self.state, True
        except self.ray.exceptions.RayError as error:
            if isinstance(error, self.ray.exceptions.RaySystemError) or self.session.silent(now=True):
                raise self.session.lost() from error
            raise
        finally:
            if not self.session.silent(now=True):
                self.crew.dismiss()

    def _step(self) -> None:
        """Waits for one thing to happen, and for what else has happened by then."""
        if self.crew.vacant and not self.session.silent(now=True):
            self.crew.fill()
        waiting = self.crew.waiting()
        if not waiting:  # all workers are lost, and Ray does not answer: it may come back
            time.sleep(TICK_S)
            return
        finished, _ = self.ray.wait(waiting, num_returns=1, timeout=TICK_S)
        if finished:
            finished, _ = self.ray.wait(waiting, num_returns=len(waiting), timeout=0)
        free: list[Worker] = []
        for reference in finished:
            if not self.crew.expects(reference):  # of a worker that was lost a moment ago
                continue
            worker, task = self.crew.take(reference)
            if task is None:
                free += [worker] * WINDOW if self.crew.join(worker, reference) else []
                continue
            found = self.crew.result(worker, reference, task)
            if found is None:
                self.again += self.crew.replace(worker, task)
                continue
            self.state = self.state.merge(found)
            free.append(worker)
        self._feed(free)
        if self.again:
            self._feed(self.crew.idle())

    def _feed(self, workers: list[Worker]) -> None:
        for worker in workers:
            if worker.lost:
                continue
            task = self.again.popleft() if self.again else next(self.tasks, None)
            if task is None:
                self.all_given = True
                return
            self.crew.submit(worker, task, self.state.top.threshold)

    def _stop(self) -> None:
        for worker in self.crew.ready:
            worker.actor.stop.options(concurrency_group="control").remote()
        waiting = [reference for worker in self.crew.ready for reference in worker.tasks]
        finished, _ = self.ray.wait(waiting, num_returns=len(waiting), timeout=STOP_S) if waiting else ([], [])
        for reference in finished:
            worker, task = self.crew.take(reference)
            found = self.crew.result(worker, reference, task) if task else None
            if found is not None:
                self.state = self.state.merge(found)


def _tasks(job: SweepJob, done: SweepState, workers: int, lanes: int, sink: PartSink | None) -> Iterator[Range]:
    """What is left of a job: parts of a fixed length where rows are kept, else tasks that grow shorter towards the end,
    down to one chunk, so that all workers end together."""
    if sink is not None:
        yield from tasks(job, done, sink.part_rows, lanes, scouts=False)
        return
    left = sum(stop - start for start, stop in done.missing(job.start, job.end))
    for start, stop in tasks(job, done, job.candidates, lanes):
        while start < stop:
            chunks = max(1, min(TASK_CHUNKS, left // (SHARES * WINDOW * workers * lanes)))
            first, end = next(cut(start, stop, chunks * lanes, start))
            end = min(end, stop)
            left -= end - first
            yield first, end
            start = end
