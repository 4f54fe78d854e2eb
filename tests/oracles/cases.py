"""Drawn GEMM launches on which the closed form of reuse meets its exact twin."""

import math
from dataclasses import dataclass

import numpy as np

MIB = 2.0**20
CAPACITIES_BYTES = np.array([1, 2, 4, 8, 12, 16, 20, 30, 40, 50, 80, 120, 200]) * MIB
SM_COUNTS = (78, 108, 114, 132, 142, 144, 148, 160, 170, 188)


@dataclass(frozen=True)
class Case:
    """One launch. Tiles and K-steps are counted, bytes are those of a K-step (out_bytes: of a tile)."""

    rows: int
    cols: int
    along_n: bool
    swizzle: int
    batch: int
    concurrent: int
    k_steps: int
    row_bytes: float
    col_bytes: float
    out_bytes: float
    sm_count: int

    @property
    def tiles(self) -> int:
        return self.rows * self.cols * self.batch

    @property
    def waves(self) -> int:
        return -(-self.tiles // self.concurrent)


def draw_cases(
    count: int, seed: int, max_tile_steps: int = 900_000, any_concurrency: bool = True, batches: bool = True
) -> list[Case]:
    """`count` launches from `seed`.

    Grids of 1 to 200 tiles a side, 1 to 64 K-steps, all panel widths, ragged ones too, tiles of 64 to 256 a side and 32
    to 128 deep in 2-byte elements, outputs on in 60 %. Concurrency is 1 to 3 tiles an SM of a real GPU; with
    `any_concurrency` 40 % take any number from 4 to 600. With `batches` 15 % of the small ones have 2 to 8 matrices.
    """
    random = np.random.default_rng(seed)
    return [_draw(random, max_tile_steps, any_concurrency, batches) for _ in range(count)]


def _draw(random: np.random.Generator, max_tile_steps: int, any_concurrency: bool, batches: bool) -> Case:
    while True:
        long, narrow = _draw_extent(random), _draw_extent(random)
        k_steps = _log_uniform(random, 1, 64)
        if 50 <= long * narrow * k_steps <= max_tile_steps:
            break
    panel = _draw_panel(random, narrow)
    sm_count = int(random.choice(SM_COUNTS))
    concurrent = sm_count * int(random.choice([1, 1, 1, 2, 3]))
    if any_concurrency and random.random() < 0.4:
        concurrent = _log_uniform(random, 4, 600)
    long_tile, narrow_tile = (int(random.choice([64, 128, 192, 256])) for _ in range(2))
    tile_k = int(random.choice([32, 64, 128]))
    small = long * narrow * k_steps < 150_000
    batch = int(random.integers(2, 9)) if random.random() < 0.15 and batches and small else 1
    out_bytes = long_tile * narrow_tile * 2.0 if random.random() < 0.6 else 0.0
    along_n = bool(random.random() >= 0.5)
    long_bytes, narrow_bytes = long_tile * tile_k * 2.0, narrow_tile * tile_k * 2.0
    return Case(
        rows=narrow if along_n else long,
        cols=long if along_n else narrow,
        along_n=along_n,
        swizzle=panel,
        batch=batch,
        concurrent=concurrent,
        k_steps=k_steps,
        row_bytes=narrow_bytes if along_n else long_bytes,
        col_bytes=long_bytes if along_n else narrow_bytes,
        out_bytes=out_bytes,
        sm_count=sm_count,
    )


def _draw_extent(random: np.random.Generator) -> int:
    return _log_uniform(random, 1, 200) if random.random() < 0.35 else int(random.integers(4, 201))


def _draw_panel(random: np.random.Generator, narrow: int) -> int:
    kind = random.random()
    if kind < 0.15:
        return narrow
    if kind < 0.25:
        return 1
    width = 2 ** int(random.integers(0, 7)) if kind < 0.75 else int(random.integers(1, 65))
    return min(width, narrow)


def _log_uniform(random: np.random.Generator, low: int, high: int) -> int:
    return int(math.exp(random.uniform(math.log(low), math.log(high + 0.99))))


def columns(cases: list[Case], dtype: type = np.float32) -> dict[str, np.ndarray]:
    """The cases as one array a field."""
    return {name: np.array([getattr(case, name) for case in cases], dtype) for name in Case.__dataclass_fields__}
