"""Progress of work that tunes many kernels one after the other: one bar for all of them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..progress import Reporter
    from ..snapshot import Snapshot


@contextmanager
def one_progress(report: "Reporter") -> "Iterator[Callable[[Snapshot], None]]":
    """A progress function within which the end of one kernel's tuning is not the end of all; the end is told once."""
    last: list[Snapshot] = []

    def told(snapshot: "Snapshot") -> None:
        last[:] = [replace(snapshot, finished=False, phase="tuning kernels")]
        report(last[0])

    yield told
    if last:
        report(replace(last[0], finished=True))
