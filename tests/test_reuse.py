"""L2 reuse in closed form: the reference's numbers, the exact stack of drawn launches, and laws."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxmodel.raster import panel_walk
from jaxmodel.reuse import l2_hits
from tests.oracles import compare, lru_stack
from tests.oracles.cases import MIB, columns, draw_cases

laws = settings(deadline=None, max_examples=60)


def _hits(rows, cols, along_n, swizzle, row_bytes, col_bytes, batch, concurrent, k_steps, out_bytes, capacity, ways):
    walk = panel_walk(rows, cols, along_n, swizzle, row_bytes, col_bytes)
    return l2_hits(walk, batch, concurrent, k_steps, out_bytes, capacity, ways)


def _by_bytes(rows, cols, along_n, swizzle, row_bytes, col_bytes, *rest):
    hits = _hits(rows, cols, along_n, swizzle, row_bytes, col_bytes, *rest)
    return (row_bytes * hits.rows + col_bytes * hits.cols) / (row_bytes + col_bytes)


jit_hits, jit_by_bytes = jax.jit(_hits), jax.jit(_by_bytes)


def _gemm_hit(m, n, k, tile_n, along_n, swizzle, concurrent, l2_mib, out=True):
    """Hit rate of a 2-byte GEMM with 128 x tile_n x 64 tiles and 8 ways."""
    row_bytes, col_bytes = 128 * 64 * 2.0, tile_n * 64 * 2.0
    out_bytes = 128 * tile_n * 2.0 if out else 0.0
    grid = (-(-m // 128), -(-n // tile_n))
    return float(
        jit_by_bytes(
            *grid, along_n, swizzle, row_bytes, col_bytes, 1.0, concurrent, k / 64, out_bytes, l2_mib * MIB, 8.0
        )
    )


# Full stack simulations of published shapes, in which the tiles of a wave touch in random order: a wave of
# concurrency 128 walks 8 or 16 columns.
@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((8192, 8192, 8192, 128, 0, 8, 128, 50), 0.9154),
        ((8192, 8192, 8192, 256, 0, 8, 128, 50), 0.9204),
        ((4096, 4096, 4096, 128, 0, 1, 132, 50), 0.9284),
        ((8192, 8192, 28672, 256, 0, 2, 132, 50), 0.8180),
        ((4096, 11008, 4096, 128, 0, 4, 108, 30), 0.8652),
        ((2048, 12288, 49152, 128, 0, 4, 132, 50), 0.8919),
        ((16384, 16384, 2048, 256, 0, 4, 148, 126), 0.9647),
        ((8192, 8192, 512, 128, 0, 8, 128, 50), 0.9818),
        ((8192, 8192, 8192, 128, 0, 8, 128, 50, False), 0.91744),
        ((8192, 8192, 8192, 128, 0, 16, 128, 50, False), 0.93221),
        ((8192, 8192, 8192, 128, 0, 16, 128, 50), 0.92750),
        # CUTLASS rasters at the true wave of 132 tiles
        ((8192, 8192, 8192, 256, 0, 1, 132, 50), 0.8181),
        ((8192, 8192, 8192, 256, 1, 1, 132, 50), 0.8207),
        ((8192, 8192, 8192, 256, 0, 2, 132, 50), 0.8181),
        ((8192, 8192, 8192, 256, 0, 4, 132, 50), 0.8873),
        ((8192, 8192, 8192, 256, 0, 8, 132, 50), 0.9110),
        ((8192, 8192, 8192, 256, 1, 8, 132, 50), 0.8847),
        ((4096, 4096, 4096, 128, 0, 8, 132, 50), 0.9338),
    ],
)
def test_reference_hit_rates(shape, expected):
    # the random order within a wave is worth up to 0.1 points, and the references are rounded to 0.01
    assert _gemm_hit(*shape) == pytest.approx(expected, abs=1.2e-3)


def test_cold_misses_of_repeated_and_of_shared_blocks():
    """Reference W7: repeated once, half of all accesses miss however large the cache; tiles that advance together share
    each of 8 K-steps' 1 KiB, so DRAM is asked for 8 KiB whether one tile runs or eight."""
    once = np.arange(6)
    distance = lru_stack.stack_distances(np.concatenate([once, once]), np.ones(12))
    assert np.isinf(distance).mean() == 0.5
    for tiles in (1, 8):
        block = np.repeat(np.arange(8), tiles)
        distance = lru_stack.stack_distances(block, np.full(block.size, 1024.0))
        assert np.isinf(distance).sum() * 1024 == 8192


