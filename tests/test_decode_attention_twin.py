"""The cost of decode attention against a scalar float64 twin that shares little with it but the equations."""

from functools import cache
from typing import Any

import jax
import numpy as np
import pytest
from oracles import decode_attention as twin
from oracles.cost_fields import beyond, cost_fields, entry, flat
from oracles.decode_attention_draws import FAMILIES, Draw, draw_decode
from oracles.quick_compile import QUICK

from jaxmodel.kernels import decode_attention, decode_attention_program
from jaxmodel.reasons import Reason

COUNT = 160  # candidates a family
TOLERANCE = {np.float32: 1e-4, np.float64: 1e-9}
CODES = ("bound", "ctas_per_sm", "occupancy_limiter", "threads", "sms_used", "registers_per_thread", "fits", "reason")


@cache
def drawn(family: str) -> tuple[Draw, dict[str, np.ndarray]]:
    draw = draw_decode(COUNT, 1, family)
    found = [flat(twin.cost(*entry(tuple(draw), i))) for i in range(COUNT)]
    return draw, {name: np.array([one[name] for one in found], float) for name in found[0]}


@cache
def compiled() -> Any:
    return jax.jit(decode_attention.cost, compiler_options=QUICK)


def model(draw: Draw, float_dtype: type, cost: Any = None) -> dict[str, np.ndarray]:
    with jax.enable_x64(float_dtype is np.float64):
        found = (cost or compiled())(*jax.tree.map(lambda leaf: np.asarray(leaf, float_dtype), draw))
        return cost_fields(found, COUNT)


def differences(ours: dict[str, np.ndarray], exact: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Relative, parts of the latency against a hundredth of it at least; 0 or 1 of codes and counts."""
    own = exact["own_reason"]
    found = {
        "fits": (ours["reason"] == Reason.OK) != ((own == Reason.OK) & (exact["fits"] > 0)),
        "reason": (own != Reason.OK) & (exact["fits"] > 0) & (ours["reason"] != own),
    }
    for name in ours.keys() & exact.keys():
        least = 1e-30
        if name.endswith("_s") or name.startswith("pipeline_s"):
            least = 0.01 * exact["latency_s"]
        elif name in ("ddr_read_bytes", "l15_hit", "l2_hit"):
            least = 0.01 * exact["l15_bytes"] if name == "ddr_read_bytes" else 0.01
        apart = np.abs(ours[name] - exact[name]) / np.maximum(np.abs(exact[name]), least)
        found[name] = apart > 0 if name in CODES else apart
    return found


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("float_dtype", [np.float64, np.float32])
def test_every_field_is_the_twins(family: str, float_dtype: type) -> None:
    """A code flips where two numbers are equal to float32 rounding, so codes are compared in float64 alone."""
    draw, exact = drawn(family)
    wrong = beyond(differences(model(draw, float_dtype), exact), TOLERANCE[float_dtype])
    assert {name: apart for name, apart in wrong.items() if float_dtype is np.float64 or name not in CODES} == {}


def test_the_draw_reaches_what_it_should() -> None:
    every = [drawn(family) for family in FAMILIES]
    joined = {name: np.concatenate([exact[name] for _, exact in every]) for name in every[0][1]}
    fits = (joined["own_reason"] == Reason.OK) & (joined["fits"] > 0)
    reasons = {Reason.MMA_SHAPE, Reason.WARP_TILE, Reason.SPLIT_KV, Reason.LIBRARY}
    assert set(joined["own_reason"].astype(int)) >= reasons
    assert 0.15 < fits.mean() < 0.8
    for field in ("scheduler", "combine", "overlap", "swap_ab", "pack_gqa"):
        values = np.concatenate([getattr(draw.schedule, field) for draw, _ in every])
        assert np.sum(fits & (values > 0)) > 5, field
    for name in ("tail_s", "reduction_s", "helpers_s", "workspace_bytes"):
        assert np.sum(fits & (joined[name] > 0)) > 5, name
    for field in ("shared_kv", "window", "kv_warm", "page_tokens"):
        values = np.concatenate([getattr(draw.problem, field) for draw, _ in every])
        assert np.sum(fits & (values > 0)) > 3, field


WRONG = {
    (decode_attention_program, "SOFTMAX_FLOP"): 60.0,
    (decode_attention_program, "WIDEN_FLOP"): 90.0,
    (decode_attention_program, "STORE_FLOP"): 90.0,
    (decode_attention_program, "PARTIAL_BYTES"): 8.0,
    (decode_attention_program, "PAGE_ENTRY_BYTES"): 8.0,
    (decode_attention, "LONGEST_SPREAD"): 1.8,
    (decode_attention, "WIDE_HEAD_DIM"): 64.0,
}


@pytest.mark.parametrize(("module", "number"), WRONG)
def test_a_wrong_equation_would_be_found(module: Any, number: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A number of the page, changed in the model, moves some field past the tolerance."""
    monkeypatch.setattr(module, number, WRONG[module, number])
    other = jax.jit(lambda *records: decode_attention.cost(*records), compiler_options=QUICK)
    most = 0.0
    for family in FAMILIES:
        draw, exact = drawn(family)
        most = max(most, *(float(apart.max()) for apart in differences(model(draw, np.float64, other), exact).values()))
    assert most > 1e-6
