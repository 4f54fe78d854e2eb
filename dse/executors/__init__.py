"""How a sweep's chunks are spread over workers: one interface, and the executors by name."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol, TypeAlias

import numpy as np

from ..errors import UserError, unknown
from ..job import SweepJob
from ..machines import Machine
from ..state import SweepState

Tick: TypeAlias = Callable[[SweepState], None]
Admit: TypeAlias = Callable[[Machine], None]
Notice: TypeAlias = Callable[[str], None]
EXECUTORS = ("auto", "serial", "ray")
MOST_WORKERS = {"serial": 1024, "ray": 2**16}  # threads of a process; actors of a cluster


def anyone(machine: Machine) -> None:
    """Admits every machine."""


def unheard(text: str) -> None:
    """Tells nobody."""


class Part(Protocol):
    """A file of rows being written; it takes its final name only where the block ends without an error."""

    def add(self, columns: dict[str, np.ndarray]) -> None:
        """The next rows: schedule fields and cost columns."""
        ...


class PartSink(Protocol):
    """Where an executor's workers leave all rows, one part a task. Picklable."""

    @property
    def part_rows(self) -> int:
        """Rows of one part."""
        ...

    def on(self, machine: Machine) -> "PartSink":
        """The same for a worker on such a machine: its parts say so."""
        ...

    def part(self, start: int) -> AbstractContextManager[Part]:
        """The part whose first row has the index `start`."""
        ...


class Executor(Protocol):
    """Evaluates what is missing of a job.

    Every executor returns the same state, whatever its workers: chunks are compiled from one spec and states merge
    exactly in any order.
    """

    @property
    def name(self) -> str:
        """As on the command line."""
        ...

    @property
    def workers(self) -> int:
        """How many chunks run at once."""
        ...

    def run(
        self,
        job: SweepJob,
        done: SweepState,
        tick: Tick,
        sink: PartSink | None = None,
        admit: Admit = anyone,
        notice: Notice = unheard,
    ) -> tuple[SweepState, bool]:
        """Sweeps `job`, except for the ranges in `done`.

        Args:
            job: what to sweep.
            done: what is known already.
            tick: called from this thread a few times a second with the state so far.
            sink: where all rows go; None: only survivors are kept.
            admit: called with every worker's machine before anything of it counts; raises UserError where it must not
                contribute.
            notice: called with what a user should know meanwhile, a sentence.

        Returns:
            The state, and whether a KeyboardInterrupt ended the run early; what was finished is in the state.
        """
        ...


def make_executor(
    name: str, workers: int | None = None, address: str | None = None, job: SweepJob | None = None
) -> Executor:
    """The executor of that name.

    Args:
        name: "serial", "ray", or "auto": the one that is sooner done with `job` (`dse.executors.auto`).
        workers: how many; None: one a usable core, or a core of the cluster.
        address: of a Ray cluster; None: `RAY_ADDRESS`, or a local Ray.
        job: what it will run.

    Raises:
        UserError: an unknown name, an address that is empty or where no Ray is asked for, or no such number of workers.
    """
    if name not in EXECUTORS:
        raise unknown("executor", name, EXECUTORS)
    if address is not None and not address.strip():
        raise UserError(f"--address {address!r} is empty: give HOST:PORT of a cluster's head, or auto, or leave it out")
    if name == "serial" and address:
        raise UserError(f"--address {address} is a Ray cluster's: it needs --executor ray or auto, not serial")
    if name == "auto":
        from .auto import choose

        name = choose(job, workers, address)
    if workers is not None and not 1 <= workers <= MOST_WORKERS[name]:
        raise UserError(f"--workers {workers}: {name} takes 1 to {MOST_WORKERS[name]:,}")
    if name == "serial":
        from .serial import SerialExecutor

        return SerialExecutor(workers)
    from .ray import RayExecutor

    return RayExecutor(workers, address)
