"""The timeline of a report: against the envelope's twins, against the model's sums, and as a trace."""

import json
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.envelope import Loop, one_tile_seconds, resident_tiles_seconds

from dse.api import make_job
from dse.explain import costs_of
from dse.question import ask
from dse.report.tile_program import TileProgram, tile_program
from dse.report.timeline import effective_pace, timeline
from dse.report.trace import SHOWN_STEPS, trace, trace_text
from dse.schedule_text import parse_schedule

TIMES = st.floats(0.01, 10.0)
LOSSES, FLOORS = st.floats(0.0, 3.0), st.floats(0.0, 900.0)


def closed_form(load_s, latency_s, compute_s, store_s, iterations, stages, resident=1, loss_s=0.0, floor_s=0.0):
    """A program whose wave takes what the model's closed form says, at least `floor_s` in the loop."""
    first_s = load_s + latency_s + compute_s
    pace_s = max(load_s, compute_s) + loss_s
    rest, buffers = resident * iterations - 1, resident * stages
    loop_s = rest * pace_s + rest // buffers * max(0.0, first_s - buffers * pace_s)
    stores_s = store_s + (resident - 1) * max(0.0, store_s - pace_s)
    return TileProgram(
        load_s=load_s, latency_s_of_load=latency_s, compute_s=compute_s, store_s=store_s, pace_s=pace_s,
        cta_launch_s=0.0, resident=resident, iterations=iterations, stages=stages, fill_s=first_s,
        loop_s=max(loop_s, floor_s), stores_s=stores_s, middle_waves=0.0, period_s=0.0, persistent=False,
        stream_k=False, tail_s=0.0, reduction_s=0.0, launch_s=0.0, helpers_s=0.0, throttle_s=0.0, latency_s=0.0,
    )  # fmt: skip


@given(TIMES, TIMES, TIMES, TIMES, st.integers(1, 40), st.integers(1, 6))
def test_one_tile_is_the_recurrence(load_s, latency_s, compute_s, store_s, iterations, stages):
    line = timeline(closed_form(load_s, latency_s, compute_s, store_s, iterations, stages))
    loop = Loop(iterations, stages, load_s, latency_s, compute_s, store_s)
    assert line.end_s == pytest.approx(one_tile_seconds(loop), rel=1e-9)
    load = [0.0] * iterations
    comp = [0.0] * iterations
    for i in range(iterations):  # as docs/how-the-model-works.md states it
        load[i] = max(load[i - 1] if i else 0.0, comp[i - stages] if i >= stages else 0.0) + load_s
        comp[i] = max(load[i] + latency_s, comp[i - 1] if i else 0.0) + compute_s
        assert line.steps[i].load_end_s == pytest.approx(load[i], rel=1e-9)
    assert line.steps[-1].mma_end_s == pytest.approx(comp[-1], rel=1e-9)


@given(TIMES, TIMES, TIMES, TIMES, st.integers(1, 12), st.integers(1, 4), st.integers(2, 3))
@settings(max_examples=40)
def test_tiles_in_turn_are_the_event_simulation(load_s, latency_s, compute_s, store_s, iterations, stages, resident):
    line = timeline(closed_form(load_s, latency_s, compute_s, store_s, iterations, stages, resident))
    loop = Loop(iterations, stages, load_s, latency_s, compute_s, store_s)
    assert line.end_s == pytest.approx(resident_tiles_seconds(loop, resident, "round_robin"), rel=1e-9)


@given(st.tuples(TIMES, TIMES, TIMES, TIMES), st.integers(1, 30), st.integers(1, 5), st.integers(1, 3), LOSSES, FLOORS)
def test_with_losses_and_a_busy_engine_the_wave_takes_what_the_model_says(
    times, iterations, stages, resident, loss_s, floor_s
):
    program = closed_form(*times, iterations, stages, resident, loss_s, floor_s)
    line = timeline(program)
    assert line.end_s == pytest.approx(program.wave_s, rel=2e-5)
    assert line.pace_s >= program.pace_s
    for before, after in pairwise(line.steps):  # an engine serves one at a time, in order
        assert after.load_start_s >= before.load_end_s
        assert after.mma_start_s >= before.mma_end_s - 1e-9
    for step in line.steps:
        assert step.load_start_s <= step.load_end_s <= step.ready_s <= step.mma_start_s <= step.mma_end_s
        if step.place >= resident * stages:  # a buffer is free before it is loaded again
            assert step.load_start_s >= line.steps[step.place - resident * stages].mma_end_s
            assert step.buffer == line.steps[step.place - resident * stages].buffer
    for before, after in pairwise(line.stores):
        assert after.start_s >= before.end_s - 1e-9
    for store in line.stores:
        assert store.start_s >= line.steps[(iterations - 1) * resident + store.tile].mma_end_s - 1e-9


def test_a_pace_is_stretched_only_where_the_loop_is():
    program = closed_form(1.0, 2.0, 3.0, 1.0, 10, 4)
    assert effective_pace(10, 4, program) == 3.0
    assert effective_pace(10, 4, replace(program, loop_s=45.0)) == 5.0
    starved = closed_form(1.0, 20.0, 1.0, 1.0, 10, 2)  # 9 steps, 4 refills of 20 s: 9 + 80 s
    assert starved.loop_s == 89.0
    assert effective_pace(10, 2, replace(starved, loop_s=90.0)) == pytest.approx(2.0)  # 9 M + 4 (22 - 2 M) = 90


