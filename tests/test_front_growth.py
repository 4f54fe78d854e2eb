"""The hypervolume in a sweep's progress: against one reference from first to last, so that it never falls."""

import dataclasses
import threading
from fractions import Fraction

import numpy as np
import pytest
from fake_kernel import OBJECTIVES, FakeGpu, fake_job
from hypothesis import given, settings
from hypothesis import strategies as st
from test_front_measures import fronts, twin_hypervolume

from dse import front_measures
from dse.errors import UserError
from dse.front import Front
from dse.front_growth import FrontGrowth, sample_reference, sample_rows
from dse.front_measures import GrowingHypervolume, hypervolume
from dse.sweep import run_sweep


@settings(max_examples=100, deadline=None)
@given(values=fronts(most_rows=6, most_objectives=3), scale=st.floats(0.3, 3.0))
def test_the_share_is_the_exact_one(values, scale):
    reference = values.max(axis=0) * scale
    exact = twin_hypervolume(values, reference) / np.prod([Fraction(float(entry)) for entry in reference])
    assert GrowingHypervolume(reference).share(values) == pytest.approx(float(exact), rel=1e-9, abs=0.0)


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 2**31), objectives=st.integers(1, 3))
def test_the_share_never_falls_while_a_front_grows(seed, objectives):
    random = np.random.default_rng(seed)
    growing, front, last = GrowingHypervolume(np.full(objectives, 0.8)), Front.empty(objectives, 5), 0.0
    for at in range(12):
        front = front.add(np.arange(9) + 9 * at, random.random((9, objectives)).astype(np.float32))
        alone = GrowingHypervolume(growing.reference).share(front.values)  # without what was measured before
        assert alone >= last - 1e-12
        last = growing.share(front.values, at_once=True)
        assert last == pytest.approx(alone, abs=1e-12)
    assert 0.0 < last < 1.0


@pytest.mark.parametrize("objectives", [1, 2, 3])
def test_it_never_falls_within_a_run_and_ends_at_the_fronts(objectives):
    job = fake_job(objectives=OBJECTIVES[:objectives])
    seen = []
    result = run_sweep(job, progress=seen.append)
    shares = [at.hypervolume for at in seen if at.hypervolume is not None]
    assert shares
    assert shares == sorted(shares)
    assert seen[-1].finished
    reference = sample_reference(job)
    assert reference is not None
    front = result.front[list(job.objectives)].to_numpy(np.float64)
    if objectives == 1:
        expected = 1.0 - float(front.min() / reference[0])
    else:
        expected = hypervolume(front, reference).value / float(np.prod(reference))
    assert shares[-1] == pytest.approx(expected, rel=1e-6)


def test_the_reference_depends_on_the_job_alone(tmp_path):
    job = fake_job()
    first, other = sample_reference(job), sample_reference(dataclasses.replace(job, chunk_lanes=1024, top=3))
    assert first is not None
    assert (first == other).all()
    part = dataclasses.replace(job, start=1000, stop=1100)
    assert set(sample_rows(part)) <= set(range(1000, 1100))
    seen, again = [], []
    run_sweep(job, progress=seen.append, out=tmp_path / "run")
    run_sweep(job, progress=again.append, out=tmp_path / "run")
    assert again[-1].hypervolume == seen[-1].hypervolume


def test_what_is_not_measured():
    seen = []
    run_sweep(fake_job(objectives=OBJECTIVES[:4]), progress=seen.append)  # it would take too long
    nothing_runs = dataclasses.replace(fake_job(), gpu=FakeGpu(speed=1.0, smem_max=0.0))
    run_sweep(nothing_runs, progress=seen.append)
    assert {at.hypervolume for at in seen} == {None}
    silent = FrontGrowth(fake_job(), wanted=False, tables=False)
    assert silent.hypervolume(Front.empty(3, 1), at_once=True) is None


def test_no_thread_outlives_a_sweep_that_fails(monkeypatch):
    """Python aborts where it ends while a thread compiles."""
    slow = threading.Event()
    monkeypatch.setattr("dse.front_growth.sample_reference", lambda job: slow.wait(0.5) or None)
    before = threading.active_count()
    with pytest.raises(ZeroDivisionError):
        run_sweep(fake_job(), progress=lambda snapshot: 1 // 0)
    assert threading.active_count() == before


def test_it_is_measured_seldom(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(front_measures.time, "monotonic", lambda: now[0])
    growing = GrowingHypervolume((1.0, 1.0), every_s=0.5)
    assert growing.share([[0.5, 0.5]]) == 0.25
    now[0] = 0.4
    assert growing.share([[0.0, 0.5]]) == 0.25
    assert growing.share([[0.0, 0.5]], at_once=True) == 0.5
    now[0] = 1.0
    assert growing.share([[0.0, 0.0]]) == 1.0


@pytest.mark.parametrize(
    ("reference", "text"),
    [
        ((1.0,) * 4, "4 objectives: the hypervolume is followed for 1 to 3"),
        ((1.0, 0.0), r"reference \(1, 0\): all of it must be finite and above 0"),
        ((float("inf"),), r"reference \(inf\): all of it must be finite and above 0"),
    ],
)
def test_a_reference_that_makes_no_sense(reference, text):
    with pytest.raises(UserError, match=text):
        GrowingHypervolume(reference)
