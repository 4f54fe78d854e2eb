"""Operations of a step, summed over all GPUs of a layout: two a parameter that a token meets, and attention's pairs."""

from dataclasses import replace

import numpy as np
import pytest

from dse.content.model import GroupedAttention, ModelConfig, list_models, load_model
from dse.kernels.registry import get_kernel
from dse.step_operators import DENSE, EVERY_LAYER, MOE, Cut, Operator, Types, Work, step_operators

DP = 4  # groups with sequences of their own, where there are experts
DECODE = Work(sequences=64, queries=1, context=4096, routing="balanced")
PREFILL = Work(prompts=2, prompt_tokens=512, routing="balanced")
CACHED = Work(prompts=1, prompt_tokens=1024, cached_tokens=3072, routing="balanced")
MIXED = replace(CACHED, sequences=128, context=2048)
WORKS = {"decode": DECODE, "prefill": PREFILL, "cached": CACHED, "mixed": MIXED}
CUTS = {  # tp, then others; a model's heads decide how much of tp it takes
    "one GPU": Cut(),
    "tensor parallel": Cut(tp=4),
    "both sides": Cut(tp=4, hidden_split=2),
    "keys": Cut(tp=4, kv_split=2),
    "context": Cut(tp=2, cp=4),
    "context and keys": Cut(tp=4, kv_split=4, cp=2),
    "sequence parallel": Cut(tp=4, norm_split=4),
}


def flop(operator: Operator) -> float:
    if not all(operator.sizes.values()):
        return 0.0  # not run
    sizes = {name: int(size) for name, size in operator.sizes.items()}
    problem = get_kernel(operator.kernel).problem(**sizes, dtype=operator.dtype, **dict(operator.choices))
    return operator.times * problem.checked().flop


def tokens_met(model: ModelConfig, work: Work, cut: Cut) -> dict[str, float]:
    """Layer -> parameters times the tokens that meet them on all tp x cp GPUs, copies included.

    On all cp places stand decoded tokens; on all tp places the products that are not cut: the first ones of latent
    attention, routers, and keys and values where there are more places than KV heads.
    """
    at, hidden, ffn, moe = model.attention, model.hidden, model.ffn, model.moe
    prompt, decoded = work.prompts * work.prompt_tokens, work.sequences * work.queries
    tokens, copies = prompt + cut.cp * decoded, cut.tp
    met = {}
    if isinstance(at, GroupedAttention):
        kv = max(at.kv_heads, cut.tp)
        met["qkv"] = hidden * (at.heads + 2 * kv) * at.head_dim * tokens
        met["o"] = at.heads * at.head_dim * hidden * tokens
    else:
        met["qkv_a"] = hidden * (at.q_rank + at.kv_rank + at.rope_dim) * tokens * copies
        met["q_b"] = at.q_rank * at.heads * (at.nope_dim + at.rope_dim) * tokens
        met["kv_b"] = at.kv_rank * at.heads * (at.nope_dim + at.v_dim) * prompt
        met["absorb_k"] = at.kv_rank * at.heads * at.nope_dim * decoded * cut.cp
        met["absorb_v"] = at.kv_rank * at.heads * at.v_dim * decoded * cut.cp
        met["o"] = at.heads * at.v_dim * hidden * tokens
    if ffn:
        met |= {"gate_up": 2 * hidden * ffn.inter * tokens, "down": hidden * ffn.inter * tokens}
    if moe:
        met["router"] = hidden * moe.experts * tokens * copies
        met["experts"] = 3 * hidden * moe.inter * moe.topk * (prompt + decoded)
        if moe.shared_experts:
            shared = moe.shared_experts * moe.inter
            met |= {"shared_gate_up": 2 * hidden * shared * tokens, "shared_down": hidden * shared * tokens}
    last = work.prompts + decoded  # of a prompt the last token alone
    met["lm_head"] = model.vocabulary * hidden * last * cut.cp
    return met


def pairs(model: ModelConfig, work: Work, window: int) -> tuple[float, float]:
    """(queries x keys of prompts, of decoded tokens), counted one by one."""
    prefill = sum(
        min(work.cached_tokens + place + 1, window or 2**40) for place in range(work.prompt_tokens) if work.prompts
    )
    return work.prompts * prefill, work.sequences * work.queries * min(work.context, window or 2**40)


def attention_flop(model: ModelConfig, work: Work, prefill: float, decoded: float) -> float:
    at = model.attention
    if isinstance(at, GroupedAttention):
        return 4.0 * at.heads * at.head_dim * (prefill + decoded)
    prompts = 2.0 * at.heads * (at.nope_dim + at.rope_dim + at.v_dim) * prefill
    return prompts + 2.0 * at.heads * (2 * at.kv_rank + at.rope_dim) * decoded


