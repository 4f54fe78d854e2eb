"""The timeline as a trace file: the JSON that chrome://tracing, Perfetto and Speedscope open.

Trace Event Format: complete events (`ph` X) with `ts` and `dur` in microseconds, metadata events (`ph` M) that name
processes and threads. Slices of one thread never overlap, so every viewer lays them out alike.
"""

import json
from collections.abc import Iterator
from typing import Any

from .timeline import Step, Timeline

KERNEL, SM = 1, 2  # processes
PHASES, WAVES = 1, 2  # threads of the kernel
LOADS, MMAS, STORES, FIRST_BUFFER = 1, 2, 3, 10  # threads of the SM
SHOWN_STEPS = 4000  # of a longer loop the first and last half of these
SHOWN_WAVES = 500
US = 1e6


def trace(line: Timeline, about: dict[str, Any]) -> dict[str, Any]:
    """The trace of one schedule.

    Args:
        line: of `timeline`.
        about: what the trace is of, for `otherData`: text and numbers.

    Returns:
        An object with `traceEvents`, ready for `trace_text`. Process 1 is the kernel: its phases one after the other
        and its waves. Process 2 is one SM during the last full wave: load engine, tensor cores, stores, and a thread a
        buffer, where a K-step is loading, in flight, waiting and computing.
    """
    program = line.program
    events = list(_kernel(line))
    start_s = program.helpers_s + program.launch_s + program.middle_waves * program.period_s
    shown, left_out = _shown(line.steps)
    for step in shown:
        events += _step(step, start_s)
    for store in line.stores:
        name = f"store tile {store.tile}"
        events.append(_slice(SM, STORES, name, start_s + store.start_s, store.end_s - store.start_s, {}))
    notes = {"k_steps_left_out": left_out, "power_limit_us": _us(program.throttle_s)}
    return {
        "displayTimeUnit": "ns",
        "otherData": {**about, **notes},
        "traceEvents": [*_names(line), *events],
    }


def trace_text(content: dict[str, Any]) -> str:
    """The trace as JSON, an event a line."""
    head = {name: value for name, value in content.items() if name != "traceEvents"}
    lines = ",\n".join(json.dumps(event) for event in content["traceEvents"])
    return f'{json.dumps(head)[:-1]}, "traceEvents": [\n{lines}\n]}}\n'


def _kernel(line: Timeline) -> Iterator[dict[str, Any]]:
    program, at_s = line.program, 0.0
    for name, seconds in program.parts.items():
        yield _slice(KERNEL, PHASES, name, at_s, seconds, {})
        if name == "waves before":
            yield from _middle_waves(line, at_s)
        at_s += seconds
    start_s = program.helpers_s + program.launch_s + program.middle_waves * program.period_s
    yield _slice(KERNEL, WAVES, "last full wave", start_s, program.wave_s, {"in_detail": "process 2"})


def _middle_waves(line: Timeline, start_s: float) -> Iterator[dict[str, Any]]:
    program = line.program
    whole = int(program.middle_waves)
    if whole <= SHOWN_WAVES:
        for place in range(whole):
            yield _slice(KERNEL, WAVES, f"wave {place}", start_s + place * program.period_s, program.period_s, {})
        left = program.middle_waves - whole
    else:
        whole, left = 0, program.middle_waves
    if left > 0:
        args = {"waves": left, "period_us": _us(program.period_s)}
        yield _slice(
            KERNEL, WAVES, f"{left:.4g} waves", start_s + whole * program.period_s, left * program.period_s, args
        )


def _step(step: Step, start_s: float) -> list[dict[str, Any]]:
    name, args = f"k{step.iteration} tile {step.tile}", {"k_step": step.iteration, "tile": step.tile}
    buffer = FIRST_BUFFER + step.buffer
    stages = (
        ("load", step.load_start_s, step.load_end_s),
        ("in flight", step.load_end_s, step.ready_s),
        ("waiting", step.ready_s, step.mma_start_s),
        ("MMA", step.mma_start_s, step.mma_end_s),
    )
    slices = [
        _slice(SM, buffer, what, start_s + begin_s, end_s - begin_s, args)
        for what, begin_s, end_s in stages
        if end_s > begin_s
    ]
    load_s, mma_s = step.load_end_s - step.load_start_s, step.mma_end_s - step.mma_start_s
    return [
        _slice(SM, LOADS, name, start_s + step.load_start_s, load_s, args),
        _slice(SM, MMAS, name, start_s + step.mma_start_s, mma_s, args),
        *slices,
    ]


def _shown(steps: tuple[Step, ...]) -> tuple[tuple[Step, ...], int]:
    if len(steps) <= SHOWN_STEPS:
        return steps, 0
    half = SHOWN_STEPS // 2
    return (*steps[:half], *steps[-half:]), len(steps) - 2 * half


def _names(line: Timeline) -> Iterator[dict[str, Any]]:
    yield _named("process_name", KERNEL, 0, "kernel")
    yield _named("thread_name", KERNEL, PHASES, "phases")
    yield _named("thread_name", KERNEL, WAVES, "waves")
    yield _named("process_name", SM, 0, "one SM, last full wave")
    for thread, name in ((LOADS, "load engine"), (MMAS, "tensor cores"), (STORES, "stores")):
        yield _named("thread_name", SM, thread, name)
    program = line.program
    for buffer in range(min(program.resident * program.stages, len(line.steps))):
        name = f"tile {buffer % program.resident} buffer {buffer // program.resident}"
        yield _named("thread_name", SM, FIRST_BUFFER + buffer, name)


def _named(what: str, process: int, thread: int, name: str) -> dict[str, Any]:
    return {"name": what, "ph": "M", "pid": process, "tid": thread, "args": {"name": name}}


def _slice(
    process: int, thread: int, name: str, start_s: float, seconds: float, args: dict[str, Any]
) -> dict[str, Any]:
    at = {"name": name, "ph": "X", "pid": process, "tid": thread, "ts": _us(start_s), "dur": _us(seconds)}
    return at | ({"args": args} if args else {})


def _us(seconds: float) -> float:
    """Microseconds, to a femtosecond: neighbours' ends and starts meet."""
    return round(seconds * US, 9)
