"""Bytes on a GPU: weights, KV cache, activations; what does not fit, and because of which of them."""

from dataclasses import dataclass

import numpy as np

from ..content.dtypes import BLOCK_SCALED, DTYPE_BYTES
from ..content.engine import Engine
from ..content.model import GroupedAttention, ModelConfig
from ..step_operators import Types
from .layouts import ALL_GATHER, Layouts
from .stages import Stages

LOGIT_BYTES = 4


@dataclass(frozen=True)
class Memory:
    """Bytes on the GPU that holds most; float64[layouts] each.

    Attributes:
        weights, kv_cache, activations: see `memory_of`.
        usable: what the engine lets them have.
    """

    weights: np.ndarray
    kv_cache: np.ndarray
    activations: np.ndarray
    usable: float


def memory_of(
    model: ModelConfig,
    types: Types,
    layouts: Layouts,
    engine: Engine,
    capacity_bytes: float,
    tokens_a_sequence: float,
    step_tokens: np.ndarray,
) -> Memory:
    """Memory of the fullest stage.

    Weights: what `dse.step_operators` multiplies by, cut likewise, and the embedding; narrow ones with their scales.
    KV cache: of all sequences of the batch at their full length, windowed layers (of which every stage has its share)
    at most their window. Activations: of one layer, in 16 bit: the tokens of a step in and out, its widest product,
    tokens gathered for experts and their sums, and logits in 32 bit. Latent attention's key and value projections count
    twice, for prompts and absorbed.

    Args:
        tokens_a_sequence: keys a sequence at its end.
        step_tokens: tokens of the largest step on a GPU.
    """
    stages = Stages.of(model, layouts["pp"])
    at, tp = model.attention, layouts["tp"]
    narrow, wide = _weight_bytes(types.dtype), DTYPE_BYTES[types.wide]
    attention = _weight_bytes(types.attention_dtype or types.dtype)
    hidden = model.hidden
    if isinstance(at, GroupedAttention):
        own = hidden * at.head_dim * (2 * at.heads / tp + 2 * np.maximum(at.kv_heads / tp, 1))
        sharing = tp // layouts["kv_split"]
        kv_numbers = 2 * np.maximum(at.kv_heads / sharing, 1) * at.head_dim
        windowed = at.windowed_layers / model.layers
        widest = (at.heads / tp + 2 * np.maximum(at.kv_heads / tp, 1)) * at.head_dim
        attention_bytes = own * attention
    else:
        own = hidden * (at.q_rank + at.kv_rank + at.rope_dim) + at.heads / tp * (
            at.q_rank * (at.nope_dim + at.rope_dim) + at.v_dim * hidden
        )
        absorbed = at.heads / tp * at.kv_rank * (at.nope_dim + at.v_dim)
        attention_bytes = own * attention + absorbed * (attention + wide)  # in either form: kv_b, and absorbed
        kv_numbers, windowed = at.kv_rank + at.rope_dim, 0.0
        widest = at.heads / tp * max(at.nope_dim + at.rope_dim, at.nope_dim + at.v_dim, at.kv_rank)
    dense_bytes = 3 * hidden * model.ffn.inter / tp * narrow if model.ffn else 0.0
    moe_bytes = gathered = 0.0
    if model.ffn:
        widest = np.maximum(widest, 2 * model.ffn.inter * layouts["hidden_split"] / tp)
    if model.moe:
        moe = model.moe
        routed = 3 * hidden * moe.inter * moe.experts / (layouts["experts_tp"] * layouts.ep)
        shared = 3 * hidden * moe.inter * moe.shared_experts / tp
        moe_bytes = routed * _weight_bytes(types.experts_dtype or types.dtype) + shared * narrow
        moe_bytes = moe_bytes + hidden * moe.experts * wide
        rows = moe.topk * layouts["experts_tp"] / tp  # of this GPU's experts, a token of a step
        widest = np.maximum(widest, rows * (2 * moe.inter / layouts["experts_tp"] + hidden))
        groups = layouts["dp"] * layouts["cp"]  # whose tokens are gathered, and their sums made
        gathers = (groups > 1) & (layouts["exchange"] == ALL_GATHER)
        gathered = np.where(gathers, groups * hidden * (DTYPE_BYTES[types.experts_dtype or types.dtype] + wide), 0.0)
    table_bytes = model.vocabulary * hidden / tp * wide
    weights = stages.most(attention_bytes, dense_bytes, moe_bytes, table_bytes, table_bytes)
    sequences = layouts["batch"] / layouts["dp"]
    seen = tokens_a_sequence * (1.0 - windowed)
    if windowed:
        seen = seen + windowed * min(tokens_a_sequence, at.window)  # type: ignore[union-attr]
    tokens = sequences * seen / (layouts["cp"] * layouts["kv_split"])
    cache = tokens * kv_numbers * DTYPE_BYTES[types.kv_dtype or types.wide] * stages.longest
    logits = np.maximum(sequences / layouts["micro_batches"], 1) * model.vocabulary / tp * LOGIT_BYTES
    activations = step_tokens * ((4.0 * hidden + widest) * wide + gathered) + logits
    usable = capacity_bytes * engine["memory_share"] - engine["reserved_bytes"]
    shape = np.zeros(len(layouts))
    return Memory(weights + shape, cache + shape, activations + shape, usable)


def memory_reasons(memory: Memory) -> list[tuple[str, np.ndarray]]:
    """(reason, where it holds), the first that holds counts."""
    held = memory.weights
    found = [("weights", held > memory.usable)]
    for name in ("activations", "kv_cache"):
        held = held + getattr(memory, name)
        found.append((name, held > memory.usable))
    return found


def _weight_bytes(dtype: str) -> float:
    """Of one number, its share of a scale included."""
    blocks = BLOCK_SCALED.get(dtype)
    return DTYPE_BYTES[dtype] + (blocks.scale_bytes / blocks.b_elements if blocks else 0.0)
