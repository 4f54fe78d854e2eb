"""Ctrl-C: the run ends within two seconds, whatever it is at, and what is finished is kept.

A sweep stops by itself at the next chunk and writes its tables. Where that takes too long (XLA is compiling, a disk is
slow), a watchdog saves the state that `--resume` goes on from and ends the process.
"""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from . import EXIT_INTERRUPTED

GRACE_S = 1.5


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

    def run(self, job: Any, done: Any, tick: Callable[[Any], None], sink: Any = None) -> tuple[Any, bool]:
        """See `dse.executors.Executor`."""

        def remember(state: Any) -> None:
            self.state = state
            tick(state)

        self.state = done
        return self._executor.run(job, done, remember, sink)

    def save(self, folder: Path) -> bool:
        """Keeps the latest state in a run's folder; false where there is nothing to keep."""
        from ..run_folder import RUN_FILE, STATE_FILE

        if self.state is None or not self.state.evaluated or not (folder / RUN_FILE).exists():
            return False
        unfinished = folder / f".{STATE_FILE}.{os.getpid()}.watchdog.tmp"
        unfinished.write_bytes(self.state.to_bytes())
        os.replace(unfinished, folder / STATE_FILE)
        return True


@contextmanager
def ends_soon(executor: Watched, folder: Path, how_to_go_on: str) -> Iterator[None]:
    """Within the block, Ctrl-C raises KeyboardInterrupt as always, and `GRACE_S` later the process ends in any case.

    Args:
        executor: whose state is worth keeping.
        folder: of the run.
        how_to_go_on: the command that resumes it.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    watchdogs: list[threading.Timer] = []

    def interrupted(number: int, frame: Any) -> None:
        if not watchdogs:
            watchdogs.append(threading.Timer(GRACE_S, end))
            watchdogs[0].daemon = True
            watchdogs[0].start()
            signal.default_int_handler(number, frame)
        end()

    def end() -> None:
        kept = executor.save(folder)
        print(message(folder if kept else None, how_to_go_on), file=sys.stderr, flush=True)
        os._exit(EXIT_INTERRUPTED)

    before = signal.signal(signal.SIGINT, interrupted)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        for watchdog in watchdogs:
            watchdog.cancel()


def message(kept: Path | None, how_to_go_on: str) -> str:
    """What a user reads after Ctrl-C."""
    if kept is None:
        return f"dse: interrupted before anything was finished. To start again:\n  {how_to_go_on}"
    return f"dse: interrupted; what is finished is kept in {kept}. To go on:\n  {how_to_go_on}"
