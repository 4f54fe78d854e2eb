"""The kernels of a model's step: the lists that were there before, shares by degree, operations by parameters."""

from dataclasses import replace

import pytest

from dse.batch import Serving, model_rows
from dse.content.model import list_models, load_model
from dse.content.shapes import load_shapes
from dse.errors import UserError
from dse.kernels.registry import get_kernel

REPLICATED = ("qkv_a", "router")  # every GPU has all of it
ATTENTION = ("attention", "decode_attention")


def problem(row):
    return get_kernel(row.kernel).problem.from_shape(row.shape, dtype=row.dtype, **dict(row.choices))


def operations(rows, layers=None) -> float:
    kept = [row for row in rows if row.kernel not in ATTENTION and (layers is None or row.layer in layers)]
    return sum(row.count * problem(row).flop for row in kept)


@pytest.mark.parametrize(
    ("listed", "phases"),
    [
        ("llama3_70b", ("prefill", "decode")),
        ("llama3_70b_prefill", ("prefill",)),
        ("llama3_70b_decode", ("decode",)),
    ],
)
def test_the_lists_of_llama_come_out(listed: str, phases: tuple[str, ...]) -> None:
    found: dict[tuple[str, str], float] = {}
    for row in model_rows(load_model("llama3_70b"), Serving(phases=phases)):
        if row.kernel == "gemm":
            found[row.name, row.shape] = found.get((row.name, row.shape), 0) + row.count
    assert found == {(row.name, row.shape): row.weight for row in load_shapes(listed)}


@pytest.mark.parametrize("name", list_models())
def test_a_decoded_token_takes_two_operations_a_parameter_that_it_meets(name: str) -> None:
    model = load_model(name)
    rows = model_rows(model, Serving(phases=("decode",), batches=(1,)))
    met = model.matrix_parameters - model.vocabulary * model.hidden  # the embedding is looked up
    if model.moe:
        unused = model.moe.experts - model.moe.topk
        met -= model.moe.layers * unused * 3 * model.moe.inter * model.hidden
    assert operations(rows) == 2.0 * met


@pytest.mark.parametrize("name", list_models())
@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_the_shares_of_all_gpus_are_the_whole(name: str, phase: str) -> None:
    model = load_model(name)
    for tp in (2, 4):
        one, shared = (
            model_rows(model, Serving(phases=(phase,), tps=(degree,), lengths=(512,), batches=(8,)))
            for degree in (1, tp)
        )
        assert [row.layer for row in one] == [row.layer for row in shared]
        for whole, part in zip(one, shared, strict=True):
            assert whole.count == part.count
            share = 1 if whole.layer in REPLICATED else tp
            assert share * problem(part).flop == pytest.approx(problem(whole).flop), whole.layer


def test_more_gpus_than_kv_heads_hold_copies() -> None:
    rows = model_rows(load_model("mixtral_8x22b"), Serving(phases=("decode",), tps=(16,), batches=(1,)))
    shapes = {row.layer: row.shape for row in rows}
    assert shapes["qkv"] == "1x640x6144"  # three query heads and a KV head: keys and values of 128
    assert shapes["attention"] == "1x3/1x1:4096x128"


def test_latent_attention_is_absorbed_in_decode_only() -> None:
    model = load_model("deepseek_v3")
    serving = Serving(tps=(8,), lengths=(1024,), batches=(64,), contexts=(2048,), dtype="fp8_block")
    rows = model_rows(model, serving)
    prefill, decode = ({row.layer: row for row in rows if row.phase == phase} for phase in ("prefill", "decode"))
    assert prefill["qkv_a"].shape == "1024x2112x7168"
    assert prefill["q_b"].shape == "1024x3072x1536"
    assert prefill["kv_b"].shape == "1024x4096x512"
    assert prefill["attention"].shape == "1x16x1024x192/128"
    assert "kv_b" not in decode
    assert decode["absorb_k"].shape == "16x64x512x128"
    assert decode["absorb_v"].shape == "16x64x128x512"
    assert decode["attention"].shape == "64x16/1x1:2048x576/512"
    assert problem(decode["attention"]).shares_kv
    assert [decode[layer].dtype for layer in ("q_b", "absorb_k", "attention", "router", "experts", "lm_head")] == [
        *("fp8_block", "bf16", "bf16", "bf16", "fp8_block", "bf16")
    ]
    counts = {layer: row.count for layer, row in decode.items()}
    assert (counts["gate_up"], counts["experts"], counts["shared_down"], counts["o"]) == (3, 58, 58, 61)


