"""GEMM + all-reduce: K is cut over the ranks, each computes a partial m x n, and every rank gets the sum of them all.

All ranks compute their tiles in the same order, and the tiles of a chunk belong to all ranks in equal parts, so that a
chunk that all have done keeps every link busy: in two shots (partial tiles stored to their owner, which adds them up
and stores the sum to its peers), in one (stored to every peer, each adds up for itself), or in the switch.
"""

import jax.numpy as jnp

from .._exact import ceil_div_by_reciprocal
from ..machine import Gpu
from ..overlap import departure_seconds
from ..reasons import Reason
from ..types import Floats
from .fused_gemm import Chunks, Tiles, Transfers, fused_cost, usable_rate
from .fused_gemm_types import APART, COPY_ENGINES, ONE_SHOT, RASTER, SWITCH, FusedCost, FusedGemm
from .fused_gemm_types import FusedGemmSchedule as Schedule
from .gemm_rs import sum_seconds


def cost(problem: FusedGemm, schedule: Schedule, gpu: Gpu) -> FusedCost:
    """The cost of a rank's GEMM + all-reduce, as a breakdown; broadcasts over problems x schedules x GPUs.

    `problem.gemm` is m x n x (k / ranks). Equations: docs/fused-communication.md.
    """
    return fused_cost(problem, schedule, gpu, _transfers)


def _transfers(problem: FusedGemm, schedule: Schedule, gpu: Gpu, chunks: Chunks) -> Transfers:
    gemm, link = problem.gemm, problem.link
    ranks = link.ranks
    one_shot, switched = schedule.transport == ONE_SHOT, schedule.transport == SWITCH
    apart = schedule.order == APART
    bytes_ = gemm.m * gemm.n * gemm.out_bytes
    two_shots = 2.0 * (ranks - 1.0) / ranks
    wire = jnp.where(switched, 1.0 + 1.0 / ranks, jnp.where(one_shot, ranks - 1.0, two_shots))
    rate = usable_rate(jnp.where(switched, link.switch_bytes_per_s, link.remote_bytes_per_s), link)
    # what communicating SMs move themselves: results of other SMs' epilogues are on their way without them
    moved = jnp.where(switched, 2.0 / ranks, jnp.where(one_shot, 0.0, (ranks - 1.0) / ranks))
    known = link.sm_bytes_per_s > 0
    sm_rate = jnp.maximum(schedule.comm_sms, 1.0) * jnp.where(known, link.sm_bytes_per_s, 1.0)
    moved_s = jnp.where(known, bytes_ * moved / sm_rate, 0.0)
    summed = bytes_ * jnp.where(switched, 0.0, jnp.where(one_shot, ranks + 1.0, 1.0 + 1.0 / ranks))
    written = bytes_ * jnp.where(one_shot, 1.0, 1.0 / ranks)
    sum_s = sum_seconds(summed, written, jnp.maximum(schedule.comm_sms, 1.0), gpu)
    paced_s = jnp.maximum(bytes_ * wire / rate, jnp.maximum(moved_s, sum_s)) / gemm.m
    hops_s = jnp.where(switched, link.switch_hop_s, jnp.where(one_shot, 1.0, 2.0) * link.hop_s)
    closing_s = hops_s + sum_s * jnp.minimum(chunks.rows / gemm.m, 1.0)
    pieces = (ranks - 2.0) * link.flag_s
    begun_s = jnp.where(switched, link.switch_start_s, link.start_s + hops_s)
    apart_sum_s = sum_seconds(summed, written, 0.0, gpu)
    arriving = jnp.where(switched, 1.0, jnp.where(one_shot, ranks - 1.0, 1.0))
    return Transfers(
        net_bytes=bytes_ * wire,
        net_bytes_per_s=rate,
        l2_bytes=bytes_ * (arriving + 1.0) + summed,
        ddr_bytes=bytes_,
        apart_s=begun_s + pieces + bytes_ * wire / rate + apart_sum_s,
        end_s=lambda tiles: _end_s(tiles, gemm.m, paced_s, link.flag_s, closing_s),
        checks=(
            ((schedule.transport == COPY_ENGINES) | (schedule.queue > 1), Reason.TRANSPORT),
            (jnp.logical_not((schedule.comm_sms > 0) | apart), Reason.TRANSPORT),
            (schedule.order == RASTER, Reason.SAME_ORDER),
        ),
    )


def _end_s(tiles: Tiles, m: Floats, row_s: Floats, chunk_s: Floats, closing_s: Floats) -> Floats:
    of = tiles.chunks
    count = ceil_div_by_reciprocal(tiles.tile_rows, of.tile_rows)
    return departure_seconds(
        tiles.tiles,
        tiles.slots,
        tiles.waves,
        sent_tiles=tiles.tiles,
        chunks=count,
        chunk_tiles=of.tile_rows * tiles.cols,
        chunk_s=of.rows * row_s + chunk_s,
        last_chunk_s=(m - (count - 1.0) * of.rows) * row_s + chunk_s,
        after_s=closing_s,
    )
