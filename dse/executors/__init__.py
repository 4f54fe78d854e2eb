"""How a sweep's chunks are spread over workers: one interface, and the executors by name."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeAlias

import numpy as np

from ..errors import unknown
from ..job import SweepJob
from ..state import SweepState

Tick: TypeAlias = Callable[[SweepState], None]
EXECUTORS = ("serial", "ray")


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

    def run(self, job: SweepJob, done: SweepState, tick: Tick, sink: PartSink | None = None) -> tuple[SweepState, bool]:
        """Sweeps `job`, except for the ranges in `done`.

        Args:
            job: what to sweep.
            done: what is known already.
            tick: called from this thread a few times a second with the state so far.
            sink: where all rows go; None: only survivors are kept.

        Returns:
            The state, and whether a KeyboardInterrupt ended the run early; what was finished is in the state.
        """
        ...


def make_executor(name: str, workers: int | None = None, **options: Any) -> Executor:
    """The executor of that name.

    Args:
        name: "serial" or "ray".
        workers: how many; None: one a usable core.
        options: `device` (serial) or `address` (ray).

    Raises:
        UserError: an unknown name.
    """
    if name == "serial":
        from .serial import SerialExecutor

        return SerialExecutor(workers, **options)
    if name == "ray":
        from .ray import RayExecutor

        return RayExecutor(workers, **options)
    raise unknown("executor", name, EXECUTORS)
