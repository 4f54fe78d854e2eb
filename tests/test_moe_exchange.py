"""MoE dispatch and combine: rings of buffers played, every way against its twin, laws, and what users ask."""

import dataclasses

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import moe_exchange as twin
from oracles.spread_draws import draw_exchanges

from dse import load_gpu
from dse.errors import UserError
from dse.kernels.expert_holders import expected_holders, limited_holders
from dse.kernels.moe_exchange import MoeCombine, MoeDispatch
from jaxmodel.kernels import moe_exchange
from jaxmodel.reasons import Reason

TIMES = st.integers(0, 640).map(lambda ticks: ticks / 64)
COUNT = 600


@pytest.fixture(autouse=True)
def _double():
    with jax.enable_x64(True):
        yield


@pytest.fixture(scope="module")
def drawn():
    return draw_exchanges(COUNT, 1, "wgmma")


@settings(max_examples=300, deadline=None)
@given(st.integers(1, 300), TIMES, TIMES, st.integers(1, 40))
def test_a_ring_is_empty_when_the_played_one_is(chunks, chunk_s, hop_s, room) -> None:
    found = float(moe_exchange.buffered_seconds(float(chunks), chunk_s, hop_s, float(room)))
    assert found == pytest.approx(twin.through_a_ring(chunks, chunk_s, hop_s, room), abs=1e-9)


def test_every_way_takes_what_its_twin_does(drawn) -> None:
    found = moe_exchange.exchange_times(*drawn)
    start_s, stream_s = (np.broadcast_to(np.asarray(one), COUNT) for one in (found.start_s, found.stream_s))
    for at in range(COUNT):
        one = jax.tree.map(lambda leaf, at=at: float(np.broadcast_to(leaf, (*np.shape(leaf)[1:], COUNT)).T[at])
                           if np.ndim(leaf) == 1 else 0.0, drawn)  # fmt: skip
        wanted = twin.times(*one)
        np.testing.assert_allclose((start_s[at], stream_s[at]), wanted, rtol=1e-9, err_msg=str(at))


def test_costs_add_up_and_no_link_or_memory_is_faster_than_its_rate(drawn) -> None:
    cost = moe_exchange.cost(*drawn)
    fits = np.asarray(cost.reason) == 0
    assert 0.15 < fits.mean() < 0.95
    np.testing.assert_allclose(cost.communication_s + cost.launch_s, cost.latency_s, rtol=1e-12)
    for seconds in cost.pipeline_s:
        assert np.all((seconds <= cost.latency_s * (1 + 1e-12))[fits])
    for leaf in jax.tree.leaves(cost):
        assert np.isfinite(leaf).all()


@pytest.mark.parametrize("factor", [1.3, 10.0])
def test_faster_links_more_room_and_faster_sms_are_never_slower(drawn, factor: float) -> None:
    problem, schedule, gpu = drawn
    before = moe_exchange.cost(*drawn).latency_s
    links = dataclasses.replace(problem, link=problem.link.scaled(factor, 1.0 / factor))
    room = dataclasses.replace(schedule, queue_rows=np.floor(schedule.queue_rows * factor))
    assert np.all(moe_exchange.cost(links, schedule, gpu).latency_s <= before * (1 + 1e-12))
    assert np.all(moe_exchange.cost(problem, room, gpu).latency_s <= before * (1 + 1e-12))


def test_rates_times_c_and_latencies_over_c_make_time_over_c(drawn) -> None:
    problem, schedule, gpu = drawn
    numbers, network = problem.numbers, problem.network
    faster = dataclasses.replace(
        problem, link=problem.link.scaled(4.0, 0.25),
        network=dataclasses.replace(network, bytes_per_s=4.0 * network.bytes_per_s, hop_s=network.hop_s / 4.0),
        numbers=dataclasses.replace(
            numbers, sm_bytes_per_s=4.0 * numbers.sm_bytes_per_s, row_s=numbers.row_s / 4.0, call_s=numbers.call_s / 4.0
        ),
    )  # fmt: skip
    machine = dataclasses.replace(
        gpu, ddr_bytes_per_s=4.0 * gpu.ddr_bytes_per_s, launch_overhead_s=gpu.launch_overhead_s / 4.0
    )
    scaled = moe_exchange.cost(faster, schedule, machine).latency_s
    np.testing.assert_allclose(4.0 * scaled, moe_exchange.cost(*drawn).latency_s, rtol=1e-12)


