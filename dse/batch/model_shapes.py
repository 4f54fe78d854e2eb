"""The kernels that one step of a transformer runs on one GPU, by its published dimensions, as rows of a batch.

What they are stands in `dse.step_operators`. Left out here: norms, rotary embedding, activation functions outside of
fused expert layers, cache writes, sampling, the embedding, collectives.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from numbers import Integral

import numpy as np

from ..content.dtypes import DTYPE_BYTES
from ..content.model import GroupedAttention, ModelConfig
from ..errors import UserError, unknown
from ..kernels.registry import get_kernel
from ..step_operators import DENSE, EVERY_LAYER, MOE, ONCE, Cut, Operator, Types, Work, step_operators
from .rows import BatchRow

PHASES = ("prefill", "decode")
LENGTHS = (2048, 4096, 8192)
BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
CONTEXTS = (4096,)
EVENLY = "balanced"  # how tokens are dealt to experts where no choice says otherwise


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
    def types(self) -> Types:
        """Of weights, activations and cache."""
        return Types(self.dtype, kv_dtype=self.kv_dtype, quantise_a=self.quantise_a)


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

    def rows(self) -> Iterator[BatchRow]:
        cut = Cut(tp=self.tp, experts_tp=self.tp // self.ep, ep=self.ep)
        if self.phase == "prefill":
            work = Work(prompts=self.serving.prompts, prompt_tokens=self.tokens, routing=EVENLY)
        else:
            work = Work(sequences=self.tokens, context=self.context, routing=EVENLY)
        layers = {
            EVERY_LAYER: self.model.layers,
            DENSE: self.model.ffn.layers if self.model.ffn else 0,
            MOE: self.model.moe.layers if self.model.moe else 0,
            ONCE: 1,
        }
        for operator in step_operators(self.model, self.serving.types, work, cut):
            if not operator.beside and all(np.all(size) for size in operator.sizes.values()):
                yield self.row(operator, round(layers[operator.where] * operator.times))

    def row(self, operator: Operator, count: int) -> BatchRow:
        sizes = {name: int(size) for name, size in operator.sizes.items()}
        problem = get_kernel(operator.kernel).problem(**sizes, dtype=operator.dtype)
        choices = [(name, value) for name, value in operator.choices if value != getattr(problem, name)]
        ranks = [(name, str(sizes[name])) for name in ("tp", "ep") if sizes.get(name, 1) > 1]
        chosen = [(name, str(value).lower() if value is True else str(value)) for name, value in choices]
        rows = sizes["m"] if operator.kernel == "gemm" else sizes.get("tokens", self.m)
        name = f"{operator.layer}_{rows}"
        if operator.kernel == "decode_attention":
            name = f"{operator.layer}_{self.tokens}x{self.context}"
        of_step = (self.model.name, self.phase, self.tp, self.ep, self.tokens, self.context)
        return BatchRow(
            name,
            operator.kernel,
            problem.shape,
            operator.dtype,
            (*ranks, *chosen),
            float(count),
            operator.layer,
            *of_step,
        )

    @property
    def m(self) -> int:
        """Tokens of the step."""
        return self.tokens * self.serving.prompts if self.phase == "prefill" else self.tokens


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
