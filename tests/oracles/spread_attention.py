"""Ulysses and ring attention played chunk by chunk, every rank and every link: slow twins of the closed forms."""

from itertools import pairwise


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
