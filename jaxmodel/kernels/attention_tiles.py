"""Attention's tiles: how many there are, how many blocks of keys each walks, and when the last SM is through.

Tile i of a line (a query head of a sequence, or a KV head with its packed query heads) holds rows (i - 1) tile_m + 1 to
i tile_m. With a causal mask it walks the keys up to its last row's, diagonal blocks whole, so tiles of a line differ:
an arithmetic progression, whose sums and order statistics have closed forms. No tile is enumerated.
"""

import jax.numpy as jnp

from .._exact import ceil_div, cheap_gcd, floor_div
from .._pytree import pytree
from ..machine import Gpu
from ..types import Array, Floats
from .attention_types import Attention, AttentionSchedule, SequenceClass

PROBED_WAVES = (2.0, 3.0, 4.0, 6.0, 8.0)  # waves after which the longest tile still to come is looked at
OUT_OF_STEP = 100.0  # tiles whose blocks vary by more than 1 / this (squared, of the mean) leave slots out of step


@pytree
class TileClass:
    """The tiles of all sequences of one length. Blocks are counted before KV splits divide them."""

    lines: Array  # sequences x heads (KV heads where packed)
    tiles: Array  # of a line
    rows: Array  # of a line
    group: Array  # rows of one query token: query heads a KV head where packed, else 1
    prefix: Array  # keys before the first query's own
    keys: Array
    longest: Array  # blocks of a line's last tile
    blocks: Array  # of all tiles of a line


def tile_classes(problem: Attention, schedule: AttentionSchedule) -> list[TileClass]:
    """The launch's tiles, one class a sequence length."""
    own = SequenceClass(batch=problem.batch, q_tokens=problem.q_tokens, kv_tokens=problem.kv_tokens)
    return [_tile_class(problem, schedule, sequences) for sequences in (own, *problem.more)]


def blocks_of(problem: Attention, schedule: AttentionSchedule, tiles: TileClass, number: Floats) -> Floats:
    """Blocks of keys that tile `number` (1 to `tiles.tiles`) of a line walks: whole blocks up to its last row's key,
    from the block of the first key in its first row's window on."""
    step = schedule.tile_n * tiles.group
    end = jnp.minimum(number * schedule.tile_m, tiles.rows) + tiles.prefix * tiles.group
    masked = ceil_div(end, step)
    behind = (number - 1.0) * schedule.tile_m + (tiles.prefix + 1.0 - problem.window) * tiles.group
    skipped = jnp.where(problem.window > 0, floor_div(jnp.maximum(behind, 0.0), step), 0.0)
    return jnp.where(problem.causal > 0, masked - skipped, ceil_div(tiles.keys, schedule.tile_n))


def split_blocks(blocks: Floats, splits: Floats) -> Floats:
    """Blocks of the longest part when a tile's keys are cut into `splits` parts."""
    return ceil_div(blocks, splits)


def mean_split_blocks(blocks: Floats, tiles: Floats, splits: Floats) -> Floats:
    """Blocks of one part of each tile, added up over tiles of `blocks` in all: cut evenly, half a block lost to the
    rounding in the mean, at least one."""
    return jnp.maximum(blocks / splits + tiles * 0.5 * (splits - 1.0) / splits, tiles)


def _tile_class(problem: Attention, schedule: AttentionSchedule, sequences: SequenceClass) -> TileClass:
    packed = schedule.pack_gqa > 0
    group = jnp.where(packed, problem.heads / problem.kv_heads, 1.0)
    rows = sequences.q_tokens * group
    tiles = TileClass(
        lines=sequences.batch * jnp.where(packed, problem.kv_heads, problem.heads),
        tiles=ceil_div(rows, schedule.tile_m),
        rows=rows,
        group=group,
        prefix=sequences.kv_tokens - sequences.q_tokens,
        keys=sequences.kv_tokens,
        longest=0.0,
        blocks=0.0,
    )
    longest = blocks_of(problem, schedule, tiles, tiles.tiles)
    before = tiles.tiles - 1.0
    masked = _blocks_before(schedule, tiles, before) - _skipped_before(problem, schedule, tiles, before)
    before_s = jnp.where(problem.causal > 0, jnp.maximum(masked, before), before * longest)
    fields = {name: getattr(tiles, name) for name in ("lines", "tiles", "rows", "group", "prefix", "keys")}
    return TileClass(**fields, longest=longest, blocks=before_s + longest)


def _blocks_before(schedule: AttentionSchedule, tiles: TileClass, count: Floats) -> Floats:
    """Sum over i = 1 to `count` of ceil((i tile_m + start) / step). Exact where tile_m is a multiple of the step or
    divides it and there is no prefix; else the mean rounding of a whole period stands for each tile's."""
    step, start = schedule.tile_n * tiles.group, tiles.prefix * tiles.group
    common = cheap_gcd(schedule.tile_m, step)
    offset = ceil_div(start, common) * common - start
    rounding = (0.5 * (step - common) + offset) / step
    mean = count * ((0.5 * (count + 1.0) * schedule.tile_m + start) / step + rounding)
    a_step = floor_div(step, schedule.tile_m)  # tiles that walk equally many blocks
    a_step = jnp.maximum(a_step, 1.0)
    whole = floor_div(count, a_step)
    exact = (0.5 * a_step * whole + (count - whole * a_step)) * (whole + 1.0)
    return jnp.where((common >= schedule.tile_m) & (start < 1), exact, mean)


