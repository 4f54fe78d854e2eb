"""Tiles in launch order that wait for chunks to arrive, and chunks that leave once their tiles are done.

n equal tiles of tau seconds are taken in order by P slots. Tile j runs on the slot that tile j - P leaves, so it starts
at s_j = max(ready_j, s_{j-P} + tau). Chunk c is what tile `first_c` and all later ones wait for, ready at r_c, which
does not fall with c. Unrolled, s_j is the largest of r_c(i) + tau (j - i) / P over i = j, j - P, j - 2 P, ...; the end
is the largest s_j + tau over the last P tiles. Of all tiles of a chunk the first has the most tiles behind it, hence

    end = max over c of  r_c + ceil((n - first_c) / P) tau

exactly. Played tile by tile in `tests/oracles/overlap.py`. Departures are the same in reverse: chunk c's tiles are done
with wave ceil(last_c / P), and a link takes the chunks one after the other.
"""

import jax.numpy as jnp

from .._exact import ceil_div_by_reciprocal, floor_div_by_reciprocal
from ..types import Floats
from .staircase import LEVELS, staircase_maximum
from .wave_ends import WaveEnds


def arrival_seconds(
    tiles: Floats,
    slots: Floats,
    tile_s: Floats,
    *,
    own_tiles: Floats,
    chunks: Floats,
    chunk_tiles: Floats,
    first_s: Floats,
    chunk_s: Floats,
    last_chunk_s: Floats,
    levels: int = LEVELS,
) -> Floats:
    """The end of all tiles where some need nothing, and the others come in equal chunks at an even pace.

    Chunk c = 0, 1, ..., C - 1 is ready at first_s + c chunk_s, the last one, which may be shorter, at first_s +
    (C - 2) chunk_s + last_chunk_s (at first_s where it is the only one).

    Args:
        tiles, slots: n and P, whole, at least 1; n + P below 2^22.
        tile_s: tau.
        own_tiles: that need no chunk and are launched first.
        chunks: C, whole; 0: every tile is an own one.
        chunk_tiles: of a chunk, whole, at least 1; those of the last are what is left.
        first_s: when the first chunk is there.
        chunk_s: between two chunks.
        last_chunk_s: between the last two.
        levels: of `staircase_maximum`.
    """
    alone_s = ceil_div_by_reciprocal(tiles, slots) * tile_s
    before_last = jnp.maximum(chunks - 1.0, 1.0)  # of the even ones; 1 stands for none where there is one chunk only
    even = before_last - 1.0  # x of the last even one
    left = tiles - own_tiles
    # x counts the even chunks from the last one back, so that the tiles behind a chunk grow with x
    behind = jnp.maximum(left - even * chunk_tiles, 0.0)
    steps_s = staircase_maximum(before_last, chunk_s, tile_s, chunk_tiles, behind + slots - 1.0, slots, levels)
    even_s = first_s + even * chunk_s + steps_s
    last_left = jnp.maximum(left - (chunks - 1.0) * chunk_tiles, 0.0)
    last_ready_s = first_s + jnp.where(chunks > 1, even * chunk_s + last_chunk_s, 0.0)
    last_s = last_ready_s + ceil_div_by_reciprocal(last_left, slots) * tile_s
    return jnp.maximum(alone_s, jnp.where(chunks > 0, jnp.maximum(even_s, last_s), 0.0))


def departure_seconds(
    tiles: Floats,
    slots: Floats,
    waves: WaveEnds,
    *,
    sent_tiles: Floats,
    chunks: Floats,
    chunk_tiles: Floats,
    chunk_s: Floats,
    last_chunk_s: Floats,
    after_s: Floats,
    levels: int = LEVELS,
) -> Floats:
    """When all tiles are done and all chunks have left, where a link takes the chunks of the first `sent_tiles` tiles
    in order, each once its last tile is done: D_c = max(its tiles' end, D_{c-1}) + its time.

    Args:
        tiles, slots: n and P, whole, at least 1; n + P below 2^22.
        waves: when waves end. A chunk's tiles are done with the wave of its last one.
        sent_tiles: of the chunks together, at most `tiles`; the others stay here and are launched last.
        chunks: C, whole; 0: nothing is sent.
        chunk_tiles: of a chunk but the last, which has what is left of `sent_tiles`.
        chunk_s, last_chunk_s: the link's time for a chunk, and for the last.
        after_s: from the last chunk on its way to all being done.
        levels: of `staircase_maximum`.
    """
    number = ceil_div_by_reciprocal(tiles, slots)
    before_last = (number - 1.0) * slots  # tiles of all waves but the last
    even = chunks - 1.0
    early = jnp.minimum(
        floor_div_by_reciprocal(before_last, chunk_tiles), even
    )  # even chunks done before the last wave
    some = jnp.maximum(early, 1.0)
    # chunk x has ceil((x + 1) t / P) waves before it and even - x chunks, itself among them, on the link
    steps_s = staircase_maximum(some, chunk_s, waves.tile_s, chunk_tiles, chunk_tiles + slots - 1.0, slots, levels)
    early_s = jnp.where(early > 0, steps_s - waves.tile_s + waves.first_s + even * chunk_s, 0.0)
    late_s = jnp.where(early < even, waves.all_s + (even - early) * chunk_s, 0.0)  # the first of the last wave
    last_s = waves.done_s(ceil_div_by_reciprocal(sent_tiles, slots), number)
    left_s = jnp.maximum(jnp.maximum(early_s, late_s), last_s) + last_chunk_s + after_s
    return jnp.maximum(waves.all_s, jnp.where(chunks > 0, left_s, 0.0))
