"""Layers of pipeline stages: the fullest stage and the sum, against a loop over all stages of a model."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dse.content.model import list_models, load_model
from dse.serving.stages import Stages

AMOUNTS = [  # of every layer, a dense one, one of experts, the first stage, the last one
    (1.0, 0.0, 0.0, 0.0, 0.0),
    (0.0, 1.0, 0.0, 0.0, 0.0),
    (0.0, 0.0, 1.0, 0.0, 0.0),
    (3.0, 2.0, 7.0, 1.0, 1.0),
    (3.0, 7.0, 2.0, 0.0, 30.0),
    (1.0, 0.5, 0.25, 9.0, 4.0),
]


def stage_amounts(layers: int, dense: int, pp: int, amounts: tuple[float, ...]) -> list[float]:
    """Of every stage: layers handed out in order, the first (layers mod stages) of them hold one more."""
    every, of_dense, of_moe, first, last = amounts
    left = ["dense"] * dense + ["moe"] * (layers - dense)
    found = []
    for stage in range(pp):
        own, left = left[: layers // pp + (stage < layers % pp)], left[layers // pp + (stage < layers % pp) :]
        amount = sum(every + (of_dense if kind == "dense" else of_moe) for kind in own)
        found.append(amount + first * (stage == 0) + last * (stage == pp - 1))
    assert not left
    return found


def check(model, layers: int, dense: int, amounts: tuple[float, ...]) -> None:
    pp = np.arange(1, layers + 1)
    stages = Stages.of(model, pp)
    looped = [stage_amounts(layers, dense, int(count), amounts) for count in pp]
    np.testing.assert_allclose(stages.most(*amounts), [max(own) for own in looped], rtol=1e-12)
    np.testing.assert_allclose(
        np.broadcast_to(stages.total(*amounts), len(pp)), [sum(own) for own in looped], rtol=1e-12
    )
    np.testing.assert_array_equal(stages.longest, [-(-layers // count) for count in pp])


@pytest.mark.parametrize("name", list_models())
@pytest.mark.parametrize("amounts", AMOUNTS)
def test_the_fullest_stage_and_the_sum_of_every_packaged_model(name: str, amounts: tuple[float, ...]) -> None:
    model = load_model(name)
    check(model, model.layers, model.ffn.layers if model.ffn else 0, amounts)


amount = st.sampled_from([0.0, 0.25, 1.0, 2.0, 5.0])


@given(st.data(), st.integers(1, 24), st.tuples(amount, amount, amount, amount, amount))
def test_the_fullest_stage_and_the_sum_of_drawn_models(data, layers: int, amounts: tuple[float, ...]) -> None:
    dense = data.draw(st.integers(0, layers), "dense")
    whole = load_model("deepseek_v3")
    assert whole.ffn
    assert whole.moe
    ffn = replace(whole.ffn, layers=dense) if dense else None
    moe = replace(whole.moe, layers=layers - dense) if dense < layers else None
    check(replace(whole, layers=layers, ffn=ffn, moe=moe), layers, dense, amounts)


def test_amounts_of_each_layout_are_taken_layout_by_layout() -> None:
    stages = Stages.of(load_model("llama3_8b"), np.array([1, 2, 5]))
    every = np.array([1.0, 2.0, 3.0])
    np.testing.assert_array_equal(stages.most(every, 0.0, 0.0, 0.0, 1.0), [33.0, 33.0, 21.0])
