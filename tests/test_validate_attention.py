"""dse validate attention: the bars on the packaged sample, published throughputs, which rows are kept."""

import json
from typing import Any

import numpy as np
import pandas as pd
import pytest
from cli_run import answer

from dse.content.implementation import implementation_fields, read_implementation
from dse.errors import UserError
from dse.validation.attention import (
    AttentionValidation,
    all_rows,
    bucket_errors,
    errors_of,
    validate_attention,
)
from dse.validation.attention_predict import PRESETS
from dse.validation.attention_published import published_fa3
from dse.validation.attention_rows import COMBINATION, IMPLEMENTATIONS, kept, load_measured_attention, with_parts

BARS = {"a100_sxm": 6.5, "h100_sxm": 8.0, "h200_sxm": 8.0, "b200_sxm": 6.5}  # per cent, of all rows of a GPU
BIAS = 4.0
TABLE2 = 2  # place of the paper's ablation among the published ones


@pytest.fixture(scope="module")
def results() -> list[AttentionValidation]:
    return validate_attention()


@pytest.mark.parametrize("gpu", BARS)
def test_the_judged_half_is_met(results: list[AttentionValidation], gpu: str) -> None:
    rows = all_rows([one for one in results if one.gpu == gpu])
    assert len(rows) > 500
    assert errors_of(rows).mape <= BARS[gpu]
    for name, found in bucket_errors(rows).items():
        assert abs(found.bias) <= BIAS, name


def test_published_fa3_is_met_and_order_matters() -> None:
    """The paper's throughputs within 10 %. Without turns the ablation's case loses 5 to 12 %; its 582 and 570 of 661
    are 12 and 14 % for leaving out one of two ways of overlapping."""
    found = published_fa3()
    for one in found:
        assert one.by_order["both"] == pytest.approx(one.tflops, rel=0.10), one.what
    ablation = found[TABLE2].by_order
    assert 0.88 < ablation["serial"] / ablation["both"] < 0.95
    assert ablation["serial"] <= ablation["pipelined"] <= ablation["both"]


def test_no_implementation_has_more_than_ten_numbers() -> None:
    known = set(implementation_fields("attention"))
    for gpu, names in IMPLEMENTATIONS.items():
        for name in names:
            numbers = read_implementation("attention", name).gpus[gpu]
            assert set(numbers) <= known
            assert len(numbers) <= 10, (gpu, name)


def test_halves_share_no_combination() -> None:
    rows = load_measured_attention(part=None)
    parts = rows.groupby(COMBINATION)["part"].nunique()
    assert set(parts) == {1}
    assert 0.4 < np.mean(rows["part"] == "fit") < 0.6


def test_rows_of_other_kernels_are_left_out() -> None:
    rows = pd.DataFrame(
        {
            "system": ["h100_sxm", "h100_sxm", "b200_sxm", "a100_sxm", "h100_sxm", "a100_sxm"],
            "implementation": ["fa3", "fa3", "vllm_flashinfer", "vllm_flash_attn", "triton", "vllm_flash_attn"],
            "batch": 4, "tokens": [64, 64, 1, 64, 64, 4096], "heads": 8, "kv_heads": 8,
            "head_dim": [128, 64, 128, 128, 128, 128], "latency_us": [20.0, 20.0, 8.0, 40.0, 90.0, 900.0],
        }
    )  # fmt: skip
    left = kept(with_parts(rows))
    assert sorted(zip(left["implementation"], left["latency_us"], strict=True)) == [
        ("fa3", 20.0),
        ("vllm_flash_attn", 900.0),
    ]


def test_every_implementation_has_presets() -> None:
    from dse.validation.attention import FAMILIES

    for gpu, names in IMPLEMENTATIONS.items():
        for name in names:
            assert (FAMILIES[gpu], name) in PRESETS


def test_what_is_wrong_with_a_question_is_said() -> None:
    questions: tuple[tuple[dict[str, Any], str], ...] = (
        ({"gpus": ["v100"]}, "GPU in the measured table 'v100'"),
        ({"implementations": ["fa2"]}, "implementation in the measured table 'fa2'"),
        ({"part": "check"}, "part 'check'"),
        ({"table": "no.parquet"}, "no table at no.parquet"),
    )
    for arguments, text in questions:
        with pytest.raises(UserError) as caught:
            validate_attention(**arguments)
        assert text in str(caught.value)


def test_the_command_answers_as_table_and_json(capsys: pytest.CaptureFixture) -> None:
    words = ("validate", "attention", "--gpu", "a100_sxm", "--implementation", "torch_flow")
    code, out, _ = answer(capsys, *words)
    assert code == 0
    assert "torch_flow" in out
    assert "arXiv 2407.08608 Table 2" in out
    code, out, _ = answer(capsys, *words, "--json")
    found = json.loads(out)
    assert code == 0
    assert found["implementations"][0]["errors"]["count"] > 100
    assert len(found["published"]) == 3
