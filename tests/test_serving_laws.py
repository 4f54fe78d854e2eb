"""Laws of layouts: what more memory, faster links, limits, more GPUs and company change, and what they do not."""

from dataclasses import replace

import numpy as np
import pytest
from serving_cases import DENSE, ENGINE, EXPERTS, FABRIC, GPU, layouts_of_rows, small_spaces, steps_of  # noqa: F401

from dse.content.fabric import changed_fabric
from dse.serving.kernel_times import KernelTimes
from dse.serving.layouts import CODES, Layouts
from dse.serving.outcomes import COLUMNS, Outcomes, evaluate_layouts
from dse.serving.step_times import StepModel
from dse.serving.workload import Workload

pytestmark = pytest.mark.usefixtures("small_spaces")
GPUS = 16
ASKED = Workload(input_tokens=1024, output_tokens=256)
PHASES = [ASKED, replace(ASKED, phase="decode"), replace(ASKED, phase="prefill")]
DENSE_ROWS = [
    {
        "tp": tp,
        "pp": pp,
        "micro_batches": min(pp, parts),
        "batch": batch,
        "chunk": chunk,
        "sequence_parallel": scattered,
    }
    for tp in (1, 2, 8)
    for pp, parts in ((1, 1), (2, 2))
    for batch in (8, 512, 8192)
    for chunk in (0, 512)
    for scattered in (0, 1)
]
EXPERT_ROWS = [
    {"tp": tp, "dp": dp, "batch": batch, "exchange": exchange, "overlap": overlap}
    for tp in (1, 4)
    for dp in (1, 4)
    for batch in (8, 512)
    for exchange in (0, 1)
    for overlap in (0, 1)
]
KERNELS = KernelTimes(GPU, ENGINE)  # tuned once for all of this file
CASES = [(DENSE, DENSE_ROWS, asked) for asked in PHASES] + [(EXPERTS, EXPERT_ROWS, asked) for asked in PHASES[:2]]
every_case = pytest.mark.parametrize(("model", "rows", "asked"), CASES, ids=lambda value: getattr(value, "name", ""))


def outcomes(model, layouts: Layouts | list, asked: Workload, steps: StepModel | None = None, gpus=GPUS) -> Outcomes:
    layouts = layouts if isinstance(layouts, Layouts) else layouts_of_rows(layouts)
    return evaluate_layouts(layouts, asked, steps or steps_of(model, kernels=KERNELS), gpus)


def same_bits(one: Outcomes, other: Outcomes, places: np.ndarray) -> None:
    """`other` holds the layouts of `one` at these places."""
    np.testing.assert_array_equal(one.reason[places], other.reason)
    for name in COLUMNS:
        np.testing.assert_array_equal(one.columns[name][places], other.columns[name], name)


def with_gpu(model, **values: float) -> StepModel:
    """Steps on a GPU with other numbers, kernels as they were tuned."""
    numbers = {name: replace(GPU.values[name], value=value) for name, value in values.items()}
    kernels = replace(KERNELS, gpu=replace(GPU, values={**GPU.values, **numbers}))
    return steps_of(model, kernels=kernels)


@every_case
def test_more_memory_only_lets_more_layouts_run(model, rows, asked) -> None:
    before = outcomes(model, rows, asked)
    for factor in (0.2, 0.5, 2.0, 8.0):
        after = outcomes(model, rows, asked, with_gpu(model, ddr_capacity_bytes=GPU["ddr_capacity_bytes"] * factor))
        more, less = (after, before) if factor > 1 else (before, after)
        assert (more.runs | ~less.runs).all()
        both = more.runs & less.runs
        for name in COLUMNS:
            np.testing.assert_array_equal(more.columns[name][both], less.columns[name][both])
    assert len({*before.reason} & {CODES["kv_cache"], CODES["weights"], CODES["activations"]}) > 0 or model is EXPERTS


@every_case
@pytest.mark.parametrize("change", [{"link": "2x"}, {"0:link": "10x"}, {"latency": "0.5x"}, {"1:link": "3x"}])
def test_faster_links_are_never_slower(model, rows, asked, change) -> None:
    before = outcomes(model, rows, asked)
    after = outcomes(model, rows, asked, steps_of(model, kernels=KERNELS, fabric=changed_fabric(FABRIC, change)))
    np.testing.assert_array_equal(before.reason, after.reason)
    ran = before.runs
    for name in ("ttft_s", "tpot_s", "decode_s", "prefill_s", "exchange_s"):
        assert (after.columns[name][ran] <= before.columns[name][ran] * (1 + 1e-6)).all(), name
    assert (after.columns["tokens_per_s"][ran] >= before.columns["tokens_per_s"][ran] * (1 - 1e-6)).all()
    alone = ran & (before.columns["exchange_s"] == 0)
    np.testing.assert_array_equal(after.columns["tokens_per_s"][alone], before.columns["tokens_per_s"][alone])


