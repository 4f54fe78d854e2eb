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
        Its extent; where it is not even, of a group that begins at a node's first GPU: its GPUs in that node, and the
        nodes that it touches. Raises nothing.
    """
    stride, degree, gpus_per_node = jnp.asarray(stride), jnp.asarray(degree), jnp.asarray(gpus_per_node)
    spans = stride * degree
    within = _divides(spans, gpus_per_node)  # the group never leaves a node
    whole = _divides(gpus_per_node, spans) & _divides(stride, gpus_per_node)  # it fills its part of whole nodes
    apart = stride >= gpus_per_node  # every GPU of it is on a node of its own
    return Extent(
        inside=jnp.minimum(ceil_div(gpus_per_node, stride), degree),
        across=jnp.minimum(floor_div(spans - stride, gpus_per_node) + 1.0, degree),
        even=jnp.where((degree <= 1) | within | whole | apart, 1.0, 0.0),
    )


def _divides(number: Array, of: Array) -> Array:
    return of == floor_div(of, number) * number
