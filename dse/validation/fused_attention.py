"""Published times of ring attention and Ulysses beside predictions.

A row's problem is its own; its schedule is the best of what is known of the kernel: the preset that stands for it, the
way its data travels and, where published, the SMs that move it. The attention kernel has the numbers of the nearest
implementation that has some on the GPU, without what a framework adds, else it is the bare one.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from ..kernels.spread_attention import RingAttentionProblem, SpreadAttention, UlyssesProblem
from .fused_best import best_of_preset
from .fused_communication import Figure, Prediction

FA2, FA3, GEN = ("mma_sync", "fa2_exchange"), ("wgmma", "fa3_exchange"), ("tcgen05", "trtllm_gen_exchange")
SMS, LIBRARY = 1, 2  # codes of `transport`
NEAREST = {  # (preset, GPU) -> the implementation whose kernel is nearest
    (FA3, "h100_sxm"): "fa3",
    (FA2, "a100_sxm"): "flash_attention",
}
KERNEL_ALONE = {f"implementation.{name}": 0.0 for name in ("framework_s", "helper_q", "helper_kv")}
NCCL_SMS = 16  # of a send and a receive in one node: channels as NCCL logs them, half of those for all pairs


def predict_ring(rows: Sequence[Figure]) -> list[Prediction]:
    """ThunderKittens' kernels send by stores of the SMs that are published, those of ring-flash-attention by NCCL. Both
    go in lockstep, and a kernel of its own adds up after each step."""
    found = []
    for row in rows:
        ours = {"chunks": 1, "lockstep": 1, "merge_fused": 0}
        if "ThunderKittens" in row.implementation:
            ours |= {"transport": SMS, "comm_sms": row["comm_sms"]}
            found.append(_best(row, RingAttentionProblem, FA3, ours))
        else:
            ours |= {"transport": LIBRARY, "comm_sms": NCCL_SMS}
            found.append(_best(row, RingAttentionProblem, FA2, ours, order=row["order"]))
    return found


def predict_ulysses(rows: Sequence[Figure]) -> list[Prediction]:
    """FlashInfer exchanges by stores of SMs, in series with attention."""
    ours = {"chunks": 1, "transport": SMS, "comm_sms": 32}
    return [_best(row, UlyssesProblem, GEN, ours) for row in rows]


def _best(
    row: Figure, kind: type[SpreadAttention], preset: tuple[str, str], fields: Mapping[str, float], **choices: Any
) -> Prediction:
    whose = NEAREST.get((preset, row.gpu), "none")
    shape = f"{row['batch']}x{row['heads']}/{row['kv_heads']}x{row['tokens']}x{row['head_dim']}"
    given = {"causal": row["causal"], "ranks": row.ranks, "fabric": row.fabric, "implementation": whose}
    problem = kind.from_shape(shape, dtype=row.dtype, **given, **choices)
    return best_of_preset(row, problem, *preset, fields, KERNEL_ALONE if whose != "none" else {})
