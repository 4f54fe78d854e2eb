"""Bytes on each GPU of a layout, tensor by tensor: every matrix, the cache of every layer and sequence, activations.

Written from the model's dimensions and the docstring of `dse.serving.memory.memory_of`. A GPU holds its share of each
matrix; what cannot be shared it holds as a copy.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from dse.content.model import GroupedAttention, ModelConfig

SCALES = {"fp8_block": 1 + 4 / (128 * 128), "nvfp4": 0.5 + 1 / 16}  # bytes of a weight, its share of a scale included
NUMBER_BYTES = {"bf16": 2.0, "fp16": 2.0, "fp8": 1.0, "fp8_block": 1.0, "fp4": 0.5, "nvfp4": 0.5}
BYTES = NUMBER_BYTES | SCALES


@dataclass(frozen=True)
class Share:
    """How a GPU's part is cut."""

    tp: int = 1
    hidden_split: int = 1
    kv_split: int = 1
    cp: int = 1
    dp: int = 1
    experts_tp: int = 1
    pp: int = 1

    @property
    def ep(self) -> int:
        """GPUs that share the experts."""
        return self.tp * self.cp * self.dp // self.experts_tp


def heads_of(count: int, places: int) -> int:
    """KV heads on each place: a share, or a copy of one."""
    return max(count // places, 1)


def attention_matrices(model: ModelConfig, share: Share, dtype: str, wide: str) -> Iterator[tuple[int, int, float]]:
    """(rows, columns, bytes of a number) on one GPU."""
    at, hidden, tp = model.attention, model.hidden, share.tp
    narrow = BYTES[dtype]
    if isinstance(at, GroupedAttention):
        yield hidden, at.heads // tp * at.head_dim, narrow  # queries
        yield hidden, heads_of(at.kv_heads, tp) * at.head_dim, narrow  # keys
        yield hidden, heads_of(at.kv_heads, tp) * at.head_dim, narrow  # values
        yield at.heads // tp * at.head_dim, hidden, narrow
        return
    heads = at.heads // tp
    yield hidden, at.q_rank, narrow
    yield hidden, at.kv_rank + at.rope_dim, narrow
    yield at.q_rank, heads * (at.nope_dim + at.rope_dim), narrow
    yield at.kv_rank, heads * at.nope_dim, narrow  # keys and values of prompts
    yield at.kv_rank, heads * at.v_dim, narrow
    yield heads * at.nope_dim, at.kv_rank, BYTES[wide]  # and again, absorbed, for decoded tokens
    yield at.kv_rank, heads * at.v_dim, BYTES[wide]
    yield heads * at.v_dim, hidden, narrow


def dense_matrices(model: ModelConfig, share: Share, dtype: str) -> Iterator[tuple[int, int, float]]:
    """Of a dense feed-forward layer on one GPU."""
    hidden, inter = model.hidden // share.hidden_split, model.ffn.inter // (share.tp // share.hidden_split)
    yield hidden, inter, BYTES[dtype]  # gate
    yield hidden, inter, BYTES[dtype]  # up
    yield inter, hidden, BYTES[dtype]


def expert_matrices(
    model: ModelConfig, share: Share, dtype: str, experts_dtype: str, wide: str
) -> Iterator[tuple[int, int, float]]:
    """Of a layer of experts on one GPU."""
    moe, hidden = model.moe, model.hidden
    for _ in range(moe.experts // share.ep):
        for _ in ("gate", "up", "down"):
            yield hidden, moe.inter // share.experts_tp, BYTES[experts_dtype]
    for _ in range(moe.shared_experts):
        for _ in ("gate", "up", "down"):
            yield hidden, moe.inter // share.tp, BYTES[dtype]
    yield hidden, moe.experts, BYTES[wide]  # the router, on every GPU


def stages_of(model: ModelConfig, pp: int) -> list[list[str]]:
    """Kinds of the layers of every stage, dense ones first; the first stages hold one more where they do not divide."""
    dense = model.ffn.layers if model.ffn else 0
    left = ["dense"] * dense + ["moe"] * (model.layers - dense)
    stages = []
    for stage in range(pp):
        count = model.layers // pp + (stage < model.layers % pp)
        stages.append(left[:count])
        left = left[count:]
    return stages


def weight_bytes(model: ModelConfig, share: Share, dtype: str, experts_dtype: str | None = None) -> float:
    """Weights of the GPU of the stage that holds most."""
    wide = dtype if BYTES[dtype] >= 2 else "bf16"
    of_kind = {"dense": 0.0, "moe": 0.0}
    shared = _sum(attention_matrices(model, share, dtype, wide))
    if model.ffn:
        of_kind["dense"] = _sum(dense_matrices(model, share, dtype))
    if model.moe:
        of_kind["moe"] = _sum(expert_matrices(model, share, dtype, experts_dtype or dtype, wide))
    table = model.vocabulary / share.tp * model.hidden * BYTES[wide]
    stages = stages_of(model, share.pp)
    held = [sum(shared + of_kind[kind] for kind in kinds) for kinds in stages]
    held[0] += table  # the embedding
    held[-1] += table  # the output projection
    return max(held)


def cache_bytes(model: ModelConfig, share: Share, batch: int, length: int, number_bytes: float) -> float:
    """KV cache of the GPU of the longest stage; every other layer has a window where layers have one."""
    at = model.attention
    longest = -(-model.layers // share.pp)
    total = 0.0
    for layer in range(longest):
        if isinstance(at, GroupedAttention):
            numbers = 2 * heads_of(at.kv_heads, share.tp // share.kv_split) * at.head_dim
            window = at.window if at.windowed_layers and layer % (model.layers // at.windowed_layers) == 0 else length
        else:
            numbers, window = at.kv_rank + at.rope_dim, length
        for _ in range(batch // share.dp):
            total += min(window, length) / (share.cp * share.kv_split) * numbers * number_bytes
    return total


def widest_numbers(model: ModelConfig, share: Share) -> float:
    """Numbers a token that the widest product of a layer makes on one GPU."""
    at, tp = model.attention, share.tp
    if isinstance(at, GroupedAttention):
        made = [(at.heads // tp + 2 * heads_of(at.kv_heads, tp)) * at.head_dim]
    else:
        heads = at.heads // tp
        made = [heads * (at.nope_dim + at.rope_dim), heads * (at.nope_dim + at.v_dim), heads * at.kv_rank]
    if model.ffn:
        made.append(2 * model.ffn.inter // (tp // share.hidden_split))
    if model.moe:
        rows = model.moe.topk * share.dp * share.cp / share.ep  # a token of its own meets so many of its experts' rows
        made.append(rows * (2 * model.moe.inter // share.experts_tp + model.hidden))
    return max(made)


def gathered_bytes(model: ModelConfig, share: Share, dtype: str, all_to_all: bool) -> float:
    """A token of a step: tokens of all groups that share experts, gathered on every GPU, and sums for all of them."""
    groups = share.dp * share.cp
    if not model.moe or groups == 1 or all_to_all:
        return 0.0
    return groups * model.hidden * (NUMBER_BYTES[dtype] + 2.0)


def _sum(matrices: Iterator[tuple[int, int, float]]) -> float:
    return sum(rows * columns * size for rows, columns, size in matrices)
