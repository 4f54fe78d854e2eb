"""Tiles whose loops differ in length: a makespan in launch order instead of waves (model section 4)."""

import jax.numpy as jnp

from .._exact import ceil_div_by_reciprocal
from ..cyclic import loop_times
from ..machine import Gpu
from ..ordered_tiles import causal_times
from ..types import Bools, Floats
from ..waves import KernelTimes
from .records import Lengths, TileProgram
from .times import tile_parts
from .waves import starved


def run_unequal(
    program: TileProgram, lengths: Lengths, sms: Floats, slots: Floats, gpu: Gpu
) -> tuple[KernelTimes, Bools]:
    """All tiles of a program with `lengths`: each slot takes the next tile when it is done with one.

    A tile of n iterations takes a launch (once a slot where CTAs are persistent), what stands before its loop and the
    span of one iteration, n - 1 intervals, and what stands after; several tiles on an SM share its pipelines.

    Returns:
        (times of all tiles, the tail what the makespan exceeds the mean slot; where loads starve the SMs).
    """
    at_once = jnp.minimum(program.tiles, slots)
    resident = jnp.maximum(ceil_div_by_reciprocal(at_once, sms), 1.0)
    active = jnp.maximum(at_once / resident, 1.0)
    parts = tile_parts(program, gpu, active)
    alone = loop_times(parts.arcs, parts.ends_s, program.loop.trips, parts.pace_s, 1.0)
    block_s = jnp.maximum(alone.interval_s, resident * parts.pace_s)
    first_s = parts.before_s + alone.span_s
    once_s = jnp.where(program.persistent > 0, gpu.cta_launch_s, 0.0)
    fixed_s = jnp.maximum(gpu.cta_launch_s - once_s + first_s + parts.after_s - block_s, 0.0)
    found = causal_times(lengths.tiles(fixed_s, block_s), slots, lengths.order)
    engines_s = program.tiles * parts.engine_s / active
    whole_s = jnp.maximum(once_s + found.makespan_s, engines_s)
    beyond_s = jnp.where(program.tiles > slots, found.makespan_s - found.work_s / slots, 0.0)
    tail_s = jnp.clip(beyond_s, 0.0, whole_s)
    prologue_s = jnp.minimum(gpu.cta_launch_s + first_s, whole_s - tail_s)
    epilogue_s = jnp.minimum(parts.after_s, whole_s - tail_s - prologue_s)
    times = KernelTimes(
        prologue_s=prologue_s,
        steady_s=whole_s - tail_s - prologue_s - epilogue_s,
        epilogue_s=epilogue_s,
        tail_s=tail_s,
    )
    return times, starved(program, parts, resident)
