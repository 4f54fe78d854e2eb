"""The scalar twin's counts: tiles and their blocks, class by class, and what the launch holds in all.

Sections 2 and 3 of docs/attention.md. The closed form of the blocks is the document's; `blocks_one_by_one` adds the
tiles up, which the closed form must come near.
"""

import math
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np

from jaxmodel.kernels.attention_types import Attention, AttentionSchedule
from jaxmodel.machine import Gpu
from jaxmodel.sdcm import hit_probability


def hit(distance_bytes: float, g: Gpu, l15: bool = False) -> float:
    """The product's hit probability, of one number in float64."""
    capacity = g.l15_capacity_bytes if l15 else g.l2_capacity_bytes * g.l2_effective_ratio
    with jax.enable_x64(True):
        ways = g.l15_ways if l15 else g.l2_ways
        return float(hit_probability(np.float64(distance_bytes), np.float64(capacity), np.float64(ways)))


def whole_work(p: Attention, s: AttentionSchedule) -> SimpleNamespace:
    """Counts and bytes of the whole launch, and its classes."""
    sequences = [SimpleNamespace(batch=p.batch, q_tokens=p.q_tokens, kv_tokens=p.kv_tokens), *p.more]
    classes = [tile_class(p, s, one) for one in sequences]
    tokens = sum(one.batch * one.q_tokens for one in sequences)
    keys = sum(one.batch * one.kv_tokens for one in sequences)
    return SimpleNamespace(
        classes=classes,
        tiles=sum(c.lines * c.tiles * s.splits for c in classes),
        blocks=sum(c.lines * s.splits * lines_of(c, s.splits) for c in classes),
        longest=max(c.longest for c in classes),
        rows=tokens * p.heads,
        pairs=p.heads * sum(one.batch * pairs(p, one) for one in sequences),
        kv_bytes=keys * p.kv_heads * (p.head_dim + p.v_dim) * p.kv_bytes,
        kv_lines=p.kv_heads * sum(one.batch for one in sequences),
    )


def lines_of(c: Any, splits: float) -> float:
    """Blocks of one part of each of a line's tiles."""
    return max(c.blocks / splits + c.tiles * (splits - 1) / (2 * splits), c.tiles)


def tile_class(p: Attention, s: AttentionSchedule, one: Any) -> SimpleNamespace:
    """The tiles of the sequences of one length."""
    g = p.heads / p.kv_heads if s.pack_gqa else 1
    rows = one.q_tokens * g
    tiles = math.ceil(rows / s.tile_m)
    prefix = one.kv_tokens - one.q_tokens
    step = s.tile_n * g

    def blocks_of(number: float) -> int:
        if not p.causal:
            return math.ceil(one.kv_tokens / s.tile_n)
        end = math.ceil((min(number * s.tile_m, rows) + prefix * g) / step)
        behind = (number - 1) * s.tile_m + (prefix + 1 - p.window) * g
        return end - (math.floor(max(behind, 0) / step) if p.window else 0)

    found = SimpleNamespace(
        lines=one.batch * (p.kv_heads if s.pack_gqa else p.heads),
        tiles=tiles, rows=rows, keys=one.kv_tokens, longest=blocks_of(tiles), blocks_of=blocks_of,
    )  # fmt: skip
    found.blocks = found.longest + _blocks_before(p, s, found, prefix * g, step, g)
    found.blocks_one_by_one = sum(blocks_of(number) for number in range(1, tiles + 1)) if tiles < 2000 else None
    return found


def _blocks_before(p: Attention, s: AttentionSchedule, c: Any, start: float, step: float, g: float) -> float:
    x, m = s.tile_m, c.tiles - 1
    if not p.causal:
        return m * c.longest
    common = _common(x, step)
    if start == 0 and common >= x:
        a = max(step // x, 1)
        w = m // a
        total = (a * w / 2 + m - a * w) * (w + 1)
    else:
        rounding = ((step - common) / 2 + math.ceil(start / common) * common - start) / step
        total = m * (((m + 1) * x / 2 + start) / step + rounding)
    if p.window:
        o = (p.window - 1) * g - start
        f = math.ceil(max(o, 0) / x)
        t = max(m - f, 0)
        total -= max(t * (((f + (t - 1) / 2) * x - o) / step - (1 - 1 / step) / 2), 0)
    return max(total, m)


def _common(a: float, b: float) -> float:
    """The divisor that the document allows: the greatest common one where one divides the other, else a power of 2."""
    if max(a, b) % min(a, b) == 0:
        return min(a, b)
    return math.gcd(int(a) & -int(a), int(b) & -int(b))


def pairs(p: Attention, one: Any) -> float:
    """Pairs of query and key that the mask leaves, one head of one sequence."""
    if not p.causal:
        return one.q_tokens * one.kv_tokens
    prefix, window = one.kv_tokens - one.q_tokens, p.window or one.kv_tokens
    short = min(max(window - prefix, 0), one.q_tokens)
    return short * prefix + short * (short + 1) / 2 + (one.q_tokens - short) * window
