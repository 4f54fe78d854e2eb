"""Grouped GEMMs and MoE layers against scalar float64 twins written from docs/moe.md."""

import dataclasses
from typing import Any

import numpy as np
import pytest
from oracles import grouped_gemm as grouped_twin
from oracles import moe as moe_twin
from oracles.cost_fields import beyond
from oracles.gemm_compare import differences, model_fields, twin_fields
from oracles.gemm_draws import FAMILIES
from oracles.grouped_gemm_draws import draw_grouped, draw_moe

from jaxmodel.kernels import grouped_gemm, moe
from jaxmodel.reasons import Reason

COUNT = 600
TOLERANCE = {np.float32: 1e-4, np.float64: 1e-9}
KERNELS = {"grouped_gemm": (draw_grouped, grouped_gemm, grouped_twin), "moe": (draw_moe, moe, moe_twin)}
CASES = [(kernel, family) for kernel in KERNELS for family in FAMILIES]


@pytest.fixture(scope="module", params=CASES, ids="-".join)
def drawn(request: pytest.FixtureRequest) -> tuple[Any, Any, dict[str, np.ndarray]]:
    kernel, family = request.param
    draw_of, model, twin = KERNELS[kernel]
    draw = draw_of(COUNT, 1, family)
    return model, draw, twin_fields(draw, twin)


@pytest.mark.parametrize("float_dtype", [np.float32, np.float64])
def test_every_field_of_the_cost_agrees_with_the_twin(drawn: tuple, float_dtype: type) -> None:
    model, draw, exact = drawn
    found = differences(draw, model_fields(draw, float_dtype, model.cost), exact)
    assert beyond(found, TOLERANCE[float_dtype]) == {}


def test_the_draw_reaches_what_it_should(drawn: tuple) -> None:
    _, draw, exact = drawn
    fits = exact["reason"] == Reason.OK
    assert 0.15 < fits.mean() < 0.9
    for name in ("persistent", "swap_ab"):
        assert np.sum(fits & (getattr(draw.schedule, name) > 0)) > 10, name
    assert np.sum(fits & (exact["tail_s"] > 0)) > 10


def test_a_wrong_equation_would_be_found(drawn: tuple) -> None:
    model, draw, exact = drawn
    faster = dataclasses.replace(draw.gpu, ddr_bytes_per_s=draw.gpu.ddr_bytes_per_s * 1.001)
    found = differences(draw, model_fields(draw._replace(gpu=faster), np.float32, model.cost), exact)
    assert found["latency_s"].max() > 5e-4
