"""Workloads: what they mean in numbers, and what is said of ones that cannot be."""

import pytest

from dse.errors import UserError
from dse.serving.workload import Workload


def test_accepted_drafts_are_counted_one_by_one() -> None:
    asked = Workload(draft_tokens=3, acceptance=0.5)
    expected = 0.0
    for accepted, chance in ((0, 0.5), (1, 0.25), (2, 0.125), (3, 0.125)):  # of the first so many, and the next not
        expected += chance * (accepted + 1)
    assert asked.tokens_a_step == expected
    assert Workload().tokens_a_step == 1
    assert Workload(draft_tokens=4, acceptance=1.0).tokens_a_step == 5
    assert Workload(draft_tokens=4).tokens_a_step == 1


def test_a_decoded_sequence_has_its_prompt_and_half_its_answer_in_the_mean() -> None:
    asked = Workload(input_tokens=100, output_tokens=9)
    keys = [asked.input_tokens + made for made in range(1, asked.output_tokens + 1)]  # its own key included
    assert asked.context == sum(keys) / len(keys)
    assert asked.longest == keys[-1]
    assert Workload(input_tokens=100, output_tokens=9, draft_tokens=2).context == asked.context + 2


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"input_tokens": 0}, "input_tokens = 0 is not allowed: a whole number from 1 to 1048576"),
        ({"output_tokens": 2.5}, "output_tokens = 2.5 is not allowed: a whole number from 1"),
        ({"draft_tokens": True}, "draft_tokens = True is not allowed: a whole number from 0"),
        (
            {"input_tokens": 64, "cached_tokens": 64},
            "cached_tokens = 64 is not allowed: fewer than the 64",
        ),
        ({"draft_tokens": 2, "acceptance": 1.5}, "acceptance = 1.5 is not allowed: a chance, 0 to 1"),
        ({"draft_tokens": 2, "acceptance": float("nan")}, "acceptance = nan is not allowed: a chance, 0 to 1"),
        (
            {"draft_tokens": 512},
            "draft_tokens = 512 is not allowed: fewer than 512 output_tokens, a step gives no more",
        ),
        ({"acceptance": 0.5}, "acceptance = 0.5 needs draft_tokens: say how many tokens are drafted"),
        ({"ttft_max_s": 0.0}, "ttft_max_s = 0.0 is not allowed: a number above 0"),
        ({"tpot_max_s": float("nan")}, "tpot_max_s = nan is not allowed: a number above 0"),
        ({"draft_layers": -1.0}, "draft_layers = -1.0 is not allowed: a number from 0"),
        ({"draft_layers": float("inf")}, "draft_layers = inf is not allowed: a number from 0"),
        ({"phase": "train"}, "unknown phase 'train'; known: decode, prefill, serve"),
        ({"phase": "decodes"}, "unknown phase 'decodes'; .*did you mean 'decode'"),
    ],
)
def test_a_wrong_number_is_said(changes: dict, said: str) -> None:
    with pytest.raises(UserError, match=said):
        Workload(**changes)


def test_drafts_do_not_matter_where_nothing_is_decoded() -> None:
    assert Workload(phase="prefill", draft_tokens=3, output_tokens=1).draft_tokens == 3
