"""Kernels of a step over many layouts: every distinct problem is tuned once, to the best of its whole space."""

from dataclasses import replace

import numpy as np
import pytest
from serving_cases import DENSE, ENGINE, EXPERTS, GPU, layouts_of_rows, small_space, small_spaces, steps_of  # noqa: F401

import dse
from dse.content.engine import KernelEntry
from dse.content.space import load_space
from dse.errors import UserError
from dse.kernels.registry import get_kernel
from dse.serving import kernel_times
from dse.serving.kernel_times import KernelTimes
from dse.serving.layouts import CODES
from dse.serving.outcomes import evaluate_layouts
from dse.serving.unique_rows import unique_rows
from dse.serving.workload import Workload
from dse.step_operators import Operator, Types, Work, step_operators

pytestmark = pytest.mark.usefixtures("small_spaces")
ROWS = [{"tp": tp, "batch": batch, "cp": cp} for tp in (1, 2, 4) for batch in (8, 32) for cp in (1, 2)]
COUNT = len(ROWS)


def operators_of(model, batches=None) -> list[Operator]:
    layouts = layouts_of_rows(ROWS)
    work = Work(sequences=layouts["batch"] if batches is None else batches, context=2000)
    prefill = Work(prompts=1, prompt_tokens=1024)
    return step_operators(model, Types(), work, layouts.cut()) + step_operators(model, Types(), prefill, layouts.cut())


def problems_of(operators: list[Operator]) -> set[tuple]:
    """(kernel, type, choices, sizes) that are run, point by point."""
    found = set()
    for operator in operators:
        columns = [np.broadcast_to(size, COUNT) for size in operator.sizes.values()]
        for sizes in zip(*columns, strict=True):
            if all(sizes):
                found.add((operator.kernel, operator.dtype, operator.choices, tuple(int(size) for size in sizes)))
    return found


@pytest.fixture
def tuned(monkeypatch: pytest.MonkeyPatch) -> list[tuple]:
    """Every problem that is given to the tuner, in order."""
    given: list[tuple] = []

    def watched(schedules, rows, progress=None):
        given.extend(problem for problem, _ in rows)
        return real(schedules, rows, progress)

    real = kernel_times.tune
    monkeypatch.setattr(kernel_times, "tune", watched)
    return given


def test_looking_up_gives_what_evaluating_every_problem_gives() -> None:
    once, every = KernelTimes(GPU, ENGINE), KernelTimes(GPU, ENGINE, once=False)
    for model in (DENSE, EXPERTS):
        operators = operators_of(model)
        looked_up, evaluated = once.seconds(operators, COUNT), every.seconds(operators, COUNT)
        for operator, one, other in zip(operators, looked_up, evaluated, strict=True):
            np.testing.assert_array_equal(one, other, operator.layer)
            assert one.shape == (COUNT,)
            assert (one > 0).any() or not all(np.all(size) for size in operator.sizes.values())
    assert once.problems < every.problems / 3
    assert once.evaluations < every.evaluations / 3


def test_each_distinct_problem_is_tuned_exactly_once(tuned: list) -> None:
    times, operators = KernelTimes(GPU, ENGINE), operators_of(EXPERTS)
    times.seconds(operators, COUNT)
    expected = problems_of(operators)
    assert len(tuned) == len(set(map(str, tuned))) == len(expected) == times.problems
    for problem in tuned:
        sizes = {name: getattr(problem, name) for name in problem.SIZES}
        alike = [one for one in expected if one[0] == problem.kernel and one[1] == problem.dtype]
        assert any(set(sizes.values()) <= set(one[3]) for one in alike)
    times.seconds(operators, COUNT)
    assert times.problems == len(tuned) == len(expected)
    more = operators_of(EXPERTS, batches=np.array([8, 32, 64] * 4))
    times.seconds(more, COUNT)
    assert times.problems == len(tuned) == len(expected | problems_of(more))


def test_a_value_is_the_best_of_a_sweep_of_the_whole_space() -> None:
    operators = operators_of(EXPERTS)
    times = KernelTimes(GPU, ENGINE)
    swept = {"gemm", "decode_attention", "moe"}
    place = 3  # of two GPUs that share, and of none
    for operator, values in zip(operators, times.seconds(operators, COUNT), strict=True):
        sizes = {name: int(np.broadcast_to(size, COUNT)[place]) for name, size in operator.sizes.items()}
        if operator.kernel not in swept or not all(sizes.values()):
            continue
        swept.remove(operator.kernel)
        entry = next(entry for entry in ENGINE.kernels if entry.kernel == operator.kernel)
        choices = dict(operator.choices) | ({"implementation": entry.implementation} if entry.implementation else {})
        problem = get_kernel(operator.kernel).problem(**sizes, dtype=operator.dtype, **choices)
        space = small_space(operator.kernel, "wgmma", operator.dtype, entry.preset)
        best = dse.sweep(shape=problem, gpu=GPU, space=space, executor="serial", top=1).top.iloc[0]
        assert values[place] == np.float32(best["latency_s"]), operator.layer
        schedule = times.schedule(replace(operator, sizes=sizes))
        assert {name: best[name] for name in schedule} == schedule
    assert not swept


