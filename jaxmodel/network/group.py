"""A collective of a group of GPUs, some in each of some nodes: what a layout of a model over a fabric asks for.

A group has `inside` GPUs in each of `across` nodes. In one node it runs on the inner level alone; with one GPU a node
on the network alone; else over both (`hierarchy.py`).
"""

import jax.numpy as jnp

from .._pytree import pytree
from ..types import Array, Floats
from .collective import SEND, collective_cost
from .hierarchy import nested_cost
from .level import Level


@pytree
class GroupCost:
    """What a collective of a group costs; every field broadcasts."""

    latency_s: Array  # inf where no way can run it
    network_bytes: Array  # on one GPU's link to the network, each direction


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
    one_node, one_each = jnp.asarray(across) <= 1, jnp.asarray(inside) <= 1
    if outer is None:
        return GroupCost(latency_s=jnp.where(one_node, within.latency_s, jnp.inf), network_bytes=0.0 * within.hops)
    between = collective_cost(collective, bytes_, across, outer, rule)
    if collective == SEND:
        return GroupCost(
            latency_s=jnp.where(one_node, within.latency_s, between.latency_s),
            network_bytes=jnp.where(one_node, 0.0, between.wire_bytes),
        )
    both = nested_cost(collective, bytes_, inside, across, inner, outer)
    return GroupCost(
        latency_s=jnp.where(one_node, within.latency_s, jnp.where(one_each, between.latency_s, both.latency_s)),
        network_bytes=jnp.where(one_node, 0.0, jnp.where(one_each, between.wire_bytes, both.network_bytes)),
    )
