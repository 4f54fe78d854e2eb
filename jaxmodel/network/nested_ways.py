"""The algorithms of collectives over nodes, each over a protocol of either level, and what it takes.

NCCL's own ("nccl"): one ring or chain through all GPUs; a double tree of nodes whose GPUs pass sums on and back
("double tree of nodes"), or whose switch reduces and multicasts ("in-switch, double tree": NVLSTree); pairwise sends to
all peers at once. "best" adds those that scatter inside nodes, work between them and gather inside again.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp

from ..types import Array, Floats
from . import steps as algorithms
from .collective import CHAINED, CHUNKS, PAIRED, RULES
from .contention import EVERYONE, NEIGHBOURS, link_rate
from .flat_ring import chain_seconds, ring_seconds
from .level import Level, Protocol
from .pipeline import SLOTS, Part, parts_seconds
from .steps import Steps

BEST = ("best",)
Parts = Callable[[Floats, Floats, Floats], tuple[Part, ...]]  # of (bytes, GPUs a node, nodes)


@dataclass(frozen=True)
class Priced:
    """What one way takes: without its start, for each number of chunks; bytes on one GPU's link to the network."""

    seconds: Array  # (chunks, ...): one of `CHUNKS` each, or one row for a way that is not cut into chunks
    network_bytes: Array
    possible: Array


Pricing = Callable[..., Priced]  # of (way, bytes, GPUs a node, nodes, inner level, outer level)


@dataclass(frozen=True)
class NestedWay:
    """One algorithm over both levels; `rules` that consider it."""

    algorithm: str
    inside: str  # protocols
    between: str
    rules: tuple[str, ...]
    price: Pricing

    @property
    def protocol(self) -> str:
        """As users are told: one name, or that of the nodes and that of the network."""
        return self.inside if self.inside == self.between else f"{self.inside}+{self.between}"

    def of(self, inner: Level, outer: Level) -> tuple[Protocol, Protocol]:
        """The two protocols' prices."""
        return getattr(inner, self.inside), getattr(outer, self.between)


def nested_ways(collective: str, rule: str = "nccl") -> tuple[NestedWay, ...]:
    """The ways that one of `RULES` considers for a collective over nodes, in the order of `NestedCost.way`."""
    return tuple(way for way in _WAYS[collective] if rule in way.rules)


def _through(parts: Parts) -> Pricing:
    """Parts inside the nodes and between them, in chunks."""

    def price(way: NestedWay, bytes_: Floats, gpus: Floats, nodes: Floats, inner: Level, outer: Level) -> Priced:
        whole = parts(bytes_, gpus, nodes)
        possible = jnp.asarray(gpus >= inner.multicast_ranks_min) if way.inside == "multicast" else jnp.asarray(True)
        for steps, _ in whole:
            possible = possible & steps.possible
        return Priced(
            parts_seconds(whole, way.inside, way.between, gpus, nodes, inner, outer),
            sum(steps.link_bytes for steps, crosses in whole if crosses),
            possible,
        )

    return price


def _rings(passes: int) -> Pricing:
    """Rings of all GPUs; one pass: an all-gather or reduce-scatter, which copies a rank's own piece."""

    def price(way: NestedWay, bytes_: Floats, gpus: Floats, nodes: Floats, inner: Level, outer: Level) -> Priced:
        hops, piece = passes * (gpus * nodes - 1), bytes_ / (gpus * nodes)
        seconds = ring_seconds(hops, gpus, nodes, *_links(way, piece, gpus, nodes, inner, outer))
        copied_s = piece / inner.copy_bytes_per_s if passes == 1 else 0.0
        return Priced(jnp.asarray(seconds + copied_s)[None], hops * (piece / gpus), True)

    return price


def _chains(way: NestedWay, bytes_: Floats, gpus: Floats, nodes: Floats, inner: Level, outer: Level) -> Priced:
    def of_chunks(chunks: Floats) -> Floats:
        links = _links(way, bytes_ / chunks, gpus, nodes, inner, outer)
        slotted = [(busy + alpha / SLOTS, alpha - alpha / SLOTS) for busy, alpha in links]
        return chain_seconds(chunks, gpus, nodes, *slotted)

    return Priced(jax.vmap(of_chunks)(jnp.asarray(CHUNKS)), bytes_ / gpus, True)


