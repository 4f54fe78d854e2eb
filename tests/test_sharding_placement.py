"""How groups of a layout lie on nodes: against every rank written down, one by one."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from oracles.ranks_on_nodes import AXES, counts_on_nodes, groups_along, groups_of, instance_ranks, lies_evenly

from dse.content.model import load_model
from dse.serving.layouts import CHECKS, FIELDS, PLACEMENTS, Groups, Layouts
from jaxmodel.sharding import extent

PARTS = ("tp", "cp", "dp", "pp", "hidden_split", "inter_split", "kv_split")
BLOCKS = (("tp", "cp"), ("cp", "dp"), ("tp", "cp", "dp"))  # groups along several axes, as experts are shared


def layouts_of_degrees(rows: list[dict[str, int]], gpus_per_node: int) -> Layouts:
    columns = {name: np.array([row.get(name, 1) for row in rows], np.int64) for name in FIELDS}
    return Layouts(columns, np.arange(len(rows)), gpus_per_node)


@pytest.mark.parametrize("node", [1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 18, 30, 36, 60, 64])
def test_an_extent_is_what_counting_gives(node: int) -> None:
    cases = [(stride, degree) for stride in range(1, 65) for degree in range(1, 64 // stride + 1)]
    cases += [(stride, degree) for stride in (1, 2, 3, 5, 8, 12, 33, 64) for degree in (2, 3, 8, 17, 64)]
    numbers = np.array(cases, np.float32)
    found = extent(numbers[:, 0], numbers[:, 1], np.float32(node))
    for place, (stride, degree) in enumerate(cases):
        first = counts_on_nodes([step * stride for step in range(degree)], node)
        assert (found.inside[place], found.across[place]) == (first[0], len(first)), (stride, degree)
        assert bool(found.even[place]) == lies_evenly(groups_along(stride, degree, node), node), (stride, degree)


def test_float64_gives_the_same() -> None:
    stride, degree, node = (np.array(values, float) for values in ([1, 3, 8, 6], [6, 4, 8, 5], [8, 8, 8, 4]))
    narrow = extent(*(values.astype(np.float32) for values in (stride, degree, node)))
    for name in ("inside", "across", "even"):
        np.testing.assert_array_equal(getattr(extent(stride, degree, node), name), getattr(narrow, name))


degrees = st.sampled_from([1, 2, 3, 4, 6, 8])


@given(st.data(), st.sampled_from([2, 3, 4, 6, 8, 12]), st.integers(0, len(PLACEMENTS) - 1))
def test_every_group_of_a_layout_and_every_block_is_what_counting_gives(data, node: int, placement: int) -> None:
    row = {axis: data.draw(degrees, axis) for axis in ("tp", "cp", "dp", "pp")}
    instance = row["tp"] * row["cp"] * row["dp"] * row["pp"]
    assume(instance <= 256)
    for part in ("hidden_split", "kv_split"):
        row[part] = data.draw(st.sampled_from([d for d in (1, 2, 3, 4, 8) if row["tp"] % d == 0]), part)
    layout = layouts_of_degrees([row | {"placement": placement}], node)
    groups = {part: groups_of(PLACEMENTS[placement], row, (part,), instance * node) for part in PARTS}
    even = all(lies_evenly(iter(own), node) for own in groups.values())
    assert bool(layout.uneven[0]) == (not even)
    if not even:
        return  # such a layout is ruled out, whatever its groups are
    for part, own in groups.items():
        check(layout.groups(part), own, node)
    for axes in BLOCKS:
        first, *others = (layout.groups(axis) for axis in axes)
        for other in others:
            first = first.times(other)
        check(first, groups_of(PLACEMENTS[placement], row, axes, instance * node), node)


def check(found: Groups, groups: list[list[int]], node: int) -> None:
    for group in groups:
        counts = counts_on_nodes(group, node)
        assert counts == [found.inside[0]] * int(found.across[0])


def test_taken_layouts_keep_their_groups() -> None:
    rows = [{"tp": tp, "pp": pp, "placement": p} for tp in (1, 2, 8) for pp in (1, 4) for p in (0, 4)]
    whole = layouts_of_degrees(rows, 8)
    kept = np.array([1, 7, 3])
    part = whole.take(kept)
    np.testing.assert_array_equal(part.index, kept)
    for name in PARTS:
        np.testing.assert_array_equal(part.groups(name).inside, whole.groups(name).inside[kept])
        np.testing.assert_array_equal(part.groups(name).across, whole.groups(name).across[kept])


@given(st.fixed_dictionaries({axis: st.sampled_from([1, 2, 3]) for axis in AXES}))
def test_a_placement_counts_where_no_earlier_one_numbers_the_gpus_alike(row: dict[str, int]) -> None:
    model = load_model("mixtral_8x7b")
    places = range(len(PLACEMENTS))
    layouts = layouts_of_degrees([row | {"placement": place} for place in places], 8)
    (same,) = (check for name, _, check in CHECKS if name == "same_placement")
    ranks = [instance_ranks(PLACEMENTS[place], row) for place in places]
    expected = [any(ranks[place] == earlier for earlier in ranks[:place]) for place in places]
    assert same(layouts, model, 64).tolist() == expected
