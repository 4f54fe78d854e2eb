"""The smallest change that reaches a latency: as a scan of every step finds it, with its laws, errors and command."""

import math

import numpy as np
import pytest
from cli_run import answer, json_answer

from dse import load_gpu, load_space
from dse.content.hardware_axis import current_value
from dse.errors import UserError
from dse.fitting import fitting
from dse.kernels.gemm import gemm_problem
from dse.question import ask
from dse.studies.target.improvable import COUNTS, LESS, MORE, knobs_of
from dse.studies.target.search import Smallest, smallest_changes
from dse.studies.target.target import parse_seconds, target
from dse.studies.target.tuned_machines import Machines
from dse.tuning import tune
from jaxmodel.machine import Gpu

SMALL = {
    **{"tile_m": [64, 128], "tile_n": [64, 128, 256], "stages": [2, 4, 8], "raster": ["along_m:1", "along_n:8"]},
    **{"cluster": ["1x1", "2x1"], "tile_k": [32, 64], "operands": ["straight"], "stream_k": [0]},
}
AXES = [f"{axis}={','.join(map(str, values))}" for axis, values in SMALL.items()]
STEP, LIMIT = 0.1, 4.0
SHAPES = (("4096x4096x4096", 1.0), ("64x8192x2048", 3.0))
GROUPS = [
    *(["tensor_flop_per_clock_sm"], ["ddr_bytes_per_s"], ["launch_overhead_s"], ["boost_hz"], ["tensor_efficiency"]),
    *(["sm_count"], ["smem_per_sm_bytes"], ["registers_per_sm"], ["l2_bytes_per_s", "ddr_bytes_per_s", "l2_latency_s"]),
]


@pytest.fixture(scope="module")
def space():
    return load_space("gemm", "wgmma", "bf16", None, SMALL)


@pytest.fixture(scope="module")
def knobs():
    return knobs_of("h200_sxm", None, GROUPS, LIMIT, STEP)


@pytest.fixture(scope="module")
def scanned(space, knobs):
    """Weighted latencies at every step of every knob: each machine's own schedules, all evaluated."""
    problems = [gemm_problem(shape) for shape, _ in SHAPES]
    curves = {}
    for knob in knobs:
        gpus = [load_gpu("h200_sxm", knob.overrides(place)).bind("bf16") for place in range(len(knob.factors))]
        rows = [(problem, gpu) for gpu in gpus for problem in problems]
        latency_s = tune(fitting(space, problems, gpus), rows).latency_s.astype(np.float64)
        curves[knob.name] = latency_s.reshape(-1, len(SHAPES)) @ [weight for _, weight in SHAPES]
    return curves


def searched(space, knobs, speedup: float) -> tuple[Machines, list[Smallest]]:
    gpu = load_gpu("h200_sxm")
    machines = Machines(
        [ask(shape, "bf16", gpu) for shape, _ in SHAPES],
        [weight for _, weight in SHAPES],
        lambda question: space,
        lambda changes: load_gpu("h200_sxm", changes),
        knobs,
    )
    now = machines.tune([(knobs[0], 0)])[0].total_s
    return machines, smallest_changes(machines, knobs, now / speedup)


@pytest.mark.parametrize("speedup", [1.005, 1.1, 1.3])
def test_the_answer_is_that_of_a_scan_of_every_step(space, knobs, scanned, speedup):
    machines, found = searched(space, knobs, speedup)
    reached = 0
    for at in found:
        curve = scanned[at.knob.name]
        wanted = np.flatnonzero(curve <= curve[0] / speedup)
        assert at.place == (int(wanted[0]) if len(wanted) else None), at.knob.name
        assert machines.tune([(at.knob, at.best)])[0].total_s == curve[at.best]
        reached += at.place is not None
        if at.place is None and not at.knob.counted:
            assert curve[at.best] == pytest.approx(curve.min(), rel=1e-6)
        if at.place is not None:
            assert at.every_value
            assert at.place == 1 or at.place - 1 in at.tuned  # the step below was tuned and does not reach it
    assert reached >= 2


