"""The tiles of a causal attention launch by their length: blocks of each, sums over the longest of them.

A class is a place of the query tile in its sequence: `copies` (heads x batch) tiles of n_i = min(cap, ceil((top - i
step) / block)) key blocks each, i = 0 .. classes - 1, the longest first, of tau_i = fixed + n_i block seconds. Sums
take the 16 longest classes one by one and the rest as an arithmetic progression with the mean of what `ceil` adds, so
they cost the same for any number of tiles: exact up to 16 classes, 0.03 % off in the mean of drawn launches.
"""

import jax.numpy as jnp

from ._exact import floor_div, power_of_two_gcd
from ._pytree import pytree
from .types import Array, Floats

ONE_BY_ONE = 16  # classes summed one by one
ROUNDING = 5e-4  # blocks by which a quotient may be off; less than a row of the largest block


@pytree
class CausalTiles:
    """Tiles of a causal (or sliding-window, or full) attention launch.

    The last row of class i sees top_rows - i step_rows keys. For query tiles of bm rows that pack g heads, q queries
    and k keys: step = bm / g, classes = ceil(q g / bm), top = k - q + classes step, cap = ceil(k / bn), or with a
    window of w keys at most about ceil((w + step) / bn) + 1. Full attention: top = k + classes step.
    """

    copies: Array  # of each class: heads x batch; whole, at least 1
    classes: Array  # whole, at least 1; copies x classes below 2^24
    top_rows: Array  # keys that the longest class sees before `cap_blocks`, above (classes - 1) step_rows
    step_rows: Array  # keys fewer a class; above 0
    block_rows: Array  # keys in a block; whole
    cap_blocks: Array  # most blocks of a tile; whole, at least 1
    fixed_s: Array  # of a tile, whatever its blocks
    block_s: Array  # of a block


class CausalLaunch:
    """A launch's tiles by their place, longest first, and sums over the first of them."""

    def __init__(self, tiles: CausalTiles, copies: Floats | None = None):
        self.tiles = tiles
        self.copies = tiles.copies if copies is None else copies
        self.count = self.copies * tiles.classes
        self.by_block = 1.0 / tiles.block_rows
        self.top, self.slope = tiles.top_rows * self.by_block, tiles.step_rows * self.by_block
        divisor = power_of_two_gcd(tiles.step_rows, tiles.block_rows)
        remainder = -tiles.top_rows - jnp.floor(-tiles.top_rows / divisor) * divisor
        self.rounded_up = (remainder + 0.5 * (tiles.block_rows - divisor)) * self.by_block
        capped = jnp.ceil((self.top - tiles.cap_blocks + 1.0) / self.slope - ROUNDING)
        self.capped = jnp.clip(capped, 0.0, tiles.classes)
        self.first = [self.blocks(float(place)) for place in range(ONE_BY_ONE)]

    def blocks(self, place: Floats) -> Array:
        """Of a tile of the class at `place`."""
        return jnp.clip(jnp.ceil(self.top - place * self.slope - ROUNDING), 1.0, self.tiles.cap_blocks)

    def tile_s(self, index: Floats) -> Array:
        return self.tiles.fixed_s + self.tiles.block_s * self.blocks(floor_div(index, self.copies))

    def blocks_before(self, place: Floats) -> Array:
        """Of one tile of each class before `place`."""
        total = sum(jnp.where(place > i, blocks, 0.0) for i, blocks in enumerate(self.first))
        capped, sloping, start = self._rest(place)
        return total + capped * self.tiles.cap_blocks + sloping * (start - 0.5 * self.slope * (sloping - 1.0))

    def squares(self) -> Array:
        """Sum of the squared blocks of one tile of every class."""
        total = sum(jnp.where(self.tiles.classes > i, blocks * blocks, 0.0) for i, blocks in enumerate(self.first))
        capped, n, start = self._rest(self.tiles.classes)
        last = n - 1.0
        sloping = n * (start * (start - self.slope * last) + self.slope * self.slope * last * (2.0 * n - 1.0) / 6.0)
        return total + capped * self.tiles.cap_blocks * self.tiles.cap_blocks + sloping

    def _rest(self, place: Floats) -> tuple[Array, Array, Array]:
        """Of the classes from ONE_BY_ONE to `place`: how many are capped, how many not, the first of these's blocks."""
        rest = jnp.maximum(place - ONE_BY_ONE, 0.0)
        capped = jnp.clip(self.capped - ONE_BY_ONE, 0.0, rest)
        return capped, rest - capped, self.top + self.rounded_up - (ONE_BY_ONE + capped) * self.slope

    @property
    def head_s(self) -> Array:
        return self.tiles.fixed_s * self.tiles.classes + self.tiles.block_s * self.blocks_before(self.tiles.classes)

    def work_s(self, index: Floats) -> Array:
        """Of the first `index` tiles."""
        place = floor_div(index, self.copies)
        blocks = self.copies * self.blocks_before(place) + (index - place * self.copies) * self.blocks(place)
        return index * self.tiles.fixed_s + self.tiles.block_s * blocks