CASES = [
    ("h200_sxm", "4096x4096x4096", "bf16", "tile=128x256x64 stages=4 warps=8 cluster=2x1 raster=along_m:8"),
    ("h200_sxm", "4096x4096x4096", "bf16", "tile=128x128x64 stages=3 warps=4 launch=persistent epilogue=overlapped"),
    ("h200_sxm", "4000x3000x5000", "bf16", "tile=128x256x64 stages=4 warps=8 launch=stream_k"),
    ("h100_sxm", "512x512x16384", "bf16", "tile=128x128x64 stages=4 launch=split_k:8"),
    ("h100_sxm", "256x256x8192", "bf16", "tile=128x128x64 stages=4 launch=stream_k"),
    ("a100_sxm", "4096x4096x1024", "fp16", "tile=64x64x32 stages=3 warps=4"),
    ("a100_sxm", "64x64x32", "fp16", "tile=64x64x32 stages=2 warps=4"),
    ("b200_sxm", "8192x8192x8192", "fp8", "tile=128x256x128 stages=4 cluster=pair:2x1 launch=persistent"),
    ("l40s", "1024x1024x1024", "bf16", "tile=128x64x32 stages=2 warps=4 epilogue=direct"),
]


@pytest.mark.parametrize(("gpu", "shape", "dtype", "words"), CASES)
def test_a_program_is_the_models_breakdown(gpu, shape, dtype, words):
    asked = ask(shape, dtype, gpu)
    schedule = parse_schedule(words, asked.family)
    cost = costs_of(make_job(asked), [schedule])[0]
    assert cost["reason"] == 0, cost["reason_name"]
    program = tile_program(asked.problem, schedule, asked.bound, cost)
    assert program.latency_s == pytest.approx(cost["latency_s"], rel=1e-5)
    assert sum(program.parts.values()) == pytest.approx(cost["latency_s"], rel=1e-5)
    waves_s = cost["prologue_s"] + cost["steady_s"] + cost["epilogue_s"] - program.throttle_s
    assert program.wave_s + program.middle_waves * program.period_s == pytest.approx(waves_s, rel=1e-5)
    assert program.tail_s == pytest.approx(cost["tail_s"], rel=1e-5, abs=1e-12)
    assert program.reduction_s == pytest.approx(cost["reduction_s"], rel=1e-5)
    assert 1 <= program.resident <= cost["ctas_per_sm"]
    line = timeline(program)
    assert len(line.steps) == program.resident * program.iterations
    assert line.end_s == pytest.approx(program.wave_s, rel=2e-5)


@pytest.mark.parametrize(("clock", "limited"), [("boost", True), ("sustained", False)])
def test_the_power_limit_is_a_part_only_where_there_is_one(clock, limited):
    asked = ask("8192x8192x8192", "bf16", "h200_sxm", clock=clock)
    schedule = parse_schedule("tile=128x256x64 stages=4 warps=8 cluster=2x1 launch=persistent", asked.family)
    program = tile_program(asked.problem, schedule, asked.bound, costs_of(make_job(asked), [schedule])[0])
    assert ("power limit" in program.parts) == limited


def _threads(content):
    found = {}
    for event in content["traceEvents"]:
        if event["ph"] == "X":
            found.setdefault((event["pid"], event["tid"]), []).append((event["ts"], event["ts"] + event["dur"]))
    return {name: sorted(spans) for name, spans in found.items()}


@pytest.mark.parametrize(("gpu", "shape", "dtype", "words"), CASES[:4])
def test_a_trace_is_the_timeline_and_no_slices_of_a_thread_overlap(gpu, shape, dtype, words):
    asked = ask(shape, dtype, gpu)
    schedule = parse_schedule(words, asked.family)
    cost = costs_of(make_job(asked), [schedule])[0]
    program = tile_program(asked.problem, schedule, asked.bound, cost)
    line = timeline(program)
    content = json.loads(trace_text(trace(line, {"title": '<script> & "quotes"'})))
    assert content["otherData"]["title"] == '<script> & "quotes"'
    threads = _threads(content)
    for spans in threads.values():
        for (_, end), (start, _) in pairwise(spans):
            assert start >= end - 1e-5  # a hundredth of a nanosecond: rounding of what is written
    assert threads[1, 1][-1][1] == pytest.approx(program.latency_s * 1e6, rel=1e-5)
    assert len(threads[2, 2]) == len(line.steps)
    assert len(threads[2, 3]) == program.resident
    start_s = program.helpers_s + program.launch_s + program.middle_waves * program.period_s
    assert threads[2, 3][-1][1] == pytest.approx((start_s + line.end_s) * 1e6, rel=1e-6)
    busy_us = sum(end - start for start, end in threads[2, 2])
    assert busy_us == pytest.approx(len(line.steps) * program.compute_s * 1e6, rel=1e-5)
    named = {(e["pid"], e["tid"]) for e in content["traceEvents"] if e["name"] == "thread_name"}
    assert set(threads) <= named


def test_a_long_loop_is_cut_in_the_trace_and_says_so():
    line = timeline(closed_form(1e-6, 1e-6, 1e-6, 1e-6, SHOWN_STEPS + 100, 4))
    content = trace(line, {})
    assert content["otherData"]["k_steps_left_out"] == 100
    steps = [e for e in content["traceEvents"] if e["ph"] == "X" and (e["pid"], e["tid"]) == (2, 2)]
    assert len(steps) == SHOWN_STEPS
    assert np.isclose(steps[-1]["ts"] + steps[-1]["dur"], line.steps[-1].mma_end_s * 1e6)


def test_many_waves_are_one_slice():
    program = replace(closed_form(1.0, 1.0, 1.0, 1.0, 4, 2), middle_waves=1000.25, period_s=2.0, latency_s=2008.0)
    content = trace(timeline(program), {})
    waves = [e for e in content["traceEvents"] if e["ph"] == "X" and (e["pid"], e["tid"]) == (1, 2)]
    assert [e["name"] for e in waves] == ["1000 waves", "last full wave"]
    assert waves[0]["dur"] == pytest.approx(2000.5e6)
