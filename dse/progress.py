"""Progress of long work, passed as an argument: a bar on a terminal, plain lines elsewhere, JSON events, or nothing."""

import json
import math
import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, replace
from typing import Any, Protocol, TextIO, TypeAlias

from .errors import unknown
from .pace import Pace
from .snapshot import Snapshot as Snapshot
from .snapshot import describe as describe
from .snapshot import descriptions as descriptions
from .snapshot import format_duration as format_duration
from .snapshot import format_quantity as format_quantity
from .snapshot import format_rate as format_rate

LINE_INTERVAL_S = 2.0
HEARTBEAT_S = 60.0  # between lines while nothing changes
MODES = ("auto", "bar", "lines", "json", "none")


class Reporter(Protocol):
    """Something that shows snapshots. It gets several a second, the last one with `finished` set."""

    def __call__(self, snapshot: Snapshot, /) -> None:
        """Shows one, or not."""
        ...


Progress: TypeAlias = Callable[[Snapshot], None] | bool | None


def reporter(progress: Progress) -> Reporter:
    """A reporter from the `progress` argument of a public function: None or False is silent, True chooses by terminal,
    and a callable is called with every snapshot; the rate is that of the last seconds."""
    if not progress or progress is _silent:
        return _silent
    if isinstance(progress, Paced):
        return progress
    return Paced(progress if callable(progress) else make_reporter("auto"))


class Paced:
    """Passes snapshots on with the rate of the last seconds (`dse.pace`) in place of the mean since the start.

    Args:
        report: who gets them.
    """

    def __init__(self, report: Callable[[Snapshot], None]) -> None:
        self._report = report
        self._pace = Pace()

    def __call__(self, snapshot: Snapshot) -> None:
        rate = self._pace.rate(snapshot.done, snapshot.seconds)
        if snapshot.finished:
            rate = self._pace.mean() or snapshot.rate
            self._pace = Pace()
        self._report(replace(snapshot, rate=rate))


def is_silent(report: Reporter) -> bool:
    """Whether a reporter shows nothing, so that nothing need be measured for it."""
    return report is _silent


def make_reporter(mode: str, stream: TextIO | None = None) -> Reporter:
    """A reporter by name, writing to `stream` (standard error by default).

    Args:
        mode: "auto" (a bar where the stream is a terminal, else lines), "bar", "lines", "json" or "none".
        stream: where to write.

    Raises:
        UserError: another mode.
    """
    if mode not in MODES:
        raise unknown("progress", mode, MODES)
    where = stream or sys.stderr
    if mode == "auto":
        mode = "bar" if where.isatty() else "lines"
    makers: dict[str, Callable[[TextIO], Reporter]] = {
        "bar": BarReporter,
        "lines": LineReporter,
        "json": JsonReporter,
        "none": lambda _: _silent,
    }
    return makers[mode](where)


class LineReporter:
    """A plain line at most every 2 s, at most once a minute while nothing gets done, and one at the end of work that
    took longer."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._last = time.monotonic()
        self._shown: tuple[Any, ...] | None = None  # what the last line said is done
        self._text = ""

    def __call__(self, snapshot: Snapshot) -> None:
        now, text = time.monotonic(), describe(snapshot)
        state = (snapshot.phase, snapshot.done, snapshot.total)
        if snapshot.finished and self._shown:
            due = text != self._text
        else:
            due = now - self._last >= (HEARTBEAT_S if state == self._shown else LINE_INTERVAL_S)
        if due:
            self._last, self._shown, self._text = now, state, text
            tell(self._stream, text)


class JsonReporter:
    """One JSON object a line, at most every 2 s and once at the end: `{"event": "progress", "done": ...}`."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._last = -LINE_INTERVAL_S

    def __call__(self, snapshot: Snapshot) -> None:
        now = time.monotonic()
        if now - self._last < LINE_INTERVAL_S and not snapshot.finished:
            return
        self._last = now
        content = {name: value for name, value in asdict(snapshot).items() if name != "finished"}
        write_event(self._stream, "finished" if snapshot.finished else "progress", eta_s=snapshot.eta_s, **content)


def write_event(stream: TextIO, event: str, **content: Any) -> None:
    """One event of a program's progress as a line of JSON; numbers that are not finite become null."""
    plain = {name: None if isinstance(at, float) and not math.isfinite(at) else at for name, at in content.items()}
    tell(stream, json.dumps({"event": event, **plain}))


def tell(stream: TextIO, text: str) -> None:
    """Writes a line to somebody who may have gone (a pipe that is closed, a full disk): the work goes on without."""
    try:
        print(text, file=stream, flush=True)
    except OSError:
        silence(stream)


def silence(stream: TextIO) -> None:
    """What is written to a stream leads nowhere from now on, what it still holds included: Python would complain of
    that at its end."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


class BarReporter:
    """A bar with rate, time to go, best so far, the size of the front and its hypervolume."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._bar: Any = None

    def __call__(self, snapshot: Snapshot) -> None:
        try:
            self._draw(snapshot)
        except OSError:
            silence(self._stream)

    def _draw(self, snapshot: Snapshot) -> None:
        if self._bar is None:
            from .progress_bar import rich_bar

            self._bar, self._task = rich_bar(self._stream, lambda: silence(self._stream))
            self._bar.start()
        self._bar.update(self._task, share=snapshot.share, texts=descriptions(snapshot))
        if snapshot.finished:
            self._bar.stop()
            self._bar = None


def _silent(snapshot: Snapshot) -> None:
    pass
