"""Micro-batches that pass through stages, played job by job.

Written from what a pipeline does: a stage works on one micro-batch at a time, in the order in which they were started;
a result is under way for a while, during which its stage goes on; with tokens of a sequence made one after the other, a
micro-batch starts its next round at the first stage when its last result is back there.
"""

from collections.abc import Sequence


def decode_starts(stages_s: Sequence[float], send_s: float, micro_batches: int, rounds: int) -> list[list[float]]:
    """When each micro-batch starts each round at the first stage: [round][micro-batch]."""
    free = [0.0] * len(stages_s)
    back = [0.0] * micro_batches
    starts = []
    for _ in range(rounds):
        row = []
        for batch in range(micro_batches):
            now = back[batch]
            for stage, own_s in enumerate(stages_s):
                now = max(now, free[stage])
                if stage == 0:
                    row.append(now)
                now += own_s
                free[stage] = now
                if len(stages_s) > 1:  # to the next stage, or from the last one to the first
                    now += send_s
            back[batch] = now
        starts.append(row)
    return starts


def through_end_s(stages_s: Sequence[float], send_s: float, micro_batches: int) -> float:
    """When the last of several micro-batches that all wait at the start has left the last stage."""
    free = [0.0] * len(stages_s)
    end = 0.0
    for _ in range(micro_batches):
        now = 0.0
        for stage, own_s in enumerate(stages_s):
            now = max(now, free[stage]) + own_s
            free[stage] = end = now
            now += send_s
    return end
