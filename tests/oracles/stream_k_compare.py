"""Stream-K's closed form less its exact twin, in percentage points of the hit rate by bytes, on drawn cases."""

import jax
import numpy as np

from jaxmodel.raster import panel_walk
from jaxmodel.stream_k import stream_k_hits

from .cases import CAPACITIES_BYTES, Case, columns, draw_cases
from .stream_k import hit_rates, stack_distances

WAYS = 16.0


def draw_stream_k_cases(count: int, seed: int) -> list[Case]:
    """`count` launches drawn as in `draw_cases`, of those with 0.3 to 20 tiles a slot and tiles to share out."""
    found: list[Case] = []
    while len(found) < count:
        drawn = draw_cases(4 * count, seed)
        found += [c for c in drawn if 0.3 <= c.tiles / c.concurrent <= 20 and c.tiles % c.concurrent]
        seed += 1
    return found[:count]


def shared_tiles(case: Case) -> int:
    """Tiles of the stream-K part."""
    return case.tiles - max(case.tiles // case.concurrent - 1, 0) * case.concurrent


def in_one_panel(case: Case) -> bool:
    """Whether the stream-K part ends within the first panel: no row is met by two panels."""
    narrow, long = (case.rows, case.cols) if case.along_n else (case.cols, case.rows)
    width = min(case.swizzle, narrow)
    return long == 1 or shared_tiles(case) <= (narrow if width == 1 else long) * (long if width == 1 else width)


def _closed(rows, cols, along_n, swizzle, row_bytes, col_bytes, batch, concurrent, k_steps, out_bytes, capacity):
    walk = panel_walk(rows, cols, along_n, swizzle, row_bytes, col_bytes)
    hits = stream_k_hits(walk, batch, concurrent, k_steps, out_bytes, capacity, WAYS)
    return (row_bytes * hits.rows + col_bytes * hits.cols) / (row_bytes + col_bytes)


def closed_hit_rates(cases: list[Case], dtype: type = np.float32) -> np.ndarray:
    """Shape (cases, capacities)."""
    c = columns(cases, dtype)
    arguments = (
        c["rows"], c["cols"], c["along_n"], c["swizzle"], c["row_bytes"], c["col_bytes"], c["batch"], c["concurrent"],
        c["k_steps"], c["out_bytes"],
    )  # fmt: skip
    closed = jax.jit(_closed)
    return np.stack([np.asarray(closed(*arguments, dtype(capacity))) for capacity in CAPACITIES_BYTES], 1)


def exact_hit_rates(case: Case) -> list[float]:
    """One a capacity."""
    long_bytes, narrow_bytes = (case.col_bytes, case.row_bytes) if case.along_n else (case.row_bytes, case.col_bytes)
    long, narrow = (case.cols, case.rows) if case.along_n else (case.rows, case.cols)
    distances = stack_distances(
        long, narrow, min(case.swizzle, narrow), case.batch, case.concurrent, case.k_steps, long_bytes, narrow_bytes,
        case.out_bytes, not case.along_n,
    )  # fmt: skip
    shares = np.array([long_bytes, narrow_bytes]) / (long_bytes + narrow_bytes)
    return [float(hit_rates(distances, capacity, WAYS) @ shares) for capacity in CAPACITIES_BYTES]


def stream_k_errors(cases: list[Case]) -> np.ndarray:
    """Shape (cases, capacities)."""
    return 100.0 * (closed_hit_rates(cases) - np.array([exact_hit_rates(case) for case in cases]))
