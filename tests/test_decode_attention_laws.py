"""The laws of `conformance.kernel_laws` for decode attention, an instruction family each."""

import numpy as np
from conformance.kernel_laws import Candidates, KernelLaws
from oracles.decode_attention_draws import FAMILIES, draw_decode

from jaxmodel.kernels import decode_attention
from jaxmodel.kernels.decode_attention_types import DecodeAttention


class TestDecodeAttentionLaws(KernelLaws):
    variants = FAMILIES
    cost = staticmethod(decode_attention.cost)

    def draw(self, count: int, seed: int, variant: str) -> Candidates:
        return Candidates(*draw_decode(count, seed, variant, seconds=False))

    def compulsory_ddr_bytes(self, problem: DecodeAttention) -> np.ndarray:
        """Queries, results, and keys and values that no window hides and no call before has left in L2."""
        rows = problem.batch * problem.q_tokens * problem.heads
        elements = problem.head_dim + np.where(problem.shared_kv > 0, 0.0, problem.v_dim)
        seen = np.where(problem.window > 0, np.minimum(problem.window, problem.kv_tokens), problem.kv_tokens)
        fewest = np.where(problem.causal > 0, np.maximum(seen - problem.q_tokens, 1.0), seen)
        keys = problem.batch * problem.kv_heads * fewest * elements * problem.kv_bytes * (1.0 - problem.kv_warm)
        return rows * (problem.head_dim * problem.q_bytes + problem.v_dim * problem.out_bytes) + keys