def test_layers_with_a_window_and_without() -> None:
    rows = model_rows(load_model("gpt_oss_20b"), Serving(batches=(4,), lengths=(1024,), kv_dtype="fp8"))
    windowed = [row for row in rows if row.layer == "window_attention"]
    assert [(row.kernel, row.count, dict(row.choices)) for row in windowed] == [
        ("attention", 12, {"window": "128"}),
        ("decode_attention", 12, {"window": "128", "kv_dtype": "fp8"}),
    ]
    assert [row.count for row in rows if row.layer == "attention"] == [12, 12]


def test_experts_are_shared_by_columns_or_by_experts() -> None:
    serving = Serving(phases=("decode",), tps=(8,), eps=(1, 2, 8), batches=(64,))
    rows = [row for row in model_rows(load_model("gpt_oss_120b"), serving) if row.layer == "experts"]
    assert [row.shape for row in rows] == ["64x2880x2880x128x4"] * 3
    assert [dict(row.choices) for row in rows] == [{"tp": "8"}, {"tp": "4", "ep": "2"}, {"ep": "8"}]


def test_several_prompts_in_one_step() -> None:
    rows = model_rows(load_model("llama3_8b"), Serving(phases=("prefill",), lengths=(512,), prompts=4))
    shapes = {row.layer: row.shape for row in rows}
    assert shapes["qkv"] == "2048x6144x4096"
    assert shapes["attention"] == "4x32/8x512x128"
    assert shapes["lm_head"] == "4x128256x4096"


@pytest.mark.parametrize("name", list_models())
def test_every_problem_is_one_that_its_kernel_takes(name: str) -> None:
    for row in model_rows(load_model(name), Serving(lengths=(128,), batches=(3,), tps=(1, 4))):
        assert problem(row).shape == row.shape


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        (
            "qwen2_5_7b",
            {"tps": (8,)},
            "tp = 8 does not divide the 28 heads of qwen2_5_7b; up to 64: 1, 2, 4, 7",
        ),
        ("llama3_8b", {"tps": (3,)}, "tp = 3 does not divide the 32 heads of llama3_8b"),
        ("mixtral_8x22b", {"tps": (3,)}, "tp = 3 neither divides the 8 KV heads of mixtral_8x22b nor is a multiple"),
        ("llama3_8b", {"tps": (2,), "eps": (2,)}, "ep = 2: llama3_8b has no experts, leave ep out"),
        ("mixtral_8x7b", {"tps": (2,), "eps": (4,)}, "ep = 4 does not divide tp = 2"),
        ("mixtral_8x7b", {"tps": (16,), "eps": (16,)}, "ep = 16 does not divide the 8 experts of mixtral_8x7b"),
        ("llama3_8b", {"phases": ("train",)}, "unknown phase 'train'; known: decode, prefill"),
        ("llama3_8b", {"phases": ("decode", "decode")}, "phase decode is given twice"),
        ("llama3_8b", {"batches": (1, 2, 1)}, "batch size 1 is given twice"),
        ("llama3_8b", {"tps": (0,)}, "tp 0 is not allowed: a whole number, 1 or more"),
        ("deepseek_v3", {"eps": (-1,)}, "ep -1 is not allowed: a whole number"),
        ("llama3_8b", {"prompts": 0}, "prompts 0 is not allowed: a whole number"),
        ("llama3_8b", {"dtype": "bf61"}, "unknown dtype 'bf61'.*did you mean 'bf16'"),
    ],
)
def test_what_a_model_cannot_be_cut_into_is_said(name: str, change: dict, said: str) -> None:
    with pytest.raises(UserError, match=said):
        model_rows(load_model(name), replace(Serving(), **change))


def test_columns_that_a_degree_does_not_divide() -> None:
    model = load_model("llama3_8b")
    odd = replace(model, ffn=replace(model.ffn, inter=14338))
    with pytest.raises(UserError, match="tp = 4 does not divide the 14338 columns of the feed-forward layers of"):
        model_rows(odd, Serving(tps=(4,)))
