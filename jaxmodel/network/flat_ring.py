"""One ring, or chain, through all GPUs of several nodes, as NCCL has it: node after node, in and out by one NIC.

There are as many rings as GPUs in a node (g), each with its own share of the data and its own GPU's NIC, so that of a
GPU's g flows g - 1 stay on the inner level and one crosses. A link takes a piece for its bytes (s) and hands it on an
alpha later; meanwhile it serves the next. With n nodes, N = g n GPUs and H pieces over each link (N - 1 a pass), the
ring is over after the longest way of H services through links that follow each other or the same link again:

    D(l, j) = max(D(l, j - 1), D(l - 1, j - 1) + alpha(l - 1)) + s(l)

The ways that can be longest: staying on the slowest link, going on all the time, or as many whole nodes as there are
and staying for the rest. `tests/oracles/flat_ring.py` plays D.
"""

import jax.numpy as jnp

from .._exact import ceil_div_by_reciprocal, floor_div_by_reciprocal
from ..types import Floats


def ring_seconds(
    hops: Floats, gpus: Floats, nodes: Floats, inner_s: tuple[Floats, Floats], outer_s: tuple[Floats, Floats]
) -> Floats:
    """Seconds of a ring.

    Args:
        hops: H, pieces over each link: N - 1 for an all-gather or reduce-scatter, twice as many for an all-reduce.
        gpus: g, in each node.
        nodes: n; with one node all links are inner ones.
        inner_s: (s, alpha) of a link inside a node.
        outer_s: (s, alpha) of a link between nodes.
    """
    (busy_in, alpha_in), (busy_out, alpha_out) = inner_s, outer_s
    step_in, step_out = busy_in + alpha_in, busy_out + alpha_out
    most, fewest = ceil_div_by_reciprocal(hops, gpus), floor_div_by_reciprocal(hops, gpus)  # links between nodes
    runs = floor_div_by_reciprocal(hops + 1, gpus)  # whole nodes between two of them
    others = gpus - 1
    ways = (
        step_out + (hops - 1) * busy_out,
        most * step_out + (most - 1) * others * step_in + (hops - (most - 1) * gpus - 1) * busy_out,
        most * step_out + (hops - most) * step_in,
        fewest * step_out + (hops - fewest) * step_in,
        others * step_in + (hops - others) * busy_in,
        runs * others * step_in + (runs - 1) * step_out + (hops + 1 - runs * gpus) * busy_in,
    )
    longest = jnp.asarray(ways[0])
    for way in ways[1:]:
        longest = jnp.maximum(longest, way)
    return jnp.where(jnp.asarray(nodes) > 1, longest, hops * step_in)


def chain_seconds(
    chunks: Floats, gpus: Floats, nodes: Floats, inner_s: tuple[Floats, Floats], outer_s: tuple[Floats, Floats]
) -> Floats:
    """Seconds until c chunks are through a chain of all GPUs; arguments as in `ring_seconds`, of one chunk."""
    (busy_in, alpha_in), (busy_out, alpha_out) = inner_s, outer_s
    way = (nodes - 1) * (busy_out + alpha_out) + (gpus - 1) * nodes * (busy_in + alpha_in)
    slowest = jnp.maximum(jnp.where(jnp.asarray(nodes) > 1, busy_out, 0.0), busy_in)
    return way + (chunks - 1) * jnp.where(jnp.asarray(gpus) > 1, slowest, busy_out)
