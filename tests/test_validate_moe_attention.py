"""Published dispatches, layers of experts and attention of several GPUs: rows become the problems that they are."""

import json

import numpy as np
import pytest

from dse import load_gpu
from dse.cli import main
from dse.errors import UserError
from dse.validation.fused_attention import predict_ring
from dse.validation.fused_communication import PREDICTORS, bias, figures, fused_rows, mean_error, weighted_error
from dse.validation.fused_exchange import counted_bytes, predict_exchange, problem_of
from dse.validation.fused_layer import predict_layer


def named(kernel: str, text: str) -> list:
    return [row for row in figures([kernel]) if text in row.name]


def test_a_row_that_prints_rate_and_time_has_the_bytes_that_are_counted() -> None:
    """UCCL's README: 280 GB/s and 571 us, 426 GB/s and 727 us."""
    for kernel, rate in (("moe_dispatch", 280e9), ("moe_combine", 426e9)):
        (row,) = named(kernel, "UCCL " + kernel + " on 8 B200")
        problem = problem_of(row, "deepep").on(load_gpu(row.gpu))
        assert counted_bytes(row, problem) == pytest.approx(rate * row.value, rel=0.01)


def test_slower_links_of_a_row_slow_its_prediction() -> None:
    (row,) = named("moe_dispatch", "DeepEP moe_dispatch, EP 8")
    assert row.fabric_overrides == {"fabric.link": "0.444x"}
    slow, (whole,) = predict_exchange([row])[0], named("moe_dispatch", "UCCL moe_dispatch on 8 H200")
    fast = predict_exchange([whole])[0]
    assert slow is not None
    assert fast is not None
    assert slow.predicted_s == pytest.approx(fast.predicted_s / 0.444, rel=0.05)


def test_rows_that_a_number_comes_from_have_no_prediction() -> None:
    rows = figures(["moe_dispatch"], exact=True)
    missing = {row.name for row, made in zip(rows, predict_exchange(rows), strict=True) if made is None}
    assert len(missing) == 5
    assert all("16 SMs" in name or "one token" in name for name in missing)


def test_experts_that_ranks_share_have_no_prediction() -> None:
    rows = [row for row in figures(["dispatch_grouped_gemm"]) if "Comet" in row.name]
    assert predict_layer(rows) == [None] * 4


def test_a_longer_ring_takes_four_times_the_time_for_twice_the_tokens() -> None:
    short, long = (named("ring_attention", f"H100, {tokens} tokens")[0] for tokens in (98304, 196608))
    times = [made.predicted_s for made in predict_ring([short, long]) if made is not None]
    assert times[1] == pytest.approx(4.0 * times[0], rel=0.05)


def test_errors_are_those_of_the_rows() -> None:
    rows = fused_rows(["ring_attention"])
    errors = np.array([row.predicted_s / row.measured_s - 1.0 for row in rows])
    assert mean_error(rows) == pytest.approx(np.abs(errors).mean())
    assert bias(rows) == pytest.approx(errors.mean())
    assert weighted_error(rows) < 0.05  # the longest rows, ThunderKittens', are the closest
    assert max(abs(row.error) for row in rows if "ThunderKittens" in row.what) < 0.07


def test_the_command_answers_as_json(capsys: pytest.CaptureFixture) -> None:
    assert main(["validate", "fused_communication", "--kernel", "dispatch_grouped_gemm", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert len(rows) == 5
    assert all(abs(row["error"]) < 0.3 for row in rows)


def test_an_unknown_kernel_is_said() -> None:
    with pytest.raises(UserError, match=r"kernel of the published fused figures 'moe_dispach'.*did you mean"):
        figures(["moe_dispach"])
    assert set(PREDICTORS) <= {row.kernel for row in figures()}
