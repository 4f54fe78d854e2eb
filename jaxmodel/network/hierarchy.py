"""Collectives over two levels: nodes of GPUs on a fast fabric, joined by a slower network.

Every GPU has a link of its own to either level, and GPU i of a node talks to GPU i of the others ("rails"). An
algorithm works inside the nodes, then between them on the share of the data that each GPU stands for, then inside
again; the data may be cut into chunks, of which one is inside while another is between. All parts run in one kernel
over one protocol:

    T = start + max( before_l + c busy_l + after_l  over the levels l,  one chunk + (c - 1) max busy of a part )

A part takes hops x alpha + bytes / rate. It keeps its level busy for one alpha and for the bytes of the busiest link
only (`busy_l` sums a level's parts): later hops of a chunk go on while the next chunk begins. `before_l` is what a
chunk takes until its first part on the level, `after_l` from the end of its last work there. Where a level that is free
takes the earliest part that waits, this is exact (`tests/oracles/chunk_pipeline.py` plays it).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp

from .._pytree import pytree
from ..types import Array, Floats
from . import steps as algorithms
from .collective import CHAINED, CHUNKS
from .level import Level, Protocol
from .steps import Steps

Part = tuple[Steps, bool]  # and whether it runs between the nodes


@dataclass(frozen=True)
class NestedWay:
    """One algorithm over both levels and one protocol; `parts` of (bytes, GPUs a node, nodes)."""

    algorithm: str
    protocol: str
    parts: Callable[[Floats, Floats, Floats], tuple[Part, ...]]


@pytree
class NestedCost:
    """What a collective over two levels costs; every field broadcasts."""

    latency_s: Array  # inf where no way can run it
    way: Array  # index into `nested_ways(collective)`
    chunks: Array
    network_bytes: Array  # on one GPU's link to the network, each direction


def nested_ways(collective: str) -> tuple[NestedWay, ...]:
    """The ways that are considered, in the order of `NestedCost.way`."""
    return tuple(NestedWay(name, protocol, parts) for name, parts in _PARTS[collective] for protocol in CHAINED)


def nested_cost(
    collective: str, bytes_: Floats, gpus_per_node: Floats, nodes: Floats, inner: Level, outer: Level
) -> NestedCost:
    """The least of all ways and numbers of chunks.

    Args:
        collective: all_gather, reduce_scatter, all_reduce, all_to_all or broadcast.
        bytes_: as in `jaxmodel.network.steps`.
        gpus_per_node, nodes: whole numbers; with one node nothing crosses the network.
        inner, outer: the two levels' prices.

    Returns:
        the cost; all arguments broadcast. Raises KeyError for another collective.
    """
    found, crossing = [], []
    for way in nested_ways(collective):
        whole = way.parts(bytes_, gpus_per_node, nodes)
        crossing.append(sum(steps.wire_bytes for steps, crosses in whole if crosses))

        def of_chunks(chunks: Floats, way: NestedWay = way) -> Floats:
            return _way_seconds(way, chunks, bytes_, gpus_per_node, nodes, inner, outer)

        found.append(jax.vmap(of_chunks)(jnp.asarray(CHUNKS)))  # one trace for all numbers of chunks
    times = jnp.concatenate(jnp.broadcast_arrays(*found))
    best = jnp.argmin(times, axis=0)
    way, chunk = best // len(CHUNKS), best % len(CHUNKS)
    alone = jnp.asarray(gpus_per_node) * nodes <= 1
    moved = sum(jnp.where(way == place, amount, 0.0) for place, amount in enumerate(crossing))
    return NestedCost(
        latency_s=jnp.where(alone, 0.0, jnp.min(times, axis=0)),
        way=way,
        chunks=jnp.asarray(CHUNKS)[chunk],
        network_bytes=jnp.where(alone, 0.0, moved),
    )


def _way_seconds(
    way: NestedWay, chunks: Floats, bytes_: Floats, gpus: Floats, nodes: Floats, inner: Level, outer: Level
) -> Floats:
    inside, between = getattr(inner, way.protocol), getattr(outer, way.protocol)
    can = (jnp.asarray(inside.bytes_per_s) > 0) & (jnp.asarray(between.bytes_per_s) > 0)
    parts = way.parts(bytes_ / chunks, gpus, nodes)
    for steps, _ in parts:
        can = can & steps.possible
    levels = [outer if crosses else inner for _, crosses in parts]
    busy = [_busy_s(steps, way.protocol, level) for (steps, _), level in zip(parts, levels, strict=True)]
    whole = [_whole_s(steps, way.protocol, level) for (steps, _), level in zip(parts, levels, strict=True)]
    start = jnp.maximum(inside.start_s, between.start_s)
    return jnp.where(can, start + chunks_seconds(busy, whole, [crosses for _, crosses in parts], chunks), jnp.inf)


def chunks_seconds(
    busy_s: Sequence[Floats], whole_s: Sequence[Floats], crosses: Sequence[bool], chunks: Floats
) -> Floats:
    """Seconds until the last of c chunks is through parts in order.

    Args:
        busy_s: of each part, how long a chunk keeps its level busy.
        whole_s: of each part, how long a chunk is in it; at least `busy_s`.
        crosses: of each part, whether its level is the network; else the nodes.
        chunks: c, at least 1.
    """
    bounds = [sum(whole_s) + (chunks - 1) * _most(busy_s)]
    for network in (False, True):
        own = [place for place, which in enumerate(crosses) if which == network]
        if own:
            before, last = sum(whole_s[: own[0]]), own[-1]
            after = whole_s[last] - busy_s[last] + sum(whole_s[last + 1 :])
            bounds.append(before + chunks * sum(busy_s[place] for place in own) + after)
    return _most(bounds)


def _most(values: Sequence[Floats]) -> Floats:
    most = jnp.asarray(values[0])
    for value in values[1:]:
        most = jnp.maximum(most, value)
    return most


def _whole_s(steps: Steps, protocol: str, level: Level) -> Floats:
    prices: Protocol = getattr(level, protocol)
    return prices.hop_s * steps.hops + steps.wire_bytes / _rate(prices) + steps.local_bytes / level.copy_bytes_per_s


def _busy_s(steps: Steps, protocol: str, level: Level) -> Floats:
    prices: Protocol = getattr(level, protocol)
    flag_s = jnp.where(jnp.asarray(steps.hops) > 0, prices.hop_s, 0.0)
    return flag_s + steps.link_bytes / _rate(prices) + steps.local_bytes / level.copy_bytes_per_s


def _rate(prices: Protocol) -> Floats:
    return jnp.where(jnp.asarray(prices.bytes_per_s) > 0, prices.bytes_per_s, 1.0)


def _all_reduce(between: Callable[[Floats, Floats], Steps]) -> Callable[[Floats, Floats, Floats], tuple[Part, ...]]:
    def parts(bytes_: Floats, gpus: Floats, nodes: Floats) -> tuple[Part, ...]:
        inside = _in_place(bytes_, gpus)
        return (inside, False), (between(bytes_ / gpus, nodes), True), (inside, False)

    return parts


def _in_place(bytes_: Floats, gpus: Floats) -> Steps:
    """Inside the nodes: a rank's own piece already is where it stays; only the other level, if any, copies its own."""
    return replace(algorithms.ring_pass(bytes_, gpus), local_bytes=0.0)


