"""Tiles that drift apart along K: the closed form by hand, against its twins, and in a launch and in the cost."""

import dataclasses
import functools

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dse.content import load_gpu
from dse.content.space import load_space
from dse.kernels.gemm import gemm_problem
from jaxmodel.drift import Shared, drift_sigma_steps, followers_hit, normal_range
from jaxmodel.kernels.gemm import cost
from jaxmodel.raster import panel_walk
from jaxmodel.reuse import l2_hits
from jaxmodel.sdcm import hit_probability
from jaxmodel.types import GemmSchedule
from tests.cli_run import answer, json_answer
from tests.oracles import drift
from tests.oracles.quick_compile import QUICK

laws = settings(deadline=None, max_examples=60)
jit_hit = jax.jit(followers_hit)


def test_sigma_is_skew_and_half_of_the_walk():
    assert float(drift_sigma_steps(3.0, 0.0, 100.0, 12_800.0)) == pytest.approx(3.0)
    assert float(drift_sigma_steps(0.0, 2.0, 50.0, 6_400.0)) == pytest.approx(2.0 * 25**0.5)
    assert float(drift_sigma_steps(3.0, 0.5, 448.0, 28_672 * 2.0)) == pytest.approx((9 + 0.25 * 224) ** 0.5)
    assert float(drift_sigma_steps(0.0, 0.0, 448.0, 28_672 * 2.0)) == 0.0


@pytest.mark.parametrize(("k", "element_bytes"), [(28_672, 2), (57_344, 1), (114_688, 0.5)])
def test_neither_the_depth_of_a_step_nor_the_type_changes_how_far_tiles_drift(k, element_bytes):
    """The same bytes of K in steps half as deep: twice as many steps apart, each of half the bytes."""
    apart = [float(drift_sigma_steps(2.0, 3.5, steps, k * element_bytes)) / steps for steps in (224.0, 448.0, 896.0)]
    assert apart == pytest.approx([apart[0]] * 3)
    assert apart[0] == pytest.approx(float(drift_sigma_steps(2.0, 3.5, 448.0, 57_344.0)) / 448.0)


@pytest.mark.parametrize("count", [1.5, 2, 3, 8, 33, 132, 1000, 16_000])
def test_range_of_normals(count):
    assert float(normal_range(np.float32(count))) == pytest.approx(drift.normal_range(count), rel=3e-3)


def test_the_closed_form_is_that_of_its_scalar_twin():
    random = np.random.default_rng(3)
    for _ in range(60):
        own, other = (
            Shared(step_bytes=random.uniform(1e4, 1e6), sharers=c, sharers_of_touch=c * random.uniform(1, 2))
            for c in np.exp(random.uniform(np.log(1.1), np.log(300), 2))
        )
        rest = random.integers(1, 500), random.choice([0.0, 0.5, 5.0, 50.0]), np.exp(random.uniform(14, 19)), 16.0
        with jax.enable_x64(True):
            found = float(followers_hit(own, other, *(float(value) for value in rest)))
        assert found == pytest.approx(drift.scalar_followers_hit(own, other, *rest), abs=2e-3)


shared = st.builds(
    lambda size, sharers, more: Shared(step_bytes=size, sharers=sharers, sharers_of_touch=sharers * more),
    st.floats(1e3, 1e7), st.floats(1, 600), st.floats(1, 2),
)  # fmt: skip


@laws
@given(shared, shared, st.integers(1, 1000), st.floats(1e5, 1e9))
def test_without_drift_half_of_what_a_step_touches_lies_in_between_bit_for_bit(own, other, k_steps, capacity):
    hit = followers_hit(own, other, float(k_steps), 0.0, capacity, 16.0)
    assert hit == hit_probability(0.5 * (own.step_bytes + other.step_bytes), capacity, 16.0)


@laws
@given(shared, shared, st.integers(1, 1000), st.floats(0, 1e9), st.floats(0, 200), st.floats(1, 4))
def test_hits_are_shares_that_fall_with_drift_and_rise_with_capacity(own, other, k_steps, capacity, sigma, factor):
    hit = float(jit_hit(own, other, float(k_steps), sigma, capacity, 16.0))
    assert -1e-6 <= hit <= 1.0 + 1e-6
    assert float(jit_hit(own, other, float(k_steps), sigma * factor + 0.1, capacity, 16.0)) <= hit + 1e-5
    assert float(jit_hit(own, other, float(k_steps), sigma, capacity * factor, 16.0)) >= hit - 1e-5


