"""Drawn dequantised GEMMs: GEMM's candidates with 16-bit activations, narrow weights and places to convert them."""

import dataclasses
from typing import NamedTuple

import numpy as np

from jaxmodel.kernels.dequant_gemm_types import IN_REGISTERS, IN_SMEM, IN_TMEM, DequantGemm, DequantSchedule
from jaxmodel.machine import Gpu

from .gemm_draws import draw_gemms

WIDE_BYTES = 2.0


class DequantDraw(NamedTuple):
    """Records whose leaves have one entry a candidate."""

    problem: DequantGemm
    schedule: DequantSchedule
    gpu: Gpu


def draw_dequant_gemms(count: int, seed: int, family: str, wide: bool = False) -> DequantDraw:
    """`count` candidates of one instruction family; numbers that float32 holds.

    Three in four ask for a place where the family can convert; the rest ask anything.

    Args:
        wide: weights are as wide as activations, without scales or slots.
    """
    problem, schedule, gpu = draw_gemms(count, seed, family)
    random = np.random.default_rng([seed, 77])
    filled = lambda value: np.full(count, float(value))  # noqa: E731
    stored = filled(WIDE_BYTES) if wide else random.choice([0.5, 0.5, 1.0, 1.0, 2.0], count)
    overhead = filled(0) if wide else random.choice([0.0, 2 / 128, 2.5 / 64, 1 / 32], count)
    scaling = dataclasses.replace(
        problem.scaling, a_scale_bytes=filled(0), b_scale_bytes=overhead, promote_k=filled(0), quantise_passes=filled(0)
    )
    gemm = dataclasses.replace(
        problem, a_bytes=filled(WIDE_BYTES), b_bytes=stored, c_in_bytes=filled(0), scaling=scaling
    )
    slots = filled(0) if wide else (0.125 * random.integers(0, 40, count)).astype(float)

    swap = np.where(random.random(count) < 0.5, 1.0, schedule.swap_ab)
    own = {"mma_sync": filled(1), "wgmma": swap, "tcgen05": filled(0)}[family] > 0
    in_tmem = (swap > 0) & (family == "tcgen05")
    place = np.where(own, random.choice([IN_REGISTERS, IN_SMEM], count), IN_SMEM)
    place = np.where(in_tmem, random.choice([IN_TMEM, IN_SMEM], count), place)
    anything = random.random(count) < 0.25
    place = np.where(anything, random.integers(0, 3, count), place)
    warps = random.choice([0, 0, 4, 8], count)
    warps = np.where((place == IN_REGISTERS) & ~anything, 0, warps)
    depth = np.maximum(np.round(schedule.tile_k * problem.a_bytes / WIDE_BYTES / 16), 1) * 16
    columns = {field.name: getattr(schedule, field.name) for field in dataclasses.fields(schedule)}
    columns |= {"swap_ab": swap, "tile_k": np.where(random.random(count) < 0.02, depth + 8, depth)}
    added = {"converted_in": place, "converted_sets": random.choice([1, 1, 2, 2, 3], count), "converter_warps": warps}
    return DequantDraw(
        DequantGemm(gemm=gemm, dequant_slots=slots),
        DequantSchedule(**columns, **{name: value.astype(float) for name, value in added.items()}),
        gpu,
    )
