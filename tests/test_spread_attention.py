"""Ulysses and ring attention: makespans against the same played, limits, and what moves the best number of chunks."""

import dataclasses

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import spread_attention as twin
from oracles.spread_draws import draw_ring, draw_ulysses

from dse import load_gpu, load_space
from dse.errors import UserError
from dse.job import as_float32
from dse.kernels.registry import get_kernel
from dse.kernels.spread_attention import RingAttentionProblem, UlyssesProblem
from jaxmodel.kernels import attention, ring_attention, ulysses
from jaxmodel.types import PIPELINES

TIMES = st.integers(0, 640).map(lambda ticks: ticks / 64)  # exact in float64, so that ties are ties on both sides
MANY = settings(max_examples=300, deadline=None)


@pytest.fixture(autouse=True)
def _double():
    with jax.enable_x64(True):
        yield


@MANY
@given(st.integers(1, 40), TIMES, TIMES, TIMES, TIMES)
def test_chunks_of_heads_are_back_when_the_played_ones_are(chunks, tile_s, in_s, out_s, late_s) -> None:
    found = float(ulysses.exchanged_seconds(float(chunks), tile_s, in_s, out_s, late_s))
    assert found == pytest.approx(twin.ulysses(chunks, tile_s, in_s, out_s, late_s), abs=1e-9)
    compute_s, moved_s = chunks * tile_s, twin.ulysses(chunks, 0.0, in_s, out_s, late_s)
    assert max(compute_s, moved_s) - 1e-9 <= found <= compute_s + moved_s + 1e-9


@MANY
@given(st.integers(2, 12), st.integers(1, 12), TIMES, TIMES, TIMES, TIMES)
def test_shards_are_attended_to_when_the_played_ones_are(ranks, chunks, own_s, chunk_s, held_s, late_s) -> None:
    times = (own_s, chunk_s, held_s, late_s)
    shards = float(ranks - 1)
    free = float(ring_attention.ring_seconds(shards, float(chunks), *times, lockstep=False))
    locked = float(ring_attention.ring_seconds(shards, float(chunks), *times, lockstep=True))
    played = twin.ring(ranks, chunks, *times)
    assert max(played) == pytest.approx(min(played), abs=1e-9)  # all ranks alike
    assert free == pytest.approx(played[0], abs=1e-9)
    assert locked == pytest.approx(twin.ring_in_lockstep(ranks, chunks, *times), abs=1e-9)
    compute_s = own_s + (ranks - 1) * chunks * chunk_s
    moved_s = twin.ring(ranks, chunks, 0.0, 0.0, held_s, late_s)[0]
    assert max(compute_s, moved_s) - 1e-9 <= free <= compute_s + moved_s + 1e-9
    assert free <= locked + 1e-9  # more buffers never hurt
    assert locked <= compute_s + (ranks - 1) * chunks * (held_s + late_s) + 1e-9


def costs(problem, link: float = 1.0, latency: float = 1.0, **fields: float):
    """Of the preset's first schedule with some fields, on H100 with other links."""
    kernel, gpu = get_kernel(problem.kernel), load_gpu("h100_sxm")
    placed = problem.on(gpu, {"fabric.link": f"{link}x", "fabric.latency": f"{latency}x"})
    columns = load_space(problem.kernel, preset="fa3_exchange").rows([0])
    columns = {name: np.float32(fields.get(name, column[0])) for name, column in columns.items()}
    record = as_float32(placed.arrays())
    with jax.enable_x64(False):
        return jax.tree.map(float, kernel.cost(record, kernel.schedule(columns), as_float32(gpu.bind("bf16"))))


ULYSSES = UlyssesProblem.from_shape("1x64/64x16384x128", causal=False)
RING = RingAttentionProblem.from_shape("1x32/8x32768x128", causal=False)
SMS = {"transport": 1, "comm_sms": 16}


@pytest.mark.parametrize("problem", [ULYSSES, RING, dataclasses.replace(RING, causal=True)])
def test_with_links_ten_times_slower_the_links_decide_and_with_faster_ones_the_tiles_do(problem) -> None:
    chunks = {"chunks": 4, "lockstep": 0, "transport": 0}
    slow, fast = costs(problem, link=0.02, **chunks), costs(problem, link=1000.0, latency=1e-3, **chunks)
    busy_s = fast.latency_s - fast.communication_s
    assert fast.latency_s == pytest.approx(busy_s, rel=0.02)
    last_s = busy_s / 4.0 if problem.kernel == "ulysses" else busy_s  # what cannot hide: attention of the last chunk
    assert slow.pipeline_s[-1] < slow.latency_s < slow.pipeline_s[-1] + last_s
    slower = costs(problem, link=0.002, **chunks)
    assert slower.latency_s - slow.latency_s == pytest.approx(slower.pipeline_s[-1] - slow.pipeline_s[-1], rel=1e-3)


