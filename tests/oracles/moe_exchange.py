"""Exchanges of a mixture of experts in Python numbers, written from docs/fused-communication-moe-attention.md: rings of
buffers played chunk by chunk, and start and stream of every way."""

import math
from typing import Any

DIRECT, BUFFERED, LOW_LATENCY = range(3)


def through_a_ring(chunks: int, chunk_s: float, hop_s: float, room: int) -> float:
    """One SM puts chunks into a ring of `room`, another takes them out; room that is free again is seen a hop later."""
    put: list[float] = []
    taken: list[float] = []
    for chunk in range(chunks):
        room_s = taken[chunk - room] + hop_s if chunk >= room else 0.0
        put.append(max(put[-1] if put else 0.0, room_s) + chunk_s)
        taken.append(max(taken[-1] if taken else 0.0, put[-1] + hop_s) + chunk_s)
    return taken[-1]


def times(of: Any, at: Any, gpu: Any) -> tuple[float, float]:
    """(start, stream) of one exchange, from scalar records."""
    link, numbers = of.link, of.numbers
    nodes = of.ranks / link.ranks
    low = at.transport == LOW_LATENCY
    once = at.transport == BUFFERED or (at.transport == DIRECT and at.copies == 1)
    rows = of.rank_rows if once else of.expert_rows
    inside = (link.ranks - 1) / of.ranks if low else (link.ranks - 1) / link.ranks
    busiest_s = rows * inside * of.row_bytes / link.remote_bytes_per_s
    hop_s = link.hop_s
    if nodes > 1:
        rate = of.network.bytes_per_s or link.remote_bytes_per_s
        over = of.expert_rows if low else of.node_rows
        busiest_s = max(busiest_s, over * (nodes - 1) / nodes * of.row_bytes / rate)
        hop_s += of.network.hop_s
    sms = gpu.sm_count if low else max(at.comm_sms, 1)
    moved_s = of.row_bytes / (numbers.sm_bytes_per_s or link.sm_bytes_per_s or link.remote_bytes_per_s)
    row_s = moved_s + numbers.row_s
    if at.transport == DIRECT:
        each_s = max(row_s, (moved_s + link.hop_s) / max(at.queue_rows, 1))
        return hop_s + numbers.call_s, max(rows * each_s / sms, busiest_s)
    if at.transport == BUFFERED:
        channels = max(sms // 2, 1)
        chunks = max(math.ceil(math.ceil(rows / channels) / at.chunk_rows), 1)
        chunk_s = max(at.chunk_rows * row_s + link.flag_s, busiest_s / chunks)
        all_s = through_a_ring(chunks, chunk_s, hop_s, int(max(at.queue_rows // at.chunk_rows, 1)))
        return hop_s + chunk_s + numbers.call_s, all_s - hop_s - chunk_s
    added = of.tokens if of.combine else rows
    taken_s = (rows + gpu.ddr_write_cost * added) * of.row_bytes / gpu.ddr_bytes_per_s
    sent_s = max(rows * row_s / sms, busiest_s) + link.flag_s * link.ranks
    return sent_s + hop_s + taken_s + numbers.call_s, 0.0
