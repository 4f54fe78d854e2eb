"""The laws of `conformance.kernel_laws` for layers of experts on several GPUs, and those of their exchanges."""

import dataclasses
from typing import Any

import numpy as np
import pytest
from conformance.kernel_laws import Candidates, KernelLaws
from oracles.spread_draws import draw_layer

from jaxmodel.kernels import moe_ep
from jaxmodel.kernels.moe_ep_types import ExpertLayer
from jaxmodel.kernels.moe_exchange_types import Exchange


def _rescaled(of: Any, rates: float) -> Exchange:
    numbers = of.numbers
    return dataclasses.replace(
        of, link=of.link.scaled(rates, 1.0 / rates),
        numbers=dataclasses.replace(
            numbers, sm_bytes_per_s=rates * numbers.sm_bytes_per_s, row_s=numbers.row_s / rates,
            call_s=numbers.call_s / rates,
        ),
    )  # fmt: skip


class TestExpertLayerLaws(KernelLaws):
    variants = ("wgmma",)  # the grouped kernels' laws hold for every family
    cost = staticmethod(moe_ep.cost)

    def draw(self, count: int, seed: int, variant: str) -> Candidates:
        return Candidates(*draw_layer(count, seed, variant))

    def rescaled(self, problem: ExpertLayer, rates: float) -> ExpertLayer:
        return dataclasses.replace(
            problem, dispatch=_rescaled(problem.dispatch, rates), combine=_rescaled(problem.combine, rates)
        )

    def compulsory_ddr_bytes(self, problem: ExpertLayer) -> np.ndarray:
        layer = problem.layer
        experts = sum(one.experts for one in layer.classes)
        rows = sum(one.rows * one.experts for one in layer.classes)
        columns = (1.0 + layer.gated) * layer.inter
        weights_bytes = experts * layer.hidden * (columns + layer.inter) * layer.weight_bytes
        return weights_bytes + rows * (columns + layer.hidden) * layer.wide_bytes

    @pytest.mark.parametrize("factor", [1.1, 10.0])
    def test_faster_links_are_never_slower(self, unlimited: tuple, factor: float) -> None:
        candidates, cost, fits = unlimited

        def faster(of: Any) -> Exchange:
            return dataclasses.replace(of, link=of.link.scaled(factor, 1.0 / factor))

        of: Any = candidates.problem
        problem = dataclasses.replace(of, dispatch=faster(of.dispatch), combine=faster(of.combine))
        found = self.evaluate(candidates._replace(problem=problem))
        assert np.all((found.latency_s <= cost.latency_s * (1 + 1e-12))[fits])
