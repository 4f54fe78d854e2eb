"""The resource vector (eq 1): what a tile action asks of the nine pipelines, and how long each is busy with it.

v_c = demand_c / (rate_c x share_c). Tensor cores, CUDA cores, SFU, TMEM and SMEM belong to an SM. The fabric port and
L1.5 belong to an SM or a small group; L2, DDR and the network are shared by the SMs that are active.
"""

from dataclasses import fields

import jax.numpy as jnp

from ._exact import is_zero
from ._pytree import pytree
from .machine import Gpu
from .types import PIPELINES, Array, Floats


@pytree
class Demand:
    """Amounts that one tile action asks of the pipelines, in the order of `PIPELINES`."""

    tensor_flop: Array = 0.0
    cuda_flop: Array = 0.0
    sfu_op: Array = 0.0
    tmem_bytes: Array = 0.0
    smem_bytes: Array = 0.0
    fabric_bytes: Array = 0.0  # through the SM's port, to L1.5 where there is one
    l2_bytes: Array = 0.0
    ddr_bytes: Array = 0.0  # in bytes read; written bytes count `ddr_write_cost` each
    net_bytes: Array = 0.0

    def times(self, factor: Floats) -> "Demand":
        """The same so many times."""
        amounts = {f.name: getattr(self, f.name) for f in fields(Demand)}
        return Demand(**{name: 0.0 if is_zero(amount) else amount * factor for name, amount in amounts.items()})


def total_demand(*demands: Demand) -> Demand:
    """The sum of demands."""
    return Demand(**{f.name: sum(getattr(demand, f.name) for demand in demands) for f in fields(Demand)})


SHARED = tuple(name in ("l2", "ddr", "net") for name in PIPELINES)


def sm_rates(gpu: Gpu, net_bytes_per_s: Floats | None = None) -> tuple[Floats, ...]:
    """One SM's rate on each pipeline when it has the shared ones to itself: flop/s, op/s or bytes/s.

    A rate of 0 means that the part has no such pipeline.

    Args:
        gpu: the machine.
        net_bytes_per_s: of its links to other GPUs; None: it works alone.
    """
    clock = gpu.clock_hz
    port = gpu.sm_port_bytes_per_clock * clock
    group_share = gpu.l15_bytes_per_clock_group * clock / jnp.maximum(gpu.l15_group_sms, 1.0)
    fabric = jnp.where(gpu.l15_capacity_bytes > 0, jnp.minimum(port, group_share), port)
    return (
        gpu.tensor_flop_per_clock_sm * gpu.tensor_efficiency * clock,
        gpu.cuda_flop_per_clock_sm * clock,
        gpu.sfu_op_per_clock_sm * clock,
        gpu.tmem_bytes_per_clock_sm * clock,
        gpu.smem_bytes_per_clock_sm * clock,
        fabric,
        gpu.l2_bytes_per_s,
        gpu.ddr_bytes_per_s,
        jnp.zeros_like(jnp.asarray(clock)) if net_bytes_per_s is None else net_bytes_per_s,
    )


def sm_seconds(demand: Demand, gpu: Gpu, net_bytes_per_s: Floats | None = None) -> tuple[Floats, ...]:
    """Seconds each pipeline of one SM is busy with one action when it has the shared ones to itself; 0 where the part
    has no such pipeline. The GPU's rates are inverted once, so that a candidate costs a multiplication each."""
    amounts = (
        demand.tensor_flop,
        demand.cuda_flop,
        demand.sfu_op,
        demand.tmem_bytes,
        demand.smem_bytes,
        demand.fabric_bytes,
        demand.l2_bytes,
        demand.ddr_bytes,
        demand.net_bytes,
    )
    rates = zip(amounts, sm_rates(gpu, net_bytes_per_s), strict=True)
    return tuple(0.0 if is_zero(amount) else amount * _inverse(rate) for amount, rate in rates)


def busy_seconds(demand: Demand, gpu: Gpu, active_sms: Floats) -> tuple[Floats, ...]:
    """Seconds each pipeline of one SM is busy with one action while `active_sms` SMs draw on the shared ones; the
    number 0.0 where the demand is."""
    alone = sm_seconds(demand, gpu)
    return tuple(s * active_sms if shared and not is_zero(s) else s for s, shared in zip(alone, SHARED, strict=True))


def chip_seconds(
    demand: Demand, actions: Floats, gpu: Gpu, net_bytes_per_s: Floats | None = None
) -> tuple[Floats, ...]:
    """Seconds each pipeline needs for `actions` equal actions with every SM at its peak: a lower bound each."""
    alone, an_sm = sm_seconds(demand, gpu, net_bytes_per_s), 1.0 / gpu.sm_count
    return tuple(s * actions if shared else s * actions * an_sm for s, shared in zip(alone, SHARED, strict=True))


def _inverse(rate: Floats) -> Floats:
    there = jnp.asarray(rate) > 0
    return jnp.where(there, 1.0 / jnp.where(there, rate, 1.0), 0.0)
