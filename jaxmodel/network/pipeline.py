"""Chunks that follow each other through parts of a collective, some inside the nodes, some between them.

    T = start + max( before_l + c busy_l + after_l  over the levels l,  one chunk + (c - 1) max busy of a part )

A part takes hops x alpha + bytes / rate. It keeps its level busy for the bytes of the busiest link and for an eighth of
one alpha, as a connection has slots for eight chunks whose flags are under way (`busy_l` sums a level's parts): later
hops of a chunk go on while the next chunk begins. `before_l` is what a
chunk takes until its first part on the level, `after_l` from the end of its last work there. Where a level that is free
takes the earliest part that waits, this is exact (`tests/oracles/chunk_pipeline.py` plays it).
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp

from ..types import Array, Floats
from .collective import CHUNKS
from .contention import link_rate
from .level import Level
from .steps import Steps

SLOTS = 8.0  # chunks of a connection that may be under way: NCCL_STEPS
Part = tuple[Steps, bool]  # and whether it runs between the nodes


def parts_seconds(
    parts: Sequence[Part], inside: str, between: str, gpus: Floats, nodes: Floats, inner: Level, outer: Level
) -> Array:
    """Seconds of all parts, without the start, for every number of chunks in `CHUNKS`, which is the first axis.

    Args:
        parts: with the bytes of all chunks together; each in proportion to its bytes.
        inside, between: protocols on the two levels.
        gpus, nodes: of a node, and how many; they say what shares links.
        inner, outer: the two levels' prices.
    """
    flag_s, hops_s, kept_s, moved_s = [], [], [], []
    for steps, crosses in parts:
        level = outer if crosses else inner
        prices = getattr(level, between if crosses else inside)
        rate = link_rate(prices, level, steps.traffic, nodes if crosses else gpus)
        copy_s = steps.local_bytes / level.copy_bytes_per_s
        flag_s.append(jnp.where(jnp.asarray(steps.hops) > 0, prices.hop_s / SLOTS, 0.0))
        hops_s.append(prices.hop_s * steps.hops)
        kept_s.append(steps.link_bytes / rate + copy_s)
        moved_s.append(steps.wire_bytes / rate + copy_s)

    def of_chunks(chunks: Floats) -> Floats:
        busy = [flag + kept / chunks for flag, kept in zip(flag_s, kept_s, strict=True)]
        whole = [hop + moved / chunks for hop, moved in zip(hops_s, moved_s, strict=True)]
        return chunks_seconds(busy, whole, [crosses for _, crosses in parts], chunks)

    return jax.vmap(of_chunks)(jnp.asarray(CHUNKS))  # one trace for all numbers of chunks


def chunks_seconds(
    busy_s: Sequence[Floats], whole_s: Sequence[Floats], crosses: Sequence[bool], chunks: Floats
) -> Floats:
    """Seconds until the last of c chunks is through parts in order.

    Args:
        busy_s: of each part, how long a chunk keeps its level busy.
        whole_s: of each part, how long a chunk is in it; at least `busy_s`.
        crosses: of each part, whether its level is the network; else the nodes.
        chunks: c, at least 1.
    """
    bounds = [sum(whole_s) + (chunks - 1) * _most(busy_s)]
    for network in (False, True):
        own = [place for place, which in enumerate(crosses) if which == network]
        if own:
            before, last = sum(whole_s[: own[0]]), own[-1]
            after = whole_s[last] - busy_s[last] + sum(whole_s[last + 1 :])
            bounds.append(before + chunks * sum(busy_s[place] for place in own) + after)
    return _most(bounds)


def _most(values: Sequence[Floats]) -> Floats:
    most = jnp.asarray(values[0])
    for value in values[1:]:
        most = jnp.maximum(most, value)
    return most
