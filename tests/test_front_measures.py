"""Hypervolume, knees and representatives of fronts against slow, obvious twins."""

from fractions import Fraction
from itertools import combinations, pairwise, product

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dse.errors import UserError
from dse.front import non_dominated
from dse.front_measures import hypervolume, is_quick, knees, normalised
from dse.representatives import representatives
from dse.studies.fronts.figure import draw_front


@st.composite
def fronts(draw, most_rows: int = 10, most_objectives: int = 4, least_objectives: int = 1, lowest: int = 1):
    """Fronts on a coarse grid, ties and duplicates included."""
    shape = draw(st.integers(1, most_rows)), draw(st.integers(least_objectives, most_objectives))
    random = np.random.default_rng(draw(st.integers(0, 2**31)))
    values = random.integers(lowest, 12, shape) * draw(st.sampled_from([1.0, 0.37, 1e-6]))
    return values[non_dominated(values)]


def twin_hypervolume(values, reference) -> Fraction:
    """Cell by cell of the grid that all coordinates span, exactly."""
    rows = [[Fraction(float(entry)) for entry in row] for row in values]
    edges = [sorted({*(row[i] for row in rows), at}) for i, at in enumerate(Fraction(float(e)) for e in reference)]
    limits = [Fraction(float(entry)) for entry in reference]
    total = Fraction(0)
    for cell in product(*map(pairwise, edges)):
        inside = all(high <= limit for (_, high), limit in zip(cell, limits, strict=True))
        if inside and any(all(entry <= low for entry, (low, _) in zip(row, cell, strict=True)) for row in rows):
            volume = Fraction(1)
            for low, high in cell:
                volume *= high - low
            total += volume
    return total


@settings(max_examples=150, deadline=None)
@given(values=fronts(most_rows=7), given_reference=st.booleans(), seed=st.integers(0, 2**31))
def test_hypervolume_equals_the_exact_sum_over_cells(values, given_reference, seed):
    spread = np.random.default_rng(seed).uniform(0.5, 1.5, values.shape[1])
    found = hypervolume(values, values.max(axis=0) * spread if given_reference else None)
    exact = float(twin_hypervolume(values, found.reference))
    assert found.value == pytest.approx(exact, rel=1e-9, abs=0.0)
    assert 0.0 <= found.share <= 1.0
    assert found.beyond == sum(not (row < found.reference).all() for row in values)


def test_the_result_says_which_reference_it_took():
    values = np.array([[1.0, 4.0], [2.0, 2.0]])
    default = hypervolume(values)
    assert default.reference == pytest.approx((2.2, 4.4))
    assert default.rule == "1.1 times the front's worst in each objective"
    own = hypervolume(values, (3.0, 5.0))
    assert (own.reference, own.rule, own.value) == ((3.0, 5.0), "given", 4.0)
    assert own.share == pytest.approx(4.0 / 6.0)
    assert hypervolume([[0.0, 1.0]]).reference == pytest.approx((1.0, 1.1))
    assert default.to_dict()["reference"] == list(default.reference)


@settings(max_examples=50, deadline=None)
@given(values=fronts(least_objectives=2))
def test_a_point_more_never_lowers_the_hypervolume(values):
    reference = values.max(axis=0) * 1.1
    more = np.concatenate([values, values.mean(axis=0, keepdims=True) * 0.9])
    assert hypervolume(more, reference).value >= hypervolume(values, reference).value * (1 - 1e-12)


@pytest.mark.parametrize(
    ("reference", "shown"), [((1.0,), "1"), ((1.0, np.inf), "1, inf"), ((1.0, 2.0, 3.0), "1, 2, 3")]
)
def test_a_reference_of_another_length_is_refused(reference, shown):
    with pytest.raises(UserError, match=rf"reference \({shown}\): needs 2 finite numbers, one an objective"):
        hypervolume([[1.0, 2.0]], reference)


def test_an_empty_front_has_no_hypervolume():
    with pytest.raises(UserError, match="no schedule can run"):
        hypervolume(np.zeros((0, 2)))


