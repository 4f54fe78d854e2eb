"""A collective on one level of a fabric: the algorithms and protocols that can run it, and the one that does.

Each way is priced as start + hops x alpha + peers x (a peer's) + wire bytes / rate + own bytes / copy rate. The rule
"nccl" is what the library does: rings over LL, LL128 or Simple and the switch's reduction where it has one, whichever
is least, and pairwise sends whose protocol goes by size. The rule "engine" adds the one-step kernels of inference
engines, "best" all algorithms.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax.numpy as jnp

from .._pytree import pytree
from ..types import Array, Bools, Floats
from . import steps as algorithms
from .contention import link_rate
from .level import Level, Protocol
from .steps import Steps

COLLECTIVES = ("all_gather", "reduce_scatter", "all_reduce", "all_to_all", "broadcast", "send")
RULES = ("nccl", "engine", "best")
CHUNKS = tuple(2.0**power for power in range(9))  # into how many pieces trees and chains may cut a message
CHAINED = ("ll", "ll128", "simple")
PAIRED = ("exchange_ll", "exchange")
SEND = "send"


@dataclass(frozen=True)
class Way:
    """One algorithm over one protocol, e.g. `ring` over `ll128`; `rules` that consider it."""

    algorithm: str
    protocol: str
    rules: tuple[str, ...]
    steps: Callable[[Floats, Floats], Steps]


@pytree
class CollectiveCost:
    """What a collective costs; every field broadcasts."""

    latency_s: Array  # inf where no way can run it
    way: Array  # index into `ways(collective, rule)`
    wire_bytes: Array  # on the busiest direction of a GPU's link
    hops: Array
    sms: Array  # that it occupies on each GPU while it runs


def ways(collective: str, rule: str = "nccl") -> tuple[Way, ...]:
    """The ways that one of `RULES` considers for one of `COLLECTIVES`, in the order of `CollectiveCost.way`."""
    return tuple(way for way in _WAYS[collective] if rule in way.rules)


def collective_cost(collective: str, bytes_: Floats, ranks: Floats, level: Level, rule: str = "nccl") -> CollectiveCost:
    """The cost of a collective by the least of the ways that the rule considers.

    Args:
        collective: one of `COLLECTIVES`.
        bytes_: as `jaxmodel.network.steps` counts them for the collective; above 0.
        ranks: GPUs that take part, whole numbers; 1 costs nothing.
        level: its links; all of them broadcast.
        rule: one of `RULES`.

    Returns:
        the cost; `latency_s` inf where no way is possible. Raises KeyError for an unknown collective.
    """
    least, chosen, wire, hops, sms = jnp.inf, 0, 0.0, 0.0, 0.0
    for place, way in enumerate(ways(collective, rule)):
        asked = way.steps(bytes_, ranks)
        seconds = way_seconds(way, bytes_, ranks, level, asked)
        better = seconds < least
        least = jnp.where(better, seconds, least)
        chosen = jnp.where(better, place, chosen)
        wire = jnp.where(better, asked.wire_bytes, wire)
        hops = jnp.where(better, asked.hops, hops)
        sms = jnp.where(better, getattr(level, way.protocol).sms, sms)
    alone = jnp.asarray(ranks) <= 1
    latency, wire, hops, sms = (jnp.where(alone, 0.0, value) for value in (least, wire, hops, sms))
    return CollectiveCost(latency_s=latency, way=chosen, wire_bytes=wire, hops=hops, sms=sms)


def way_seconds(way: Way, bytes_: Floats, ranks: Floats, level: Level, asked: Steps | None = None) -> Floats:
    """Seconds of one way; inf where it cannot run or, under a library's rule, is not chosen."""
    asked = way.steps(bytes_, ranks) if asked is None else asked
    protocol: Protocol = getattr(level, way.protocol)
    can = _allowed(way, bytes_, ranks, level) & asked.possible & (jnp.asarray(protocol.bytes_per_s) > 0)
    rate = link_rate(protocol, level, asked.traffic, ranks)
    seconds = (
        protocol.start_s
        + protocol.hop_s * asked.hops
        + protocol.peer_s * asked.peers
        + jnp.maximum(asked.wire_bytes / rate, asked.peer_bytes / protocol.peer_bytes_per_s)
        + asked.local_bytes / level.copy_bytes_per_s
    )
    return jnp.where(can, seconds, jnp.inf)


def _allowed(way: Way, bytes_: Floats, ranks: Floats, level: Level) -> Bools:
    if way.protocol in PAIRED:
        to_a_peer = bytes_ if way.algorithm == SEND else bytes_ / ranks
        little = to_a_peer <= level.exchange_ll_max_bytes
        return little if way.protocol == "exchange_ll" else ~jnp.asarray(little)
    if way.protocol in ("multicast", "multimem"):
        return jnp.asarray(ranks) >= level.multicast_ranks_min
    return jnp.asarray(True)


def _over(protocols: tuple[str, ...], algorithm: str, steps: Any, rules: tuple[str, ...]) -> tuple[Way, ...]:
    return tuple(Way(algorithm, protocol, rules, steps) for protocol in protocols)


def _in_chunks(algorithm: str, steps: Any, rules: tuple[str, ...]) -> tuple[Way, ...]:
    return tuple(
        way
        for chunks in CHUNKS
        for way in _over(CHAINED, f"{algorithm} in {chunks:.0f}", partial(steps, chunks=chunks), rules)
    )


_WAYS: dict[str, tuple[Way, ...]] = {
    "all_gather": (
        *_over(CHAINED, "ring", algorithms.ring_pass, RULES),
        *_over(CHAINED, "doubling", algorithms.doubling_pass, ("best",)),
        Way("one-shot", "direct", ("engine", "best"), algorithms.direct_pass),
        Way("in-switch", "multicast", ("best",), algorithms.switch_all_gather),
    ),
    "reduce_scatter": (
        *_over(CHAINED, "ring", algorithms.ring_pass, RULES),
        *_over(CHAINED, "halving", algorithms.doubling_pass, ("best",)),
        Way("one-shot", "direct", ("engine", "best"), algorithms.direct_pass),
        Way("in-switch", "multicast", ("best",), algorithms.switch_reduce_scatter),
    ),
    "all_reduce": (
        *_over(CHAINED, "ring", algorithms.ring_all_reduce, RULES),
        Way("in-switch", "multicast", RULES, algorithms.switch_all_reduce),
        Way("one-shot", "direct", ("engine", "best"), algorithms.one_shot_all_reduce),
        Way("two-shot", "direct", ("engine", "best"), algorithms.two_shot_all_reduce),
        Way("in-switch", "multimem", ("engine", "best"), algorithms.switch_all_reduce),
        *_over(CHAINED, "halving and doubling", algorithms.doubling_all_reduce, ("best",)),
        *_in_chunks("double tree", algorithms.tree_all_reduce, ("best",)),
    ),
    "all_to_all": (
        *_over(PAIRED, "all peers at once", algorithms.direct_pass, RULES),
        *_over(CHAINED, "a peer a step", algorithms.pairwise_exchange, ("best",)),
        Way("one-shot", "direct", ("engine", "best"), algorithms.direct_pass),
    ),
    "broadcast": (
        *_in_chunks("chain", algorithms.chain_broadcast, RULES),
        *_over(CHAINED, "binomial tree", algorithms.tree_broadcast, ("best",)),
        *_over(CHAINED, "scatter, all-gather", algorithms.scatter_gather_broadcast, ("best",)),
    ),
    "send": _over(PAIRED, SEND, algorithms.send, RULES),
}
