"""The exact twin of `jaxmodel.stream_k`: an LRU stack over every access of a hybrid stream-K GEMM.

Slow and obvious: the launch is played step by step and the distinct bytes since the last use of each block are counted
with a Fenwick tree (numba). It shares no code and no formula with the closed form.

T = long narrow batch tiles in raster order, S slots, N K-steps a tile:

* T mod S = 0: ceil(T / S) data-parallel waves, no stream-K part.
* Otherwise F = max(floor(T / S) - 1, 0) data-parallel waves come last. The first T' = T - F S tiles are cut into S runs
  of iterations [floor(s T' N / S), floor((s + 1) T' N / S)); iteration g is K-step g mod N of tile g div N. Each step,
  every slot that still has work runs one iteration, slots in order.
* An iteration touches its block of A, then its block of B. A tile of the stream-K part writes `out_bytes` right after
  its last K-step (by the slot that runs it), a data-parallel wave writes all its outputs at its end. Partial sums of
  shared tiles are not counted.
"""

import math
from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

_BINS_AN_OCTAVE = 60
_BINS = 48 * _BINS_AN_OCTAVE


class Distances(NamedTuple):
    """A histogram of stack distances in bytes, axis 0: long operand, narrow operand."""

    count: NDArray[np.float64]  # accesses in a bin
    total_bytes: NDArray[np.float64]  # sum of the distances in a bin
    cold: NDArray[np.float64]  # accesses without an earlier use
    accesses: int  # of one operand


@numba.njit(cache=True)
def _add(tree, position, weight):
    while position < tree.size:
        tree[position] += weight
        position += position & -position


@numba.njit(cache=True)
def _sum(tree, position):
    total = 0.0
    while position > 0:
        total += tree[position]
        position -= position & -position
    return total


@numba.njit(cache=True)
def _raster(long, narrow, panel):
    x, y = np.empty(long * narrow, np.int64), np.empty(long * narrow, np.int64)
    tile = 0
    for first in range(0, narrow, panel):
        for i in range(long):
            for j in range(first, min(first + panel, narrow)):
                x[tile], y[tile] = i, j
                tile += 1
    return x, y


@numba.njit(cache=True)
def _schedule(tiles, slots, k_steps):
    """(tile, K-step) of every iteration in time order; (-1, n) stands for the outputs of n tiles."""
    shared = 0
    if tiles % slots:
        shared = tiles - max(tiles // slots - 1, 0) * slots
    events = np.empty((tiles * k_steps + tiles, 2), np.int64)
    n = 0
    if shared:
        work = shared * k_steps
        longest = 0
        for s in range(slots):
            longest = max(longest, (s + 1) * work // slots - s * work // slots)
        for step in range(longest):
            for s in range(slots):
                g = s * work // slots + step
                if g < (s + 1) * work // slots:
                    events[n] = (g // k_steps, g % k_steps)
                    n += 1
                    if g % k_steps == k_steps - 1:
                        events[n] = (-1, 1)
                        n += 1
    for start in range(shared, tiles, slots):
        end = min(start + slots, tiles)
        for step in range(k_steps):
            for tile in range(start, end):
                events[n] = (tile, step)
                n += 1
        events[n] = (-1, end - start)
        n += 1
    return events[:n]


@numba.njit(cache=True)
def _stack(events, x, y, long, narrow, batch, k_steps, block_bytes, out_bytes, long_first):
    tree = np.zeros(2 * events.shape[0] + 2, np.float64)
    last_x = np.zeros((batch * long, k_steps), np.int64)
    last_y = np.zeros((batch * narrow, k_steps), np.int64)
    count, total_bytes, cold = np.zeros((2, _BINS)), np.zeros((2, _BINS)), np.zeros(2)
    position, touched = 0, 0.0
    for e in range(events.shape[0]):
        tile, step = events[e]
        if tile < 0:
            if out_bytes > 0:
                position += 1
                _add(tree, position, out_bytes * step)
                touched += out_bytes * step
            continue
        in_batch = tile % x.size
        matrix = tile // x.size
        for turn in range(2):
            operand = turn if long_first else 1 - turn
            last = last_x if operand == 0 else last_y
            key = matrix * long + x[in_batch] if operand == 0 else matrix * narrow + y[in_batch]
            previous = last[key, step]
            size = block_bytes[operand]
            if previous:
                distance = touched - _sum(tree, previous)
                b = min(max(int(math.log2(max(distance, 1.0)) * _BINS_AN_OCTAVE), 0), _BINS - 1)
                count[operand, b] += 1
                total_bytes[operand, b] += distance
                _add(tree, previous, -size)
                touched -= size
            else:
                cold[operand] += 1
            position += 1
            _add(tree, position, size)
            touched += size
            last[key, step] = position
    return count, total_bytes, cold


def stack_distances(
    long: int,
    narrow: int,
    panel: int,
    batch: int,
    slots: int,
    k_steps: int,
    long_bytes: float,
    narrow_bytes: float,
    out_bytes: float,
    long_is_rows: bool,
) -> Distances:
    """Plays the whole kernel and returns its stack distances. Bytes are those of one block or one output tile."""
    x, y = _raster(long, narrow, panel)
    events = _schedule(long * narrow * batch, slots, k_steps)
    blocks = np.array([long_bytes, narrow_bytes], np.float64)
    found = _stack(events, x, y, long, narrow, batch, k_steps, blocks, float(out_bytes), long_is_rows)
    return Distances(*found, long * narrow * batch * k_steps)


@numba.njit(cache=True)
def _hits(count, total_bytes, capacity_bytes, ways):
    hits = np.zeros(2)
    for operand in range(2):
        for b in range(count.shape[1]):
            if count[operand, b] > 0:
                x = total_bytes[operand, b] / count[operand, b] / capacity_bytes
                hit = 1.0 if x <= 0 else 0.5 * math.erfc(-(ways - 0.5 - ways * x) / math.sqrt(2 * ways * x))
                hits[operand] += count[operand, b] * hit
    return hits


def hit_rates(distances: Distances, capacity_bytes: float, ways: float) -> NDArray[np.float64]:
    """(long, narrow) shares of accesses that hit a `ways`-way cache of `capacity_bytes`: the Poisson (SDCM) model of an
    LRU set with lines much smaller than the cache, in its normal form, on exact distances."""
    return _hits(distances.count, distances.total_bytes, float(capacity_bytes), float(ways)) / distances.accesses