def test_gradients_are_finite_and_of_the_right_sign(drawn) -> None:
    problem, schedule, gpu = drawn

    def total_s(rate, hop_s):
        link = dataclasses.replace(problem.link, remote_bytes_per_s=rate, hop_s=hop_s)
        return moe_exchange.cost(dataclasses.replace(problem, link=link), schedule, gpu).latency_s.sum()

    by_rate, by_hop = jax.grad(total_s, argnums=(0, 1))(problem.link.remote_bytes_per_s, problem.link.hop_s)
    assert np.isfinite(by_rate).all()
    assert np.isfinite(by_hop).all()
    assert np.all(by_rate <= 0.0)
    assert np.all(by_hop >= 0.0)


def test_what_cannot_be_has_a_reason(drawn) -> None:
    problem, schedule, gpu = drawn

    def reasons(**fields: float) -> set[int]:
        given = {name: np.full(COUNT, float(value)) for name, value in fields.items()}
        return set(np.asarray(moe_exchange.cost(problem, dataclasses.replace(schedule, **given), gpu).reason))

    assert Reason.TRANSPORT in reasons(transport=0, comm_sms=0)
    assert Reason.TRANSPORT in reasons(transport=1, comm_sms=1)
    assert Reason.SMS_FREE in reasons(transport=0, comm_sms=500)
    assert Reason.QUEUE in reasons(transport=1, comm_sms=16, chunk_rows=32, queue_rows=8)


@pytest.mark.parametrize(("experts", "holders", "topk"), [(8, 4, 2), (16, 4, 8), (12, 3, 5), (6, 6, 6)])
def test_expected_holders_are_those_of_drawn_choices(experts: int, holders: int, topk: int) -> None:
    random = np.random.default_rng(0)
    each = [len(set(random.permutation(experts)[:topk] * holders // experts)) for _ in range(20000)]
    assert expected_holders(experts, holders, topk) == pytest.approx(np.mean(each), rel=0.01)


def test_a_limit_of_nodes_leaves_as_many_ranks_and_nodes() -> None:
    assert limited_holders(256, 4, 32, 8, 4) == limited_holders(256, 4, 32, 8, 0)
    assert limited_holders(256, 4, 32, 8, 2) == limited_holders(128, 2, 16, 8, 0)
    assert limited_holders(256, 4, 32, 8, 1)[1] == 1.0


def test_rows_over_nodes_and_inside_one() -> None:
    gpu = load_gpu("h100_sxm")
    inside = MoeDispatch.from_shape("1024x7168x256x8", dtype="fp8").on(gpu).arrays(np.float64)
    over = MoeDispatch.from_shape("4096x7168x256x8", dtype="fp8", ranks=32, network="infiniband_ndr")
    record = over.on(gpu).arrays(np.float64)
    assert (record.tokens, record.expert_rows, record.link.ranks, record.ranks) == (128.0, 1024.0, 8.0, 32.0)
    assert inside.row_bytes == 7168 * (1 + 4 / 128)
    assert inside.node_rows == inside.tokens
    assert record.network.bytes_per_s == 47e9
    assert MoeCombine.from_shape("1024x7168x256x8").on(gpu).arrays(np.float64).combine == 1.0


def test_what_cannot_be_shared_is_said() -> None:
    with pytest.raises(UserError, match=r"tokens = 1001 .* not shared evenly by 8 ranks: choose --ranks that divide"):
        MoeDispatch.from_shape("1001x7168x256x8")
    with pytest.raises(UserError, match=r"topk = 9: a token goes to at most all 8 expert"):
        MoeDispatch.from_shape("1024x7168x8x9")
    with pytest.raises(UserError, match=r"--ranks 16: a node has 8 GPUs; name --network, e.g. infiniband_ndr"):
        MoeDispatch.from_shape("1024x7168x256x8", ranks=16).on(load_gpu("h100_sxm"))
