"""`dse compare`: Shapley values against all orders, terms that add up, words, errors."""

import itertools
import math

import numpy as np
import pytest
from cli_run import SHAPE, answer, json_answer, small_sweep
from hypothesis import given, settings
from hypothesis import strategies as st

from dse.api import ask, make_job
from dse.cli import main
from dse.errors import UserError
from dse.explain import explain_schedule
from dse.runs import open_run
from dse.schedule_text import FIELDS, parse_schedule
from dse.studies.cases import Case
from dse.studies.compare.causes import INSTRUCTION, MACHINE, SCHEDULE, WHOLE_SCHEDULE, causes_of, mixtures, one_row
from dse.studies.compare.compare import PHASES, compare
from dse.studies.compare.shapley import shapley_values
from dse.studies.sensitivity.gpu_numbers import latencies
from dse.studies.sensitivity.precise_costs import number_names, precise_costs

WIDE = "tile=256x128x64 stages=4 warps=8 cluster=2x1 raster=along_n:8 launch=persistent"
SMALL = "tile=128x128x128 stages=2 warps=8 cluster=1x1 raster=along_m:2 launch=data_parallel"


def case(words: str, gpu: str = "h200_sxm", shape: str = SHAPE, **changes: str) -> Case:
    asked = ask(shape, gpu=gpu, overrides=changes)
    return Case(gpu, make_job(asked), parse_schedule(words, asked.family))


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 4), st.integers(0, 2**32 - 1))
def test_shapley_values_are_the_mean_over_all_orders(count: int, seed: int):
    effects = np.random.default_rng(seed).normal(size=(2**count, 2))
    expected = np.zeros((count, 2))
    orders = list(itertools.permutations(range(count)))
    for order in orders:
        made = 0
        for change in order:
            expected[change] += (effects[made | 1 << change] - effects[made]) / len(orders)
            made |= 1 << change
    found = shapley_values(effects)
    np.testing.assert_allclose(found, expected, atol=1e-12)
    if count:
        np.testing.assert_allclose(found.sum(axis=0), effects[-1] - effects[0], atol=1e-12)


def test_every_number_of_a_machine_and_of_a_schedule_has_one_cause():
    gpu = one_row(ask(SHAPE).problem, parse_schedule(WIDE, "wgmma"), ask(SHAPE).bound).gpu
    named = [name for own in MACHINE.values() for name in own]
    left = [name for name in latencies(gpu) if name not in named]
    assert sorted([*named, *left]) == sorted([*number_names(gpu), "cluster_sms"])
    assert sorted(name for own in SCHEDULE.values() for name in own) == sorted(FIELDS)


def test_two_schedules_differ_by_terms_that_add_up():
    a, b = case(WIDE), case(SMALL)
    found = compare(a, b)
    assert set(found.by_cause["cause"]) == {"tile", "stages", "cluster", "raster", "launch"}
    assert found.mixtures == 32
    assert found.by_cause["difference_s"].sum() == pytest.approx(found.difference_s, abs=1e-15)
    assert found.by_phase["difference_s"].sum() == pytest.approx(found.difference_s, abs=1e-15)
    table = found.by_cause[list(PHASES)].to_numpy()
    np.testing.assert_allclose(table.sum(axis=1), found.by_cause["difference_s"], atol=1e-15)
    np.testing.assert_allclose(table.sum(axis=0), found.by_phase["difference_s"], atol=1e-15)
    sizes = found.by_cause["difference_s"].abs().to_numpy()
    assert (np.diff(sizes) <= 0).all()
    for side, costs in ((a, found.costs_a), (b, found.costs_b)):
        explained = explain_schedule(side.job.problem, side.schedule, side.job.gpu, "wgmma")
        assert costs["latency_s"] == pytest.approx(explained.latency_s, rel=1e-4)
        assert costs["bound_name"] == explained.cost["bound_name"]


def test_the_other_way_round_is_the_same_with_the_other_sign():
    there, back = compare(case(WIDE), case(SMALL)), compare(case(SMALL), case(WIDE))
    one, other = (found.by_cause.set_index("cause")["difference_s"] for found in (there, back))
    np.testing.assert_allclose(one[other.index], -other, atol=1e-15)


def test_one_change_alone_is_the_whole_difference():
    found = compare(case(WIDE), case(WIDE.replace("stages=4", "stages=2")))
    assert found.by_cause["cause"].tolist() == ["stages"]
    assert found.by_cause["difference_s"].iloc[0] == found.difference_s
    assert found.by_cause["change"].iloc[0] == "4 -> 2"
    assert found.impossible == 0


