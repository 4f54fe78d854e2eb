"""Progress as people and programs see it: lines at most every two seconds, JSON events, a bar, or silence."""

import io
import json

import pytest

from dse import progress
from dse.progress import Snapshot, describe, format_quantity, make_reporter, reporter

HALF = Snapshot(done=500, total=1000, seconds=2.0, rate=2.5e7, best=1.2345e-3, best_name="latency_s", front=17)
DONE = Snapshot(1000, 1000, 4.0, 2.5e7, 1.2e-3, "latency_s", 20, finished=True)


@pytest.fixture
def clock(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def test_a_line_says_rate_time_to_go_best_and_front():
    snapshot = Snapshot(25_000_000, 100_000_000, 1.0, 2.5e7, 1.2345e-3, "latency_s", 17)
    text = "25,000,000 of 100,000,000 (25.0 %), 25.0 M/s, 3 s to go, best latency 1.234 ms, front 17"
    assert describe(snapshot) == text
    assert describe(Snapshot(0, 1000, 1.0, 0.0, None, "latency_s", 0)) == "0 of 1,000 (0.0 %), compiling, front 0"
    assert describe(Snapshot(0, 1000, 1.0, 0.0, None, "latency_s", None)) == "0 of 1,000 (0.0 %), compiling"
    assert "compiling" not in describe(Snapshot(1000, 1000, 1.0, 0.0, None, "latency_s", 0, finished=True))
    assert "to go" not in describe(DONE)
    assert "best" not in describe(Snapshot(0, 10, 0.0, 0.0, None, "latency_s", 0))


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("latency_s", 2.0, "latency 2 s"),
        ("latency_s", 1.5e-3, "latency 1.5 ms"),
        ("latency_s", 1.5e-6, "latency 1.5 us"),
        ("latency_s", 1.5e-8, "latency 15 ns"),
        ("ddr_bytes", 1.5e9, "ddr_bytes 1.5e+09"),
    ],
)
def test_quantities_carry_their_unit(name, value, text):
    assert format_quantity(name, value) == text


def test_lines_come_at_most_every_two_seconds_and_short_work_prints_none(clock):
    stream = io.StringIO()
    lines = make_reporter("auto", stream)  # not a terminal
    for _ in range(25):
        clock[0] += 0.1
        lines(HALF)
    assert stream.getvalue().count("\n") == 1
    lines(DONE)
    assert stream.getvalue().count("\n") == 2
    short = io.StringIO()
    make_reporter("lines", short)(DONE)
    assert short.getvalue() == ""


def test_json_events_are_one_object_a_line(clock):
    stream = io.StringIO()
    events = make_reporter("json", stream)
    events(HALF)
    events(HALF)
    events(DONE)
    first, last = map(json.loads, stream.getvalue().splitlines())
    assert first["event"] == "progress"
    assert first["done"] == 500
    assert first["eta_s"] == pytest.approx(2e-5)
    assert last["event"] == "finished"
    assert last["front"] == 20


def test_a_bar_on_a_terminal():
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    stream = Terminal()
    bar = make_reporter("auto", stream)
    bar(HALF)
    bar(DONE)
    assert "1,000 of 1,000 (100.0 %), 25.0 M/s" in stream.getvalue()


def test_silent_unless_asked(capsys):
    for quiet in (reporter(None), reporter(False), make_reporter("none")):
        quiet(HALF)
        quiet(DONE)
    assert capsys.readouterr() == ("", "")
    seen = []
    reporter(seen.append)(HALF)
    assert seen == [HALF]