def test_shortlists_are_never_faster_than_the_space(space, knobs, scanned):
    machines, _ = searched(space, knobs, 1.1)
    for knob in knobs:
        for place in range(0, len(knob.factors), 6):
            assert machines.shortlist_s((knob, place)) >= scanned[knob.name][place] * (1 - 1e-5)


def test_a_space_larger_than_its_shortlist_is_searched_as_well(space, knobs, scanned, monkeypatch):
    monkeypatch.setattr("dse.studies.target.tuned_machines.SHORTLIST", 2)
    monkeypatch.setattr("dse.studies.target.tuned_machines.LEAST_SHORTLIST", 1)
    _, found = searched(space, knobs, 1.1)
    for at in found:
        wanted = np.flatnonzero(scanned[at.knob.name] <= scanned[at.knob.name][0] / 1.1)
        if not at.knob.counted or at.every_value:
            assert at.place == (int(wanted[0]) if len(wanted) else None), at.knob.name


@pytest.fixture(scope="module")
def small_target():
    return target("4096x4096x4096", faster="10%", axes=AXES, limit=4, resolution=0.05)


def test_the_result_says_what_it_found(small_target):
    assert small_target.target_s == pytest.approx(small_target.now_s / 1.1)
    names = [change.name for change in small_target.changes]
    assert len(set(names)) == len(names) > 25
    assert set(names) <= {*MORE, *LESS, *COUNTS}
    for change in small_target.changes:
        assert change.reached == (change.latency_s <= small_target.target_s)
        assert change.speedup == pytest.approx(small_target.now_s / change.latency_s)
        assert 1 < change.factor <= change.limit <= 4
        (now,), (then,) = change.now.values(), change.then.values()
        ratio = now / then if change.name in LESS else then / now
        rounded = 0.51 / now if change.name in COUNTS else 1e-6
        assert ratio == pytest.approx(change.factor, abs=rounded)
        assert change.area_mm2 >= change.area_now_mm2
    reached = [change for change in small_target.changes if change.reached]
    assert list(small_target.changes[: len(reached)]) == sorted(reached, key=lambda at: at.factor)
    rest = [change.speedup for change in small_target.changes[len(reached) :]]
    assert rest == sorted(rest, reverse=True)
    assert {"tensor_flop_per_clock_sm", "sm_count", "boost_hz"} <= {change.name for change in reached}
    table = small_target.table
    assert list(table["name"]) == names


def test_bounds_of_a_field_are_its_limit(small_target):
    by_name = {change.name: change for change in small_target.changes}
    gpu = load_gpu("h200_sxm")
    assert by_name["tensor_efficiency"].limit == pytest.approx(1 / gpu["tensor_efficiency"], rel=1e-5)
    assert by_name["ddr_latency_s"].limit == pytest.approx(gpu["ddr_latency_s"] / gpu["l2_latency_s"], rel=1e-5)


def test_easier_targets_need_no_larger_factors(small_target):
    easier = target("4096x4096x4096", faster="5%", axes=AXES, limit=4, resolution=0.05)
    needed = {change.name: change.factor for change in easier.changes if change.reached}
    for change in small_target.changes:
        if change.reached and change.name not in COUNTS:
            assert needed[change.name] <= change.factor


def test_fields_together_need_no_more_than_each():
    both = [["ddr_bytes_per_s", "launch_overhead_s"], ["ddr_bytes_per_s"], ["launch_overhead_s"]]
    found = target("16x8192x8192", faster="5%", fields=both, axes=AXES)
    by_name = {change.name: change for change in found.changes}
    together = by_name["ddr_bytes_per_s + launch_overhead_s"]
    assert together.reached
    assert together.factor <= min(change.factor for change in found.changes if change.reached)
    ratios = [together.then["ddr_bytes_per_s"] / together.now["ddr_bytes_per_s"]]
    ratios.append(together.now["launch_overhead_s"] / together.then["launch_overhead_s"])
    assert ratios == pytest.approx([together.factor] * 2)


