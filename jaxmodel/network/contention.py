"""Links that several share: GPUs with one NIC, and leaf switches with less uplink than their ranks' links (eq 11).

Ranks stand in order, L to a leaf. An uplink of a leaf moves L rates / ratio. Eq 11 puts on it all bytes that leave the
leaf; how many do depends on who sends to whom:

    neighbours  (rings, chains, trees)            one rank of L sends out of the leaf:   max(1, ratio / L)
    everyone    (all peers at once)               (p - L) of p - 1 peers are elsewhere:  max(1, ratio (p - L) / (p - 1))
    stepped     (doubling, halving, peer by peer) steps inside leaves, then steps in which all cross: the mean of 1 and
                                                  the ratio, weighed by their bytes

The first is exact for rings and chains and near for trees; the last for powers of two.
"""

import jax.numpy as jnp

from ..types import Array, Floats
from .level import Level, Protocol

NEIGHBOURS, STEPPED, EVERYONE = range(3)  # who sends to whom: `Steps.traffic`


def slowdown(level: Level, traffic: int, ranks: Floats) -> Floats:
    """What bytes take over what they would on links of one's own; at least 1.

    Args:
        level: its `gpus_per_link`, `oversubscription` and `leaf_ranks`.
        traffic: `NEIGHBOURS`, `STEPPED` or `EVERYONE`.
        ranks: p, that take part; they fill leaf after leaf.
    """
    leaf = jnp.maximum(jnp.minimum(level.leaf_ranks, ranks), 1.0)
    elsewhere = (ranks - leaf) / jnp.maximum(ranks - 1.0, 1.0)
    ratio = level.oversubscription
    if traffic == NEIGHBOURS:
        uplink = jnp.where(jnp.asarray(ranks) > leaf, jnp.maximum(ratio / leaf, 1.0), 1.0)
    elif traffic == STEPPED:
        uplink = 1.0 + (jnp.maximum(ratio, 1.0) - 1.0) * elsewhere
    else:
        uplink = jnp.maximum(ratio * elsewhere, 1.0)
    return uplink * level.gpus_per_link


def link_rate(protocol: Protocol, level: Level, traffic: int, ranks: Floats) -> Array:
    """Bytes a second of one GPU's link with what it shares; 1 where the level lacks the protocol."""
    has = jnp.asarray(protocol.bytes_per_s) > 0
    return jnp.where(has, protocol.bytes_per_s, 1.0) / slowdown(level, traffic, ranks)
