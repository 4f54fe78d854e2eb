"""Ulysses and ring attention played chunk by chunk, every rank and every link: slow twins of the closed forms."""

from itertools import pairwise
from typing import Any


def ulysses(chunks: int, tile_s: float, in_s: float, out_s: float, late_s: float) -> float:
    """Exchanges in, attention, exchanges out; all ranks do the same, so one link stands for all."""
    link_free_s, arrivals = 0.0, []
    for _ in range(chunks):
        link_free_s += in_s
        arrivals.append(link_free_s + late_s)
    done_s, ends = 0.0, []
    for there_s in arrivals:
        done_s = max(done_s, there_s) + tile_s
        ends.append(done_s)
    for end_s in ends:
        link_free_s = max(link_free_s, end_s) + out_s
    return link_free_s + late_s


def ring(ranks: int, chunks: int, own_s: float, chunk_s: float, held_s: float, late_s: float) -> list[float]:
    """Every rank's end where each has a buffer for every chunk: its link sends its own chunks, then those that came, in
    the order in which they came, each once it is there."""
    here = [[0.0] * chunks for _ in range(ranks)]  # when chunk i is at the rank, its own ones first
    link_free_s = [0.0] * ranks
    for place in range((ranks - 1) * chunks):
        sent = []
        for rank in range(ranks):
            link_free_s[rank] = max(link_free_s[rank], here[rank][place]) + held_s
            sent.append(link_free_s[rank] + late_s)
        for rank in range(ranks):
            here[(rank + 1) % ranks].append(sent[rank])
    ends = []
    for rank in range(ranks):
        done_s = own_s
        for there_s in here[rank][chunks:]:
            done_s = max(done_s, there_s) + chunk_s
        ends.append(done_s)
    return ends


def ring_in_lockstep(ranks: int, chunks: int, own_s: float, chunk_s: float, held_s: float, late_s: float) -> float:
    """Two buffers: while one chunk is attended to, the next one comes, and both are waited for."""
    works = [own_s, *[chunk_s] * ((ranks - 1) * chunks)]
    clock_s = 0.0
    for work_s, _ in pairwise(works):
        clock_s += max(work_s, held_s + late_s)
    return clock_s + works[-1]


def way(link: Any, transport: float, comm_sms: float) -> tuple[float, float, float]:
    """(bytes a second, seconds late, seconds of the link beside the bytes) of a transport that is there."""
    if transport == 0:
        return link.copy_bytes_per_s, link.copy_start_s, link.copy_chunk_s
    rate = link.remote_bytes_per_s
    if link.sm_bytes_per_s > 0:
        rate = min(rate, comm_sms * link.sm_bytes_per_s)
    return (rate, link.hop_s, link.flag_s) if transport == 1 else (rate, link.hop_s + link.start_s, 0.0)


def ulysses_latency(problem: Any, at: Any, launch_s: float) -> float:
    """A rank's latency, given its attention's for one chunk of heads."""
    rate, late_s, hold_s = way(problem.link, at.transport, at.comm_sms)
    chunks, flags_s = int(at.chunks), (problem.link.ranks - 1) * hold_s
    shared = problem.attention.kv_heads == 1
    in_bytes = problem.q_bytes + (0.0 if shared else problem.kv_bytes)
    in_s, out_s = flags_s + in_bytes / chunks / rate, flags_s + problem.out_bytes / chunks / rate
    return (problem.kv_bytes / rate if shared else 0.0) + ulysses(chunks, launch_s, in_s, out_s, late_s)


def ring_latency(problem: Any, at: Any, own_s: float, chunk_s: float, idle_s: float, gpu: Any) -> float:
    """The busiest rank's latency, given the attention of its own shard (negative: as any other) and of a chunk, and
    how long DDR idles in the latter."""
    step, chunks = problem.step, int(at.chunks)
    rate, late_s, hold_s = way(problem.link, at.transport, at.comm_sms)
    outputs = step.batch * step.q_tokens * step.heads * step.v_dim
    if at.merge_fused:
        moved_s = outputs * (4 + gpu.ddr_write_cost * max(4 - step.out_bytes, 0)) / gpu.ddr_bytes_per_s
        merge_s = max(moved_s - idle_s, 0.0)
    else:
        merge_s = outputs * (4 + step.out_bytes + gpu.ddr_write_cost * 4) / gpu.ddr_bytes_per_s + gpu.dependent_launch_s
    own_s = own_s if own_s >= 0 else chunks * chunk_s + (chunks - 1) * merge_s
    times = (own_s, chunk_s + merge_s, hold_s + problem.shard_bytes / chunks / rate, late_s)
    ranks = int(problem.link.ranks)
    return ring_in_lockstep(ranks, chunks, *times) if at.lockstep else max(ring(ranks, chunks, *times))