def test_mixtures_take_each_group_whole_from_one_or_the_other():
    a, b = case(WIDE), case(SMALL, l2_capacity="2x")
    rows = [one_row(a.job.problem, side.schedule, side.job.gpu) for side in (a, b)]
    causes = causes_of(a.schedule, a.job.gpu, b.schedule, b.job.gpu)
    assert [cause.name for cause in causes] == ["L2", WHOLE_SCHEDULE]
    mixed = mixtures(*rows, causes)
    assert mixed.schedule["tile_m"].tolist() == [256.0, 256.0, 128.0, 128.0]
    assert (mixed.gpu.l2_capacity_bytes / rows[0].gpu.l2_capacity_bytes).tolist() == [1.0, 2.0, 1.0, 2.0]
    costs = precise_costs(mixed)["latency_s"]
    assert costs[0] == precise_costs(rows[0])["latency_s"][0]
    assert costs[3] == precise_costs(rows[1])["latency_s"][0]


def test_one_schedule_on_two_machines():
    found = compare(case(WIDE, "h100_sxm"), case(WIDE, "h200_sxm"))
    causes = set(found.by_cause["cause"])
    assert {"DDR", "tensor cores", "overlap"} <= causes
    assert WHOLE_SCHEDULE not in causes
    assert found.by_cause["difference_s"].sum() == pytest.approx(found.difference_s, abs=1e-15)
    ddr = found.by_cause.set_index("cause").loc["DDR"]
    assert ddr["difference_s"] < 0
    assert "ddr_bytes_per_s 2.906 TB/s -> 4.195 TB/s" in ddr["change"]


def test_a_change_of_nothing_that_matters_gets_nothing():
    found = compare(case(WIDE), case(WIDE, host_launch_overhead_s="3x"))
    assert found.difference_s == 0.0
    assert found.by_cause["difference_s"].tolist() == [0.0]
    assert found.sentence.startswith("A and B take the same time, ")


def test_machines_with_other_instructions_change_the_instruction_with_the_schedule():
    found = compare(case(SMALL, "h200_sxm"), case("tile=128x128x128 stages=3 warps=4", "b200_sxm"))
    assert INSTRUCTION in set(found.by_cause["cause"])
    assert "SM limits" not in set(found.by_cause["cause"])  # TMEM comes with the instruction
    assert found.by_cause["difference_s"].sum() == pytest.approx(found.difference_s, abs=1e-14)


def test_the_sentence_says_why():
    found = compare(case(WIDE), case(SMALL))
    fast, slow = ("A", "B") if found.difference_s > 0 else ("B", "A")
    ratio = found.costs_b["latency_s"] / found.costs_a["latency_s"]
    assert found.sentence.startswith(f"{fast} is {max(ratio, 1 / ratio):.3f} times as fast as {slow} (")
    sign = math.copysign(1.0, found.difference_s)
    best = found.by_cause.loc[(sign * found.by_cause["difference_s"]).idxmax(), "cause"]
    assert f"its {best} save" in found.sentence


def test_a_schedule_against_itself():
    found = compare(case(WIDE), case(WIDE))
    assert found.difference_s == 0.0
    assert len(found.by_cause) == 0
    assert found.mixtures == 1


def test_two_problems_are_not_compared():
    with pytest.raises(
        UserError, match=r"A is GEMM 2048x2048x4096, bf16 .* and B is GEMM 1024x1024x1024, bf16 .*give the same shape"
    ):
        compare(case(WIDE), case(WIDE, shape="1024x1024x1024"))


def test_a_side_that_cannot_run_is_named():
    with pytest.raises(UserError, match=r"B cannot run 2048x2048x4096 on h200_sxm: SMEM: needs \d+ B"):
        compare(case(WIDE), case(WIDE.replace("stages=4", "stages=9")))


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "small"
    assert main(small_sweep(folder)) == 0
    return folder


def test_two_of_a_run_that_tie(run_folder, capsys):
    code, out, _ = answer(capsys, "compare", f"{run_folder}:0", f"{run_folder}:7")
    assert code == 0
    assert "A and B take the same time, " in out
    found = json_answer(capsys, "compare", run_folder, f"{run_folder}:7")
    top = open_run(run_folder).top
    assert found["a"]["costs"]["latency_s"] == pytest.approx(top["latency_s"].iloc[0], rel=1e-4)
    assert found["difference_s"] == pytest.approx(0.0, abs=1e-14)


def test_a_run_and_a_typed_schedule(run_folder, capsys):
    found = json_answer(capsys, "compare", run_folder, SMALL)
    assert found["b"]["schedule"].startswith("tile=128x128x128 stages=2")
    assert found["shape"] == SHAPE
    assert found["difference_s"] > 0
    assert sum(row["difference_s"] for row in found["by_cause"]) == pytest.approx(found["difference_s"], abs=1e-14)
    _, out, _ = answer(capsys, "compare", run_folder, SMALL)
    for words in ("A is ", "times as fast as B", "DDR read", "phase", "cause", "mixtures", "on h200_sxm"):
        assert words in out, words


