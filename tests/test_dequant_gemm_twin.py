"""The cost of dequantised GEMMs against a scalar float64 twin written from docs/dequantised-gemm.md."""

import dataclasses

import numpy as np
import pytest
from oracles import dequant_gemm as twin
from oracles.cost_fields import beyond
from oracles.dequant_gemm_draws import DequantDraw, draw_dequant_gemms
from oracles.gemm_compare import differences, model_fields, twin_fields
from oracles.gemm_draws import FAMILIES

from jaxmodel.kernels.dequant_gemm import cost
from jaxmodel.kernels.dequant_gemm_types import IN_REGISTERS, IN_SMEM, IN_TMEM
from jaxmodel.reasons import Reason

COUNT = 600  # candidates a family
TOLERANCE = {np.float32: 1e-4, np.float64: 1e-9}


@pytest.fixture(scope="module", params=FAMILIES)
def drawn(request: pytest.FixtureRequest) -> tuple[DequantDraw, dict[str, np.ndarray]]:
    draw = draw_dequant_gemms(COUNT, seed=1, family=request.param)
    return draw, twin_fields(draw, twin)


@pytest.mark.parametrize("float_dtype", [np.float32, np.float64])
def test_every_field_of_the_cost_agrees_with_the_twin(drawn: tuple, float_dtype: type) -> None:
    draw, exact = drawn
    found = differences(draw, model_fields(draw, float_dtype, cost), exact)
    assert beyond(found, TOLERANCE[float_dtype]) == {}


def test_the_draw_reaches_what_it_should(drawn: tuple) -> None:
    draw, exact = drawn
    fits = exact["reason"] == Reason.OK
    assert fits.mean() > 0.15
    assert set(exact["reason"].astype(int)) >= {Reason.MMA_SHAPE, Reason.SMEM, Reason.CONVERSION, Reason.SPLIT_K}
    narrow = fits & (draw.problem.gemm.b_bytes < 2)
    places = {
        place for place in (IN_REGISTERS, IN_SMEM, IN_TMEM) if np.any(narrow & (draw.schedule.converted_in == place))
    }
    family_has = {IN_TMEM, IN_SMEM} if np.any(draw.gpu.tmem_columns > 0) else {IN_REGISTERS, IN_SMEM}
    assert places == family_has
    for name in ("stream_k", "persistent", "swap_ab"):
        assert np.sum(narrow & (getattr(draw.schedule, name) > 0)) > 5, name
    assert np.sum(narrow & (draw.schedule.split_k > 1)) > 5


def test_a_wrong_equation_would_be_found(drawn: tuple) -> None:
    """A model that counts one slot in a thousand more differs where CUDA cores are counted."""
    draw, exact = drawn
    more = dataclasses.replace(draw.problem, dequant_slots=draw.problem.dequant_slots * 1.001)
    found = differences(draw, model_fields(draw._replace(problem=more), np.float64, cost), exact)
    assert found["pipeline_s.cuda"].max() > 5e-4
