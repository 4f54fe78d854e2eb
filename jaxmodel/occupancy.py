"""Resident tiles (CTAs) an SM, and which resource limits them."""

import jax.numpy as jnp

from ._exact import ceil_div_by_reciprocal, floor_div_by_reciprocal
from ._pytree import pytree
from .machine import Gpu
from .types import Array, Floats

WARP = 32.0
THREADS_PER_CTA_MAX = 1024.0  # CUDA programming guide, all compute capabilities
TMEM_COLUMNS_MIN = 32.0  # TMEM is allocated in powers of two from here (CUDA programming guide)


@pytree
class Footprint:
    """What one CTA occupies."""

    smem_bytes: Array
    threads: Array
    registers: Array  # of the register file, whole allocation of the CTA
    tmem_columns: Array


def round_up(value: Floats, multiple: Floats) -> Floats:
    """The smallest multiple of `multiple` that is not below `value` (whole numbers below 2^22)."""
    return ceil_div_by_reciprocal(value, multiple) * multiple


def warp_registers(per_thread: Floats, gpu: Gpu) -> Floats:
    """Registers a warp takes from the file when each of its threads needs `per_thread`."""
    return round_up(per_thread * WARP, gpu.register_granularity)


def power_of_two_columns(columns: Floats) -> Floats:
    """TMEM columns that are allocated where so many are wanted; 1024 where more than 512 are."""
    allocated = jnp.full_like(jnp.asarray(columns), TMEM_COLUMNS_MIN)
    for size in (32.0, 64.0, 128.0, 256.0, 512.0):
        allocated = jnp.where(columns > size, 2.0 * size, allocated)
    return allocated


def residency(footprint: Footprint, gpu: Gpu) -> tuple[Floats, Floats]:
    """How many CTAs one SM holds at once.

    Returns:
        (resident CTAs, 0 where one does not fit; index into `OCCUPANCY_LIMITERS` of the resource that limits them).
    """
    warps = ceil_div_by_reciprocal(footprint.threads, WARP)
    tmem = floor_div_by_reciprocal(gpu.tmem_columns, jnp.maximum(footprint.tmem_columns, 1.0))
    tmem = jnp.where(footprint.tmem_columns > 0, tmem, jnp.inf)
    limits = (
        floor_div_by_reciprocal(gpu.smem_per_sm_bytes, footprint.smem_bytes + gpu.smem_reserve_bytes),
        floor_div_by_reciprocal(gpu.registers_per_sm, footprint.registers),
        floor_div_by_reciprocal(gpu.threads_per_sm, warps * WARP),
        floor_div_by_reciprocal(gpu.warps_per_sm, warps),
        gpu.ctas_per_sm,
        tmem,
    )
    resident, limiter = limits[0], jnp.zeros_like(jnp.asarray(limits[0]))
    for index, limit in enumerate(limits[1:], start=1):
        limiter = jnp.where(limit < resident, float(index), limiter)
        resident = jnp.minimum(resident, limit)
    return resident, limiter


def cluster_sms(cluster_ctas: Floats, gpu: Gpu) -> Floats:
    """SMs on which clusters of 1, 2, 4, 8 or 16 CTAs can be placed (a cluster stays inside one GPC); 0 for any other
    size and where the GPU has no such clusters."""
    table = jnp.asarray(gpu.cluster_sms)
    usable = jnp.zeros_like(table[..., 0])
    for column, size in enumerate((1.0, 2.0, 4.0, 8.0, 16.0)):
        usable = jnp.where(cluster_ctas == size, table[..., column], usable)
    return usable
