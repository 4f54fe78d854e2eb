"""When the waves of equal tiles end: the first fills the pipelines, the last may have fewer tiles."""

import jax.numpy as jnp

from .._pytree import pytree
from ..types import Array, Floats


@pytree
class WaveEnds:
    """Seconds from the start: wave 1 ends at first_s, each further one tile_s later, the last one at all_s.

    `first_s` is at least `tile_s`; the last wave, where it is not the first, may be shorter or longer than others.
    """

    first_s: Array
    tile_s: Array
    all_s: Array

    def done_s(self, wave: Floats, number: Floats) -> Floats:
        """The end of wave 1, 2, ..., of `number`."""
        return jnp.where(wave < number, self.first_s + (wave - 1.0) * self.tile_s, self.all_s)

    def spared_s(self, number: Floats) -> Floats:
        """By how much the last of `number` waves is shorter than one in the middle, below 0 where it is longer; 0 where
        there is one only."""
        regular_s = self.first_s + (number - 1.0) * self.tile_s
        return jnp.where(number > 1, regular_s - self.all_s, 0.0)
