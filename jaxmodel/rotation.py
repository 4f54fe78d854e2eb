"""Gaps between the points of a rotation: how far apart the sharers of a block are in a stream-K kernel.

Slot s of a stream-K kernel is at iteration s I + time, I = T' N / S, so tiles j apart reach the same K-step
j N modulo I steps apart: points of a rotation on a circle of length I. The three-gap theorem gives the gap to the point
before: of at most three lengths, with known counts. Where gaps are shorter than a step, many sharers meet in one
step; the step is then a window of the rotation, and the return times of the rotation to the window (three again, by
Slater's theorem) say how many slots apart the sharers are. One short Euclidean descent yields both.

Order is measured in ticks: one slot's iteration, S ticks a step. During a gap a row or column does not touch the gap's
length of blocks but the sum of min(gap, own gaps), because sharers in different K-phases touch different blocks.
"""

import jax
import jax.numpy as jnp

from ._exact import floor_div
from ._pytree import pytree
from .types import Array

_EUCLID_ROUNDS = 4  # enough, in the mean, for several hundred points
_TINY = 1e-6


@pytree
class Sharers:
    """Tiles that touch a block: `points` tiles `stride` apart, and `copies` such sets `copy_stride` tiles apart."""

    stride: Array
    points: Array
    copy_stride: Array | None = None  # None: one set
    copies: Array | None = None


@pytree
class Gaps:
    """Gaps between the touches of a block's sharers, for one operand, in classes."""

    shares: tuple[Array, ...]  # of all touches
    ticks: tuple[Array, ...]


def sharer_gaps(shared: Array, slots: Array, k_steps: Array, sharers: Sharers) -> Gaps:
    """Gaps between the touches of a block's sharers in a stream-K kernel.

    A gap of rise or fall is a real number of steps; its sharers meet a whole number of steps apart, one more or one
    less with the odds that keep the mean. Within a step the order is that of the slots.

    Args:
        shared: tiles that are shared out, whole, at least 1. Any shape, as are all arguments.
        slots: slots that share them, 1 to 2^14.
        k_steps: K-steps a tile.
        sharers: which of the tiles touch a block.

    Returns:
        the gap classes. Raises nothing.
    """
    points = sharers.points
    step = jnp.minimum(slots, shared * k_steps)
    per_step, per_shared, per_point = 1.0 / step, 1.0 / shared, 1.0 / points
    turn = sharers.stride * step
    rise, rise_index, fall, fall_index = nearest_returns(shared, step / k_steps, turn, points)
    rise_slots = (rise_index * turn - rise) * per_shared
    fall_slots = (fall_index * turn + fall) * per_shared
    rise, fall = rise * k_steps, fall * k_steps

    rise_steps, fall_steps = jnp.floor(rise * per_step), jnp.floor(fall * per_step)
    rise_over, fall_over = rise * per_step - rise_steps, fall * per_step - fall_steps
    rise_share = jnp.maximum(1.0 - rise_index * per_point, 0.0)
    fall_share = jnp.maximum(1.0 - fall_index * per_point, 0.0)
    both = (rise_index + fall_index) * per_point
    crowded = (rise_steps < 0.5) & (fall_steps < 0.5) & (both < 1.0)

    rise_less, fall_less = rise_share * (1.0 - rise_over), fall_share * (1.0 - fall_over)
    rise_less_ticks = rise_steps * step + rise_slots
    fall_less_ticks = jnp.where(fall_steps < 0.5, fall_slots, fall_steps * step - fall_slots)
    meet = jnp.maximum(rise_over + fall_over - 1.0, 0.0)
    joint = jnp.where(crowded, meet * (1.0 - both), jnp.maximum(both - 1.0, 0.0))
    joint_ticks = rise_slots + jnp.where(crowded, fall_slots, rise + fall - fall_slots)
    rise_more = jnp.where(crowded, 0.0, rise_share * rise_over)
    rise_more_ticks = (rise_steps + 1.0) * step + rise_slots

    # the first sharer of a step: what the others leave of the circle; or, of a chain that falls, step back to its end
    first = jnp.maximum(1.0 - rise_less - fall_less - joint, 0.0)
    left = shared * k_steps * per_point - rise_less * rise_slots - fall_less * fall_slots - joint * joint_ticks
    numerator = jnp.where(crowded, left, 2.0 - fall_over)
    ratio = numerator / jnp.maximum(jnp.where(crowded, first, fall_over), _TINY)
    chain_end = step - fall_slots * jnp.minimum(ratio, points / fall_index - 1.0)
    fall_more = jnp.where(crowded, first, fall_share * fall_over)
    fall_more_ticks = jnp.where(fall_steps < 0.5, chain_end, (fall_steps + 1.0) * step - fall_slots)
    fall_more_ticks = jnp.where(crowded, ratio, fall_more_ticks)

    classes = (rise_less_ticks, fall_less_ticks, joint_ticks, rise_more_ticks, fall_more_ticks)
    ticks = tuple(jnp.maximum(t, 1.0) for t in classes)
    shares = (rise_less, fall_less, joint, rise_more, fall_more)
    if sharers.copies is None or sharers.copy_stride is None:
        return Gaps(shares=shares, ticks=ticks)
    copies, copy_turn = sharers.copies, sharers.copy_stride * step
    return _cut_by_copies(Gaps(shares=shares, ticks=ticks), shared, step, k_steps, points, copies, copy_turn)


