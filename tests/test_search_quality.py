"""Regret and hypervolume against the exhaustive answer: as counted by hand, and refused where the sweep is another."""

import itertools

import numpy as np
import pytest
from fake_kernel import BruteForce, fake_job, fake_space
from hypothesis import given
from hypothesis import strategies as st

from dse.errors import UserError
from dse.search import reference_of, run_search, search
from dse.search.quality import AFFORDABLE, hypervolume_history, quality_of, share_of_front

BOTH = ("latency_s", "smem_bytes")
vectors = st.lists(st.tuples(st.integers(1, 12), st.integers(1, 12)), min_size=1, max_size=12)


def cells_dominated(points, corner) -> int:
    """Unit cells below `corner` that some point dominates."""
    cells = itertools.product(range(corner[0]), range(corner[1]))
    return sum(any(x <= a and y <= b for x, y in points) for a, b in cells)


@given(vectors, vectors)
def test_shares_are_counted_cells(everything, found):
    reference = reference_of(np.array(everything + found, float), 1, "all")
    scale = [10 * entry for entry in reference.point]  # 1.1 times a whole number: whole in tenths
    corner = [round(entry) for entry in scale]
    small = [(10 * x, 10 * y) for x, y in found]
    whole = [(10 * x, 10 * y) for x, y in everything + found]
    expected = area(small, corner) / area(whole, corner)
    assert share_of_front(reference, np.array(found, float)) == pytest.approx(expected)


def area(points, corner) -> int:
    """By sweeping from left to right."""
    total, lowest = 0, corner[1]
    for x, y in sorted(points):
        if y < lowest and x < corner[0]:
            total += (corner[0] - x) * (lowest - y)
            lowest = y
    return total


def test_the_sweep_over_columns_counts_cells():
    assert area([(1, 3), (2, 1)], (4, 5)) == cells_dominated([(1, 3), (2, 1)], (4, 5))


@given(vectors)
def test_the_history_ends_at_the_share_and_only_rises(found):
    values = np.array(found, float)
    reference = reference_of(values, 1, "all")
    history = hypervolume_history(reference, values, np.ones(len(values), bool))
    assert history[-1][1] == pytest.approx(1.0)
    shares = [share for _, share in history]
    assert shares == sorted(shares)
    for trial, share in history:
        assert share == pytest.approx(share_of_front(reference, values[:trial]))


def test_quality_by_hand():
    values = np.array([[4.0, 4.0], [2.02, 3.0], [1.0, 9.0], [2.0, 3.0]])
    allowed = np.array([True, True, False, True])
    found = quality_of(reference_of(np.array([[2.0, 3.0]]), 77, "all"), values, allowed)
    assert (found.best, found.true_best, found.regret, found.evaluations) == (2.0, 2.0, 0.0, 77)
    assert found.trials_to_1_percent == 2
    assert found.trials_to_99_percent == 4  # the second reaches (2.2 - 2.02) / (2.2 - 2.0)
    assert found.reference == pytest.approx((2.2, 3.3))
    none = quality_of(reference_of(np.array([[2.0, 3.0]]), 77, "all"), values, np.zeros(4, bool))
    assert none.regret == np.inf
    assert none.hypervolume_share == 0.0
    assert none.trials_to_1_percent is None


def test_a_search_through_everything_has_no_regret():
    job = fake_job(fake_space(5, 3, 2, 2), objectives=BOTH)
    result = run_search(job, 600, "random", reference="auto")
    assert result.quality is not None
    assert result.quality.true_best == BruteForce.of(job).rank.min()
    assert result.quality.regret == 0.0
    assert result.quality.hypervolume_share == pytest.approx(1.0)
    assert result.quality.trials_to_99_percent <= 600
    assert result.quality.evaluations == job.space.size
    assert result.compared == "a sweep of all 60 points"


def test_snapshots_tell_the_hypervolume_of_the_box():
    seen = []
    job = fake_job(fake_space(5, 3, 2, 2), objectives=BOTH)
    run_search(job, 300, "random", reference="auto", progress=seen.append)
    shares = [snapshot.hypervolume for snapshot in seen]
    assert shares == sorted(shares)
    assert 0 < shares[-1] <= 1


