"""What a GEMM's loads move at every level: bytes a K-step, and the shares that L1.5 and L2 serve."""

from typing import Any

import jax
import jax.numpy as jnp

from .._exact import ceil_div
from .._pytree import pytree
from ..drift import drift_sigma_steps
from ..l15 import l15_share
from ..machine import Gpu
from ..raster import panel_walk
from ..reuse import L2Hits, l2_hits
from ..sdcm import hit_probability
from ..stream_k import stream_k_hits
from ..types import Array, Bools, Floats, Gemm, GemmSchedule
from .gemm_scaling import scale_bytes

SECTOR_BYTES = 32.0
ACCUMULATOR_BYTES = 4.0


@pytree
class Traffic:
    """Mean bytes one CTA requests a K-step and who serves them."""

    step_bytes: Array  # after multicast: what crosses the SM's port
    l15_hit: Array  # share served by L1.5
    l2_hit: Array  # share served by L1.5 or L2: the rest comes from DDR
    workspace_miss: Array  # share of split-K's partial tiles that L2 cannot hold


def sector_factor(run_bytes: Floats, align_bytes: Floats) -> Floats:
    """Fetched over wanted bytes of runs of `run_bytes` contiguous bytes that start at multiples of `align_bytes`:
    memory moves 32-byte sectors, and a run that does not start on one touches part of another."""
    misaligned = jnp.maximum(SECTOR_BYTES - align_bytes, 0.0)
    return jnp.maximum(run_bytes + misaligned, SECTOR_BYTES) / run_bytes


def operand_traffic(
    problem: Gemm, schedule: GemmSchedule, gpu: Gpu, rows: Floats, cols: Floats, sms: Floats, slots: Floats
) -> Traffic:
    """Bytes and hit shares of the operand loads.

    A cluster is one wider tile whose CTAs share their loads; splits are more batch entries with a shorter K walk; a
    warm operand's first touch hits as far as L2 holds all that the kernel touches. Reuse: `jaxmodel.reuse`.

    With `schedule.swizzle` None the launch order is left open and the hits are those that no order exceeds: every touch
    of a block but the first hits L2, and L1.5 where there is one. What the model makes of it is then a lower bound of
    its latency and its bytes over all orders: `tests/test_open_order.py`.

    Args:
        rows, cols: CTA tiles of the grid, whole clusters.
        sms: SMs that run the kernel, whole clusters.
        slots: CTAs at once.
    """
    cluster_m, cluster_n = schedule.cluster_m, schedule.cluster_n
    cluster = cluster_m * cluster_n
    steps = ceil_div(problem.k, schedule.tile_k)
    split = schedule.split_k
    depth = problem.k / steps
    a_run = jnp.where(problem.a_k_major > 0, schedule.tile_k, schedule.tile_m) * problem.a_bytes
    b_run = jnp.where(problem.b_k_major > 0, schedule.tile_k, schedule.tile_n) * problem.b_bytes
    a_scale_bytes, b_scale_bytes = scale_bytes(problem)
    a_fetched = problem.a_bytes * sector_factor(a_run, problem.a_align_bytes) + a_scale_bytes
    b_fetched = problem.b_bytes * sector_factor(b_run, problem.b_align_bytes) + b_scale_bytes
    a_block, b_block = problem.m / rows * depth * a_fetched, problem.n / cols * depth * b_fetched
    a_step, b_step = a_block / cluster_n, b_block / cluster_m

    capacity = gpu.l2_capacity_bytes * gpu.l2_effective_ratio
    if schedule.swizzle is None:
        a_cold, b_cold = cluster_n / cols, cluster_m / rows
        hits = L2Hits(rows=1.0 - a_cold, cols=1.0 - b_cold, rows_cold=a_cold, cols_cold=b_cold)
        l15_hit = jnp.where(gpu.l15_capacity_bytes > 0, 1.0, 0.0)
    else:
        walk = panel_walk(
            rows / cluster_m,
            cols / cluster_n,
            schedule.raster_along_n,
            schedule.swizzle,
            a_block * cluster_m,
            b_block * cluster_n,
        )
        tile_out_bytes = jnp.where(split > 1, ACCUMULATOR_BYTES, problem.out_bytes)
        out_bytes = problem.m * problem.n / (rows * cols) * cluster * tile_out_bytes
        batch, at_once, walk_steps = problem.batch * split, slots / cluster, ceil_div(steps, split)
        hits = _launch_hits(
            schedule.stream_k > 0,
            (walk, batch, at_once, walk_steps, out_bytes, capacity, jnp.asarray(gpu.l2_ways)),
            _drift_sigma_steps(problem, split, walk_steps, gpu),
        )
        group_clusters = jnp.maximum(gpu.l15_group_sms / cluster, 1.0)
        l15_hit = l15_share(
            walk,
            at_once,
            walk_steps,
            sms / cluster,
            group_clusters,
            gpu.l15_capacity_bytes,
            gpu.l15_ways,
        )
    a_bytes = problem.m * problem.k * problem.batch * (problem.a_bytes + a_scale_bytes)
    b_bytes = problem.k * problem.n * problem.batch * (problem.b_bytes + b_scale_bytes)
    out_total = problem.m * problem.n * problem.batch
    resident = gpu.l2_retention * hit_probability(
        a_bytes + b_bytes + out_total * problem.out_bytes, capacity, gpu.l2_ways
    )
    a_hit = hits.rows + hits.rows_cold * problem.a_warm * resident
    b_hit = hits.cols + hits.cols_cold * problem.b_warm * resident
    step_bytes = a_step + b_step
    l2_hit = jnp.clip((a_step * a_hit + b_step * b_hit) / step_bytes, 0.0, 1.0)

    workspace = out_total * split * ACCUMULATOR_BYTES
    return Traffic(
        step_bytes=step_bytes,
        l15_hit=jnp.minimum(l15_hit, l2_hit),
        l2_hit=l2_hit,
        workspace_miss=1.0 - hit_probability(workspace, capacity, gpu.l2_ways),
    )


