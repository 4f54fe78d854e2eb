"""The laws of `conformance.kernel_laws` for the memory-bound kernels, each a variant."""

import numpy as np
from conformance.kernel_laws import Candidates, KernelLaws
from oracles.rows_draws import KERNELS, draw_rows

from jaxmodel.kernels import rows
from jaxmodel.kernels.rows_types import Rows


class TestRowLaws(KernelLaws):
    variants = KERNELS
    cost = staticmethod(rows.cost)

    def draw(self, count: int, seed: int, variant: str) -> Candidates:
        return Candidates(*draw_rows(count, seed, variant))

    def compulsory_ddr_bytes(self, problem: Rows) -> np.ndarray:
        """A first pass leaves in L2 what fits, so only its own kernel must read the inputs."""
        there = np.maximum(problem.warm, problem.first_pass)
        elements = problem.read_bytes * (1.0 - there) + problem.write_bytes
        beside = problem.row_read_bytes + problem.row_write_bytes
        return problem.rows * (problem.cols * elements + beside) + problem.cols * problem.shared_bytes
