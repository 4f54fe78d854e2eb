"""What a block of keys takes when warpgroups share the tensor cores: cyclic schedules of products and softmax.

A warpgroup does, for each block of keys, QK^T, softmax, PV, each waiting for the one before. W equal warpgroups share
the tensor cores and the units that the softmax runs on, so what one cannot hide the others may, and the order in which
the tensor cores serve them decides how much. A product of one warpgroup holds the tensor cores for qk_s or pv_s, a
softmax its units for softmax_s; handover_s passes whenever the tensor cores go from one warpgroup to the next.

Warpgroups are alike, so an order of W of them is written with two: the first and the last. Between them the others'
products or softmaxes pass one after the other. `tests/oracles/attention_arcs.py` writes all W out.
"""

from dataclasses import dataclass

import jax.numpy as jnp

from ..arcs import Arc, buffer_arc, dependency_arc
from ..cyclic import NEVER_S, initiation_interval
from ..types import Array, Floats
from .attention_types import ORDER_BOTH, ORDER_PING_PONG, ORDER_PIPELINED


@dataclass(frozen=True)
class BlockTimes:
    """Seconds of one warpgroup's actions for one block of keys, and of the loads that all warpgroups share."""

    qk_s: Array
    softmax_s: Array
    pv_s: Array
    product_latency_s: Array  # of QK, after it has left the tensor cores, until its scores can be read
    handover_s: Array
    load_s: Array  # K and V of one block, on the load's slowest engine
    load_latency_s: Array
    warpgroups: Array
    stages: Array  # blocks of K and V that the ring buffers hold
    score_buffers: (
        Array  # of one warpgroup: QK may run as many blocks ahead of the softmax where another warp issues it
    )


def block_seconds(times: BlockTimes, order: Floats) -> Floats:
    """Seconds a block in the long run, all warpgroups' rows: the initiation interval of the order's cyclic schedule."""
    interval_s = initiation_interval(in_step_arcs(times))
    for code, arcs in (
        (ORDER_PIPELINED, pipelined_arcs(times)),
        (ORDER_PING_PONG, ping_pong_arcs(times)),
        (ORDER_BOTH, both_arcs(times)),
    ):
        interval_s = jnp.where(order == code, initiation_interval(arcs), interval_s)
    return interval_s


def first_block_seconds(times: BlockTimes) -> Floats:
    """Seconds of a tile's first block once its K is there: warpgroups start together, the last one is through when all
    products before its own and its softmax are, or the first product and everybody's softmax. V comes meanwhile."""
    others = times.warpgroups - 1.0
    queued_s = others * jnp.maximum(times.qk_s, times.softmax_s)
    scored_s = times.qk_s + times.product_latency_s + times.softmax_s + queued_s
    return jnp.maximum(scored_s, 0.5 * times.load_s) + times.pv_s


def in_step_arcs(times: BlockTimes) -> list[Arc]:
    """ORDER_SERIAL. Warpgroups start together and the tensor cores serve products as they come: QK of the first to the
    last, then PV of the first to the last, then QK of the next block."""
    qk_s, pv_s = times.qk_s + times.handover_s, times.pv_s + times.handover_s
    return [
        *_queued_arcs(times),
        Arc("qk_last", "pv", qk_s),
        Arc("pv_last", "qk", pv_s, 1),
    ]


def pipelined_arcs(times: BlockTimes) -> list[Arc]:
    """ORDER_PIPELINED. As in step, and each warpgroup has QK of the next block issued before PV of this one: its
    softmax runs beside PV."""
    qk_s, pv_s, softmax_s = times.qk_s + times.handover_s, times.pv_s + times.handover_s, times.softmax_s
    return [
        *_queued_arcs(times),
        Arc("softmax", "qk", softmax_s, times.score_buffers),
        Arc("softmax_last", "qk_last", softmax_s, times.score_buffers),
        Arc("qk_last", "pv", qk_s, -1),
        Arc("pv_last", "qk", pv_s, 2),
    ]


