"""Layers of experts on several GPUs: tiles and chunks played one by one, limits, and what moves the best chunks."""

import dataclasses
import math

import jax
import numpy as np
import pytest
from oracles import overlap
from oracles.spread_draws import draw_layer

from dse import load_gpu, load_space
from dse.errors import UserError
from dse.job import as_float32
from dse.kernels.moe import MoeProblem
from dse.kernels.moe_ep import ExpertLayerProblem
from dse.kernels.registry import get_kernel
from jaxmodel.kernels import moe_ep
from jaxmodel.kernels.grouped_gemm import grouped_parts, with_numbers
from jaxmodel.kernels.moe import products, schedules
from jaxmodel.kernels.moe_exchange import exchange_times
from jaxmodel.kernels.moe_exchange_types import ExchangeSchedule

LAYER = ExpertLayerProblem.from_shape("16384x4096x2048x64x4", distribution="balanced")
COUNT = 120


def pieces(at, part: str):
    """(grouped kernel's parts, the exchange's start and stream, share of own tiles' blocks) of one scalar candidate,
    made of the parts that have twins of their own."""
    problem, schedule, gpu = at
    exchange = getattr(problem, part)
    busy = 0.0 if schedule.transport == 2 else schedule.comm_sms
    left = dataclasses.replace(
        with_numbers(gpu, problem.layer.numbers.kernel, schedule.producers), sm_count=max(gpu.sm_count - busy, 1.0)
    )
    groups = []
    for one in problem.layer.classes:
        own = math.floor(one.rows / exchange.ranks) if schedule.own_first and part == "dispatch" else 0
        groups += [(own, one.experts)] * (own > 0) + [(one.rows - own, one.experts)]
    index = ("dispatch", "combine").index(part)
    run = schedules(schedule)[index]
    height = run.tile_n if run.swap_ab else run.tile_m * (2 if run.cta_pair else 1)
    layer = dataclasses.replace(
        problem.layer,
        classes=tuple(dataclasses.replace(problem.layer.classes[0], rows=r, experts=e) for r, e in groups),
    )
    parts = grouped_parts(products(layer)[index], run, left)
    own_blocks = sum(
        one.experts * math.ceil(math.floor(one.rows / exchange.ranks) / height)
        for one in problem.layer.classes
    )  # fmt: skip
    blocks = max(sum(e * math.ceil(r / height) for r, e in groups), 1.0)
    share = own_blocks / blocks if schedule.own_first and part == "dispatch" else 0.0
    way = ExchangeSchedule(**{name: getattr(schedule, name) for name in ExchangeSchedule.__dataclass_fields__})
    times = exchange_times(exchange, way, gpu)
    return parts, float(times.start_s), float(times.stream_s), share, exchange


def chunked(tiles: int, wanted: float) -> tuple[int, int, float]:
    each = max(math.ceil(tiles / wanted), 1)
    chunks = math.ceil(tiles / each)
    return each, chunks, (tiles - (chunks - 1) * each) / each


@pytest.mark.parametrize("part", ["dispatch", "combine"])
def test_tiles_and_chunks_end_when_the_played_ones_do(part: str) -> None:
    with jax.enable_x64(True):
        drawn = draw_layer(COUNT, 3, "wgmma", part)
        found = jax.tree.map(lambda leaf: np.broadcast_to(np.asarray(leaf), COUNT), moe_ep.cost(*drawn))
        compared = 0
        for at in np.flatnonzero(found.reason == 0):
            one = jax.tree.map(lambda leaf, at=at: float(leaf[at]) if np.ndim(leaf) == 1 else leaf[0], drawn)
            parts, start_s, stream_s, share, exchange = pieces(one, part)
            tiles, slots, busy_s = int(parts.tiles), int(parts.slots), float(parts.busy_s)
            if tiles > 4000:
                continue
            tile_s, flag_s = busy_s / math.ceil(tiles / slots), exchange.link.flag_s
            if part == "dispatch":
                own = math.floor(tiles * share)
                each, chunks, last = chunked(tiles - own, one[1].chunks)
                pace_s = stream_s * each / max(tiles - own, 1) + flag_s
                first_s = start_s + pace_s * (1.0 if chunks > 1 else last)
                played = overlap.arriving(tiles, slots, tile_s, own, chunks, each, first_s, pace_s, pace_s * last)
            else:
                each, _, last = chunked(tiles, one[1].chunks)
                pace_s = stream_s * each / tiles + flag_s
                played = overlap.departing(tiles, slots, [tile_s] * tiles, tiles, each, pace_s, pace_s * last, start_s)
            exposed_s = float(found.communication_s[at])
            assert exposed_s == pytest.approx(max(played - busy_s, 0.0), rel=0.01, abs=0.01 * busy_s), at
            assert exposed_s <= start_s + stream_s + flag_s * one[1].chunks + 1e-12  # at most all of communication
            assert busy_s + exposed_s >= start_s + stream_s - 1e-12
            compared += 1
    assert compared > 15


