"""Records of the exchanges of a mixture of experts: tokens to the ranks of their experts, results back."""

from .._pytree import pytree
from ..overlap import Link
from ..types import Array

DIRECT, BUFFERED, LOW_LATENCY = range(3)  # codes of `transport`
PER_EXPERT, PER_RANK = range(2)  # codes of `copies`


@pytree
class ExchangeNumbers:
    """What a library's exchange adds to the fabric; the defaults are a bare ideal one's."""

    sm_bytes_per_s: Array = 0.0  # that one SM moves; 0: the fabric's number
    row_s: Array = 0.0  # that one SM spends on a row beside its bytes
    call_s: Array = 0.0  # a call beyond its launch: counts, barriers, small kernels


@pytree
class Network:
    """One GPU's way to other nodes; a rate of 0: there is one node."""

    bytes_per_s: Array
    hop_s: Array


@pytree
class Exchange:
    """Rows that one of `link.ranks` ranks sends (dispatch) or gets back (combine), and all others alike.

    A row goes to every expert of its token, or once to every rank among them, or once to every node. Of the first two
    1 / ranks stay on the rank, of the last 1 / nodes in the node.
    """

    tokens: Array  # of a rank
    expert_rows: Array
    rank_rows: Array
    node_rows: Array
    row_bytes: Array  # as it travels, scales included
    combine: Array  # 1: rows of a token are added up where they arrive
    ranks: Array  # of all nodes; link.ranks are those of one
    link: Link
    network: Network
    numbers: ExchangeNumbers


@pytree
class ExchangeSchedule:
    """How rows travel. What is no matter of a transport is ignored there."""

    transport: Array  # 0 direct, 1 through buffers of the peer, 2 low latency
    copies: Array  # 0 a row for every expert, 1 one for every rank
    comm_sms: Array  # SMs that move rows
    chunk_rows: Array  # rows behind a flag (buffered)
    queue_rows: Array  # rows under way an SM (direct), or a buffer holds (buffered)
