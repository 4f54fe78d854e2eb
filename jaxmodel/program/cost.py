"""What a tile program costs: occupancy, waves, pipelines, traffic and energy of whatever its table says."""

from dataclasses import fields

import jax.numpy as jnp

from .._exact import ceil_div_by_reciprocal, floor_div
from ..bound import STARVED, what_binds
from ..energy import dynamic_joules, power_limited
from ..machine import Gpu
from ..occupancy import residency
from ..reasons import Reason, first_reason
from ..resources import Demand, chip_seconds
from ..types import PIPELINES, Bools, Cost, Floats
from ..waves import KernelTimes, WaveTimes, kernel_times
from .records import Action, Buffer, InOrder, Needs, TileProgram
from .times import demand_of, tile_parts
from .waves import starved, wave_times

THREADS_PER_CTA_MAX = 1024.0  # CUDA programming guide, all compute capabilities


def program_cost(program: TileProgram, gpu: Gpu) -> Cost:
    """The cost of a tile program, as a breakdown: the same rooms and equations as GEMM's.

    Args:
        program: the kernel; its numbers broadcast against each other and against the GPU's.
        gpu: the machine.

    Returns:
        a `Cost`. A candidate that does not fit has a `reason` and finite numbers elsewhere.

    Raises:
        ValueError: when traced, an arc names an action that the loop does not have, two of its actions share a name, or
            actions wait for each other within one iteration.

    Equations: docs/tile-programs.md.
    """
    _check_names(program)
    resident, limiter = residency(program.footprint, gpu)
    checks = [*program.checks, *footprint_checks(program, resident, gpu)]
    at_once = jnp.maximum(resident, 1.0)
    sms = jnp.maximum(gpu.sm_count - program.sms_free, 1.0)
    slots = sms * at_once
    times, starving = run_waves(program, sms, slots, gpu)

    total = _added([_scaled(demand_of(action, gpu), count) for action, count in executions(program)])
    pipeline_s = chip_seconds(total, program.tiles, gpu)
    loads = _added([_scaled(action.demand, count) for action, count in executions(program) if not action.writes])
    stores = _added([_scaled(action.demand, count) for action, count in executions(program) if action.writes])
    reduction, tiles = program.reduction, program.tiles
    read_bytes = tiles * loads.ddr_bytes + reduction.read_bytes
    write_bytes = tiles * stores.ddr_bytes + reduction.write_bytes
    l2_bytes = tiles * total.l2_bytes
    launch_s = gpu.launch_overhead_s + program.framework_s
    parts_s = times.prologue_s + times.steady_s + times.epilogue_s + times.tail_s
    latency_s = parts_s + reduction.seconds + launch_s
    joules = dynamic_joules(
        tiles * total.tensor_flop, tiles * total.smem_bytes, l2_bytes, read_bytes + write_bytes, gpu
    )
    clocked_s = jnp.maximum(pipeline_s[PIPELINES.index("tensor")], pipeline_s[PIPELINES.index("smem")])
    throttle_s, energy_j = power_limited(latency_s, clocked_s, joules, gpu)
    latency_s = latency_s + throttle_s
    requested = jnp.maximum(loads.fabric_bytes, 1e-30)
    l2_hit = jnp.clip(1.0 - loads.ddr_bytes / requested, 0.0, 1.0)
    return Cost(
        latency_s=latency_s + program.helpers_s,
        reason=first_reason(checks),
        bound=what_binds(pipeline_s, latency_s, launch_s + reduction.seconds, times.epilogue_s, starving),
        pipeline_s=pipeline_s,
        prologue_s=times.prologue_s,
        steady_s=times.steady_s + throttle_s,
        epilogue_s=times.epilogue_s,
        tail_s=times.tail_s,
        reduction_s=reduction.seconds,
        launch_s=launch_s,
        helpers_s=program.helpers_s,
        flop=program.flop,
        l15_bytes=tiles * total.fabric_bytes,
        l2_bytes=l2_bytes,
        ddr_read_bytes=read_bytes,
        ddr_write_bytes=write_bytes,
        ddr_bytes=read_bytes + write_bytes,
        l15_hit=jnp.minimum(jnp.clip(1.0 - loads.l2_bytes / requested, 0.0, 1.0), l2_hit),
        l2_hit=l2_hit,
        waves=tiles / slots,
        ctas_per_sm=resident,
        occupancy_limiter=limiter,
        registers_per_thread=program.registers_per_thread,
        smem_bytes=program.footprint.smem_bytes,
        threads=program.footprint.threads,
        workspace_bytes=reduction.workspace_bytes,
        sms_used=jnp.minimum(tiles, sms),
        energy_j=energy_j,
    )


def executions(program: TileProgram) -> list[tuple[Action, Floats]]:
    """Every action of a tile, with how often it is done."""
    once = [(action, 1.0) for action in (*program.before, *program.after)]
    return [*once, *((action, program.loop.trips) for action in program.loop.actions)]


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


def run_waves(program: TileProgram, sms: Floats, slots: Floats, gpu: Gpu) -> tuple[KernelTimes, Bools]:
    """The kernel's waves: the full ones with all their SMs, the tail with the SMs that still have a tile.

    Returns:
        (times of all waves; where the main wave's loads starve it).
    """
    whole = floor_div(program.tiles, slots)
    in_main = jnp.minimum(program.tiles, slots)
    left = jnp.where(whole < 1, 0.0, program.tiles - whole * slots)

    def wave(tiles: Floats) -> tuple[WaveTimes, Bools]:
        resident = jnp.maximum(ceil_div_by_reciprocal(tiles, sms), 1.0)
        parts = tile_parts(program, gpu, jnp.maximum(tiles / resident, 1.0))
        return wave_times(program, parts, resident, gpu), starved(program, parts, resident, STARVED)

    main, starving = wave(in_main)
    tail, _ = wave(left)
    times = kernel_times(jnp.maximum(whole, 1.0), main, tail, jnp.where(left > 0, 1.0, 0.0), program.persistent)
    return times, starving


def _scaled(demand: Demand, count: Floats) -> Demand:
    return Demand(**{f.name: getattr(demand, f.name) * count for f in fields(Demand)})


def _added(demands: list[Demand]) -> Demand:
    return Demand(**{f.name: sum(getattr(demand, f.name) for demand in demands) for f in fields(Demand)})


def _check_names(program: TileProgram) -> None:
    known = [action.name for action in program.loop.actions]
    if twice := sorted({name for name in known if known.count(name) > 1}):
        raise ValueError(f"two actions of the loop are called {', '.join(twice)}: arcs could mean either")
    named = {name for arc in program.loop.arcs for name in _named(arc)}
    if missing := sorted(named - set(known)):
        raise ValueError(f"arcs of the loop name {', '.join(missing)}; its actions are {', '.join(known)}")


def _named(arc: Needs | Buffer | InOrder) -> tuple[str, ...]:
    if isinstance(arc, Needs):
        return arc.action, arc.of
    if isinstance(arc, Buffer):
        return arc.filled_by, arc.freed_by
    return tuple(name for name, _ in arc.order)