def costs(problem, link: float = 1.0, latency: float = 1.0, fields: dict | None = None):
    """Of one schedule with some fields, on H100 with other links; SMs without a limit of their own."""
    kernel, gpu = get_kernel("moe_ep"), load_gpu("h100_sxm")
    changes = {"fabric.link": f"{link}x", "fabric.latency": f"{latency}x", "fabric.level.sm_bytes_per_s": 0.0}
    columns = load_space("moe_ep", preset="mega").rows([0])
    given = {"tile_m": 128, "warps_m": 8, "tile_n": 128, "transport": 0, "copies": 0, "comm_sms": 16, "queue_rows": 64}
    given |= {"down_tile_m": 0, "down_tile_n": 0, "down_warps_m": 0, "own_first": 0, **(fields or {})}
    columns = {name: np.float32(given.get(name, column[0])) for name, column in columns.items()}
    bound = as_float32(gpu.bind("bf16"))
    record = as_float32(problem.on(gpu, changes).arrays())
    return jax.tree.map(float, kernel.cost(record, kernel.schedule(columns), bound))


def test_with_links_ten_times_slower_the_links_decide_and_with_faster_ones_the_tiles_do() -> None:
    fast, slow, slower = (
        costs(LAYER, link, latency, {"chunks": 32}) for link, latency in ((1e4, 1e-3), (0.01, 1.0), (0.001, 1.0))
    )
    assert fast.communication_s < 0.01 * fast.latency_s
    assert slow.pipeline_s[-1] < slow.latency_s < slow.pipeline_s[-1] + fast.latency_s
    assert slower.latency_s - slow.latency_s == pytest.approx(slower.pipeline_s[-1] - slow.pipeline_s[-1], rel=1e-3)


def test_slower_links_ask_for_more_chunks_and_slower_flags_for_fewer() -> None:
    def best(**links: float) -> int:
        found = {n: costs(LAYER, **links, fields={"chunks": n}).latency_s for n in (1, 4, 16, 64)}
        return min(found, key=found.__getitem__)

    assert best(link=0.3) > best(link=3.0, latency=100.0)


def test_more_chunks_hide_what_one_leaves_in_the_open() -> None:
    one, many = (costs(LAYER, fields={"chunks": n}) for n in (1, 32))
    assert many.communication_s < 0.5 * one.communication_s
    assert many.latency_s - many.communication_s == pytest.approx(one.latency_s - one.communication_s)


def test_low_latency_computes_on_all_sms_and_hides_nothing() -> None:
    low = costs(LAYER, fields={"transport": 2, "comm_sms": 0, "chunks": 1})
    direct = costs(LAYER, fields={"chunks": 1})
    assert low.latency_s - low.communication_s < direct.latency_s - direct.communication_s
    assert costs(LAYER, fields={"transport": 2, "comm_sms": 0, "chunks": 4}).reason > 0


def test_own_tokens_first_fill_the_wait_where_tiles_stay_full() -> None:
    slow = {"link": 0.2}
    by_expert, own_first = (costs(LAYER, **slow, fields={"chunks": 4, "own_first": first}) for first in (0, 1))
    assert own_first.communication_s < by_expert.communication_s


def test_halves_are_the_parts_of_a_layer() -> None:
    fields = {"chunks": 8, "one_kernel": 1}
    layer = costs(LAYER, fields=fields)
    halves = [costs(dataclasses.replace(LAYER, part=part), fields=fields) for part in ("dispatch", "combine")]
    assert sum(half.communication_s for half in halves) == pytest.approx(layer.communication_s, rel=1e-5)
    assert sum(half.flop for half in halves) == pytest.approx(layer.flop, rel=1e-6)
    assert dataclasses.replace(LAYER, part="dispatch").flop == pytest.approx(2.0 / 3.0 * LAYER.flop)


def test_a_layer_computes_what_one_rank_of_a_fused_layer_does() -> None:
    alone = MoeProblem.from_shape("16384x4096x2048x64x4", ep=8)
    assert LAYER.flop == alone.flop
    assert LAYER.layer.classes == alone.classes
    record = LAYER.on(load_gpu("h100_sxm")).arrays(np.float64)
    assert record.dispatch is not None
    assert record.dispatch.expert_rows == sum(one.rows * one.experts for one in record.layer.classes)


def test_what_cannot_be_shared_is_said() -> None:
    with pytest.raises(UserError, match=r"tokens = 1001 in shape '1001x4096x2048x64x4' are not shared evenly"):
        ExpertLayerProblem.from_shape("1001x4096x2048x64x4")
    with pytest.raises(UserError, match=r"part 'first'|unknown part"):
        ExpertLayerProblem.from_shape("1024x4096x2048x64x4", part="first")
