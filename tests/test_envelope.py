"""The envelope's closed form against its recurrence, and the formula for resident tiles against an event-driven SM.

Found on 1,000 drawn cases of 1 to 6 tiles, stores up to five times as long as an iteration: where the engines serve
tiles in turn or the oldest request first, r tiles take exactly what r N iterations through r s buffers and staggered
stores take. With an arbiter that picks any waiting tile the formula is 8 % too fast to 28 % too slow, 1.4 % too slow in
the mean (tiles then finish apart and their stores overlap the others' loops). With one that always prefers the same
tile, which no SM has, it is 32 % too fast to 46 % too slow, 1.8 % too slow in the mean.
"""

import random

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.envelope import Loop, one_tile_seconds, resident_tiles_seconds

from jaxmodel.envelope import loop_seconds, shared_pace, staggered_stores_seconds, steady_seconds, tile_seconds

seconds = st.floats(0.0, 100.0, allow_subnormal=False)


@pytest.fixture(autouse=True)
def _in_float64():
    with jax.enable_x64(True):
        yield


@settings(deadline=None, max_examples=150)
@given(st.integers(1, 300), st.integers(1, 16), seconds, seconds, seconds, seconds)
def test_closed_form_solves_the_recurrence(iterations, slots, load_s, latency_s, compute_s, store_s) -> None:
    loop = Loop(iterations, slots, load_s, latency_s, compute_s, store_s)
    with jax.enable_x64(True):
        assert float(tile_seconds(*map(jnp.float64, loop))) == pytest.approx(one_tile_seconds(loop), rel=1e-12)


def test_closed_form_solves_the_recurrence_on_20_000_cases() -> None:
    loops = _draw_loops(20_000, seed=0, longest=128)
    closed = tile_seconds(*jnp.array(loops).T)
    assert closed.dtype == jnp.float64
    np.testing.assert_allclose(closed, [one_tile_seconds(loop) for loop in loops], rtol=1e-12)


@pytest.mark.parametrize(
    ("iterations", "slots", "load_s", "latency_s", "compute_s", "expected_s"),
    [
        (8, 3, 4.0, 0.0, 2.0, 34.0),
        (64, 4, 0.5, 1.0, 1.0, 65.5),
        (8, 2, 4.0, 6.0, 2.0, 52.0),  # a load of 10, 4 of them on its engine: 10 + 40 + 2
        (1, 3, 4.0, 1.0, 2.0, 7.0),
    ],
)
def test_published_cases(iterations, slots, load_s, latency_s, compute_s, expected_s) -> None:
    case = Loop(iterations, slots, load_s, latency_s, compute_s)
    assert one_tile_seconds(case) == expected_s
    assert float(tile_seconds(*map(jnp.float64, case))) == expected_s


@pytest.mark.parametrize(
    ("slots", "load_s", "latency_s", "compute_s", "interval_s"),
    [(2, 10.0, 0.0, 10.0, 10.0), (2, 10.0, 10.0, 10.0, 15.0), (2, 4.0, 6.0, 6.0, 8.0)],
)
def test_published_long_run_intervals(slots, load_s, latency_s, compute_s, interval_s) -> None:
    assert float(steady_seconds(slots, load_s, latency_s, compute_s)) == interval_s
    long, longer = (one_tile_seconds(Loop(n, slots, load_s, latency_s, compute_s)) for n in (1000, 2000))
    assert longer - long == pytest.approx(1000 * interval_s)


def test_long_run_pace_of_the_recurrence() -> None:
    for loop in _draw_loops(200, seed=1, longest=1):
        long, longer = (one_tile_seconds(loop._replace(iterations=n * loop.slots)) for n in (50, 100))
        pace = float(steady_seconds(*map(jnp.float64, (loop.slots, *loop[2:5]))))
        assert (longer - long) / (50 * loop.slots) == pytest.approx(pace, rel=1e-9)


