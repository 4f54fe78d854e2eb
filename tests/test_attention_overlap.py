"""A block's cyclic schedule: the two warpgroups that the model writes against all of them, and what orders cost."""

from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from oracles import attention_arcs

from jaxmodel.kernels.attention_overlap import BlockTimes, block_seconds

SECONDS = st.sampled_from([0.0, 0.1, 0.5, 1.0, 1.5, 3.0])
HELD = st.sampled_from([0.1, 0.5, 1.0, 1.5, 3.0])


FIELDS = ("q", "s", "v", "e", "h", "load", "latency", "W", "stages", "buffers")


@jax.jit
def compiled(numbers: tuple, order: float) -> Any:
    q, s, v, e, h, load, latency, w, stages, buffers = numbers
    times = BlockTimes(
        qk_s=q, softmax_s=s, pv_s=v, product_latency_s=e, handover_s=h, load_s=load, load_latency_s=latency,
        warpgroups=w, stages=stages, score_buffers=buffers,
    )  # fmt: skip
    return block_seconds(times, order)


def model_seconds(t: SimpleNamespace, order: int) -> float:
    with jax.enable_x64(True):
        return float(compiled(tuple(np.float64(getattr(t, name)) for name in FIELDS), np.float64(order)))


def drawn(w: int, q: float, s: float, v: float, **more: float) -> SimpleNamespace:
    given = {"e": 0.0, "h": 0.0, "load": 0.0, "latency": 0.0, "stages": 2, "buffers": 1} | more
    return SimpleNamespace(W=w, q=q, s=s, v=v, **given)


@pytest.mark.parametrize("order", range(4))
@settings(max_examples=150, deadline=None)
@given(
    w=st.integers(1, 3), q=HELD, s=HELD, v=HELD, e=SECONDS, h=SECONDS, load=SECONDS, latency=SECONDS,
    stages=st.integers(1, 3),
)  # fmt: skip
def test_two_warpgroups_stand_for_all(order: int, w: int, **numbers: float) -> None:
    t = drawn(w, **numbers)
    assert model_seconds(t, order) == pytest.approx(attention_arcs.block_seconds(t, order), rel=1e-12)


@settings(max_examples=150, deadline=None)
@given(
    q=HELD, s=HELD, v=HELD, e=SECONDS, h=SECONDS, load=SECONDS, latency=SECONDS, stages=st.integers(1, 3),
    order=st.sampled_from([1, 3]),
)  # fmt: skip
def test_two_score_buffers_let_one_warpgroup_run_ahead(order: int, **numbers: float) -> None:
    t = drawn(1, **numbers, buffers=2)
    assert model_seconds(t, order) == pytest.approx(attention_arcs.block_seconds(t, order), rel=1e-12)
    assert model_seconds(t, order) <= model_seconds(drawn(1, **numbers), order) + 1e-12


@settings(max_examples=400, deadline=None)
@example(w=2, q=0.1, s=0.5, v=1.5, e=3.0, h=0.1)
@given(w=st.integers(1, 3), q=HELD, s=HELD, v=HELD, e=SECONDS, h=SECONDS)
def test_without_loads_the_page_has_closed_forms(w: int, q: float, s: float, v: float, e: float, h: float) -> None:
    t = drawn(w, q, s, v, e=e, h=h, stages=64)
    twice, turn = w * (q + v + 2 * h), w * (q + v + h)
    # all PV, then QK up to one warpgroup, softmaxes from it to one d further, then QK to the last: every second block
    chains = [w * (v + h) + (w - d + 1) * (q + h) + e + (d + 1) * s for d in range(1, w)]
    expected = (
        max(twice, w * s, q + e + s + v + 2 * h + (w - 1) * max(q + h, s, v + h)),
        max(twice, w * s, q + h + e + s, *(0.5 * chain for chain in chains)),
        max(turn, w * s, q + e + s + h + v),
        max(turn, w * s, q + e + s + h),
    )
    for order, seconds in enumerate(expected):
        assert model_seconds(t, order) == pytest.approx(seconds, rel=1e-12), order


def test_turns_hide_the_softmax_that_in_step_warpgroups_show() -> None:
    """Two warpgroups whose softmax takes as long as both products: in step 1 + 4 + 1, in turns 4."""
    t = drawn(2, 1.0, 2.0, 1.0)
    assert [model_seconds(t, order) for order in range(4)] == [6.0, 4.0, 4.0, 4.0]


def test_one_buffer_waits_for_every_load() -> None:
    """K of the next block is asked for when QK is done: 5 + 0.5 + 1, whatever the softmax; three buffers hide it."""
    t = drawn(1, 1.0, 1.0, 1.0, load=1.0, latency=5.0, stages=1)
    assert model_seconds(t, 3) == pytest.approx(6.5)
    assert model_seconds(drawn(1, 1.0, 1.0, 1.0, load=1.0, latency=5.0, stages=4), 3) == pytest.approx(2.0)
