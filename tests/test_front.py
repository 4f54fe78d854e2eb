"""Top-k and front against slow, obvious twins, whatever the order and the pieces in which candidates come."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dse.front import Front, choose_pivots, non_dominated
from dse.topk import TopK


@st.composite
def pieces(draw, columns: int):
    """Values on a coarse grid, so that ties and duplicates abound, with positions, cut into shuffled pieces."""
    rows = draw(st.integers(0, 60))
    seed = draw(st.integers(0, 2**31))
    random = np.random.default_rng(seed)
    values = random.integers(0, draw(st.integers(1, 8)), (rows, columns)).astype(np.float32)
    order = random.permutation(rows)
    cuts = np.sort(random.integers(0, rows + 1, draw(st.integers(0, 5))))
    return values, list(np.split(order, cuts))


def twin_front(values: np.ndarray) -> list[int]:
    return [
        i
        for i in range(len(values))
        if not any((other <= values[i]).all() and (other < values[i]).any() for other in values)
    ]


@settings(max_examples=200, deadline=None)
@given(data=st.data(), columns=st.integers(1, 6), tie_limit=st.integers(0, 4), merge=st.booleans())
def test_front_equals_pairwise_comparison(data, columns, tie_limit, merge):
    values, parts = data.draw(pieces(columns))
    front = Front.empty(columns, tie_limit)
    for part in parts:
        if merge:
            front = front.merge(Front.empty(columns, tie_limit).add(part, values[part]))
        else:
            front = front.add(part, values[part])
    expected = twin_front(values)
    assert front.candidates == len(expected)
    expected.sort(key=lambda i: (*values[i], i))
    kept, seen = [], {}
    for i in expected:
        seen[tuple(values[i])] = seen.get(tuple(values[i]), 0) + 1
        if seen[tuple(values[i])] <= max(1, tie_limit):
            kept.append(i)
    assert front.positions.tolist() == kept
    assert (front.values == values[kept]).all()
    assert front.ties_dropped == len(expected) - len(kept)


@settings(max_examples=200, deadline=None)
@given(data=st.data(), k=st.integers(1, 12), tie_limit=st.integers(0, 5), merge=st.booleans())
def test_top_k_equals_sorting(data, k, tie_limit, merge):
    values, parts = data.draw(pieces(1))
    values = values[:, 0]
    top = TopK.empty(k, tie_limit)
    for part in parts:
        top = top.merge(TopK.empty(k, tie_limit).add(part, values[part])) if merge else top.add(part, values[part])
    order = sorted(range(len(values)), key=lambda i: (values[i], i))
    if len(order) < k:
        assert top.positions.tolist() == order
        assert top.ties == 0
        assert top.threshold == float("inf")
        return
    threshold = values[order[k - 1]]
    near = [i for i in order if values[i] <= threshold]
    assert top.threshold == threshold
    assert top.positions.tolist() == near[: k + tie_limit]
    assert top.ties == int((values == threshold).sum())
    assert top.ties_dropped == len(near) - len(near[: k + tie_limit])


def test_front_of_anticorrelated_points_keeps_all():
    x = np.linspace(0, 1, 2000, dtype=np.float32)
    values = np.stack([x, 1 - x], axis=1)
    assert non_dominated(values).all()


def test_pivots_are_points_of_the_front_and_catch_what_one_of_them_dominates():
    random = np.random.default_rng(3)
    values = random.random((20_000, 3)).astype(np.float32)
    front = values[non_dominated(values)]
    pivots = choose_pivots(front, values[:1000])
    used = pivots[np.isfinite(pivots).all(axis=1)]
    assert len(used) == 16
    assert (used[:, None] == front[None]).all(axis=2).any(axis=1).all()
    caught = np.zeros(len(values), bool)
    for pivot in used:
        caught |= (pivot <= values).all(axis=1) & (pivot < values).any(axis=1)
    assert caught.mean() > 0.9  # uniform cube: the whole front of about 60 dominates all but itself
    assert not caught[non_dominated(values)].any()


@pytest.mark.parametrize("columns", [1, 3])
def test_no_front_gives_pivots_that_dominate_nothing(columns):
    pivots = choose_pivots(np.zeros((0, columns), np.float32), np.zeros((5, columns), np.float32))
    assert np.isinf(pivots).all()
