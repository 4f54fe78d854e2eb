"""Ctrl-C: the command ends within two seconds, whatever it is at, and what is finished is kept.

While chunks are swept, Ctrl-C is Python's KeyboardInterrupt: the sweep stops at the next chunk and writes its tables.
Anywhere else (imports of compiled modules do not survive an exception at any point) it ends the process at once. Where
a sweep takes too long to stop, because XLA is compiling, or where the exception is lost, because Python drops what is
raised in a callback of its garbage collector, a watchdog ends the process. Before that, what a sweep has found is
saved, so that the same command goes on from there.
"""

import os
import select
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from ..errors import UserError
from . import EXIT_INTERRUPTED

GRACE_S = 1.5
_raising: list[bool] = []  # not empty: Ctrl-C is a KeyboardInterrupt
_on_end: list[Callable[[], str]] = []  # what to do before the process ends; gives the last words


def guard() -> None:
    """Makes Ctrl-C in this process what this module says; the watchdog is a thread that learns of it even while the
    main thread cannot."""
    told, tell = os.pipe()
    os.set_blocking(tell, False)
    signal.set_wakeup_fd(tell, warn_on_full_buffer=False)
    signal.signal(signal.SIGINT, _interrupted)
    threading.Thread(target=_watch, args=(told,), daemon=True).start()


@contextmanager
def stoppable() -> Iterator[None]:
    """Within the block, Ctrl-C raises KeyboardInterrupt. Import compiled modules before it."""
    _raising.append(True)
    try:
        yield
    finally:
        _raising.pop()


def _interrupted(number: int, frame: Any) -> None:
    if _raising:
        signal.default_int_handler(number, frame)
    _end()


def _watch(told: int) -> None:
    while True:
        if signal.SIGINT in os.read(told, 1):
            select.select([told], [], [], GRACE_S)  # a second Ctrl-C ends the wait
            _end()


def _end() -> NoReturn:
    words = _on_end[-1]() if _on_end else "dse: interrupted"
    print(words, file=sys.stderr, flush=True)
    os._exit(EXIT_INTERRUPTED)


class Watched:
    """An executor that remembers the latest state, for the watchdog.

    Args:
        executor: the one that does the work.
    """

    def __init__(self, executor: Any) -> None:
        self._executor = executor
        self.state: Any = None

    @property
    def name(self) -> str:
        """The executor's."""
        return self._executor.name

    @property
    def workers(self) -> int:
        """The executor's."""
        return self._executor.workers

    def run(self, job: Any, done: Any, tick: Callable[[Any], None], *more: Any) -> tuple[Any, bool]:
        """See `dse.executors.Executor`."""

        def remember(state: Any) -> None:
            self.state = state
            tick(state)

        import jax  # noqa: F401

        if self.name == "ray":
            from ..executors.ray_session import import_ray

            import_ray()
        self.state = done
        with stoppable():
            self.state, interrupted = self._executor.run(job, done, remember, *more)
        return self.state, interrupted

    def save(self, folder: Path) -> bool:
        """Keeps the latest state in a run's folder; false where there is nothing to keep."""
        from ..run_files import RUN_FILE, STATE_FILE

        if self.state is None or not self.state.evaluated or not (folder / RUN_FILE).exists():
            return False
        unfinished = folder / f".{STATE_FILE}.{os.getpid()}.watchdog.tmp"
        try:
            unfinished.write_bytes(self.state.to_bytes())
            os.replace(unfinished, folder / STATE_FILE)
        except OSError:  # a full disk: the last checkpoint stays
            return (folder / STATE_FILE).exists()
        return True


@contextmanager
def keeps(executor: Watched, folder: Path, how_to_go_on: str) -> Iterator[None]:
    """Within the block, the executor's state is saved before Ctrl-C ends the process, and an error that ends the run
    (a full disk, a Ray that was lost) says how to go on.

    Args:
        executor: whose state is worth keeping.
        folder: of the run.
        how_to_go_on: the command that resumes it.
    """
    from ..run_files import STATE_FILE

    def last_words() -> str:
        return message(folder if executor.save(folder) else None, how_to_go_on)

    _on_end.append(last_words)
    try:
        yield
    except UserError as error:
        if executor.state is None or not executor.state.evaluated or not (folder / STATE_FILE).exists():
            raise
        kept = f"what is finished is kept in {folder}. To go on:\n  {how_to_go_on}"
        raise UserError(f"{error}; {kept}") from error
    finally:
        _on_end.remove(last_words)


def message(kept: Path | None, how_to_go_on: str) -> str:
    """What a user reads after Ctrl-C."""
    if kept is None:
        return f"dse: interrupted before anything was finished. To start again:\n  {how_to_go_on}"
    return f"dse: interrupted; what is finished is kept in {kept}. To go on:\n  {how_to_go_on}"
