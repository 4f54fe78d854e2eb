"""The laws of `conformance.kernel_laws` for Ulysses and ring attention, and those of their exchanges.

The attention kernels' own laws hold for every instruction family (tests/test_attention_laws.py).
"""

import dataclasses
from typing import Any

import numpy as np
import pytest
from conformance.kernel_laws import Candidates, KernelLaws
from oracles.spread_draws import draw_ring, draw_ulysses

from jaxmodel.kernels import ring_attention, ulysses
from jaxmodel.kernels.attention_types import Attention


def attended_bytes(of: Attention) -> np.ndarray:
    """What one launch must read and write in DDR: as in tests/test_attention_laws.py."""
    seen = np.where(of.window > 0, np.minimum(of.q_tokens + of.window - 1.0, of.kv_tokens), of.kv_tokens)
    q_bytes = of.batch * of.q_tokens * of.heads * of.head_dim * of.q_bytes * (1.0 - of.q_warm)
    kv_bytes = of.batch * seen * of.kv_heads * (of.head_dim + of.v_dim) * of.kv_bytes * (1.0 - of.kv_warm)
    return q_bytes + kv_bytes + of.batch * of.q_tokens * of.heads * of.v_dim * of.out_bytes


class SpreadLaws(KernelLaws):
    variants = ("wgmma",)

    def rescaled(self, problem: Any, rates: float) -> Any:
        return dataclasses.replace(problem, link=problem.link.scaled(rates, 1.0 / rates))

    @pytest.mark.parametrize("factor", [1.1, 10.0])
    def test_faster_links_are_never_slower(self, unlimited: tuple, factor: float) -> None:
        candidates, cost, fits = unlimited
        for scaled in (candidates.problem.link.scaled(factor), candidates.problem.link.scaled(1.0, 1.0 / factor)):
            faster = self.evaluate(candidates._replace(problem=dataclasses.replace(candidates.problem, link=scaled)))
            assert np.all((faster.latency_s <= cost.latency_s * (1 + 1e-12))[fits])

    def test_communication_in_the_open_is_at_most_all_of_it(self, unlimited: tuple) -> None:
        """Never more than the link's bytes and every chunk's latencies, one after the other."""
        candidates, cost, fits = unlimited
        link, schedule = candidates.problem.link, candidates.schedule
        latencies = link.hop_s + link.start_s + link.copy_start_s + link.copy_chunk_s + link.flag_s
        each = 2.0 * (link.ranks + 1.0) * schedule.chunks * latencies
        assert np.all((cost.communication_s <= cost.pipeline_s[-1] + each)[fits])


class TestUlyssesLaws(SpreadLaws):
    cost = staticmethod(ulysses.cost)

    def draw(self, count: int, seed: int, variant: str) -> Candidates:
        return Candidates(*draw_ulysses(count, seed, variant))

    def compulsory_ddr_bytes(self, problem: Any) -> np.ndarray:
        return attended_bytes(problem.attention)


class TestRingLaws(SpreadLaws):
    cost = staticmethod(ring_attention.cost)

    def draw(self, count: int, seed: int, variant: str) -> Candidates:
        return Candidates(*draw_ring(count, seed, variant, causal=True))

    def compulsory_ddr_bytes(self, problem: Any) -> np.ndarray:
        return attended_bytes(problem.own)


class TestUnmaskedRingLaws(SpreadLaws):
    cost = staticmethod(ring_attention.cost)

    def draw(self, count: int, seed: int, variant: str) -> Candidates:
        return Candidates(*draw_ring(count, seed, variant, causal=False))

    def compulsory_ddr_bytes(self, problem: Any) -> np.ndarray:
        return attended_bytes(problem.step)


del SpreadLaws
