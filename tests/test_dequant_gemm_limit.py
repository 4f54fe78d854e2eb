"""A dequantised GEMM whose weights are as wide as its activations is a GEMM: the same schedules cost what GEMM says."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles.dequant_gemm_draws import DequantDraw, draw_dequant_gemms
from oracles.gemm_draws import FAMILIES
from oracles.quick_compile import QUICK

from jaxmodel.kernels import dequant_gemm, gemm
from jaxmodel.types import Cost, GemmSchedule

COUNT = 1500
EQUAL = 0.01  # of the latency, under the power limit: its energy counts SMEM of the loop in GEMM, of all actions here
ROUNDING = 1e-9
DEQUANT_GEMM = jax.jit(dequant_gemm.cost, compiler_options=QUICK)  # one compilation for all draws
GEMM = jax.jit(gemm.cost, compiler_options=QUICK)


def both(family: str, power_limit: bool) -> tuple[DequantDraw, Cost, Cost]:
    """Drawn candidates with wide weights, as a dequantised GEMM and as a GEMM."""
    draw = draw_dequant_gemms(COUNT, 5, family, wide=True)
    schedule = dataclasses.replace(draw.schedule, converter_warps=0 * draw.schedule.converter_warps)
    gpu = dataclasses.replace(draw.gpu, power_time_s=power_limit * draw.gpu.power_time_s)
    draw = draw._replace(schedule=schedule, gpu=gpu)
    plain = GemmSchedule(**{f.name: getattr(schedule, f.name) for f in dataclasses.fields(GemmSchedule)})
    with jax.enable_x64(True):
        records = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float64), (draw.problem, schedule, plain, gpu))
        problem, schedule, plain, gpu = records
        found = DEQUANT_GEMM(problem, schedule, gpu), GEMM(problem.gemm, plain, gpu)
    return draw, *(jax.tree.map(lambda leaf: np.broadcast_to(leaf, COUNT), cost) for cost in found)


@pytest.fixture(scope="module", params=FAMILIES)
def pair(request: pytest.FixtureRequest) -> tuple[DequantDraw, Cost, Cost]:
    return both(request.param, power_limit=False)


def test_the_same_schedules_fit(pair: tuple) -> None:
    _, dequantised, known = pair
    np.testing.assert_array_equal(dequantised.reason == 0, known.reason == 0)
    fits = known.reason == 0
    assert fits.mean() > 0.15
    for name in ("smem_bytes", "threads", "registers_per_thread", "ctas_per_sm"):
        np.testing.assert_array_equal(getattr(dequantised, name)[fits], getattr(known, name)[fits])


def test_every_launch_costs_the_same(pair: tuple) -> None:
    draw, dequantised, known = pair
    fits, schedule = known.reason == 0, draw.schedule
    for kind in (schedule.stream_k > 0, schedule.split_k > 1, (schedule.stream_k < 1) & (schedule.split_k < 2)):
        assert np.sum(fits & kind) > 30
    for name in ("latency_s", "prologue_s", "tail_s", "reduction_s", "ddr_bytes", "l2_bytes", "l15_bytes", "waves"):
        ours, theirs = getattr(dequantised, name)[fits], getattr(known, name)[fits]
        np.testing.assert_allclose(ours, theirs, rtol=ROUNDING, atol=1e-18, err_msg=name)


@pytest.mark.parametrize("family", FAMILIES)
def test_under_the_power_limit_too(family: str) -> None:
    _, dequantised, known = both(family, power_limit=True)
    _, _, boosted = both(family, power_limit=False)
    fits = known.reason == 0
    assert np.any(known.latency_s[fits] > 1.01 * boosted.latency_s[fits])
    np.testing.assert_allclose(dequantised.latency_s[fits], known.latency_s[fits], rtol=EQUAL)


def test_narrow_weights_ask_no_more_of_ddr_and_conversion_is_never_free(pair: tuple) -> None:
    """Where as many CTAs fit: more of them at once touch more between two uses of a block."""
    draw, dequantised, _ = pair
    quarter = dataclasses.replace(draw.problem.gemm, b_bytes=0.25 * draw.problem.gemm.b_bytes)
    narrow = dataclasses.replace(draw.problem, gemm=quarter)
    slow = dataclasses.replace(narrow, dequant_slots=draw.problem.dequant_slots + 4.0)
    with jax.enable_x64(True):
        records = [jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float64), record) for record in (narrow, slow)]
        schedule, gpu = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float64), (draw.schedule, draw.gpu))
        few, many = (DEQUANT_GEMM(record, schedule, gpu) for record in records)
        few, many = jax.tree.map(lambda leaf: np.broadcast_to(leaf, COUNT), (few, many))
    fits = (few.reason == 0) & (dequantised.reason == 0)
    alike = fits & (few.ctas_per_sm == dequantised.ctas_per_sm)
    assert alike.sum() > 50
    assert np.all(few.ddr_read_bytes[alike] <= dequantised.ddr_read_bytes[alike] * (1 + 1e-9))
    assert np.all(many.latency_s >= few.latency_s * (1 - 1e-12))
    assert np.any(many.latency_s[fits] > 1.5 * few.latency_s[fits])
