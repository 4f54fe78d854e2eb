"""With the launch order left open a kernel's cost is a lower bound: no order is faster or moves fewer bytes."""

import dataclasses
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles.dequant_gemm_draws import draw_dequant_gemms
from oracles.gemm_draws import FAMILIES, draw_gemms
from oracles.grouped_gemm_draws import draw_grouped
from oracles.quick_compile import QUICK

from dse.bounding.lower_bound import MONOTONE_OVERDRAW, overdraw
from jaxmodel.kernels import dequant_gemm, gemm, grouped_gemm

COUNT = 3000
KERNELS = {
    "gemm": (gemm.cost, draw_gemms),
    "dequant_gemm": (dequant_gemm.cost, draw_dequant_gemms),
    "grouped_gemm": (grouped_gemm.cost, draw_grouped),
}
LOWER = ("latency_s", "ddr_bytes", "l2_bytes")
SAME = ("smem_bytes", "registers_per_thread", "l15_bytes")
ROUNDING = 1e-12


@pytest.fixture(scope="module", params=KERNELS)
def kernel(request: pytest.FixtureRequest) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Its cost, compiled once for all families, and what draws candidates."""
    cost, draw = KERNELS[request.param]
    return jax.jit(cost, compiler_options=QUICK), draw


@pytest.mark.parametrize("limit", ["on", "off"])
@pytest.mark.parametrize("family", FAMILIES)
def test_no_order_is_below_the_bound(kernel: tuple, family: str, limit: str) -> None:
    cost, draw = kernel
    problem, schedule, gpu = draw(COUNT, 17, family)
    if limit == "off":
        gpu = dataclasses.replace(gpu, power_time_s=0 * gpu.power_time_s)
    with jax.enable_x64(True):
        records = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float64), (problem, schedule, gpu))
        problem, schedule, gpu = records
        known = cost(problem, schedule, gpu)
        lowest = cost(problem, dataclasses.replace(schedule, swizzle=None, raster_along_n=None), gpu)
        known, lowest = (jax.tree.map(lambda leaf: np.broadcast_to(leaf, COUNT), found) for found in (known, lowest))
    runs = known.reason == 0
    if limit == "on":
        runs = runs & (draws_no_more_than(gpu, MONOTONE_OVERDRAW))
    assert runs.sum() > 200
    assert not np.any(lowest.reason[runs])
    for name in LOWER:
        ours, theirs = getattr(lowest, name)[runs], getattr(known, name)[runs]
        assert np.all(ours <= theirs * (1 + ROUNDING)), name
    for name in SAME:
        np.testing.assert_array_equal(getattr(lowest, name)[runs], getattr(known, name)[runs], err_msg=name)
    assert np.any(lowest.latency_s[runs] < 0.99 * known.latency_s[runs])


def draws_no_more_than(gpu: Any, most: float) -> np.ndarray:
    numbers = {
        f.name: np.broadcast_to(getattr(gpu, f.name), COUNT)
        for f in dataclasses.fields(gpu)
        if f.name not in ("mma", "cluster_sms") and getattr(gpu, f.name) is not None
    }
    every = (SimpleNamespace(**{name: values[at] for name, values in numbers.items()}) for at in range(COUNT))
    return np.array([overdraw(one) <= most for one in every])