def partial_tiles(tiles: Floats, slots: Floats) -> Floats:
    """Partial tiles that stream-K's slots hand to a peer: one a slot, fewer where the first tiles fill slots alone."""
    return jnp.where(tiles < slots, slots - tiles, slots)


def _drift_sigma_steps(problem: Gemm, split: Floats, walk_steps: Floats, gpu: Gpu) -> Floats | None:
    """None where the GPU's tiles advance together: nothing of drift is then traced."""
    if gpu.drift_skew_steps is None and gpu.drift_jitter_steps is None:
        return None
    skew, jitter = (0.0 if value is None else value for value in (gpu.drift_skew_steps, gpu.drift_jitter_steps))
    depth_bytes = problem.k / split * jnp.maximum(problem.a_bytes, problem.b_bytes)
    return drift_sigma_steps(skew, jitter, walk_steps, depth_bytes)


def _launch_hits(streaming: Bools, arguments: tuple[Any, ...], sigma_steps: Floats | None) -> L2Hits:
    """Hits of a plain or persistent launch, whose tiles may drift, or of stream-K, in step, where `streaming`.

    Stream-K's form costs more than all the rest of the model, so it is computed only for a batch of candidates in which
    one streams: the spaces hold the launch outermost, and nearly every chunk has one kind of launch. The selection is
    by candidate either way.
    """
    plain = l2_hits(*arguments, drift_sigma_steps=sigma_steps)
    if streaming is False:  # a kernel that never streams traces nothing of it
        return plain
    leaves = jax.tree.leaves((arguments, sigma_steps))
    shape = jnp.broadcast_shapes(jnp.shape(streaming), *(jnp.shape(leaf) for leaf in leaves))

    def shared() -> L2Hits:
        return jax.tree.map(lambda ours, theirs: jnp.where(streaming, ours, theirs), stream_k_hits(*arguments), plain)

    def whole(hits: L2Hits) -> L2Hits:
        return jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, shape).astype(jnp.result_type(*leaves)), hits)

    return jax.lax.cond(jnp.any(streaming), lambda: whole(shared()), lambda: whole(plain))