@pytest.mark.parametrize("work", WORKS)
@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("name", list_models())
def test_all_gpus_together_do_what_the_model_takes(name: str, cut: str, work: str) -> None:
    model, asked, shares = load_model(name), WORKS[work], CUTS[cut]
    if model.moe:
        shares = replace(shares, experts_tp=shares.tp, ep=shares.cp)
    gpus = shares.tp * shares.cp
    everywhere = asked.prompts * asked.prompt_tokens + asked.sequences * asked.queries
    found: dict[str, float] = {}
    for operator in step_operators(model, Types(), replace(asked, everywhere=everywhere), shares):
        if not operator.beside:
            found[operator.layer] = found.get(operator.layer, 0.0) + gpus * flop(operator)
    at, attended = model.attention, {}
    windowed = at.windowed_layers / model.layers if isinstance(at, GroupedAttention) else 0.0
    if windowed:
        window = pairs(model, asked, at.window)
        attended["window_attention"] = windowed * attention_flop(model, asked, *window)
    attended["attention"] = (1 - windowed) * attention_flop(model, asked, *pairs(model, asked, 0))
    for layer, expected in attended.items():
        rel = 0.15 if layer == "window_attention" and gpus > 1 and asked.prompts else 1e-6
        assert found.pop(layer) == pytest.approx(expected, rel=rel), layer  # a window's first queries see fewer keys
    met = tokens_met(model, asked, shares)
    assert {layer for layer, count in found.items() if count} == {layer for layer, count in met.items() if count}
    for layer, count in met.items():
        assert found.get(layer, 0.0) == pytest.approx(2.0 * count, rel=1e-6), layer


@pytest.mark.parametrize("name", ["mixtral_8x7b", "deepseek_v3", "gpt_oss_120b"])
@pytest.mark.parametrize("experts_tp", [1, 2, 4, 8])
def test_experts_of_groups_with_sequences_of_their_own(name: str, experts_tp: int) -> None:
    model = load_model(name)
    moe = model.moe
    assert moe
    gpus = 2 * DP
    work = replace(DECODE, everywhere=DP * DECODE.sequences)
    cut = Cut(tp=2, experts_tp=experts_tp, ep=gpus // experts_tp)
    (experts,) = (one for one in step_operators(model, Types(), work, cut) if one.layer == "experts")
    everywhere = DP * DECODE.sequences * moe.topk
    assert gpus * flop(experts) == pytest.approx(6.0 * model.hidden * moe.inter * everywhere, rel=1e-6)


@pytest.mark.parametrize("name", list_models())
def test_arrays_of_layouts_give_each_what_numbers_give(name: str) -> None:
    model = load_model(name)
    cuts = [Cut(tp=4, kv_split=2, norm_split=4), Cut(tp=2, cp=2), Cut(tp=1, hidden_split=1), Cut(tp=4, hidden_split=2)]
    batches = [1, 8, 64, 512]
    columns = {field: np.array([getattr(cut, field) for cut in cuts]) for field in Cut.__dataclass_fields__}
    work = replace(MIXED, sequences=np.array(batches), everywhere=np.array(batches) * 3 + 1024)
    together = step_operators(model, Types(kv_dtype="fp8"), work, Cut(**columns))
    for place, (cut, batch) in enumerate(zip(cuts, batches, strict=True)):
        alone = step_operators(
            model, Types(kv_dtype="fp8"), replace(MIXED, sequences=batch, everywhere=batch * 3 + 1024), cut
        )
        for one, many in zip(alone, together, strict=True):
            assert (one.layer, one.kernel, one.where, one.times, one.dtype) == (
                *(many.layer, many.kernel, many.where, many.times, many.dtype),
            )
            assert one.choices == many.choices
            sizes = {name: np.broadcast_to(value, 4)[place] for name, value in many.sizes.items()}
            assert sizes == {name: int(value) for name, value in one.sizes.items()}


def test_norms_and_activations_are_shared() -> None:
    model = load_model("llama3_8b")
    whole = {one.layer: one for one in step_operators(model, Types(), DECODE, Cut())}
    cut = Cut(tp=8, hidden_split=2, norm_split=8)
    shared = {one.layer: one for one in step_operators(model, Types(), DECODE, cut)}
    for layer, size in (("attention_norm", "rows"), ("ffn_norm", "rows"), ("activation", "cols")):
        assert shared[layer].sizes[size] * 8 == whole[layer].sizes[size]
    assert all(whole[layer].beside for layer in ("attention_norm", "ffn_norm", "rope", "activation"))
    assert not any(whole[layer].beside for layer in ("qkv", "attention", "o", "gate_up", "down", "lm_head"))


def test_every_kernel_says_which_layers_run_it() -> None:
    where = {one.layer: one.where for one in step_operators(load_model("deepseek_v3"), Types(), MIXED, Cut())}
    assert {where[layer] for layer in ("qkv_a", "attention", "o", "attention_norm", "ffn_norm", "rope")} == {
        EVERY_LAYER
    }
    assert {where[layer] for layer in ("gate_up", "activation", "down")} == {DENSE}
    assert {where[layer] for layer in ("router", "experts", "shared_gate_up", "shared_activation")} == {MOE}
    assert where["lm_head"] == "once a step"