def test_one_wave_matches_the_exact_stack():
    # the bars of the whole check, scripts/check_drift.py, with room for fewer draws
    error = np.abs(drift.wave_errors(drift.draw_waves(250, seed=5), seed=5))
    assert error.mean() <= 1.0
    assert np.percentile(error, 95) <= 5.0
    assert np.percentile(error, 99) <= 10.5


def test_whole_launches_match_the_exact_stack():
    error = drift.launch_errors(*drift.draw_launches(100, seed=6), seed=6)
    assert np.abs(error).mean() <= 1.4
    assert np.abs(error[:, 1:]).mean() <= 0.8  # from 20 MiB on
    assert np.abs(error.mean()) <= 0.7


def test_the_exact_twin_in_step_is_that_of_tiles_in_step():
    cases, skew, jitter = drift.draw_launches(20, seed=7)
    error = np.abs(drift.launch_errors(cases, 0 * skew, 0 * jitter, seed=7))
    assert error.mean() <= 0.4


@pytest.mark.parametrize("jitter", [0.0, 1.0, 3.0])
def test_deep_k_loses_its_hits_as_the_exact_stack_does(jitter):
    """M = N = 8192, K = 28672: 82 % in step."""
    closed, exact = drift.deep_k_hits(2.0, jitter)
    np.testing.assert_allclose(closed, exact, atol=0.055)
    assert jitter > 0 or closed == pytest.approx([0.818, 0.818], abs=2e-3)
    assert jitter < 3 or closed[0] < 0.6


LAUNCH = ("rows", "cols", "along_n", "swizzle", "row_bytes", "col_bytes", "batch", "concurrent", "k_steps", "out_bytes")
launches = st.builds(
    lambda *values: dict(zip(LAUNCH, (float(value) for value in values), strict=True)),
    st.integers(1, 300), st.integers(1, 300), st.sampled_from([0, 1]), st.integers(1, 64) | st.just(2**24),
    st.sampled_from([4096, 16384, 65536]), st.sampled_from([4096, 16384, 65536]), st.integers(1, 9),
    st.integers(1, 600), st.integers(1, 500), st.sampled_from([0, 65536]),
)  # fmt: skip


def _hits(launch, capacity, *sigma):
    walk = panel_walk(*(launch[name] for name in LAUNCH[:6]))
    return l2_hits(walk, *(launch[name] for name in LAUNCH[6:]), capacity, 16.0, *sigma)


jit_hits = jax.jit(_hits)


@laws
@given(launches, st.floats(0, 1e9))
def test_a_launch_whose_sigma_is_zero_is_one_in_step_bit_for_bit(launch, capacity):
    in_step, drifting = _hits(launch, capacity), _hits(launch, capacity, 0.0)
    assert jax.tree.map(float, in_step) == jax.tree.map(float, drifting)


@laws
@given(launches, st.floats(1e5, 1e9), st.floats(0, 300), st.floats(1, 5))
def test_hits_of_a_launch_fall_with_drift_and_first_touches_stay(launch, capacity, sigma, factor):
    sooner, later = jit_hits(launch, capacity, sigma), jit_hits(launch, capacity, sigma * factor)
    in_step = jit_hits(launch, capacity, 0.0)
    for name, cold in (("rows", "rows_cold"), ("cols", "cols_cold")):
        assert getattr(later, cold) == getattr(in_step, cold)
        assert 0.0 <= getattr(later, name) <= 1.0 - getattr(later, cold) + 1e-6
        assert getattr(later, name) <= getattr(sooner, name) + 1e-5
        assert getattr(sooner, name) <= getattr(in_step, name) + 1e-5


@laws
@given(launches, st.floats(1e5, 1e9), st.floats(0, 50) | st.just(0.0), st.floats(0, 5) | st.just(0.0))
def test_gradients_are_finite_and_point_the_right_way(launch, capacity, skew, jitter):
    slopes = _slopes(launch, capacity, skew, jitter)
    assert np.all(np.isfinite(slopes))
    assert slopes[0] >= -1e-12
    assert np.all(np.asarray(slopes[1:]) <= 1e-5)


@jax.jit
def _slopes(launch, capacity, skew, jitter):
    def hit(capacity, skew, jitter):
        sigma = drift_sigma_steps(skew, jitter, launch["k_steps"], launch["k_steps"] * 128.0)
        hits = _hits(launch, capacity, sigma)
        return hits.rows + hits.cols

    return jax.grad(hit, argnums=(0, 1, 2))(capacity, skew, jitter)


