"""Eq 11: the time of one communication stage over links that its exchanges share.

A stage is a set of exchanges that start together; each is routed over links. The stage takes the longest path latency
of any exchange plus the time of the busiest link, on which all exchanges that cross it put their bytes.
"""

import jax.numpy as jnp

from ..types import Array, Floats


def stage_seconds(exchange_bytes: Array, routes: Array, link_latency_s: Array, link_bytes_per_s: Array) -> Floats:
    """Seconds of one stage: T = max over exchanges of the latencies on their path + max over links of B_l / rate_l.

    Args:
        exchange_bytes: (..., E) bytes of each exchange; one of 0 bytes takes no part.
        routes: (E, L) 1 where an exchange crosses a link, else 0.
        link_latency_s: (..., L) alpha of each link.
        link_bytes_per_s: (..., L) rate of each link, above 0.

    Returns:
        (...,) seconds; 0 where no exchange has bytes. Raises nothing. Source: TileSight, eq 11, with link contention.
    """
    moves = exchange_bytes > 0
    path_s = jnp.max(jnp.where(moves, link_latency_s @ routes.T, 0.0), axis=-1)
    return path_s + jnp.max(exchange_bytes @ routes / link_bytes_per_s, axis=-1)