def _links(
    way: NestedWay, piece: Floats, gpus: Floats, nodes: Floats, inner: Level, outer: Level
) -> tuple[tuple[Floats, Floats], tuple[Floats, Floats]]:
    """(seconds that a piece keeps it, alpha) of links inside and between nodes; a piece is of all g rings together."""
    inside, between = way.of(inner, outer)
    crossing = piece / gpus
    return (
        ((piece - crossing) / link_rate(inside, inner, NEIGHBOURS, gpus), inside.hop_s),
        (crossing / link_rate(between, outer, NEIGHBOURS, nodes), between.hop_s),
    )


def _peers(way: NestedWay, bytes_: Floats, gpus: Floats, nodes: Floats, inner: Level, outer: Level) -> Priced:
    """All peers at once, those of other nodes over the GPU's own link to the network (eq 11: one stage)."""
    inside, between = way.of(inner, outer)
    ranks = gpus * nodes
    piece, near, far = bytes_ / ranks, gpus - 1, ranks - gpus
    wire_s = jnp.maximum(
        near * piece / link_rate(inside, inner, EVERYONE, gpus),
        far * piece / link_rate(between, outer, EVERYONE, nodes),
    )
    to_one_s = piece / jnp.minimum(inside.peer_bytes_per_s, between.peer_bytes_per_s)
    peers_s = jnp.maximum(near * inside.peer_s + (far - 1) * between.peer_s, 0.0)
    seconds = jnp.maximum(inside.hop_s, between.hop_s) + peers_s + jnp.maximum(wire_s, to_one_s)
    little = jnp.asarray(piece <= outer.exchange_ll_max_bytes)
    return Priced(
        (seconds + piece / inner.copy_bytes_per_s)[None],
        far * piece,
        little if way.between == "exchange_ll" else ~little,
    )


def _all_reduce(between: Callable[[Floats, Floats], Steps], half: Callable[[Floats, Floats], Steps]) -> Parts:
    def parts(bytes_: Floats, gpus: Floats, nodes: Floats) -> tuple[Part, ...]:
        inside = half(bytes_, gpus)
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


def _rails(bytes_: Floats, gpus: Floats, nodes: Floats) -> tuple[Part, ...]:
    return (algorithms.direct_pass(bytes_, gpus), False), (algorithms.direct_pass(bytes_, nodes), True)


def _trees(bytes_: Floats, gpus: Floats, nodes: Floats) -> tuple[Part, ...]:
    return (algorithms.tree_broadcast(bytes_, nodes), True), (algorithms.tree_broadcast(bytes_, gpus), False)


def _over(algorithm: str, price: Pricing, rules: tuple[str, ...], protocols: tuple[str, ...] = CHAINED) -> tuple:
    return tuple(NestedWay(algorithm, protocol, protocol, rules, price) for protocol in protocols)


_WAYS: dict[str, tuple[NestedWay, ...]] = {
    "all_reduce": (
        *_over("ring", _rings(2), RULES),
        *_over("double tree of nodes", _through(_all_reduce(_tree_of_nodes, _in_place)), RULES),
        NestedWay(
            "in-switch, double tree", "multicast", "simple", RULES,
            _through(_all_reduce(_tree_of_nodes, algorithms.switch_part)),
        ),
        *_over("ring of nodes", _through(_all_reduce(algorithms.ring_all_reduce, _in_place)), BEST),
        *_over("halving of nodes", _through(_all_reduce(algorithms.doubling_all_reduce, _in_place)), BEST),
    ),
    "all_gather": (*_over("ring", _rings(1), RULES), *_over("ring of nodes", _through(_gather), BEST)),
    "reduce_scatter": (*_over("ring", _rings(1), RULES), *_over("ring of nodes", _through(_scatter), BEST)),
    "all_to_all": (
        *_over("all peers at once", _peers, RULES, PAIRED),
        *_over("inside, then rails", _through(_rails), BEST),
    ),
    "broadcast": (*_over("chain", _chains, RULES), *_over("tree of nodes", _through(_trees), BEST)),
}  # fmt: skip
NESTED = tuple(_WAYS)
