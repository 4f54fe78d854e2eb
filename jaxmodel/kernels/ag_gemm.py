"""All-gather + GEMM: a rank has a shard of A's rows and its columns of B, gathers A while it computes A B.

Tiles of its own shard need nothing and are launched first; the others follow by shard, the nearest on the ring first,
and wait until their chunk has arrived.
"""

import jax.numpy as jnp

from .._exact import ceil_div_by_reciprocal, floor_div_by_reciprocal
from ..machine import Gpu
from ..overlap import arrival_seconds
from ..reasons import Reason
from ..types import Bools, Floats
from .fused_gemm import Chunks, Tiles, Transfers, fused_cost, limited_rate, usable_rate
from .fused_gemm_types import APART, COPY_ENGINES, ONE_SHOT, RASTER, SWITCH, FusedCost, FusedGemm, FusedGemmSchedule
from .gemm_scaling import scale_bytes


def cost(problem: FusedGemm, schedule: FusedGemmSchedule, gpu: Gpu) -> FusedCost:
    """The cost of a rank's all-gather + GEMM, as a breakdown; broadcasts over problems x schedules x GPUs.

    `problem.gemm` is m x (n / ranks) x k. Equations: docs/fused-communication.md.
    """
    return fused_cost(problem, schedule, gpu, _transfers)


def _transfers(problem: FusedGemm, schedule: FusedGemmSchedule, gpu: Gpu, chunks: Chunks) -> Transfers:
    gemm, link = problem.gemm, problem.link
    copied, switched = schedule.transport == COPY_ENGINES, schedule.transport == SWITCH
    apart = schedule.order == APART
    remote_rows = gemm.m - chunks.shard_rows
    row_bytes = gemm.k * (gemm.a_bytes + scale_bytes(gemm)[0])
    # a multicast comes back to its own rank, so that a link takes in the own shard as well
    wire = jnp.where(switched, gemm.m / jnp.maximum(remote_rows, 1.0), 1.0)
    pulled = limited_rate(link.remote_bytes_per_s, schedule.comm_sms, link)
    cast = limited_rate(link.switch_bytes_per_s, schedule.comm_sms * link.ranks, link)
    own_rate = jnp.where(switched, link.switch_bytes_per_s, link.remote_bytes_per_s)
    rate = jnp.where(apart, own_rate, jnp.where(switched, cast, pulled))
    rate = usable_rate(jnp.where(copied, link.copy_bytes_per_s, rate), link)
    row_s = row_bytes * wire / rate
    start_s = jnp.where(copied, link.copy_start_s, jnp.where(switched, link.switch_hop_s, link.hop_s))
    chunk_s = jnp.where(copied, link.copy_chunk_s * chunks.shards, link.flag_s)
    pieces = jnp.where(copied, (link.ranks - 1.0) * link.copy_chunk_s, (link.ranks - 2.0) * link.flag_s)
    begun_s = jnp.where(switched, link.switch_start_s, link.start_s + start_s)
    busy = schedule.comm_sms > 0
    return Transfers(
        net_bytes=remote_rows * row_bytes * wire,
        net_bytes_per_s=rate,
        l2_bytes=2.0 * remote_rows * row_bytes,  # what arrives, and as much that peers take
        ddr_bytes=remote_rows * row_bytes,
        apart_s=begun_s + pieces + remote_rows * row_s,
        end_s=lambda tiles: _end_s(tiles, schedule.order == RASTER, gemm.m, start_s, row_s, chunk_s),
        checks=(
            ((schedule.transport == ONE_SHOT) | (copied & busy), Reason.TRANSPORT),
            (jnp.logical_not(copied | busy | apart), Reason.TRANSPORT),
            (schedule.queue > 1, Reason.QUEUE),
        ),
    )


def _end_s(tiles: Tiles, raster: Bools, m: Floats, start_s: Floats, row_s: Floats, chunk_s: Floats) -> Floats:
    """The end of the last tile. In raster order a rank's own rows may come last and the last to arrive first: on that
    rank everything waits for everything."""
    of = tiles.chunks
    count = ceil_div_by_reciprocal(tiles.tile_rows, of.tile_rows)
    own = floor_div_by_reciprocal(of.shard_rows, of.rows)
    remote_rows = m - of.shard_rows
    coming = jnp.where(remote_rows > 0, count - own, 0.0)
    first_rows = jnp.minimum((own + 1.0) * of.rows, m) - of.shard_rows
    arrived_s = start_s + remote_rows * row_s + coming * chunk_s
    end_s = arrival_seconds(
        tiles.tiles,
        tiles.slots,
        tiles.waves.tile_s,
        own_tiles=own * of.tile_rows * tiles.cols,
        chunks=coming,
        chunk_tiles=of.tile_rows * tiles.cols,
        first_s=start_s + first_rows * row_s + chunk_s,
        chunk_s=of.rows * row_s + chunk_s,
        last_chunk_s=(m - (count - 1.0) * of.rows) * row_s + chunk_s,
    )
    in_turn_s = end_s - tiles.waves.tile_s + tiles.last_s
    return jnp.maximum(tiles.waves.all_s, jnp.where(raster, arrived_s + tiles.waves.all_s, in_turn_s))
