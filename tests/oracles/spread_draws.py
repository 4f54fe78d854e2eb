"""Drawn problems that several GPUs share: links, exchanges, layers of experts, Ulysses and ring attention."""

import dataclasses
from typing import Any, NamedTuple

import numpy as np

from jaxmodel.kernels.attention_types import AttentionSchedule
from jaxmodel.kernels.moe_ep_types import ExpertLayer, ExpertLayerSchedule
from jaxmodel.kernels.moe_exchange_types import Exchange, ExchangeNumbers, ExchangeSchedule, Network
from jaxmodel.kernels.moe_types import MoeSchedule
from jaxmodel.kernels.spread_attention_types import RingAttention, RingSchedule, Ulysses, UlyssesSchedule
from jaxmodel.machine import Gpu
from jaxmodel.overlap import Link

from .attention_draws import draw_attention
from .gemm_draws import draw_gemms
from .grouped_gemm_draws import draw_moe

Random = np.random.Generator


class SpreadDraw(NamedTuple):
    """Records whose leaves have one entry a candidate."""

    problem: Any
    schedule: Any
    gpu: Gpu


def single(values: Any) -> np.ndarray:
    """Numbers that float32 holds, as float64."""
    return np.asarray(values, np.float32).astype(np.float64)


def draw_link(random: Random, count: int, ranks: Any) -> Link:
    """Links of every kind of fabric, some without a limit of one SM."""

    def spread(low: float, high: float) -> np.ndarray:
        return single(np.exp(random.uniform(np.log(low), np.log(high), count)))

    def some(share: float, values: np.ndarray) -> np.ndarray:
        return np.where(random.random(count) < share, values, 0.0)

    numbers = {"ranks": single(ranks), "start_s": spread(1e-6, 3e-5), "flag_s": some(0.7, spread(1e-9, 3e-7))}
    for name in (field.name for field in dataclasses.fields(Link) if field.name not in numbers):
        rate = name.endswith("bytes_per_s")
        numbers[name] = spread(2e10, 2e12) if rate else spread(2e-7, 6e-6)
    numbers["sm_bytes_per_s"] = some(0.7, spread(2e9, 1e11))
    numbers["copy_bytes_per_s"] = some(0.9, numbers["copy_bytes_per_s"])
    return Link(**numbers)


def _travel(random: Random, count: int) -> dict[str, np.ndarray]:
    transport = random.choice([0, 1, 1, 2], count)
    needed = random.choice([1, 4, 16, 32], count)
    return {
        "transport": single(transport), "comm_sms": single(np.where(transport > 0, needed, 0)),
        "chunks": single(random.choice([1, 1, 2, 4], count)),
    }  # fmt: skip


def _own(schedule: AttentionSchedule) -> dict[str, np.ndarray]:
    return {field.name: getattr(schedule, field.name) for field in dataclasses.fields(AttentionSchedule)}


def draw_ulysses(count: int, seed: int, family: str) -> SpreadDraw:
    """`count` ranks of Ulysses attention."""
    random = np.random.default_rng([seed, 31])
    attention, schedule, gpu = draw_attention(count, seed, family)
    ranks = random.choice([2, 4, 8, 16], count)
    others = attention.batch * attention.q_tokens * (1.0 - 1.0 / ranks)
    a_head = attention.head_dim * attention.q_bytes
    keys = attention.kv_heads * (attention.head_dim + attention.v_dim) * attention.kv_bytes
    problem = Ulysses(
        attention=attention,
        q_bytes=single(others * attention.heads * a_head), kv_bytes=single(others * keys),
        out_bytes=single(others * attention.heads * attention.v_dim * attention.out_bytes),
        link=draw_link(random, count, ranks),
    )  # fmt: skip
    return SpreadDraw(problem, UlyssesSchedule(**_own(schedule), **_travel(random, count)), gpu)


def draw_ring(count: int, seed: int, family: str, causal: bool) -> SpreadDraw:
    """`count` ranks of ring attention: a mask on the own shard and none on others', or none at all."""
    random = np.random.default_rng([seed, 32])
    attention, schedule, gpu = draw_attention(count, seed, family)
    tokens = single(np.ceil(attention.q_tokens / 4.0) * 4.0)
    step = dataclasses.replace(
        attention, q_tokens=tokens, kv_tokens=tokens, causal=np.zeros(count), window=np.zeros(count)
    )
    own = dataclasses.replace(step, causal=np.ones(count)) if causal else None
    shard = step.batch * tokens * step.kv_heads * (step.head_dim + step.v_dim) * step.kv_bytes
    link = draw_link(random, count, random.choice([2, 3, 4, 8, 16], count))
    more = {name: single(random.integers(0, 2, count)) for name in ("lockstep", "merge_fused")}
    ring = RingSchedule(**_own(schedule), **_travel(random, count), **more)
    return SpreadDraw(RingAttention(own=own, step=step, shard_bytes=single(shard), link=link), ring, gpu)


