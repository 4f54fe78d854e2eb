"""Drawn GEMMs with fused epilogues: GEMM's candidates, and what their epilogues do."""

import dataclasses
from typing import NamedTuple

import numpy as np

from jaxmodel.kernels.gemm_epilogue_types import GemmEpilogue
from jaxmodel.machine import Gpu
from jaxmodel.types import GemmSchedule

from .gemm_draws import draw_gemms


class EpilogueDraw(NamedTuple):
    """Records whose leaves have one entry a candidate."""

    problem: GemmEpilogue
    schedule: GemmSchedule
    gpu: Gpu


def draw_gemm_epilogues(count: int, seed: int, family: str, nothing: bool = False) -> EpilogueDraw:
    """`count` candidates of one instruction family; numbers that float32 holds.

    Args:
        nothing: the epilogues do nothing.
    """
    gemm, schedule, gpu = draw_gemms(count, seed, family)
    random = np.random.default_rng([seed, 78])
    gemm = dataclasses.replace(gemm, c_in_bytes=np.zeros(count))
    on = (lambda values: np.zeros(count)) if nothing else (lambda values: random.choice(values, count).astype(float))
    blocks = np.zeros(count) if nothing else (random.random(count) < 0.2).astype(float)
    return EpilogueDraw(
        GemmEpilogue(
            gemm=gemm, slots=on([0, 1, 3, 8.5]), sfu_op=on([0, 0, 1, 2]), read_bytes=on([0, 0, 2]),
            column_bytes=on([0, 2, 4]), scale_bytes=blocks * 4 / 128, scale_block=np.where(blocks > 0, 128.0, 1.0),
        ),
        schedule,
        gpu,
    )  # fmt: skip
