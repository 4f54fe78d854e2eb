"""Progress as people and programs see it: lines at most every two seconds, JSON events, a bar, or silence."""

import argparse
import dataclasses
import io
import json
import os

import pytest
from cli_run import SHAPE, TINY, answer
from hypothesis import given
from hypothesis import strategies as st

from dse import progress
from dse.cli import COMMANDS
from dse.cli.options import add_output, progress_mode, progress_of, say_of
from dse.errors import UserError
from dse.pace import Pace
from dse.progress import (
    Snapshot,
    describe,
    descriptions,
    format_duration,
    format_quantity,
    format_rate,
    is_silent,
    make_reporter,
    reporter,
)
from dse.progress_bar import fitted

SWEEP = ("sweep", "gemm", "--shape", SHAPE, *TINY)

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
    assert describe(Snapshot(0, 1000, 1.0, 0.0, None, "latency_s", 0)) == "compiling: 0 of 1,000 (0.0 %), front 0"
    assert describe(Snapshot(0, 1000, 1.0, 0.0, None, "latency_s", None)) == "compiling: 0 of 1,000 (0.0 %)"
    bounding = Snapshot(0, 1000, 1.0, 0.0, None, "latency_s", None, phase="bounding")
    assert describe(bounding) == "bounding: 0 of 1,000 (0.0 %)"
    assert describe(dataclasses.replace(DONE, rate=0.0)) == "1,000 of 1,000 (100.0 %), best latency 1.2 ms, front 20"
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


def test_a_line_that_says_nothing_new_comes_once_a_minute(clock):
    stream = io.StringIO()
    lines = make_reporter("lines", stream)
    for _ in range(1300):  # 130 s in which the rate sinks and nothing gets done
        clock[0] += 0.1
        lines(dataclasses.replace(HALF, rate=1e9 / (clock[0] - 100.0)))
    assert stream.getvalue().count("\n") == 3
    lines(dataclasses.replace(HALF, done=600))
    assert stream.getvalue().count("\n") == 4
    for _ in range(3):
        lines(DONE)
    assert stream.getvalue().count("\n") == 5


def test_more_than_all_is_all_and_takes_no_negative_time():
    shared = dataclasses.replace(HALF, done=70, total=64)  # trials of a study that two processes share
    assert (shared.share, shared.eta_s) == (1.0, 0.0)
    assert describe(shared).startswith("70 of 64 (100.0 %), 25.0 M/s, best")
    nearly = dataclasses.replace(HALF, done=99_999, total=100_000)
    assert describe(nearly).startswith("99,999 of 100,000 (99.9 %), ")


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


def test_json_events_hold_no_numbers_that_json_lacks():
    stream = io.StringIO()
    make_reporter("json", stream)(dataclasses.replace(DONE, best=float("inf"), hypervolume=0.5, rate=0.0))
    (event,) = map(json.loads, stream.getvalue().splitlines())
    assert event == {
        **{"event": "finished", "done": 1000, "total": 1000, "seconds": 4.0, "rate": 0.0, "eta_s": None},
        **{"best": None, "best_name": "latency_s", "front": 20, "hypervolume": 0.5, "phase": None},
    }


@pytest.mark.parametrize(
    ("rate", "text"), [(2.5e7, "25.0 M/s"), (1.5e5, "0.1 M/s"), (3100.0, "3.1 k/s"), (8.25, "8.2/s"), (0.5, "0.5/s")]
)
def test_rates_of_slow_work_are_not_nought(rate, text):
    assert format_rate(rate) == text


@pytest.mark.parametrize(("seconds", "text"), [(3.2, "3 s"), (119.0, "119 s"), (720.0, "12 min"), (9000.0, "2.5 h")])
def test_durations(seconds, text):
    assert format_duration(seconds) == text


def test_a_phase_is_named_where_there_are_several(clock):
    bounding = dataclasses.replace(HALF, phase="bounding")
    assert describe(bounding) == f"bounding: {describe(HALF)}"
    for mode, told in (("lines", "bounding: 500 of 1,000"), ("json", '"phase": "bounding"')):
        stream = io.StringIO()
        clock[0] += 3.0
        show = make_reporter(mode, stream)
        clock[0] += 3.0
        show(bounding)
        show(dataclasses.replace(bounding, finished=True))
        assert told in stream.getvalue(), mode


def test_the_hypervolume_is_shown_where_there_is_one():
    assert describe(dataclasses.replace(HALF, hypervolume=0.87654)).endswith("front 17, hypervolume 87.65 %")
    assert "hypervolume" not in describe(HALF)


