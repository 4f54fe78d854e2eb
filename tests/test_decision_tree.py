"""The decision tree that loses least: against every tree, and what it promises."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from portfolio_twins import best_tree

from dse.studies.portfolio.decision_tree import LEAF_PRICE, Leaf, Split, decide, leaves, optimal_tree, worst_of


@st.composite
def lists(draw: st.DrawFn) -> tuple[dict[str, list[int]], np.ndarray, np.ndarray]:
    """Features, regrets and weights of a few shapes, two of which may be equal."""
    shapes, kernels = draw(st.integers(1, 8)), draw(st.integers(1, 4))
    sizes = st.lists(st.integers(1, 4), min_size=shapes, max_size=shapes)
    levels = st.sampled_from([0.0, 0.01, 0.1, 0.7, 2.0])
    regret = np.array([draw(st.lists(levels, min_size=kernels, max_size=kernels)) for _ in range(shapes)])
    weight = np.array(draw(st.lists(st.sampled_from([1.0, 5.0]), min_size=shapes, max_size=shapes)))
    return {"m": draw(sizes), "n": draw(sizes)}, regret, weight / weight.sum()


def loss(tree: Leaf | Split, regret: np.ndarray, weight: np.ndarray) -> float:
    return sum(weight[shape] * regret[shape, leaf.kernel] for leaf in leaves(tree) for shape in leaf.shapes)


@settings(max_examples=80, deadline=None)
@given(lists(), st.integers(0, 3))
def test_no_tree_loses_less(case: tuple[dict[str, list[int]], np.ndarray, np.ndarray], depth: int) -> None:
    features, regret, weight = case
    tree = optimal_tree(features, regret, weight, depth)
    value = loss(tree, regret, weight) + LEAF_PRICE * len(list(leaves(tree)))
    wanted = best_tree(features, regret * weight[:, None], range(len(regret)), depth, LEAF_PRICE)
    assert value == pytest.approx(wanted, abs=1e-8)


@settings(max_examples=80, deadline=None)
@given(lists(), st.integers(0, 3))
def test_leaves_hold_the_shapes_that_are_led_to_them(
    case: tuple[dict[str, list[int]], np.ndarray, np.ndarray], depth: int
) -> None:
    features, regret, weight = case
    tree = optimal_tree(features, regret, weight, depth)
    held = sorted(shape for leaf in leaves(tree) for shape in leaf.shapes)
    assert held == list(range(len(regret)))
    for shape in range(len(regret)):
        assert shape in decide(tree, {name: values[shape] for name, values in features.items()}).shapes
    assert len(list(leaves(tree))) <= 2**depth


@settings(max_examples=40, deadline=None)
@given(lists(), st.integers(0, 2))
def test_the_worst_of_all_trees_is_least(case: tuple[dict[str, list[int]], np.ndarray, np.ndarray], depth: int) -> None:
    features, regret, weight = case
    found = worst_of(optimal_tree(features, regret, weight, depth, worst=True), regret)
    for level in sorted(set(regret.ravel())):
        dear = np.where(regret <= level, 0.0, 1.0)
        if best_tree(features, dear, range(len(regret)), depth, 0.0) == 0:
            assert found == level
            return


def test_a_kernel_that_cannot_run_a_shape_is_not_chosen_for_it() -> None:
    regret = np.array([[0.0, 3.0], [np.inf, 0.1], [0.0, 3.0]])
    tree = optimal_tree({"m": [1, 2, 3]}, regret, np.array([0.49, 0.02, 0.49]), 1)
    assert np.isfinite(worst_of(tree, regret))
    tree = optimal_tree({"m": [1, 2, 3]}, regret, np.array([0.49, 0.02, 0.49]), 2)
    assert [leaf.kernel for leaf in leaves(tree)] == [0, 1, 0]


def test_a_split_that_buys_nothing_is_not_there() -> None:
    regret = np.array([[0.0, 0.0], [0.0, LEAF_PRICE / 2], [LEAF_PRICE / 2, 0.0]])
    tree = optimal_tree({"m": [1, 2, 3]}, regret, np.full(3, 1 / 3), 3)
    assert isinstance(tree, Leaf)


def test_the_threshold_is_the_largest_value_on_its_low_side() -> None:
    tree = optimal_tree({"m": [16, 64, 100]}, np.array([[0, 1], [0, 1], [1, 0]]), np.full(3, 1 / 3), 1)
    assert isinstance(tree, Split)
    assert tree.threshold == 64
