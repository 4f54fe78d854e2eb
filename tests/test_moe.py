"""Fused MoE layers: routing against slow twins, the limit of one expert, problems, messages."""

import dataclasses

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.gemm_draws import FAMILIES, draw_gemms
from oracles.quick_compile import QUICK

from dse.content.gpu import load_gpu
from dse.errors import UserError
from dse.kernels import routing
from dse.kernels.grouped_gemm import GroupedGemmProblem
from dse.kernels.moe import MoeProblem
from jaxmodel.kernels import gemm, grouped_gemm, moe
from jaxmodel.kernels.grouped_gemm_types import ExpertClass, GroupedGemm, GroupedGemmSchedule, GroupedNumbers
from jaxmodel.kernels.moe_types import MoeSchedule

ROUTINGS = st.tuples(
    st.integers(1, 300), st.sampled_from([(8, 2), (16, 1), (60, 4), (64, 6), (128, 8)]), st.sampled_from([1, 2, 4])
)


@given(ROUTINGS)
@settings(max_examples=60, deadline=None)
def test_balanced_rows_are_those_of_every_token_in_turn(case) -> None:
    tokens, (experts, topk), _ = case
    stride = -(-experts // topk)
    counts = np.zeros(experts, int)
    for token in range(tokens):
        start = token if tokens >= stride else token * stride / tokens
        for choice in range(topk):
            counts[int(start + choice * stride) % experts] += 1
    np.testing.assert_array_equal(routing.balanced_counts(tokens, experts, topk), counts)


@given(ROUTINGS, st.sampled_from([1.01, 1.2, 2.0]))
@settings(max_examples=40, deadline=None)
def test_power_law_rows_are_dealt_one_by_one(case, alpha: float) -> None:
    tokens, (experts, topk), ep = case
    found = routing.power_law_counts(tokens, experts, topk, alpha, ep)
    for counts, slow in zip(found, _power_law_one_by_one(tokens, experts, topk, alpha, ep), strict=True):
        assert counts.sum() == tokens * topk
        assert counts.min() >= 0
        assert counts.max() <= tokens
        np.testing.assert_array_equal(np.sort(counts.reshape(ep, -1)), np.sort(slow.reshape(ep, -1)))


def _power_law_one_by_one(tokens: int, experts: int, topk: int, alpha: float, ep: int) -> list[np.ndarray]:
    low, high = (1.0, 0.8 * tokens) if tokens * topk > experts else (0.01, 2.0)
    random, found = np.random.default_rng(0), []
    for _ in range(routing.DRAWS):
        u = random.random(experts)
        weight = ((high ** (1 - alpha) - low ** (1 - alpha)) * u + low ** (1 - alpha)) ** (1 / (1 - alpha))
        counts = np.minimum(np.rint(weight / weight.sum() * tokens * topk).astype(int), tokens).reshape(ep, -1)
        while counts.sum() != tokens * topk:
            step = 1 if counts.sum() < tokens * topk else -1
            for rank in range(ep):
                room = counts[rank] < tokens if step > 0 else counts[rank] > 0
                if counts.sum() == tokens * topk or not room.any():
                    continue
                at = np.where(room, counts[rank] * step, np.iinfo(int).max).argmin()
                counts[rank, at] += step
        found.append(counts.ravel())
    return found


@given(ROUTINGS, st.sampled_from(["balanced", "power_law_1.01", "power_law_1.2"]))
@settings(max_examples=40, deadline=None)
def test_classes_keep_the_rows(case, distribution: str) -> None:
    tokens, (experts, topk), ep = case
    classes = routing.expert_classes(distribution, tokens, experts, topk, ep)
    assert 1 <= len(classes) <= routing.CLASSES
    assert all(rows >= 1 and rows == int(rows) for rows, _ in classes)
    if distribution == "balanced":
        local = routing.balanced_counts(tokens, experts, topk)[: experts // ep]
        if local.sum():
            assert sum(rows * number for rows, number in classes) == local.sum()
            assert sum(number for _, number in classes) == (local > 0).sum()
    elif ep == 1:
        assert sum(rows * number for rows, number in classes) == pytest.approx(tokens * topk, rel=0.05)


@pytest.mark.parametrize("family", FAMILIES)
def test_one_expert_is_a_gemm(family: str) -> None:
    """Bar: to 1 %. Schedules without clusters, splits and shared tiles, A warm or cold, every layout of scales."""
    count = 400
    draw = draw_gemms(count, 3, family, stream_k=False)
    one, none = np.ones(count), np.zeros(count)
    assert draw.problem.scaling is not None
    p = dataclasses.replace(
        draw.problem, batch=one, c_in_bytes=none, a_k_major=one, b_k_major=one, b_warm=none,
        scaling=dataclasses.replace(draw.problem.scaling, quantise_passes=none),
    )  # fmt: skip
    pair = np.where(np.arange(count) % 2, 0.0, 1.0 if family == "tcgen05" else 0.0)
    plain = {"cluster_m": one + pair, "cluster_n": one, "cta_pair": pair, "sms_free": none, "split_k": one}
    plain |= {"stream_k": none}
    plain |= {"registers_measured": none, "smem_measured_bytes": none}
    s = dataclasses.replace(draw.schedule, **plain)
    gpu = dataclasses.replace(draw.gpu, drift_skew_steps=None, drift_jitter_steps=None)
    names = [field.name for field in dataclasses.fields(GroupedGemmSchedule) if field.name != "producers"]
    grouped = GroupedGemm(
        tokens=p.m, n=p.n, k=p.k, classes=(ExpertClass(rows=p.m, experts=one),), a_bytes=p.a_bytes, b_bytes=p.b_bytes,
        out_bytes=p.out_bytes, a_align_bytes=p.a_align_bytes, b_align_bytes=p.b_align_bytes,
        out_align_bytes=p.out_align_bytes, a_warm=p.a_warm, scaling=p.scaling, numbers=GroupedNumbers(),
    )  # fmt: skip
    schedule = GroupedGemmSchedule(**{name: getattr(s, name) for name in names}, producers=one)
    with jax.enable_x64(True):
        dense = jax.jit(gemm.cost, compiler_options=QUICK)(p, s, gpu)
        found = jax.jit(grouped_gemm.cost, compiler_options=QUICK)(grouped, schedule, gpu)
    for name in ("latency_s", "ddr_bytes", "l2_bytes", "l15_bytes", "energy_j", "flop", "waves"):
        np.testing.assert_allclose(getattr(found, name), getattr(dense, name), rtol=0.01, err_msg=name)


def test_a_layer_of_one_expert_is_two_gemms_and_its_helpers() -> None:
    problem = MoeProblem(tokens=4096, hidden=4096, inter=14336, experts=1, topk=1).arrays(np.float64)
    gpu = load_gpu("h100_sxm").bind("bf16", float_dtype=np.float64)
    schedule = _schedule()
    first, second = moe.products(problem)
    gate_up, down = moe.schedules(schedule)
    layer = moe.cost(problem, schedule, gpu)
    alone = [grouped_gemm.cost(first, gate_up, gpu), grouped_gemm.cost(second, down, gpu)]
    flop = sum(float(cost.flop) for cost in alone)
    assert float(layer.flop) == flop == 2 * 3 * 4096 * 4096 * 14336
    for name in ("prologue_s", "epilogue_s", "tail_s", "launch_s"):
        assert float(getattr(layer, name)) == pytest.approx(sum(float(getattr(cost, name)) for cost in alone)), name
    latency_s = sum(float(cost.latency_s) for cost in alone)  # the power limit sees a longer kernel
    assert float(layer.latency_s - layer.helpers_s) == pytest.approx(latency_s, rel=0.02)
    assert float(layer.helpers_s) == pytest.approx(float(moe.helpers_seconds(problem, gpu)))


def _schedule() -> MoeSchedule:
    numbers = {"tile_m": 128, "tile_n": 128, "tile_k": 64, "stages": 4, "warps_m": 8, "warps_n": 1, "swap_ab": 0}
    numbers |= {"raster_along_n": 0, "swizzle": 8, "persistent": 1, "epilogue": 1, "producers": 1, "cta_pair": 0}
    numbers |= {"down_tile_m": 0, "down_tile_n": 256, "down_depth": 1, "down_stages": 3, "down_warps_m": 0}
    return MoeSchedule(**{name: float(value) for name, value in numbers.items()})


def test_the_rows_of_one_expert_are_padded_to_whole_tiles() -> None:
    """One row more than a tile costs what a second tile costs."""
    gpu = load_gpu("h100_sxm").bind("bf16", float_dtype=np.float64)
    seconds = [
        float(moe.cost(MoeProblem(tokens, 4096, 1536, 8, 8).arrays(np.float64), _schedule(), gpu).waves)
        for tokens in (1, 128, 129)
    ]
    assert seconds[0] == seconds[1] == seconds[2] / 2


def test_only_experts_with_rows_are_read() -> None:
    gpu = load_gpu("h100_sxm").bind("bf16", float_dtype=np.float64)
    problem = GroupedGemmProblem(tokens=4, n=2048, k=2048, experts=64, topk=2, distribution="4,4" + ",0" * 62)
    cost = grouped_gemm.cost(
        problem.arrays(np.float64),
        GroupedGemmSchedule(**{name: getattr(_schedule(), name) for name in GroupedGemmSchedule.__dataclass_fields__}),
        gpu,
    )
    assert float(cost.ddr_read_bytes) == pytest.approx(2 * 2048 * 2048 * 2, rel=0.01)


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        (
            {"distribution": "zipf"},
            "distribution 'zipf' is none of balanced, uniform, power_law_ALPHA (e.g. power_law_1.2)",
        ),
        ({"distribution": "power_law_1"}, "an exponent of 1 has no closed form here; write power_law_1.01"),
        ({"distribution": "1,2"}, "has 2 counts that sum to 3: this rank has 8 expert(s), each gets at most 64 rows"),
        ({"ep": 3}, "--ep = 3 does not divide 8 experts: every rank has as many"),
        ({"tp": 5}, "--tp = 5 does not divide inter = 1536: every rank has as many columns"),
        ({"implementation": "mine"}, "unknown implementation of moe 'mine'; known: "),
    ],
)
def test_what_is_wrong_is_said(choices: dict, message: str) -> None:
    with pytest.raises(UserError) as caught:
        MoeProblem.from_shape("64x2048x1536x8x2", **choices).on(load_gpu("h100_sxm"))
    assert message in str(caught.value)


def test_more_experts_a_token_than_there_are_is_refused() -> None:
    with pytest.raises(UserError, match=r"topk = 9: a token goes to at most all 8 expert\(s\)"):
        MoeProblem.from_shape("64x2048x1536x8x9")


def test_ranks_share_inter_and_experts() -> None:
    whole = MoeProblem.from_shape("64x2048x1536x8x2")
    assert MoeProblem.from_shape("64x2048x1536x8x2", tp=2).flop == whole.flop / 2
    assert MoeProblem.from_shape("64x2048x1536x8x2", ep=4).flop == whole.flop / 4
    assert MoeProblem.from_shape("64x2048x1536x8x2", gated=False).flop == whole.flop * 2 / 3