def test_worked_stack_distances():
    x, y, z = 0, 1, 2
    same_size = lru_stack.stack_distances(np.array([x, y, y, x]), np.ones(4))
    assert same_size.tolist() == [np.inf, np.inf, 0, 1]
    sized = lru_stack.stack_distances(np.array([x, y, z, y, x]), np.array([64, 128, 32, 128, 64]) / 64)
    assert sized.tolist() == [np.inf, np.inf, np.inf, 0.5, 2.5]


def test_written_once_ages_but_never_hits():
    distance = lru_stack.stack_distances(np.array([0, -1, -1, 0]), np.array([1.0, 10.0, 10.0, 1.0]))
    assert distance.tolist() == [np.inf, np.inf, np.inf, 20.0]


def test_matches_the_exact_stack():
    # the bars of the whole check, scripts/check_hits.py, on fewer and smaller launches
    error = np.abs(compare.l2_errors(draw_cases(150, seed=4, max_tile_steps=200_000)))
    assert error.mean() <= 0.08
    assert np.percentile(error, 99) <= 1.2


@pytest.mark.parametrize("mean_steps", [False, True])
def test_split_k_matches_its_exact_stack(mean_steps):
    cases = [c for c in draw_cases(100, seed=5, max_tile_steps=60_000, batches=False) if c.k_steps > 1]
    splits = np.minimum(np.random.default_rng(5).integers(2, 9, len(cases)), [c.k_steps for c in cases])
    assert np.abs(compare.split_k_errors(cases, splits, mean_steps)).mean() <= 0.3


def test_clusters_match_their_exact_stack():
    cases = draw_cases(80, seed=6, max_tile_steps=60_000, batches=False)
    shapes = np.array([(2, 1), (1, 2), (2, 2), (4, 1), (1, 4), (4, 2), (2, 4)])
    drawn = shapes[np.random.default_rng(6).integers(0, len(shapes), len(cases))]
    assert np.abs(compare.cluster_errors(cases, drawn[:, 0], drawn[:, 1])).mean() <= 0.3


def test_a_cluster_of_one_is_a_plain_launch():
    plain = lru_stack.plain_ctas(5, 7, True, 2, 3)
    np.testing.assert_array_equal(lru_stack.cluster_ctas(5, 7, True, 2, 3, 1, 1), plain)
    np.testing.assert_array_equal(lru_stack.split_k_ctas(5, 7, True, 2, 3, 1), plain)


def test_first_touches_are_counted_as_in_the_exact_stack():
    for case in draw_cases(20, seed=7, max_tile_steps=5_000):
        ctas = lru_stack.plain_ctas(case.rows, case.cols, case.along_n, case.swizzle, case.k_steps, case.batch)
        accesses = lru_stack.trace(ctas, case.concurrent, case.row_bytes, case.col_bytes, case.out_bytes)
        distance = lru_stack.stack_distances(accesses.block, accesses.nbytes)
        hits = _of_cases([case], np.float32, MIB)
        exact = lru_stack.cold_shares(accesses, distance)
        np.testing.assert_allclose([hits.rows_cold[0], hits.cols_cold[0]], exact, rtol=1e-6)


FIELDS = ("rows", "cols", "along_n", "swizzle", "row_bytes", "col_bytes", "batch", "concurrent", "k_steps", "out_bytes")


def _of_cases(cases, dtype, capacity, evaluate=jit_hits):
    c = columns(cases, dtype)
    return evaluate(*[c[name] for name in FIELDS], dtype(capacity), dtype(16))


launches = st.builds(
    lambda *values: dict(zip(FIELDS, values, strict=True)),
    st.integers(1, 300), st.integers(1, 300), st.sampled_from([0, 1]), st.integers(1, 64) | st.just(2**24),
    st.sampled_from([4096, 16384, 65536]), st.sampled_from([4096, 16384, 65536]), st.integers(1, 9),
    st.integers(1, 600), st.integers(1, 500), st.sampled_from([0, 65536]),
)  # fmt: skip


def _evaluate(launch, capacity, evaluate=jit_hits):
    values = [np.float32(launch[name]) for name in FIELDS]
    return evaluate(*values, np.float32(capacity), np.float32(16))


@laws
@given(launches, st.floats(0, 1e9))
def test_hits_lie_between_nothing_and_all_but_first_touches(launch, capacity):
    hits = _evaluate(launch, capacity)
    for share, cold in ((hits.rows, hits.rows_cold), (hits.cols, hits.cols_cold)):
        assert 0.0 <= share <= 1.0 - cold + 1e-6
    assert hits.rows_cold == pytest.approx(1 / launch["cols"])
    assert hits.cols_cold == pytest.approx(1 / launch["rows"])


