"""Drawn grouped GEMMs and MoE layers: GPUs and tiles as GEMM's draws have them, experts in three classes."""

import dataclasses
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxmodel.kernels.grouped_gemm_types import ExpertClass, GroupedGemm, GroupedGemmSchedule, GroupedNumbers
from jaxmodel.kernels.moe_types import Moe, MoeNumbers, MoeSchedule
from jaxmodel.machine import Gpu

from .gemm_draws import FAMILIES, draw_gemms

Random = np.random.Generator
MAY_BE_ABSENT = ("drift_skew_steps", "drift_jitter_steps")


class GroupedDraw(NamedTuple):
    problem: GroupedGemm
    schedule: GroupedGemmSchedule
    gpu: Gpu


class MoeDraw(NamedTuple):
    problem: Moe
    schedule: MoeSchedule
    gpu: Gpu


def draw_grouped(count: int, seed: int, family: str, own_seconds: bool = True) -> GroupedDraw:
    """`count` candidates of one instruction family; numbers that float32 holds, experts in eighths.

    Args:
        own_seconds: whether implementations may have latencies of their own, which do not scale with the GPU's.
    """
    random = np.random.default_rng([seed, FAMILIES.index(family), 7])
    base = draw_gemms(count, seed, family, stream_k=False)
    p, s, tcgen05 = base.problem, base.schedule, family == "tcgen05"
    classes = _draw_classes(random, count)
    rows = sum(one.rows * one.experts for one in classes)
    problem = GroupedGemm(
        tokens=np.maximum(np.floor(rows * random.choice([1.0, 0.5, 0.125], count)), 1.0), n=p.n, k=p.k,
        classes=classes, a_bytes=p.a_bytes, b_bytes=p.b_bytes, out_bytes=p.out_bytes,
        a_align_bytes=p.a_align_bytes, b_align_bytes=p.b_align_bytes, out_align_bytes=p.out_align_bytes,
        a_warm=p.a_warm, numbers=_draw_numbers(random, count, own_seconds), scaling=p.scaling,
    )  # fmt: skip
    own = {"producers": random.random(count) < 0.7, "cta_pair": random.random(count) < (0.4 if tcgen05 else 0.01)}
    names = [field.name for field in dataclasses.fields(GroupedGemmSchedule) if field.name not in own]
    schedule = GroupedGemmSchedule(**{name: getattr(s, name) for name in names}, **own)
    return GroupedDraw(*_single((problem, schedule, base.gpu)))


def draw_moe(count: int, seed: int, family: str, own_seconds: bool = True) -> MoeDraw:
    """The same for layers: both products of one type, wide activations of 2 or 4 bytes."""
    random = np.random.default_rng([seed, FAMILIES.index(family), 9])
    grouped = draw_grouped(count, seed, family, own_seconds)
    p = grouped.problem
    rows = sum(one.rows * one.experts for one in p.classes)
    numbers = MoeNumbers(
        kernel=p.numbers, framework_s=random.choice([0.0, 1e-5], count) * own_seconds,
        helper_scale=random.uniform(0.5, 3.0, count), permutes=random.integers(0, 2, count).astype(float),
        all_rows=random.integers(0, 2, count).astype(float),
    )  # fmt: skip
    problem = Moe(
        tokens=p.tokens, routed_everywhere=np.floor(rows * random.choice([1.0, 2.0, 8.0], count)),
        hidden=p.k, inter=p.n,
        gated=random.integers(0, 2, count).astype(float), classes=p.classes, weight_bytes=p.a_bytes,
        wide_bytes=random.choice([2.0, 2.0, 4.0], count), align_bytes=p.a_align_bytes, numbers=numbers,
        scaling=p.scaling,
    )  # fmt: skip
    names = [field.name for field in dataclasses.fields(GroupedGemmSchedule)]
    same = random.random(count) < 0.5
    own = {"tile_m": [64.0, 128.0], "tile_n": [32.0, 64.0, 128.0], "stages": [2.0, 3.0, 4.0], "warps_m": [4.0]}
    second = {f"down_{name}": np.where(same, 0.0, random.choice(values, count)) for name, values in own.items()}
    schedule = MoeSchedule(
        **{name: getattr(grouped.schedule, name) for name in names}, **second,
        down_depth=random.choice([1.0, 1.0, 2.0], count),
    )  # fmt: skip
    return MoeDraw(*_single((problem, schedule, grouped.gpu)))


def _draw_classes(random: Random, count: int) -> tuple[ExpertClass, ...]:
    found = []
    for place in range(3):
        rows = np.floor(np.exp(random.uniform(0.0, np.log(2000.0), count)))
        experts = random.integers(1, 80, count) / 8.0
        if place:
            experts = np.where(random.random(count) < 0.4, 0.0, experts)
        found.append(ExpertClass(rows=rows, experts=experts))
    return tuple(found)


def _draw_numbers(random: Random, count: int, own_seconds: bool) -> GroupedNumbers:
    def seconds(value: float) -> np.ndarray:
        return random.choice([0.0, value], count) * own_seconds

    return GroupedNumbers(
        tensor_efficiency=random.uniform(0.4, 1.0, count), mma_sync_efficiency=random.uniform(0.4, 1.0, count),
        ddr_efficiency=random.uniform(0.6, 1.1, count), ddr_run_bytes=random.choice([0.0, 10.0, 60.0], count),
        l2_efficiency=random.uniform(0.5, 1.2, count), step_overhead_s=seconds(5e-8), tile_setup_s=seconds(1e-6),
        load_latency_s=seconds(4e-7),
    )  # fmt: skip


def _single(records: Any) -> Any:
    """Numbers that float32 holds, as float64."""
    return jax.tree.map(lambda leaf: np.asarray(leaf, np.float32).astype(np.float64), records)
