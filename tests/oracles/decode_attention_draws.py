"""Drawn candidates of decode attention: problems, implementations' numbers and schedules on perturbed GPUs.

Every number is one that float32 holds, and contexts are short enough that whole blocks and splits divide exactly.
"""

import dataclasses
from typing import NamedTuple

import numpy as np

from jaxmodel.kernels.decode_attention_types import DecodeAttention, DecodeAttentionSchedule, DecodeNumbers
from jaxmodel.machine import Gpu

from .gemm_draws import FAMILIES as FAMILIES
from .gemm_draws import draw_gemms

Random = np.random.Generator
SECONDS = ("framework_s", "tile_setup_s", "wide_tile_setup_s", "row_s", "step_s", "sequence_s", "long_batch_sequence_s")


class Draw(NamedTuple):
    """Records whose leaves have one entry a candidate (`cluster_sms`: one row)."""

    problem: DecodeAttention
    schedule: DecodeAttentionSchedule
    gpu: Gpu


def draw_decode(count: int, seed: int, family: str, seconds: bool = True) -> Draw:
    """`count` candidates of one instruction family.

    Args:
        count, seed, family: as in `draw_gemms`.
        seconds: whether implementations' own times are drawn; they do not scale with the GPU.
    """
    random = np.random.default_rng([seed, 77, FAMILIES.index(family)])
    gpu = draw_gemms(count, seed, family).gpu
    room_w = (10.0 ** random.uniform(0.5, 3.0, count)).astype(np.float32)  # some draw too much power
    gpu = dataclasses.replace(gpu, tdp_w=gpu.static_w + room_w)
    problem = _problem(random, count, seconds)
    return Draw(problem, _schedule(random, count, family), gpu)


def _pick(random: Random, count: int, *values: float) -> np.ndarray:
    return random.choice(np.array(values, float), count)


def _problem(random: Random, count: int, seconds: bool) -> DecodeAttention:
    pick = lambda *values: _pick(random, count, *values)  # noqa: E731
    kv_heads = pick(1, 1, 2, 4, 8, 12)
    mla = random.random(count) < 0.25
    q_tokens = pick(1, 1, 1, 2, 5, 64, 300)
    head_dim = np.where(mla, 576.0, pick(64, 80, 128, 192, 256))
    q_bytes = pick(2, 2, 1)
    return DecodeAttention(
        batch=pick(1, 1, 3, 16, 40, 250, 1000),
        q_tokens=q_tokens,
        kv_tokens=np.maximum(np.floor(np.exp(random.uniform(0.0, np.log(40_000.0), count))), q_tokens),
        context_spread=_float32(pick(0, 0, 0.1, 0.5)),
        heads=kv_heads * pick(1, 1, 4, 7, 16, 48, 128),
        kv_heads=kv_heads,
        head_dim=head_dim,
        v_dim=np.where(mla, 512.0, np.where(random.random(count) < 0.9, head_dim, 128.0)),
        shared_kv=mla.astype(float),
        causal=pick(0, 1),
        window=pick(0, 0, 0, 100, 1024),
        q_bytes=q_bytes,
        kv_bytes=np.where(random.random(count) < 0.3, 1.0, q_bytes),
        out_bytes=pick(2, 4),
        page_tokens=pick(0, 1, 16, 64),
        kv_warm=pick(0, 1),
        numbers=_numbers(random, count, seconds),
    )


def _numbers(random: Random, count: int, seconds: bool) -> DecodeNumbers:
    own = random.random(count) < 0.5
    defaults = dataclasses.asdict(DecodeNumbers())
    values = {name: np.full(count, float(default)) for name, default in defaults.items()}

    def drawn(*choices: float) -> np.ndarray:
        return _float32(_pick(random, count, *choices))

    some = {
        "combine_scale": drawn(0.5, 1, 3),
        "read_scale": drawn(0.7, 1.0, 1.25),
        "shared_read_scale": drawn(0.3, 1.0),
        "cache_share": drawn(0.3, 0.9),
        "overhead_loss": drawn(0.0, 0.4, 1.0),
        "helper_q": drawn(0, 2),
        "helper_kv": drawn(0, 0, 3),
        "long_batch": drawn(0, 200),
        "split_blocks": drawn(1, 4),
        "split_cap": drawn(16, 128),
        "combine_always": drawn(0, 1),
        "ctas_per_sm": drawn(0, 1, 2),
        "tile_rows": drawn(0, 0, 0, 64),
        "wide_tile_rows": drawn(0, 0, 0, 64),
        "tile_n": drawn(0, 0, 0, 128),
        "wide_tile_n": drawn(0, 0, 0, 64),
        "swapped_rows": drawn(0, 0, 0, 32),
        "unpacked_rows": drawn(0, 0, 0, 32),
    }
    if seconds:
        some |= {name: _float32(random.uniform(0.0, 3e-6, count)) for name in SECONDS[:3]}
        some |= {name: _float32(random.uniform(0.0, 3e-8, count)) for name in SECONDS[3:]}
    return DecodeNumbers(**(values | {name: np.where(own, value, values[name]) for name, value in some.items()}))


def _schedule(random: Random, count: int, family: str) -> DecodeAttentionSchedule:
    pick = lambda *values: _pick(random, count, *values)  # noqa: E731
    swapped = random.random(count) < 0.4
    straight_rows = pick(16, 32, 64, 128) if family == "mma_sync" else pick(64, 64, 128, 192, 96)
    scheduler = pick(0, 0, 1, 2)
    splits = np.where(scheduler == 2, pick(1, 1, 1, 2), pick(1, 1, 2, 3, 8, 64))
    measured = random.random(count) < 0.1
    return DecodeAttentionSchedule(
        tile_rows=np.where(swapped, pick(8, 16, 24, 32, 64), straight_rows),
        tile_n=pick(32, 64, 64, 96, 128, 128, 256),
        stages=pick(1, 2, 2, 3, 4),
        warps=pick(4, 4, 8) if family != "mma_sync" else pick(1, 2, 4, 4, 8),
        pack_gqa=pick(0, 1, 1),
        swap_ab=swapped.astype(float),
        overlap=pick(0, 1),
        splits=splits,
        scheduler=scheduler,
        combine=np.where((splits > 1) | (scheduler == 2), pick(0, 1), np.where(random.random(count) < 0.05, 1.0, 0.0)),
        registers_measured=np.where(measured, pick(96, 168, 240), 0.0),
        smem_measured_bytes=np.where(measured, pick(40_000, 160_000), 0.0),
    )


def _float32(values: np.ndarray) -> np.ndarray:
    return np.asarray(values).astype(np.float32).astype(np.float64)
