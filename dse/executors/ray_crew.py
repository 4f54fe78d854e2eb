"""The actors of a sweep on Ray: started, checked, given work, and replaced where one is lost."""

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ..errors import UserError
from ..job import SweepJob
from ..machines import Machine
from ..state import Range, SweepState
from . import Admit, Notice, PartSink
from .ray_plan import Plan
from .ray_session import Session, import_ray
from .ray_worker import Started, make_payload, worker_class

START_S = 60.0  # for the first worker: Ray may have no core free
GATHER_S = 10.0  # after it, for the others: they shall begin together, and be checked before anything is computed
FETCH_S = 30.0  # for a result that another node holds
TICK_S = 0.1
MAX_LOSSES = 3  # of workers, with one range or in starting: then it is no accident


@dataclass
class Worker:
    """An actor.

    Attributes:
        actor: Ray's handle.
        place: node and process.
        tasks: what it has before it, reference of the result -> range, oldest first.
        lost: whether it is out.
    """

    actor: Any
    place: str = ""
    tasks: dict[Any, Range] = field(default_factory=dict)
    lost: bool = False


class Crew:
    """All actors of a sweep.

    Attributes:
        ready: those that work.
        machines: on what they compute.
        done_by: place -> candidates evaluated there.
        vacant: how many are missing.
    """

    def __init__(self, plan: Plan, job: SweepJob, sink: PartSink | None, admit: Admit, notice: Notice) -> None:
        self.ready: list[Worker] = []
        self.machines: set[Machine] = set()
        self.done_by: dict[str, int] = {}
        self._ray = import_ray()
        self._plan, self._admit, self._notice = plan, admit, notice
        self._payload = make_payload(job, sink)
        options: dict[str, Any] = {"num_cpus": 0 if plan.gpus else 1, "num_gpus": plan.gpus}
        remote: Any = self._ray.remote  # its overloads know no concurrency groups
        self._class = remote(max_restarts=0, concurrency_groups={"control": 1}, **options)(worker_class())
        self._starting: dict[Any, Worker] = {}
        self.vacant = plan.workers
        self._losses: Counter[Range | None] = Counter()  # None: in starting

    @property
    def lanes(self) -> int:
        """Candidates of a chunk."""
        return max(machine.chunk_lanes for machine in self.machines)

    def start(self, session: Session, tick: Callable[[], None]) -> None:
        """Starts the actors and waits until those that Ray has room for are ready.

        Raises:
            UserError: none can start, or one must not take part: then nothing has been computed.
        """
        self.fill()
        deadline = time.monotonic() + START_S
        while self._starting and time.monotonic() < deadline:
            finished, _ = self._ray.wait(list(self._starting), timeout=TICK_S)
            for reference in finished:
                first = not self.ready
                self.join(self.take(reference)[0], reference, at_once=True)
                if first and self.ready:
                    deadline = time.monotonic() + GATHER_S
            session.check()
            tick()
            if self.vacant and not session.silent(now=True):
                self.fill()
        if not self.ready:
            has, free = self._ray.cluster_resources(), self._ray.available_resources()
            kind = "GPU" if self._plan.gpus else "CPU"
            raise UserError(
                f"no worker could start within {START_S:.0f} s: Ray has {has.get(kind, 0):.0f} {kind}s, "
                f"{free.get(kind, 0):.0f} of them free. Wait until it has room, or ask for fewer with --workers"
            )

    def fill(self) -> None:
        """Starts an actor for each one that is missing; Ray starts it once it has room."""
        while self.vacant:
            self.vacant -= 1
            worker = Worker(self._class.remote())
            self._starting[worker.actor.start.remote(self._payload)] = worker

    def waiting(self) -> list[Any]:
        """References of all that is expected: results, and starts."""
        return [*self._starting, *(reference for worker in self.ready for reference in worker.tasks)]

    def expects(self, reference: Any) -> bool:
        """Whether it is one of `waiting` still."""
        return reference in self._starting or any(reference in worker.tasks for worker in self.ready)

    def busy(self) -> bool:
        """Whether a result is expected."""
        return any(worker.tasks for worker in self.ready)

    def idle(self) -> list[Worker]:
        """Who has nothing before it."""
        return [worker for worker in self.ready if not worker.tasks]

    def take(self, reference: Any) -> tuple[Worker, Range | None]:
        """Whose reference it is, and for which range; None: for its start."""
        if reference in self._starting:
            return self._starting.pop(reference), None
        worker = next(worker for worker in self.ready if reference in worker.tasks)
        return worker, worker.tasks.pop(reference)

    def join(self, worker: Worker, reference: Any, at_once: bool = False) -> bool:
        """Takes a worker in whose start has ended.

        Args:
            worker, reference: who, and what its start returned.
            at_once: nothing has been computed yet: one that must not take part ends the run; else it is left out,
                unless no other is there.

        Returns:
            whether it takes part.
        """
        try:
            started = self._ray.get(reference)
        except self._ray.exceptions.RayTaskError as error:
            raise _cause(error) from None
        except self._ray.exceptions.RayActorError:
            self._count_loss(None)
            self.vacant += 1
            return False
        try:
            self._check(started)
        except UserError as error:
            self._ray.kill(worker.actor)
            if at_once or not (self.ready or self._starting or self.vacant):
                raise
            self._notice(f"a worker is left out: {error}")
            return False
        worker.place = started.place
        self.machines.add(started.machine)
        self.done_by.setdefault(worker.place, 0)
        self.ready.append(worker)
        self._losses[None] = 0
        return True

    def submit(self, worker: Worker, task: Range, threshold: float) -> None:
        """Gives a worker a range; `threshold` as in `RangeWorker.sweep`."""
        worker.tasks[worker.actor.sweep.remote(task, threshold)] = task

    def result(self, worker: Worker, reference: Any, task: Range) -> SweepState | None:
        """What a range has brought; None where the worker was lost with it.

        Raises:
            UserError: what the worker could not do, e.g. write on a full disk.
        """
        exceptions = self._ray.exceptions
        try:
            found = self._ray.get(reference, timeout=FETCH_S)
        except exceptions.RayTaskError as error:
            raise _cause(error) from None
        except exceptions.RaySystemError:
            raise
        except exceptions.RayError:
            return None
        self.done_by[worker.place] += found.evaluated
        return found

    def replace(self, worker: Worker, task: Range) -> list[Range]:
        """Gives up a worker that was lost with this task.

        Returns:
            What has to be done again: all that it had before it.
        """
        lost = [task, *worker.tasks.values()]
        worker.lost = True
        worker.tasks.clear()
        self.ready.remove(worker)
        self.vacant += 1
        self._notice(f"a worker is lost ({worker.place}): its work is done again, nothing else is")
        self._count_loss(task)
        return lost

    def dismiss(self) -> None:
        """Ends all actors."""
        for worker in [*self.ready, *self._starting.values()]:
            self._ray.kill(worker.actor)

    def _check(self, started: Started | str) -> None:
        if isinstance(started, str):
            raise UserError(f"{started}; install the same version as here on every node")
        if started.trouble:
            raise UserError(
                f"the worker on {started.place} cannot take part: {started.trouble}. Results would not mix: install "
                "the same on every node (pip install -c constraints.txt)"
            )
        if started.machine is not None:
            self._admit(started.machine)

    def _count_loss(self, task: Range | None) -> None:
        self._losses[task] += 1
        losses = self._losses[task]
        why = "(killed, out of memory, or a crash of jax)"
        if task is None and losses >= MAX_LOSSES + self._plan.workers:
            raise UserError(f"{losses} workers have ended as they started {why}: fewer may fit, with --workers")
        if task is not None and losses >= MAX_LOSSES:
            raise UserError(f"the range {task[0]} to {task[1]} of the index has ended {losses} workers {why}")


def _cause(error: Any) -> BaseException:
    """What a worker raised, as it was raised there."""
    return error.cause if isinstance(error.cause, Exception) else error
