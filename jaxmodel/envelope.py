"""Prologue, steady state, epilogue (eqs 2-5): how long one tile's loop takes with a finite number of buffers.

The loop is defined by a recurrence. Iteration i loads into one of `slots` buffers and computes on it:

    load_i = max(load_{i-1}, comp_{i-slots}) + load_s
    comp_i = max(load_i + latency_s, comp_{i-1}) + compute_s

with load_s and compute_s the engines' service times and latency_s what a load takes beyond its service. The closed
forms below solve it exactly (tests/oracles/envelope.py runs it), so few iterations and one buffer are ordinary cases,
and so are several resident tiles, as long as the engines serve them in turn. The long-run rate is the paper's T_steady;
the rest is its T_pro + T_epi.
"""

import jax
import jax.numpy as jnp

from ._exact import floor_div, is_zero
from .types import Floats

TINY = 1e-36  # seconds squared: keeps the gradient of two idle pipelines finite


def shared_pace(first_s: Floats, second_s: Floats, loss: Floats) -> Floats:
    """Seconds that two pipelines take together when the slower one hides the faster one only in part:
    max(a, b) + (sqrt(d^2 + 4 loss^2 a b) - d) / 2, d = |a - b|. With loss 0 the slower one, with loss 1 their sum;
    two equal ones take (1 + loss) of one. Queues between agents that do not run in step cost this."""
    if is_zero(first_s) or is_zero(second_s):
        return second_s if is_zero(first_s) else first_s
    if is_zero(loss):
        return jnp.maximum(first_s, second_s)
    return _partly_hidden(first_s, second_s, loss)


@jax.custom_jvp
def _partly_hidden(first_s: Floats, second_s: Floats, loss: Floats) -> Floats:
    apart_s = jnp.abs(first_s - second_s)
    both = 4.0 * loss * loss * first_s * second_s
    return jnp.maximum(first_s, second_s) + 0.5 * both / (jnp.sqrt(apart_s * apart_s + both + TINY) + apart_s)


@_partly_hidden.defjvp
def _slopes(values: tuple[Floats, ...], changes: tuple[Floats, ...]) -> tuple[Floats, Floats]:
    """By ratios of at most about 1. What JAX makes of the quotient divides by its divisor's square first, which leaves
    float32 where both pipelines are idle."""
    first_s, second_s, loss = values
    difference_s = first_s - second_s
    both = 4.0 * loss * loss * first_s * second_s
    root_s = jnp.sqrt(difference_s * difference_s + both + TINY)
    over_s = root_s + jnp.abs(difference_s)
    share, side = both / over_s / over_s, jnp.sign(difference_s)

    def slope(own_side: Floats, of_both: Floats) -> Floats:
        """Of max + both / over / 2, by what moves the difference to its own side, and both."""
        of_over = own_side * difference_s / root_s + 0.5 * of_both / root_s + own_side * side
        return 0.5 * (of_both / over_s - share * of_over)

    by_first = 0.5 * (1.0 + side) + slope(1.0, 4.0 * loss * loss * second_s)
    by_second = 0.5 * (1.0 - side) + slope(-1.0, 4.0 * loss * loss * first_s)
    by_loss = slope(0.0, 8.0 * loss * first_s * second_s)
    change = by_first * changes[0] + by_second * changes[1] + by_loss * changes[2]
    return _partly_hidden(first_s, second_s, loss), change


def loop_seconds(
    iterations: Floats, slots: Floats, load_s: Floats, latency_s: Floats, compute_s: Floats, loss: Floats = 0.0
) -> Floats:
    """Seconds from the first load's issue to the last iteration's end, without the first iteration's own
    latency + load + compute: (N - 1) M + floor((N - 1) / s) max(0, L + m + c - s M), M = `shared_pace` of m and c."""
    pace_s = shared_pace(load_s, compute_s, loss)
    refill_s = jnp.maximum(latency_s + load_s + compute_s - slots * pace_s, 0.0)
    rest = jnp.maximum(iterations - 1.0, 0.0)
    return rest * pace_s + floor_div(rest, slots) * refill_s


def tile_seconds(
    iterations: Floats,
    slots: Floats,
    load_s: Floats,
    latency_s: Floats,
    compute_s: Floats,
    store_s: Floats,
    loss: Floats = 0.0,
) -> Floats:
    """Seconds of a whole tile: first fill, loop, store. Exact for the recurrence above.

    Args:
        iterations: K-steps N, whole, at least 1.
        slots: buffers s, whole, at least 1.
        load_s: m, the load engines' service time an iteration.
        latency_s: L, what a load takes beyond its service.
        compute_s: c, the compute engines' service time an iteration.
        store_s: st, after the last iteration.
        loss: of `shared_pace` between loads and compute; 0: the recurrence, exactly.
    """
    loop_s = loop_seconds(iterations, slots, load_s, latency_s, compute_s, loss)
    return latency_s + load_s + compute_s + loop_s + store_s


def steady_seconds(slots: Floats, load_s: Floats, latency_s: Floats, compute_s: Floats, loss: Floats = 0.0) -> Floats:
    """Long-run seconds an iteration: T_steady = max(m, c, (L + m + c) / s). The last term is Little's law: a tile
    cannot draw more than its bytes in flight over the latency."""
    return jnp.maximum(shared_pace(load_s, compute_s, loss), (latency_s + load_s + compute_s) / slots)


def staggered_stores_seconds(tiles: Floats, store_s: Floats, pace_s: Floats) -> Floats:
    """Seconds after the last of `tiles` loops ends until all their stores are done, when the loops end `pace_s` apart
    and one engine stores: st + (r - 1) max(0, st - pace)."""
    return store_s + (tiles - 1.0) * jnp.maximum(store_s - pace_s, 0.0)
