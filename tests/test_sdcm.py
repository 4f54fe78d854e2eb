"""Hit probability from reuse distance: the reference's numbers, the binomial it approximates, and its laws."""

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxmodel.sdcm import hit_probability, hit_probability_blocks, phi, phi_exact
from tests.oracles.sdcm import binomial_hit, exact_phi, gaussian_hit_blocks, zelen_severo_phi

laws = settings(deadline=None)
ROUNDING = 2e-7  # of tanh in float32, which is not monotone to the last bit

# distance, ways, capacity in blocks: binomial, Gaussian, Gaussian with the three-term polynomial
WORKED = [
    (9, 8, 64, 0.9999995232, 0.9999999999, 0.9999999999),
    (32, 8, 64, 0.9604942838, 0.9693155854, 0.9693095974),
    (64, 8, 64, 0.4435583008, 0.4250533696, 0.4250463099),
    (100, 8, 128, 0.7124660582, 0.6972116918, 0.6972001830),
    (1000, 8, 2048, 0.9545882228, 0.9657627556, 0.9657580404),
    (2048, 8, 2048, 0.4526875787, 0.4297058971, 0.4296980268),
    (3000, 8, 3200, 0.5245468766, 0.5000000000, 0.5000000548),
    (6400, 8, 3200, 0.0099324477, 0.0166825903, 0.0166928928),
    (10000, 8, 16384, 0.8786292942, 0.8819305993, 0.8819408255),
    (1024, 16, 1024, 0.4659627306, 0.4498706493, 0.4498603494),
    (512, 16, 1024, 0.9922573931, 0.9962368424, 0.9962283955),
]


@pytest.mark.parametrize(("distance", "ways", "capacity", "binomial", "gaussian", "polynomial"), WORKED)
def test_worked_numbers(distance, ways, capacity, binomial, gaussian, polynomial):
    assert binomial_hit(distance, ways, capacity) == pytest.approx(binomial, abs=1e-10)
    assert gaussian_hit_blocks(distance, ways, capacity) == pytest.approx(gaussian, abs=1e-10)
    assert gaussian_hit_blocks(distance, ways, capacity, zelen_severo_phi) == pytest.approx(polynomial, abs=1e-10)
    with jax.enable_x64(True):
        ours = hit_probability_blocks(float(distance), float(ways), float(capacity))
    assert float(ours) == pytest.approx(gaussian, abs=1e-10)


def test_few_blocks_always_hit_and_no_cache_never_does():
    assert binomial_hit(8, 8, 64) == pytest.approx(0.9999999404, abs=1e-10)
    assert [float(hit_probability_blocks(d, 8.0, 64.0)) for d in (0.0, 7.0)] == [1.0, 1.0]
    assert float(hit_probability_blocks(1e9, 8.0, 64.0)) == 0.0
    assert float(hit_probability_blocks(3.0, 8.0, 0.0)) == 0.0
    np.testing.assert_array_equal(hit_probability(np.array([0.0, 1e3, np.inf]), 0.0, 8.0), 0.0)
    assert float(hit_probability(0.0, 1.0, 8.0)) == 1.0
    assert float(hit_probability(np.inf, 1e9, 8.0)) == 0.0


@pytest.mark.parametrize(("ways", "capacity"), [(8, 2048), (8, 16384), (16, 1024), (16, 65536)])
def test_gaussian_stays_near_the_binomial(ways, capacity):
    distances = np.unique(np.linspace(9, 3 * capacity, 300).astype(int))
    binomial = np.array([binomial_hit(int(d), ways, capacity) for d in distances])
    blocks = np.asarray(hit_probability_blocks(distances.astype(float), ways, capacity))
    fine = np.asarray(hit_probability(distances * 128.0, capacity * 128.0, ways))
    for ours in (blocks, fine):
        error = np.abs(ours - binomial)
        assert error.max() < (0.026 if ways == 8 else 0.019)
        assert error.mean() < 0.01
    assert np.all(np.diff(blocks) <= 0)


def test_phi_within_its_bound_and_monotone():
    z = np.linspace(-9, 9, 20_001)
    with jax.enable_x64(True):
        fast, exact = np.asarray(phi(z)), np.asarray(phi_exact(z))
    assert np.abs(exact - [exact_phi(v) for v in z]).max() < 1e-14
    assert np.abs(fast - exact).max() < 1.8e-4
    assert np.abs([zelen_severo_phi(v) - exact_phi(v) for v in z]).max() < 1.2e-5
    assert np.diff(fast).min() > -1e-15
    assert float(phi(-40.0)) == 0.0
    assert float(phi(40.0)) == 1.0


@laws
@given(
    st.floats(0, 1e12), st.floats(0, 1e12), st.floats(1, 1e10), st.floats(1, 1e10), st.sampled_from([1, 4, 8, 16, 32])
)
def test_farther_never_hits_more_and_larger_never_hits_less(distance, more, capacity, larger, ways):
    hit = float(hit_probability(distance, capacity, ways))
    assert 0.0 <= hit <= 1.0
    assert float(hit_probability(distance + more, capacity, ways)) <= hit + ROUNDING
    assert float(hit_probability(distance, capacity + larger, ways)) >= hit - ROUNDING


_slopes = jax.jit(jax.grad(hit_probability, argnums=(0, 1, 2)))


@laws
@given(st.floats(0, 1e12), st.floats(0, 1e10), st.sampled_from([1.0, 8.0, 16.0]))
def test_gradients_are_finite(distance, capacity, ways):
    slopes = _slopes(distance, capacity, ways)
    assert np.all(np.isfinite(slopes))
    assert slopes[0] <= 0.0
    assert slopes[1] >= 0.0
