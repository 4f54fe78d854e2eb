"""One level of a fabric: GPUs that a switch, a bridge or a network joins, and what each protocol costs over it.

A protocol is a way to move a message: how long a kernel that uses it takes to start, what a dependent step costs (a
flag written, seen and answered), what each further peer costs, the rate of one GPU's link in one direction, and the SMs
that its kernel holds meanwhile. NCCL's protocols carry flags with the data (LL: a flag beside every 4 bytes; LL128: 120
of 128 bytes are data) or after it (Simple).
"""

from .._pytree import pytree
from ..types import Array


@pytree
class Protocol:
    """Prices of one way to move messages; a rate of 0: the level does not have it."""

    start_s: Array  # launch of the collective's kernel, until the first byte is on its way and after the last
    hop_s: Array  # one dependent step: alpha of eq 11
    peer_s: Array  # each peer beyond the first that a rank talks to in the same step
    bytes_per_s: Array  # one GPU's link, each direction: 1 / beta
    peer_bytes_per_s: Array = float("inf")  # to one peer: the channels that serve it
    sms: Array = 0.0  # that the kernel occupies while it runs, at most; copy engines take none


@pytree
class Level:
    """GPUs joined by one kind of link, and the prices of moving data among them. Every field broadcasts.

    Where a level joins nodes, a rank is a node: each GPU has its link, and a leaf switch joins `leaf_ranks` of them.
    """

    ll: Protocol  # flags in the data, chained steps
    ll128: Protocol
    simple: Protocol
    exchange_ll: Protocol  # pairwise sends (all-to-all, send and receive): little data
    exchange: Protocol  # the same: much data
    direct: Protocol  # loads and stores to peers' memory by a kernel of its own, as inference engines have them
    multicast: Protocol  # the switch reduces and multicasts (NVLS), the library's kernel
    multimem: Protocol  # the same, an inference engine's kernel
    exchange_ll_max_bytes: Array  # to one peer: the library's rule for pairwise sends
    multicast_ranks_min: Array  # the library's rule
    copy_bytes_per_s: Array  # a rank's own piece, copied beside the transfers
    gpus_per_link: Array = 1.0  # that share a link and use it at the same time: a NIC for two GPUs
    oversubscription: Array = 1.0  # of a leaf switch: rate of its ranks' links over that of its uplinks
    leaf_ranks: Array = float("inf")  # ranks that a leaf switch joins