def test_kernels_that_are_not_run_take_no_time_and_are_not_tuned(tuned: list) -> None:
    operators = step_operators(
        DENSE, Types(), Work(sequences=np.array([0, 8, 0]), context=100), layouts_of_rows(ROWS[:3]).cut()
    )
    for operator, values in zip(operators, KernelTimes(GPU, ENGINE).seconds(operators, 3), strict=True):
        assert (values[[0, 2]] == 0).all()
        assert (values[1] > 0) == (operator.kernel != "attention")
    assert all(problem.kernel != "attention" for problem in tuned)


def test_types_choices_and_heads_of_different_sizes_are_told_apart() -> None:
    sizes = {"batch": 1, "m": 64, "n": 2048, "k": 2048}
    operators = [Operator("a", "gemm", sizes, "", 1.0, dtype) for dtype in ("bf16", "fp16", "bf16")]
    times = KernelTimes(GPU, ENGINE)
    times.seconds(operators, 1)
    assert times.problems == 2
    windows = {"batch": 4, "q_tokens": 512, "kv_tokens": 512, "heads": 8, "kv_heads": 8, "head_dim": 128, "v_dim": 128}
    full, windowed = (
        times.seconds([Operator("a", "attention", windows, "", 1.0, "bf16", choices)], 1)[0][0]
        for choices in ((), (("window", 64),))
    )
    assert windowed < full


def test_an_entry_of_the_engine_decides_whose_kernels_run() -> None:
    sizes = {"batch": 4, "q_tokens": 512, "kv_tokens": 512, "heads": 8, "kv_heads": 8, "head_dim": 128, "v_dim": 128}
    operator = Operator("a", "attention", sizes, "", 1.0, "bf16")
    plain = replace(ENGINE, kernels=(KernelEntry("attention", preset="fa3_d128"),))
    of_others = replace(ENGINE, kernels=(KernelEntry("attention", head_dims=(64,), preset="quick"), *plain.kernels))
    own = KernelTimes(GPU, ENGINE).seconds([operator], 1)[0]
    assert KernelTimes(GPU, plain).seconds([operator], 1)[0] != own  # without its fitted numbers
    assert KernelTimes(GPU, of_others).seconds([operator], 1)[0] == KernelTimes(GPU, plain).seconds([operator], 1)[0]


def test_a_kernel_of_which_nothing_fits_takes_forever(monkeypatch: pytest.MonkeyPatch) -> None:
    too_large = {"tile_m": 256, "tile_n": 256, "tile_k": 128, "stages": 12}  # of shared memory

    def of_kernel(kernel: str, *named: str):
        return load_space(kernel, *named[:2], axes=too_large) if kernel == "gemm" else small_space(kernel, *named)

    monkeypatch.setattr(kernel_times, "load_space", of_kernel)
    times = KernelTimes(GPU, ENGINE)
    operator = Operator("a", "gemm", {"batch": 1, "m": np.array([64, 0]), "n": 512, "k": 512}, "", 1.0, "bf16")
    assert times.seconds([operator], 2)[0].tolist() == [np.inf, 0.0]
    assert (times.problems, times.evaluations) == (1, 0)
    found = evaluate_layouts(layouts_of_rows([{"batch": 8}]), Workload(), steps_of(DENSE, kernels=times), 8)
    assert found.reason.tolist() == [CODES["kernels"]]


def test_progress_counts_schedules() -> None:
    shown = []
    times = KernelTimes(GPU, ENGINE)
    times.seconds([Operator("a", "gemm", {"batch": 1, "m": 8, "n": 512, "k": 512}, "", 1.0, "bf16")], 1, shown.append)
    assert shown[-1].finished
    assert shown[-1].total == times.evaluations


def test_a_problem_that_a_kernel_does_not_take_is_said() -> None:
    operator = Operator("a", "gemm", {"batch": 1, "m": 8, "n": 512, "k": 2**25}, "", 1.0, "bf16")
    with pytest.raises(UserError, match="k"):
        KernelTimes(GPU, ENGINE).seconds([operator], 1)


def test_rows_that_come_again() -> None:
    random = np.random.default_rng(0)
    for points in (0, 1, 2, 50):
        columns = [np.asarray(7), random.integers(0, 3, points), random.integers(0, 4, points)]
        rows, which = unique_rows(columns, points)
        expected = [tuple(int(np.broadcast_to(column, points)[at]) for column in columns) for at in range(points)]
        assert [tuple(row) for row in rows[which].tolist()] == expected
        assert [tuple(row) for row in rows.tolist()] == sorted(set(expected))
