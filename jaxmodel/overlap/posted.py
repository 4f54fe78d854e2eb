"""Tiles that write their results to another GPU through a queue of finite depth.

n equal tiles go round P slots, tile j to the slot of tile j - P, as a persistent kernel deals them; the first m of them
end with a remote write. A link takes one remote tile after the other, w seconds each. At most Q remote tiles are
accepted and not yet taken whole; a slot keeps its finished tile until its write is accepted (back-pressure). A tile of
the first wave takes `first_s`, one of the others tau, one of the last tau less what it is shorter by. With a_j the
acceptance of tile j and d_j its end on the link:

    e_j = a_{j-P} + its time (its time for j < P),   a_j = max(e_j, d_{j-Q}) (e_j of a tile that writes nothing),
    d_j = max(a_j, d_{j-1}) + w

This is a longest path: P tiles further for tau (a slot's next tile), one further for w (the link), and Q further for
the w of entering the link (a full queue). A path that ends on the link never gains by the queue, as Q tiles on the link
weigh Q w; so the last remote write is done at the largest of, x over the waves before the last remote tile's,

    first_s + x tau + (m - x P) w

which is a line in x, the last wave apart. A path that ends with tiles that write nothing enters the link once, walks it
to tile u and comes back by the queue:

    first_s + (u - Q + 1) w + tau floor((n - 1 - u) / P),   Q <= u < m

whose maximum is at an end or where the floor steps, or, where the last wave is shorter, at the first u from which that
wave is not reached. All are exact: `tests/oracles/overlap.py` plays the tiles.
"""

import jax.numpy as jnp

from .._exact import ceil_div_by_reciprocal, floor_div_by_reciprocal
from ..types import Floats
from .wave_ends import WaveEnds


def posted_seconds(
    tiles: Floats,
    slots: Floats,
    waves: WaveEnds,
    *,
    remote_tiles: Floats,
    write_s: Floats,
    queue: Floats,
    after_s: Floats,
) -> Floats:
    """When all tiles are done and all remote writes have arrived.

    Args:
        tiles, slots: n and P, whole, at least 1; n + P below 2^22.
        waves: when waves end where nothing is held back.
        remote_tiles: m, whole, at most `tiles`: the first ones; 0: none.
        write_s: w, of one remote tile on the link.
        queue: Q, whole, at least 1.
        after_s: from the last write's end on the link to its being seen.
    """
    number = ceil_div_by_reciprocal(tiles, slots)
    spared_s = waves.spared_s(number)
    written_s = _written_seconds(slots, waves, remote_tiles, write_s, number, spared_s) + after_s
    held_s = _held_seconds(tiles, slots, waves, remote_tiles, write_s, queue, number, spared_s)
    return jnp.maximum(waves.all_s, jnp.maximum(held_s, jnp.where(remote_tiles > 0, written_s, 0.0)))


def _written_seconds(
    slots: Floats, waves: WaveEnds, remote: Floats, write_s: Floats, number: Floats, spared_s: Floats
) -> Floats:
    """The end of the last remote write on the link."""
    last = floor_div_by_reciprocal(jnp.maximum(remote - 1.0, 0.0), slots)

    def through(wave: Floats) -> Floats:
        shorter_s = jnp.where(wave >= number - 1.0, spared_s, 0.0)
        return waves.first_s + wave * waves.tile_s - shorter_s + (remote - wave * slots) * write_s

    return jnp.maximum(jnp.maximum(through(jnp.zeros_like(last)), through(last)), through(jnp.maximum(last - 1.0, 0.0)))


def _held_seconds(
    tiles: Floats,
    slots: Floats,
    waves: WaveEnds,
    remote: Floats,
    write_s: Floats,
    queue: Floats,
    number: Floats,
    spared_s: Floats,
) -> Floats:
    """The end of the last tile that writes nothing and that full queues held back; 0 where there is none.

    In x = m - 1 - u, the tiles of the walk that are left out at its end: steps(x) = floor((n - m + x) / P).
    """
    local = tiles - remote
    most = remote - 1.0 - queue
    least_steps = floor_div_by_reciprocal(local, slots)
    most_steps = floor_div_by_reciprocal(local + jnp.maximum(most, 0.0), slots)
    in_last = tiles - (number - 1.0) * slots  # tiles of the last wave

    def walked(left_out: Floats, steps: Floats) -> Floats:
        """By a path that steps on from there, and by the first one that misses the shorter last wave."""
        end_s = (remote - queue - left_out) * write_s + waves.first_s + steps * waves.tile_s
        past = local + left_out - steps * slots  # tiles behind the path's last one
        misses = (past >= in_last) | (steps < 1)
        later = jnp.maximum(in_last - past, 0.0)
        there = (left_out + later <= most) & (past + later < slots)
        return jnp.where(misses, end_s, jnp.maximum(end_s - spared_s, jnp.where(there, end_s - later * write_s, 0.0)))

    held_s = walked(jnp.zeros_like(most), least_steps)
    for steps in (least_steps + 1.0, most_steps):
        stepped_s = walked(steps * slots - local, steps)
        held_s = jnp.where(most_steps > least_steps, jnp.maximum(held_s, stepped_s), held_s)
    # where the last step's wave is reached only by a part of its tiles, the step before may weigh more
    before = most_steps - 1.0
    held_s = jnp.where(before > least_steps, jnp.maximum(held_s, walked(before * slots - local, before)), held_s)
    return jnp.where(most >= 0, held_s, 0.0)
