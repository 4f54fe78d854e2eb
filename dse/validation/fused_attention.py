"""Published times of ring attention and Ulysses beside predictions.

A row's problem is its own; its schedule is the best of what is known of the kernel: the preset that stands for it, the
way its data travels and, where published, the SMs that move it. A library's attention is the bare kernel, without fitted
numbers of an implementation.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from ..kernels.spread_attention import RingAttentionProblem, SpreadAttention, UlyssesProblem
from .fused_best import best_of_preset
from .fused_communication import Figure, Prediction

FA2, FA3, GEN = ("mma_sync", "fa2_exchange"), ("wgmma", "fa3_exchange"), ("tcgen05", "trtllm_gen_exchange")
SMS, LIBRARY = 1, 2  # codes of `transport`
NCCL_SMS = 16  # of a send and a receive in one node: channels as NCCL logs them, half of those for all pairs


def predict_ring(rows: Sequence[Figure]) -> list[Prediction]:
    """ThunderKittens' kernels send by stores of the SMs that are published and add up in the kernel; those of
    ring-flash-attention send by NCCL, in lockstep, and add up by kernels of their own."""
    found = []
    for row in rows:
        order = {"order": row["order"]} if row["causal"] and "order" in row.values else {}
        problem = _problem(RingAttentionProblem, row, **order)
        ours = {"chunks": 1, "lockstep": 1}
        if "ThunderKittens" in row.implementation:
            ours |= {"transport": SMS, "comm_sms": row["comm_sms"], "merge_fused": 1}
            found.append(_best(row, problem, FA3, ours))
        else:
            ours |= {"transport": LIBRARY, "comm_sms": NCCL_SMS, "merge_fused": 0}
            found.append(_best(row, problem, FA2, ours))
    return found


def predict_ulysses(rows: Sequence[Figure]) -> list[Prediction]:
    """FlashInfer exchanges by stores of SMs, in series with attention."""
    ours = {"chunks": 1, "transport": SMS, "comm_sms": 32}
    return [_best(row, _problem(UlyssesProblem, row), GEN, ours) for row in rows]


def _problem(kind: type[SpreadAttention], row: Figure, **choices: Any) -> SpreadAttention:
    shape = f"{row['batch']}x{row['heads']}/{row['kv_heads']}x{row['tokens']}x{row['head_dim']}"
    return kind.from_shape(shape, dtype=row.dtype, causal=row["causal"], ranks=row.ranks, fabric=row.fabric, **choices)


def _best(row: Figure, problem: SpreadAttention, preset: tuple[str, str], fields: Mapping[str, float]) -> Prediction:
    return best_of_preset(row, problem, *preset, fields)
