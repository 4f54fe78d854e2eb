"""Two GEMMs in a chain, E = f(A B) D, in one kernel or in two: which is faster, and what each order moves."""

import dataclasses

import jax.numpy as jnp

from ..machine import Gpu
from ..reasons import Reason
from ..types import Cost, Floats
from . import gemm, gemm_epilogue
from .gemm_chain_fused import fused_cost
from .gemm_chain_shape import gemm_schedules, products
from .gemm_chain_types import KEPT, RECOMPUTED, SPILLED, ChainSchedule, GemmChain
from .gemm_epilogue_types import GemmEpilogue

SUMMED = (
    "latency_s", "prologue_s", "steady_s", "epilogue_s", "tail_s", "reduction_s", "launch_s", "helpers_s", "flop",
    "l15_bytes", "l2_bytes", "ddr_read_bytes", "ddr_write_bytes", "ddr_bytes", "waves", "energy_j",
)  # fmt: skip
LARGER = ("registers_per_thread", "smem_bytes", "threads", "sms_used")
OF_THE_LONGER = ("bound", "ctas_per_sm", "occupancy_limiter")


def cost(problem: GemmChain, schedule: ChainSchedule, gpu: Gpu) -> Cost:
    """The cost of chains, as a breakdown; broadcasts over problems x schedules x GPUs.

    Where `schedule.order` is a Python number only that order is computed. Equations: docs/fused-gemm.md.
    """
    if isinstance(schedule.order, (int, float)):
        return _of_order(int(schedule.order), problem, schedule, gpu)
    costs = {order: _of_order(order, problem, schedule, gpu) for order in (SPILLED, RECOMPUTED, KEPT)}

    def pick(*leaves: Floats) -> Floats:
        spilled, recomputed, kept = leaves
        fused = jnp.where(schedule.order == KEPT, kept, recomputed)
        return jnp.where(schedule.order == SPILLED, spilled, fused)

    chosen = {}
    for field in dataclasses.fields(Cost):
        leaves = [getattr(costs[order], field.name) for order in (SPILLED, RECOMPUTED, KEPT)]
        chosen[field.name] = (
            tuple(pick(*of) for of in zip(*leaves, strict=True)) if field.name == "pipeline_s" else pick(*leaves)
        )
    return Cost(**chosen)


def _of_order(order: int, problem: GemmChain, schedule: ChainSchedule, gpu: Gpu) -> Cost:
    if order == SPILLED:
        return spilled_cost(problem, schedule, gpu)
    return fused_cost(problem, dataclasses.replace(schedule, order=float(order)), gpu, kept=order == KEPT)


def spilled_cost(problem: GemmChain, schedule: ChainSchedule, gpu: Gpu) -> Cost:
    """Two kernels, one after the other: f in the first one's epilogue, its results found in L2 as far as they fit."""
    first, second = products(problem)
    of_first, of_second = gemm_schedules(schedule)
    made = GemmEpilogue(
        gemm=first,
        slots=problem.slots,
        sfu_op=problem.sfu_op,
        read_bytes=0.0,
        column_bytes=0.0,
        scale_bytes=0.0,
        scale_block=1.0,
    )
    return _together(
        gemm_epilogue.cost(made, of_first, gpu),
        gemm.cost(second, of_second, gpu),
        problem.m * problem.n * problem.element_bytes,
    )


def _together(one: Cost, other: Cost, between_bytes: Floats) -> Cost:
    both = {name: getattr(one, name) + getattr(other, name) for name in SUMMED}
    both |= {name: jnp.maximum(getattr(one, name), getattr(other, name)) for name in LARGER}
    longer = one.latency_s >= other.latency_s
    both |= {name: jnp.where(longer, getattr(one, name), getattr(other, name)) for name in OF_THE_LONGER}
    requested = jnp.maximum(both["l15_bytes"], 1e-30)
    hits = {
        name: (getattr(one, name) * one.l15_bytes + getattr(other, name) * other.l15_bytes) / requested
        for name in ("l15_hit", "l2_hit")
    }
    renamed = float(Reason.SAME_ORDER)  # a raster that only one of the grids is too narrow for is a schedule of its own
    of_one, of_other = (jnp.where(cost.reason == renamed, 0.0, cost.reason) for cost in (one, other))
    twice = (one.reason == renamed) & (other.reason == renamed)
    reason = jnp.where(of_one > 0, of_one, jnp.where(of_other > 0, of_other, jnp.where(twice, renamed, 0.0)))
    return Cost(
        **both,
        **hits,
        reason=reason,
        pipeline_s=tuple(a + b for a, b in zip(one.pipeline_s, other.pipeline_s, strict=True)),
        workspace_bytes=between_bytes,
    )
