"""Decode attention: a few query rows of a KV head against long, paged keys and values, split over CTAs.

A tile is a group of query rows of one KV head; it walks blocks of keys: load K and V, Q K^T, softmax, P V. Its keys may
be split over several CTAs, whose parts a second kernel or the last CTA combines. One CTA's walk is a tile program; all
CTAs share L2 and DDR, which stream keys and values while other tiles start and end.
"""

import dataclasses

import jax.numpy as jnp

from ..cyclic import loop_times
from ..envelope import shared_pace
from ..machine import Gpu
from ..occupancy import residency
from ..program import TileProgram, launch_cost, launch_of
from ..program.times import tile_parts
from ..program.waves import starved
from ..types import PIPELINES, Bools, Cost, Floats
from ..waves import KernelTimes
from .decode_attention_footprint import WIDE_HEAD_DIM, footprint
from .decode_attention_grid import Cut, Walk, cut, walk
from .decode_attention_program import tile_program
from .decode_attention_types import (
    SCHEDULER_PERSISTENT,
    SCHEDULER_STREAM,
    DecodeAttention,
    DecodeAttentionSchedule,
)

LONGEST_SPREAD = 3.0**0.5  # half width of a uniform distribution over its standard deviation


def cost(problem: DecodeAttention, schedule: DecodeAttentionSchedule, gpu: Gpu) -> Cost:
    """The cost of decode attention schedules, as a breakdown; broadcasts over problems x schedules x GPUs.

    Occupancy, checks, traffic and pipelines are the tile program's; its tiles' times are put together here.
    Equations: docs/decode-attention.md.
    """
    numbers = problem.numbers
    reading = dataclasses.replace(gpu, ddr_bytes_per_s=gpu.ddr_bytes_per_s * numbers.read_scale)
    pieces = cut(problem, schedule)
    walked = walk(schedule, pieces, at_once(problem, schedule, gpu), gpu)
    program = tile_program(problem, schedule, reading, pieces, walked)
    launch = dataclasses.replace(launch_of(program, reading), slots=gpu.sm_count * walked.at_once)
    times, starving = walk_times(problem, schedule, reading, program, launch.pipeline_s, pieces, walked)
    return launch_cost(program, launch, times, starving, reading)


def walk_times(
    problem: DecodeAttention,
    schedule: DecodeAttentionSchedule,
    gpu: Gpu,
    program: TileProgram,
    pipeline_s: tuple[Floats, ...],
    pieces: Cut,
    walked: Walk,
) -> tuple[KernelTimes, Bools]:
    """The first tile's start, then all streaming beside the other tiles' starts and ends, then the last tile's end.

    An SM alone would need `private_s` for its blocks; all of them draw on L2 and DDR, which serve whoever asks: tiles
    are out of step, so these are busy while some tiles start or end, all but the share `overhead_loss`.
    """
    numbers, loss = problem.numbers, gpu.overlap_loss
    alone = tile_parts(program, gpu, 1.0)
    one = loop_times(alone.arcs, alone.ends_s, walked.trips, alone.pace_s)
    beside = loop_times(alone.arcs, alone.ends_s, walked.trips, alone.pace_s, walked.resident)
    wide = problem.head_dim > WIDE_HEAD_DIM
    setup_s = jnp.where(wide, numbers.wide_tile_setup_s, numbers.tile_setup_s)
    setup_s = setup_s + numbers.row_s * pieces.rows / pieces.row_tiles
    loading = program.loop.actions[0]
    load_s = alone.ends_s[loading.name] - loading.latency_s  # streams beside other tiles, as all loads do
    first_s = alone.before_s + one.span_s - load_s + setup_s
    ahead_s = jnp.maximum(first_s - alone.latencies_s, 0.0)
    persistent = schedule.scheduler == SCHEDULER_PERSISTENT
    again_s = jnp.where(persistent, ahead_s, gpu.cta_launch_s + first_s) + alone.after_s

    private_s = jnp.maximum(beside.loop_s + load_s, walked.resident * alone.engine_s) * walked.rounds
    shared = (pieces.readers - 1.0) / pieces.readers  # of the reads, those that other tiles make as well
    l2_s = pipeline(pipeline_s, "l2") * (1.0 - shared + shared / numbers.shared_read_scale)
    memory_s = shared_pace(l2_s, pipeline(pipeline_s, "ddr"), loss)
    streaming_s = shared_pace(private_s, memory_s, loss)
    longest = jnp.where(schedule.scheduler == SCHEDULER_STREAM, 0.0, LONGEST_SPREAD * problem.context_spread)
    late = (numbers.long_batch > 0) & (problem.batch > numbers.long_batch)
    sequence_s = jnp.where(late, numbers.long_batch_sequence_s, numbers.sequence_s)
    times = KernelTimes(
        prologue_s=gpu.cta_launch_s + first_s + problem.batch * sequence_s,
        steady_s=shared_pace((walked.rounds - 1.0) * again_s, streaming_s, numbers.overhead_loss),
        epilogue_s=alone.after_s,
        tail_s=longest * walked.trips * beside.interval_s,
    )
    return times, starved(program, alone, walked.resident) & (private_s > memory_s)


def at_once(problem: DecodeAttention, schedule: DecodeAttentionSchedule, gpu: Gpu) -> Floats:
    """CTAs that run on an SM at once, at least 1: those that fit, at most those that the implementation lets run."""
    resident, _ = residency(footprint(problem, schedule, gpu), gpu)
    most = problem.numbers.ctas_per_sm
    return jnp.maximum(jnp.where(most > 0, jnp.minimum(resident, most), resident), 1.0)


def pipeline(pipeline_s: tuple[Floats, ...], name: str) -> Floats:
    """One pipeline's seconds."""
    return pipeline_s[PIPELINES.index(name)]