@pytest.mark.parametrize("problem", [ULYSSES, RING])
def test_slower_links_ask_for_more_chunks_and_longer_latencies_for_fewer(problem) -> None:
    def best(**links: float) -> int:
        found = {n: costs(problem, **links, chunks=n, lockstep=1, **SMS).latency_s for n in (1, 2, 4, 8)}
        return min(found, key=found.__getitem__)

    assert best(link=0.1) > best(link=1.0, latency=300.0)
    assert best(link=0.1) >= best(link=1.0) >= best(link=1.0, latency=300.0)


def test_sms_that_move_data_compute_nothing() -> None:
    few, many = (costs(RING, transport=1, comm_sms=sms, link=100.0) for sms in (4, 64))
    assert many.steady_s > 1.5 * few.steady_s
    assert costs(ULYSSES, transport=1, comm_sms=64).steady_s == costs(ULYSSES, transport=0).steady_s  # in series


def test_a_balanced_order_takes_the_longest_rank_half_of_its_work() -> None:
    causal = dataclasses.replace(RING, causal=True)
    plain, zigzag, striped = (dataclasses.replace(causal, order=order) for order in ("ring", "zigzag", "striped"))
    assert zigzag.flop == pytest.approx(plain.flop * 0.53, rel=0.01)
    assert striped.flop == pytest.approx(zigzag.flop, rel=0.01)
    assert costs(zigzag).latency_s < 0.62 * costs(plain).latency_s


def test_what_cannot_be_shared_is_said() -> None:
    with pytest.raises(UserError, match=r"heads = 6 in shape '1x6x1024x128' are not shared evenly by 8 ranks: choose"):
        UlyssesProblem.from_shape("1x6x1024x128")
    with pytest.raises(UserError, match=r"tokens = 1032 .* no multiple of 16, the parts that 8 ranks cut them into"):
        RingAttentionProblem.from_shape("1x8x1032x128")
    with pytest.raises(UserError, match=r"ring_attention has as many keys as queries; write BxH\[/KVH\]xTOKENSxD"):
        RingAttentionProblem.from_shape("1x8x1024:2048x128")
    with pytest.raises(UserError, match=r"kv_heads = 3 .* and 8 ranks: the one must divide the other"):
        UlyssesProblem.from_shape("1x24/3x1024x128")
    with pytest.raises(UserError, match=r"--ranks 16: nvlink4_x8 joins at most 8 GPUs"):
        RingAttentionProblem.from_shape("1x8x1024x128", ranks=16).on(load_gpu("h100_sxm"))


def test_chunks_that_do_not_divide_and_ways_that_are_not_there_have_reasons() -> None:
    assert costs(ULYSSES, chunks=3).reason > 0
    assert costs(RING, transport=1, comm_sms=0).reason > 0
    assert costs(RING, transport=1, comm_sms=132).reason > 0


def scalars(drawn, at: int):
    return jax.tree.map(lambda leaf: float(leaf[at]) if np.ndim(leaf) == 1 else np.asarray(leaf)[0], drawn)


def test_a_rank_of_ulysses_takes_what_its_launches_and_played_exchanges_do() -> None:
    drawn = draw_ulysses(240, 7, "wgmma")
    found = ulysses.cost(*drawn)
    fits = np.flatnonzero(np.asarray(found.reason) == 0)
    assert len(fits) > 15
    for at in fits:
        problem, schedule, gpu = scalars(drawn, int(at))
        of, chunks = problem.attention, schedule.chunks
        heads = dataclasses.replace(of, heads=of.heads / chunks, kv_heads=max(of.kv_heads / chunks, 1.0))
        sms = gpu.sm_count - (schedule.comm_sms if chunks > 1 else 0.0)
        launch = attention.cost(heads, schedule, dataclasses.replace(gpu, sm_count=sms))
        wanted = twin.ulysses_latency(problem, schedule, float(launch.latency_s))
        assert float(found.latency_s[at]) == pytest.approx(wanted, rel=1e-9), at
        assert float(found.flop[at]) == pytest.approx(float(launch.flop) * chunks)


@pytest.mark.parametrize("causal", [True, False])
def test_a_rank_of_a_ring_takes_what_its_launches_and_the_played_ring_do(causal: bool) -> None:
    drawn = draw_ring(80, 8, "wgmma", causal)
    found = ring_attention.cost(*drawn)
    fits = np.flatnonzero(np.asarray(found.reason) == 0)
    assert len(fits) > 15
    for at in fits:
        problem, schedule, gpu = scalars(drawn, int(at))
        left = dataclasses.replace(gpu, sm_count=gpu.sm_count - schedule.comm_sms)
        keys = problem.step.kv_tokens / schedule.chunks
        launch = attention.cost(dataclasses.replace(problem.step, kv_tokens=keys), schedule, left)
        own_s = float(attention.cost(problem.own, schedule, left).latency_s) if causal else -1.0
        chunk_s = float(launch.latency_s)
        idle_s = chunk_s - float(launch.pipeline_s[PIPELINES.index("ddr")])
        wanted = twin.ring_latency(problem, schedule, own_s, chunk_s, idle_s, gpu)
        assert float(found.latency_s[at]) == pytest.approx(wanted, rel=1e-9), at
