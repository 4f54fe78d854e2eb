"""Memory of layouts: against every tensor on a GPU, one by one."""

from dataclasses import asdict, replace

import numpy as np
import pytest
from oracles.held_tensors import BYTES, Share, cache_bytes, gathered_bytes, weight_bytes, widest_numbers

from dse.content.engine import load_engine
from dse.content.model import GroupedAttention, list_models, load_model
from dse.serving.layouts import FIELDS, Layouts
from dse.serving.memory import Memory, memory_of, memory_reasons
from dse.step_operators import Types

SHARES = [
    Share(),
    Share(tp=4),
    Share(tp=4, pp=2),
    Share(tp=4, hidden_split=2),
    Share(tp=4, kv_split=4),
    Share(tp=2, cp=2, kv_split=2, pp=3),
    Share(pp=6),
]
MOE_SHARES = [
    Share(tp=4, experts_tp=4),
    Share(tp=2, dp=4),
    Share(tp=2, cp=2, dp=2, experts_tp=2, pp=2),
    Share(dp=8, pp=3),
]


def held(name: str, share: Share, types: Types, batch: int = 64, length: int = 3000, exchange: int = 0) -> Memory:
    row = dict.fromkeys(FIELDS, 1) | asdict(share) | {"batch": batch, "exchange": exchange}
    layouts = Layouts({name: np.array([row[name]] * 2, np.int64) for name in FIELDS}, np.arange(2), 8)
    engine = load_engine("vllm")
    return memory_of(load_model(name), types, layouts, engine, 80e9, length, np.full(2, 512.0))


@pytest.mark.parametrize("share", [*SHARES, *MOE_SHARES], ids=str)
@pytest.mark.parametrize("name", list_models())
def test_a_gpu_holds_the_sum_of_its_tensors(name: str, share: Share) -> None:
    model = load_model(name)
    if share in MOE_SHARES and not model.moe:
        share = replace(share, dp=1, experts_tp=1)
    if model.attention.heads % share.tp:
        share = replace(share, tp=2, hidden_split=min(share.hidden_split, 2), kv_split=min(share.kv_split, 2))
    found = held(name, share, Types())
    np.testing.assert_allclose(found.weights, weight_bytes(model, share, "bf16"), rtol=1e-9)
    np.testing.assert_allclose(found.kv_cache, cache_bytes(model, share, 64, 3000, 2.0), rtol=1e-9)
    gathered = gathered_bytes(model, share, "bf16", all_to_all=False)
    activations = 512 * ((4 * model.hidden + widest_numbers(model, share)) * 2.0 + gathered)
    logits = 64 / share.dp * model.vocabulary / share.tp * 4.0
    np.testing.assert_allclose(found.activations, activations + logits, rtol=1e-9)


@pytest.mark.parametrize("name", list_models())
def test_one_gpu_holds_every_parameter_once_and_what_is_absorbed_twice(name: str) -> None:
    """Latent attention's key and value projections are held in two forms: for prompts, and absorbed for decoding."""
    model = load_model(name)
    at = model.attention
    twice = 0 if isinstance(at, GroupedAttention) else at.heads * at.kv_rank * (at.nope_dim + at.v_dim) * model.layers
    expected = (model.matrix_parameters + twice) * 2.0
    np.testing.assert_allclose(held(name, Share(), Types()).weights, expected, rtol=1e-12)


@pytest.mark.parametrize("dtype", ["fp8", "fp8_block", "nvfp4"])
@pytest.mark.parametrize("name", ["llama3_8b", "deepseek_v3", "gpt_oss_20b", "mixtral_8x7b"])
def test_narrow_weights_come_with_their_scales_and_leave_wide_ones_wide(name: str, dtype: str) -> None:
    model = load_model(name)
    for share in (Share(), Share(tp=4, pp=2)):
        found = held(name, share, Types(dtype, kv_dtype="fp8"))
        np.testing.assert_allclose(found.weights, weight_bytes(model, share, dtype), rtol=1e-9)
        np.testing.assert_allclose(found.kv_cache, cache_bytes(model, share, 64, 3000, BYTES["fp8"]), rtol=1e-9)


def test_experts_of_another_type() -> None:
    model, share = load_model("gpt_oss_120b"), Share(tp=4, experts_tp=2, pp=2)
    found = held("gpt_oss_120b", share, Types(experts_dtype="fp4"))
    np.testing.assert_allclose(found.weights, weight_bytes(model, share, "bf16", "fp4"), rtol=1e-9)


def test_tokens_are_gathered_where_they_are_not_sent_to_single_gpus() -> None:
    model, share = load_model("deepseek_v3"), Share(tp=2, dp=8)
    types = Types("fp8_block")
    gathered, sent = (held("deepseek_v3", share, types, exchange=exchange).activations for exchange in (0, 1))
    np.testing.assert_allclose(gathered - sent, 512 * 8 * model.hidden * 3.0, rtol=1e-9)


def test_short_sequences_do_not_fill_a_window() -> None:
    model = load_model("gpt_oss_20b")
    for length in (1, 100, 128, 129, 5000):
        found = held("gpt_oss_20b", Share(tp=2), Types(), length=length)
        np.testing.assert_allclose(found.kv_cache, cache_bytes(model, Share(tp=2), 64, length, 2.0), rtol=1e-9)


def test_what_the_engine_lets_them_have_and_what_does_not_fit() -> None:
    found = held("llama3_8b", Share(), Types())
    engine = load_engine("vllm")
    assert found.usable == 80e9 * engine["memory_share"] - engine["reserved_bytes"]
    sizes = np.array([0.5, 1.5, 0.6, 0.6])
    memory = Memory(sizes, np.array([0.2, 0.0, 0.2, 0.39]), np.array([0.2, 0.0, 0.5, 0.0]), 1.0)
    reasons = {name: list(wrong) for name, wrong in memory_reasons(memory)}
    assert list(reasons) == ["weights", "activations", "kv_cache"]
    assert reasons["weights"] == [False, True, False, False]
    assert reasons["activations"][2]
    assert not reasons["activations"][3]
    assert [any(wrong[place] for wrong in reasons.values()) for place in range(4)] == [False, True, True, False]