def test_two_typed_schedules(capsys):
    found = json_answer(capsys, "compare", "--shape", SHAPE, WIDE, SMALL)
    assert found["difference_s"] == pytest.approx(compare(case(WIDE), case(SMALL)).difference_s)


def test_a_run_on_another_machine(run_folder, capsys):
    found = json_answer(capsys, "compare", run_folder, "--set-b", "l2_capacity=0.25x")
    assert found["b"]["gpu_changes"] == ["l2_capacity_bytes: 52428800 -> 13107200 (0.25x)"]
    assert [row["cause"] for row in found["by_cause"]] == ["L2"]
    assert found["a"]["schedule"] == found["b"]["schedule"]
    assert found["difference_s"] >= 0
    tuned = json_answer(
        capsys, "compare", run_folder, "--set-b", "l2_capacity=0.25x", "--retune", "--preset", "quick", "--quiet"
    )
    assert tuned["difference_s"] != found["difference_s"]


def test_typed_machines_inherit_what_is_set_for_a(capsys):
    words = ["--shape", SHAPE, "--gpu", "h100_sxm", "--set", "sm_count=120", "--set-b", "l2_capacity=2x", WIDE]
    found = json_answer(capsys, "compare", *words)
    assert any("sm_count: 132 -> 120" in line for line in found["a"]["gpu_changes"])
    assert any("sm_count: 132 -> 120" in line for line in found["b"]["gpu_changes"])
    assert [row["cause"] for row in found["by_cause"]] == ["L2"]


def test_the_fastest_of_two_machines(capsys):
    words = ["compare", "--shape", SHAPE, "--gpu", "h100_sxm", "--gpu-b", "h200_sxm", "--preset", "quick", "--quiet"]
    code, out, err = answer(capsys, *words)
    assert code == 0, err
    assert out.count("the fastest of its space") == 2
    assert "on h100_sxm" in out
    assert "on h200_sxm" in out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "give A and B, each RUN:RANK or a schedule, or another machine with --gpu-b NAME or --set-b"),
        ([WIDE], "give B: a second RUN:RANK or schedule, or another machine"),
        ([WIDE, SMALL], "a schedule is compared on a shape: give --shape MxNxK, or a RUN:RANK as A or B"),
        (["--shape", SHAPE, WIDE, SMALL, "--gpu-b", "h100_sxm"], "A and B are both given, so --gpu-b, --set-b and"),
        (["RUN", "RUN:1", "--gpu", "h100_sxm"], "a RUN brings its own problem and GPU, so --gpu cannot be given"),
        (["RUN", SMALL, "--shape", SHAPE], "the schedule is for the RUN's problem and GPU, so --shape cannot be given"),
        (["RUN:99", "RUN"], "rank 99 is not there"),
        (["runs/none", "runs/none:1"], "no run at runs/none"),
        (["--shape", SHAPE, WIDE, "--gpu-b", "b200_sxm"], "A's schedule is for wgmma, but b200_sxm runs tcgen05: give"),
        (["--shape", SHAPE, "", SMALL], "A and B are each RUN:RANK or a schedule, not an empty text"),
        (["--shape", SHAPE, WIDE, "--set-b", "tdp_w"], "--set-b tdp_w: write FIELD=VALUE, e.g. --set-b l2_capacity=2x"),
        (["--shape", SHAPE, "tile=128x128x64", SMALL], "the schedule lacks stages"),
    ],
)
def test_errors_name_the_thing_and_the_fix(run_folder, capsys, words, said):
    code, _, err = answer(capsys, "compare", *(word.replace("RUN", str(run_folder)) for word in words))
    assert code == 2
    assert said in err


def test_a_run_of_a_changed_gpu_needs_the_other_machine_named(tmp_path, capsys):
    folder = tmp_path / "changed"
    assert main(small_sweep(folder, "--set", "sm_count=120")) == 0
    code, _, err = answer(capsys, "compare", folder, "--set-b", "l2_capacity=2x")
    assert code == 2
    assert "was changed (sm_count: 132 -> 120" in err
    assert "give --gpu-b h200_sxm and all of B's changes with --set-b" in err


def test_what_four_digits_do_not_tell_apart_is_the_same_time():
    found = compare(case(SMALL), case(SMALL, l2_latency_s="1.0001x"))
    assert found.difference_s > 0
    assert found.sentence.startswith("A and B take the same time, ")


def test_causes_of_two_words_take_a_plural(capsys):
    words = (
        "compare",
        "--shape",
        SHAPE,
        SMALL,
        "--set-b",
        "l15_bytes_per_clock_group=0.2x",
        "--set-b",
        "l15_capacity=0.1x",
    )
    assert "its SM ports and L1.5 save " in answer(capsys, *words)[1]
