"""Collectives: closed forms against messages played one by one, and what must hold for all of them."""

from dataclasses import replace
from functools import partial

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import collective_messages as played
from oracles.quick_compile import QUICK
from oracles.stage import stage_seconds

from jaxmodel.network import (
    COLLECTIVES,
    RULES,
    CollectiveCost,
    Level,
    Protocol,
    collective_cost,
    way_seconds,
    ways,
)
from jaxmodel.network import steps as closed
from jaxmodel.network.contention import EVERYONE, NEIGHBOURS, STEPPED, slowdown


@pytest.fixture(autouse=True)
def float64():
    with jax.enable_x64(True):
        yield


@partial(jax.jit, static_argnames=("collective", "rule"))
def cost_of(collective: str, size: np.ndarray, ranks: np.ndarray, level: Level, rule: str) -> CollectiveCost:
    return collective_cost(collective, size, ranks, level, rule)


PAIRS = [
    ("ring_pass", "ring_pass", False),
    ("ring_all_reduce", "ring_all_reduce", False),
    ("doubling_pass", "doubling_pass", True),
    ("doubling_all_reduce", "doubling_all_reduce", True),
    ("direct_pass", "direct_pass", False),
    ("pairwise_exchange", "pairwise_exchange", False),
    ("one_shot_all_reduce", "one_shot_all_reduce", False),
    ("two_shot_all_reduce", "two_shot_all_reduce", False),
    ("tree_broadcast", "tree_broadcast", False),
    ("scatter_gather_broadcast", "scatter_gather_broadcast", False),
]


@pytest.mark.parametrize(("name", "twin", "powers"), PAIRS)
def test_steps_are_those_of_the_messages(name: str, twin: str, powers: bool) -> None:
    for ranks in (2, 4, 8, 16) if powers else (2, 3, 5, 8):
        for size, hop_s, rate in ((1e3, 1e-6, 3e11), (7.7e8, 3e-6, 2e10)):
            expected = played.played_seconds(getattr(played, twin)(ranks, size), hop_s, rate)
            assert _seconds(getattr(closed, name)(size, float(ranks)), hop_s, rate) == pytest.approx(expected, rel=1e-9)


SHARED = [
    ("ring_pass", "ring_pass", NEIGHBOURS),
    ("ring_all_reduce", "ring_all_reduce", NEIGHBOURS),
    ("doubling_pass", "doubling_pass", STEPPED),
    ("doubling_all_reduce", "doubling_all_reduce", STEPPED),
    ("direct_pass", "direct_pass", EVERYONE),
    ("two_shot_all_reduce", "two_shot_all_reduce", EVERYONE),
]


@pytest.mark.parametrize(("name", "twin", "traffic"), SHARED)
def test_leaves_with_little_uplink_slow_what_leaves_them(name: str, twin: str, traffic: int) -> None:
    """Messages played over links, and over uplinks and downlinks that the ranks of a leaf share."""
    for ranks, leaf, ratio in ((8, 4, 1.0), (8, 4, 2.0), (16, 4, 8.0), (16, 2, 3.0), (16, 8, 16.0), (8, 8, 4.0)):
        level = replace(_level(), leaf_ranks=float(leaf), oversubscription=ratio)
        steps = getattr(closed, name)(1e6, float(ranks))
        assert steps.traffic == traffic
        found = 2e-6 * steps.hops + steps.wire_bytes * slowdown(level, traffic, float(ranks)) / 1e11
        expected = played.played_seconds(getattr(played, twin)(ranks, 1e6), 2e-6, 1e11, leaf, ratio)
        assert float(found) == pytest.approx(expected, rel=1e-9)


def test_gpus_that_share_a_link_have_a_part_of_it() -> None:
    alone, shared = (replace(_level(), gpus_per_link=gpus) for gpus in (1.0, 2.0))
    for collective in COLLECTIVES:
        times = [float(cost_of(collective, 1e10, 8.0, level, "nccl").latency_s) for level in (alone, shared)]
        assert 1.8 < times[1] / times[0] <= 2


@pytest.mark.parametrize("chunks", [1, 2, 5, 16])
def test_chunks_follow_each_other(chunks: int) -> None:
    for ranks in (2, 3, 7, 8):
        expected = played.played_seconds(played.chain_broadcast(ranks, 1e6, chunks), 2e-6, 1e11)
        assert _seconds(closed.chain_broadcast(1e6, float(ranks), chunks), 2e-6, 1e11) == pytest.approx(
            expected, rel=1e-9
        )
    for ranks in (2, 4, 8, 16):
        expected = played.played_seconds(played.double_tree_all_reduce(ranks, 1e6, chunks), 2e-6, 1e11)
        assert _seconds(closed.tree_all_reduce(1e6, float(ranks), chunks), 2e-6, 1e11) == pytest.approx(
            expected, rel=1e-9
        )


