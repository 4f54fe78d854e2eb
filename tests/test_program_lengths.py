"""Tile programs whose loops differ in length, against tiles scheduled one by one."""

import dataclasses
import math

import jax
import numpy as np
import pytest
from oracles import list_schedule
from oracles.gemm_draws import draw_gemms
from oracles.program import _finite_loop, _tile

from jaxmodel.machine import Gpu
from jaxmodel.occupancy import Footprint
from jaxmodel.ordered_tiles import HEAD_LONGEST_FIRST, LONGEST_FIRST, SHORTEST_FIRST
from jaxmodel.program import Action, Buffer, Lengths, Loop, Needs, TileProgram, program_cost
from jaxmodel.resources import Demand

ORDERS = {"longest_first": LONGEST_FIRST, "shortest_first": SHORTEST_FIRST, "head_longest_first": HEAD_LONGEST_FIRST}
ROWS, KEYS = 128, 64  # of a query tile, of a block of keys


def gpu() -> Gpu:
    """A drawn machine without a power limit, in Python floats."""
    _, _, machines = draw_gemms(1, 0, "wgmma")
    machine = jax.tree.map(lambda leaf: np.asarray(leaf)[0].tolist(), machines)
    return dataclasses.replace(machine, power_time_s=0.0)


def lengths_of(heads: int, queries: int, order: str) -> Lengths:
    classes = float(math.ceil(queries / ROWS))
    return Lengths(
        copies=float(heads),
        classes=classes,
        top_rows=classes * ROWS,
        step_rows=float(ROWS),
        block_rows=float(KEYS),
        cap_blocks=float(math.ceil(queries / KEYS)),
        order=ORDERS[order],
    )


def triangle(lengths: Lengths, persistent: float = 0.0) -> TileProgram:
    """A loop over keys, as long as the tile's place in the sequence says; one CTA an SM."""
    moved = 2.0 * KEYS * 128 * 2
    load = Action("load", Demand(fabric_bytes=moved, l2_bytes=moved), latency_s=4e-7)
    work = Action("work", Demand(tensor_flop=4.0 * ROWS * KEYS * 128))
    out = Demand(fabric_bytes=ROWS * 256.0, l2_bytes=ROWS * 256.0, ddr_bytes=ROWS * 256.0)
    return TileProgram(
        tiles=lengths.copies * lengths.classes,
        footprint=Footprint(smem_bytes=150e3, threads=256.0, registers=30000.0, tmem_columns=0.0),
        registers_per_thread=100.0,
        loop=Loop((load, work), lengths.mean_trips, (Needs("work", "load"), Buffer("load", "work", 3.0)), ahead=3.0),
        after=(Action("store", out, writes=True),),
        persistent=persistent,
        lengths=lengths,
    )


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("heads", "queries"), [(3, 1024), (16, 2048), (64, 4096), (200, 1024), (7, 16384)])
def test_it_takes_as_long_as_tiles_scheduled_one_by_one(order: str, heads: int, queries: int) -> None:
    machine = gpu()
    lengths = lengths_of(heads, queries, order)
    program = triangle(lengths)
    with jax.enable_x64(True):
        cost = program_cost(program, machine)
    sms = machine.sm_count
    tile = _tile(program, machine, min(float(program.tiles), sms))
    span, interval, _ = _finite_loop(tile, float(program.loop.trips), 1.0)
    fixed = machine.cta_launch_s + tile.before + span + tile.after - interval
    launch = list_schedule.Causal(heads, ROWS, KEYS, 1, queries, queries, 0, fixed, interval)
    exact = list_schedule.makespan(launch.tiles_s(order), int(sms))
    assert float(cost.latency_s) - machine.launch_overhead_s == pytest.approx(exact, rel=0.05)
    assert float(program.loop.trips) == pytest.approx(np.mean(launch.blocks()), rel=1e-6)


def test_parts_add_up_and_shortest_first_is_not_faster() -> None:
    machine = gpu()
    found = {}
    for order in ORDERS:
        cost = program_cost(triangle(lengths_of(40, 4096, order)), machine)
        parts = (cost.prologue_s, cost.steady_s, cost.epilogue_s, cost.tail_s, cost.launch_s, cost.reduction_s)
        assert float(sum(parts)) == pytest.approx(float(cost.latency_s), rel=1e-5)
        assert min(float(part) for part in parts) >= 0.0
        found[order] = float(cost.latency_s)
    assert found["longest_first"] <= found["shortest_first"]


def test_persistent_tiles_are_launched_once() -> None:
    machine = gpu()
    plain = program_cost(triangle(lengths_of(64, 1024, "longest_first")), machine)
    again = program_cost(triangle(lengths_of(64, 1024, "longest_first"), persistent=1.0), machine)
    assert float(again.latency_s) < float(plain.latency_s)


def test_loops_of_one_length_cost_as_equal_tiles() -> None:
    """Whole waves of one CTA an SM, whose fills and stores nothing hides: both say tiles times their own length."""
    machine = gpu()
    sms = machine.sm_count
    lengths = dataclasses.replace(
        lengths_of(4 * int(sms), ROWS, "longest_first"), top_rows=64.0 * KEYS, cap_blocks=64.0
    )
    unequal = triangle(lengths)
    equal = dataclasses.replace(unequal, lengths=None)
    assert float(unequal.loop.trips) == 64.0
    assert float(program_cost(unequal, machine).latency_s) == pytest.approx(
        float(program_cost(equal, machine).latency_s), rel=0.01
    )
