"""Drawn GEMMs that communicate: problems, links, schedules and GPUs on which the model meets its twin and its laws."""

import dataclasses
from typing import NamedTuple

import numpy as np

from jaxmodel.kernels.fused_gemm_types import FusedGemm, FusedGemmSchedule
from jaxmodel.machine import Gpu
from jaxmodel.overlap import Link

from .gemm_draws import draw_gemms

KERNELS = ("ag_gemm", "gemm_rs", "gemm_ar")
OF_GEMM = (
    "tile_m",
    "tile_n",
    "tile_k",
    "stages",
    "warps_m",
    "warps_n",
    "cluster_m",
    "cluster_n",
    "cta_pair",
    "swizzle",
)


class FusedDraw(NamedTuple):
    """Records whose leaves have one entry a candidate."""

    problem: FusedGemm
    schedule: FusedGemmSchedule
    gpu: Gpu


def draw_fused(count: int, seed: int, family: str, kernel: str) -> FusedDraw:
    """`count` candidates of one instruction family; numbers that float32 holds. Most go as the kernel's space has
    them, some anyhow."""
    gemm, own, gpu = draw_gemms(count, seed, family, stream_k=False)
    random = np.random.default_rng([seed, KERNELS.index(kernel), 91])
    gemm = dataclasses.replace(gemm, batch=np.ones(count), c_in_bytes=np.zeros(count))
    single = lambda values: np.asarray(values, np.float64).astype(np.float32).astype(np.float64)  # noqa: E731
    spread = lambda low, high: single(np.exp(random.uniform(np.log(low), np.log(high), count)))  # noqa: E731
    some = lambda share, values: np.where(random.random(count) < share, values, 0.0)  # noqa: E731
    link = Link(
        ranks=random.choice([2.0, 2.0, 3.0, 4.0, 4.0, 8.0, 8.0, 72.0], count),
        hop_s=spread(2e-7, 5e-6), flag_s=single(some(0.7, spread(1e-9, 3e-7))),
        remote_bytes_per_s=spread(2e10, 2e12), sm_bytes_per_s=single(some(0.7, spread(2e9, 1e11))),
        copy_bytes_per_s=spread(2e10, 2e12), copy_start_s=spread(3e-7, 6e-6), copy_chunk_s=spread(3e-7, 6e-6),
        switch_bytes_per_s=single(some(0.8, spread(2e10, 2e12))), switch_hop_s=spread(3e-7, 2e-5),
        start_s=spread(1e-6, 3e-5), switch_start_s=spread(1e-6, 1e-4),
    )  # fmt: skip
    order = random.choice([0, 0, 0, 0, 1, 2], count)
    transport = random.choice({"ag_gemm": [0, 1, 1, 2], "gemm_rs": [0, 1, 1, 2], "gemm_ar": [1, 2, 3]}[kernel], count)
    order = np.where((kernel == "gemm_ar") & (order == 1), 0, order)
    needs = transport == 2 if kernel == "gemm_rs" else transport > 0
    comm_sms = np.where(needs, random.choice([4, 8, 16, 32], count), 0)
    comm_sms = np.where((kernel == "gemm_rs") & (transport < 2), random.choice([0, 0, 4, 16], count), comm_sms)
    comm_sms = np.where(order == 2, 0, comm_sms)
    queue = np.where((kernel == "gemm_rs") & (transport == 1) & (order < 2), random.choice([1, 1, 2, 4], count), 1)
    chunks = np.where(order == 2, 1, 2.0 ** random.choice([0, 0, 1, 1, 2, 3, 4], count))
    anyhow = random.random(count) < 0.06
    schedule = FusedGemmSchedule(
        **{name: getattr(own, name) for name in OF_GEMM if name != "swizzle"},
        swizzle=np.where(random.random(count) < 0.7, 1.0, own.swizzle),
        persistent=own.persistent, epilogue=own.epilogue,
        chunks=np.where(anyhow, random.integers(1, 40, count), chunks).astype(float),
        comm_sms=np.where(anyhow, random.choice([0, 8, 150], count), comm_sms).astype(float),
        transport=np.where(anyhow, random.integers(0, 4, count), transport).astype(float),
        order=np.where(anyhow, random.integers(0, 3, count), order).astype(float),
        queue=np.where(anyhow, random.integers(1, 4, count), queue).astype(float),
    )  # fmt: skip
    return FusedDraw(FusedGemm(gemm=gemm, link=link), schedule, gpu)
