"""The laws of `conformance.kernel_laws` for GEMMs that communicate, and those of their overlap."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from conformance.kernel_laws import COUNT, LATENCIES, PER_SECOND, Candidates, KernelLaws
from oracles.fused_draws import draw_fused
from oracles.gemm_draws import FAMILIES
from oracles.quick_compile import QUICK

from jaxmodel.kernels import ag_gemm, gemm_ar, gemm_rs
from jaxmodel.kernels.fused_gemm_types import APART, FusedGemm

INSTANT = 1e9
CALLED_ONCE = ("gradient", "float32 gradient")  # functions of `KernelLaws`


class FusedLaws(KernelLaws):
    variants = FAMILIES
    kernel: str

    def draw(self, count: int, seed: int, variant: str) -> Candidates:
        return Candidates(*draw_fused(count, seed, variant, self.kernel))

    def _jit(
        self, name: str, function: Callable[..., Any], compiler_options: dict[str, Any] = QUICK
    ) -> Callable[..., Any]:
        """Gradients go step by step: the three kernels share most steps, each of which is compiled once for all."""
        return function if name in CALLED_ONCE else super()._jit(name, function, compiler_options)

    def rescaled(self, problem: FusedGemm, rates: float) -> FusedGemm:
        return dataclasses.replace(problem, link=problem.link.scaled(rates, 1.0 / rates))

    def compulsory_ddr_bytes(self, problem: FusedGemm) -> np.ndarray:
        of = problem.gemm
        a_bytes = of.m * of.k * of.a_bytes * (1.0 - of.a_warm)
        b_bytes = of.k * of.n * of.b_bytes * (1.0 - of.b_warm)
        return a_bytes + b_bytes + of.m * of.n * of.out_bytes

    def test_gradients_have_the_sign_of_the_law_and_are_finite(self) -> None:
        """Of candidates of all families at once: most of a gradient's time goes by steps, not by candidates."""
        problem, schedule, gpu = self._draw_all(COUNT, seed=1)
        candidates = Candidates(problem, schedule, dataclasses.replace(gpu, power_time_s=0.0 * gpu.power_time_s))
        super().test_gradients_have_the_sign_of_the_law_and_are_finite(
            (candidates, None, self.evaluate(candidates).reason == 0)
        )

    @pytest.mark.parametrize("factor", [1.1, 10.0])
    def test_faster_links_are_never_slower(self, unlimited: tuple, factor: float) -> None:
        candidates, cost, fits = unlimited
        for scaled in (candidates.problem.link.scaled(factor), candidates.problem.link.scaled(1.0, 1.0 / factor)):
            problem = dataclasses.replace(candidates.problem, link=scaled)
            faster = self.evaluate(candidates._replace(problem=problem))
            assert np.all((faster.latency_s <= cost.latency_s * (1 + 1e-12))[fits])

    def test_the_end_lies_between_the_longer_of_both_and_their_sum(self, unlimited: tuple) -> None:
        """Compute alone is what is left with links that take no time, communication alone that on a GPU that takes
        none. Not of what is no overlap but two kernels in turn, which take their sum."""
        candidates, cost, fits = unlimited
        compute_s = self.evaluate(candidates._replace(problem=self.rescaled(candidates.problem, INSTANT))).latency_s
        changes = dict.fromkeys(PER_SECOND, INSTANT) | dict.fromkeys(LATENCIES, 1.0 / INSTANT)
        gpu = dataclasses.replace(
            candidates.gpu, **{name: getattr(candidates.gpu, name) * by for name, by in changes.items()}
        )
        moved_s = self.evaluate(candidates._replace(gpu=gpu)).latency_s
        assert np.all((cost.latency_s >= np.maximum(compute_s, moved_s) * (1 - 1e-9))[fits])
        assert np.all((cost.latency_s <= (compute_s + moved_s) * (1 + 1e-9))[fits])
        apart = fits & (candidates.schedule.order == APART)
        np.testing.assert_allclose(cost.latency_s[apart], (compute_s + moved_s)[apart], rtol=1e-6)


class TestAllGatherGemmLaws(FusedLaws):
    kernel = "ag_gemm"
    cost = staticmethod(ag_gemm.cost)


class TestGemmReduceScatterLaws(FusedLaws):
    kernel = "gemm_rs"
    cost = staticmethod(gemm_rs.cost)


class TestGemmAllReduceLaws(FusedLaws):
    kernel = "gemm_ar"
    cost = staticmethod(gemm_ar.cost)
