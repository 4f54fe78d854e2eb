"""Collectives of many layouts: priced once each, at what the network model says of each by itself."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dse import collectives
from dse.compiled import jit
from dse.content.fabric import load_fabric
from dse.serving import collective_times
from dse.serving.collective_times import CollectiveTimes, Exchange
from jaxmodel.network import COLLECTIVES, RULES, group_cost

NODE, NETWORK = load_fabric("nvlink4_x8"), load_fabric("nvlink4_x8+infiniband_ndr")
SIZES = np.array([2e4, 3e6, 2e4, 0.0, 5e7, 2e4])
INSIDE, ACROSS = np.array([8, 4, 8, 8, 1, 1]), np.array([1, 2, 1, 1, 4, 1])


def exchange(collective: str, bytes_=SIZES, inside=INSIDE, across=ACROSS) -> Exchange:
    return Exchange("part", collective, bytes_, inside, across, "")


@pytest.mark.parametrize(
    ("collective", "rule"), [*((name, "nccl") for name in COLLECTIVES), *(("all_reduce", rule) for rule in RULES[1:])]
)
def test_each_costs_what_it_costs_by_itself(collective: str, rule: str) -> None:
    times = CollectiveTimes(NETWORK, rule)
    (found,) = times.seconds([exchange(collective)], len(SIZES))
    inner, outer = (level.bind() for level in NETWORK.levels)
    alone = jit(lambda *numbers: group_cost(collective, *numbers, inner, outer, rule).latency_s)
    for value, bytes_, inside, across in zip(found, SIZES, INSIDE, ACROSS, strict=True):
        if bytes_ == 0 or inside * across == 1:
            assert value == 0.0
        else:
            numbers = (np.float32(number) for number in (bytes_, inside, across))
            assert value == pytest.approx(float(alone(*numbers)), rel=1e-5)
            assert value > 0
    assert times.priced == 3  # two are alike, two cost nothing


def test_a_node_alone_costs_what_the_table_of_collectives_says() -> None:
    times = CollectiveTimes(NODE, "nccl")
    for collective in ("all_reduce", "all_gather", "reduce_scatter", "all_to_all"):
        for ranks in (2, 8):
            (found,) = times.seconds([exchange(collective, 1e6, ranks, 1)], 1)
            table = collectives(collective, sizes=[1e6], ranks=[ranks], fabrics=["nvlink4_x8"])
            assert found[0] == pytest.approx(table["latency_s"].iloc[0], rel=1e-5)


def test_several_nodes_on_a_node_alone_take_forever() -> None:
    times = CollectiveTimes(NODE, "nccl")
    (found,) = times.seconds([exchange("all_reduce")], len(SIZES))
    assert np.isfinite(found).tolist() == [True, False, True, True, False, True]


def test_what_was_priced_is_not_priced_again(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def watched(*arguments):
        calls.append(arguments)
        return real(*arguments)

    real = collective_times._price
    monkeypatch.setattr(collective_times, "_price", watched)
    times = CollectiveTimes(NETWORK)
    first = times.seconds([exchange("all_reduce"), exchange("all_gather")], len(SIZES))
    assert (times.priced, len(calls)) == (6, 2)
    again = times.seconds([exchange("all_reduce"), exchange("all_gather")], len(SIZES))
    assert (times.priced, len(calls)) == (6, 2)
    for one, other in zip(first, again, strict=True):
        np.testing.assert_array_equal(one, other)
    times.seconds([exchange("all_reduce", SIZES * 3)], len(SIZES))
    assert times.priced == 9


@settings(max_examples=20)
@given(st.lists(st.tuples(st.sampled_from([0, 1e4, 2e6, 3e7]), st.sampled_from([1, 2, 8])), min_size=1, max_size=40))
def test_order_and_company_do_not_matter(rows: list[tuple[float, int]]) -> None:
    bytes_, inside = np.array([row[0] for row in rows]), np.array([row[1] for row in rows])
    (together,) = CollectiveTimes(NODE).seconds([exchange("all_reduce", bytes_, inside, 1)], len(rows))
    (backwards,) = CollectiveTimes(NODE).seconds([exchange("all_reduce", bytes_[::-1], inside[::-1], 1)], len(rows))
    np.testing.assert_array_equal(together, backwards[::-1])
    (alone,) = CollectiveTimes(NODE).seconds([exchange("all_reduce", bytes_[0], inside[0], 1)], 1)
    assert alone[0] == together[0]


def test_more_than_one_call_prices(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = np.arange(1, 2 * 2**12 + 3) * 1024.0
    (many,) = CollectiveTimes(NODE).seconds([exchange("all_reduce", sizes, 8, 1)], len(sizes))
    (few,) = CollectiveTimes(NODE).seconds([exchange("all_reduce", sizes[-3:], 8, 1)], 3)
    np.testing.assert_array_equal(many[-3:], few)
