"""What an engine fuses, runs apart or hides, and where prompts' tokens go."""

from itertools import combinations
from typing import Any

import numpy as np
import pytest

from dse.content.engine import load_engine
from dse.content.engine_changes import changed_engine
from dse.content.gpu import load_gpu
from dse.content.model import load_model
from dse.kernels.routing import DRAWN_TOKEN_BY_TOKEN, expert_classes, uniform_counts
from dse.serving.collective_times import Exchange
from dse.serving.engine_effects import SHARED, engine_operators, engine_types, hidden_s
from dse.serving.exchanges import forwarded, step_exchanges
from dse.serving.kernel_times import KernelTimes
from dse.serving.layouts import ALL_TO_ALL, FIELDS, Layouts
from dse.serving.step_times import StepModel
from dse.step_operators import Types, Work, step_operators

MODEL = load_model("deepseek_v3")


def layouts(gpus_per_node: int = 8, **columns: list[int]) -> Layouts:
    count = len(next(iter(columns.values())))
    plain = {
        name: int(name not in ("placement", "sequence_parallel", "exchange", "overlap", "chunk")) for name in FIELDS
    }
    found = {name: np.array(columns.get(name, [plain[name]] * count), np.int64) for name in FIELDS}
    return Layouts(found, np.arange(count), gpus_per_node)


def operators(at: Layouts, **numbers: float):
    engine = changed_engine(load_engine("vllm"), numbers)
    work = Work(sequences=4, context=100, everywhere=4 * at["dp"])
    plain = step_operators(MODEL, Types(), work, at.cut())
    return plain, engine_operators(plain, at, engine), engine


def test_an_all_reduce_that_normalises_leaves_no_norm() -> None:
    at = layouts(tp=[1, 8, 8], sequence_parallel=[0, 0, 1])
    _, fused, _ = operators(at, norm_in_all_reduce=1)
    _, apart, _ = operators(at, norm_in_all_reduce=0)
    for name in ("attention_norm", "ffn_norm"):
        rows = next(np.broadcast_to(one.sizes["rows"], 3) for one in fused if one.layer == name)
        assert [one > 0 for one in rows] == [True, False, True]
        assert (np.broadcast_to(next(one.sizes["rows"] for one in apart if one.layer == name), 3) > 0).all()


def test_gate_and_up_apart_are_two_products_of_half_the_columns() -> None:
    plain, apart, _ = operators(layouts(tp=[8]), gate_and_up_apart=1)
    one, two = (next(op for op in ops if op.layer == "gate_up") for ops in (plain, apart))
    assert two.times == 2 * one.times
    assert (np.asarray(two.sizes["n"]) * 2 == one.sizes["n"]).all()
    assert [op for op in apart if op.layer != "gate_up"] == [op for op in plain if op.layer != "gate_up"]


def test_shared_experts_are_hidden_as_long_as_the_routed_ones_run() -> None:
    _, found, engine = operators(layouts(tp=[8]), shared_experts_beside=1)
    for shared_s, routed_s in ((1.0, 10.0), (5.0, 10.0)):
        seconds = [np.array([shared_s if one.layer in SHARED else routed_s if one.layer == "experts" else 0.5])
                   for one in found]  # fmt: skip
        assert hidden_s(found, seconds, engine) == pytest.approx(min(3 * shared_s, routed_s))
        assert hidden_s(found, seconds, changed_engine(engine, {"shared_experts_beside": 0})) == 0.0


@pytest.mark.parametrize("dtype", ["fp8", "fp8_block", "nvfp4"])
def test_activations_are_narrowed_by_kernels_of_their_own_where_the_engine_says_so(dtype) -> None:
    engine = load_engine("vllm")
    assert engine_types(Types(dtype), changed_engine(engine, {f"quantise_{dtype}": 1})).quantise_a
    assert not engine_types(Types(dtype), changed_engine(engine, {f"quantise_{dtype}": 0})).quantise_a
    assert engine_types(Types(dtype, quantise_a=True), changed_engine(engine, {f"quantise_{dtype}": 0})).quantise_a
    assert not engine_types(Types("bf16"), engine).quantise_a


@pytest.mark.parametrize(("tokens", "experts", "topk"), [(1, 8, 2), (5, 8, 2), (16, 256, 8), (64, 256, 8)])
def test_few_tokens_drawn_by_chance_leave_experts_without_rows(tokens, experts, topk) -> None:
    counts = uniform_counts(tokens, experts, topk)
    assert (counts.sum(axis=1) == tokens * topk).all()
    assert counts.max() <= tokens
    used = sum(number for _, number in expert_classes("uniform", tokens, experts, topk))
    expected = experts * (1.0 - (1.0 - topk / experts) ** tokens)
    assert used == pytest.approx((counts > 0).sum(axis=1).mean())
    assert used == pytest.approx(expected, rel=0.06)