def ping_pong_arcs(times: BlockTimes) -> list[Arc]:
    """ORDER_PING_PONG. The tensor cores do PV of this block and QK of the next one for one warpgroup, then for the next
    warpgroup: a turn. One warpgroup's softmax runs in the others' turns."""
    return [
        *_load_arcs(times, ("qk", times.qk_s), ("pv", times.pv_s)),
        *_freeing_arcs(times, ("qk_last", times.qk_s), ("pv_last", times.pv_s)),
        dependency_arc("qk", "softmax", times.qk_s + times.product_latency_s),
        dependency_arc("softmax", "pv", times.softmax_s + times.handover_s),
        Arc("pv", "qk", times.pv_s, 1),
        Arc("pv_last", "qk_last", times.pv_s, 1),
        Arc("qk", "pv_last", _turns_between(times, times.qk_s), -1),
        Arc("qk_last", "pv", times.qk_s + times.handover_s),
        Arc("softmax", "softmax", times.warpgroups * times.softmax_s, 1),
    ]


def both_arcs(times: BlockTimes) -> list[Arc]:
    """ORDER_BOTH. Turns as in ping-pong, each QK of the next block and then PV of this one: a warpgroup's softmax
    starts when its QK is done and runs beside its own PV and in the others' turns."""
    return [
        *_load_arcs(times, ("qk", times.qk_s), ("pv", times.pv_s)),
        *_freeing_arcs(times, ("qk_last", times.qk_s), ("pv_last", times.pv_s)),
        dependency_arc("qk", "softmax", times.qk_s + times.product_latency_s),
        Arc("softmax", "qk", times.softmax_s + times.handover_s, times.score_buffers),
        dependency_arc("softmax", "pv", times.softmax_s),
        Arc("qk", "pv", times.qk_s, -1),
        Arc("qk_last", "pv_last", times.qk_s, -1),
        Arc("pv", "qk_last", _turns_between(times, times.pv_s), 1),
        Arc("pv", "qk", times.pv_s + times.handover_s, 2),
        Arc("pv_last", "qk", times.pv_s + times.handover_s, 2),
        Arc("softmax", "softmax", times.warpgroups * times.softmax_s, 1),
    ]


def _turns_between(times: BlockTimes, own_s: Floats) -> Floats:
    """From the first warpgroup's last product of a turn to the last warpgroup's turn; never with one warpgroup, whose
    last is an action of nobody."""
    turn_s = times.qk_s + times.pv_s + times.handover_s
    between_s = own_s + times.handover_s + (times.warpgroups - 2.0) * turn_s
    return jnp.where(times.warpgroups > 1, between_s, -NEVER_S)


def _queued_arcs(times: BlockTimes) -> list[Arc]:
    """What holds without turns: warpgroups queue for each product and for the softmax, each in its own chain."""
    others = times.warpgroups - 1.0
    qk_s, pv_s, softmax_s = times.qk_s + times.handover_s, times.pv_s + times.handover_s, times.softmax_s
    return [
        *_load_arcs(times, ("qk_last", qk_s), ("pv_last", pv_s)),
        Arc("qk", "qk_last", others * qk_s),
        Arc("softmax", "softmax_last", others * softmax_s),
        Arc("pv", "pv_last", others * pv_s),
        dependency_arc("qk", "softmax", qk_s + times.product_latency_s),
        dependency_arc("qk_last", "softmax_last", qk_s + times.product_latency_s),
        dependency_arc("softmax", "pv", softmax_s),
        dependency_arc("softmax_last", "pv_last", softmax_s),
        Arc("softmax_last", "softmax", softmax_s, 1),
    ]


def _load_arcs(times: BlockTimes, k_freed: tuple[str, Floats], v_freed: tuple[str, Floats]) -> list[Arc]:
    """One engine loads K and V of each block into rings of their own; a product frees its buffer when it is done."""
    ready_s = 0.5 * times.load_s + times.load_latency_s
    return [
        dependency_arc("load_k", "qk", ready_s),
        dependency_arc("load_v", "pv", ready_s),
        Arc("load_k", "load_k", times.load_s, 1),
        *_freeing_arcs(times, k_freed, v_freed),
    ]


def _freeing_arcs(times: BlockTimes, k_freed: tuple[str, Floats], v_freed: tuple[str, Floats]) -> list[Arc]:
    return [buffer_arc("load_k", *k_freed, times.stages), buffer_arc("load_v", *v_freed, times.stages)]
