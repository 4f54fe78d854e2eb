"""Cyclic schedules against their twins: every simple cycle for the interval, the loop unrolled for its time.

The bounds below are those of a few hundred drawn loops; docs/tile-programs-in-time.md has the errors over many.
"""

import random

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import cyclic as twin
from oracles.cyclic_compare import draws, loop_errors, resident_errors, stacked
from oracles.cyclic_draws import draw_loop, draw_numbers

from jaxmodel.cyclic import (
    Arc,
    best_order,
    buffer_arc,
    cycles,
    deadlocks,
    dependency_arc,
    engine_arcs,
    initiation_interval,
    legal_orders,
    loop_times,
)
from jaxmodel.envelope import loop_seconds


@pytest.fixture(autouse=True)
def _in_float64():
    with jax.enable_x64(True):
        yield


def load_and_compute(load_s, latency_s, compute_s, slots) -> list[Arc]:
    return [
        dependency_arc("load", "mma", load_s + latency_s),
        buffer_arc("load", "mma", compute_s, slots),
        *engine_arcs([("load", 0)], {"load": load_s}),
        *engine_arcs([("mma", 0)], {"mma": compute_s}),
    ]


@pytest.mark.parametrize(
    ("load_s", "latency_s", "compute_s", "slots", "interval_s"),
    [(10.0, 0.0, 10.0, 2, 10.0), (10.0, 10.0, 10.0, 2, 15.0), (4.0, 6.0, 6.0, 2, 8.0), (4.0, 6.0, 6.0, 1, 16.0)],
)
def test_load_and_compute(load_s, latency_s, compute_s, slots, interval_s) -> None:
    arcs = load_and_compute(load_s, latency_s, compute_s, slots)
    assert float(initiation_interval(arcs)) == twin.initiation_interval(arcs) == interval_s
    assert float(initiation_interval(load_and_compute(load_s, latency_s, compute_s, jnp.float64(slots)))) == interval_s


def test_published_finite_loop() -> None:
    arcs = load_and_compute(4.0, 6.0, 2.0, 2)
    times = loop_times(arcs, {"load": 10.0, "mma": 2.0}, 8)
    assert [float(seconds) for seconds in times] == [12.0, 6.0, 40.0, 52.0]
    assert twin.loop_seconds(arcs, {"load": 10.0, "mma": 2.0}, 8) == 52.0


def test_carried_dependency_over_two_iterations() -> None:
    assert float(initiation_interval([Arc("x", "x", 12.0, 2)])) == 6.0


def test_resources_shared_in_pairs() -> None:
    """Three actions, each two of them on one engine: every engine is busy 2 of 3."""
    services = dict.fromkeys("abc", 1.0)
    pairs = [("a", "b"), ("b", "c"), ("a", "c")]
    arcs = [arc for pair in pairs for arc in engine_arcs([(name, 0) for name in pair], services)]
    assert [float(initiation_interval(engine_arcs([(x, 0), (y, 0)], services))) for x, y in pairs] == [2.0] * 3
    assert float(initiation_interval(arcs)) == twin.initiation_interval(arcs) == 3.0


def test_engine_whose_actions_belong_to_two_iterations() -> None:
    order = [("pv0", 0), ("qk0", 1), ("pv1", 0), ("qk1", 1)]
    arcs = engine_arcs(order, dict.fromkeys(("pv0", "qk0", "pv1", "qk1"), 1.0))
    assert [arc.distance for arc in arcs if not arc.at_ends] == [1, -1, 1, 0]
    assert float(initiation_interval(arcs)) == twin.initiation_interval(arcs) == 4.0


def test_signed_distances() -> None:
    arcs = [Arc("0", "0", 3.0, 1), Arc("0", "1", 4.0, -1), Arc("0", "1", 3.0, -1), Arc("1", "0", 2.0, 2)]
    assert float(initiation_interval(arcs)) == twin.initiation_interval(arcs) == 6.0


def test_buffer_acquired_an_iteration_late_and_released_an_iteration_early() -> None:
    recurrence = [Arc("acquire", "mid", 10.0, 1), Arc("mid", "release", 10.0, -1)]
    assert float(initiation_interval(recurrence)) == 0.0
    assert float(initiation_interval([*recurrence, buffer_arc("acquire", "release", 0.0, 2)])) == 10.0