def _cut_by_copies(
    gaps: Gaps, shared: Array, step: Array, k_steps: Array, points: Array, copies: Array, turn: Array
) -> Gaps:
    """Copies whose points meet in one step shorten a gap to the slots between them; the others cut it evenly."""
    rise, rise_index, fall, fall_index = nearest_returns(shared, step / k_steps, turn, copies, rounds=2)
    a_step = k_steps / step
    rise_share = jnp.maximum(1.0 - rise_index / copies, 0.0) * jnp.maximum(1.0 - rise * a_step, 0.0)
    fall_share = jnp.maximum(1.0 - fall_index / copies, 0.0) * jnp.maximum(1.0 - fall * a_step, 0.0)
    slots = rise_share * (rise_index * turn - rise) + fall_share * (fall_index * turn + fall)
    slots = jnp.maximum(slots / (shared * jnp.maximum(rise_share + fall_share, _TINY)), 1.0)
    meet = jnp.minimum(rise_share + fall_share, 1.0 - 1.0 / copies)

    met = tuple(
        share * jnp.where(ticks > slots, meet, 0.0) for share, ticks in zip(gaps.shares, gaps.ticks, strict=True)
    )
    all_met = sum(met)
    apart = jnp.maximum(copies * (1.0 - all_met), 1.0)
    cuts_a_tick = (apart - 1.0) * points / (shared * k_steps)
    return Gaps(
        shares=(*(share - part for share, part in zip(gaps.shares, met, strict=True)), all_met),
        ticks=(*(ticks / (1.0 + ticks * cuts_a_tick) for ticks in gaps.ticks), slots),
    )


def distinct_blocks(gaps: Gaps, ticks: Array) -> Array:
    """Distinct blocks of an operand that all slots touch in `ticks` ticks, before the cap by how many there are."""
    total = 0.0
    for share, own in zip(gaps.shares, gaps.ticks, strict=True):
        total = total + share * jnp.minimum(own, ticks)
    return total


def nearest_returns(
    circle: Array, window: Array, turn: Array, points: Array, rounds: int = _EUCLID_ROUNDS
) -> tuple[Array, Array, Array, Array]:
    """Nearest returns of a rotation by `turn` around `circle`: (rise, its index, fall, its index).

    `rise` is the least distance ahead of a point at which one of the next `points` - 1 points lies, `fall` the least
    distance behind; the descent stops early once both are within `window`. By the three-gap theorem all gaps of the
    `points` points are then rise, fall or their sum.

    Args:
        circle: its length, whole, 1 to 2^16 - 1. Any shape, as are all arguments.
        window: distances below it are not told apart; 0 or less never stops early.
        turn: whole, below 2^24; taken modulo `circle`.
        points: points on the circle, at least 1, below 2^15; may be a mean.
        rounds: of the descent; two reach at least 5 points and mostly many more.

    Returns:
        four arrays of `turn`'s type. Raises nothing.
    """
    rise = turn - floor_div(turn, circle) * circle

    def descend(_, state):
        rise, fall = state
        fall = _approach(fall, rise, points, window)
        return _approach(rise, fall, points, window), fall

    rise, fall = jax.lax.fori_loop(0, rounds, descend, (_pack(rise), _pack(circle - rise)))
    dtype = jnp.result_type(turn)
    return (*_unpack(rise, dtype), *_unpack(fall, dtype))


# Distance and index travel as one integer: XLA evaluates a loop's body once for each array that it carries.
_INDEX_BITS = 15
_INDEX_MASK = 2**_INDEX_BITS - 1


def _pack(distance: Array) -> Array:
    """A distance below 2^16 with index 1."""
    return (distance.astype(jnp.int32) << _INDEX_BITS) + 1


def _unpack(packed: Array, dtype: jnp.dtype) -> tuple[Array, Array]:
    return (packed >> _INDEX_BITS).astype(dtype), (packed & _INDEX_MASK).astype(dtype)


def _approach(far: Array, near: Array, points: Array, window: Array) -> Array:
    """Moves `far` by multiples of `near` as long as it stays ahead, outside the window and within the points."""
    distance, index = _unpack(far, points.dtype)
    near_distance, near_index = _unpack(near, points.dtype)
    inverse = 1.0 / jnp.maximum(near_distance, 1e-6)
    until_passed = jnp.floor((distance + 0.01) * inverse)
    until_inside = jnp.floor((distance - window + 1e-3) * inverse) + 1.0
    until_last = jnp.maximum(jnp.ceil((points - index) / near_index) - 1.0, 0.0)
    times = jnp.minimum(jnp.minimum(until_passed, until_inside), until_last)
    times = jnp.where(distance >= window, times, 0.0).astype(jnp.int32)
    return far - times * ((near >> _INDEX_BITS << _INDEX_BITS) - (near & _INDEX_MASK))
