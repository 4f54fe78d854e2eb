"""The laws of `conformance.kernel_laws` for GEMM, with each tensor instruction family."""

import numpy as np
from conformance.kernel_laws import Candidates, KernelLaws
from oracles.gemm_draws import FAMILIES, draw_gemms

from jaxmodel.kernels import gemm
from jaxmodel.types import Gemm


class TestGemmLaws(KernelLaws):
    variants = FAMILIES
    cost = staticmethod(gemm.cost)

    def draw(self, count: int, seed: int, variant: str) -> Candidates:
        return Candidates(*draw_gemms(count, seed, variant))

    def compulsory_ddr_bytes(self, problem: Gemm) -> np.ndarray:
        a_bytes = problem.m * problem.k * problem.a_bytes * (1.0 - problem.a_warm)
        b_bytes = problem.k * problem.n * problem.b_bytes * (1.0 - problem.b_warm)
        results_bytes = problem.m * problem.n * (problem.c_in_bytes + problem.out_bytes)
        return problem.batch * (a_bytes + b_bytes + results_bytes)
