"""Exact twin of the reuse model: every access of every tile, one by one, against a least-recently-used stack.

A launch is a list of CTAs in launch order; `concurrent` of them run at a time and advance through K in lockstep, each
touching its block of A and then its block of B. That list is the whole description: a batch is other blocks, a split
is a range of K-steps, a cluster is CTAs that each load their slice of a shared block. The stack distance of an access
is the number of distinct bytes touched since its block was last used; it is the same for every cache size, and a group
cache (L1.5) is the same stack over the accesses of the group.
"""

import math
from typing import Any, NamedTuple

import numba
import numpy as np

A, B, OUT = 0, 1, 2  # operands of an access
NEVER = np.inf  # distance of a first touch


class Ctas(NamedTuple):
    """CTAs in launch order, one entry each. A negative block: nothing to load (padding of a cluster)."""

    row_block: np.ndarray  # which block of A, without its K-step
    col_block: np.ndarray
    first_step: np.ndarray  # first K-step
    steps: np.ndarray  # K-steps, 0 or more


class Trace(NamedTuple):
    """Every access, in order."""

    block: np.ndarray  # identity of the block, K-step included; -1: written once, never used again
    nbytes: np.ndarray
    operand: np.ndarray  # A, B or OUT
    position: np.ndarray  # of the CTA in its wave


@numba.njit(cache=True)
def panel_order(rows: int, cols: int, along_n: bool, swizzle: int) -> tuple[np.ndarray, np.ndarray]:
    """The panel walk as the loops that define it: m and n of each tile in launch order."""
    m = np.empty(rows * cols, np.int64)
    n = np.empty(rows * cols, np.int64)
    i = 0
    long, narrow = (cols, rows) if along_n else (rows, cols)
    for start in range(0, narrow, swizzle):
        for on_long in range(long):
            for on_narrow in range(start, min(start + swizzle, narrow)):
                m[i], n[i] = (on_narrow, on_long) if along_n else (on_long, on_narrow)
                i += 1
    return m, n


def plain_ctas(rows: int, cols: int, along_n: bool, swizzle: int, k_steps: int, batch: int = 1) -> Ctas:
    """A batch of GEMMs, one CTA a tile, matrices one after another."""
    m, n = panel_order(rows, cols, along_n, swizzle)
    matrix = np.repeat(np.arange(batch), rows * cols)
    whole = np.full(matrix.size, k_steps)
    return Ctas(matrix * rows + np.tile(m, batch), matrix * cols + np.tile(n, batch), np.zeros_like(whole), whole)


