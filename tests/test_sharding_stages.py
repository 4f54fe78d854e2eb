"""Times through pipeline stages: against every job of every stage played in order."""

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles.pipeline_stages import decode_starts, through_end_s

from jaxmodel.sharding import decode_period_s, through_s

seconds = st.floats(0.01, 10.0)
stages = st.lists(seconds, min_size=1, max_size=8)
SETTLED = 60  # rounds after which the period of up to 8 stages and 12 micro-batches holds to rounding


@pytest.fixture(autouse=True, scope="module")
def doubles():
    with jax.enable_x64(True):
        yield


@given(stages, st.floats(0.0, 5.0), st.integers(1, 12))
def test_the_period_of_a_token_is_the_one_that_a_long_decode_settles_at(own_s, send_s, micro_batches) -> None:
    starts = decode_starts(own_s, send_s, micro_batches, 2 * SETTLED)
    for batch in range(micro_batches):  # in the mean of many rounds: a period may hold for several rounds together
        played = (starts[-1][batch] - starts[-1 - SETTLED][batch]) / SETTLED
        expected = decode_period_s(max(own_s), sum(own_s), send_s, len(own_s), micro_batches)
        assert float(expected) == pytest.approx(played, rel=1e-9)


@given(stages, st.floats(0.0, 5.0), st.integers(1, 12))
def test_the_last_of_several_micro_batches_is_through_when_played(own_s, send_s, micro_batches) -> None:
    expected = through_s(max(own_s), sum(own_s), send_s, len(own_s), micro_batches)
    assert float(expected) == pytest.approx(through_end_s(own_s, send_s, micro_batches), rel=1e-9)


def test_one_stage_sends_nothing_and_arrays_broadcast() -> None:
    found = decode_period_s(2.0, np.array([2.0, 6.0]), 0.5, np.array([1.0, 4.0]), np.array([[1.0], [3.0], [5.0]]))
    np.testing.assert_array_equal(found, [[2.0, 8.0], [6.0, 8.0], [10.0, 10.0]])
    np.testing.assert_array_equal(through_s(2.0, np.array([2.0, 6.0]), 0.5, np.array([1.0, 4.0]), 3), [6.0, 11.5])


def test_gradients_are_finite_at_ties() -> None:
    of_period = jax.grad(lambda s: decode_period_s(s, 4 * s, 0.0, 4.0, 4.0))(1.0)
    assert float(of_period) == 4.0
