"""Closed form less exact twin, in percentage points of the hit rate by bytes, on drawn cases."""

import jax
import jax.numpy as jnp
import numpy as np

from jaxmodel.l15 import l15_share
from jaxmodel.raster import panel_walk
from jaxmodel.reuse import l2_hits

from . import lru_stack
from .cases import CAPACITIES_BYTES, Case, columns

L2_WAYS, L15_WAYS = 16.0, 8.0
GROUP_SMS = 8


def l2_errors(cases: list[Case], dtype: type = np.float32) -> np.ndarray:
    """Batched GEMMs on one shared cache, shape (cases, capacities)."""
    c = columns(cases, dtype)
    closed = _closed_l2(
        c["rows"], c["cols"], c["along_n"], c["swizzle"], c["row_bytes"], c["col_bytes"], c["batch"], c["concurrent"],
        c["k_steps"], c["out_bytes"],
    )  # fmt: skip
    exact = [
        _exact_l2(
            lru_stack.plain_ctas(x.rows, x.cols, x.along_n, x.swizzle, x.k_steps, x.batch),
            x.concurrent, x.row_bytes, x.col_bytes, x.out_bytes,
        )
        for x in cases
    ]  # fmt: skip
    return 100.0 * (closed - np.array(exact))


def split_k_errors(cases: list[Case], splits: np.ndarray, mean_steps: bool = False) -> np.ndarray:
    """Split-K with ceil(k_steps / split) steps a split and the rest in the last, shape (cases, capacities).

    The closed form is given the steps of a full split, or the mean of all.
    """
    c = columns(cases)
    split = splits.astype(np.float32)
    steps = c["k_steps"] / split if mean_steps else np.ceil(c["k_steps"] / split)
    closed = _closed_l2(
        c["rows"], c["cols"], c["along_n"], c["swizzle"], c["row_bytes"], c["col_bytes"], split, c["concurrent"],
        steps, c["out_bytes"],
    )  # fmt: skip
    exact = [
        _exact_l2(
            lru_stack.split_k_ctas(x.rows, x.cols, x.along_n, x.swizzle, x.k_steps, int(s)),
            x.concurrent, x.row_bytes, x.col_bytes, x.out_bytes,
        )
        for x, s in zip(cases, splits, strict=True)
    ]  # fmt: skip
    return 100.0 * (closed - np.array(exact))


def cluster_errors(cases: list[Case], cluster_m: np.ndarray, cluster_n: np.ndarray) -> np.ndarray:
    """Clusters whose CTAs share their loads; a case's rows, cols count CTA tiles, its swizzle counts clusters."""
    c = columns(cases)
    m, n = cluster_m.astype(np.float32), cluster_n.astype(np.float32)
    clusters = np.maximum(c["concurrent"] // (m * n), 1)
    rows, cols = np.ceil(c["rows"] / m), np.ceil(c["cols"] / n)
    rows_each, cols_each = c["rows"] / rows, c["cols"] / cols  # CTA tiles of a mean cluster
    closed = _closed_l2(
        rows, cols, c["along_n"], c["swizzle"], rows_each * c["row_bytes"], cols_each * c["col_bytes"], c["batch"],
        clusters, c["k_steps"], rows_each * cols_each * c["out_bytes"],
    )  # fmt: skip
    exact = [
        _exact_l2(
            lru_stack.cluster_ctas(x.rows, x.cols, x.along_n, x.swizzle, x.k_steps, int(i), int(j)),
            int(s * i * j), x.row_bytes / j, x.col_bytes / i, x.out_bytes,
        )
        for x, i, j, s in zip(cases, cluster_m, cluster_n, clusters, strict=True)
    ]  # fmt: skip
    return 100.0 * (closed - np.array(exact))


def l15_errors(cases: list[Case], l15_bytes: float, l2_bytes: float) -> tuple[np.ndarray, np.ndarray]:
    """Error of the L1.5 share, and of the DDR share taken as 1 - L2 hits, each of shape (cases,)."""
    c = columns(cases)
    walk = panel_walk(c["rows"], c["cols"], c["along_n"], c["swizzle"], c["row_bytes"], c["col_bytes"])
    share = jax.jit(l15_share)(walk, c["concurrent"], c["k_steps"], c["sm_count"], GROUP_SMS, l15_bytes, L15_WAYS)
    hits = jax.jit(l2_hits)(walk, c["batch"], c["concurrent"], c["k_steps"], c["out_bytes"], l2_bytes, L2_WAYS)
    exact = np.array([_exact_two_levels(x, l15_bytes, l2_bytes) for x in cases])
    ddr = 1.0 - _by_bytes(hits.rows, hits.cols, c["row_bytes"], c["col_bytes"])
    return 100.0 * (np.asarray(share) - exact[:, 0]), 100.0 * (ddr - exact[:, 1])


def _closed_l2(rows, cols, along_n, swizzle, row_bytes, col_bytes, batch, concurrent, k_steps, out_bytes) -> np.ndarray:
    walk = panel_walk(rows, cols, along_n, swizzle, row_bytes, col_bytes)
    evaluate = jax.jit(jax.vmap(l2_hits, in_axes=(None, None, None, None, None, 0, None), out_axes=1))
    capacities = jnp.asarray(CAPACITIES_BYTES, rows.dtype)
    hits = evaluate(walk, batch, concurrent, k_steps, out_bytes, capacities, L2_WAYS)
    return _by_bytes(hits.rows, hits.cols, row_bytes[:, None], col_bytes[:, None])


def _exact_l2(
    ctas: lru_stack.Ctas, concurrent: int, row_bytes: float, col_bytes: float, out_bytes: float
) -> np.ndarray:
    accesses = lru_stack.trace(ctas, concurrent, row_bytes, col_bytes, out_bytes)
    distance = lru_stack.stack_distances(accesses.block, accesses.nbytes)
    shares = lru_stack.hit_shares(accesses, distance, CAPACITIES_BYTES, L2_WAYS)
    requested = [accesses.nbytes[accesses.operand == operand].sum() for operand in (lru_stack.A, lru_stack.B)]
    return _by_bytes(shares[:, 0], shares[:, 1], *requested)


def _exact_two_levels(case: Case, l15_bytes: float, l2_bytes: float) -> tuple[float, float]:
    """Shares of L1.5 and of DDR, access by access: what hits in L1.5 is not asked of L2, but refreshes it."""
    ctas = lru_stack.plain_ctas(case.rows, case.cols, case.along_n, case.swizzle, case.k_steps, case.batch)
    accesses = lru_stack.trace(ctas, case.concurrent, case.row_bytes, case.col_bytes, case.out_bytes)
    loads = accesses.operand != lru_stack.OUT
    l15_distance = lru_stack.group_distances(accesses, case.sm_count, GROUP_SMS)[loads]
    l2_distance = lru_stack.stack_distances(accesses.block, accesses.nbytes)[loads]
    weight = accesses.nbytes[loads] / accesses.nbytes[loads].sum()
    in_l15 = lru_stack.gaussian_hits(l15_distance, l15_bytes, L15_WAYS)
    in_l2 = lru_stack.gaussian_hits(l2_distance, l2_bytes, L2_WAYS)
    return float(weight @ in_l15), float(weight @ ((1.0 - in_l15) * (1.0 - in_l2)))


def _by_bytes(row_hit, col_hit, row_bytes, col_bytes) -> np.ndarray:
    return np.asarray((row_bytes * row_hit + col_bytes * col_hit) / (row_bytes + col_bytes))
