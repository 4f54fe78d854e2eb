"""The whole GEMM cost against a scalar float64 twin that shares nothing with it but the equations."""

import dataclasses

import numpy as np
import pytest
from oracles.cost_fields import beyond
from oracles.gemm_compare import differences, model_fields, twin_fields
from oracles.gemm_draws import FAMILIES, Draw, draw_gemms

from jaxmodel.reasons import Reason
from jaxmodel.types import GemmSchedule

COUNT = 1_000  # candidates a family; scripts/check_twin.py takes more
TOLERANCE = {np.float32: 1e-4, np.float64: 1e-9}


@pytest.fixture(scope="module", params=FAMILIES)
def drawn(request: pytest.FixtureRequest) -> tuple[Draw, dict[str, np.ndarray]]:
    draw = draw_gemms(COUNT, seed=1, family=request.param)
    return draw, twin_fields(draw)


@pytest.mark.parametrize("float_dtype", [np.float32, np.float64])
def test_every_field_of_the_cost_agrees_with_the_twin(drawn: tuple, float_dtype: type) -> None:
    draw, exact = drawn
    found = differences(draw, model_fields(draw, float_dtype), exact)
    assert beyond(found, TOLERANCE[float_dtype]) == {}


def test_the_draw_reaches_what_it_should(drawn: tuple) -> None:
    draw, exact = drawn
    reasons = set(exact["reason"].astype(int))
    assert np.mean(exact["reason"] == Reason.OK) > 0.2
    assert reasons >= {
        Reason.MMA_SHAPE, Reason.SMEM, Reason.SMS_FREE, Reason.SPLIT_K, Reason.STREAM_K,
        Reason.EPILOGUE, Reason.SAME_ORDER,
    }  # fmt: skip
    fits = exact["reason"] == Reason.OK
    for name in ("stream_k", "persistent", "swap_ab"):
        assert np.sum(fits & (getattr(draw.schedule, name) > 0)) > 10, name
    assert np.sum(fits & (draw.schedule.split_k > 1)) > 10
    for name in ("tail_s", "reduction_s", "l15_hit", "workspace_bytes"):
        assert np.sum(fits & (exact[name] > 0)) > 10, name


def test_a_wrong_equation_would_be_found(drawn: tuple) -> None:
    """The comparison is not blind: a model whose DDR is one per mille faster differs in every field that DDR enters."""
    draw, exact = drawn
    faster = dataclasses.replace(draw.gpu, ddr_bytes_per_s=draw.gpu.ddr_bytes_per_s * 1.001)
    found = differences(draw, model_fields(draw._replace(gpu=faster), np.float32), exact)
    assert found["pipeline_s.ddr"].max() > 5e-4
    assert found["latency_s"].max() > 5e-4


def test_launches_beyond_whole_float32_numbers_are_refused() -> None:
    """2^24 - 1 tiles can be counted, 2^24 cannot."""
    draw = draw_gemms(COUNT, seed=1, family="mma_sync")
    batch = np.full(COUNT, 2.0**24)
    batch[0] -= 1.0
    problem = dataclasses.replace(
        draw.problem, **_all(m=16, n=16, k=64, a_bytes=2, b_bytes=2, out_bytes=2), batch=batch
    )
    schedule = dataclasses.replace(draw.schedule, **_all(**dict.fromkeys(GemmSchedule.__dataclass_fields__, 0)))
    schedule = dataclasses.replace(
        schedule,
        **_all(tile_m=16, tile_n=16, tile_k=64, stages=1, warps_m=1, warps_n=1, cluster_m=1, cluster_n=1),
        **_all(swizzle=1, split_k=1),
    )
    reasons = model_fields(Draw(problem, schedule, draw.gpu), np.float32)["reason"]
    assert reasons[0] == Reason.OK
    assert np.all(reasons[1:] == Reason.TILE_COUNT)


def _all(**values: float) -> dict[str, np.ndarray]:
    return {name: np.full(COUNT, float(value)) for name, value in values.items()}
