"""Collectives over two levels: nodes of GPUs on a fast fabric, joined by a slower network.

Every GPU has a link of its own to either level, and GPU i of a node talks to GPU i of the others ("rails"), except
where all peers are sent to at once. What the ways are: `nested_ways.py`; how parts inside and between nodes overlap:
`pipeline.py`; rings through all GPUs: `flat_ring.py`. One kernel runs all of a way.
"""

import jax.numpy as jnp

from .._pytree import pytree
from ..types import Array, Floats
from .collective import CHUNKS
from .level import Level
from .nested_ways import NestedWay, nested_ways


@pytree
class NestedCost:
    """What a collective over two levels costs; every field broadcasts."""

    latency_s: Array  # inf where no way can run it
    way: Array  # index into `nested_ways(collective, rule)`
    chunks: Array
    network_bytes: Array  # on one GPU's link to the network, each direction
    sms: Array  # that it occupies on each GPU while it runs


def nested_cost(
    collective: str,
    bytes_: Floats,
    gpus_per_node: Floats,
    nodes: Floats,
    inner: Level,
    outer: Level,
    rule: str = "nccl",
) -> NestedCost:
    """The least of the ways that the rule considers, and of all numbers of chunks.

    Args:
        collective: all_gather, reduce_scatter, all_reduce, all_to_all or broadcast.
        bytes_: as in `jaxmodel.network.steps`.
        gpus_per_node, nodes: whole numbers, at least two nodes: one is no nest, its price is `collective_cost`'s.
        inner, outer: the two levels' prices.
        rule: one of `jaxmodel.network.RULES`; "nccl" and "engine" are the same over nodes.

    Returns:
        the cost; all arguments broadcast. Raises KeyError for another collective.
    """
    gpus, count = jnp.asarray(gpus_per_node), jnp.asarray(nodes)
    least, way, chunks, crossing, sms = jnp.inf, 0, 1.0, 0.0, 0.0
    for place, considered in enumerate(nested_ways(collective, rule)):
        inside, between = considered.of(inner, outer)
        priced = considered.price(considered, bytes_, gpus, count, inner, outer)
        can = priced.possible & (jnp.asarray(inside.bytes_per_s) > 0) & (jnp.asarray(between.bytes_per_s) > 0)
        start = jnp.maximum(inside.start_s, between.start_s)
        taken, best = _least(priced.seconds)
        seconds = jnp.where(can, start + taken, jnp.inf)
        better = seconds < least
        least = jnp.where(better, seconds, least)
        way = jnp.where(better, place, way)
        chunks = jnp.where(better, jnp.asarray(CHUNKS)[best], chunks)
        crossing = jnp.where(better, priced.network_bytes, crossing)
        sms = jnp.where(better, _sms(considered, inner, outer), sms)
    alone = gpus * count <= 1
    return NestedCost(
        latency_s=jnp.where(alone, 0.0, least),
        way=way,
        chunks=chunks,
        network_bytes=jnp.where(alone | (count <= 1), 0.0, crossing),
        sms=jnp.where(alone, 0.0, sms),
    )


def _least(rows: Array) -> tuple[Array, Array]:
    """The least row and its place. By its place, not by `min`: that one's gradient compares values, which compiled
    code may compute twice with different rounding."""
    best = jnp.argmin(rows, axis=0)
    places = jnp.arange(len(rows)).reshape(-1, *[1] * best.ndim)
    return jnp.sum(jnp.where(places == best, rows, 0.0), axis=0), best


def _sms(way: NestedWay, inner: Level, outer: Level) -> Array:
    """Over nodes the network's paths give the number of channels; the switch's reduction has channels of its own."""
    inside, between = way.of(inner, outer)
    return jnp.maximum(inside.sms, between.sms) if way.inside == "multicast" else between.sms