@pytest.mark.parametrize("arbiter", ["round_robin", "oldest"])
def test_resident_tiles_served_fairly_take_exactly_what_the_formula_says(arbiter: str) -> None:
    assert np.abs(_formula_errors(arbiter, count=500)).max() < 1e-11


@pytest.mark.parametrize(
    ("arbiter", "too_fast", "too_slow", "mean"), [("random", 0.10, 0.30, 0.02), ("lowest_tile", 0.35, 0.48, 0.025)]
)
def test_unfair_arbiters_bound_the_error_of_the_formula(
    arbiter: str, too_fast: float, too_slow: float, mean: float
) -> None:
    errors = _formula_errors(arbiter, count=1_000)
    assert -too_fast <= errors.min() < 0.0 < errors.max() <= too_slow
    assert 0.0 < errors.mean() < mean


@pytest.mark.parametrize("arbiter", ["round_robin", "oldest", "lowest_tile", "random"])
def test_one_tile_needs_no_arbiter(arbiter: str) -> None:
    for loop in _draw_loops(100, seed=2, longest=40):
        assert resident_tiles_seconds(loop, 1, arbiter) == pytest.approx(one_tile_seconds(loop), rel=1e-12)


def _draw_loops(count: int, seed: int, longest: int) -> list[Loop]:
    draw = random.Random(seed)
    service = lambda: draw.choice([1.0, draw.uniform(0.05, 1.0)])  # noqa: E731
    return [
        Loop(
            iterations=int(2 ** draw.uniform(0.0, np.log2(longest + 0.99))),
            slots=draw.randint(1, 8),
            load_s=service(),
            latency_s=draw.choice([0.0, draw.uniform(0.0, 10.0)]),
            compute_s=service(),
            store_s=draw.choice([0.0, draw.uniform(0.0, 5.0)]),
        )
        for _ in range(count)
    ]


def _formula_errors(arbiter: str, count: int) -> np.ndarray:
    """Relative error of the formula for resident tiles, positive where it is too slow."""
    loops = _draw_loops(count, seed=3, longest=40)
    tiles = np.random.default_rng(3).integers(1, 7, count).astype(float)
    iterations, slots, load_s, latency_s, compute_s, store_s = np.array(loops).T
    loop_s = loop_seconds(tiles * iterations, tiles * slots, load_s, latency_s, compute_s)
    stores_s = staggered_stores_seconds(tiles, store_s, np.maximum(load_s, compute_s))
    formula = latency_s + load_s + compute_s + loop_s + stores_s
    events = [
        resident_tiles_seconds(loop, int(r), arbiter, seed)
        for seed, (loop, r) in enumerate(zip(loops, tiles, strict=True))
    ]
    return np.asarray(formula) / np.array(events) - 1.0


def test_slopes_of_two_pipelines_are_those_of_differences_and_finite_where_both_are_idle() -> None:
    rng, step = np.random.default_rng(4), 1e-6
    first = 10.0 ** rng.uniform(-11, -5, 300)
    second = first * np.where(np.arange(300) < 20, 1.0, 10.0 ** rng.uniform(-2, 2, 300))  # some equal
    loss = rng.uniform(0.02, 0.98, 300)
    with jax.enable_x64(True):
        numbers = tuple(jnp.asarray(part) for part in (first, second, loss))
        slopes = jax.grad(lambda *parts: jnp.sum(shared_pace(*parts)), (0, 1, 2))(*numbers)
        for place, slope in enumerate(slopes):
            more, less = (
                shared_pace(*(part * (1 + side * step * (at == place)) for at, part in enumerate(numbers)))
                for side in (1, -1)
            )
            np.testing.assert_allclose(slope, (more - less) / (2 * step * numbers[place]), rtol=1e-5, atol=1e-14)
    idle = jnp.zeros(5, jnp.float32)
    steep = jax.jit(jax.grad(lambda *parts: jnp.sum(1e9 * shared_pace(*parts)), (0, 1, 2)))
    for lost in (0.0, 0.3, 1.0):
        assert all(jnp.isfinite(slope).all() for slope in steep(idle, idle, jnp.full(5, lost, jnp.float32)))
