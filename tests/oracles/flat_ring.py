"""Rings and chains through all GPUs of nodes, link by link: which piece is where when.

A link (from a GPU to the next) takes pieces one after the other, each for `busy` seconds, and hands each on `alpha`
later. The last GPU of a node sends to the next node's first.
"""

Link = tuple[float, float]  # seconds that a piece keeps it, alpha


def links(gpus: int, nodes: int, inner: Link, outer: Link) -> list[Link]:
    """Of each GPU to the next, round."""
    last = nodes > 1
    return [outer if last and place % gpus == gpus - 1 else inner for place in range(gpus * nodes)]


def ring_seconds(hops: int, gpus: int, nodes: int, inner: Link, outer: Link) -> float:
    """Every GPU begins with a piece of its own; each link serves `hops` pieces."""
    ring = links(gpus, nodes, inner, outer)
    arrived = [0.0] * len(ring)  # when the piece that a GPU sends next has come
    free = [0.0] * len(ring)
    for _ in range(hops):
        free = [max(at, begin) + busy for at, begin, (busy, _) in zip(arrived, free, ring, strict=True)]
        handed = [at + alpha for at, (_, alpha) in zip(free, ring, strict=True)]
        arrived = [handed[place - 1] for place in range(len(ring))]
    return max(arrived)


def chain_seconds(chunks: int, gpus: int, nodes: int, inner: Link, outer: Link) -> float:
    """The first GPU has all chunks; the last link of the ring is not used."""
    chain = links(gpus, nodes, inner, outer)[:-1]
    free, last = [0.0] * len(chain), 0.0
    for _ in range(chunks):
        at = 0.0
        for place, (busy, alpha) in enumerate(chain):
            free[place] = max(free[place], at) + busy
            at = free[place] + alpha
        last = at
    return last
