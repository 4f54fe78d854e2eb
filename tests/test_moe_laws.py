"""The laws of `conformance.kernel_laws` for grouped GEMMs and fused MoE layers."""

import numpy as np
from conformance.kernel_laws import Candidates, KernelLaws
from oracles.gemm_draws import FAMILIES
from oracles.grouped_gemm_draws import draw_grouped, draw_moe

from jaxmodel.kernels import grouped_gemm, moe
from jaxmodel.kernels.grouped_gemm_types import GroupedGemm
from jaxmodel.kernels.moe_types import Moe


class TestGroupedGemmLaws(KernelLaws):
    variants = FAMILIES
    cost = staticmethod(grouped_gemm.cost)

    def draw(self, count: int, seed: int, variant: str) -> Candidates:
        return Candidates(*draw_grouped(count, seed, variant, own_seconds=False))

    def compulsory_ddr_bytes(self, problem: GroupedGemm) -> np.ndarray:
        experts = sum(one.experts for one in problem.classes)
        rows = sum(one.rows * one.experts for one in problem.classes)
        a_bytes = np.minimum(problem.tokens, rows) * problem.k * problem.a_bytes * (1.0 - problem.a_warm)
        weights_bytes = experts * problem.k * problem.n * problem.b_bytes
        return a_bytes + weights_bytes + rows * problem.n * problem.out_bytes


class TestMoeLaws(KernelLaws):
    variants = ("wgmma",)  # the grouped kernels' laws hold for every family
    cost = staticmethod(moe.cost)

    def draw(self, count: int, seed: int, variant: str) -> Candidates:
        return Candidates(*draw_moe(count, seed, variant, own_seconds=False))

    def compulsory_ddr_bytes(self, problem: Moe) -> np.ndarray:
        experts = sum(one.experts for one in problem.classes)
        rows = sum(one.rows * one.experts for one in problem.classes)
        columns = (1.0 + problem.gated) * problem.inter
        weights_bytes = experts * problem.hidden * (columns + problem.inter) * problem.weight_bytes
        return weights_bytes + rows * (columns + problem.hidden) * problem.wide_bytes
