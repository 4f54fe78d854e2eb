"""The kernels that one step of a transformer runs on one GPU, from the model's published dimensions.

Products are fused as serving frameworks run them: one GEMM for queries, keys and values, one for gate and up. Latent
attention is decoded in its absorbed form (DeepSeek-V2, arXiv 2405.04434, section 2.1): the products of W_UK and W_UV
are taken to the queries and to the results, a batched GEMM over the heads each, and all heads read one latent cache.

Left out: norms, rotary embedding, activation functions outside of fused expert layers, cache writes, sampling, the
embedding, collectives.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from numbers import Integral

from ..content.dtypes import DTYPE_BYTES, WIDE_BYTES
from ..content.model import GroupedAttention, LatentAttention, ModelConfig
from ..errors import UserError, unknown
from .rows import BatchRow

PHASES = ("prefill", "decode")
LENGTHS = (2048, 4096, 8192)
BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
CONTEXTS = (4096,)
WIDE = "bf16"  # what stays wide in a model whose weights are narrow


@dataclass(frozen=True)
class Serving:
    """How a model is served: what decides the problems beside its dimensions.

    Attributes:
        phases: of `PHASES`.
        tps: tensor-parallel degrees.
        eps: expert-parallel degrees: so many of the `tp` GPUs share the experts of a layer, and tp / ep the columns of
            each expert. Models without experts know 1 only.
        lengths: tokens of a prompt, a prefill step each.
        prompts: of that length in one prefill step.
        batches: sequences of a decode step, a token each.
        contexts: keys a sequence in decode, the new one included.
        dtype: of weights and activations of the layers. Where it is narrower than 16 bit, attention, the batched
            products of latent attention, routers and the output projection stay bf16, as in published checkpoints.
        kv_dtype: of the KV cache in decode; None: as attention's.
        quantise_a: whether narrow GEMMs count the kernels that make their activations of bf16 ones.
    """

    phases: tuple[str, ...] = PHASES
    tps: tuple[int, ...] = (1,)
    eps: tuple[int, ...] = (1,)
    lengths: tuple[int, ...] = LENGTHS
    prompts: int = 1
    batches: tuple[int, ...] = BATCHES
    contexts: tuple[int, ...] = CONTEXTS
    dtype: str = "bf16"
    kv_dtype: str | None = None
    quantise_a: bool = False

    @property
    def wide(self) -> str:
        """Type of what is not quantised."""
        return self.dtype if DTYPE_BYTES[self.dtype] >= WIDE_BYTES else WIDE


def model_rows(model: ModelConfig, serving: Serving) -> list[BatchRow]:
    """The kernels of every step that `serving` asks for, step by step, each with how often a step runs it.

    Args:
        model: its dimensions.
        serving: phases, degrees, lengths, types.

    Raises:
        UserError: an unknown phase or type, a degree that does not divide heads, columns or experts, a number given
            twice.
    """
    _check(model, serving)
    rows: list[BatchRow] = []
    for phase in serving.phases:
        sizes = serving.lengths if phase == "prefill" else serving.batches
        for tp in serving.tps:
            for ep in serving.eps:
                for tokens in sizes:
                    for context in (tokens,) if phase == "prefill" else serving.contexts:
                        rows += _Step(model, serving, phase, tp, ep, tokens, context).rows()
    return rows


@dataclass(frozen=True)
class _Step:
    model: ModelConfig
    serving: Serving
    phase: str
    tp: int
    ep: int
    tokens: int
    context: int

    def rows(self) -> list[BatchRow]:
        at = self.model.attention
        layers = self.grouped(at) if isinstance(at, GroupedAttention) else self.latent(at)
        return [*layers, *self.dense(), *self.experts(), self.head()]

    @property
    def m(self) -> int:
        """Tokens of the step."""
        return self.tokens * self.serving.prompts if self.phase == "prefill" else self.tokens

    def grouped(self, at: GroupedAttention) -> Iterator[BatchRow]:
        heads, kv_heads = at.heads // self.tp, max(at.kv_heads // self.tp, 1)
        layers = self.model.layers
        yield self.gemm("qkv", (heads + 2 * kv_heads) * at.head_dim, self.model.hidden, layers)
        shared = f"{heads}/{kv_heads}"
        if at.windowed_layers:
            window = (("window", str(at.window)),)
            yield self.attention("window_attention", shared, f"{at.head_dim}", at.windowed_layers, window)
        if layers > at.windowed_layers:
            yield self.attention("attention", shared, f"{at.head_dim}", layers - at.windowed_layers)
        yield self.gemm("o", self.model.hidden, heads * at.head_dim, layers)

    def latent(self, at: LatentAttention) -> Iterator[BatchRow]:
        heads, layers = at.heads // self.tp, self.model.layers
        yield self.gemm("qkv_a", at.q_rank + at.kv_rank + at.rope_dim, self.model.hidden, layers)
        yield self.gemm("q_b", heads * (at.nope_dim + at.rope_dim), at.q_rank, layers)
        if self.phase == "prefill":
            yield self.gemm("kv_b", heads * (at.nope_dim + at.v_dim), at.kv_rank, layers)
            yield self.attention("attention", f"{heads}", f"{at.nope_dim + at.rope_dim}/{at.v_dim}", layers)
        else:
            yield self.gemm("absorb_k", at.kv_rank, at.nope_dim, layers, batch=heads)
            yield self.attention("attention", f"{heads}/1", f"{at.kv_rank + at.rope_dim}/{at.kv_rank}", layers)
            yield self.gemm("absorb_v", at.v_dim, at.kv_rank, layers, batch=heads)
        yield self.gemm("o", self.model.hidden, heads * at.v_dim, layers)

    def dense(self) -> Iterator[BatchRow]:
        ffn = self.model.ffn
        if ffn:
            yield self.gemm("gate_up", 2 * ffn.inter // self.tp, self.model.hidden, ffn.layers)
            yield self.gemm("down", self.model.hidden, ffn.inter // self.tp, ffn.layers)

    def experts(self) -> Iterator[BatchRow]:
        moe, hidden = self.model.moe, self.model.hidden
        if moe is None:
            return
        yield self.gemm("router", moe.experts, hidden, moe.layers, wide=True)
        shape = f"{self.m}x{hidden}x{moe.inter}x{moe.experts}x{moe.topk}"
        ranks = {"tp": self.tp // self.ep, "ep": self.ep}
        choices = tuple((name, str(degree)) for name, degree in ranks.items() if degree > 1)
        yield self.row("experts", "moe", shape, self.serving.dtype, moe.layers, choices)
        if moe.shared_experts:
            inter = moe.shared_experts * moe.inter // self.tp
            yield self.gemm("shared_gate_up", 2 * inter, hidden, moe.layers)
            yield self.gemm("shared_down", hidden, inter, moe.layers)

    def head(self) -> BatchRow:
        last = self.serving.prompts if self.phase == "prefill" else self.tokens
        n = -(-self.model.vocabulary // self.tp)
        shape = f"{last}x{n}x{self.model.hidden}"
        return self.row("lm_head", "gemm", shape, self.serving.wide, 1, name=f"lm_head_{last}")

    def gemm(self, layer: str, n: int, k: int, count: int, batch: int = 0, wide: bool = False) -> BatchRow:
        dtype = self.serving.wide if wide or batch else self.serving.dtype
        quantised = self.serving.quantise_a and DTYPE_BYTES[dtype] < WIDE_BYTES
        choices = (("quantise_a", "true"),) if quantised else ()
        return self.row(layer, "gemm", f"{f'{batch}x' if batch > 1 else ''}{self.m}x{n}x{k}", dtype, count, choices)

    def attention(
        self, layer: str, heads: str, dims: str, count: int, choices: tuple[tuple[str, str], ...] = ()
    ) -> BatchRow:
        if self.phase == "prefill":
            shape = f"{self.serving.prompts}x{heads}x{self.tokens}x{dims}"
            return self.row(layer, "attention", shape, self.serving.wide, count, choices)
        if self.serving.kv_dtype:
            choices = (*choices, ("kv_dtype", self.serving.kv_dtype))
        shape = f"{self.tokens}x{heads}x1:{self.context}x{dims}"
        name = f"{layer}_{self.tokens}x{self.context}"
        return self.row(layer, "decode_attention", shape, self.serving.wide, count, choices, name)

    def row(
        self,
        layer: str,
        kernel: str,
        shape: str,
        dtype: str,
        count: int,
        choices: tuple[tuple[str, str], ...] = (),
        name: str = "",
    ) -> BatchRow:
        of_step = (self.model.name, self.phase, self.tp, self.ep, self.tokens, self.context)
        return BatchRow(name or f"{layer}_{self.m}", kernel, shape, dtype, choices, float(count), layer, *of_step)


def _check(model: ModelConfig, serving: Serving) -> None:
    for phase in serving.phases:
        if phase not in PHASES:
            raise unknown("phase", phase, PHASES)
    for dtype in (serving.dtype, *filter(None, [serving.kv_dtype])):
        if dtype not in DTYPE_BYTES:
            raise unknown("dtype", dtype, DTYPE_BYTES)
    lists: dict[str, Sequence[object]] = {
        "phase": serving.phases,
        "tp": serving.tps,
        "ep": serving.eps,
        "prompt length": serving.lengths,
        "batch size": serving.batches,
        "context": serving.contexts,
    }
    for what, values in lists.items():
        if what != "phase":
            _check_numbers(what, values)
        twice = next((value for place, value in enumerate(values) if value in values[:place]), None)
        if twice is not None:
            raise UserError(f"{what} {twice} is given twice: give each once")
    _check_numbers("prompts", (serving.prompts,))
    for tp in serving.tps:
        _check_tp(model, tp)
        for ep in serving.eps:
            _check_ep(model, tp, ep)


def _check_numbers(what: str, values: Sequence[object]) -> None:
    for value in values:
        if not isinstance(value, Integral) or value < 1:
            raise UserError(f"{what} {value} is not allowed: a whole number, 1 or more")


def _check_tp(model: ModelConfig, tp: int) -> None:
    at = model.attention
    sizes = {"heads": at.heads}
    if model.ffn:
        sizes["columns of the feed-forward layers"] = model.ffn.inter
    if model.moe and model.moe.shared_experts:
        sizes["columns of the shared experts"] = model.moe.shared_experts * model.moe.inter
    for what, size in sizes.items():
        if size % tp:
            raise UserError(_does_not_divide("tp", tp, size, what, model))
    if isinstance(at, GroupedAttention) and at.kv_heads % tp and tp % at.kv_heads:
        raise UserError(
            f"tp = {tp} neither divides the {at.kv_heads} KV heads of {model.name} nor is a multiple of them: every "
            "GPU holds as many, or several a copy of one"
        )


def _check_ep(model: ModelConfig, tp: int, ep: int) -> None:
    moe = model.moe
    if moe is None:
        if ep > 1:
            raise UserError(f"ep = {ep}: {model.name} has no experts, leave ep out")
        return
    if tp % ep:
        raise UserError(f"ep = {ep} does not divide tp = {tp}: the experts are shared by ep of the tp GPUs")
    if moe.experts % ep:
        raise UserError(_does_not_divide("ep", ep, moe.experts, "experts", model))
    if moe.inter % (tp // ep):
        raise UserError(_does_not_divide("tp / ep", tp // ep, moe.inter, "columns of an expert", model))


def _does_not_divide(degree: str, number: int, size: int, what: str, model: ModelConfig) -> str:
    fitting = [str(one) for one in range(1, min(size, 64) + 1) if size % one == 0]
    return f"{degree} = {number} does not divide the {size} {what} of {model.name}; up to 64: {', '.join(fitting)}"
