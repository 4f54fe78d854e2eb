"""The algorithms of collectives: how many dependent steps each takes and what each puts on a GPU's link.

Ranks p hold or receive m bytes: the vector (all-reduce, broadcast), all that is gathered (all-gather), the vector that
is scattered (reduce-scatter), a rank's whole send buffer, its own piece included (all-to-all), the message (send).
Every rank has one link to the fabric that moves bytes in both directions at once; `wire_bytes` is the sum over the
steps of what the busiest direction of the busiest link carries. The stages of each algorithm are played message by
message in `tests/oracles/collective_messages.py`.

Sources: ring, recursive halving and doubling, trees: Thakur et al. 2005; the double tree: Sanders et al. 2009, NCCL;
one-shot and two-shot: kernels of inference engines; in-switch reduction: NVLink SHARP.
"""

import jax.numpy as jnp

from .._pytree import pytree
from ..types import Array, Bools, Floats
from .contention import EVERYONE, NEIGHBOURS, STEPPED


@pytree
class Steps:
    """What an algorithm asks of the fabric."""

    hops: Array  # dependent steps
    peers: Array  # peers beyond the first, of one step: a second step with the same peers adds none
    wire_bytes: Array
    link_bytes: Array  # what the busiest link carries in all: less than `wire_bytes` where steps use different links
    peer_bytes: Array  # of them to one peer, in the steps after each other
    local_bytes: Array  # a rank's own piece, copied from its input to its output
    possible: Array  # False where the algorithm is not defined for this number of ranks
    traffic: int = NEIGHBOURS  # who sends to whom, as `contention.slowdown` tells them


def ring_pass(bytes_: Floats, ranks: Floats) -> Steps:
    """All-gather, or reduce-scatter, in p - 1 steps: each passes a p-th of the bytes to the next rank."""
    return _steps(ranks - 1, (ranks - 1) * (bytes_ / ranks), local=bytes_ / ranks)


def ring_all_reduce(bytes_: Floats, ranks: Floats) -> Steps:
    """A reduce-scatter, then an all-gather, in place."""
    return _steps(2 * (ranks - 1), 2 * (ranks - 1) * (bytes_ / ranks))


def doubling_pass(bytes_: Floats, ranks: Floats) -> Steps:
    """All-gather by recursive doubling, or reduce-scatter by halving: log2 p steps; powers of two only."""
    depth = tree_depth(ranks)
    wire, possible = (ranks - 1) * (bytes_ / ranks), _is_power_of_two(ranks)
    return _steps(depth, wire, bytes_ / ranks, possible=possible, traffic=STEPPED)


def doubling_all_reduce(bytes_: Floats, ranks: Floats) -> Steps:
    """Halving, then doubling, in place."""
    depth = tree_depth(ranks)
    wire, possible = 2 * (ranks - 1) * (bytes_ / ranks), _is_power_of_two(ranks)
    return _steps(2 * depth, wire, possible=possible, traffic=STEPPED)


def direct_pass(bytes_: Floats, ranks: Floats) -> Steps:
    """All-gather, reduce-scatter or all-to-all in one step: every rank exchanges a p-th with every other."""
    piece = bytes_ / ranks
    return _steps(1.0, (ranks - 1) * piece, piece, peers=ranks - 2, to_a_peer=piece, traffic=EVERYONE)


def pairwise_exchange(bytes_: Floats, ranks: Floats) -> Steps:
    """All-to-all in p - 1 steps, one peer each."""
    return _steps(ranks - 1, (ranks - 1) * (bytes_ / ranks), bytes_ / ranks, traffic=STEPPED)


def one_shot_all_reduce(bytes_: Floats, ranks: Floats) -> Steps:
    """Every rank reads every other's whole vector and adds up for itself."""
    return _steps(1.0, (ranks - 1) * bytes_, peers=ranks - 2, to_a_peer=bytes_, traffic=EVERYONE)


def two_shot_all_reduce(bytes_: Floats, ranks: Floats) -> Steps:
    """Each rank adds up one p-th and all read the sums."""
    wire, to_a_peer = 2 * (ranks - 1) * (bytes_ / ranks), 2 * (bytes_ / ranks)
    return _steps(2.0, wire, peers=ranks - 2, to_a_peer=to_a_peer, traffic=EVERYONE)