def options(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_output(parser)
    return parser.parse_args(words)


def test_the_options_choose_a_mode():
    assert progress_mode(options()) == "auto"
    assert progress_mode(options("--quiet")) == progress_mode(options("--progress", "none")) == "none"
    assert progress_mode(options("--quiet", "--progress", "none")) == "none"
    assert progress_mode(options("--progress", "json")) == "json"
    assert progress_mode(options("--json"), silent=True) == "none"
    assert progress_mode(options("--json", "--progress", "lines"), silent=True) == "lines"
    assert is_silent(progress_of(options("--quiet")))
    assert not is_silent(progress_of(options("--progress", "json")))


def test_options_that_make_no_sense():
    with pytest.raises(UserError, match="unknown progress 'jsn'; known: auto, bar, json, lines, none; did you mean 'j"):
        progress_mode(options("--progress", "jsn"))
    with pytest.raises(UserError, match="--quiet and --progress json contradict each other: leave one out"):
        progress_mode(options("--quiet", "--progress", "json"))
    with pytest.raises(UserError, match="unknown progress 'loud'; known: auto, bar, json, lines, none"):
        make_reporter("loud")


def test_what_is_said_follows_the_mode(capsys):
    for words in ((), ("--progress", "json"), ("--quiet",)):
        say_of(options(*words))("space gemm/wgmma")
    line, event = capsys.readouterr().err.splitlines()
    assert line == "space gemm/wgmma"
    assert json.loads(event) == {"event": "note", "text": "space gemm/wgmma"}


@pytest.mark.parametrize("command", [*COMMANDS])
def test_every_command_that_can_be_quiet_takes_progress(command, capsys):
    code, told, _ = answer(capsys, command, "--help")
    assert code == 0
    assert ("--quiet" in told) == ("--progress" in told)


def test_events_of_a_sweep(tmp_path, capsys):
    code, out, err = answer(capsys, *SWEEP, "--out", str(tmp_path / "run"), "--json", "--progress", "json")
    assert code == 0
    events = [json.loads(line) for line in err.splitlines()]
    assert events[0]["event"] == "note"
    assert events[-1]["event"] == "finished"
    assert events[-1]["done"] == json.loads(out)["evaluated"] == events[-1]["total"]
    assert 0.0 < events[-1]["hypervolume"] < 1.0
    assert events[-1]["best"] == pytest.approx(json.loads(out)["top"][0]["latency_s"])


def test_a_bar_on_a_terminal():
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    stream = Terminal()
    bar = make_reporter("auto", stream)
    bar(HALF)
    bar(DONE)
    bar(dataclasses.replace(DONE, phase="evaluating"))
    assert "━━━━━━━━━━ 1,000 of 1,000 (100.0 %), 25.0 M/s" in stream.getvalue()
    assert "evaluating: 1,000 of 1,000" in stream.getvalue()


def test_on_a_narrow_terminal_the_bar_goes_first_then_counts_then_words():
    snapshot = Snapshot(12_582_912, 30_965_760, 9.0, 2.49e7, 1.764e-4, "latency_s", 412, False, 0.5366, "evaluating")
    texts = descriptions(snapshot)
    assert texts[0] == describe(snapshot)
    assert fitted(0.4, texts, len(texts[0]) + 11) == f"━━━━────── {texts[0]}"
    assert fitted(0.4, texts, len(texts[0]) + 4) == f"━── {texts[0]}"
    assert fitted(0.4, texts, len(texts[0])) == texts[0]
    last = "evaluating: 40.6 %, 24.9 M/s, 1 s to go, best 176.4 us, front 412, HV 53.66 %"
    assert fitted(0.4, texts, 80, ("=", "-")) == last
    assert fitted(0.4, texts, 20) == last[:20]


def test_the_rate_is_of_the_last_ten_seconds_and_does_not_count_compilation():
    pace = Pace()
    assert [pace.rate(0, second) for second in (0.0, 30.0)] == [0.0, 0.0]
    assert pace.rate(100, 60.0) == 0.0  # the first chunk: nobody knows how long it took beside compilation
    assert pace.rate(300, 62.0) == 100.0
    for second in range(63, 80):
        rate = pace.rate(300 + 10 * (second - 62), second)
    assert rate == 10.0
    assert pace.mean() == pytest.approx(370 / 19)
    waits = [pace.rate(470, second) for second in (80.0, 90.0, 120.0)]
    assert waits == sorted(waits, reverse=True)
    assert waits[-1] > 0.0
    assert pace.rate(0, 121.0) == 0.0  # other work


@given(st.lists(st.tuples(st.integers(0, 50), st.floats(0.01, 30.0)), min_size=1, max_size=40))
def test_the_rate_equals_that_of_all_observations_looked_through(steps):
    pace, done, seconds, progress = Pace(), 0, 0.0, []
    pace.rate(0, 0.0)
    for more, took in steps:
        done, seconds = done + more, seconds + took
        progress += [(seconds, done)] if more else []
        found = pace.rate(done, seconds)
        old = [at for at in progress[:-1] if at[0] <= seconds - 10.0] or progress[:1]
        assert found == ((done - old[-1][1]) / (seconds - old[-1][0]) if len(progress) > 1 else 0.0)


def test_work_passes_its_rate_on_as_it_is_now():
    seen = []
    report = reporter(seen.append)
    assert reporter(report) is report
    for done, seconds in ((0, 20.0), (10, 40.0), (20, 41.0), (30, 42.0)):
        report(Snapshot(done, 40, seconds, done / seconds, None, "latency_s", None))
    report(Snapshot(40, 40, 43.0, 40 / 43, None, "latency_s", None, finished=True))
    assert [at.rate for at in seen] == [0.0, 0.0, 10.0, 10.0, 10.0]
    assert [at.eta_s for at in seen] == [None, None, 2.0, 1.0, 0.0]
    report(Snapshot(40, 40, 5.0, 8.0, None, "latency_s", None, finished=True))  # other work, seen at its end alone
    assert seen[-1].rate == 8.0


@pytest.mark.parametrize("mode", ["lines", "json", "bar"])
def test_a_reader_that_has_gone_does_not_end_the_work(mode, clock):
    read, write = os.pipe()
    os.close(read)
    with open(write, "w") as stream:
        report = make_reporter(mode, stream)
        for snapshot in (HALF, HALF, DONE):
            clock[0] += 3.0
            report(snapshot)


def test_silent_unless_asked(capsys):
    for quiet in (reporter(None), reporter(False), make_reporter("none")):
        quiet(HALF)
        quiet(DONE)
    assert capsys.readouterr() == ("", "")
    seen = []
    reporter(seen.append)(HALF)
    assert seen == [dataclasses.replace(HALF, rate=0.0)]
