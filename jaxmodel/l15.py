"""L1.5: a cache shared by a group of neighbouring SMs, between the SMs and L2.

The tile at position i of a wave runs on SM i mod P, and SMs are grouped g by g. So a group holds a run of consecutive
tiles and, where an SM has several resident tiles, more runs, each P tiles further on. Nearly all its hits are the tiles
of a group reading the same block in the same K-step; with few K-steps some of the group's previous wave is still there.

An L1.5 hit is always a same-wave hit of L2 as well, so the share of DDR is 1 - (L2 hits of `jaxmodel.reuse`) without
change; L2 itself serves the L2 hits less this share.

"Row" is a position on the walk's long axis and "column" one on its narrow axis, as in `jaxmodel.reuse`. Against the
exact stack of every group (`scripts/check_hits.py`) the share is within 0.8 percentage points in the mean from 4
K-steps on, and the same for batches, whose matrix boundaries it does not see. It is least exact with up to 3 K-steps
(2 to 3 points in the mean) and where several runs of a group meet again in the rows or columns of another panel.
"""

import jax.numpy as jnp

from ._exact import floor_div_by_reciprocal, power_of_two_gcd
from ._pytree import pytree
from .raster import Walk
from .sdcm import hit_probability
from .types import Array


@pytree
class _Groups:
    """What the groups of SMs hold at a time, in the mean, and the cache they share it in."""

    walk: Walk
    tiles: Array
    concurrent: Array
    sm_count: Array
    k_steps: Array
    runs: Array  # runs of consecutive tiles in a group, at least 1
    run: Array  # tiles of one run
    reciprocal_run: Array
    capacity_bytes: Array
    ways: Array

    def hit(self, distance_bytes: Array) -> Array:
        return hit_probability(distance_bytes, self.capacity_bytes, self.ways)


@pytree
class _Run:
    """What one run touches in a K-step, and where its panel is as wide as `width`."""

    rows: Array  # distinct rows
    cols: Array
    row_interval_bytes: Array  # between a column's uses by two neighbouring rows
    width: Array
    in_one_row: Array  # the panel is wider than the run


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

    Clusters: count `concurrent`, `sm_count` and `group_sms` in clusters, each at least 1, as the walk does.

    Args:
        walk: from `panel_walk`; its bytes are those of a K-step. All arguments broadcast.
        concurrent: tiles in flight, at least 1.
        k_steps: steps of the main loop (of a split, where K is split), at least 1, may be fractional.
        sm_count: SMs that run the kernel.
        group_sms: SMs that share one L1.5.
        capacity_bytes: a group's; 0 where the part has no such level.
        ways: associativity.

    Returns:
        a value in [0, 1), 0 where the capacity is 0. Raises nothing.
    """
    groups = _groups(walk, concurrent, k_steps, sm_count, group_sms, capacity_bytes, ways)
    run = _mean_run(groups, group_sms)
    narrow = _narrow_operand_hit(groups, run)
    long = _long_operand_hit(groups, run)
    return (walk.long_bytes * long + walk.narrow_bytes * narrow) / (walk.long_bytes + walk.narrow_bytes)


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
    busy_sms = jnp.minimum(concurrent, sm_count)
    run = busy_sms / floor_div_by_reciprocal(busy_sms + group_sms - 1.0, group_sms)
    return _Groups(
        walk=walk,
        tiles=tiles,
        concurrent=concurrent,
        sm_count=sm_count,
        k_steps=k_steps,
        runs=concurrent / busy_sms,
        run=run,
        reciprocal_run=1.0 / run,
        capacity_bytes=capacity_bytes,
        ways=ways,
    )


def _mean_run(groups: _Groups, group_sms: Array) -> _Run:
    """The mean over the panels, of which the last may be ragged."""
    walk = groups.walk
    ragged_share = jnp.where(walk.last_panel < walk.panel, walk.last_panel / walk.narrow, 0.0)
    full = _run(groups, walk.panel, _alignment(groups, group_sms))
    ragged = _run(groups, walk.last_panel, 1.0)
    return _Run(
        rows=full.rows + ragged_share * (ragged.rows - full.rows),
        cols=full.cols + ragged_share * (ragged.cols - full.cols),
        row_interval_bytes=full.row_interval_bytes
        + ragged_share * (ragged.row_interval_bytes - full.row_interval_bytes),
        width=walk.panel,
        in_one_row=full.in_one_row,
    )


def _alignment(groups: _Groups, group_sms: Array) -> Array:
    """Shift that the starts of runs and rows share: a whole group for the launch's first runs, less for later ones."""
    panel_and_group = power_of_two_gcd(groups.walk.panel, group_sms)
    later = power_of_two_gcd(panel_and_group, groups.sm_count)
    first_share = jnp.minimum(groups.sm_count / groups.tiles, 1.0)
    return later + first_share * (panel_and_group - later)


