"""The waves of a tile program: tiles in step, tiles replaced one by one, persistent CTAs (model sections 3 and 4)."""

import dataclasses

import jax.numpy as jnp

from .._exact import ceil_div, ceil_div_by_reciprocal, floor_div
from ..bound import STARVED
from ..cyclic import initiation_interval, loop_times
from ..envelope import staggered_stores_seconds
from ..machine import Gpu
from ..types import Bools, Floats
from ..waves import KernelTimes, WaveTimes, kernel_times
from .records import TileProgram
from .times import TileParts, tile_parts


def run_waves(program: TileProgram, sms: Floats, slots: Floats, gpu: Gpu) -> tuple[KernelTimes, Bools]:
    """The kernel's waves: the full ones with all their SMs, the tail with the SMs that still have a tile.

    Where it `streams`, every slot works on tiles / slots of a tile, in a whole or a broken number of waves without a
    tail; tiles fewer than slots are walked in ceil(trips tiles / slots) iterations each.

    Returns:
        (times of all waves; where the main wave's loads starve it).
    """
    whole = floor_div(program.tiles, slots)
    in_main = jnp.minimum(program.tiles, slots)
    left = jnp.where(whole < 1, 0.0, program.tiles - whole * slots)
    waves, persistent = jnp.maximum(whole, 1.0), program.persistent
    if program.streams is not None:
        streaming, trips = program.streams > 0, program.loop.trips
        in_main, left = jnp.where(streaming, slots, in_main), jnp.where(streaming, 0.0, left)
        waves = jnp.where(streaming, jnp.maximum(program.tiles / slots, 1.0), waves)
        persistent = jnp.maximum(persistent, program.streams)
        several = streaming & (program.tiles < slots)
        trips = jnp.where(several, ceil_div(trips * program.tiles, slots), trips)
        program = dataclasses.replace(program, loop=dataclasses.replace(program.loop, trips=trips))

    def wave(tiles: Floats) -> tuple[WaveTimes, Bools]:
        resident = jnp.maximum(ceil_div_by_reciprocal(tiles, sms), 1.0)
        parts = tile_parts(program, gpu, jnp.maximum(tiles / resident, 1.0))
        return wave_times(program, parts, resident, gpu), starved(program, parts, resident)

    main, starving = wave(in_main)
    tail, _ = wave(left)
    times = kernel_times(waves, main, tail, jnp.where(left > 0, 1.0, 0.0), persistent)
    return times, starving


def wave_times(program: TileProgram, parts: TileParts, resident: Floats, gpu: Gpu) -> WaveTimes:
    """Times of a wave of `resident` tiles an SM; `jaxmodel.waves.wave_times` for a loop of many actions.

    Args:
        program: the kernel.
        parts: one tile's times with all of the wave's SMs at work.
        resident: tiles an SM.
        gpu: the machine.
    """
    trips, pace_s, after_s = program.loop.trips, parts.pace_s, parts.after_s
    together = loop_times(parts.arcs, parts.ends_s, trips, pace_s, resident)
    alone = loop_times(parts.arcs, parts.ends_s, trips, pace_s, 1.0)
    first_s = parts.before_s + alone.span_s
    latency_s = parts.after_latency_s
    store_s = latency_s + staggered_stores_seconds(resident, after_s - latency_s, pace_s)
    engines_s = resident * parts.engine_s
    loop_s = jnp.maximum(together.loop_s, engines_s - first_s - store_s)
    alone_s = gpu.cta_launch_s + first_s + alone.loop_s + after_s
    ahead_s = program.loop.ahead * parts.load_s
    chain_s = jnp.maximum(parts.compute_s, initiation_interval(parts.waits))
    stalled_s = jnp.maximum(after_s - ahead_s, 0.0)  # the epilogue outlasts the buffers that were freed
    serial_s = jnp.maximum(trips * chain_s + after_s, trips * parts.load_s + stalled_s)
    hidden_s = jnp.maximum(trips * pace_s, after_s)
    streaming_s = jnp.maximum(trips * alone.interval_s, jnp.where(program.overlapped, hidden_s, serial_s))
    in_turn_s = first_s + alone.loop_s + after_s  # nothing of the next tile is loaded under this one
    return WaveTimes(
        fill_s=gpu.cta_launch_s + first_s,
        loop_s=loop_s,
        store_s=store_s,
        period_s=jnp.maximum(engines_s, alone_s),
        persistent_period_s=jnp.maximum(engines_s, jnp.where(program.loop.ahead > 0, streaming_s, in_turn_s)),
    )


def starved(program: TileProgram, parts: TileParts, resident: Floats) -> Bools:
    """Where loads take longer than the buffers and resident tiles cover: `STARVED` times what the pipelines need."""
    pace_s = resident * parts.pace_s
    in_loop = initiation_interval(parts.arcs) > STARVED * jnp.maximum(pace_s, initiation_interval(parts.waits))
    return in_loop | (parts.latencies_s > STARVED * resident * parts.engine_s)
