"""The cost of GEMM chains against a scalar float64 twin written from docs/fused-gemm.md."""

import dataclasses

import numpy as np
import pytest
from oracles import gemm_chain as twin
from oracles.cost_fields import beyond
from oracles.gemm_chain_draws import ChainDraw, draw_chains
from oracles.gemm_compare import differences, model_fields, twin_fields
from oracles.gemm_draws import FAMILIES

from jaxmodel.kernels.gemm_chain import cost
from jaxmodel.kernels.gemm_chain_types import KEPT, RECOMPUTED, SPILLED
from jaxmodel.reasons import Reason

COUNT = 400  # candidates a family
TOLERANCE = {np.float32: 1e-4, np.float64: 1e-9}


@pytest.fixture(scope="module", params=FAMILIES)
def drawn(request: pytest.FixtureRequest) -> tuple[ChainDraw, dict[str, np.ndarray]]:
    draw = draw_chains(COUNT, seed=1, family=request.param)
    return draw, twin_fields(draw, twin)


@pytest.mark.parametrize("float_dtype", [np.float32, np.float64])
def test_every_field_of_the_cost_agrees_with_the_twin(drawn: tuple, float_dtype: type) -> None:
    draw, exact = drawn
    found = differences(draw, model_fields(draw, float_dtype, cost), exact)
    assert beyond(found, TOLERANCE[float_dtype]) == {}


def test_the_draw_reaches_what_it_should(drawn: tuple) -> None:
    draw, exact = drawn
    fits = exact["reason"] == Reason.OK
    for order in (SPILLED, RECOMPUTED, KEPT):
        assert np.sum(fits & (draw.schedule.order == order)) > 5, order
    assert set(exact["reason"].astype(int)) >= {Reason.MMA_SHAPE, Reason.SMEM, Reason.CHAIN, Reason.SAME_ORDER}
    for name in ("a_kept", "persistent"):
        assert np.sum(fits & (getattr(draw.schedule, name) > 0)) > 10, name
    assert np.sum(fits & (draw.schedule.sets > 1)) > 10


def test_a_wrong_equation_would_be_found(drawn: tuple) -> None:
    """A model that counts one slot in a hundred more for the activation differs where CUDA cores are counted."""
    draw, exact = drawn
    more = dataclasses.replace(draw.problem, slots=draw.problem.slots * 1.01)
    found = differences(draw, model_fields(draw._replace(problem=more), np.float64, cost), exact)
    assert found["pipeline_s.cuda"].max() > 1e-3
