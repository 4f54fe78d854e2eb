"""GEMM + reduce-scatter: K is cut over the ranks, each computes a partial m x n, and a rank gets the sum of its rows.

Tiles of other ranks' rows are computed first, the own rows last, so that the own tiles hide what is still on its way.
Copy engines take whole chunks; an epilogue's stores post tile after tile; in the switch, SMs pull sums of chunks that
all ranks have done.
"""

import jax.numpy as jnp

from .._exact import ceil_div_by_reciprocal
from ..machine import Gpu
from ..overlap import departure_seconds, posted_seconds
from ..reasons import Reason
from ..sdcm import hit_probability
from ..types import Floats
from .fused_gemm import Chunks, Tiles, Transfers, fused_cost, limited_rate, usable_rate
from .fused_gemm_types import APART, COPY_ENGINES, ONE_SHOT, RASTER, SMS, SWITCH, FusedCost, FusedGemm
from .fused_gemm_types import FusedGemmSchedule as Schedule


def cost(problem: FusedGemm, schedule: Schedule, gpu: Gpu) -> FusedCost:
    """The cost of a rank's GEMM + reduce-scatter, as a breakdown; broadcasts over problems x schedules x GPUs.

    `problem.gemm` is m x n x (k / ranks). Equations: docs/fused-communication.md.
    """
    return fused_cost(problem, schedule, gpu, _transfers)


def _transfers(problem: FusedGemm, schedule: Schedule, gpu: Gpu, chunks: Chunks) -> Transfers:
    gemm, link = problem.gemm, problem.link
    copied, posted, switched = (schedule.transport == code for code in (COPY_ENGINES, SMS, SWITCH))
    apart, raster = schedule.order == APART, schedule.order == RASTER
    row_bytes = gemm.n * gemm.out_bytes
    sent_rows = jnp.where(switched, gemm.m, gemm.m - chunks.shard_rows)  # the switch takes the own partial as well
    pulled = limited_rate(link.switch_bytes_per_s, schedule.comm_sms * link.ranks, link)
    switch_rate = jnp.where(apart, link.switch_bytes_per_s, pulled)
    rate = jnp.where(copied, link.copy_bytes_per_s, jnp.where(switched, switch_rate, link.remote_bytes_per_s))
    rate = usable_rate(rate, link)
    # by row all ranks send to one at a time, whose link takes in what the others' could have
    crowd = jnp.where(raster & jnp.logical_not(switched), link.ranks - 1.0, 1.0)
    row_s = row_bytes * crowd / rate
    chunk_s = jnp.where(copied, link.copy_chunk_s * chunks.shards, link.flag_s)
    pieces = jnp.where(copied, (link.ranks - 1.0) * link.copy_chunk_s, (link.ranks - 2.0) * link.flag_s)
    after_s = jnp.where(copied, link.copy_start_s, jnp.where(switched, link.switch_hop_s, link.hop_s))

    reduced_bytes = jnp.where(switched, 0.0, (link.ranks + 1.0) * chunks.shard_rows * row_bytes)
    reduced_s = sum_seconds(reduced_bytes, chunks.shard_rows * row_bytes, schedule.comm_sms, gpu)
    beside = schedule.comm_sms > 0
    sum_row_s = jnp.where(beside, reduced_s / jnp.maximum(gemm.m - chunks.shard_rows, 1.0), 0.0)
    last_sum_s = jnp.where(beside, reduced_s * jnp.minimum(chunks.rows / chunks.shard_rows, 1.0), 0.0)
    behind_s = jnp.where(beside | switched, 0.0, reduced_s + gpu.dependent_launch_s)
    apart_sum_s = sum_seconds(reduced_bytes, chunks.shard_rows * row_bytes, 0.0, gpu)

    begun_s = jnp.where(switched, link.switch_start_s, link.start_s + after_s)

    def end_s(tiles: Tiles) -> Floats:
        paced_s = jnp.maximum(row_s, sum_row_s)
        closing_s = after_s + last_sum_s
        by_chunk_s = _chunks_end_s(tiles, sent_rows, paced_s, chunk_s, closing_s)
        return jnp.where(posted, _posted_end_s(tiles, schedule, problem, paced_s, closing_s), by_chunk_s)

    return Transfers(
        net_bytes=sent_rows * row_bytes,
        net_bytes_per_s=rate,
        l2_bytes=jnp.where(posted, 0.0, 2.0 * sent_rows * row_bytes) + jnp.where(beside, reduced_bytes, 0.0),
        ddr_bytes=jnp.where(copied, sent_rows * row_bytes, 0.0),
        apart_s=begun_s + pieces + sent_rows * row_bytes / rate + apart_sum_s,
        end_s=end_s,
        reduction_s=behind_s,
        checks=(
            (schedule.transport == ONE_SHOT, Reason.TRANSPORT),
            (switched & jnp.logical_not(beside | apart), Reason.TRANSPORT),
            (switched & raster, Reason.SAME_ORDER),
            ((schedule.queue > 1) & (jnp.logical_not(posted) | apart), Reason.QUEUE),
        ),
    )