def _skipped_before(problem: Attention, schedule: AttentionSchedule, tiles: TileClass, count: Floats) -> Floats:
    """Blocks before the windows of the first `count` tiles of a line, rounding in the mean."""
    step = schedule.tile_n * tiles.group
    start = (problem.window - 1.0 - tiles.prefix) * tiles.group  # rows before a window moves
    first = ceil_div(jnp.maximum(start, 0.0), schedule.tile_m)
    moved = jnp.maximum(count - first, 0.0)
    mean_row = (first + 0.5 * (moved - 1.0)) * schedule.tile_m - start
    rounding = 0.5 * (1.0 - 1.0 / step)
    skipped = jnp.maximum(moved * (mean_row / step - rounding), 0.0)
    return jnp.where(problem.window > 0, skipped, 0.0)


@pytree
class Pace:
    """Seconds of one tile of n blocks: fixed_s + n block_s alone on its SM; n engine_s of the SM's engines."""

    fixed_s: Array
    block_s: Array
    engine_s: Array


def makespan(
    problem: Attention,
    schedule: AttentionSchedule,
    classes: list[TileClass],
    pace: Pace,
    resident: Floats,
    gpu: Gpu,
) -> tuple[Floats, Floats]:
    """Seconds from the first tile's start to the last one's end, and those that every slot is busy in the mean.

    The largest of: the longest tile; for some wave counts k, k times the longest tile that is in the k-th wave at the
    earliest (no order can do better); and, with more tiles than slots, the end of the longest tile that is launched
    last. Slots come free one by one: the first of them a mean residual before the mean of all, and then that tile
    starts. It is the last tile of all where tiles go in the order of their queries, and the first of the last section
    where sections of heads are launched one after the other, longest tiles first in each.
    """
    sms = gpu.sm_count
    slots = sms * resident
    a_head = jnp.where(schedule.pack_gqa > 0, 1.0, problem.heads / problem.kv_heads)  # lines of a KV head
    section_lines = section_heads(problem, schedule, gpu) * a_head
    splits = schedule.splits
    count = blocks = longest = last_section = section_share = end_s = squares = spread = 0.0
    for tiles in classes:
        parts = tiles.lines * splits
        of_class = tiles.tiles * parts
        a_part = mean_split_blocks(tiles.blocks, tiles.tiles, splits)
        count, blocks = count + of_class, blocks + parts * a_part
        longest = jnp.maximum(longest, split_blocks(tiles.longest, splits))
        section = jnp.minimum(section_lines, tiles.lines)
        last_section, section_share = section / tiles.lines * of_class, section / tiles.lines * parts * a_part
        mean, variance = a_part / tiles.tiles, _variance(problem, schedule, tiles)
        mean_tile_s = pace.fixed_s + mean * pace.block_s
        squares = squares + of_class * (mean_tile_s * mean_tile_s + variance * pace.block_s * pace.block_s)
        spread = spread + of_class * (mean * mean + variance)
        for waves in (*PROBED_WAVES, ceil_div(of_class, sms)):
            number = tiles.tiles - floor_div((waves - 1.0) * sms, parts)
            there = number >= 1.0
            walked = split_blocks(blocks_of(problem, schedule, tiles, jnp.maximum(number, 1.0)), splits)
            walked = jnp.where(problem.window > 0, jnp.minimum(walked, a_part / tiles.tiles), walked)
            alone_s, busy_s = pace.fixed_s + walked * pace.block_s, walked * pace.engine_s
            filled_s = jnp.maximum(waves * busy_s, waves / resident * alone_s)
            ends_s = jnp.where(waves <= resident, jnp.maximum(alone_s, waves * busy_s), filled_s)
            end_s = jnp.maximum(end_s, jnp.where(there, ends_s, 0.0))
    longest_s = pace.fixed_s + longest * pace.block_s
    tiles_s = count * pace.fixed_s + blocks * pace.block_s
    mean_s = jnp.maximum(blocks * pace.engine_s / sms, tiles_s / slots)
    residual_s = 0.5 * squares / tiles_s
    unequal = jnp.clip(OUT_OF_STEP * (spread * count / (blocks * blocks) - 1.0), 0.0, 1.0)
    sectioned = jnp.where(count - last_section >= slots, 1.0 - section_share / blocks, 0.0)
    before_s = mean_s * jnp.where(schedule.longest_first > 0, sectioned, 1.0)
    late_s = problem.numbers.imbalance * longest_s
    last_s = jnp.where(before_s > 0, before_s + unequal * jnp.maximum(longest_s - residual_s, 0.0), 0.0)
    many_s = jnp.maximum(last_s, mean_s) + late_s
    end_s = jnp.maximum(end_s, jnp.maximum(longest_s, mean_s))
    return jnp.maximum(end_s, jnp.where(count > slots, many_s, 0.0)), mean_s


def _variance(problem: Attention, schedule: AttentionSchedule, tiles: TileClass) -> Floats:
    """Of the blocks of a line's tiles, split: that of as many equal steps from the first tile's to the last one's."""
    first = blocks_of(problem, schedule, tiles, 1.0)
    apart = jnp.maximum(tiles.longest - first, 0.0) / schedule.splits
    return apart * apart * (tiles.tiles + 1.0) / (12.0 * jnp.maximum(tiles.tiles - 1.0, 1.0))


def section_heads(problem: Attention, schedule: AttentionSchedule, gpu: Gpu) -> Floats:
    """KV heads of a sequence whose tiles are launched together: `head_section`, or as many as L2 holds the keys and
    values of (half of it, as the next section's come in while this one's are read)."""
    line_bytes = problem.kv_tokens * (problem.head_dim + problem.v_dim) * problem.kv_bytes
    held = floor_div(0.5 * gpu.l2_capacity_bytes * gpu.l2_effective_ratio, line_bytes)
    wanted = jnp.where(schedule.head_section > 0, schedule.head_section, held)
    return jnp.clip(wanted, 1.0, problem.kv_heads)
