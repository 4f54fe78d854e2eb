"""Launch order: which output tile the i-th tile of a launch is, for every raster the GEMM libraries use.

All of them are one walk. The grid is cut into panels, `swizzle` tiles wide along one axis; panels are taken in turn,
and inside a panel the walk runs along the other axis with the panel's own axis fastest. So a raster is a pair
(`along_n`, `swizzle`), and the functions below give the pair of each library. `WHOLE_AXIS` as the swizzle makes the
whole axis one panel.
"""

import jax.numpy as jnp

from ._exact import ceil_div, floor_div, floor_div_by_reciprocal
from ._pytree import pytree
from .types import Array

WHOLE_AXIS = float(2**24)


@pytree
class Walk:
    """A panel walk in canonical form: what the reuse model needs to know of a raster and of the bytes it moves.

    The long axis is walked inside a panel, the narrow axis is cut into panels of `panel` positions and runs fastest.
    An operand belongs to the axis that selects its block: A to the grid's rows (m), B to its columns (n).
    A panel of one is the same order as one panel over swapped axes, and panels one position long are the same order as
    one panel; both are always stored as the one panel.
    """

    long: Array  # positions on the long axis
    narrow: Array  # positions on the narrow axis
    panel: Array  # width of a panel, 1 <= panel <= narrow
    long_bytes: Array  # bytes a K-step of one block of the long axis' operand
    narrow_bytes: Array  # bytes a K-step of one block of the narrow axis' operand
    long_is_rows: Array  # 1: the long axis is m and its operand is A; 0: n and B

    @property
    def panels(self) -> Array:
        """Panels on the narrow axis, the last of which may be ragged."""
        return floor_div_by_reciprocal(self.narrow + self.panel - 1.0, self.panel)

    @property
    def last_panel(self) -> Array:
        """Width of the last panel; `panel` where that divides the narrow axis."""
        return self.narrow - (self.panels - 1.0) * self.panel

    def row_interval_bytes(self, width: Array) -> Array:
        """Bytes of one K-step between a column's uses by two neighbouring rows of a panel `width` positions wide."""
        return (width - 1.0) * self.narrow_bytes + (2.0 - 1.0 / width) * self.long_bytes


def tile_position(index: Array, rows: Array, cols: Array, along_n: Array, swizzle: Array) -> tuple[Array, Array]:
    """Closed form of the launch order: the grid position (m, n) of the `index`-th tile.

    With along_n = 0 panels are `swizzle` columns wide and walked along m, n fastest; with along_n = 1 they are
    `swizzle` rows high and walked along n, m fastest. The last panel is narrower where `swizzle` does not divide the
    axis; a swizzle wider than the axis is the whole axis.

    Args:
        index: whole number, 0 <= index < rows cols < 2^24; NumPy or JAX, any shape, as are all arguments.
        rows: tiles along m.
        cols: tiles along n.
        along_n: 0 or 1.
        swizzle: panel width in tiles, at least 1.

    Returns:
        m and n, whole numbers held as floats, exact in float32 under `jit`. Raises nothing.
    """
    long, narrow = jnp.where(along_n, cols, rows), jnp.where(along_n, rows, cols)
    width = jnp.minimum(swizzle, narrow)
    panel = floor_div(index, long * width)
    start = panel * width
    width_here = jnp.minimum(width, narrow - start)
    inside = index - long * start
    on_long = floor_div(inside, width_here)
    on_narrow = start + inside - on_long * width_here
    return jnp.where(along_n, on_narrow, on_long), jnp.where(along_n, on_long, on_narrow)


def row_major() -> tuple[float, float]:
    """The pair (along_n, swizzle) of a row-major launch: n fastest."""
    return 0.0, WHOLE_AXIS


def column_major() -> tuple[float, float]:
    """The pair (along_n, swizzle) of a column-major launch: m fastest."""
    return 1.0, WHOLE_AXIS


def triton_group_m(group_m: Array) -> tuple[float, Array]:
    """The pair (along_n, swizzle) of Triton's grouped ordering: panels of `group_m` tile rows, walked along n."""
    return 1.0, group_m


def cutlass_swizzle(tiles_m: Array, tiles_n: Array, max_swizzle: Array) -> Array:
    """The swizzle that CUTLASS's sm90 scheduler really uses: 1, 2, 4 or 8.

    It grants 8 only where the shorter side of the grid has at least 6 tiles, 4 from 3 tiles and 2 from 2.

    Args:
        tiles_m, tiles_n: CTA tiles (not clusters) along m and n.
        max_swizzle: what the user asked for, at least 1.

    Returns:
        panel width in clusters, on the grid counted in clusters. Raises nothing.
    """
    shorter = jnp.minimum(tiles_m, tiles_n)
    eight = (max_swizzle >= 8) & (shorter >= 6)
    four = (max_swizzle >= 4) & (shorter >= 3)
    two = (max_swizzle >= 2) & (shorter >= 2)
    return jnp.where(eight, 8.0, jnp.where(four, 4.0, jnp.where(two, 2.0, 1.0)))


def cutlass_along_n(tiles_m: Array, tiles_n: Array, cluster_m: Array, cluster_n: Array, max_swizzle: Array) -> Array:
    """The axis that CUTLASS's sm90 scheduler takes when it is left to choose: 1 (along n) unless n is the longer side.

    Sides are compared after padding to whole clusters times the effective swizzle. Arguments as in `cutlass_swizzle`,
    with the cluster's CTAs along m and n. Raises nothing.
    """
    swizzle = cutlass_swizzle(tiles_m, tiles_n, max_swizzle)
    padded_m = ceil_div(tiles_m, swizzle * cluster_m) * swizzle * cluster_m
    padded_n = ceil_div(tiles_n, swizzle * cluster_n) * swizzle * cluster_n
    return jnp.where(padded_n > padded_m, 0.0, 1.0)


def panel_walk(rows: Array, cols: Array, along_n: Array, swizzle: Array, row_bytes: Array, col_bytes: Array) -> Walk:
    """The canonical walk of a raster over a grid of tiles (or of clusters: then all lengths count clusters).

    Args:
        rows, cols: grid extents, whole numbers >= 1.
        along_n, swizzle: the raster, see `tile_position`.
        row_bytes: bytes a K-step of one row block, tile_m x tile_k elements of A.
        col_bytes: bytes a K-step of one column block, tile_n x tile_k elements of B.

    Returns:
        a `Walk` whose fields broadcast like the arguments. Raises nothing.
    """
    single = jnp.minimum(swizzle, jnp.where(along_n, rows, cols)) < 1.5
    long_is_rows = jnp.where(single, along_n > 0.5, along_n < 0.5)
    long, narrow = jnp.where(long_is_rows, rows, cols), jnp.where(long_is_rows, cols, rows)
    one_panel = single | (long < 1.5)
    return Walk(
        long=long,
        narrow=narrow,
        panel=jnp.where(one_panel, narrow, jnp.minimum(swizzle, narrow)),
        long_bytes=jnp.where(long_is_rows, row_bytes, col_bytes),
        narrow_bytes=jnp.where(long_is_rows, col_bytes, row_bytes),
        long_is_rows=long_is_rows,
    )
