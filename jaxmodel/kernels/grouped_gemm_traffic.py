"""What a grouped GEMM's loads move: row blocks of all experts, reuse inside an expert, first touches of A and B.

The launch walks expert after expert, each as GEMM walks its grid, in waves that all experts share. Reuse is that of an
expert with the mean number of row blocks (in the mean over row blocks: most tiles belong to large experts); what must
be read once, every used B and every row of A, is counted exactly.
"""

import jax.numpy as jnp

from .._exact import ceil_div_by_reciprocal
from .._pytree import pytree
from ..l15 import l15_share
from ..machine import Gpu
from ..raster import panel_walk
from ..reuse import l2_hits
from ..sdcm import hit_probability
from ..types import Array, Floats
from .gemm_traffic import Traffic, sector_factor
from .grouped_gemm_types import ExpertClass, GroupedGemm, GroupedGemmSchedule


@pytree
class Routed:
    """An expert's rows in blocks of a tile's rows, over all experts."""

    rows: Array  # of all experts
    experts: Array  # that get rows
    blocks: Array  # row blocks of all experts
    blocks_each: Array  # row blocks of the mean block's expert: whole


def routed_rows(classes: tuple[ExpertClass, ...]) -> Floats:
    """Rows of all experts."""
    return sum(entry.rows * entry.experts for entry in classes)


def routed(classes: tuple[ExpertClass, ...], tile_rows: Floats) -> Routed:
    """Sums over the classes for tiles of `tile_rows` rows."""
    blocks = squares = experts = rows = 0.0
    inverse = 1.0 / tile_rows
    for entry in classes:
        # as `ceil_div_by_reciprocal`, with one division for all classes
        each = jnp.floor((entry.rows + (tile_rows - 0.5)) * inverse)
        blocks += entry.experts * each
        squares += entry.experts * each * each
        experts += entry.experts
        rows += entry.experts * entry.rows
    blocks = jnp.maximum(blocks, 1.0)
    return Routed(rows=rows, experts=experts, blocks=blocks, blocks_each=jnp.maximum(jnp.round(squares / blocks), 1.0))


def grouped_traffic(
    problem: GroupedGemm,
    schedule: GroupedGemmSchedule,
    gpu: Gpu,
    group: Routed,
    col_blocks: Floats,
    steps: Floats,
    sms: Floats,
    slots: Floats,
    pair: Floats,
) -> Traffic:
    """Bytes and hit shares of the operand loads; `a` below is A (rows of tokens), `b` the experts' weights.

    With `schedule.swizzle` None: what no launch order exceeds, as in `gemm_traffic.operand_traffic`.

    Args:
        group: for the rows of a tile, or of a pair's.
        col_blocks: tiles along n, or pairs.
        steps: K-steps of a tile.
        sms: SMs that run the kernel.
        slots: CTAs at once.
        pair: CTAs that share their loads: 2 in a 2-CTA pair, else 1.
    """
    swapped = schedule.swap_ab > 0
    depth = problem.k / steps
    scaling = problem.scaling
    a_scale_bytes, b_scale_bytes = (0.0, 0.0) if scaling is None else (scaling.a_scale_bytes, scaling.b_scale_bytes)
    a_fetched = problem.a_bytes * sector_factor(schedule.tile_k * problem.a_bytes, problem.a_align_bytes)
    b_fetched = problem.b_bytes * sector_factor(schedule.tile_k * problem.b_bytes, problem.b_align_bytes)
    a_block = group.rows / group.blocks * depth * (a_fetched + a_scale_bytes)
    b_block = problem.n / col_blocks * depth * (b_fetched + b_scale_bytes)

    capacity = gpu.l2_capacity_bytes * gpu.l2_effective_ratio
    a_cold = 1.0 / col_blocks
    if schedule.swizzle is None:
        a_hit, reused = 1.0 - a_cold, 1.0
        l15_hit = jnp.where(gpu.l15_capacity_bytes > 0, 1.0, 0.0)
    else:
        walk = panel_walk(
            jnp.where(swapped, col_blocks, group.blocks_each),
            jnp.where(swapped, group.blocks_each, col_blocks),
            schedule.raster_along_n,
            schedule.swizzle,
            jnp.where(swapped, b_block, a_block),
            jnp.where(swapped, a_block, b_block),
        )
        out_bytes = group.rows * problem.n / (group.blocks * col_blocks) * problem.out_bytes
        matrices = jnp.maximum(group.blocks / group.blocks_each, 1.0)
        hits = l2_hits(walk, matrices, slots / pair, steps, out_bytes, capacity, jnp.asarray(gpu.l2_ways))
        a_hit = jnp.where(swapped, hits.cols, hits.rows)
        b_hit = jnp.where(swapped, hits.rows, hits.cols)
        # of B's requests that could hit in an expert of the mean size, the share that does, over those that can
        again = jnp.maximum(group.blocks_each - 1.0, 1.0) / group.blocks_each
        reused = jnp.where(group.blocks_each > 1.5, jnp.minimum(b_hit / again, 1.0), 1.0)
        group_clusters = jnp.maximum(gpu.l15_group_sms / pair, 1.0)
        l15_hit = l15_share(walk, slots / pair, steps, sms / pair, group_clusters, gpu.l15_capacity_bytes, gpu.l15_ways)
    b_hit = reused * jnp.clip(1.0 - group.experts / group.blocks, 0.0, 1.0)

    touched = problem.tokens * problem.k * (problem.a_bytes + a_scale_bytes)
    touched += group.experts * problem.k * problem.n * (problem.b_bytes + b_scale_bytes)
    touched += group.rows * problem.n * problem.out_bytes
    held = hit_probability(touched, capacity, gpu.l2_ways)
    first = jnp.minimum(problem.tokens / jnp.maximum(group.rows, 1.0), 1.0)  # of a row's visits to experts
    a_hit = a_hit + a_cold * held * (first * problem.a_warm * gpu.l2_retention + (1.0 - first))

    block_bytes = a_block + b_block
    l2_hit = jnp.clip((a_block * a_hit + b_block * b_hit) / block_bytes, 0.0, 1.0)
    return Traffic(
        step_bytes=block_bytes / pair, l15_hit=jnp.minimum(l15_hit, l2_hit), l2_hit=l2_hit, workspace_miss=0.0
    )


def column_blocks(n: Floats, tile_cols: Floats) -> Floats:
    """Tiles along n."""
    return ceil_div_by_reciprocal(n, tile_cols)