def tree_all_reduce(bytes_: Floats, ranks: Floats, chunks: Floats) -> Steps:
    """Two binary trees, each for half of the vector, every rank an inner node of one of them: the sums go up, then the
    results come down, cut into chunks that follow each other, a level a step. An inner node takes in (hands down) two
    chunks a step; the root has one child. Exact for powers of two, for other numbers what the next one costs."""
    depth, chunk = tree_depth(ranks), bytes_ / (2 * chunks)
    steps = depth + chunks - 1
    two_children = jnp.where(depth > 1, 2 * steps - 1, steps)  # chunks over all steps: the root's step has one
    whole = jnp.where(depth > 1, 2.0, 1.0) * bytes_
    return _steps(2 * steps, 2 * two_children * chunk, link_bytes=whole)


def tree_broadcast(bytes_: Floats, ranks: Floats) -> Steps:
    """A binomial tree: ceil(log2 p) steps of the whole message."""
    depth = tree_depth(ranks)
    return _steps(depth, depth * bytes_, link_bytes=depth * bytes_)  # the root sends in every step


def chain_broadcast(bytes_: Floats, ranks: Floats, chunks: Floats) -> Steps:
    """From rank to rank, cut into chunks that follow each other."""
    return _steps(ranks - 2 + chunks, (ranks - 2 + chunks) * (bytes_ / chunks))


def scatter_gather_broadcast(bytes_: Floats, ranks: Floats) -> Steps:
    """Pieces scattered down a binomial tree, then an all-gather over the ring."""
    return _steps(tree_depth(ranks) + ranks - 1, 2 * (ranks - 1) * (bytes_ / ranks))  # the root's link, then all


def send(bytes_: Floats, ranks: Floats) -> Steps:
    """One message to one peer."""
    return _steps(1.0 + 0 * ranks, bytes_)


def switch_all_reduce(bytes_: Floats, ranks: Floats) -> Steps:
    """Each rank reads the switch's sum of one p-th (every link gives its whole vector) and multicasts it: a link
    carries the vector and a p-th more each way."""
    return _steps(1.0 + 0 * ranks, bytes_ + bytes_ / ranks)


def switch_all_gather(bytes_: Floats, ranks: Floats) -> Steps:
    """Each rank multicasts its piece: a link takes in all of them."""
    return _steps(1.0 + 0 * ranks, bytes_)


def switch_reduce_scatter(bytes_: Floats, ranks: Floats) -> Steps:
    """Each rank reads the switch's sum of its piece: a link gives its whole vector."""
    return _steps(1.0 + 0 * ranks, bytes_)


def switch_part(bytes_: Floats, ranks: Floats) -> Steps:
    """Either half of an all-reduce through the switch: the sums that ranks read of their p-th, or these multicast. A
    chunk takes the vector's time; both halves together keep a link as busy as `switch_all_reduce`, as one fills the
    direction that the other leaves free."""
    return _steps(1.0 + 0 * ranks, bytes_, link_bytes=(bytes_ + bytes_ / ranks) / 2)


def tree_depth(ranks: Floats) -> Floats:
    """ceil(log2 p), exact for whole p up to 2^16 by comparisons with the powers of two."""
    return sum(jnp.where(ranks > 2.0**power, 1.0, 0.0) for power in range(16))


def _is_power_of_two(ranks: Floats) -> Bools:
    return sum(jnp.where(ranks == 2.0**power, 1.0, 0.0) for power in range(17)) > 0  # 2.0**depth may be inexact


def _steps(
    hops: Floats,
    wire: Floats,
    local: Floats = 0.0,
    peers: Floats = 0.0,
    to_a_peer: Floats | None = None,
    link_bytes: Floats | None = None,
    possible: Bools = True,
    traffic: int = NEIGHBOURS,
) -> Steps:
    return Steps(
        hops=hops,
        peers=jnp.maximum(peers, 0.0),
        wire_bytes=wire,
        link_bytes=wire if link_bytes is None else link_bytes,
        peer_bytes=wire if to_a_peer is None else to_a_peer,
        local_bytes=local,
        possible=possible,
        traffic=traffic,
    )
