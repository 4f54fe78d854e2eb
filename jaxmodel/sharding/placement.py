"""Where the GPUs of a group lie: how many of them in one node, and over how many nodes.

GPUs are numbered through, node after node. Axes of a layout are nested: the innermost takes neighbours, the next one
steps over them. A group along an axis is `degree` GPUs that lie `stride` apart, stride the product of the axes inside.
"""

import jax.numpy as jnp

from .._exact import ceil_div, floor_div
from .._pytree import pytree
from ..types import Array, Floats


@pytree
class Extent:
    """Of a group; every field broadcasts."""

    inside: Array  # GPUs of it in each node
    across: Array  # nodes
    even: Array  # 1 where every node has as many of its GPUs, whichever group along the axis; else 0


def extent(stride: Floats, degree: Floats, gpus_per_node: Floats) -> Extent:
    """How a group along an axis lies on nodes.

    Args:
        stride: GPUs from one of its GPUs to the next, at least 1.
        degree: GPUs of the group, at least 1.
        gpus_per_node: at least 1.

    Returns:
        Its extent; where it is not even, that of a group which begins at a node's first GPU. Raises nothing.
    """
    spans = jnp.asarray(stride) * degree
    inside = jnp.clip(floor_div(gpus_per_node, stride), 1.0, degree)
    across = ceil_div(degree, inside)
    within = _divides(spans, gpus_per_node)  # the group never leaves a node
    whole = _divides(gpus_per_node, spans) & _divides(stride, gpus_per_node)  # it fills its part of whole nodes
    apart = _divides(gpus_per_node, stride)  # every GPU of it is on a node of its own
    alone = jnp.asarray(degree) <= 1
    inside, across = jnp.where(alone, 1.0, inside), jnp.where(alone, 1.0, across)
    return Extent(inside=inside, across=across, even=jnp.where(alone | within | whole | apart, 1.0, 0.0))


def _divides(number: Floats, of: Floats) -> Array:
    return jnp.asarray(of) == floor_div(of, number) * number
