"""L1.5's share in closed form: hand checks, the exact stacks of drawn launches, and laws."""

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxmodel.l15 import l15_share
from jaxmodel.raster import panel_walk
from tests.oracles import compare, lru_stack
from tests.oracles.cases import MIB, columns, draw_cases

KIB = 1024.0
laws = settings(deadline=None, max_examples=60)


def _share(rows, cols, along_n, swizzle, row_bytes, col_bytes, concurrent, k_steps, sm_count, group_sms, capacity):
    walk = panel_walk(rows, cols, along_n, swizzle, row_bytes, col_bytes)
    return l15_share(walk, concurrent, k_steps, sm_count, group_sms, capacity, 8.0)


jit_share = jax.jit(_share)


@pytest.mark.parametrize(("tile_n", "expected"), [(128, 7 / 16), (256, 7 / 24)])
def test_groups_of_eight_share_one_row_of_a_panel_of_eight(tile_n, expected):
    share = jit_share(64, 64, 0, 8, 128 * 64 * 2.0, tile_n * 64 * 2.0, 120, 128, 120, 8, 512 * KIB)
    assert share == pytest.approx(expected, abs=1e-4)


def test_ten_sms_in_groups_of_eight_read_one_block_twice():
    ctas = lru_stack.plain_ctas(10, 1, False, 1, 1)
    accesses = lru_stack.trace(ctas, 10, 1.0, 1.0, 0.0)
    in_groups = lru_stack.group_distances(accesses, sm_count=10, group_sms=8)
    shared = lru_stack.stack_distances(accesses.block, accesses.nbytes)
    of_b = accesses.operand == lru_stack.B
    assert np.isinf(in_groups[of_b]).sum() == 2
    assert np.isinf(shared[of_b]).sum() == 1
    # all of A is cold, so the share is the groups' 8 of 10 hits on B: half of the bytes
    assert jit_share(10, 1, 0, 1, 1.0, 1.0, 10, 1, 10, 8, 512 * KIB) == pytest.approx(0.4, abs=1e-4)


@pytest.mark.parametrize("kib", [180, 256])
def test_matches_the_exact_stacks(kib):
    drawn = draw_cases(130, seed=14, max_tile_steps=100_000, any_concurrency=False, batches=False)
    cases = [c for c in drawn if c.k_steps >= 4]
    share, ddr = compare.l15_errors(cases, kib * KIB, 40 * MIB)
    assert np.abs(share).mean() <= 1.0
    assert np.abs(ddr).mean() <= 0.08  # an L1.5 hit is a hit of L2 alone as well: the DDR share is 1 - L2 hits


def test_batches_stay_near_the_exact_stacks():
    drawn = draw_cases(300, seed=15, max_tile_steps=20_000, any_concurrency=False)
    cases = [c for c in drawn if c.batch > 1 and c.k_steps >= 4]
    assert len(cases) > 10
    share, _ = compare.l15_errors(cases, 180 * KIB, 40 * MIB)
    assert np.abs(share).mean() <= 2.0


FIELDS = ("rows", "cols", "along_n", "swizzle", "row_bytes", "col_bytes", "concurrent", "k_steps", "sm_count")
launches = st.tuples(
    st.integers(1, 300), st.integers(1, 300), st.sampled_from([0, 1]), st.integers(1, 64) | st.just(2**24),
    st.sampled_from([4096, 16384, 65536]), st.sampled_from([4096, 16384, 65536]), st.integers(1, 600),
    st.integers(1, 500), st.integers(1, 200), st.sampled_from([1, 2, 7, 8, 18]),
)  # fmt: skip


def _evaluate(launch, capacity):
    return float(jit_share(*[np.float32(v) for v in launch], np.float32(capacity)))


@laws
@given(launches, st.floats(0, 1e7), st.floats(1, 10))
def test_share_is_a_share_and_rises_with_capacity(launch, capacity, factor):
    share = _evaluate(launch, capacity)
    assert 0.0 <= share < 1.0
    assert _evaluate(launch, capacity * factor) >= share - 1e-6


@laws
@given(launches)
def test_no_cache_serves_nothing_and_none_serves_first_touches(launch):
    assert _evaluate(launch, 0.0) == 0.0
    rows, cols, _, _, row_bytes, col_bytes, *_ = launch
    cold = (row_bytes / cols + col_bytes / rows) / (row_bytes + col_bytes)
    assert _evaluate(launch, 1e20) <= 1.0 - cold + 1e-5


@laws
@given(launches, st.floats(1, 1e7))
def test_gradient_in_capacity_is_finite(launch, capacity):
    slope = _slope(*[np.float32(v) for v in launch], np.float32(capacity))
    assert np.isfinite(slope)
    assert slope >= -1e-12


_slope = jax.jit(jax.grad(_share, argnums=10))


def _of_cases(cases, dtype, evaluate=jit_share):
    c = columns(cases, dtype)
    return evaluate(*[c[name] for name in FIELDS], dtype(8), dtype(180 * KIB))


def test_float32_agrees_with_float64_and_jit_with_eager():
    cases = draw_cases(2**10 + 1, seed=16)
    single, eager = _of_cases(cases, np.float32), _of_cases(cases, np.float32, _share)
    with jax.enable_x64(True):
        double = _of_cases(cases, np.float64)
    assert double.dtype == np.float64
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, eager, atol=1e-6)
    np.testing.assert_allclose(single, double, atol=1e-5)


def test_one_trace_serves_all_values():
    traces = []

    @jax.jit
    def counted(*values):
        traces.append(1)
        return _share(*values)

    for seed in range(3):
        _of_cases(draw_cases(5, seed), np.float32, counted)
    assert len(traces) == 1
