"""Tiles that write their results to another GPU through a queue of finite depth.

n equal tiles of tau seconds go round P slots, tile j to the slot of tile j - P, as a persistent kernel deals them; the
first m of them end with a remote write. A link takes one remote tile after the other, w seconds each. At most Q remote
tiles are accepted and not yet taken whole; a slot keeps its finished tile until its write is accepted (back-pressure).
With a_j the acceptance of tile j and d_j its end on the link:

    e_j = a_{j-P} + tau (tau for j < P),   a_j = max(e_j, d_{j-Q}) (e_j of a tile that writes nothing),
    d_j = max(a_j, d_{j-1}) + w

This is a longest path: P tiles further for tau (a slot's next tile), one further for w (the link), and Q further for
the w of entering the link (a full queue). A path that ends on the link never gains by the queue, as Q tiles on the link
weigh Q w; so the last remote write is done at the larger of the two ends of a line,

    tau + m w   and   (X + 1) tau + (m - X P) w,   X = floor((m - 1) / P)

A path that ends with tiles that write nothing enters the link once, walks it and comes back by the queue:

    tau ceil(n / P)   and   max over Q <= u < m of  (u - Q + 1) w + tau (1 + floor((n - 1 - u) / P))

whose maximum is at an end or where the floor steps. All are exact: `tests/oracles/overlap.py` plays the tiles.
"""

import jax.numpy as jnp

from .._exact import ceil_div_by_reciprocal, floor_div_by_reciprocal
from ..types import Floats


def posted_seconds(
    tiles: Floats,
    slots: Floats,
    tile_s: Floats,
    *,
    remote_tiles: Floats,
    write_s: Floats,
    queue: Floats,
    after_s: Floats,
) -> Floats:
    """When all tiles are done and all remote writes have arrived.

    Args:
        tiles, slots: n and P, whole, at least 1; n + P below 2^22.
        tile_s: tau.
        remote_tiles: m, whole, at most `tiles`: the first ones; 0: none.
        write_s: w, of one remote tile on the link.
        queue: Q, whole, at least 1.
        after_s: from the last write's end on the link to its being seen.
    """
    waves = floor_div_by_reciprocal(jnp.maximum(remote_tiles - 1.0, 0.0), slots)
    at_once_s = tile_s + remote_tiles * write_s
    at_last_s = (waves + 1.0) * tile_s + (remote_tiles - waves * slots) * write_s
    written_s = jnp.maximum(at_once_s, at_last_s) + after_s
    written_s = jnp.where(remote_tiles > 0, written_s, 0.0)

    alone_s = ceil_div_by_reciprocal(tiles, slots) * tile_s
    # x = m - 1 - u: tiles of the walk on the link that are left out at its end
    local = tiles - remote_tiles
    most = remote_tiles - 1.0 - queue
    whole = floor_div_by_reciprocal(local, slots)
    top = floor_div_by_reciprocal(local + jnp.maximum(most, 0.0), slots)

    def walked_s(left_out: Floats, steps: Floats) -> Floats:
        return (remote_tiles - queue - left_out) * write_s + (1.0 + steps) * tile_s

    held_s = walked_s(0.0, whole)
    first, last = (whole + 1.0) * slots - local, top * slots - local
    held_s = jnp.where(top > whole, jnp.maximum(held_s, walked_s(first, whole + 1.0)), held_s)
    held_s = jnp.where(top > whole, jnp.maximum(held_s, walked_s(last, top)), held_s)
    held_s = jnp.where(most >= 0, held_s, 0.0)
    return jnp.maximum(jnp.maximum(alone_s, held_s), written_s)
