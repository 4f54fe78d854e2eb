"""The laws of `conformance.kernel_laws` for the dequantised GEMM, with each tensor instruction family."""

import numpy as np
from conformance.kernel_laws import Candidates, KernelLaws
from oracles.dequant_gemm_draws import draw_dequant_gemms
from oracles.gemm_draws import FAMILIES

from jaxmodel.kernels import dequant_gemm
from jaxmodel.kernels.dequant_gemm_types import DequantGemm


class TestDequantGemmLaws(KernelLaws):
    variants = FAMILIES
    cost = staticmethod(dequant_gemm.cost)

    def draw(self, count: int, seed: int, variant: str) -> Candidates:
        return Candidates(*draw_dequant_gemms(count, seed, variant))

    def compulsory_ddr_bytes(self, problem: DequantGemm) -> np.ndarray:
        gemm = problem.gemm
        a_bytes = gemm.m * gemm.k * gemm.a_bytes * (1.0 - gemm.a_warm)
        b_bytes = gemm.k * gemm.n * (gemm.b_bytes + gemm.scaling.b_scale_bytes) * (1.0 - gemm.b_warm)
        return gemm.batch * (a_bytes + b_bytes + gemm.m * gemm.n * gemm.out_bytes)
