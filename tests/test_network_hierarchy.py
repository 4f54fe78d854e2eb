"""Collectives over nodes: chunks played through both levels, one level as a limit, and what must hold."""

from dataclasses import replace
from functools import partial

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import chunk_pipeline, flat_ring
from oracles import collective_messages as played
from oracles.stage import stage_seconds

from jaxmodel.network import Level, NestedCost, Protocol, nested_cost, nested_ways
from jaxmodel.network.flat_ring import chain_seconds, ring_seconds
from jaxmodel.network.pipeline import chunks_seconds
from jaxmodel.network.steps import switch_all_reduce, switch_part

COLLECTIVES = ("all_gather", "reduce_scatter", "all_reduce", "all_to_all", "broadcast")
NONE = Protocol(start_s=0.0, hop_s=0.0, peer_s=0.0, bytes_per_s=0.0)


@pytest.fixture(autouse=True)
def float64():
    with jax.enable_x64(True):
        yield


@partial(jax.jit, static_argnames=("collective", "rule"))
def cost_of(
    collective: str, size: object, gpus: object, nodes: object, inner: Level, outer: Level, rule: str = "best"
) -> NestedCost:
    return nested_cost(collective, size, gpus, nodes, inner, outer, rule)


def level(rate: float, hop_s: float, start_s: float, ll: bool = True, copy: float = np.inf) -> Level:
    def protocol(share: float) -> Protocol:
        return Protocol(start_s=start_s, hop_s=hop_s, peer_s=0.0, bytes_per_s=share * rate)

    return Level(
        ll=protocol(0.25) if ll else NONE, ll128=protocol(0.5) if ll else NONE, simple=protocol(1.0),
        exchange_ll=NONE, exchange=NONE, direct=NONE, multicast=NONE, multimem=NONE,
        exchange_ll_max_bytes=0.0, multicast_ranks_min=2.0, copy_bytes_per_s=copy,
    )  # fmt: skip


def test_one_chunk_is_the_parts_played_one_after_the_other() -> None:
    inner, outer = level(3e11, 1e-6, 5e-6, ll=False), level(5e10, 8e-6, 5e-6, ll=False)
    for gpus, nodes in ((8, 2), (4, 4), (8, 3), (2, 8)):
        size = 4096.0  # so little that chunks do not pay
        inside = played.played_seconds(played.ring_pass(gpus, size), 1e-6, 3e11)
        gathered = played.played_seconds(played.ring_pass(nodes, size / gpus), 8e-6, 5e10)
        for name in ("all_gather", "reduce_scatter"):
            cost = cost_of(name, size, float(gpus), float(nodes), inner, outer)
            assert float(cost.latency_s) == pytest.approx(5e-6 + inside + gathered, rel=1e-9)
        between = [played.ring_all_reduce(nodes, size / gpus)]
        if nodes & (nodes - 1) == 0:
            between += [played.doubling_all_reduce(nodes, size / gpus)]
            between += [played.double_tree_all_reduce(nodes, size / gpus, 1)]
        expected = 5e-6 + 2 * inside + min(played.played_seconds(steps, 8e-6, 5e10) for steps in between)
        cost = cost_of("all_reduce", size, float(gpus), float(nodes), inner, outer)
        assert float(cost.chunks) == 1
        assert float(cost.latency_s) == pytest.approx(expected, rel=1e-9)


def test_only_a_ranks_own_piece_is_copied() -> None:
    """All-reduce works in place; an all-gather or reduce-scatter copies a p-th, as it does inside one node."""
    fast, slow = level(3e11, 0.0, 0.0, ll=False), level(3e11, 0.0, 0.0, ll=False, copy=1e9)
    for name, copied in (("all_reduce", 0.0), ("all_gather", 1e6 / 32), ("reduce_scatter", 1e6 / 32)):
        times = [float(cost_of(name, 1e6, 8.0, 4.0, one, one).latency_s) for one in (fast, slow)]
        assert times[1] - times[0] == pytest.approx(copied / 1e9, abs=1e-5)
        assert (times[1] == times[0]) == (copied == 0)


