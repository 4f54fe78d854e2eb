"""Layouts found axis by axis: the same ones, and the same reasons, as looking at every index of the space."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dse.axis import Axis
from dse.content.model import ModelConfig, list_models, load_model
from dse.content.space import load_space, schedule_fields
from dse.errors import UserError
from dse.serving import enumerate_layouts as module
from dse.serving.enumerate_layouts import enumerate_layouts
from dse.serving.layouts import CHECKS, FIELDS, PLACEMENTS, REASONS, Layouts, layout_reasons, layouts_of
from dse.space import Space

NAMES = tuple(REASONS)
SMALL = {  # every reason comes up somewhere
    "tp": [1, 2, 4, 16],
    "hidden_split": [1, 2],
    "kv_split": [1, 2],
    "cp": [1, 2],
    "dp": [1, 2, 4],
    "experts_tp": [1, 2],
    "pp": [1, 3],
    "micro_batches": [1, 2],
    "batch": [1, 6, 8],
    "chunk": 0,
    "placement": [0, 1, 4, 5],
}


def whole_space() -> Space:
    return load_space("sharding", "serving")


def check(space: Space, model: ModelConfig, gpus: int, node: int) -> Counter:
    index = np.arange(space.size)
    reasons = layout_reasons(layouts_of(space.rows(index), index, node), model, gpus)
    counted = Counter(NAMES[code] for code in reasons)
    found = enumerate_layouts(space, model, gpus, node)
    np.testing.assert_array_equal(found.layouts.index, index[reasons == 0])
    assert found.ruled_out == {name: count for name, count in counted.items() if name != "runs"}
    assert len(found.layouts) + sum(found.ruled_out.values()) == space.size
    rows = space.rows(found.layouts.index)
    for name in FIELDS:
        np.testing.assert_array_equal(found.layouts[name], rows[name])
    return counted


@pytest.mark.parametrize("name", ["llama3_8b", "deepseek_v3", "gpt_oss_20b"])
def test_a_space_in_which_every_reason_comes_up(name: str) -> None:
    model = load_model(name)
    counted = check(whole_space().restrict(SMALL), model, 24, 8)
    of_experts = {"exchange"} if model.moe else {"no_experts"}
    others = {"tensor_parallel", "hidden_split", "stages", "experts", "exchange", "no_experts"}  # of odd models, below
    assert {check[0] for check in CHECKS} - others | of_experts <= set(counted)


@settings(max_examples=25)
@given(st.data(), st.sampled_from(sorted(list_models())), st.sampled_from([(8, 8), (24, 8), (64, 8), (12, 4), (36, 6)]))
def test_drawn_parts_of_the_space(data, name: str, machine: tuple[int, int]) -> None:
    kept = {}
    for axis in whole_space().axes:
        labels = st.lists(st.sampled_from(axis.labels), min_size=1, max_size=3, unique=True)
        kept[axis.name] = data.draw(labels, axis.name)
    space = whole_space().restrict(kept)
    outer = int(np.ceil(space.size / 40_000))
    if outer > 1:  # the outermost values alone, so that every index can be looked at
        space = space.restrict({axis.name: axis.labels[:2] for axis in space.axes})
    check(space, load_model(name), *machine)


def test_axes_in_another_order_fixed_fields_and_axes_of_several_fields() -> None:
    axes = (
        Axis("batch_and_pp", ("batch", "pp"), ((8, 1), (8, 40), (6, 2), (1, 3)), ("a", "b", "c", "d")),
        Axis.of("experts_tp", [1, 2, 3]),
        Axis("groups", ("dp", "kv_split"), ((1, 1), (2, 2), (4, 1)), ("e", "f", "g")),
        Axis.of("placement", range(len(PLACEMENTS))),
        Axis.of("tp", [1, 2, 3, 8]),
        Axis.of("hidden_split", [1, 2]),
    )
    left = dict.fromkeys(FIELDS, 1) | {"sequence_parallel": 0, "exchange": 0, "overlap": 0, "chunk": 0}
    set_by_axes = {name for axis in axes for name in axis.fields}
    fixed = {name: value for name, value in left.items() if name not in set_by_axes}
    space = Space("mine", "sharding", "serving", "bf16", axes, fixed)
    for name in ("llama3_8b", "mixtral_8x7b", "deepseek_v3"):
        check(space, load_model(name), 16, 8)


def test_odd_models() -> None:
    model = load_model("deepseek_v3")
    odd = replace(
        model, layers=2, ffn=replace(model.ffn, layers=1, inter=6), moe=replace(model.moe, layers=1, inter=10)
    )
    counted = check(whole_space().restrict(SMALL | {"batch": [1, 8], "placement": 0}), odd, 48, 8)
    assert {"stages", "experts", "tensor_parallel", "exchange"} <= set(counted)


def test_names_of_fields_and_reasons_stand_in_one_order() -> None:
    assert set(schedule_fields("sharding")) == set(FIELDS)
    assert [name for name, _, _ in CHECKS] == [name for name in NAMES if name in {check[0] for check in CHECKS}]
    decided = [max(FIELDS.index(field) for field in fields) for _, fields, _ in CHECKS]
    assert decided == sorted(decided)  # so that no check waits for one before it


def test_fields_of_the_space_are_decided_by_what_checks_name() -> None:
    """A check that looked at a field that it does not name would see 1 for it."""
    model = load_model("deepseek_v3")

    class Watched(dict):
        seen: set[str]

        def __getitem__(self, name: str) -> np.ndarray:
            self.seen.add(name)
            return super().__getitem__(name)

    for _, fields, looks in CHECKS:
        columns = Watched({name: np.full(3, 2) for name in FIELDS})
        columns.seen = set()
        looks(Layouts(columns, np.arange(3), 8), model, 64)
        assert columns.seen <= set(fields)


def test_too_many_layouts_are_said_with_what_to_leave_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST", 1000)
    said = (
        r"the space sharding/serving has [\d,]+ layouts, of which too many are possible to hold at once "
        r"\([\d,]+ before the axis \w+ with \d+\): keep fewer values, e.g. --axis \w+=\w+"
    )
    with pytest.raises(UserError, match=said):
        enumerate_layouts(whole_space(), load_model("llama3_8b"), 64, 8)
