"""Makespans of ordered tiles against a schedule made tile by tile, and the laws of list scheduling."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import list_schedule as twin
from oracles.list_compare import ORDERS, as_tiles, class_errors, draw_launches, makespan_errors, waves
from oracles.list_schedule import Causal

from jaxmodel.ordered_tiles import LONGEST_FIRST, SHORTEST_FIRST, causal_times, makespan


@pytest.fixture(autouse=True)
def _in_float64():
    with jax.enable_x64(True):
        yield


CAUSAL_512 = Causal(
    copies=3, bm=128, bn=128, packed=1, queries=512, keys=512, window=0, fixed_s=0.5, block_s=1.0
)  # published: 1, 2, 3, 4 key blocks


@pytest.mark.parametrize(
    ("slots", "order", "seconds"),
    [
        (12, "longest_first", 4.5),  # all at once
        (6, "longest_first", 6.0),  # 4.5 + 1.5 everywhere
        (6, "shortest_first", 7.0),  # 2.5 + 4.5
        (1, "longest_first", 36.0),
        (1, "head_shortest_first", 36.0),
    ],
)
def test_a_launch_by_hand(slots: int, order: str, seconds: float) -> None:
    assert CAUSAL_512.blocks() == [4, 3, 2, 1]
    times = causal_times(as_tiles([CAUSAL_512]), float(slots), ORDERS.index(order))
    assert twin.makespan(CAUSAL_512.tiles_s(order), slots) == seconds
    assert times.makespan_s.tolist() == pytest.approx([seconds])
    assert times.work_s.tolist() == [36.0]
    assert times.mean_blocks.tolist() == [2.5]


def test_work_and_blocks() -> None:
    launches, slots = draw_launches(400, seed=0)
    times = causal_times(as_tiles(launches), slots, LONGEST_FIRST)
    blocks = np.array([np.mean(launch.blocks()) for launch in launches])
    work_s = np.array([sum(launch.tiles_s("longest_first")) for launch in launches])
    few = np.array([launch.classes <= 16 for launch in launches])
    np.testing.assert_allclose(times.mean_blocks[few], blocks[few], rtol=1e-12)
    np.testing.assert_allclose(times.work_s[few], work_s[few], rtol=1e-12)
    errors = np.abs(np.asarray(times.mean_blocks) / blocks - 1.0)
    assert errors.mean() < 1e-3
    assert errors.max() < 0.06


@pytest.mark.parametrize(
    ("order", "mean", "most"),
    [
        ("longest_first", 0.005, 0.03),
        ("shortest_first", 0.002, 0.02),
        ("head_longest_first", 0.010, 0.07),
        ("head_shortest_first", 0.010, 0.09),
    ],
)
def test_makespans(order: str, mean: float, most: float) -> None:
    launches, slots = draw_launches(500, seed=1)
    errors = np.abs(makespan_errors(launches, slots, order))
    count = waves(launches, slots)
    assert errors[count <= 1.0].max() < 1e-12
    assert errors.mean() < mean
    assert np.quantile(errors, 0.99) < most


def test_shortest_first_is_exact_up_to_eight_waves_of_few_classes() -> None:
    launches, slots = draw_launches(400, seed=2)
    errors = np.abs(makespan_errors(launches, slots, "shortest_first"))
    short = waves(launches, slots) <= 8
    assert short.sum() > 100
    assert errors[short].max() < 1e-12


def test_full_attention_is_whole_waves_in_every_order() -> None:
    """All tiles equal: ceil(T / P) of them, one after the other."""
    launches, slots = draw_launches(200, seed=3)
    tiles = as_tiles(launches)
    tiles = replace(tiles, top_rows=tiles.cap_blocks * tiles.block_rows + tiles.classes * tiles.step_rows)
    one_s = tiles.fixed_s + tiles.block_s * tiles.cap_blocks
    whole = np.ceil(waves(launches, slots)) * one_s
    for order in range(4):
        np.testing.assert_allclose(causal_times(tiles, slots, order).makespan_s, whole, rtol=1e-9)


def test_bounds_of_list_scheduling() -> None:
    launches, slots = draw_launches(500, seed=4)
    tiles = as_tiles(launches)
    longest_s = np.array([max(launch.tiles_s("longest_first")) for launch in launches])
    for order in range(4):
        times = causal_times(tiles, slots, order)
        assert (times.makespan_s >= np.maximum(longest_s, times.work_s / slots) * (1 - 1e-12)).all()
        assert (times.makespan_s <= times.work_s / slots + longest_s * (1 + 1e-12)).all()


@pytest.mark.parametrize("order", [LONGEST_FIRST, SHORTEST_FIRST])
def test_a_slower_block_or_tile_is_never_faster(order: int) -> None:
    launches, slots = draw_launches(300, seed=5)
    tiles = as_tiles(launches)
    base = causal_times(tiles, slots, order).makespan_s
    for slower in (replace(tiles, block_s=tiles.block_s * 1.1), replace(tiles, fixed_s=tiles.fixed_s * 1.1)):
        assert (causal_times(slower, slots, order).makespan_s >= base * (1 - 1e-12)).all()


def test_times_scale() -> None:
    launches, slots = draw_launches(100, seed=6)
    tiles = as_tiles(launches)
    tripled = replace(tiles, block_s=3.0 * tiles.block_s, fixed_s=3.0 * tiles.fixed_s)
    for order in range(4):
        plain, scaled = (causal_times(x, slots, order).makespan_s for x in (tiles, tripled))
        np.testing.assert_allclose(scaled, 3.0 * np.asarray(plain), rtol=1e-9)


def test_an_order_a_candidate_costs_what_each_order_costs() -> None:
    launches, slots = draw_launches(80, seed=7)
    tiles, codes = as_tiles(launches), jnp.arange(80) % 4
    mixed = causal_times(tiles, slots, codes).makespan_s
    for order in range(4):
        alone = causal_times(tiles, slots, order).makespan_s
        np.testing.assert_allclose(mixed[order::4], alone[order::4], rtol=1e-12)


def test_jit_is_eager_float32_is_float64_and_one_trace_serves_all() -> None:
    traces = []

    @jax.jit
    def compiled(tiles, slots, codes):
        traces.append(1)
        return causal_times(tiles, slots, codes).makespan_s

    codes = jnp.arange(200) % 4
    for seed in (8, 9):
        launches, slots = draw_launches(200, seed=seed)
        tiles, slots = as_tiles(launches), jnp.asarray(slots)
        eager = causal_times(tiles, slots, codes).makespan_s
        np.testing.assert_allclose(compiled(tiles, slots, codes), eager, rtol=1e-12)
    assert len(traces) == 1
    single = jax.tree.map(lambda x: x.astype(jnp.float32), (tiles, slots))
    times = compiled(*single, codes)
    assert times.dtype == jnp.float32
    np.testing.assert_allclose(times, eager, rtol=2e-5)


def test_gradients_are_finite() -> None:
    launches, slots = draw_launches(100, seed=10)
    tiles = as_tiles(launches)
    for order in range(4):

        def total(block_s, fixed_s, order=order):
            return causal_times(replace(tiles, block_s=block_s, fixed_s=fixed_s), slots, order).makespan_s.sum()

        for gradient in jax.grad(total, (0, 1))(tiles.block_s, tiles.fixed_s):
            assert jnp.isfinite(gradient).all()
            if order in (LONGEST_FIRST, SHORTEST_FIRST):
                assert (gradient >= 0.0).all()


def test_classes() -> None:
    errors, _ = class_errors(400, seed=11)
    assert np.abs(errors).mean() < 0.03
    assert np.quantile(np.abs(errors), 0.99) < 0.20


@settings(deadline=None, max_examples=100)
@given(st.lists(st.tuples(st.integers(0, 400), st.floats(0.1, 10.0)), min_size=1, max_size=6), st.integers(1, 200))
def test_bounds_of_classes(classes: list[tuple[int, float]], slots: int) -> None:
    classes = sorted(classes, key=lambda pair: -pair[1])
    counts, tile_s = zip(*classes, strict=True)
    with jax.enable_x64(True):
        closed = float(makespan(tuple(map(float, counts)), tile_s, float(slots)))
    work_s = sum(n * seconds for n, seconds in classes)
    longest_s = max((seconds for n, seconds in classes if n), default=0.0)
    assert closed >= max(work_s / slots, longest_s) * (1 - 1e-12)
    assert closed <= (work_s / slots + longest_s) * (1 + 1e-12)
    if len(set(tile_s)) == 1:
        assert closed == pytest.approx(-(-sum(counts) // slots) * longest_s)