def split_k_ctas(rows: int, cols: int, along_n: bool, swizzle: int, k_steps: int, split: int) -> Ctas:
    """Split-K: the whole grid once a split, ceil(k_steps / split) steps each; the last splits get what is left."""
    m, n = panel_order(rows, cols, along_n, swizzle)
    share = -(-k_steps // split)
    first = np.minimum(np.arange(split) * share, k_steps)
    steps = np.minimum(first + share, k_steps) - first
    return Ctas(np.tile(m, split), np.tile(n, split), np.repeat(first, m.size), np.repeat(steps, m.size))


def cluster_ctas(
    rows: int, cols: int, along_n: bool, swizzle: int, k_steps: int, cluster_m: int, cluster_n: int
) -> Ctas:
    """Clusters with multicast, CTA by CTA: `rows` x `cols` CTA tiles, a raster over clusters.

    The CTA at (i, j) of a cluster loads slice j of its row's block and slice i of its column's block, for all CTAs that
    share them. CTAs that pad a cluster out of the grid load their slices of what their neighbours need.
    """
    cluster_row, cluster_col = panel_order(-(-rows // cluster_m), -(-cols // cluster_n), along_n, swizzle)
    i, j = (axis.ravel() for axis in np.indices((cluster_m, cluster_n)))
    m = (cluster_row[:, None] * cluster_m + i).ravel()
    n = (cluster_col[:, None] * cluster_n + j).ravel()
    slice_of_row, slice_of_col = np.tile(j, cluster_row.size), np.tile(i, cluster_row.size)
    whole = np.full(m.size, k_steps)
    return Ctas(
        np.where(m < rows, m * cluster_n + slice_of_row, -1),
        np.where(n < cols, n * cluster_m + slice_of_col, -1),
        np.zeros_like(whole),
        whole,
    )


def trace(ctas: Ctas, concurrent: int, row_bytes: float, col_bytes: float, out_bytes: float) -> Trace:
    """The accesses of a launch: waves of `concurrent` CTAs in lockstep, outputs written when a wave ends."""
    accesses = 2 * int(ctas.steps.sum()) + ctas.steps.size
    return Trace(*_trace(*ctas, concurrent, row_bytes, col_bytes, out_bytes, accesses))


@numba.njit(cache=True)
def _trace(row_block, col_block, first_step, steps, concurrent, row_bytes, col_bytes, out_bytes, accesses):
    block = np.empty(accesses, np.int64)
    nbytes = np.empty(accesses)
    operand = np.empty(accesses, np.int8)
    position = np.empty(accesses, np.int64)
    k_extent = (first_step + steps).max()
    row_extent = row_block.max() + 1
    n = 0
    for start in range(0, steps.size, concurrent):
        wave = range(start, min(start + concurrent, steps.size))
        longest = 0
        for cta in wave:
            longest = max(longest, steps[cta])
        for step in range(longest):
            for cta in wave:
                if step < steps[cta]:
                    k = first_step[cta] + step
                    if row_block[cta] >= 0:
                        block[n], nbytes[n], operand[n] = row_block[cta] * k_extent + k, row_bytes, A
                        position[n] = cta - start
                        n += 1
                    if col_block[cta] >= 0:
                        block[n] = (row_extent + col_block[cta]) * k_extent + k
                        nbytes[n], operand[n], position[n] = col_bytes, B, cta - start
                        n += 1
        for cta in wave:
            if row_block[cta] < 0 or col_block[cta] < 0:
                continue
            block[n], nbytes[n], operand[n], position[n] = -1, out_bytes, OUT, cta - start
            n += 1
    return block[:n], nbytes[:n], operand[:n], position[:n]


@numba.njit(cache=True)
def stack_distances(block: np.ndarray, nbytes: np.ndarray) -> np.ndarray:
    """Distinct bytes touched since each access's block was last used, itself excluded; NEVER for a first touch.

    A binary indexed tree over time holds each block's bytes at its last use, so a distance is a suffix sum.
    """
    n = block.size
    tree = np.zeros(n + 1)
    last_use = np.zeros(block.max() + 1 if n else 0, np.int64)  # 1-based time, 0: never
    distance = np.full(n, np.inf)
    live_bytes = 0.0
    for i in range(n):
        now = i + 1
        if block[i] >= 0:
            before = last_use[block[i]]
            last_use[block[i]] = now
            if before > 0:
                up_to = before
                older = 0.0
                while up_to > 0:
                    older += tree[up_to]
                    up_to -= up_to & -up_to
                distance[i] = live_bytes - older
                live_bytes -= nbytes[i]
                at = before
                while at <= n:
                    tree[at] -= nbytes[i]
                    at += at & -at
        live_bytes += nbytes[i]
        at = now
        while at <= n:
            tree[at] += nbytes[i]
            at += at & -at
    return distance


def group_distances(accesses: Trace, sm_count: int, group_sms: int) -> np.ndarray:
    """Stack distances in the caches of groups of SMs; the CTA at position i of a wave is on SM i mod `sm_count`."""
    group = (accesses.position % sm_count) // group_sms
    distance = np.full(accesses.block.size, NEVER)
    loads = accesses.operand != OUT  # outputs bypass the group's cache
    for g in range(-(-sm_count // group_sms)):
        mine = loads & (group == g)
        if mine.any():
            distance[mine] = stack_distances(accesses.block[mine], accesses.nbytes[mine])
    return distance


@numba.njit(cache=True)
def gaussian_hit(share: float, ways: float) -> float:
    """P(hit) at a distance of `share` times the capacity, fine lines, exact normal distribution."""
    if share <= 0.0:
        return 1.0
    if share == np.inf:
        return 0.0
    return 0.5 * math.erfc(-(ways - 0.5 - ways * share) / math.sqrt(2.0 * ways * share))


@numba.njit(cache=True)
def gaussian_hits(distance: np.ndarray, capacity: float, ways: float) -> np.ndarray:
    """`gaussian_hit` of every access."""
    hit = np.empty(distance.size)
    for i in range(distance.size):
        hit[i] = gaussian_hit(distance[i] / capacity, ways)
    return hit


def hit_shares(accesses: Trace, distance: np.ndarray, capacities: Any, ways: float) -> np.ndarray:
    """Mean hit probability of A's and of B's accesses at each capacity, shape (capacities, 2).

    Distances are binned, 40 bins an octave at the mean of each bin, so that many capacities cost one pass.
    """
    shares = np.empty((len(capacities), 2))
    for operand in (A, B):
        mine = distance[accesses.operand == operand]
        centre, count = _binned(mine[mine < NEVER])
        for i, capacity in enumerate(capacities):
            shares[i, operand] = gaussian_hits(centre, capacity, ways) @ count / mine.size
    return shares


def _binned(distance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    key = np.where(distance < 1.0, 0, 1 + (40.0 * np.log2(np.maximum(distance, 1.0))).astype(np.int64))
    count = np.bincount(key)
    total = np.bincount(key, weights=distance)
    return total[count > 0] / count[count > 0], count[count > 0]


def cold_shares(accesses: Trace, distance: np.ndarray) -> np.ndarray:
    """Shares of A's and of B's accesses that are first touches."""
    return np.array([np.mean(distance[accesses.operand == operand] == NEVER) for operand in (A, B)])
