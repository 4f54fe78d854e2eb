"""Ulysses attention: ranks trade tokens for heads, attend to all tokens of their heads, and trade back.

A rank's heads go in C chunks. The link takes the C exchanges of Q, K and V first, one after the other, then those of
the outputs, each once its attention is done. With c and o seconds of the link for a chunk's way in and out, L from the
link to its being seen and a for its attention, chunk i is attended to by E_i = max(E_{i-1}, L + i c) + a and is back
at D_i + L, D_i = max(E_i, D_{i-1}) + o, D_0 = C c. Unrolled, every path is a line in the chunks at which it changes
from one server to the next, so that ends decide:

    D_C + L = L + max(C (c + o), L + c + a + C o, L + c + C a + o, L + C c + a + o)

Chunks that share one KV head need its K and V first: all of it so much later.

Played chunk by chunk in `tests/oracles/spread_attention.py`. Equations: docs/fused-communication-moe-attention.md.
"""

import dataclasses

import jax.numpy as jnp

from .._exact import ceil_div_by_reciprocal, uneven
from ..machine import Gpu
from ..reasons import first_reason
from ..types import Floats
from . import attention
from .fused_gemm_types import FusedCost
from .spread_attention import Around, added_up, sms_left, way_checks
from .spread_attention_types import Ulysses, UlyssesSchedule
from .transport import way_of


def exchanged_seconds(chunks: Floats, tile_s: Floats, in_s: Floats, out_s: Floats, late_s: Floats) -> Floats:
    """From the first exchange's start to the last output's being back: D_C + L above.

    Args:
        chunks: C, whole, at least 1.
        tile_s: a, of a chunk's attention.
        in_s, out_s: c and o, of the link for a chunk.
        late_s: L.
    """
    links_s = chunks * (in_s + out_s)
    first_s, last_s = in_s + tile_s, tile_s + out_s
    through_s = jnp.maximum(
        first_s + chunks * out_s, jnp.maximum(in_s + out_s + chunks * tile_s, chunks * in_s + last_s)
    )
    return late_s + jnp.maximum(links_s, late_s + through_s)


def cost(problem: Ulysses, schedule: UlyssesSchedule, gpu: Gpu) -> FusedCost:
    """The cost of one rank's part, as a breakdown; see `jaxmodel.kernels.attention.cost`.

    With one chunk nothing overlaps, and all SMs compute; with more, `comm_sms` do not.
    """
    of, chunks = problem.attention, schedule.chunks
    way = way_of(problem.link, schedule.transport, schedule.comm_sms)
    heads = dataclasses.replace(
        of,
        heads=ceil_div_by_reciprocal(of.heads, chunks),
        kv_heads=jnp.maximum(ceil_div_by_reciprocal(of.kv_heads, chunks), 1.0),
    )
    launch = attention.cost(heads, schedule, sms_left(gpu, jnp.where(chunks > 1, schedule.comm_sms, 0.0)))
    held_s = (problem.link.ranks - 1.0) * way.hold_s
    shared = of.kv_heads < 2
    in_bytes = problem.q_bytes + jnp.where(shared, 0.0, problem.kv_bytes)
    ahead_s = jnp.where(shared, problem.kv_bytes / way.bytes_per_s, 0.0)
    end_s = ahead_s + exchanged_seconds(
        chunks,
        launch.latency_s,
        held_s + in_bytes / (chunks * way.bytes_per_s),
        held_s + problem.out_bytes / (chunks * way.bytes_per_s),
        way.start_s,
    )
    around = Around(
        exposed_s=jnp.maximum(end_s - chunks * launch.latency_s, 0.0),
        net_s=(problem.q_bytes + problem.kv_bytes + problem.out_bytes) / way.bytes_per_s,
    )
    wrong = uneven(of.heads, chunks) | (jnp.logical_not(shared) & uneven(of.kv_heads, chunks))
    reason = first_reason(way_checks(way, gpu, schedule.comm_sms, wrong))
    return added_up([(launch, chunks)], around, reason, gpu)
