"""Bytes on a GPU: weights, KV cache, activations; what does not fit, and because of which of them."""

from dataclasses import dataclass
from typing import Any

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
    attention = _attention(model, types, layouts)
    dense, moe = _dense(model, types, layouts), _moe(model, types, layouts)
    wide, hidden = DTYPE_BYTES[types.wide], model.hidden
    table_bytes = model.vocabulary * hidden / layouts["tp"] * wide
    weights = stages.most(attention.weights, dense.weights, moe.weights, table_bytes, table_bytes)
    sequences = layouts["batch"] / layouts["dp"]
    held_tokens = sequences * _mean_held(model, tokens_a_sequence) / (layouts["cp"] * layouts["kv_split"])
    cache = held_tokens * _kv_numbers(model, layouts) * DTYPE_BYTES[types.kv_dtype or types.wide] * stages.longest
    widest = np.maximum(attention.widest, np.maximum(dense.widest, moe.widest))
    logits = np.maximum(sequences / layouts["micro_batches"], 1) * model.vocabulary / layouts["tp"] * LOGIT_BYTES
    activations = step_tokens * ((4.0 * hidden + widest) * wide + _gathered_bytes(model, types, layouts)) + logits
    shape = np.zeros(len(layouts))
    return Memory(weights + shape, cache + shape, activations + shape, usable_bytes(engine, capacity_bytes))


def usable_bytes(engine: Engine, capacity_bytes: float) -> float:
    """Of a GPU's memory, what the engine lets weights, cache and activations have."""
    return capacity_bytes * engine["memory_share"] - engine["reserved_bytes"]


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


@dataclass(frozen=True)
class _Part:
    """Of a layer's part on a GPU: bytes of its weights, and numbers a token of its widest product."""

    weights: Any = 0.0
    widest: Any = 0.0


def _attention(model: ModelConfig, types: Types, layouts: Layouts) -> _Part:
    at, tp, hidden = model.attention, layouts["tp"], model.hidden
    each = _weight_bytes(types.attention_dtype or types.dtype)
    if isinstance(at, GroupedAttention):
        kv_heads = np.maximum(at.kv_heads / tp, 1)
        weights = hidden * at.head_dim * (2 * at.heads / tp + 2 * kv_heads)
        return _Part(weights * each, (at.heads / tp + 2 * kv_heads) * at.head_dim)
    own = at.q_rank * (at.nope_dim + at.rope_dim) + at.v_dim * hidden
    weights = hidden * (at.q_rank + at.kv_rank + at.rope_dim) + at.heads / tp * own
    absorbed = at.heads / tp * at.kv_rank * (at.nope_dim + at.v_dim)
    widest = at.heads / tp * max(at.nope_dim + at.rope_dim, at.nope_dim + at.v_dim, at.kv_rank)
    return _Part(weights * each + absorbed * (each + DTYPE_BYTES[types.wide]), widest)  # kv_b, and absorbed


def _dense(model: ModelConfig, types: Types, layouts: Layouts) -> _Part:
    if model.ffn is None:
        return _Part()
    inter = model.ffn.inter / layouts["tp"]
    return _Part(3 * model.hidden * inter * _weight_bytes(types.dtype), 2 * inter * layouts["hidden_split"])


def _moe(model: ModelConfig, types: Types, layouts: Layouts) -> _Part:
    if model.moe is None:
        return _Part()
    moe, hidden, tp, share = model.moe, model.hidden, layouts["tp"], layouts["experts_tp"]
    routed = 3 * hidden * moe.inter * moe.experts / (share * layouts.ep)
    shared = 3 * hidden * moe.inter * moe.shared_experts / tp
    router = hidden * moe.experts * DTYPE_BYTES[types.wide]
    weights = routed * _weight_bytes(types.experts_dtype or types.dtype) + shared * _weight_bytes(types.dtype) + router
    rows = moe.topk * share / tp  # of this GPU's experts, a token of a step
    return _Part(weights, rows * (2 * moe.inter / share + hidden))


def _gathered_bytes(model: ModelConfig, types: Types, layouts: Layouts) -> Any:
    """Of all groups' tokens where they are gathered for the experts, and of their sums; a token of a step."""
    if model.moe is None:
        return 0.0
    groups = layouts["dp"] * layouts["cp"]
    gathers = (groups > 1) & (layouts["exchange"] == ALL_GATHER)
    each = DTYPE_BYTES[types.experts_dtype or types.dtype] + DTYPE_BYTES[types.wide]
    return np.where(gathers, groups * model.hidden * each, 0.0)


def _kv_numbers(model: ModelConfig, layouts: Layouts) -> Any:
    """Of a token in the cache of one layer."""
    at = model.attention
    if isinstance(at, GroupedAttention):
        sharing = layouts["tp"] // layouts["kv_split"]
        return 2 * np.maximum(at.kv_heads / sharing, 1) * at.head_dim
    return at.kv_rank + at.rope_dim


def _mean_held(model: ModelConfig, tokens: float) -> float:
    """Tokens of a sequence in the cache, in the mean over the layers."""
    at = model.attention
    if not isinstance(at, GroupedAttention) or not at.windowed_layers:
        return tokens
    windowed = at.windowed_layers / model.layers
    return tokens * (1.0 - windowed) + windowed * min(tokens, at.window)
