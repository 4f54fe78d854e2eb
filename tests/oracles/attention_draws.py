"""Drawn attention candidates: problems, schedules and GPUs on which the model meets its twin and its laws.

Every number is one that float32 holds. Sequences differ in `draw_attention(..., classes=3)`; the head dims, tiles and
counts are drawn around what the spaces offer. Implementations' seconds are 0: they are nobody's latency of the GPU.
"""

from typing import NamedTuple

import numpy as np

from jaxmodel.kernels.attention_types import Attention, AttentionNumbers, AttentionSchedule, SequenceClass
from jaxmodel.machine import Gpu

from .gemm_draws import draw_gemms

FAMILIES = ("mma_sync", "wgmma", "tcgen05")


class Draw(NamedTuple):
    """Records whose leaves have one entry a candidate (`cluster_sms`: one row)."""

    problem: Attention
    schedule: AttentionSchedule
    gpu: Gpu


def draw_attention(count: int, seed: int, family: str, classes: int = 1, own_seconds: bool = False) -> Draw:
    """`count` candidates of one instruction family.

    Args:
        classes: of sequences of equal length in a launch.
        own_seconds: whether implementations have seconds of their own, not only shares and scales.
    """
    random = np.random.default_rng([seed, FAMILIES.index(family)])
    gpu = draw_gemms(count, seed, family).gpu
    cast = lambda value: np.asarray(value, np.float32).astype(np.float64)  # noqa: E731
    kv_heads = random.choice([1, 2, 4, 8], count)
    element = random.choice([1.0, 2.0, 2.0, 2.0], count)
    head_dim = random.choice([64, 80, 128, 128, 192, 256], count)
    prefix = np.where(random.random(count) < 0.6, 0, _log_uniform(random, count, 1, 8192))
    causal = random.random(count) < 0.7
    lengths = [_log_uniform(random, count, 1, 16384) for _ in range(classes)]
    batches = [_log_uniform(random, count, 1, 48) for _ in range(classes)]
    seconds = own_seconds * random.random((5, count))
    numbers = AttentionNumbers(
        framework_s=cast(1e-5 * seconds[0]),
        other_dims_s=cast(4e-6 * seconds[4]),
        helper_q=cast(random.choice([0.0, 1.5], count)),
        helper_kv=cast(random.choice([0.0, 2.5], count)),
        tensor_efficiency=cast(random.uniform(0.5, 1.0, count)),
        softmax_scale=cast(random.uniform(0.6, 1.5, count)),
        handover_s=cast(3e-7 * seconds[1]),
        tile_setup_s=cast(2e-6 * seconds[2]),
        imbalance=cast(random.uniform(0.0, 1.0, count)),
        combine_s=cast(np.where(seconds[3] > 0.5, 5e-6 * seconds[3], 0.0)),
        power_scale=cast(random.uniform(0.5, 1.5, count)),
    )
    problem = Attention(
        batch=cast(batches[0]), q_tokens=cast(lengths[0]), kv_tokens=cast(lengths[0] + prefix),
        heads=cast(kv_heads * random.choice([1, 2, 3, 8], count)), kv_heads=cast(kv_heads),
        head_dim=cast(head_dim), v_dim=cast(np.where(random.random(count) < 0.8, head_dim, 128)),
        causal=cast(causal),
        window=cast(np.where(causal & (random.random(count) < 0.3), _log_uniform(random, count, 1, 4096), 0)),
        q_bytes=cast(element), kv_bytes=cast(element), out_bytes=cast(random.choice([1, 2, 2, 4], count)),
        kv_page_tokens=cast(random.choice([0, 0, 16, 64], count)), kv_warm=cast(random.choice([0, 0, 1], count)),
        q_warm=cast(random.integers(0, 2, count)), numbers=numbers,
        more=tuple(
            SequenceClass(batch=cast(batch), q_tokens=cast(tokens), kv_tokens=cast(tokens + prefix))
            for batch, tokens in zip(batches[1:], lengths[1:], strict=True)
        ),
    )  # fmt: skip
    return Draw(problem, AttentionSchedule(**{k: cast(v) for k, v in _schedule(random, count, family).items()}), gpu)


def _schedule(random: np.random.Generator, count: int, family: str) -> dict[str, np.ndarray]:
    rows = 128 if family == "tcgen05" else 64
    warpgroups = random.choice([1, 1, 2, 2, 3] if family != "tcgen05" else [1, 1, 2], count)
    odd = random.random(count) < 0.04
    longest_first = random.integers(0, 2, count)
    order = np.where(random.random(count) < 0.9, 0, random.integers(0, 4, count))
    if family != "mma_sync":
        order = random.integers(0, 4, count)
    measured = random.random((2, count)) < 0.05
    rare = lambda share: random.random(count) < share  # noqa: E731
    return {
        "tile_m": warpgroups * rows * random.choice([1, 1, 1, 2], count) + odd * random.integers(1, 60, count),
        "tile_n": 16 * random.integers(1, 13, count) + rare(0.02) * 3,
        "stages": random.integers(1, 4, count), "warpgroups": warpgroups, "order": order,
        "pack_gqa": random.integers(0, 2, count), "splits": random.choice([1, 1, 1, 2, 3, 4, 8], count),
        "persistent": random.integers(0, 2, count), "longest_first": longest_first,
        "q_in_registers": rare(0.15), "p_in_smem": rare(0.1),
        "head_section": np.where((longest_first > 0) | rare(0.03), random.choice([1, 2, 4, 8], count), 0),
        "registers_measured": np.where(measured[0], random.integers(24, 257, count), 0),
        "smem_measured_bytes": np.where(measured[1], random.integers(1024, 250_000, count), 0),
    }  # fmt: skip


def _log_uniform(random: np.random.Generator, count: int, low: int, high: int) -> np.ndarray:
    return np.floor(np.exp(random.uniform(np.log(low), np.log(high + 1), count)))
