"""The laws of `conformance.kernel_laws` for attention, with each tensor instruction family.

Sections of heads are drawn with a size: one that follows the L2 is another schedule on a larger L2.
"""

import numpy as np
from conformance.kernel_laws import Candidates, KernelLaws
from oracles.attention_draws import FAMILIES, draw_attention

from jaxmodel.kernels import attention
from jaxmodel.kernels.attention_types import Attention


class TestAttentionLaws(KernelLaws):
    variants = FAMILIES
    cost = staticmethod(attention.cost)

    def draw(self, count: int, seed: int, variant: str) -> Candidates:
        return Candidates(*draw_attention(count, seed, variant))

    def compulsory_ddr_bytes(self, problem: Attention) -> np.ndarray:
        queries, keys = problem.batch * problem.q_tokens, problem.kv_tokens
        seen = np.where(problem.window > 0, np.minimum(problem.q_tokens + problem.window - 1.0, keys), keys)
        q_bytes = queries * problem.heads * problem.head_dim * problem.q_bytes * (1.0 - problem.q_warm)
        kv_bytes = problem.batch * seen * problem.kv_heads * (problem.head_dim + problem.v_dim) * problem.kv_bytes
        written = queries * problem.heads * problem.v_dim * problem.out_bytes
        return q_bytes + kv_bytes * (1.0 - problem.kv_warm) + written
