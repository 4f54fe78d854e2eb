"""L1.5: a cache shared by a group of neighbouring SMs, between the SMs and L2.

The tile at position i of a wave runs on SM i mod P, and SMs are grouped g by g. So a group holds a run of consecutive
tiles and, where an SM has several resident tiles, more runs P tiles further on. Nearly all its hits are the tiles of a
group reading the same block in the same K-step; with few K-steps some of the group's previous wave is still there.

An L1.5 hit is always a same-wave hit of L2 as well, so the share of DDR is 1 - (L2 hits of `jaxmodel.reuse`) without
change; L2 itself serves the L2 hits less this share.
"""

import jax.numpy as jnp

from ._exact import floor_div, power_of_two_gcd
from ._pytree import pytree
from .raster import Walk
from .sdcm import hit_probability
from .types import Array


@pytree
class _Groups:
    walk: Walk
    tiles: Array
    concurrent: Array
    sm_count: Array
    runs: Array  # of consecutive tiles in a group at a time, at least 1, a mean
    run: Array  # tiles of one run, a mean
    alignment: Array  # power of two that run starts share
    k_steps: Array
    capacity_bytes: Array
    ways: Array


def l15_share(
    walk: Walk,
    concurrent: Array,
    k_steps: Array,
    sm_count: Array,
    group_sms: Array,
    capacity_bytes: Array,
    ways: Array,
) -> Array:
    """Share of all requested bytes that L1.5 serves.

    Args:
        walk: from `panel_walk`; its bytes are those of a K-step. All arguments broadcast.
        concurrent: tiles in flight, at least 1.
        k_steps: steps of the main loop, at least 1, may be fractional.
        sm_count: SMs that run the kernel.
        group_sms: SMs that share one L1.5.
        capacity_bytes: a group's; 0 where the part has no such level.
        ways: associativity.

    Returns:
        a value in [0, 1), 0 where the capacity is 0. Raises nothing.
    """
    groups = _groups(walk, concurrent, k_steps, sm_count, group_sms, capacity_bytes, ways)
    panels = jnp.ceil(walk.narrow / walk.panel - 1e-5)
    ragged = walk.narrow - (panels - 1.0) * walk.panel
    ragged_share = jnp.where(ragged < walk.panel, ragged / walk.narrow, 0.0)
    full = _bytes_hit(
        groups, walk.panel, jnp.minimum(groups.alignment, power_of_two_gcd(walk.panel, walk.panel)), panels
    )
    last = _bytes_hit(groups, ragged, 1.0, panels)
    return (full + ragged_share * (last - full)) / (walk.long_bytes + walk.narrow_bytes)


def _groups(
    walk: Walk,
    concurrent: Array,
    k_steps: Array,
    sm_count: Array,
    group_sms: Array,
    capacity_bytes: Array,
    ways: Array,
) -> _Groups:
    tiles = walk.long * walk.narrow
    concurrent = jnp.minimum(concurrent, tiles)
    whole_chip = sm_count / jnp.ceil(sm_count / group_sms)
    part_of_chip = concurrent / jnp.ceil(jnp.minimum(concurrent, sm_count) / group_sms)
    return _Groups(
        walk=walk,
        tiles=tiles,
        concurrent=concurrent,
        sm_count=sm_count,
        runs=jnp.maximum(concurrent / sm_count, 1.0),
        run=jnp.minimum(whole_chip, part_of_chip),
        alignment=power_of_two_gcd(sm_count, group_sms),
        k_steps=k_steps,
        capacity_bytes=capacity_bytes,
        ways=ways,
    )


def _bytes_hit(groups: _Groups, width: Array, alignment: Array, panels: Array) -> Array:
    """Bytes a tile and K-step that hit, in panels of one width."""
    walk, run, runs = groups.walk, groups.run, groups.runs
    hit = lambda distance: hit_probability(distance, groups.capacity_bytes, groups.ways)  # noqa: E731
    rows = jnp.minimum(1.0 + jnp.maximum(run - alignment, 0.0) / width, walk.long)
    cols = jnp.minimum(run, width)
    wide = width > run
    shift = groups.sm_count - floor_div(groups.sm_count, width) * width

    long_again = 1.0 - (rows + (runs - 1.0) * jnp.minimum(rows, groups.sm_count / width)) / (runs * run)
    long_hit = jnp.maximum(long_again, 0.0) * hit(walk.narrow_bytes)

    row_distance = (width - 1.0) * walk.narrow_bytes + (2.0 - 1.0 / width) * walk.long_bytes
    same_panel = jnp.clip(
        panels * (walk.long * walk.panel - groups.sm_count) / jnp.maximum(groups.tiles - groups.sm_count, 1.0), 0.0, 1.0
    )
    met = cols / run * (runs - 1.0) / runs * same_panel
    ahead = jnp.where(wide, jnp.maximum(run - shift, 0.0) / run, 1.0)
    ahead_distance = jnp.where(
        wide, jnp.maximum(run - shift - 1.0, 0.0) * walk.narrow_bytes + rows * walk.long_bytes, row_distance
    )
    behind = jnp.where(wide & (shift > 0.5), jnp.maximum(run - width + shift, 0.0) / run, 0.0)
    behind_distance = (jnp.minimum(run - shift, 0.0) + width - 1.0) * walk.narrow_bytes + 2.0 * rows * walk.long_bytes
    narrow_hit = (1.0 - cols / run) * hit(row_distance) + met * (
        ahead * hit(ahead_distance) + behind * hit(behind_distance)
    )

    wave_shift = groups.concurrent - floor_div(groups.concurrent, width) * width
    overlap = jnp.where(
        wide,
        jnp.minimum((jnp.maximum(run - wave_shift, 0.0) + jnp.maximum(run - width + wave_shift, 0.0)) / run, 1.0),
        1.0,
    )
    left = jnp.clip(cols / run - met * jnp.minimum(ahead + behind, 1.0) - 1.0 / walk.long, 0.0, 1.0)
    wave_distance = (groups.k_steps - 1.0) * (
        walk.narrow_bytes * jnp.minimum(runs * run, width) + walk.long_bytes * runs * rows
    ) + jnp.where(wide, runs * ((run - 1.0) * walk.narrow_bytes + rows * walk.long_bytes), row_distance)
    waves_before = jnp.clip(1.0 - groups.concurrent / groups.tiles, 0.0, 1.0)
    narrow_hit = narrow_hit + left * waves_before * overlap * hit(wave_distance)
    return walk.long_bytes * long_hit + walk.narrow_bytes * narrow_hit
