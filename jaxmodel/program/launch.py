"""A whole launch of a tile program: what all its tiles ask, move and hold, and, once its times are known, its cost."""

from dataclasses import dataclass

import jax.numpy as jnp

from .._exact import is_zero
from ..bound import what_binds
from ..energy import dynamic_joules, power_limited
from ..machine import Gpu
from ..occupancy import THREADS_PER_CTA_MAX, residency
from ..reasons import Reason, first_reason
from ..resources import Demand, chip_seconds, total_demand
from ..types import PIPELINES, Bools, Cost, Floats
from ..waves import KernelTimes
from .records import Action, TileProgram
from .times import demand_of


@dataclass(frozen=True)
class Launch:
    """What a launch is, whatever its waves.

    Attributes:
        resident, limiter: CTAs that fit on an SM (0: none), and what limits them.
        sms, slots: SMs it may use, and CTAs at once, at least one an SM.
        total: demands of all tiles, written DDR bytes at their cost in bytes read.
        pipeline_s: the same over the peak of all SMs, in the order of `PIPELINES`.
        loads: demands of all tiles' actions that read.
        read_bytes, write_bytes: through DDR, the reduction's included.
    """

    resident: Floats
    limiter: Floats
    sms: Floats
    slots: Floats
    total: Demand
    pipeline_s: tuple[Floats, ...]
    loads: Demand
    read_bytes: Floats
    write_bytes: Floats


def launch_of(program: TileProgram, gpu: Gpu) -> Launch:
    """What a program's launch asks and moves on a machine."""
    resident, limiter = residency(program.footprint, gpu)
    sms = jnp.maximum(gpu.sm_count - program.sms_free, 1.0)
    every = executions(program)
    reads = total_demand(*(action.demand.times(count) for action, count in every if not action.writes))
    writes = total_demand(*(action.demand.times(count) for action, count in every if action.writes))
    a_tile = total_demand(*(demand_of(action, gpu).times(count) for action, count in every))
    return Launch(
        resident=resident,
        limiter=limiter,
        sms=sms,
        slots=sms * jnp.maximum(resident, 1.0),
        total=a_tile.times(program.tiles),
        pipeline_s=chip_seconds(a_tile, program.tiles, gpu, program.net_bytes_per_s),
        loads=reads.times(program.tiles),
        read_bytes=program.tiles * reads.ddr_bytes + program.reduction.read_bytes,
        write_bytes=program.tiles * writes.ddr_bytes + program.reduction.write_bytes,
    )


def launch_cost(program: TileProgram, launch: Launch, times: KernelTimes, starving: Bools, gpu: Gpu) -> Cost:
    """The cost of a launch whose times are known; by `program_cost`, or by a kernel that puts its tiles' times together
    in a way of its own.

    Args:
        program: the kernel.
        launch: `launch_of(program, gpu)`.
        times: of all tiles, without launch, reduction and helpers.
        starving: where loads take longer than what covers them.
        gpu: the machine.
    """
    launch_s = gpu.launch_overhead_s + program.framework_s
    added_s = launch_s + program.reduction.seconds
    ran_s = times.prologue_s + times.steady_s + times.epilogue_s + times.tail_s + added_s
    ran_s = ran_s if is_zero(program.communication_s) else ran_s + program.communication_s
    total, pipeline_s = launch.total, launch.pipeline_s
    ddr_bytes = launch.read_bytes + launch.write_bytes
    joules = dynamic_joules(total.tensor_flop, total.smem_bytes, total.l2_bytes, ddr_bytes, gpu)
    clocked_s = jnp.maximum(pipeline_s[PIPELINES.index("tensor")], pipeline_s[PIPELINES.index("smem")])
    throttle_s, energy_j = power_limited(ran_s, clocked_s, joules, gpu)
    latency_s = ran_s + throttle_s
    requested = jnp.maximum(launch.loads.fabric_bytes, 1e-30)
    l2_hit = jnp.clip(1.0 - launch.loads.ddr_bytes / requested, 0.0, 1.0)
    l15_hit = jnp.clip(1.0 - launch.loads.l2_bytes / requested, 0.0, 1.0)
    return Cost(
        latency_s=latency_s + program.helpers_s,
        reason=first_reason([*program.checks, *footprint_checks(program, launch.resident, gpu)]),
        bound=what_binds(pipeline_s, latency_s, added_s, times.epilogue_s, starving),
        pipeline_s=pipeline_s,
        prologue_s=times.prologue_s,
        steady_s=times.steady_s + throttle_s,
        epilogue_s=times.epilogue_s,
        tail_s=times.tail_s,
        reduction_s=program.reduction.seconds,
        launch_s=launch_s,
        helpers_s=program.helpers_s,
        flop=program.flop,
        l15_bytes=total.fabric_bytes,
        l2_bytes=total.l2_bytes,
        ddr_read_bytes=launch.read_bytes,
        ddr_write_bytes=launch.write_bytes,
        ddr_bytes=ddr_bytes,
        l15_hit=jnp.minimum(l15_hit, l2_hit),
        l2_hit=l2_hit,
        waves=program.tiles / launch.slots,
        ctas_per_sm=launch.resident,
        occupancy_limiter=launch.limiter,
        registers_per_thread=program.registers_per_thread,
        smem_bytes=program.footprint.smem_bytes,
        threads=program.footprint.threads,
        workspace_bytes=program.reduction.workspace_bytes,
        sms_used=jnp.minimum(program.tiles, launch.sms),
        energy_j=energy_j,
    )


def executions(program: TileProgram) -> list[tuple[Action, Floats]]:
    """Every action of a tile, with how often it is done in the mean."""
    once = [(action, 1.0) for action in (*program.before, *program.after)]
    return [*once, *((action, program.mean_trips) for action in program.loop.actions)]


def footprint_checks(program: TileProgram, resident: Floats, gpu: Gpu) -> list[tuple[Bools, Reason]]:
    """Why a program's CTA cannot be built, whatever the kernel: (where it holds, reason)."""
    occupied = program.footprint
    return [
        (occupied.smem_bytes > gpu.smem_per_cta_max_bytes, Reason.SMEM),
        (program.registers_per_thread > gpu.registers_per_thread_max, Reason.REGISTERS),
        (occupied.threads > THREADS_PER_CTA_MAX, Reason.THREADS),
        (occupied.registers > gpu.registers_per_sm, Reason.REGISTER_FILE),
        (occupied.tmem_columns > gpu.tmem_columns, Reason.TMEM),
        (resident < 1, Reason.SMEM),
        (program.tiles >= 2.0**24, Reason.TILE_COUNT),
        (gpu.sm_count - program.sms_free < 1, Reason.SMS_FREE),
    ]
