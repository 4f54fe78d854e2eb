"""Launch order in closed form against the loops and rules that define it."""

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxmodel import raster
from jaxmodel._exact import ceil_div, cheap_gcd, floor_div, floor_div_by_reciprocal, power_of_two_gcd
from tests.oracles.lru_stack import panel_order

laws = settings(deadline=None)
GRIDS = [(1, 1), (1, 7), (7, 1), (5, 8), (16, 16), (33, 12), (12, 33), (64, 3), (23, 41)]


def _walked(rows: int, cols: int, along_n, swizzle) -> list[tuple[int, int]]:
    m, n = jax.jit(raster.tile_position)(np.arange(rows * cols, dtype=np.float32), rows, cols, along_n, swizzle)
    return list(zip(np.asarray(m).astype(int).tolist(), np.asarray(n).astype(int).tolist(), strict=True))


@pytest.mark.parametrize(("rows", "cols"), GRIDS)
@pytest.mark.parametrize("along_n", [0, 1])
@pytest.mark.parametrize("swizzle", [1, 2, 3, 4, 8, 1000])
def test_tile_position_is_the_panel_loops(rows, cols, along_n, swizzle):
    m, n = panel_order(rows, cols, bool(along_n), swizzle)
    assert _walked(rows, cols, float(along_n), float(swizzle)) == list(zip(m.tolist(), n.tolist(), strict=True))


@pytest.mark.parametrize(("rows", "cols"), GRIDS)
def test_row_and_column_major(rows, cols):
    by_row = [(m, n) for m in range(rows) for n in range(cols)]
    assert _walked(rows, cols, *raster.row_major()) == by_row
    by_col = [(m, n) for n in range(cols) for m in range(rows)]
    assert _walked(rows, cols, *raster.column_major()) == by_col