def test_a_latency_is_a_target_too(small_target):
    wanted = small_target.now_s / 1.1
    found = target("4096x4096x4096", latency=wanted, axes=AXES, fields=[["boost_hz"]], limit=4, resolution=0.05)
    (same,) = [change for change in small_target.changes if change.name == "boost_hz"]
    assert found.changes[0].factor == same.factor
    assert found.changes[0].latency_s == same.latency_s


@pytest.mark.parametrize(
    ("text", "seconds"), [("50us", 5e-5), ("1.2 ms", 1.2e-3), ("3e-5", 3e-5), ("4e3ns", 4e-6), (2, 2)]
)
def test_times_are_read(text, seconds):
    assert parse_seconds(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("choices", "text"),
    [
        ({}, "give one target: faster='10%' (a speed-up of 1.1x) or latency='50us'"),
        ({"faster": "10%", "latency": "1us"}, "give one target"),
        ({"faster": "-10%"}, "faster = '-10%' is no speed-up above 1: write 10% (1.1x) or 2x"),
        ({"faster": "lots"}, "faster = 'lots' is no speed-up above 1"),
        ({"latency": "0us"}, "latency = '0us' is no time above 0: write 50us, 1.2ms, or seconds as 5e-5"),
        ({"latency": "1s"}, "the target of 1000000.00 us is reached already: h200_sxm takes"),
        (
            {"faster": "10%", "fields": [["l2_latensy_s"]]},
            "unknown GPU field 'l2_latensy_s'; did you mean 'l2_latency_s'?",
        ),
        (
            {"faster": "10%", "fields": [["ddr_capacity"]]},
            "GPU field ddr_capacity_bytes is not one that a target improves",
        ),
        ({"faster": "10%", "fields": [["sm_count", "sm_count"]]}, "GPU field sm_count is given twice: give it once"),
        ({"faster": "10%", "fields": [["tmem_columns"]]}, "GPU field tmem_columns is 0 on h200_sxm: there is nothing"),
        (
            {"faster": "10%", "fields": [["sm_count"]], "overrides": {"sm_count": 100}},
            "GPU field sm_count is both set and to be improved: do one of the two",
        ),
        (
            {"faster": "10%", "fields": [["tensor_efficiency"]], "overrides": {"tensor_efficiency": 1.0}},
            "GPU field tensor_efficiency is both set and to be improved",
        ),
        (
            {"faster": "10%", "gpu": "b200_sxm", "fields": [["tensor_efficiency"]]},
            "tensor_efficiency is at its limit on b200",
        ),
        ({"faster": "10%", "limit": 1}, "limit = 1 is not allowed: a factor above 1, at most 1e+06, e.g. 16"),
        ({"faster": "10%", "limit": 1e300}, "limit = 1e+300 is not allowed: a factor above 1, at most 1e+06"),
        ({"faster": "10%", "limit": "16x"}, "limit = 16x is not allowed: a factor above 1"),
        ({"faster": "10%", "fields": []}, "no field is given to improve: name at least one in each group"),
        ({"faster": "10%", "fields": [[]]}, "no field is given to improve"),
        ({"faster": "10%", "fields": ["tdp_w", ["tdp"]]}, "the fields tdp_w are given twice: give them once"),
        ({"faster": "10%", "foo": 1}, "unknown choice of a question 'foo'"),
        ({"faster": "10%", "gpu": load_gpu("h100_sxm")}, "not a loaded one: give gpu='h100_sxm'"),
        ({"faster": "10%", "resolution": 0}, "resolution = 0 is not allowed: from 0.0001 to below 1"),
        ({"faster": "10%", "shapes": ["64x64x64"]}, "give the problem as shape='MxNxK', or many as shapes="),
    ],
)
def test_what_is_wrong_is_said(choices, text):
    with pytest.raises(UserError) as error:
        target("256x256x256", **{"axes": AXES, **choices})
    assert text in str(error.value)


