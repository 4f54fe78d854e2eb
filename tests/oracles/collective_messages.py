"""Collectives played message by message: who sends what to whom in each step, over links that messages share fairly.

Written from the algorithms (Thakur et al. 2005; Sanders et al. 2009), not from `jaxmodel.network`. A rank has a link
out and a link in; messages of a step start together after the step's latency, share links by max-min fairness, and the
next step begins when all have arrived. Ranks may stand in leaves with an uplink and a downlink that all share.
"""

from collections.abc import Iterator

Message = tuple[int, int, float]  # from, to, bytes
Steps = list[list[Message]]


def played_seconds(steps: Steps, hop_s: float, bytes_per_s: float, leaf: int = 0, ratio: float = 1.0) -> float:
    """Seconds from the first step's start to the last message's arrival."""
    return sum(hop_s + transfer_seconds(messages, bytes_per_s, leaf, ratio) for messages in steps)


def transfer_seconds(messages: list[Message], bytes_per_s: float, leaf: int = 0, ratio: float = 1.0) -> float:
    """Seconds until all messages that start together have arrived.

    `leaf` ranks share an uplink and a downlink of leaf x bytes_per_s / ratio for what leaves and enters; 0: none do.
    """
    left = {place: amount for place, (_, _, amount) in enumerate(messages) if amount > 0}
    links = {place: _links(*messages[place][:2], leaf) for place in left}
    rates_of = {
        link: bytes_per_s * (leaf / ratio if link[0] in ("up", "down") else 1) for m in links.values() for link in m
    }
    now = 0.0
    while left:
        rates = _fair_rates({place: links[place] for place in left}, rates_of)
        step = min(left[place] / rates[place] for place in left)
        now += step
        left = {place: amount - rates[place] * step for place, amount in left.items()}
        left = {place: amount for place, amount in left.items() if amount > 1e-12 * messages[place][2]}
    return now


def _links(source: int, target: int, leaf: int) -> tuple[tuple[str, int], ...]:
    own = (("out", source), ("in", target))
    if leaf and source // leaf != target // leaf:
        return (*own, ("up", source // leaf), ("down", target // leaf))
    return own


def _fair_rates(links: dict[int, tuple], rates_of: dict[tuple, float]) -> dict[int, float]:
    """Max-min fairness by progressive filling."""
    rates: dict[int, float] = {}
    room = {link: rates_of[link] for path in links.values() for link in path}
    while len(rates) < len(links):
        users = {link: [m for m, path in links.items() if link in path and m not in rates] for link in room}
        share, link = min((room[link] / len(own), link) for link, own in users.items() if own)
        for message in users[link]:
            rates[message] = share
            for other in links[message]:
                room[other] -= share
    return rates


def ring_pass(p: int, m: float) -> Steps:
    return [[(r, (r + 1) % p, m / p) for r in range(p)] for _ in range(p - 1)]


def ring_all_reduce(p: int, m: float) -> Steps:
    return ring_pass(p, m) + ring_pass(p, m)


def doubling_pass(p: int, m: float) -> Steps:
    steps, held = [], 1
    while held < p:
        steps.append([(r, r ^ held, held * m / p) for r in range(p)])
        held *= 2
    return steps


def doubling_all_reduce(p: int, m: float) -> Steps:
    return doubling_pass(p, m)[::-1] + doubling_pass(p, m)


def direct_pass(p: int, m: float) -> Steps:
    return [[(r, q, m / p) for r in range(p) for q in range(p) if q != r]]


def pairwise_exchange(p: int, m: float) -> Steps:
    return [[(r, (r + far) % p, m / p) for r in range(p)] for far in range(1, p)]


def one_shot_all_reduce(p: int, m: float) -> Steps:
    return [[(r, q, m) for r in range(p) for q in range(p) if q != r]]


def two_shot_all_reduce(p: int, m: float) -> Steps:
    return direct_pass(p, m) + direct_pass(p, m)


def tree_broadcast(p: int, m: float) -> Steps:
    steps, held = [], 1
    while held < p:
        steps.append([(r, r + held, m) for r in range(held) if r + held < p])
        held *= 2
    return steps


def chain_broadcast(p: int, m: float, chunks: int) -> Steps:
    return [[(r, r + 1, m / chunks) for r in range(p - 1) if 0 <= step - r < chunks] for step in range(p - 2 + chunks)]


def scatter_gather_broadcast(p: int, m: float) -> Steps:
    """The upper half of the pieces goes to the middle rank, each half goes on so; of other numbers than powers of two
    the pieces beyond the last rank are not there."""
    steps, far = [], 1
    while 2 * far < p:
        far *= 2
    while far and p > 1:
        steps.append([(r, r + far, (min(r + 2 * far, p) - r - far) * m / p) for r in range(0, p - far, 2 * far)])
        far //= 2
    return steps + ring_pass(p, m)


def double_tree_all_reduce(p: int, m: float, chunks: int) -> Steps:
    """Of powers of two: two binary trees, the second with every rank moved by one; sums go up, results come down."""
    edges = [
        ((child + turn) % p, (parent + turn) % p, level) for turn in (0, 1) for child, parent, level in _tree_edges(p)
    ]
    depth = p.bit_length() - 1
    chunk = m / (2 * chunks)
    up = [
        [(child, parent, chunk) for child, parent, level in edges if 0 <= step - level < chunks]
        for step in range(depth + chunks - 1)
    ]
    down = [
        [(parent, child, chunk) for child, parent, level in edges if 0 <= step - (depth - 1 - level) < chunks]
        for step in range(depth + chunks - 1)
    ]
    return up + down


def _tree_edges(p: int) -> Iterator[tuple[int, int, int]]:
    """(child, parent, level from the leaves) of the in-order binary tree of 1..p-1 under rank 0."""
    for rank in range(1, p):
        bit = rank & -rank
        parent = (rank ^ bit) | (bit << 1)
        yield rank, parent if parent < p else rank ^ bit, bit.bit_length() - 1
