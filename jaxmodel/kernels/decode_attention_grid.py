"""How decode attention is cut: groups of query rows, blocks of keys, splits, and what a CTA walks."""

import jax.numpy as jnp

from .._exact import ceil_div, ceil_div_by_reciprocal
from .._pytree import pytree
from ..machine import Gpu
from ..types import Array, Floats
from .decode_attention_types import SCHEDULER_STREAM, DecodeAttention, DecodeAttentionSchedule


@pytree
class Cut:
    """Tiles before and after splitting, and the blocks of keys that each walks."""

    rows: Array  # query rows of a KV head (packed) or of a head
    row_tiles: Array  # tiles that these make
    readers: Array  # tiles that read the same keys and values
    output_tiles: Array  # of the whole problem, before splitting
    keys: Array  # that a tile's rows see, mean
    blocks: Array  # of keys, of a tile before splitting
    parts: Array  # that its keys are cut into and that hold any
    trips: Array  # blocks that a part walks
    tiles: Array  # parts of all tiles


def cut(problem: DecodeAttention, schedule: DecodeAttentionSchedule) -> Cut:
    """The problem in tiles, without a schedule's stream (`streamed`).

    A tile's rows see on average the keys up to the middle of its queries, and at most the window.
    """
    packed = schedule.pack_gqa > 0
    group = jnp.where(packed, problem.heads / problem.kv_heads, 1.0)
    rows = problem.q_tokens * group
    row_tiles = ceil_div_by_reciprocal(rows, schedule.tile_rows)
    output_tiles = problem.batch * jnp.where(packed, problem.kv_heads, problem.heads) * row_tiles
    queries = jnp.minimum(problem.q_tokens, schedule.tile_rows / group)  # of a tile
    hidden = jnp.where(problem.causal > 0, 0.5 * jnp.maximum(problem.q_tokens - queries, 0.0), 0.0)
    seen = jnp.where(problem.window > 0, problem.window + queries - 1.0, problem.kv_tokens)
    keys = jnp.maximum(jnp.minimum(problem.kv_tokens - hidden, seen), 1.0)
    blocks = ceil_div(jnp.ceil(keys), schedule.tile_n)
    trips = ceil_div(blocks, schedule.splits)
    parts = ceil_div(blocks, trips)
    return Cut(
        rows=rows,
        row_tiles=row_tiles,
        readers=row_tiles * jnp.where(packed, 1.0, problem.heads / problem.kv_heads),
        output_tiles=output_tiles,
        keys=keys,
        blocks=blocks,
        parts=parts,
        trips=trips,
        tiles=output_tiles * parts,
    )


@pytree
class Walk:
    """What the busiest SM does, and how many tiles that makes in all."""

    at_once: Array  # CTAs an SM
    rounds: Array  # tiles (parts of them) that a CTA slot works on, one after the other
    trips: Array  # blocks of keys in each
    resident: Array  # CTAs that the busiest SM runs beside each other, at most `at_once`
    parts: Array  # that a tile is cut into
    tiles: Array  # parts of all tiles


def walk(schedule: DecodeAttentionSchedule, cut: Cut, at_once: Floats, gpu: Gpu) -> Walk:
    """Tiles a CTA slot and blocks a tile: an SM gets ceil(tiles / SMs) tiles at most, of which `at_once` run together.

    A stream deals all blocks evenly: a slot works on the tiles that its share touches, one more than it has whole ones.
    """
    stream = schedule.scheduler == SCHEDULER_STREAM
    an_sm = ceil_div(cut.tiles, gpu.sm_count)
    rounds = ceil_div_by_reciprocal(an_sm, at_once)
    total = cut.output_tiles * cut.blocks
    slots = jnp.minimum(gpu.sm_count * at_once, total)
    share = ceil_div(total, slots)
    touched = jnp.minimum(ceil_div(cut.output_tiles, slots) + 1.0, share)
    return Walk(
        at_once=at_once,
        rounds=jnp.where(stream, touched, rounds),
        trips=jnp.where(stream, ceil_div(share, touched), cut.trips),
        resident=jnp.where(stream, ceil_div_by_reciprocal(slots, gpu.sm_count), ceil_div_by_reciprocal(an_sm, rounds)),
        parts=jnp.where(stream, jnp.ceil(jnp.maximum(slots / cut.output_tiles, 1.0)), cut.parts),
        tiles=jnp.where(stream, slots * touched, cut.tiles),
    )