def test_powers_of_two_are_told_in_float32() -> None:
    ranks = np.arange(1, 2**16 + 1, dtype=np.float32)
    possible = np.asarray(jax.jit(lambda p: closed.doubling_pass(np.float32(1.0), p).possible)(ranks))
    assert list(ranks[possible]) == [2.0**power for power in range(17)]


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_gradients_are_finite(collective: str) -> None:
    """Also where ways cannot run, and on fabrics that lack protocols."""
    lacks = replace(_level(), ll=Protocol(start_s=0.0, hop_s=0.0, peer_s=0.0, bytes_per_s=0.0))
    ranks = np.array([1.0, 2.0, 3.0, 8.0])
    slope_of = jax.jit(
        jax.grad(lambda at: collective_cost(collective, 1e5, ranks, at, "best").latency_s.sum()), compiler_options=QUICK
    )
    for level in (_level(), lacks):
        assert all(np.isfinite(slope) for slope in jax.tree.leaves(slope_of(jax.tree.map(float, level))))


def _seconds(steps: closed.Steps, hop_s: float, rate: float) -> float:
    assert bool(steps.possible)
    return float(hop_s * steps.hops + steps.wire_bytes / rate)


# Laws


def _level(**changes: float) -> Level:
    def protocol(start_s: float, hop_s: float, rate: float, peer_s: float = 0.0) -> Protocol:
        faster = changes.get("rate", 1.0)
        return Protocol(start_s=start_s, hop_s=hop_s, peer_s=peer_s, bytes_per_s=rate * faster)

    return Level(
        ll=protocol(5e-6, 8e-7, 4e10),
        ll128=protocol(6e-6, 8e-7, 1.4e11),
        simple=protocol(18e-6, 8e-7, 3.2e11),
        exchange_ll=protocol(6e-6, 0.0, 3e11, 4e-7),
        exchange=protocol(13e-6, 0.0, 3.2e11),
        direct=protocol(1e-6, 4e-6, 2.8e11, 5e-8),
        multicast=protocol(70e-6, 0.0, 3e11),
        multimem=protocol(13e-6, 0.0, 2.8e11),
        exchange_ll_max_bytes=16384.0,
        multicast_ranks_min=8.0,
        copy_bytes_per_s=1e12,
    )


@pytest.mark.parametrize("collective", COLLECTIVES)
@pytest.mark.parametrize("rule", RULES)
def test_what_holds_for_every_collective(collective: str, rule: str) -> None:
    size = np.geomspace(256, 2**30, 60)[:, None]
    ranks = np.array([1.0, 2.0, 3.0, 4.0, 8.0, 64.0, 72.0])
    cost = cost_of(collective, size, ranks, _level(), rule)
    latency = np.asarray(cost.latency_s)
    assert (latency[:, 0] == 0).all()
    assert np.isfinite(latency).all()
    assert (latency[:, 1:] >= np.asarray(cost.wire_bytes)[:, 1:] / 3.21e11).all()
    if collective not in ("all_to_all", "send"):  # their protocol goes by size: it jumps
        assert (np.diff(latency[:, 1:], axis=0) > 0).all()
    faster = np.asarray(cost_of(collective, size, ranks, _level(rate=2.0), rule).latency_s)
    assert (faster <= latency).all()


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_more_ways_are_never_slower(collective: str) -> None:
    size, ranks = np.geomspace(256, 2**30, 60)[:, None], np.array([2.0, 4.0, 8.0, 12.0])
    nccl, engine, best = (cost_of(collective, size, ranks, _level(), rule).latency_s for rule in RULES)
    assert (np.asarray(best) <= np.asarray(engine)).all()
    assert (np.asarray(engine) <= np.asarray(nccl)).all()


def test_the_way_that_is_named_is_the_one_that_is_priced() -> None:
    size, ranks = np.geomspace(256, 2**30, 40)[:, None], np.array([2.0, 8.0])
    for collective in COLLECTIVES:
        cost = cost_of(collective, size, ranks, _level(), "best")
        named = np.stack(
            [np.broadcast_to(way_seconds(way, size, ranks, _level()), (40, 2)) for way in ways(collective, "best")]
        )
        picked = np.take_along_axis(named, np.asarray(cost.way)[None], axis=0)[0]
        assert np.asarray(cost.latency_s) == pytest.approx(picked)


def test_a_stage_is_its_longest_path_and_its_busiest_link() -> None:
    routes = np.array([[1.0, 1.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    latency, rate = np.array([1e-6, 2e-6, 9e-6]), np.array([1e9, 2e9, 1e9])
    assert stage_seconds(np.array([1e3, 5e3, 0.0]), routes, latency, rate) == pytest.approx(3e-6 + 6e3 / 2e9)
    assert stage_seconds(np.array([1e3, 5e3, 4e3]), routes, latency, rate) == pytest.approx(9e-6 + 4e3 / 1e9)
    assert stage_seconds(np.zeros(3), routes, latency, rate) == 0


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.floats(1.0, 1e6)), min_size=1, max_size=10))
def test_equal_shares_of_links_never_beat_the_stage(messages: list[tuple[int, int, float]]) -> None:
    """Eq 11 is what the busiest link needs: fair sharing can be later (a message waits elsewhere), never sooner."""
    moved = [(source, target, size) for source, target, size in messages if source != target]
    if not moved:
        return
    routes = np.zeros((len(moved), 12))
    for place, (source, target, _) in enumerate(moved):
        routes[place, source] = routes[place, 6 + target] = 1.0
    sizes = np.array([size for _, _, size in moved])
    stage = stage_seconds(sizes, routes, np.zeros(12), np.full(12, 1e9))
    assert played.transfer_seconds(moved, 1e9) >= stage * (1 - 1e-6)