def test_limits_on_objectives_cut_the_reference():
    job = fake_job(fake_space(5, 3, 2, 2), objectives=BOTH)
    everything = BruteForce.of(job)
    kept = everything.values[everything.values[:, 1] <= 9]
    result = run_search(job, 600, "random", reference="auto", limits={"smem_bytes": 9})
    assert result.quality.true_best == kept[:, 0].min()
    assert result.quality.regret == 0.0
    assert result.quality.hypervolume_share == pytest.approx(1.0)


def test_what_is_not_compared_says_why():
    compared = lambda job, **options: run_search(job, 4, "random", reference="auto", **options).compared  # noqa: E731
    assert compared(fake_job(), gpu={"speed": (1.0, 2.0)}) == "not compared: the GPU is searched as well"
    text = compared(fake_job(objectives=BOTH), limits={"ddr_bytes": 50})
    assert text.startswith("not compared: the limit on ddr_bytes is no objective")
    large = compared(fake_job(fake_space(200, 40, 40, 40)))
    assert f"12,800,000 points are more than {AFFORDABLE:,}; give --reference with a finished sweep" in large


def test_a_finished_sweep_is_the_reference(tmp_path):
    from dse import sweep

    words = {"kernel": "softmax", "shape": "1024x4096", "axes": ["stages=1"]}
    swept = sweep(**words, objectives=("latency_s", "smem_bytes"), out=tmp_path / "run")
    options = {
        "trials": 40,
        "sampler": "local",
        "objectives": ("smem_bytes", "latency_s"),
        "reference": tmp_path / "run",
    }
    found = search(**words, **options)
    assert found.quality.true_best == swept.front["smem_bytes"].min()
    assert found.quality.evaluations == swept.evaluated
    assert 0 < found.quality.hypervolume_share <= 1 + 1e-9
    for changed, text in (
        ({"objectives": ("latency_s",)}, "its objectives are latency_s, smem_bytes, not latency_s"),
        ({"shape": "1024x8192"}, "its problem is 1024x4096, not 1024x8192 or of other types"),
        ({"axes": None}, "its space is"),
        ({"overrides": {"ddr_bytes_per_s": "2x"}}, "its GPU is h200_sxm with other numbers"),
    ):
        with pytest.raises(UserError, match="is of another question") as refused:
            search(**{**words, **options, **changed})
        assert text in str(refused.value)
        assert "sweep this one first" in str(refused.value)
    with pytest.raises(UserError, match="no run at"):
        search(**words, **{**options, "reference": tmp_path / "nothing"})


def test_the_first_front_is_not_empty_where_nothing_runs():
    with pytest.raises(UserError, match="no schedule can run, so there is nothing to compare with"):
        reference_of(np.zeros((0, 2)), 5, "the sweep")


def test_first_schedules_are_tried_first(tmp_path):
    from dse import sweep

    words = {"kernel": "softmax", "shape": "1024x4096"}
    swept = sweep(**words, out=tmp_path / "run", top=10)
    best = swept.top["index"].tolist()
    fields = swept.top.iloc[0]
    text = f"cta_threads={fields['cta_threads']} vector_bytes={fields['vector_bytes']} unroll={fields['unroll']} "
    options = {"trials": 20, "sampler": "random", "first": ["17", str(tmp_path / "run")]}
    found = search(**words, **options)
    assert found.trials["index"].tolist()[:11] == [17, *best[:10]]
    named = search(**words, trials=4, sampler="tpe", first=[text + f"stages={fields['stages']}"])
    assert named.trials["latency_s"].iloc[0] == pytest.approx(fields["latency_s"])
    for wrong, said in (
        ("nothing", "--first nothing: no schedule in words"),
        ("99999999", "index 99999999 is not in the space"),
        ("preset:no", "unknown preset of the space"),
        ("stages=99999", "--first stages=99999|the schedule lacks|is not in the space"),
    ):
        with pytest.raises(UserError, match=said):
            search(**words, trials=4, first=[wrong])
