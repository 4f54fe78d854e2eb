"""Ways to move data between GPUs while something is computed, and what a transfer costs on each."""

import jax.numpy as jnp

from .._pytree import pytree
from ..overlap import Link
from ..types import Array, Floats

COPY_ENGINES, SMS, LIBRARY = range(3)  # codes of `transport`


@pytree
class Way:
    """A transfer of b bytes holds the link for hold_s + b / bytes_per_s and is there start_s after it left it."""

    bytes_per_s: Array
    start_s: Array
    hold_s: Array
    there: Array  # 1: the fabric has it, and there are SMs for it where it needs some


def way_of(link: Link, transport: Floats, comm_sms: Floats) -> Way:
    """The way of a transport.

    Copy engines need no SM. SMs load and store at the rate of one times their number, up to that of the links, and
    raise a flag behind the bytes. A library's send is a kernel of its own every time, which SMs run as well.

    Args:
        link: one GPU's way to its peers.
        transport: COPY_ENGINES, SMS or LIBRARY.
        comm_sms: SMs that move data.
    """
    copies = transport < SMS
    by_sms = jnp.where(link.sm_bytes_per_s > 0, comm_sms * link.sm_bytes_per_s, link.remote_bytes_per_s)
    by_sms = jnp.where(comm_sms > 0, jnp.minimum(by_sms, link.remote_bytes_per_s), 0.0)
    rate = jnp.where(copies, link.copy_bytes_per_s, by_sms)
    kernel_s = jnp.where(transport > SMS, link.start_s, 0.0)
    return Way(
        bytes_per_s=jnp.where(rate > 0, rate, link.remote_bytes_per_s),
        start_s=jnp.where(copies, link.copy_start_s, link.hop_s + kernel_s),
        hold_s=jnp.where(copies, link.copy_chunk_s, jnp.where(transport > SMS, 0.0, link.flag_s)),
        there=jnp.where(rate > 0, 1.0, 0.0),
    )