def _run(groups: _Groups, width: Array, alignment: Array) -> _Run:
    walk, run, per_width = groups.walk, groups.run, 1.0 / width
    per_long = 1.0 / walk.long
    cols = jnp.minimum(jnp.minimum(run, width * (1.0 - per_long) + run * per_long), walk.narrow)
    return _Run(
        rows=jnp.minimum(1.0 + jnp.maximum(run - alignment, 0.0) * per_width, walk.long),
        cols=cols,
        row_interval_bytes=walk.row_interval_bytes(width),
        width=width,
        in_one_row=width > run,
    )


def _long_operand_hit(groups: _Groups, run: _Run) -> Array:
    """Hits on a row that another tile of the group has just read."""
    walk = groups.walk
    offset = groups.sm_count * (1.0 / run.width)  # rows from one run of the group to the next
    offset = offset - jnp.floor(offset * (1.0 / walk.long)) * walk.long
    rows_of_next_run = jnp.minimum(run.rows, jnp.minimum(offset, walk.long - offset))
    rows = jnp.minimum(run.rows + (groups.runs - 1.0) * rows_of_next_run, walk.long)
    again = jnp.maximum(1.0 - rows * (groups.reciprocal_run / groups.runs), 0.0)
    return again * groups.hit(walk.narrow_bytes)


def _narrow_operand_hit(groups: _Groups, run: _Run) -> Array:
    """Hits on a column that the same run, another run of the group or the group's previous wave has read."""
    in_run = 1.0 - run.cols * groups.reciprocal_run
    in_others, others_hit = _other_runs(groups, run)
    before, before_hit = _previous_wave(groups, run)
    left = jnp.clip(1.0 - in_run - in_others - 1.0 / groups.walk.long, 0.0, 1.0)
    return in_run * groups.hit(run.row_interval_bytes) + others_hit + left * before * before_hit


def _other_runs(groups: _Groups, run: _Run) -> tuple[Array, Array]:
    """Share of the narrow operand's requests whose column another run reads in the same K-step, and those that hit.

    Runs are P tiles apart. In a panel wider than a run they overlap in some columns: ahead in the same row of the
    panel, or behind, a row on.
    """
    walk, length = groups.walk, groups.run
    pairs = walk.panels * (walk.long * walk.panel - groups.sm_count)
    same_panel = jnp.clip(pairs / jnp.maximum(groups.tiles - groups.sm_count, 1.0), 0.0, 1.0)
    candidates = run.cols * groups.reciprocal_run * (1.0 - 1.0 / groups.runs) * same_panel
    shift = groups.sm_count - floor_div_by_reciprocal(groups.sm_count, run.width) * run.width
    ahead = jnp.maximum(length - shift, 0.0) * groups.reciprocal_run
    ahead = jnp.where(run.in_one_row, ahead, 1.0)
    ahead_bytes = jnp.maximum(length - shift - 1.0, 0.0) * walk.narrow_bytes + run.rows * walk.long_bytes
    ahead_hit = groups.hit(jnp.where(run.in_one_row, ahead_bytes, run.row_interval_bytes))
    behind = jnp.maximum(length - run.width + shift, 0.0) * groups.reciprocal_run
    behind = jnp.where(run.in_one_row & (shift > 0.5), behind, 0.0)
    behind_bytes = (jnp.minimum(length - shift, 0.0) + run.width - 1.0) * walk.narrow_bytes
    behind_hit = groups.hit(behind_bytes + 2.0 * run.rows * walk.long_bytes)
    return candidates * jnp.minimum(ahead + behind, 1.0), candidates * (ahead * ahead_hit + behind * behind_hit)


def _previous_wave(groups: _Groups, run: _Run) -> tuple[Array, Array]:
    """Share of columns that the group read a wave ago, and their hit: it takes few K-steps to matter."""
    walk, length, runs = groups.walk, groups.run, groups.runs
    shift = groups.concurrent - floor_div_by_reciprocal(groups.concurrent, run.width) * run.width
    overlap = jnp.maximum(length - shift, 0.0) + jnp.maximum(length - run.width + shift, 0.0)
    overlap = jnp.where(run.in_one_row, jnp.minimum(overlap * groups.reciprocal_run, 1.0), 1.0)
    rows_bytes = walk.long_bytes * runs * run.rows
    step_bytes = walk.narrow_bytes * jnp.minimum(runs * length, run.width) + rows_bytes
    rest_of_step = jnp.where(
        run.in_one_row, runs * (length - 1.0) * walk.narrow_bytes + rows_bytes, run.row_interval_bytes
    )
    hit = groups.hit((groups.k_steps - 1.0) * step_bytes + rest_of_step)
    same_panel = walk.panels * jnp.maximum(walk.long * run.width - groups.concurrent, 0.0) / groups.tiles
    return overlap * jnp.minimum(same_panel, 1.0), hit
