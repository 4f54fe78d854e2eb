"""Drawn GEMM chains: problems, schedules of every order, and GEMM's drawn GPUs."""

from typing import NamedTuple

import numpy as np

from jaxmodel.kernels.gemm_chain_types import (
    IN_REGISTERS,
    IN_SMEM,
    IN_TMEM,
    KEPT,
    RECOMPUTED,
    SPILLED,
    ChainSchedule,
    GemmChain,
)
from jaxmodel.machine import Gpu

from .gemm_draws import draw_gemms


class ChainDraw(NamedTuple):
    """Records whose leaves have one entry a candidate."""

    problem: GemmChain
    schedule: ChainSchedule
    gpu: Gpu


def draw_chains(count: int, seed: int, family: str, order: int | None = None) -> ChainDraw:
    """`count` candidates of one instruction family; numbers that float32 holds.

    Args:
        order: of all candidates; None: any.
    """
    _, _, gpu = draw_gemms(count, seed, family)
    random = np.random.default_rng([seed, 79])
    side = lambda low, high: np.maximum(np.exp(random.uniform(np.log(low), np.log(high), count)) // 8, 1) * 8  # noqa: E731
    choose = lambda *values: random.choice(values, count).astype(float)  # noqa: E731
    problem = GemmChain(
        m=side(64, 100_000), n=side(16, 2000), k=side(16, 4000), l=side(16, 2000),
        element_bytes=np.full(count, 2.0), out_bytes=choose(1, 2, 2, 4),
        k_align_bytes=choose(16, 32, 128, 128, 128), n_align_bytes=choose(16, 32, 128, 128),
        out_align_bytes=choose(16, 64, 128), a_warm=choose(0, 0, 1), slots=choose(0, 1, 6), sfu_op=choose(0, 0, 1, 2),
    )  # fmt: skip
    tall = {"mma_sync": (16, 32, 64, 128), "wgmma": (64, 128, 192), "tcgen05": (128, 128, 64)}[family]
    warps = {"mma_sync": (1, 2, 4), "wgmma": (4, 4, 8), "tcgen05": (4, 4, 8)}[family]
    orders = choose(SPILLED, RECOMPUTED, RECOMPUTED, KEPT) if order is None else np.full(count, float(order))
    own = IN_TMEM if family == "tcgen05" else IN_REGISTERS
    place = np.where(orders == RECOMPUTED, choose(own, own, IN_SMEM), float(IN_SMEM))
    place = np.where(random.random(count) < 0.1, choose(IN_REGISTERS, IN_SMEM, IN_TMEM), place)
    schedule = ChainSchedule(
        order=orders, tile_m=choose(*tall), tile_n=choose(16, 32, 64, 96, 128), tile_l=choose(16, 64, 64, 96, 128, 256),
        tile_k=choose(16, 32, 64, 64, 128, 24), stages=choose(1, 2, 2, 3, 4), warps=choose(*warps),
        intermediate_in=place, sets=choose(1, 2), a_kept=choose(0, 0, 1), raster_along_n=choose(0, 0, 1),
        swizzle=choose(1, 1, 1, 2, 4), persistent=choose(0, 1),
    )  # fmt: skip
    return ChainDraw(problem, schedule, gpu)