def _tree_of_nodes(bytes_: Floats, nodes: Floats) -> Steps:
    return algorithms.tree_all_reduce(bytes_, nodes, 1.0)


def _gather(bytes_: Floats, gpus: Floats, nodes: Floats) -> tuple[Part, ...]:
    return (algorithms.ring_pass(bytes_ / gpus, nodes), True), (_in_place(bytes_, gpus), False)


def _scatter(bytes_: Floats, gpus: Floats, nodes: Floats) -> tuple[Part, ...]:
    return (_in_place(bytes_, gpus), False), (algorithms.ring_pass(bytes_ / gpus, nodes), True)


def _exchange(bytes_: Floats, gpus: Floats, nodes: Floats) -> tuple[Part, ...]:
    return (algorithms.direct_pass(bytes_, gpus), False), (algorithms.direct_pass(bytes_, nodes), True)


def _broadcast(bytes_: Floats, gpus: Floats, nodes: Floats) -> tuple[Part, ...]:
    return (algorithms.tree_broadcast(bytes_, nodes), True), (algorithms.tree_broadcast(bytes_, gpus), False)


_PARTS: dict[str, tuple[tuple[str, Callable[[Floats, Floats, Floats], tuple[Part, ...]]], ...]] = {
    "all_reduce": (
        ("ring of nodes", _all_reduce(algorithms.ring_all_reduce)),
        ("halving of nodes", _all_reduce(algorithms.doubling_all_reduce)),
        ("double tree of nodes", _all_reduce(_tree_of_nodes)),
    ),
    "all_gather": (("ring of nodes", _gather),),
    "reduce_scatter": (("ring of nodes", _scatter),),
    "all_to_all": (("inside, then rails", _exchange),),
    "broadcast": (("tree of nodes", _broadcast),),
}
NESTED = tuple(_PARTS)