def test_nothing_can_run_it():
    with pytest.raises(UserError, match=r"no schedule of the space can run 256x256x64 on h200_sxm: widen the space"):
        target("256x256x64", faster="10%", axes=[*AXES, "split_k=16"], fields=[["sm_count"]])


@pytest.mark.parametrize("name", ["h200_sxm", "a100_sxm", "b200_sxm", "rtx_4090"])
def test_every_knob_is_a_number_of_the_model_and_moves_by_steps(name):
    gpu = load_gpu(name)
    for knob in knobs_of(name, None, None, 8.0, 0.1):
        (field,) = knob.fields
        bound = {"boost_hz": "clock_hz"}.get(field, field)
        assert bound in Gpu.__dataclass_fields__
        assert list(knob.factors) == sorted(set(knob.factors))
        assert knob.factors[0] == 1
        values = [current_value(load_gpu(name, knob.overrides(at)), field) for at in (1, len(knob.factors) - 1)]
        if field in gpu.values:
            assert all((value < gpu[field]) == (field in LESS) and value != gpu[field] for value in values)
        steps = np.diff(np.log(knob.factors))
        assert steps.max() <= max(math.log(1.1) * 1.001, 1.01 / gpu[field] if field in COUNTS else 0)


def test_own_dies_are_not_needed(tmp_path):
    from dse.content.files import content_files
    from dse.content.gpu import FOLDER

    path = tmp_path / "other.toml"
    path.write_text(content_files(FOLDER)["a100_sxm"].read_text(encoding="utf-8"), encoding="utf-8")
    found = target("512x512x512", faster="3%", gpu=path, fields=[["launch_overhead_s"]], preset="library")
    assert found.changes[0].area_mm2 is None
    assert found.changes[0].power_w is None


WORDS = ["target", "--shape", "4096x4096x4096", "--quiet", "--limit", "4x", "--resolution", "5%"]
WORDS += [word for axis in AXES for word in ("--axis", axis)]


def test_the_command(capsys):
    code, out, _ = answer(
        capsys, *WORDS, "--faster", "10%", "--fields", "boost_hz", "--fields", "l2_bytes_per_s,ddr_bytes_per_s"
    )
    assert code == 0
    for text in ("GEMM 4096x4096x4096, bf16, on NVIDIA H200", "(1.100x), binds now: ", "not reachable: what is bought",
                 "the smallest change of one number that reaches it", "boost_hz", "assumed, first order",
                 "factors in steps of 5 %, up to 4x"):  # fmt: skip
        assert text in out
    found = json_answer(capsys, *WORDS, "--faster", "10%", "--fields", "boost_hz")
    assert found["area_and_power"] == "assumed, first order"
    assert found["changes"][0]["name"] == "boost_hz"
    assert found["changes"][0]["reached"]


def test_the_command_says_no(capsys):
    code, out, _ = answer(capsys, *WORDS, "--faster", "3x", "--fields", "launch_overhead_s")
    assert code == 1
    assert "nothing reaches it alone" in out


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ([*WORDS], "one of the arguments --faster --latency is required"),
        (
            [*WORDS, "--faster", "10%", "--shapes", "llama3_70b_prefill"],
            "give the problem as --shape MxNxK, or many as",
        ),
        ([*WORDS, "--faster", "10%", "--limit", "16"], "--limit 16: write a factor above 1, e.g. 16x"),
        ([*WORDS, "--faster", "10%", "--resolution", "fine"], "--resolution fine: write per cent, e.g. 0.5%"),
    ],
)
def test_what_is_wrong_with_the_command_is_said(capsys, words, text):
    code, _, err = answer(capsys, *words)
    assert code == 2
    assert text in err
