"""The kernels that one GPU runs in a step of a transformer, as sizes: numbers, or arrays over many layouts at once.

Products are fused as serving frameworks run them: one GEMM for queries, keys and values, one for gate and up. Latent
attention is decoded in its absorbed form (DeepSeek-V2, arXiv 2405.04434, section 2.1): the products of W_UK and W_UV
are taken to the queries and to the results, a batched GEMM over the heads each, and all heads read one latent cache.

Left out: the embedding, sampling, biases, norms of single heads; with latent attention, keys and values of earlier
chunks of a prompt are not made again from the latent cache.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from .content.dtypes import BLOCK_SCALED, DTYPE_BYTES, WIDE_BYTES
from .content.model import GroupedAttention, LatentAttention, ModelConfig

ALIGNED_BYTES = 16  # what TMA loads at least
WIDE = "bf16"  # what stays wide in a model whose weights are narrow
EVERY_LAYER, DENSE, MOE, ONCE = "every layer", "dense layers", "expert layers", "once a step"
ATTENTION_PRODUCTS = ("qkv", "o", "qkv_a", "q_b", "kv_b")


@dataclass(frozen=True)
class Types:
    """Of what the numbers are.

    Attributes:
        dtype: of weights and activations of the layers. Where it is narrower than 16 bit, attention, the batched
            products of latent attention, routers and the output projection stay bf16, as in published checkpoints.
        experts_dtype: of routed experts where it differs (GPT-OSS); None: as `dtype`.
        kv_dtype: of the KV cache; None: as attention's.
        quantise_a: whether narrow GEMMs count the kernels that make their activations of bf16 ones.
        attention_dtype: of the products beside attention where it differs (nvfp4 checkpoints of DeepSeek's models);
            None: as `dtype`.
    """

    dtype: str = "bf16"
    experts_dtype: str | None = None
    kv_dtype: str | None = None
    quantise_a: bool = False
    attention_dtype: str | None = None

    @property
    def wide(self) -> str:
        """Type of what is not quantised."""
        return self.dtype if DTYPE_BYTES[self.dtype] >= WIDE_BYTES else WIDE


@dataclass(frozen=True)
class Work:
    """What one micro-batch of a step holds on the GPUs that share its tokens; every number broadcasts.

    Attributes:
        prompts: prompts, or parts of them, that are prefilled.
        prompt_tokens: tokens of each.
        cached_tokens: tokens of each that are in the cache already.
        sequences: that are decoded.
        queries: tokens of each: 1, more where drafts are verified.
        context: keys a decoded sequence, those of its queries included.
        everywhere: tokens of all GPUs that share the experts, those of this micro-batch included; None: its own.
        routing: of tokens to experts, a distribution of `dse.kernels.moe.MoeProblem`.
    """

    prompts: Any = 0
    prompt_tokens: Any = 0
    cached_tokens: Any = 0
    sequences: Any = 0
    queries: Any = 1
    context: Any = 1
    everywhere: Any = None
    routing: str = "uniform"

    def prompt_m(self, cp: Any) -> Any:
        """Tokens of prompts that one GPU's products see: `cp` GPUs share each prompt."""
        return self.prompts * _ceil_div(self.prompt_tokens, cp)

    @property
    def decode_m(self) -> Any:
        """Decoded tokens that its products see: they are on all GPUs that share them."""
        return self.sequences * self.queries


@dataclass(frozen=True)
class Cut:
    """How the GPUs share a layer; every number broadcasts. See docs/serving.md.

    Attributes:
        tp: that share weights, and the heads of attention.
        hidden_split: of these, those that share the feed-forward weights along the hidden dimension; tp / hidden_split
            share them along inter.
        kv_split: of these, those that share the keys of the same heads, each for a part of the tokens.
        cp: that share the tokens of a prompt, and keys in decode, and hold the same weights.
        experts_tp, ep: that share the columns of an expert, and the experts.
        norm_split: that share the tokens outside of products and attention (sequence parallelism).
    """

    tp: Any = 1
    hidden_split: Any = 1
    kv_split: Any = 1
    cp: Any = 1
    experts_tp: Any = 1
    ep: Any = 1
    norm_split: Any = 1


@dataclass(frozen=True)
class Operator:
    """One kernel of a step.

    Attributes:
        layer: which part of the model, e.g. "gate_up".
        kernel: a registered kernel.
        sizes: attributes of its problem; numbers or arrays.
        where: `EVERY_LAYER`, `DENSE`, `MOE` or `ONCE`.
        times: runs in each of these layers; a fraction where only some of them run it.
        dtype: of the problem.
        choices: further attributes of the problem.
        beside: whether it is one of the small kernels beside products and attention.
    """

    layer: str
    kernel: str
    sizes: Mapping[str, Any]
    where: str
    times: float
    dtype: str
    choices: tuple[tuple[str, Any], ...] = ()
    beside: bool = False


def layers_of(model: ModelConfig) -> dict[str, int]:
    """How many layers run an operator, by its `where`."""
    dense, experts = model.ffn.layers if model.ffn else 0, model.moe.layers if model.moe else 0
    return {EVERY_LAYER: model.layers, DENSE: dense, MOE: experts, ONCE: 1}


def step_operators(model: ModelConfig, types: Types, work: Work, cut: Cut) -> list[Operator]:
    """Every kernel of a step, in the order of the model. One whose sizes hold a 0 is not run there."""
    return list(_Step(model, types, work, cut).operators())


@dataclass(frozen=True)
class _Step:
    model: ModelConfig
    types: Types
    work: Work
    cut: Cut

    def operators(self) -> Iterator[Operator]:
        at = self.model.attention
        yield self.norm("attention_norm", EVERY_LAYER)
        yield from self.grouped(at) if isinstance(at, GroupedAttention) else self.latent(at)
        yield self.norm("ffn_norm", EVERY_LAYER)
        yield from self.dense()
        yield from self.experts()
        yield self.head()

    @property
    def m(self) -> Any:
        """Tokens that this GPU's products see."""
        return self.work.prompt_m(self.cut.cp) + self.work.decode_m

    @property
    def everywhere(self) -> Any:
        return self.m if self.work.everywhere is None else self.work.everywhere

    def grouped(self, at: GroupedAttention) -> Iterator[Operator]:
        heads, kv_heads = at.heads // self.cut.tp, np.maximum(at.kv_heads // self.cut.tp, 1)
        yield self.gemm("qkv", EVERY_LAYER, (heads + 2 * kv_heads) * at.head_dim, self.model.hidden)
        yield self.rows("rope", EVERY_LAYER, self.m, (heads + kv_heads) * at.head_dim, ("head_dim", at.head_dim))
        sharing = self.cut.tp // self.cut.kv_split  # that hold different heads
        dims = {"head_dim": at.head_dim, "v_dim": at.head_dim}
        sizes = {"heads": at.heads // sharing, "kv_heads": np.maximum(at.kv_heads // sharing, 1), **dims}
        windowed = at.windowed_layers / self.model.layers
        if at.windowed_layers:
            yield from self.attentions("window_attention", sizes, windowed, at.window)
        if windowed < 1:
            yield from self.attentions("attention", sizes, 1.0 - windowed)
        yield self.gemm("o", EVERY_LAYER, self.model.hidden, heads * at.head_dim)

    def latent(self, at: LatentAttention) -> Iterator[Operator]:
        heads, sharing = at.heads // self.cut.tp, self.cut.tp // self.cut.kv_split
        yield self.gemm("qkv_a", EVERY_LAYER, at.q_rank + at.kv_rank + at.rope_dim, self.model.hidden)
        yield self.rows("latent_norm", EVERY_LAYER, self.m, at.q_rank + at.kv_rank, kernel="rmsnorm")
        yield self.gemm("q_b", EVERY_LAYER, heads * (at.nope_dim + at.rope_dim), at.q_rank)
        yield self.rows("rope", EVERY_LAYER, self.m, (heads + 1) * at.rope_dim, ("head_dim", at.rope_dim))
        prompt_m, decode_m = self.work.prompt_m(self.cut.cp), self.work.decode_m
        yield self.gemm("kv_b", EVERY_LAYER, heads * (at.nope_dim + at.v_dim), at.kv_rank, m=prompt_m)
        whole = {"head_dim": at.nope_dim + at.rope_dim, "v_dim": at.v_dim}
        shared = at.heads // sharing
        yield self.prefill_attention("attention", {"heads": shared, "kv_heads": shared, **whole}, 1.0, ())
        yield self.gemm("absorb_k", EVERY_LAYER, at.kv_rank, at.nope_dim, m=decode_m, batch=heads)
        cached = {"head_dim": at.kv_rank + at.rope_dim, "v_dim": at.kv_rank}
        yield self.decode_attention("attention", {"heads": shared, "kv_heads": 1, **cached}, 1.0, ())
        yield self.gemm("absorb_v", EVERY_LAYER, at.v_dim, at.kv_rank, m=decode_m, batch=heads)
        yield self.gemm("o", EVERY_LAYER, self.model.hidden, heads * at.v_dim)

    def attentions(self, layer: str, sizes: Mapping[str, Any], times: float, window: int = 0) -> Iterator[Operator]:
        choices = (("window", window),) if window else ()
        yield self.prefill_attention(layer, sizes, times, choices)
        yield self.decode_attention(layer, sizes, times, choices, window)

    def prefill_attention(self, layer: str, sizes: Mapping[str, Any], times: float, choices: tuple) -> Operator:
        """A GPU's queries are spread over the prompt so that all see as many keys in the mean: as of the last q of
        (tokens + q) / 2 keys."""
        tokens = self.work.prompt_tokens
        q_tokens = _ceil_div(tokens, self.cut.cp * self.cut.kv_split)
        keys = self.work.cached_tokens + (tokens + q_tokens) // 2
        sizes = {"batch": self.work.prompts, "q_tokens": q_tokens, "kv_tokens": keys, **sizes}
        return Operator(layer, "attention", sizes, EVERY_LAYER, times, self.types.wide, choices)

    def decode_attention(
        self, layer: str, sizes: Mapping[str, Any], times: float, choices: tuple, window: int = 0
    ) -> Operator:
        """GPUs that share the keys of a sequence share those in its window alike."""
        sharing, context = self.cut.cp * self.cut.kv_split, self.work.context
        if window:
            context = np.where(sharing > 1, np.minimum(context, window + self.work.queries - 1), context)
        keys = np.maximum(_ceil_div(context, sharing), self.work.queries)
        sizes = {"batch": self.work.sequences, "q_tokens": self.work.queries, "kv_tokens": keys, **sizes}
        if self.types.kv_dtype:
            choices = (*choices, ("kv_dtype", self.types.kv_dtype))
        return Operator(layer, "decode_attention", sizes, EVERY_LAYER, times, self.types.wide, choices)

    def dense(self) -> Iterator[Operator]:
        ffn = self.model.ffn
        if ffn:
            hidden = self.model.hidden // self.cut.hidden_split
            inter = ffn.inter // (self.cut.tp // self.cut.hidden_split)
            yield self.gemm("gate_up", DENSE, 2 * inter, hidden)
            yield self.activation("activation", DENSE, ffn.inter // self.cut.tp)
            yield self.gemm("down", DENSE, hidden, inter)

    def experts(self) -> Iterator[Operator]:
        moe, hidden = self.model.moe, self.model.hidden
        if moe is None:
            return
        yield self.gemm("router", MOE, moe.experts, hidden, wide=True)
        dtype = self.types.experts_dtype or self.types.dtype
        inter = _padded(moe.inter, self.cut.experts_tp, dtype)
        sizes = {"tokens": self.everywhere, "hidden": hidden, "inter": inter, "experts": moe.experts}
        ranks = {"topk": moe.topk, "tp": self.cut.experts_tp, "ep": self.cut.ep}
        dealt = (("distribution", self.work.routing),)
        yield Operator("experts", "moe", {**sizes, **ranks}, MOE, 1.0, dtype, dealt)
        if moe.shared_experts:
            inter = moe.shared_experts * moe.inter // self.cut.tp
            yield self.gemm("shared_gate_up", MOE, 2 * inter, hidden)
            yield self.activation("shared_activation", MOE, inter)
            yield self.gemm("shared_down", MOE, hidden, inter)

    def head(self) -> Operator:
        last = self.work.prompts + self.work.decode_m
        n = _ceil_div(self.model.vocabulary, self.cut.tp)
        return self.gemm("lm_head", ONCE, n, self.model.hidden, m=last, wide=True)

    def gemm(
        self, layer: str, where: str, n: Any, k: Any, m: Any = None, batch: Any = 1, wide: bool = False
    ) -> Operator:
        dtype = self.types.wide if wide or layer.startswith("absorb") else self.types.dtype
        if layer in ATTENTION_PRODUCTS:
            dtype = self.types.attention_dtype or dtype
        quantised = self.types.quantise_a and DTYPE_BYTES[dtype] < WIDE_BYTES
        sizes = {"batch": batch, "m": self.m if m is None else m, "n": n, "k": k}
        return Operator(layer, "gemm", sizes, where, 1.0, dtype, (("quantise_a", True),) if quantised else ())

    def norm(self, layer: str, where: str) -> Operator:
        tokens = _ceil_div(self.m, self.cut.norm_split)
        return self.rows(layer, where, tokens, self.model.hidden, ("residual", True), kernel="rmsnorm")

    def activation(self, layer: str, where: str, inter: Any) -> Operator:
        sizes = {"rows": self.m, "cols": inter}
        choices = (
            ("inputs", 2),
            ("flop_per_element", 6.0),
            ("sfu_per_element", 2.0),
            ("warm", True),
        )  # SiLU and product
        return Operator(layer, "elementwise", sizes, where, 1.0, self.types.wide, choices, beside=True)

    def rows(
        self, layer: str, where: str, rows: Any, cols: Any, *choices: tuple[str, Any], kernel: str | None = None
    ) -> Operator:
        sizes = {"rows": rows, "cols": cols}
        chosen = (*choices, ("warm", True))
        return Operator(layer, kernel or layer, sizes, where, 1.0, self.types.wide, chosen, beside=True)


def _padded(inter: int, shared_by: Any, dtype: str) -> Any:
    """Columns of an expert, so that every share of them is whole blocks of scales and 16 bytes, as engines pad them."""
    blocks = BLOCK_SCALED.get(dtype)
    if blocks is None:
        return inter
    unit = max(blocks.a_elements, int(ALIGNED_BYTES / DTYPE_BYTES[dtype]))
    return _ceil_div(_ceil_div(inter, shared_by), unit) * unit * shared_by


def _ceil_div(number: Any, by: Any) -> Any:
    return -(-number // by)
