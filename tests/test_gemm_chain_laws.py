"""The laws of `conformance.kernel_laws` for GEMM chains, the limit of two kernels, and what fusing saves."""

import dataclasses
from collections.abc import Callable
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conformance.kernel_laws import Candidates, KernelLaws
from oracles.gemm_chain_draws import draw_chains
from oracles.gemm_draws import FAMILIES

from jaxmodel.kernels import gemm, gemm_chain
from jaxmodel.kernels.gemm_chain_shape import gemm_schedules, products
from jaxmodel.kernels.gemm_chain_types import KEPT, RECOMPUTED, SPILLED, ChainSchedule, GemmChain
from jaxmodel.machine import Gpu
from jaxmodel.types import Cost

COUNT = 400


class ChainLaws(KernelLaws):
    """Of one order, which is all that is compiled then: a chain of all three compiles GEMM twice beside."""

    order: ClassVar[int]

    def draw(self, count: int, seed: int, variant: str) -> Candidates:
        """Narrow problems and few stages, as the intermediate stays on chip: else few fit. They draw little power, so
        the limit is tighter."""
        problem, schedule, gpu = draw_chains(count, seed, variant, order=self.order)
        narrow = dataclasses.replace(problem, n=np.minimum(problem.n, 256.0), l=np.minimum(problem.l, 256.0))
        few = dataclasses.replace(schedule, stages=np.minimum(schedule.stages, 2.0))
        return Candidates(narrow, few, dataclasses.replace(gpu, tdp_w=gpu.static_w + 0.3 * (gpu.tdp_w - gpu.static_w)))

    def compulsory_ddr_bytes(self, problem: GemmChain) -> np.ndarray:
        """Without the intermediate."""
        a_bytes = problem.m * problem.k * (1.0 - problem.a_warm)
        weights = problem.k * problem.n + problem.n * problem.l
        return problem.element_bytes * (a_bytes + weights) + problem.m * problem.l * problem.out_bytes


def of_order(order: int) -> Callable[..., Cost]:
    def cost(problem: GemmChain, schedule: ChainSchedule, gpu: Gpu) -> Cost:
        return gemm_chain.cost(problem, dataclasses.replace(schedule, order=float(order)), gpu)

    return cost


class TestKeptLaws(ChainLaws):
    variants = ("wgmma",)
    order = KEPT
    cost = staticmethod(of_order(KEPT))


class TestRecomputedLaws(ChainLaws):
    """The spilled order is the sum of two kernels whose laws are tested: `test_a_spilled_chain_is_...`. Of mma.sync too
    few draws fit; its equations are the same, and the twin compares them."""

    variants = ("wgmma", "tcgen05")
    order = RECOMPUTED
    cost = staticmethod(of_order(RECOMPUTED))


def cast(draw: tuple) -> tuple:
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float64), tuple(draw))


def full(cost: Cost) -> Cost:
    return jax.tree.map(lambda leaf: np.broadcast_to(leaf, COUNT), cost)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_spilled_chain_is_the_sum_of_two_gemms(family: str) -> None:
    draw = draw_chains(COUNT, 5, family, order=SPILLED)
    problem = dataclasses.replace(draw.problem, slots=0 * draw.problem.slots, sfu_op=0 * draw.problem.sfu_op)
    with jax.enable_x64(True):
        problem, schedule, gpu = cast((problem, draw.schedule, draw.gpu))
        chain = full(gemm_chain.cost(problem, schedule, gpu))
        parts = [
            full(gemm.cost(of, how, gpu)) for of, how in zip(products(problem), gemm_schedules(schedule), strict=True)
        ]
    fits = chain.reason == 0
    assert fits.sum() > 50
    total_s = np.add(*(part.latency_s for part in parts))
    np.testing.assert_allclose(chain.latency_s[fits], total_s[fits], rtol=0.01)
    moved = np.add(*(part.ddr_bytes for part in parts))
    np.testing.assert_allclose(chain.ddr_bytes[fits], moved[fits], rtol=1e-9)


