"""What is different around this process while it works with Ray: signals, output, where programs find `dse`."""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def terminable() -> Iterator[None]:
    """Within the block SIGTERM, a batch system's farewell, is SystemExit: the sweep keeps what it has. Ray would print
    where each thread stands, and abort; and where it waits it makes another SystemExit of ours, with the code 1."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    code = 128 + signal.SIGTERM
    told: list[int] = []

    def terminated(number: int, frame: Any) -> None:
        told.append(number)
        sys.exit(code)

    before = signal.signal(signal.SIGTERM, terminated)
    try:
        yield
    except BaseException as error:
        ended_as = error.code if isinstance(error, SystemExit) else None
        by_ray = ended_as == signal.SIGTERM  # from the handler that Ray puts in the place of this one as it starts
        if (told or by_ray) and ended_as != code:
            raise SystemExit(code) from error
        raise
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def unsaid(ray: Any) -> Iterator[None]:
    """Within the block Ray's reports (a node that died, the last lines of its log) do not come out on standard output,
    where JSON may be expected; what matters of them is said by the sweep."""
    module = ray._private.worker
    before = getattr(module, "print_to_stdstream", None)
    module.print_to_stdstream = lambda *_, **__: None
    try:
        yield
    finally:
        if before is not None:
            module.print_to_stdstream = before


@contextmanager
def silenced() -> Iterator[None]:
    """Within the block nothing comes out on standard error: Ray's own libraries write there that they try again."""
    sys.stderr.flush()
    before = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(before, 2)
        os.close(before)
        os.close(nowhere)


@contextmanager
def importable_in_workers() -> Iterator[None]:
    """Programs that are started inside find `dse` where this process has found it, installed or not."""
    before = os.environ.get("PYTHONPATH")
    home = str(Path(__file__).resolve().parents[2])
    os.environ["PYTHONPATH"] = os.pathsep.join([home, *([before] if before else [])])
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before