@given(
    st.lists(st.tuples(st.floats(0.01, 1.0), st.floats(0.0, 2.0)), min_size=3, max_size=3),
    st.sampled_from([(False, True, False), (True, False), (False, True)]),
    st.integers(1, 20),
)
def test_chunks_are_through_when_they_are_played(
    seconds: list[tuple[float, float]], crosses: tuple[bool, ...], chunks: int
) -> None:
    parts = [(busy, after, network) for (busy, after), network in zip(seconds, crosses, strict=False)]
    busy, whole = [busy for busy, _, _ in parts], [busy + after for busy, after, _ in parts]
    closed = float(chunks_seconds(busy, whole, crosses, chunks))
    assert closed == pytest.approx(chunk_pipeline.played_seconds(parts, chunks), rel=1e-9)


LINKS = st.tuples(*[st.one_of(st.just(0.0), st.floats(0.01, 10.0))] * 2)


@given(st.integers(1, 8), st.integers(1, 5), st.integers(1, 2), LINKS, LINKS)
def test_rings_of_all_gpus_are_those_that_are_played(
    gpus: int, nodes: int, passes: int, inner: tuple[float, float], outer: tuple[float, float]
) -> None:
    hops = passes * (gpus * nodes - 1)
    if not hops:
        return
    if gpus == 1:
        inner = (0.0, inner[1])  # no link inside a node: nothing goes over it
    closed = float(ring_seconds(float(hops), float(gpus), float(nodes), inner, outer))
    assert closed == pytest.approx(flat_ring.ring_seconds(hops, gpus, nodes, inner, outer), rel=1e-9, abs=1e-12)


@given(st.integers(1, 20), st.integers(1, 8), st.integers(1, 5), LINKS, LINKS)
def test_chains_of_all_gpus_are_those_that_are_played(
    chunks: int, gpus: int, nodes: int, inner: tuple[float, float], outer: tuple[float, float]
) -> None:
    if gpus * nodes == 1:
        return
    closed = float(chain_seconds(float(chunks), float(gpus), float(nodes), inner, outer))
    assert closed == pytest.approx(flat_ring.chain_seconds(chunks, gpus, nodes, inner, outer), rel=1e-9, abs=1e-12)


def test_nccls_rings_cross_by_one_nic_of_each_node_and_the_switch_reduces_inside() -> None:
    """Much data between two nodes: a ring puts (N - 1) / N of it, of g rings, on a NIC; NVLSTree the vector's g-th."""
    inner, outer = level(3e11, 1e-6, 5e-6, ll=False), level(2e10, 8e-6, 5e-6, ll=False)
    cost = cost_of("all_gather", 1e9, 8.0, 2.0, inner, outer, "nccl")
    assert float(cost.network_bytes) == pytest.approx(15 / 16 * 1e9 / 8)
    assert float(cost.latency_s) == pytest.approx(15 / 16 * 1e9 / 8 / 2e10, rel=0.02)
    switch = replace(inner, multicast=Protocol(start_s=5e-6, hop_s=0.0, peer_s=0.0, bytes_per_s=3e11, sms=16.0))
    fast = level(3e11, 8e-6, 5e-6, ll=False)
    cost = cost_of("all_reduce", 1e9, 8.0, 2.0, switch, fast, "nccl")
    assert nested_ways("all_reduce", "nccl")[int(cost.way)].protocol == "multicast+simple"
    assert float(cost.latency_s) == pytest.approx(9 / 8 * 1e9 / 3e11, rel=0.1)
    assert float(cost.network_bytes) == pytest.approx(1e9 / 8)
    assert float(cost.sms) == 16


