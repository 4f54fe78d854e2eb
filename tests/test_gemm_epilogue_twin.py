"""The cost of GEMMs with fused epilogues against a scalar float64 twin written from docs/fused-gemm.md."""

import dataclasses

import numpy as np
import pytest
from oracles import gemm_epilogue as twin
from oracles.cost_fields import beyond
from oracles.gemm_compare import differences, model_fields, twin_fields
from oracles.gemm_draws import FAMILIES
from oracles.gemm_epilogue_draws import EpilogueDraw, draw_gemm_epilogues

from jaxmodel.kernels.gemm_epilogue import cost
from jaxmodel.reasons import Reason

COUNT = 500  # candidates a family
TOLERANCE = {np.float32: 1e-4, np.float64: 1e-9}


@pytest.fixture(scope="module", params=FAMILIES)
def drawn(request: pytest.FixtureRequest) -> tuple[EpilogueDraw, dict[str, np.ndarray]]:
    draw = draw_gemm_epilogues(COUNT, seed=1, family=request.param)
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
    assert set(exact["reason"].astype(int)) >= {Reason.MMA_SHAPE, Reason.SMEM, Reason.SCALE_BLOCK}
    for name in ("read_bytes", "column_bytes", "scale_bytes", "sfu_op"):
        assert np.sum(fits & (getattr(draw.problem, name) > 0)) > 5, name
    assert np.sum(fits & (draw.schedule.split_k > 1)) > 5
    assert np.sum(fits & (draw.schedule.stream_k > 0)) > 5


def test_a_wrong_equation_would_be_found(drawn: tuple) -> None:
    """A model that reads one byte in a thousand more of the residual differs where DDR is counted."""
    draw, exact = drawn
    more = dataclasses.replace(draw.problem, read_bytes=draw.problem.read_bytes * 1.01)
    found = differences(draw, model_fields(draw._replace(problem=more), np.float64, cost), exact)
    assert found["ddr_bytes"].max() > 1e-4