def twin_knees(values, near):
    """The definition, point by point: two objectives, distance from the chord by the cross product."""
    logs = np.log(values)
    low, high = logs.min(axis=0), logs.max(axis=0)
    at = (logs - low) / np.where(high > low, high - low, 1.0)
    (x0, y0), (x1, y1) = min(map(tuple, at)), min(map(tuple, at), key=lambda point: (point[1], point[0]))
    length = np.hypot(x1 - x0, y1 - y0)
    below = [((x1 - x0) * (y0 - y) - (x0 - x) * (y1 - y0)) / length for x, y in at] if length else [0.0] * len(at)
    found = []
    for i, point in enumerate(at):
        rivals = [j for j, other in enumerate(at) if (abs(other - point) <= near).all() and j != i]
        if below[i] > 1e-9 and not any(
            below[j] > below[i] + 1e-12 or (abs(below[j] - below[i]) <= 1e-12 and j < i) for j in rivals
        ):
            found.append(i)
    return found, below


@settings(max_examples=200, deadline=None)
@given(values=fronts(most_rows=14, least_objectives=2, most_objectives=2), near=st.sampled_from([0.0, 0.15, 0.5, 1.0]))
def test_knees_of_two_objectives_lie_farthest_from_the_chord(values, near):
    found = knees(values, near)
    if len(values) < 3:
        assert found == ()
        return
    expected, below = twin_knees(values, near)
    assert sorted(knee.place for knee in found) == expected
    for knee in found:
        assert knee.distance == pytest.approx(below[knee.place], abs=1e-9)
    assert [knee.distance for knee in found] == sorted((knee.distance for knee in found), reverse=True)


@settings(max_examples=100, deadline=None)
@given(values=fronts(most_rows=30, least_objectives=2), seed=st.integers(0, 2**31))
def test_knees_do_not_depend_on_units_or_order(values, seed):
    random = np.random.default_rng(seed)
    scaled = values * 2.0 ** random.integers(-20, 20, values.shape[1])
    distances = [knee.distance for knee in knees(values)]
    assert [knee.distance for knee in knees(scaled)] == pytest.approx(distances, abs=1e-9)
    shuffled = values[random.permutation(len(values))]
    first = {tuple(shuffled[knee.place]) for knee in knees(shuffled)[:1]}
    deepest = {tuple(values[knee.place]) for knee in knees(values) if knee.distance >= distances[0] - 1e-12}
    assert first <= deepest


def test_one_bend_is_one_knee_and_a_bulge_is_none():
    x = np.geomspace(1.0, 100.0, 40)
    bent = np.where(x < 4.0, 100.0 / x**2, 100.0 / 16.0 * (4.0 / x) ** 0.2)
    (knee,) = knees(np.stack([x, bent], axis=1), near=1.0)
    assert x[knee.place] == pytest.approx(4.0, rel=0.15)
    bulge = np.stack([x, 100.0 * (1.01 - (np.log(x) / np.log(100.0)) ** 4)], axis=1)
    assert knees(bulge) == ()
    assert knees([[1.0, 2.0]]) == ()


def test_a_front_of_many_points_has_the_knees_of_the_definition(monkeypatch):
    random = np.random.default_rng(4)
    x = np.sort(random.uniform(0.0, 1.0, 300))
    values = np.exp(np.stack([x, (1.0 - x) ** 3 + 0.03 * np.sin(40.0 * x)], axis=1))
    values = values[non_dominated(values)]
    monkeypatch.setattr("dse.front_measures.AT_ONCE", 7)
    found = knees(values, near=0.05)
    assert len(found) > 1
    assert sorted(knee.place for knee in found) == twin_knees(values, 0.05)[0]


def test_large_fronts_in_many_objectives_are_not_quick():
    assert is_quick(np.zeros((10**5, 4)))
    assert is_quick(np.zeros((10**5, 6)))  # one distinct point
    assert not is_quick(np.random.default_rng(0).random((5000, 6)))