@pytest.mark.parametrize("order", [RECOMPUTED, KEPT])
def test_a_fused_order_moves_no_more_than_the_spilled_one_where_the_cache_holds_its_operands(order: int) -> None:
    draw = draw_chains(COUNT, 7, "wgmma", order=order)
    whole = np.full(COUNT, 128.0)  # bytes: runs of tile_n and of tile_k are fetched at the same price
    aligned = dataclasses.replace(draw.problem, k_align_bytes=whole, n_align_bytes=whole)
    gpu = dataclasses.replace(draw.gpu, l2_capacity_bytes=np.full(COUNT, 1e12), l2_retention=np.ones(COUNT))
    with jax.enable_x64(True):
        problem, schedule, gpu = cast((aligned, draw.schedule, gpu))
        fused = full(gemm_chain.cost(problem, schedule, gpu))
        other = dataclasses.replace(schedule, order=0 * schedule.order)
        spilled = full(gemm_chain.cost(problem, other, gpu))
    fits = fused.reason == 0
    assert fits.sum() > 30
    assert np.all(fused.ddr_bytes[fits] <= spilled.ddr_bytes[fits] * (1 + 1e-9))
    between = draw.problem.m * draw.problem.n * draw.problem.element_bytes
    saved = spilled.ddr_bytes - fused.ddr_bytes
    np.testing.assert_allclose(saved[fits], between[fits], rtol=1e-6)  # its write; it was read from L2


def test_one_order_as_a_number_is_that_order_as_an_array() -> None:
    draw = draw_chains(COUNT, 8, "mma_sync")
    problem, schedule, gpu = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), tuple(draw))
    every = gemm_chain.cost(problem, schedule, gpu)
    for order in (SPILLED, RECOMPUTED, KEPT):
        one = gemm_chain.cost(problem, dataclasses.replace(schedule, order=float(order)), gpu)
        here = np.asarray(draw.schedule.order) == order
        for field in ("latency_s", "reason", "ddr_bytes"):
            a, b = (np.broadcast_to(np.asarray(getattr(cost, field)), COUNT)[here] for cost in (every, one))
            np.testing.assert_allclose(a, b, rtol=1e-6)


def test_recomputing_costs_tensor_time_and_keeping_costs_shared_memory() -> None:
    draw = draw_chains(COUNT, 9, "wgmma", order=RECOMPUTED)
    with jax.enable_x64(True):
        problem, schedule, gpu = cast((draw.problem, draw.schedule, draw.gpu))
        wide = dataclasses.replace(problem, l=2.0 * schedule.tile_l)
        twice, once = (
            gemm_chain.cost(p, schedule, gpu) for p in (wide, dataclasses.replace(problem, l=schedule.tile_l))
        )
        kept = gemm_chain.cost(wide, dataclasses.replace(schedule, order=0 * schedule.order + KEPT), gpu)
        first = np.asarray(once.pipeline_s[0] - second_product_s(problem, schedule, gpu))
    again = np.asarray(twice.pipeline_s[0]) - 2 * np.asarray(once.pipeline_s[0])
    np.testing.assert_allclose(again, 0.0, atol=1e-9 * float(np.max(np.asarray(twice.pipeline_s[0]))))
    assert np.all(first > 0)
    assert np.all(np.asarray(kept.pipeline_s[0]) < np.asarray(twice.pipeline_s[0]))


def second_product_s(problem: GemmChain, schedule: object, gpu: object) -> np.ndarray:
    """Tensor seconds of the second product alone, at peak, as cut by these tiles."""
    from jaxmodel.kernels.gemm_chain_shape import chain_shape

    shape = chain_shape(dataclasses.replace(problem, l=schedule.tile_l), schedule, gpu)  # type: ignore[attr-defined]
    flop = 2.0 * shape.rows * shape.x * shape.blocks * shape.y * shape.v
    rate = gpu.tensor_flop_per_clock_sm * gpu.tensor_efficiency * gpu.clock_hz * gpu.sm_count  # type: ignore[attr-defined]
    return np.asarray(flop / rate)
