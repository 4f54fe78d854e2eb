"""Why a schedule cannot run: codes in the arrays, words here. Code 0 is feasible."""

from collections.abc import Sequence
from enum import IntEnum

import jax.numpy as jnp

from .types import Bools, Floats


class Reason(IntEnum):
    """The first thing that stops a schedule, in the order in which a compiler or the launch would find it."""

    OK = 0
    MMA_SHAPE = 1
    WARP_TILE = 2
    CTA_PAIR = 3
    ALIGNMENT = 4
    CLUSTER = 5
    SMEM = 6
    REGISTERS = 7
    REGISTER_FILE = 8
    THREADS = 9
    TMEM = 10
    SMS_FREE = 11
    SPLIT_K = 12
    STREAM_K = 13
    EPILOGUE = 14
    TILE_COUNT = 15
    SAME_ORDER = 16
    VECTOR = 17
    ROW_PARTS = 18
    CONVERSION = 19
    SPLIT_KV = 20
    LIBRARY = 21
    NOTHING_KEPT = 22
    PRODUCT_ORDER = 23
    OPERAND_PLACE = 24
    SCALE_BLOCK = 25
    CHAIN = 26
    CHUNKS = 27
    TRANSPORT = 28
    QUEUE = 29


ADVICE: dict[Reason, str] = {
    Reason.OK: "fits",
    Reason.MMA_SHAPE: "the tile is not a multiple of the tensor instruction: use multiples of its rows, columns, depth",
    Reason.WARP_TILE: "the tile does not divide evenly over the warps: fewer warps or a larger tile",
    Reason.CTA_PAIR: "a 2-CTA pair needs an even cluster_m, tile_m 128 and tile_n in steps of 32: else use 1-CTA",
    Reason.ALIGNMENT: "TMA needs rows aligned to 16 bytes: pad the leading dimension or use the mma_sync space",
    Reason.CLUSTER: "the GPU cannot place this cluster: use a smaller cluster",
    Reason.SMEM: "more shared memory than a CTA may have: fewer stages or a smaller tile_k",
    Reason.REGISTERS: "more registers a thread than the limit: a smaller tile or more warps",
    Reason.REGISTER_FILE: "one CTA needs more registers than the SM has: a smaller tile or fewer warps",
    Reason.THREADS: "more threads than a CTA may have: fewer warps",
    Reason.TMEM: "the accumulators need more than the SM's TMEM columns: a smaller tile_n or no overlapped epilogue",
    Reason.SMS_FREE: "leaves no SM to run on, or only SMs that the cluster cannot use anyway: another sms_free",
    Reason.SPLIT_K: "more splits than K-steps: a smaller split_k or tile_k",
    Reason.STREAM_K: "whole waves (or splits) leave nothing to share, or less than one K-step a slot: use persistent",
    Reason.EPILOGUE: "an overlapped epilogue needs a second tile in the same CTA: use a persistent or stream-K launch",
    Reason.TILE_COUNT: "2^24 tiles or more: larger tiles, or split the problem",
    Reason.SAME_ORDER: "same launch order as a smaller swizzle or the other raster axis, kept once",
    Reason.VECTOR: "the vector holds no element or does not divide a row: another vector_bytes, or padded rows",
    Reason.ROW_PARTS: "rows cannot be dealt to CTAs and threads so: other rows_per_cta, splits or steps",
    Reason.CONVERSION: "weights widen in registers (mma.sync, swapped wgmma), TMEM (swapped tcgen05) or SMEM only",
    Reason.SPLIT_KV: "more splits than key blocks, or splits and stream together: fewer splits or a smaller tile_n",
    Reason.LIBRARY: "the implementation has no such kernel, or would not launch it here: take --implementation none",
    Reason.NOTHING_KEPT: "no row is read twice here, so none is kept: keep = registers is the same schedule",
    Reason.PRODUCT_ORDER: "turns need two warpgroups or more, and mma.sync has no order but serial: order = serial",
    Reason.OPERAND_PLACE: "Q in registers is for mma.sync and wgmma, P through SMEM for wgmma and tcgen05 only",
    Reason.SCALE_BLOCK: "a tile does not hold whole blocks of the output's scales: tile sides in steps of the block",
    Reason.CHAIN: "the intermediate cannot be kept there: a narrower product, another place, or spill it",
    Reason.CHUNKS: "a rank's rows have fewer panels of tiles, or the collective runs apart, in one piece: fewer chunks",
    Reason.TRANSPORT: "the fabric or this kernel has no such way, or not with so many comm_sms: another transport",
    Reason.QUEUE: "only tiles staged in shared memory and stored to peers wait in a queue: queue = 1",
}


def first_reason(checks: Sequence[tuple[Bools, Reason]]) -> Floats:
    """The code of the first check that holds, 0 where none does.

    Args:
        checks: (where it holds, its reason), in the order in which a compiler or the launch would find them.
    """
    reason = 0.0
    for failed, code in reversed(checks):
        reason = jnp.where(failed, float(code), reason)
    return reason