def draw_exchange(random: Random, count: int, nodes: bool, combine: Any, rows: Any = None) -> Exchange:
    """`count` exchanges inside a node, or some over several."""
    inside = random.choice([2, 4, 8], count)
    many = np.where(random.random(count) < 0.4, random.choice([2, 4], count), 1) if nodes else 1
    topk = random.choice([1, 2, 4, 8], count)
    tokens = np.floor(np.exp(random.uniform(0.0, np.log(9000.0), count))) if rows is None else rows / topk
    ranks = inside * many
    distinct = np.minimum(random.uniform(0.5, 1.0, count) * topk, ranks)
    return Exchange(
        tokens=single(tokens), expert_rows=single(tokens * topk), rank_rows=single(tokens * np.maximum(distinct, 1.0)),
        node_rows=single(tokens * np.minimum(np.maximum(distinct, 1.0), many)),
        row_bytes=single(random.choice([256.0, 4096.0, 7392.0, 14336.0], count)),
        combine=single(np.broadcast_to(combine, count)), ranks=single(ranks), link=draw_link(random, count, inside),
        network=Network(
            bytes_per_s=single(random.choice([0.0, 2.5e10, 5e10, 1e11], count, p=[0.1, 0.3, 0.3, 0.3])),
            hop_s=single(random.uniform(1e-6, 1e-5, count)),
        ),
        numbers=ExchangeNumbers(
            sm_bytes_per_s=single(random.choice([0.0, 2e10, 8e10], count)),
            row_s=single(random.choice([0.0, 1e-7], count)), call_s=single(random.choice([0.0, 1e-5], count)),
        ),
    )  # fmt: skip


def draw_way(random: Random, count: int) -> dict[str, np.ndarray]:
    """Fields of `ExchangeSchedule`; some that cannot be."""
    return {
        "transport": single(random.integers(0, 3, count)), "copies": single(random.integers(0, 2, count)),
        "comm_sms": single(random.choice([0, 2, 5, 16, 32], count, p=[0.1, 0.2, 0.2, 0.3, 0.2])),
        "chunk_rows": single(random.choice([1, 4, 16], count)), "queue_rows": single(random.choice([1, 8, 256], count)),
    }  # fmt: skip


def draw_exchanges(count: int, seed: int, family: str) -> SpreadDraw:
    """`count` dispatches and combines by themselves."""
    random = np.random.default_rng([seed, 33])
    gpu = draw_gemms(count, seed, family).gpu
    problem = draw_exchange(random, count, True, random.integers(0, 2, count))
    return SpreadDraw(problem, ExchangeSchedule(**draw_way(random, count)), gpu)


def draw_layer(count: int, seed: int, family: str, part: str = "layer") -> SpreadDraw:
    """`count` layers of experts in one node, or one of their halves."""
    random = np.random.default_rng([seed, 34])
    layer, schedule, gpu = draw_moe(count, seed, family, own_seconds=False)
    rows = sum(one.rows * one.experts for one in layer.classes)
    dispatch = draw_exchange(random, count, False, 0.0, rows)
    combine = dataclasses.replace(
        dispatch, combine=np.ones(count), row_bytes=single(2.0 * dispatch.row_bytes), ranks=dispatch.ranks
    )
    way = draw_way(random, count)
    chunks = np.where(way["transport"] > 1, 1, random.choice([1, 2, 7, 64], count))
    more = {name: single(random.integers(0, 2, count)) for name in ("own_first", "one_kernel")}
    own = {field.name: getattr(schedule, field.name) for field in dataclasses.fields(MoeSchedule)}
    problem = ExpertLayer(
        layer=layer,
        dispatch=None if part == "combine" else dispatch,
        combine=None if part == "dispatch" else combine,
    )
    return SpreadDraw(problem, ExpertLayerSchedule(**own, **way, chunks=single(chunks), **more), gpu)