def test_best_and_worst_order() -> None:
    services = {"a": 1.0, "b": 1.0, "c": 1.0, "d": 2.0}
    carried = dependency_arc("c", "d", 3.0, 1)
    alternatives = [
        [carried, *first, *engine_arcs(order, services)]
        for order_0 in legal_orders([("a", 0), ("c", 0)], [carried])
        for first in [engine_arcs(order_0, services)]
        for order in legal_orders([("a", 0), ("b", 0), ("d", 0)], [carried, *first])
    ]
    intervals = [float(initiation_interval(arcs)) for arcs in alternatives]
    assert (min(intervals), max(intervals)) == (4.0, 7.0)
    best_s, which = best_order(alternatives)
    assert float(best_s) == 4.0
    assert int(which) == intervals.index(4.0)


def test_best_order_is_chosen_for_every_candidate() -> None:
    weights = jnp.array([1.0, 5.0, 3.0])
    best_s, which = best_order([[Arc("x", "x", weights, 1)], [Arc("x", "x", 3.0, 1)]])
    assert best_s.tolist() == [1.0, 3.0, 3.0]
    assert which.tolist() == [0, 1, 0]


def test_legal_orders_obey_dependencies_through_other_actions() -> None:
    arcs = [dependency_arc("qk", "softmax", 1.0), dependency_arc("softmax", "pv", 1.0)]
    assert legal_orders([("pv", 0), ("qk", 0)], arcs) == [(("qk", 0), ("pv", 0))]
    ahead = legal_orders([("pv", 0), ("qk", 1)], arcs)
    assert (("qk", 1), ("pv", 0)) in ahead
    assert (("pv", 0), ("qk", 1)) in ahead


def test_engine_of_too_many_actions() -> None:
    with pytest.raises(ValueError, match="an engine of 7 actions has too many orders to try; name its order"):
        legal_orders([(str(i), 0) for i in range(7)], [])


def test_actions_that_wait_for_themselves_are_named() -> None:
    arcs = [Arc("qk", "softmax", 1.0), Arc("softmax", "pv", 1.0), Arc("pv", "qk", 1.0), Arc("load", "qk", 1.0)]
    with pytest.raises(ValueError, match="wait for each other within one iteration") as error:
        initiation_interval(arcs)
    assert all(name in str(error.value) for name in ("qk", "softmax", "pv"))
    assert "load" not in str(error.value)
    assert "give one of them a distance of 1 or more" in str(error.value)


def test_actions_that_run_ahead_of_too_few_buffers_deadlock() -> None:
    slots = jnp.array([2.0, 1.0, 3.0])
    arcs = [Arc("load", "mma", 1.0, -1), buffer_arc("load", "mma", 2.0, slots)]
    assert deadlocks(arcs).tolist() == [False, True, False]
    assert initiation_interval(arcs).tolist() == [3.0, 3.0, 1.5]
    with pytest.raises(ValueError, match="load"):
        cycles([Arc("load", "mma", 1.0, -1), buffer_arc("load", "mma", 1.0, 1)])


@settings(deadline=None, max_examples=100)
@given(
    st.integers(1, 60),
    st.integers(1, 6),
    st.integers(1, 4),
    *[st.floats(0.0, 100.0, allow_subnormal=False)] * 3,
)
def test_load_and_compute_is_the_envelope(iterations, slots, resident, load_s, latency_s, compute_s) -> None:
    with jax.enable_x64(True):
        arcs = load_and_compute(load_s, latency_s, compute_s, jnp.float64(slots))
        durations = {"load": load_s + latency_s, "mma": compute_s}
        times = loop_times(arcs, durations, iterations, max(load_s, compute_s), resident)
        n, s = jnp.float64(resident * iterations), jnp.float64(resident * slots)
        assert float(times.loop_s) == pytest.approx(float(loop_seconds(n, s, load_s, latency_s, compute_s)), rel=1e-12)
        assert float(times.span_s) == pytest.approx(load_s + latency_s + compute_s, rel=1e-12)


@pytest.mark.parametrize("ahead", [False, True])
def test_interval_is_that_of_all_simple_cycles(ahead: bool) -> None:
    for loop, drawn, _ in draws(40, 8, seed=1, ahead=ahead):
        exact = [twin.initiation_interval(loop.arcs(numbers)) for numbers in drawn]
        np.testing.assert_allclose(initiation_interval(loop.arcs(stacked(drawn))), exact, rtol=1e-12)


def test_interval_is_the_long_run_of_the_unrolled_loop() -> None:
    for loop, drawn, _ in draws(10, 2, seed=2, ahead=True):
        for numbers in drawn:
            arcs, duration_s = loop.arcs(numbers), loop.duration_s(numbers)
            long, longer = (twin.loop_seconds(arcs, duration_s, trips) for trips in (120, 240))
            assert float(initiation_interval(arcs)) == pytest.approx((longer - long) / 120, rel=1e-9)