def sum_seconds(bytes_: Floats, written_bytes: Floats, comm_sms: Floats, gpu: Gpu) -> Floats:
    """Seconds in which SMs add up partial results that lie in memory.

    Args:
        bytes_: read and written.
        written_bytes: of them.
        comm_sms: that do it; 0: all of them.
    """
    read = bytes_ - written_bytes
    missed = 1.0 - hit_probability(read, gpu.l2_capacity_bytes * gpu.l2_effective_ratio, gpu.l2_ways)
    ports = jnp.where(comm_sms > 0, comm_sms, gpu.sm_count) * gpu.sm_port_bytes_per_clock * gpu.clock_hz
    ddr_s = (read * missed + written_bytes * gpu.ddr_write_cost) / gpu.ddr_bytes_per_s
    moved_s = jnp.maximum(jnp.maximum(bytes_ / gpu.l2_bytes_per_s, ddr_s), bytes_ / ports)
    return jnp.where(bytes_ > 0, moved_s, 0.0)


def _chunks_end_s(tiles: Tiles, sent_rows: Floats, row_s: Floats, chunk_s: Floats, closing_s: Floats) -> Floats:
    of = tiles.chunks
    count = ceil_div_by_reciprocal(sent_rows, of.rows)
    chunk_tiles = of.tile_rows * tiles.cols
    return departure_seconds(
        tiles.tiles,
        tiles.slots,
        tiles.waves,
        sent_tiles=jnp.minimum(count * chunk_tiles, tiles.tiles),
        chunks=jnp.where(sent_rows > 0, count, 0.0),
        chunk_tiles=chunk_tiles,
        chunk_s=of.rows * row_s + chunk_s,
        last_chunk_s=(sent_rows - (count - 1.0) * of.rows) * row_s + chunk_s,
        after_s=closing_s,
    )


def _posted_end_s(tiles: Tiles, schedule: Schedule, problem: FusedGemm, row_s: Floats, closing_s: Floats) -> Floats:
    """By Little's law a queue of so many tiles is drained no faster than its tiles in a round trip."""
    of, link = tiles.chunks, problem.link
    remote_rows = problem.m - of.shard_rows
    tile_rows = jnp.minimum(ceil_div_by_reciprocal(remote_rows, schedule.tile_m), tiles.tile_rows)
    remote = tile_rows * tiles.cols
    queue = schedule.queue * tiles.slots
    tile_s = jnp.maximum(remote_rows * row_s / jnp.maximum(remote, 1.0), link.hop_s / queue)
    flags_s = ceil_div_by_reciprocal(remote_rows, of.rows) * link.flag_s
    return posted_seconds(
        tiles.tiles,
        tiles.slots,
        tiles.waves,
        remote_tiles=remote,
        write_s=tile_s,
        queue=queue,
        after_s=closing_s + flags_s,
    )
