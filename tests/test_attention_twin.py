"""The whole cost of attention against a scalar float64 twin that shares nothing with it but the equations."""

import dataclasses

import numpy as np
import pytest
from oracles.attention_compare import candidates, twin_fields
from oracles.attention_draws import FAMILIES, Draw, draw_attention
from oracles.attention_work import whole_work
from oracles.cost_fields import beyond
from oracles.gemm_compare import differences, model_fields

from jaxmodel.kernels import attention
from jaxmodel.reasons import Reason

COUNT = 400  # candidates a family
TOLERANCE = {np.float32: 2e-4, np.float64: 1e-9}


@pytest.fixture(scope="module", params=FAMILIES)
def drawn(request: pytest.FixtureRequest) -> tuple[Draw, dict[str, np.ndarray]]:
    draw = draw_attention(COUNT, seed=1, family=request.param, own_seconds=True)
    return draw, twin_fields(draw)


@pytest.mark.parametrize("float_dtype", [np.float32, np.float64])
def test_every_field_of_the_cost_agrees_with_the_twin(drawn: tuple, float_dtype: type) -> None:
    draw, exact = drawn
    found = differences(draw, model_fields(draw, float_dtype, attention.cost), exact)
    assert beyond(found, TOLERANCE[float_dtype]) == {}


def test_unequal_sequences_agree_with_the_twin() -> None:
    draw = draw_attention(COUNT, seed=2, family="wgmma", classes=3)
    found = differences(draw, model_fields(draw, np.float64, attention.cost), twin_fields(draw))
    assert beyond(found, TOLERANCE[np.float64]) == {}


def test_the_draw_reaches_what_it_should(drawn: tuple) -> None:
    draw, exact = drawn
    fits = exact["reason"] == Reason.OK
    assert 0.15 < np.mean(fits) < 0.9
    assert set(exact["reason"].astype(int)) >= {Reason.WARP_TILE, Reason.SPLIT_KV, Reason.SMEM}
    for name in ("persistent", "longest_first", "pack_gqa"):
        assert np.sum(fits & (getattr(draw.schedule, name) > 0)) > 10, name
    for name in ("tail_s", "reduction_s", "helpers_s", "workspace_bytes"):
        assert np.sum(fits & (exact[name] > 0)) > 10, name


def test_a_wrong_equation_would_be_found(drawn: tuple) -> None:
    """The comparison is not blind: a model whose tensor cores are one per mille faster differs in what they enter."""
    draw, exact = drawn
    rate = draw.gpu.tensor_flop_per_clock_sm * 1.001
    faster = draw._replace(gpu=dataclasses.replace(draw.gpu, tensor_flop_per_clock_sm=rate))
    found = differences(draw, model_fields(faster, np.float64, attention.cost), exact)
    assert found["pipeline_s.tensor"].max() > 5e-4
    assert found["latency_s"].max() > 2e-4


def test_the_sum_of_blocks_is_near_that_of_tiles_one_by_one() -> None:
    """Exact for equal steps; else within a block a tile, and without bias."""
    errors, exact = [], []
    draw = draw_attention(2_000, seed=3, family="wgmma")
    for one in candidates(draw):
        found = whole_work(one.problem, one.schedule).classes[0]
        if found.blocks_one_by_one is None or one.problem.window:
            continue
        errors.append((found.blocks - found.blocks_one_by_one) / found.tiles)
        step = one.schedule.tile_n * found.rows / one.problem.q_tokens
        if one.problem.kv_tokens == one.problem.q_tokens and one.schedule.tile_m % step == 0:
            exact.append(errors[-1])
    assert len(exact) > 50
    assert np.max(np.abs(exact)) == 0.0
    assert np.max(np.abs(errors)) < 0.5
    assert abs(np.mean(errors)) < 0.02