def test_of_equal_knees_the_first_row_counts():
    values = np.array([[1.0, 100.0], [2.0, 2.0], [2.0, 2.0], [100.0, 1.0]])
    assert [knee.place for knee in knees(values)] == [1]


def test_an_objective_with_a_zero_is_scaled_linearly():
    assert normalised([[0.0, 1.0], [1.0, 10.0], [4.0, 100.0]]).tolist() == [[0.0, 0.0], [0.25, 0.5], [1.0, 1.0]]


def test_a_front_of_one_objective_has_no_figure(tmp_path):
    with pytest.raises(
        UserError, match="a figure of a front needs two objectives and a point: sweep with --objectives"
    ):
        draw_front(pd.DataFrame({"latency_s": [1.0]}), ("latency_s",), (), tmp_path / "a.svg", "title")


def test_near_is_a_share():
    with pytest.raises(UserError, match=r"near = 1.5 is not allowed: from 0 to 1"):
        knees([[1.0, 2.0]], near=1.5)


def twin_epsilon(values, size) -> float:
    """The least that any choice of rows reaches, all choices tried."""
    rows = np.unique(values, axis=0)

    def worse(mine, theirs):
        return max(1.0 if a == b else a / b if b else np.inf for a, b in zip(mine, theirs, strict=True))

    return min(
        max(min(worse(mine, theirs) for mine in chosen) for theirs in rows) - 1.0
        for chosen in combinations(rows.tolist(), min(size, len(rows)))
    )


@settings(max_examples=200, deadline=None)
@given(values=fronts(least_objectives=1, lowest=0), size=st.integers(1, 4))
def test_no_choice_of_rows_beats_the_bound(values, size):
    found = representatives(values, size)
    best = twin_epsilon(values, size)
    assert len(found.places) <= size
    assert found.epsilon == pytest.approx(twin_epsilon_of(values, found.places), rel=1e-9, abs=1e-12)
    assert found.at_least <= best * (1 + 1e-9) + 1e-12
    assert found.epsilon >= best * (1 - 1e-9) - 1e-12
    if values.shape[1] <= 2:
        assert found.exact
        assert found.epsilon == pytest.approx(best, rel=1e-9, abs=1e-12)


def twin_epsilon_of(values, places) -> float:
    def worse(mine, theirs):
        return max(1.0 if a == b else a / b if b else np.inf for a, b in zip(mine, theirs, strict=True))

    return max(min(worse(values[at], row) for at in places) for row in values) - 1.0


@settings(max_examples=50, deadline=None)
@given(values=fronts(most_rows=40, least_objectives=2))
def test_more_representatives_are_never_worse_for_two_objectives_and_all_are_exact(values):
    reached = [representatives(values[:, :2][non_dominated(values[:, :2])], size).epsilon for size in (1, 2, 3, 40)]
    assert reached == sorted(reached, reverse=True)
    assert reached[-1] == 0.0
    assert representatives(values, 40).epsilon == 0.0


def test_the_greedy_choice_for_three_objectives_comes_near_its_bound():
    random = np.random.default_rng(1)
    values = np.exp(random.normal(size=(2000, 3)))
    found = representatives(values[non_dominated(values)], 12)
    assert found.at_least <= found.epsilon <= 2.0 * found.at_least


def test_the_sentence():
    x = np.geomspace(1.0, 2.0, 5)
    values = np.stack([x, 1 / x], axis=1)
    assert representatives(values, 2).sentence() == (
        "these 2 are within 19 % of every point of the front in every objective"
    )
    assert representatives(values, 1).sentence().startswith("this one is within 41 % of every point")


@pytest.mark.parametrize(
    ("values", "size", "text"),
    [
        ([[1.0]], 0, "size = 0 is not allowed: 1 or more representatives"),
        (np.zeros((0, 2)), 1, "needs at least one point"),
        ([[-1.0, 2.0]], 1, "finite objectives from 0 on"),
    ],
)
def test_what_has_no_representatives(values, size, text):
    with pytest.raises(UserError, match=text):
        representatives(values, size)
