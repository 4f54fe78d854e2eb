"""`dse validate decode_attention`: what the samples hold, and that predictions of judged rows are as near as stated."""

import numpy as np
import pandas as pd
import pytest
from cli_run import json_answer

from dse.errors import UserError
from dse.validation.decode_attention import BUCKETS_US, validate_decode_attention
from dse.validation.decode_measured import COMBINATION, FAMILIES, TABLES, dealt, load_decode


@pytest.mark.parametrize("table", TABLES)
def test_a_sample_has_rows_of_every_kernel_and_no_combination_in_both_parts(table: str) -> None:
    rows = load_decode(table, None)
    there = set(rows[["system", "kernel"]].itertuples(index=False, name=None))
    assert there == {(system, f.kernel) for f in FAMILIES if f.table == table for system in f.systems}
    assert rows.groupby(COMBINATION[table])["part"].nunique().max() == 1
    assert 0.4 < (rows["part"] == "fit").mean() < 0.6


def test_combinations_are_dealt_alike_whatever_the_order() -> None:
    rows = load_decode("gqa", None).drop(columns="part")
    one, other = dealt(rows, "gqa"), dealt(rows.sample(frac=1.0, random_state=3), "gqa")
    pd.testing.assert_frame_equal(one, other)
    assert abs((one["part"] == "fit").sum() - (one["part"] == "judge").sum()) <= 1


def test_judged_rows_are_met_within_the_bars() -> None:
    (found,) = validate_decode_attention(["gqa"], systems=["h100_sxm"], kernels=["fa3"])
    assert found.errors.mape <= 8.0 < found.roofline.mape
    for bucket in ("< 30 us", "30-300 us"):
        assert abs(found.by_latency[bucket].bias) <= 4.0, bucket
    assert set(found.by_latency) == set(BUCKETS_US)
    assert np.all(found.rows["model_us"] > 0)


def test_the_command_answers_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("--table", "mla", "--gpu", "h200_sxm", "--kernel", "sglang_mla_fp8")
    answer = json_answer(capsys, "validate", "decode_attention", *arguments)
    (entry,) = answer["kernels"]
    assert (entry["system"], entry["kernel"], entry["table"]) == ("h200_sxm", "sglang_mla_fp8", "mla")
    assert entry["model"]["mape"] <= 10.0
    assert answer["pooled"]["mla"]["count"] == entry["model"]["count"]


def test_unknown_names_are_refused() -> None:
    with pytest.raises(UserError, match="unknown kernel of the decode tables 'fa9'; known: fa3"):
        validate_decode_attention(kernels=["fa9"])
    with pytest.raises(UserError, match="unknown part 'check'; known: fit, judge"):
        validate_decode_attention(part="check")
