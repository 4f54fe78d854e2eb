"""The laws of `conformance.kernel_laws` for GEMMs with fused epilogues, and the limit in which they are GEMMs."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conformance.kernel_laws import Candidates, KernelLaws
from oracles.gemm_draws import FAMILIES
from oracles.gemm_epilogue_draws import draw_gemm_epilogues
from oracles.quick_compile import QUICK

from jaxmodel.kernels import gemm, gemm_epilogue
from jaxmodel.kernels.gemm_epilogue_types import GemmEpilogue

COUNT = 1000
EPILOGUE = jax.jit(gemm_epilogue.cost, compiler_options=QUICK)  # one compilation for all draws
GEMM = jax.jit(gemm.cost, compiler_options=QUICK)


class TestGemmEpilogueLaws(KernelLaws):
    variants = FAMILIES
    cost = staticmethod(gemm_epilogue.cost)

    def draw(self, count: int, seed: int, variant: str) -> Candidates:
        return Candidates(*draw_gemm_epilogues(count, seed, variant))

    def compulsory_ddr_bytes(self, problem: GemmEpilogue) -> np.ndarray:
        of = problem.gemm
        a_bytes = of.m * of.k * of.a_bytes * (1.0 - of.a_warm)
        b_bytes = of.k * of.n * of.b_bytes * (1.0 - of.b_warm)
        results = of.m * of.n * (of.out_bytes + problem.read_bytes + problem.scale_bytes)
        return of.batch * (a_bytes + b_bytes + results + of.n * problem.column_bytes)


@pytest.mark.parametrize("family", FAMILIES)
def test_an_epilogue_that_does_nothing_is_a_gemm(family: str) -> None:
    draw = draw_gemm_epilogues(COUNT, 5, family, nothing=True)
    gpu = dataclasses.replace(draw.gpu, power_time_s=0 * draw.gpu.power_time_s)
    with jax.enable_x64(True):
        cast = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float64), (draw.problem, draw.schedule, gpu))
        problem, schedule, gpu = cast
        found, known = EPILOGUE(problem, schedule, gpu), GEMM(problem.gemm, schedule, gpu)
        found, known = (jax.tree.map(lambda leaf: np.broadcast_to(leaf, COUNT), cost) for cost in (found, known))
    np.testing.assert_array_equal(found.reason == 0, known.reason == 0)
    fits = known.reason == 0
    for name in ("latency_s", "ddr_bytes"):
        np.testing.assert_allclose(getattr(found, name)[fits], getattr(known, name)[fits], rtol=1e-9, err_msg=name)


def test_every_part_of_an_epilogue_costs_something_or_nothing_never_less() -> None:
    draw = draw_gemm_epilogues(COUNT, 6, "wgmma", nothing=True)
    with jax.enable_x64(True):
        records = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float64), tuple(draw))
        problem, schedule, gpu = records
        plain = EPILOGUE(problem, schedule, gpu)
        for name, value in (("slots", 50.0), ("sfu_op", 20.0), ("read_bytes", 2.0), ("column_bytes", 2.0)):
            more = dataclasses.replace(problem, **{name: getattr(problem, name) + value})
            found = EPILOGUE(more, schedule, gpu)
            assert np.all(found.latency_s >= plain.latency_s * (1 - 1e-12)), name
            assert np.any((found.latency_s > plain.latency_s * 1.001) & (plain.reason == 0)), name
