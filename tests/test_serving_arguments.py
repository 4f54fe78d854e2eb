"""What Python callers ask of whole models with wrong types: one line each; NumPy's numbers are as good as Python's."""

from typing import Any

import numpy as np
import pytest

import dse
from dse.errors import UserError
from dse.serving.asked import ask_service


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"model": 3}, "model = 3 is not allowed: the name or the path of a file"),
        ({"model": None}, "model = None is not allowed: the name or the path"),
        ({"gpu": None}, "gpu = None is not allowed: the name or the path"),
        ({"engine": 3}, "engine = 3 is not allowed: the name or the path"),
        ({"dtype": ["fp8"]}, r"dtype = \['fp8'\] is not allowed: a text"),
        ({"clock": 3}, "clock = 3 is not allowed: a text"),
        ({"phase": 3}, "phase = 3 is not allowed: a text"),
        ({"graphs": "no"}, "graphs = 'no' is not allowed: True or False"),
        ({"quantise_a": 3}, "quantise_a = 3 is not allowed: True or False"),
        ({"acceptance": None}, "acceptance = None is not allowed: a number"),
        ({"draft_layers": True}, "draft_layers = True is not allowed: a number"),
        ({"ttft_max_s": "1"}, "ttft_max_s = '1' is not allowed: a number"),
        ({"gpus_per_node": "8"}, "gpus_per_node = '8' is not allowed: a whole number"),
        ({"gpus": 0}, "gpus = 0 is not allowed: a whole number from 1"),
        ({"input": 5}, "unknown argument of a service 'input'; known: .*input_tokens"),
        ({"overrides": "fabric.link=2x"}, "overrides = 'fabric.link=2x' is not allowed: names and values"),
        ({"overrides": {3: 1}}, r"overrides = \{3: 1\} is not allowed: names and values"),
    ],
)
def test_a_wrong_type_is_said(changes: dict[str, Any], said: str) -> None:
    asked: dict[str, Any] = {"model": "llama3_8b", "tp": 1, **changes}
    with pytest.raises(UserError, match=said):
        dse.serve(**asked)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"axes": 3}, "axes = 3 is not allowed: a text, or a list of texts"),
        ({"axes": [3]}, r"axes = \[3\] is not allowed: a text, or a list of texts"),
        ({"preset": 3}, "preset = 3 are not allowed: names"),
        ({"space": None}, "space = None, preset = 'plain' are not allowed: names"),
        ({"objectives": 3}, "objectives = 3 is not allowed: a text, or a list of texts"),
        ({"objectives": "speed"}, "unknown objective 'speed'"),
        ({"objectives": []}, "objectives none: give each once"),
        ({"top": 0}, "top = 0 is not allowed: a whole number from 1"),
        ({"top": 1.5}, "top = 1.5 is not allowed: a whole number from 1"),
    ],
)
def test_a_sweep_with_a_wrong_type_is_said(changes: dict[str, Any], said: str) -> None:
    asked: dict[str, Any] = {"model": "llama3_8b", "gpus": 1, "preset": "plain", "axes": "tp=1", **changes}
    with pytest.raises(UserError, match=said):
        dse.sweep_layouts(**asked)


def test_numpy_numbers_are_taken() -> None:
    numbers: dict[str, Any] = {"gpus": np.int64(2), "input_tokens": np.int32(64), "acceptance": np.float32(0)}
    asked = ask_service("llama3_8b", "h100_sxm", **numbers)
    assert (asked.gpus, asked.workload.input_tokens) == (2, 64)
    assert type(asked.gpus) is int


@pytest.mark.parametrize("row", ["first", None, 1.5, True, 1])
def test_a_row_that_is_not_there_is_said(row: Any) -> None:
    found = dse.serve("llama3_8b", "h100_sxm", tp=3)
    with pytest.raises(UserError, match=f"row {row!r} is not there: the table has 1 rows"):
        found.phases(row)
