"""Grouped kernels that run one after the other, added up to a cost."""

import dataclasses

import jax.numpy as jnp

from .._pytree import pytree
from ..bound import what_binds
from ..energy import power_limited
from ..machine import Gpu
from ..occupancy import Footprint
from ..types import PIPELINES, Array, Cost, Floats
from ..waves import KernelTimes


@pytree
class GroupedParts:
    """One grouped kernel, without its launch: what a cost, or a layer's, is added up from."""

    times: KernelTimes
    pipeline_s: tuple[Array, ...]
    starved: Array
    load_bytes: Array  # through the SMs' ports
    requested_bytes: Array  # those and the stores
    l15_hit: Array  # shares of the loads
    l2_hit: Array
    l2_bytes: Array
    ddr_read_bytes: Array
    ddr_write_bytes: Array
    joules: Array  # dynamic, at boost clock
    tiles: Array  # CTAs' worth
    slots: Array  # CTAs at once
    waves: Array
    resident: Array
    limiter: Array
    registers: Array
    footprint: Footprint
    sms_used: Array
    reason: Array

    @property
    def busy_s(self) -> Floats:
        """Seconds of all waves."""
        times = self.times
        return times.prologue_s + times.steady_s + times.epilogue_s + times.tail_s

    @property
    def clocked_s(self) -> Floats:
        """Seconds at least that scale with the core clock."""
        return jnp.maximum(self.pipeline_s[PIPELINES.index("tensor")], self.pipeline_s[PIPELINES.index("smem")])


def cost_of(
    kernels: tuple[GroupedParts, ...], flop: Floats, gpu: Gpu, helpers_s: Floats, workspace_bytes: Floats
) -> Cost:
    """The cost of grouped kernels that run one after the other, each with its launch, and of their helpers.

    Footprint, residency and shares are those of the kernel that asks the most of each; the power limit sees all of
    them as one.
    """
    launch_s = len(kernels) * gpu.launch_overhead_s
    times = KernelTimes(
        **{
            field.name: sum(getattr(kernel.times, field.name) for kernel in kernels)
            for field in dataclasses.fields(KernelTimes)
        }
    )
    latency_s = sum(kernel.busy_s for kernel in kernels) + launch_s
    pipeline_s = tuple(sum(values) for values in zip(*(kernel.pipeline_s for kernel in kernels), strict=True))
    throttle_s, energy_j = power_limited(
        latency_s,
        sum(kernel.clocked_s for kernel in kernels),
        sum(kernel.joules for kernel in kernels),
        gpu,
    )
    latency_s = latency_s + throttle_s
    total = {
        name: sum(getattr(kernel, name) for kernel in kernels)
        for name in ("load_bytes", "requested_bytes", "l2_bytes", "ddr_read_bytes", "ddr_write_bytes", "waves")
    }
    first, last = kernels[0], kernels[-1]
    return Cost(
        latency_s=latency_s + helpers_s,
        reason=jnp.where(first.reason > 0, first.reason, last.reason),
        bound=what_binds(pipeline_s, latency_s, launch_s, times.epilogue_s, first.starved & last.starved),
        pipeline_s=pipeline_s,
        prologue_s=times.prologue_s,
        steady_s=times.steady_s + throttle_s,
        epilogue_s=times.epilogue_s,
        tail_s=times.tail_s,
        reduction_s=jnp.zeros_like(jnp.asarray(gpu.launch_overhead_s)),
        launch_s=launch_s,
        helpers_s=helpers_s,
        flop=flop,
        l15_bytes=total["requested_bytes"],
        l2_bytes=total["l2_bytes"],
        ddr_read_bytes=total["ddr_read_bytes"],
        ddr_write_bytes=total["ddr_write_bytes"],
        ddr_bytes=total["ddr_read_bytes"] + total["ddr_write_bytes"],
        l15_hit=sum(kernel.load_bytes * kernel.l15_hit for kernel in kernels) / total["load_bytes"],
        l2_hit=sum(kernel.load_bytes * kernel.l2_hit for kernel in kernels) / total["load_bytes"],
        waves=total["waves"],
        ctas_per_sm=jnp.minimum(first.resident, last.resident),
        occupancy_limiter=jnp.where(first.resident <= last.resident, first.limiter, last.limiter),
        registers_per_thread=jnp.maximum(first.registers, last.registers),
        smem_bytes=jnp.maximum(first.footprint.smem_bytes, last.footprint.smem_bytes),
        threads=jnp.maximum(first.footprint.threads, last.footprint.threads),
        workspace_bytes=workspace_bytes + jnp.zeros_like(latency_s),
        sms_used=jnp.maximum(first.sms_used, last.sms_used),
        energy_j=energy_j,
    )