@pytest.mark.parametrize("ahead", [False, True])
def test_finite_loops(ahead: bool) -> None:
    errors, off, trips = loop_errors(60, 12, seed=3, ahead=ahead)
    long = trips >= 8
    assert np.abs(errors[trips == 1]).max() < 1e-12
    assert np.abs(errors).mean() < 1e-3
    assert np.quantile(np.abs(errors), 0.97) < 1e-3
    assert np.abs(errors[long]).max() < 0.05
    assert np.abs(off).max() < 1.0


def test_resident_tiles_on_shared_pipelines() -> None:
    """Pipelines serve whoever asks first, in no order an arc knows of, so the formula is mostly too fast."""
    one = resident_errors(10, 8, seed=4, resident=1)
    assert one.max() < 0.05
    assert -0.08 < one.mean() < 0.0
    for resident in (2, 4):
        assert -0.10 < resident_errors(10, 8, seed=4, resident=resident).mean() < 0.03


def test_one_resident_tile_without_shared_pipelines_is_the_unrolled_loop() -> None:
    for loop, drawn, _ in draws(10, 2, seed=5, ahead=True):
        for numbers in drawn:
            arcs, duration_s = loop.arcs(numbers), loop.duration_s(numbers)
            alone = twin.resident_seconds(arcs, duration_s, 9, 1, numbers, {})
            assert alone == pytest.approx(twin.loop_seconds(arcs, duration_s, 9), rel=1e-12)


@pytest.mark.parametrize("ahead", [False, True])
def test_jit_is_eager_and_float32_is_float64(ahead: bool) -> None:
    for loop, drawn, trips in draws(5, 32, seed=6, ahead=ahead):
        numbers = stacked(drawn)
        total = lambda x, n, loop=loop: loop_times(loop.arcs(x), loop.duration_s(x), n, 1.0, 2.0)  # noqa: E731
        eager = total(numbers, trips)
        for compiled, plain in zip(jax.jit(total)(numbers, trips), eager, strict=True):
            np.testing.assert_allclose(compiled, plain, rtol=1e-12)
        single = {name: array.astype(jnp.float32) for name, array in numbers.items()}
        for short, plain in zip(jax.jit(total)(single, trips.astype(jnp.float32)), eager, strict=True):
            assert short.dtype == jnp.float32
            np.testing.assert_allclose(short, plain, rtol=2e-5)


def test_gradients_are_finite_and_no_service_makes_a_loop_faster() -> None:
    for loop, drawn, trips in draws(20, 16, seed=7, ahead=False):
        numbers = stacked(drawn)
        slots = {name: numbers.pop(name) for name in ("slots0", "slots1")}

        def total(x, loop=loop, slots=slots, trips=trips):
            full = x | slots
            return loop_times(loop.arcs(full), loop.duration_s(full), trips, x["act0"], 3.0).total_s.sum()

        for gradient in jax.grad(total)(numbers).values():
            assert jnp.isfinite(gradient).all()
            assert (gradient >= -1e-9).all()


def test_gradients_of_loops_that_run_ahead_are_finite() -> None:
    for loop, drawn, trips in draws(10, 16, seed=8, ahead=True):
        numbers = stacked(drawn)
        zeros = {name: array * 0.0 if name.startswith("act") else array for name, array in numbers.items()}
        for x in (numbers, zeros):
            total = lambda x, loop=loop, n=trips: loop_times(loop.arcs(x), loop.duration_s(x), n).total_s.sum()  # noqa: E731
            assert all(jnp.isfinite(gradient).all() for gradient in jax.grad(total)(x).values())


def test_one_trace_serves_all_numbers() -> None:
    loop, traces = draw_loop(random.Random(9), ahead=True), []

    @jax.jit
    def total(numbers, trips):
        traces.append(1)
        return loop_times(loop.arcs(numbers), loop.duration_s(numbers), trips).total_s

    for seed in range(3):
        draw = random.Random(seed)
        total(stacked([draw_numbers(draw, loop) for _ in range(8)]), jnp.arange(1.0, 9.0))
    assert len(traces) == 1


def test_several_cycles_of_one_distance_are_one() -> None:
    slots = jnp.float64(2.0)
    arcs = [
        Arc("a", "b", 1.0),
        Arc("a", "b", 2.0),
        Arc("b", "a", 3.0, slots),
        Arc("b", "c", 1.0),
        Arc("c", "a", 1.0, slots),
    ]
    found = cycles(arcs)
    assert [(float(weight), float(distance)) for weight, distance in found] == [(5.0, 2.0)]