def test_many_tokens_are_dealt_evenly_up_to_chance() -> None:
    tokens = 4096
    assert tokens > DRAWN_TOKEN_BY_TOKEN
    classes = expert_classes("uniform", tokens, 64, 4)
    rows = sum(number * each for each, number in classes)
    assert rows == pytest.approx(tokens * 4, rel=0.01)
    mean = tokens * 4 / 64
    assert max(each for each, _ in classes) < mean + 6 * np.sqrt(mean)
    busiest = sum(number * each for each, number in expert_classes("uniform", tokens, 64, 4, ep=8))
    assert tokens * 4 / 8 < busiest < 1.1 * tokens * 4 / 8


def _exchanges(at: Layouts, **work):
    found = step_exchanges(MODEL, Types("fp8_block"), Work(**work), at)
    return {one.part: one for one in found}


def test_prompts_cross_the_network_once_a_node_and_decoded_tokens_once_a_gpu() -> None:
    at = layouts(dp=[16], exchange=[ALL_TO_ALL])  # two nodes
    moe, tokens = MODEL.moe, 64
    assert moe is not None
    prompts = _exchanges(at, prompts=1, prompt_tokens=tokens, everywhere=tokens * 16)
    missed = 1.0
    for drawn in range(moe.topk):  # all of a token's experts on the other of two nodes
        missed *= (moe.experts // 2 - drawn) / (moe.experts - drawn)
    nodes = 2.0 * (1.0 - missed)
    across = prompts["dispatch_to_nodes"]
    assert float(across.bytes_[0]) == pytest.approx(tokens * nodes * MODEL.hidden)
    assert (int(across.inside[0]), int(across.across[0])) == (1, 2)
    assert (int(prompts["dispatch_inside"].inside[0]), int(prompts["dispatch_inside"].across[0])) == (8, 1)
    assert float(prompts["dispatch"].bytes_[0]) == 0.0
    decoded = _exchanges(at, sequences=tokens, context=10, everywhere=tokens * 16)
    assert float(decoded["dispatch_to_nodes"].bytes_[0]) == 0.0
    assert float(decoded["dispatch"].bytes_[0]) > float(across.bytes_[0])
    one_node = _exchanges(
        layouts(dp=[8], exchange=[ALL_TO_ALL]), prompts=1, prompt_tokens=tokens, everywhere=tokens * 8
    )
    assert float(one_node["dispatch"].bytes_[0]) > 0.0
    assert float(one_node["dispatch_to_nodes"].bytes_[0]) == 0.0


def test_nodes_of_a_token_as_all_choices_of_experts_give_them() -> None:
    experts, topk, nodes = 8, 3, 4
    chosen = [len({one * nodes // experts for one in choice}) for choice in combinations(range(experts), topk)]
    missed = 1.0
    for drawn in range(topk):
        missed *= max(experts - experts / nodes - drawn, 0.0) / (experts - drawn)
    assert nodes * (1.0 - missed) == pytest.approx(np.mean(chosen))


def test_what_is_sent_on_inside_counts_as_far_as_it_outlasts_the_network() -> None:
    parts = ("dispatch_to_nodes", "dispatch_inside", "combine_to_nodes", "combine_inside", "logits")
    exchanges = [Exchange(part, "all_to_all", 1, 1, 1, "expert layers") for part in parts]
    seconds = [np.array([float(number)]) for number in (3, 2, 3, 5, 1)]
    assert [float(one[0]) for one in forwarded(exchanges, seconds)] == [3, 0, 3, 2, 1]


def test_collectives_that_take_sms_slow_what_runs_beside_them() -> None:
    """Two halves in turns: computing is slower by the SMs taken while tokens travel, the longer of both counts."""
    shown: Any = StepModel._shown
    halves, none = np.array([2]), np.zeros(1)
    for computing, sending, taken, expected in ((5.0, 2.0, 0.0, 10.0), (5.0, 2.0, 0.25, 11.0), (1.0, 4.0, 0.25, 8.0)):
        found = shown(None, np.array([computing]), np.array([sending]), none, none, halves, np.array([taken]))
        assert found[0] == pytest.approx(expected)
    one = np.array([1])
    assert shown(None, np.array([5.0]), np.array([2.0]), none, none, one, np.array([0.25]))[0] == pytest.approx(7.0)


def test_kernels_of_a_graph_that_start_early() -> None:
    launched, one, none = np.array([4.0]), np.array([1]), np.zeros(1)
    shown: Any = StepModel._shown
    early = shown(None, np.array([5.0]), none, launched, np.array([-0.5]), one, none)
    late = shown(None, np.array([5.0]), none, launched, np.array([2.0]), one, none)
    assert (early[0], late[0]) == (pytest.approx(3.0), pytest.approx(8.0))


@pytest.mark.parametrize("engine", ["vllm", "sglang", "trtllm"])
def test_every_engine_has_kernels_for_latent_attention_on_blackwell(engine) -> None:
    at = layouts(tp=[8])
    times = KernelTimes(load_gpu("b200_sxm"), load_engine(engine))
    for work in (Work(prompts=1, prompt_tokens=512), Work(sequences=4, context=512)):
        every = step_operators(MODEL, Types(kv_dtype="fp8"), work, at.cut())
        seconds = times.seconds([one for one in every if one.layer == "attention"], 1)
        assert 1e-6 < max(float(one[0]) for one in seconds) < 1e-3