@laws
@given(launches)
def test_no_cache_never_hits_and_an_infinite_one_always_but_first(launch):
    none = _evaluate(launch, 0.0)
    assert (float(none.rows), float(none.cols)) == (0.0, 0.0)
    infinite = _evaluate(launch, 1e20)
    assert float(infinite.rows) == pytest.approx(1 - float(infinite.rows_cold), abs=1e-6)
    assert float(infinite.cols) == pytest.approx(1 - float(infinite.cols_cold), abs=1e-6)


@laws
@given(launches, st.floats(1e4, 1e9), st.floats(1, 10))
def test_a_larger_cache_never_hits_less(launch, capacity, factor):
    small, large = _evaluate(launch, capacity), _evaluate(launch, capacity * factor)
    assert large.rows >= small.rows - 1e-6
    assert large.cols >= small.cols - 1e-6


@laws
@given(launches, st.floats(1, 1e9))
def test_gradients_in_capacity_and_bytes_are_finite(launch, capacity):
    inputs = {name: np.float32(launch[name]) for name in FIELDS}
    slopes = _slopes(inputs, np.float32(capacity))
    assert np.all(np.isfinite(slopes))
    assert slopes[0] >= -1e-12


@jax.jit
def _slopes(inputs, capacity):
    def hit(capacity, row_bytes, col_bytes, out_bytes):
        sizes = {"row_bytes": row_bytes, "col_bytes": col_bytes, "out_bytes": out_bytes}
        hits = _hits(**(inputs | sizes), capacity=capacity, ways=16.0)
        return hits.rows + hits.cols

    slopes = jax.grad(hit, argnums=(0, 1, 2, 3))(
        capacity, inputs["row_bytes"], inputs["col_bytes"], inputs["out_bytes"]
    )
    return jnp.stack(slopes)


def test_one_wave_misses_only_first_touches_if_a_k_step_fits():
    hits = jit_hits(12.0, 11.0, 0.0, 4.0, 16384.0, 16384.0, 1.0, 132.0, 300.0, 65536.0, 4 * MIB, 16.0)
    assert hits.rows == pytest.approx(1 - 1 / 11, abs=1e-4)
    assert hits.cols == pytest.approx(1 - 1 / 12, abs=1e-4)


def test_transposing_the_problem_transposes_the_hits():
    a = jit_hits(30.0, 50.0, 0.0, 4.0, 16384.0, 32768.0, 1.0, 132.0, 64.0, 65536.0, 20 * MIB, 16.0)
    b = jit_hits(50.0, 30.0, 1.0, 4.0, 32768.0, 16384.0, 1.0, 132.0, 64.0, 65536.0, 20 * MIB, 16.0)
    assert (a.rows, a.cols, a.rows_cold, a.cols_cold) == (b.cols, b.rows, b.cols_cold, b.rows_cold)


def test_float32_agrees_with_float64_and_jit_with_eager():
    cases = draw_cases(2**10 + 1, seed=8)
    single = _of_cases(cases, np.float32, 30 * MIB)
    eager = _of_cases(cases, np.float32, 30 * MIB, _hits)
    with jax.enable_x64(True):
        double = _of_cases(cases, np.float64, 30 * MIB)
    for name in ("rows", "cols", "rows_cold", "cols_cold"):
        assert getattr(double, name).dtype == np.float64
        assert getattr(single, name).dtype == np.float32
        np.testing.assert_allclose(getattr(single, name), getattr(eager, name), atol=1e-6)
        np.testing.assert_allclose(getattr(single, name), getattr(double, name), atol=1e-5)


def test_one_trace_serves_all_values():
    traces = []

    @jax.jit
    def counted(*values):
        traces.append(1)
        return _hits(*values)

    for seed in range(3):
        _of_cases(draw_cases(5, seed), np.float32, 30 * MIB * (seed + 1), counted)
    assert len(traces) == 1


def test_order_of_candidates_does_not_matter():
    cases = draw_cases(301, seed=9)
    forth, back = _of_cases(cases, np.float32, 30 * MIB), _of_cases(cases[::-1], np.float32, 30 * MIB)
    np.testing.assert_array_equal(forth.rows, back.rows[::-1])
    np.testing.assert_array_equal(forth.cols, back.cols[::-1])
