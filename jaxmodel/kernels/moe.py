"""A fused MoE layer on one rank: two grouped GEMMs and the kernels around them that only move rows.

The order is: sort rows by expert, (quantise), gate/up product, activation, (quantise), down product, weighted sum over
each token's experts. The grouped kernels are `grouped_gemm`'s; the others take the time of their bytes.
"""

import dataclasses

import jax.numpy as jnp

from ..machine import Gpu
from ..sdcm import hit_probability
from ..types import Cost, Floats
from .grouped_gemm import grouped_parts, with_numbers
from .grouped_gemm_cost import cost_of
from .grouped_gemm_traffic import routed_rows
from .grouped_gemm_types import GroupedGemm, GroupedGemmSchedule
from .moe_types import Moe, MoeSchedule

HELPERS = 3.0  # kernels beside the products: sort, activation, sum
QUANTISATIONS = 2.0  # of a narrow type: before each product


def products(problem: Moe) -> tuple[GroupedGemm, GroupedGemm]:
    """The gate/up and the down product. Rows of the second differ all; they were just written."""
    rows = routed_rows(problem.classes)
    shared = {
        "classes": problem.classes,
        "a_bytes": problem.weight_bytes,
        "b_bytes": problem.weight_bytes,
        "out_bytes": problem.wide_bytes,
        "a_align_bytes": problem.align_bytes,
        "b_align_bytes": problem.align_bytes,
        "out_align_bytes": problem.align_bytes,
        "a_warm": 1.0,
        "numbers": problem.numbers.kernel,
        "scaling": problem.scaling,
    }
    columns = (1.0 + problem.gated) * problem.inter
    gate_up = GroupedGemm(tokens=jnp.minimum(problem.tokens, rows), n=columns, k=problem.hidden, **shared)
    return gate_up, GroupedGemm(tokens=rows, n=problem.hidden, k=problem.inter, **shared)


def schedules(schedule: MoeSchedule) -> tuple[GroupedGemmSchedule, GroupedGemmSchedule]:
    """The first and the second kernel's."""
    names = [field.name for field in dataclasses.fields(GroupedGemmSchedule)]
    first = {name: getattr(schedule, name) for name in names}
    second = first | {"tile_k": schedule.tile_k * schedule.down_depth}
    for name in ("tile_m", "tile_n", "stages", "warps_m"):
        own = getattr(schedule, f"down_{name}")
        second[name] = jnp.where(own > 0, own, first[name])
    return GroupedGemmSchedule(**first), GroupedGemmSchedule(**second)


def helper_bytes(problem: Moe) -> Floats:
    """What the kernels beside the products read and write."""
    rows, tokens = routed_rows(problem.classes), problem.tokens
    handled = jnp.where(problem.numbers.all_rows > 0, jnp.maximum(problem.routed_everywhere, rows), rows)
    wide = problem.wide_bytes
    activation = handled * problem.inter * wide * (2.0 + problem.gated)
    weighted_sum = (handled + tokens) * problem.hidden * wide
    copied = problem.numbers.permutes * (tokens + rows) * problem.hidden * problem.weight_bytes
    total = activation + weighted_sum + copied
    if problem.scaling is None:
        return total
    return total + (tokens * problem.hidden + handled * problem.inter) * (wide + problem.weight_bytes)


def helpers_seconds(problem: Moe, gpu: Gpu) -> Floats:
    """Seconds of the kernels beside the products: launches, what the framework adds, and their bytes, of which memory
    moves what L2 does not hold."""
    moved = helper_bytes(problem)
    capacity = gpu.l2_capacity_bytes * gpu.l2_effective_ratio
    missed = 1.0 - hit_probability(0.5 * moved, capacity, gpu.l2_ways)  # what one kernel writes the next one reads
    moved_s = jnp.maximum(moved / gpu.l2_bytes_per_s, moved * missed / gpu.ddr_bytes_per_s)
    kernels = HELPERS + (0.0 if problem.scaling is None else QUANTISATIONS)
    numbers = problem.numbers
    return numbers.framework_s + kernels * gpu.launch_overhead_s + numbers.helper_scale * moved_s


def cost(problem: Moe, schedule: MoeSchedule, gpu: Gpu) -> Cost:
    """The cost of schedules of a fused MoE layer, as a breakdown; see `jaxmodel.kernels.gemm.cost`.

    Bytes, energy and what binds are the two products'; the kernels beside them are in `helpers_s` alone. Equations:
    docs/moe.md.
    """
    driven = with_numbers(gpu, problem.numbers.kernel, schedule.producers)
    kernels = tuple(
        grouped_parts(product, run, driven) for product, run in zip(products(problem), schedules(schedule), strict=True)
    )
    rows = routed_rows(problem.classes)
    flop = 2.0 * (2.0 + problem.gated) * problem.hidden * problem.inter * rows
    between = rows * ((2.0 + problem.gated) * problem.inter + problem.hidden) * problem.wide_bytes
    return cost_of(kernels, flop, driven, helpers_seconds(problem, gpu), between)