@pytest.mark.parametrize(("rows", "cols"), GRIDS)
@pytest.mark.parametrize("group_m", [1, 2, 4, 8])
def test_triton_group_m(rows, cols, group_m):
    expected = []
    for pid in range(rows * cols):
        pids_in_group = group_m * cols
        first = pid // pids_in_group * group_m
        size = min(rows - first, group_m)
        expected.append((first + pid % pids_in_group % size, pid % pids_in_group // size))
    assert _walked(rows, cols, *raster.triton_group_m(group_m)) == expected


def _cutlass_order(tiles_m, tiles_n, cluster_m, cluster_n, max_swizzle, along_n=None):
    """Order of clusters of CUTLASS's sm90 scheduler, block by block over the padded grid; and the axis it chose."""
    log_swizzle = 0
    for log, least in ((3, 6), (2, 3), (1, 2)):
        if max_swizzle >= 2**log and min(tiles_m, tiles_n) >= least:
            log_swizzle = log
            break
    swizzle = 2**log_swizzle
    padded_m = -(-tiles_m // (swizzle * cluster_m)) * swizzle * cluster_m
    padded_n = -(-tiles_n // (swizzle * cluster_n)) * swizzle * cluster_n
    if along_n is None:
        along_n = padded_n <= padded_m
    cluster_major, cluster_minor = (cluster_n, cluster_m) if along_n else (cluster_m, cluster_n)
    clusters_major = (padded_n if along_n else padded_m) // cluster_major
    clusters = []
    for block in range(padded_m * padded_n):
        rest, minor_in_cluster = divmod(block, cluster_minor)
        cluster, major_in_cluster = divmod(rest, cluster_major)
        if minor_in_cluster or major_in_cluster:
            continue
        strip, major = divmod(cluster // swizzle, clusters_major)
        minor = strip * swizzle + cluster % swizzle
        m, n = (minor, major) if along_n else (major, minor)
        if m * cluster_m < tiles_m and n * cluster_n < tiles_n:
            clusters.append((m, n))
    return clusters, along_n, swizzle


@pytest.mark.parametrize("cluster", [(1, 1), (2, 1), (1, 2), (2, 4)])
@pytest.mark.parametrize("max_swizzle", [1, 2, 4, 8])
@pytest.mark.parametrize("along_n", [None, False, True])
def test_cutlass_sm90(cluster, max_swizzle, along_n):
    for tiles_m, tiles_n in GRIDS:
        order, chosen, swizzle = _cutlass_order(tiles_m, tiles_n, *cluster, max_swizzle, along_n)
        assert raster.cutlass_swizzle(tiles_m, tiles_n, max_swizzle) == swizzle
        if along_n is None:
            assert raster.cutlass_along_n(tiles_m, tiles_n, *cluster, max_swizzle) == chosen
        rows, cols = -(-tiles_m // cluster[0]), -(-tiles_n // cluster[1])
        assert _walked(rows, cols, float(chosen), float(swizzle)) == order


_panel_walk = jax.jit(raster.panel_walk)


@laws
@given(st.integers(1, 40), st.integers(1, 40), st.booleans(), st.one_of(st.integers(1, 50), st.just(2**24)))
def test_canonical_walk_is_the_same_order(rows, cols, along_n, swizzle):
    walk = _panel_walk(float(rows), float(cols), float(along_n), float(swizzle), 3.0, 5.0)
    long_is_rows = bool(walk.long_is_rows)
    assert (walk.long, walk.narrow) == ((rows, cols) if long_is_rows else (cols, rows))
    assert (walk.long_bytes, walk.narrow_bytes) == ((3.0, 5.0) if long_is_rows else (5.0, 3.0))
    assert 1 <= walk.panel <= walk.narrow
    assert walk.panel > 1 or walk.narrow == 1
    assert walk.panels == -(-walk.narrow // walk.panel)
    assert walk.last_panel == walk.narrow - (walk.panels - 1) * walk.panel
    canonical = panel_order(rows, cols, not long_is_rows, int(walk.panel))
    np.testing.assert_array_equal(canonical, panel_order(rows, cols, along_n, swizzle))


_floor_div, _ceil_div, _floor_by_reciprocal = jax.jit(floor_div), jax.jit(ceil_div), jax.jit(floor_div_by_reciprocal)


@laws
@given(st.integers(0, 2**24 - 1), st.integers(1, 2**24 - 1))
def test_whole_number_division_is_exact_in_float32(a, b):
    cases = [(a, b), (a // b * b, b), (max(a // b * b - 1, 0), b)]
    for x, y in cases:
        assert int(_floor_div(np.float32(x), np.float32(y))) == x // y
        assert int(_ceil_div(np.float32(x), np.float32(y))) == -(-x // y)
        if x < 2**22:
            assert int(_floor_by_reciprocal(np.float32(x), np.float32(y))) == x // y


@pytest.mark.parametrize("constant", [3, 7, 49, 127, 132, 4097])
def test_division_by_a_constant_is_exact_under_jit(constant):
    a = np.random.default_rng(0).integers(0, 2**24, 2**16 + 1)
    a[::2] = a[::2] // constant * constant
    floor, ceil = jax.jit(lambda x: (floor_div(x, constant), ceil_div(x, constant)))(a.astype(np.float32))
    np.testing.assert_array_equal(np.asarray(floor).astype(int), a // constant)
    np.testing.assert_array_equal(np.asarray(ceil).astype(int), -(-a // constant))


@laws
@given(st.integers(1, 2**20), st.integers(0, 20))
def test_power_of_two_gcd_is_the_gcd_with_a_power_of_two(a, log_b):
    assert int(power_of_two_gcd(float(a), float(2**log_b))) == np.gcd(a, 2**log_b)


@laws
@given(st.integers(1, 2**11), st.integers(1, 2**11))
def test_cheap_gcd_divides_the_gcd_and_finds_it_where_one_divides_the_other(a, b):
    assert np.gcd(a, b) % int(cheap_gcd(float(a), float(b))) == 0
    assert int(cheap_gcd(float(a * b), float(b))) == b
    assert int(cheap_gcd(float(b), float(a * b))) == b
