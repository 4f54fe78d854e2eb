"""A collective of a group of GPUs, some in each of some nodes: what a layout of a model over a fabric asks for.

A group has `inside` GPUs in each of `across` nodes. In one node it runs on the inner level alone; with one GPU a node
on the network alone, by the better of one level's ways and those over nodes (trees); else over both (`hierarchy.py`).
"""

import jax.numpy as jnp

from .._pytree import pytree
from ..types import Array, Floats
from .collective import collective_cost
from .hierarchy import nested_cost
from .level import Level
from .nested_ways import NESTED


@pytree
class GroupCost:
    """What a collective of a group costs; every field broadcasts."""

    latency_s: Array  # inf where no way can run it
    network_bytes: Array  # on one GPU's link to the network, each direction
    sms: Array  # that it occupies on each GPU while it runs


def group_cost(
    collective: str,
    bytes_: Floats,
    inside: Floats,
    across: Floats,
    inner: Level,
    outer: Level | None,
    rule: str = "nccl",
) -> GroupCost:
    """The cost of one collective of a group, elementwise; to be traced once a collective.

    Args:
        collective: one of `jaxmodel.network.COLLECTIVES`.
        bytes_: as `jaxmodel.network.steps` counts them for the collective; above 0.
        inside: GPUs of the group in each node, a whole number.
        across: nodes that it spans, a whole number; 1 x 1 costs nothing.
        inner: the links inside a node.
        outer: one GPU's links to the network; None: there is none, and groups in several nodes take forever. A message
            (send) goes over it where the group spans nodes.
        rule: one of `jaxmodel.network.RULES`.

    Returns:
        the cost; all arguments broadcast. Raises KeyError for an unknown collective.
    """
    within = collective_cost(collective, bytes_, inside, inner, rule)
    one_node = jnp.asarray(across) <= 1
    if outer is None:
        unreachable = jnp.where(one_node, within.latency_s, jnp.inf)
        return GroupCost(latency_s=unreachable, network_bytes=0.0 * within.hops, sms=within.sms)
    between = collective_cost(collective, bytes_, across, outer, rule)
    times, moved, sms = between.latency_s, between.wire_bytes, between.sms
    if collective in NESTED:
        both = nested_cost(collective, bytes_, inside, across, inner, outer, rule)
        better = (jnp.asarray(inside) > 1) | (both.latency_s < times)
        times = jnp.where(better, both.latency_s, times)
        moved, sms = jnp.where(better, both.network_bytes, moved), jnp.where(better, both.sms, sms)
    return GroupCost(
        latency_s=jnp.where(one_node, within.latency_s, times),
        network_bytes=jnp.where(one_node, 0.0, moved),
        sms=jnp.where(one_node, within.sms, sms),
    )