@every_case
def test_limits_only_remove(model, rows, asked) -> None:
    before = outcomes(model, rows, asked)
    ran = before.runs
    for name in ("ttft", "tpot"):
        values = before.columns[f"{name}_s"]
        if not values[ran].any():
            continue  # of a phase that has none
        limit = float(np.median(values[ran]))
        after = outcomes(model, rows, replace(asked, **{f"{name}_max_s": limit}))
        late = ran & (values > limit)
        assert 0 < late.sum() < ran.sum()
        np.testing.assert_array_equal(after.reason, np.where(late, CODES["limit"], before.reason))
        for column in COLUMNS:
            np.testing.assert_array_equal(after.columns[column], before.columns[column])


@every_case
def test_rates_are_of_the_instances_gpus_and_copies_of_it_change_nothing(model, rows, asked) -> None:
    found = outcomes(model, rows, asked)
    ran = found.runs
    rate, each = found.columns["tokens_per_s"][ran], found.columns["tokens_per_s_per_gpu"][ran]
    np.testing.assert_allclose(each * found.columns["gpus"][ran], rate, rtol=1e-12)
    if asked.phase != "prefill":
        users = found.columns["tokens_per_s_per_user"][ran]
        np.testing.assert_allclose(users * found.layouts["batch"][ran], rate, rtol=1e-12)
        np.testing.assert_allclose(users * found.columns["tpot_s"][ran], 1.0, rtol=1e-12)
    for gpus in (32, 128):
        more = outcomes(model, rows, asked, gpus=gpus)
        np.testing.assert_array_equal(more.reason, found.reason)
        for name in COLUMNS:
            np.testing.assert_array_equal(more.columns[name], found.columns[name])


@every_case
def test_alone_in_parts_and_backwards_layouts_have_the_same_bits(model, rows, asked) -> None:
    layouts = layouts_of_rows(rows)
    whole = outcomes(model, layouts, asked)
    for place in np.flatnonzero(whole.runs)[::5]:
        places = np.array([place])
        same_bits(whole, outcomes(model, layouts.take(places), asked), places)
    for start in range(0, len(layouts), 7):
        places = np.arange(start, min(start + 7, len(layouts)))
        same_bits(whole, outcomes(model, layouts.take(places), asked), places)
    backwards = np.arange(len(layouts))[::-1]
    same_bits(whole, outcomes(model, layouts.take(backwards), asked), backwards)
    fresh = outcomes(model, layouts, asked, steps_of(model))  # kernels tuned anew, of these layouts alone
    same_bits(whole, fresh, np.arange(len(layouts)))


def test_longer_answers_and_prompts_do_not_take_less_memory() -> None:
    short = outcomes(DENSE, DENSE_ROWS, ASKED)
    for longer in (replace(ASKED, output_tokens=2048), replace(ASKED, input_tokens=4096)):
        found = outcomes(DENSE, DENSE_ROWS, longer)
        counted = np.isfinite(short.columns["kv_cache_bytes"])
        assert (found.columns["kv_cache_bytes"][counted] > short.columns["kv_cache_bytes"][counted]).all()
        np.testing.assert_array_equal(found.columns["weights_bytes"][counted], short.columns["weights_bytes"][counted])


def test_accepted_drafts_pay_and_rejected_ones_cost() -> None:
    asked = replace(ASKED, phase="decode")
    rows = [{"tp": 8, "batch": 4}]
    plain = outcomes(DENSE, rows, asked).columns["tpot_s"][0]
    tpots = [
        outcomes(DENSE, rows, replace(asked, draft_tokens=3, acceptance=chance, draft_layers=0.1)).columns["tpot_s"][0]
        for chance in (0.0, 0.5, 1.0)
    ]
    assert tpots[0] > plain > tpots[2]
    assert tpots == sorted(tpots, reverse=True)


def test_one_chunk_a_prompt_is_about_as_soon_as_whole_prompts_where_few_come() -> None:
    asked = Workload(input_tokens=1024, output_tokens=4096)
    found = outcomes(DENSE, [{"tp": 2, "batch": 8}, {"tp": 2, "batch": 8, "chunk": 1024}], asked)
    whole, chunked = found.columns["ttft_s"]
    assert chunked == pytest.approx(whole, rel=0.15)