SPACE = load_space("gemm", "wgmma", "bf16")
SCHEDULES = SPACE.rows(np.sort(np.random.default_rng(0).integers(0, SPACE.size, 20_000)))
PUBLISHED = {"drift_skew_steps": 2.0, "drift_jitter_steps": 3.5}  # what the one measured point would take


@functools.partial(jax.jit, compiler_options=QUICK)
def _compiled_cost(problem, schedules, gpu):
    found = cost(problem, GemmSchedule(**schedules), gpu)
    return found.latency_s, found.l2_hit, found.reason


def _costs(shape, gpu):
    """Latency and L2 hits of a fixed draw of schedules, their K-steps a tile, and which fit."""
    problem = gemm_problem(shape).arrays()
    schedules = {name: np.float32(values) for name, values in SCHEDULES.items()}
    latency_s, l2_hit, reason = _compiled_cost(problem, schedules, gpu)
    steps = np.ceil(np.ceil(problem.k / SCHEDULES["tile_k"]) / SCHEDULES["split_k"])
    return np.asarray(latency_s), np.asarray(l2_hit), steps, np.asarray(reason) == 0


def _h100(**numbers):
    return load_gpu("h100_sxm", numbers).bind("bf16")


@pytest.mark.parametrize("shape", ["8192x8192x256", "8192x8192x512", "16384x16384x512", "4096x4096x1024"])
def test_a_few_steps_leave_no_room_to_drift(shape):
    (off, _, steps, fits), (on, *_) = _costs(shape, _h100()), _costs(shape, _h100(**PUBLISHED))
    few = fits & (steps <= 8)
    assert few.sum() > 100
    assert np.max(on[few] / off[few] - 1.0) < 1e-3


def test_deep_loops_that_drift_take_longer_and_stream_k_stays_in_step():
    (off, _, _, fits), (on, *_) = _costs("8192x8192x28672", _h100()), _costs("8192x8192x28672", _h100(**PUBLISHED))
    tiled, streamed = (fits & (SCHEDULES["stream_k"] == kind) for kind in (0, 1))
    assert np.all(on[tiled] >= off[tiled] * (1.0 - 1e-5))
    assert np.max(on[tiled] / off[tiled]) > 1.1
    assert streamed.sum() > 10
    np.testing.assert_allclose(on[streamed], off[streamed], rtol=1e-5)


def test_what_does_not_drift_is_not_compiled_and_zero_means_the_same():
    gpu = _h100()
    assert gpu.drift_skew_steps is None
    assert gpu.drift_jitter_steps is None
    assert _h100(drift_jitter_steps=2.0).drift_jitter_steps == 2.0
    zero = dataclasses.replace(gpu, drift_skew_steps=np.float32(0), drift_jitter_steps=np.float32(0))
    off, on = (_costs("4096x4096x4096", record) for record in (gpu, zero))
    np.testing.assert_allclose(on[0], off[0], rtol=1e-6)
    np.testing.assert_allclose(on[1], off[1], atol=1e-6)
    problem = gemm_problem("4096x4096x4096").arrays()
    schedule = GemmSchedule(**{name: np.float32(value) for name, value in SPACE.schedule(12_345).items()})
    written = [str(jax.make_jaxpr(cost)(problem, schedule, record)) for record in (gpu, zero)]
    assert len(written[0]) < len(written[1])


def test_explain_takes_drift_as_any_number_of_the_gpu(capsys):
    words = ["explain", "--shape", "8192x8192x28672", "--gpu", "h200_sxm"]
    words += ["--schedule", "tile=128x256x64 stages=4 warps=8 raster=along_m:2"]
    apart = json_answer(capsys, *words, "--set", "drift_jitter_steps=3.5")
    assert 0.3 < apart["cost"]["l2_hit"] < 0.7  # 0.82 in step
    code, _, err = answer(capsys, *words, "--set", "drift_jitter_steps=-1")
    assert code == 2
    assert "at least 0" in err


def test_drift_may_be_an_axis_of_a_search_zero_included(capsys):
    words = ["search", "gemm", "--shape", "4096x4096x4096", "--preset", "triton", "--sampler", "random", "--quiet"]
    words += ["--trials", "40", "--top", "40", "--gpu-axis", "drift_jitter_steps=0,3"]
    assert {row["gpu.drift_jitter_steps"] for row in json_answer(capsys, *words)["best"]} == {0.0, 3.0}