def test_all_peers_at_once_are_one_stage_over_both_links() -> None:
    """Eq 11: a GPU's pieces for its node on one link, those for other nodes on its NIC."""
    pairwise = Protocol(start_s=6e-6, hop_s=3e-6, peer_s=0.0, bytes_per_s=3e11)
    inner = replace(level(3e11, 1e-6, 5e-6), exchange=pairwise)
    outer = replace(level(5e10, 8e-6, 5e-6), exchange=replace(pairwise, start_s=9e-6, hop_s=8e-6, bytes_per_s=5e10))
    for gpus, nodes in ((8, 2), (4, 3), (2, 16)):
        piece = 1e9 / (gpus * nodes)
        crosses = np.array([peer >= gpus for peer in range(1, gpus * nodes)])
        routes = np.stack([~crosses, crosses], axis=1).astype(float)
        stage = stage_seconds(np.full(len(crosses), piece), routes, np.array([3e-6, 8e-6]), np.array([3e11, 5e10]))
        cost = cost_of("all_to_all", 1e9, float(gpus), float(nodes), inner, outer, "nccl")
        assert float(cost.latency_s) == pytest.approx(9e-6 + stage, rel=1e-9)
        assert float(cost.network_bytes) == pytest.approx(piece * crosses.sum())


def test_one_chunk_through_the_switch_and_the_tree_of_nodes_is_what_is_played() -> None:
    switch = Protocol(start_s=5e-6, hop_s=1e-6, peer_s=0.0, bytes_per_s=3e11)
    inner, outer = replace(level(3e8, 1e-3, 1.0, ll=False), multicast=switch), level(5e10, 8e-6, 7e-6, ll=False)
    for nodes in (2, 4, 8):
        size = 4096.0  # so little that chunks do not pay
        tree = played.played_seconds(played.double_tree_all_reduce(nodes, size / 8, 1), 8e-6, 5e10)
        cost = cost_of("all_reduce", size, 8.0, float(nodes), inner, outer, "nccl")
        assert nested_ways("all_reduce", "nccl")[int(cost.way)].protocol == "multicast+simple"
        assert float(cost.chunks) == 1
        assert float(cost.latency_s) == pytest.approx(7e-6 + 2 * (1e-6 + size / 3e11) + tree, rel=1e-9)


def test_both_halves_through_the_switch_fill_a_link_as_the_whole_does() -> None:
    """Out, a GPU gives its vector and multicasts its p-th of the sums; in, it takes its p-th and all sums."""
    for ranks in (2.0, 4.0, 8.0):
        half, whole = switch_part(1e6, ranks), switch_all_reduce(1e6, ranks)
        assert float(half.link_bytes) * 2 == pytest.approx(float(whole.wire_bytes))
        assert float(half.wire_bytes) == 1e6


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_what_holds_for_every_collective(collective: str) -> None:
    size = np.geomspace(1e3, 1e9, 25)[:, None, None]
    gpus, nodes = np.array([1.0, 2.0, 8.0])[:, None], np.array([1.0, 2.0, 6.0, 32.0])
    inner, outer = level(3e11, 1e-6, 5e-6), level(5e10, 8e-6, 5e-6)
    cost = cost_of(collective, size, gpus, nodes, inner, outer)
    latency = np.asarray(cost.latency_s)
    assert (latency[:, 0, 0] == 0).all()
    assert np.isfinite(latency).all()
    assert (np.asarray(cost.network_bytes)[:, :, 0] == 0).all()
    assert (latency >= np.asarray(cost.network_bytes) / 5e10).all()
    assert (np.diff(latency[:, 1:, 1:], axis=0) > 0).all()
    for faster in (
        (level(6e11, 1e-6, 5e-6), outer),
        (inner, level(1e11, 8e-6, 5e-6)),
        (inner, level(5e10, 4e-6, 5e-6)),
    ):
        assert (np.asarray(cost_of(collective, size, gpus, nodes, *faster).latency_s) <= latency * (1 + 1e-12)).all()
    assert int(np.asarray(cost.way).max()) < len(nested_ways(collective, "best"))
