"""Fronts under uncertainty against brute force: what is drawn, every draw's front, probabilities and regrets."""

from dataclasses import replace

import numpy as np
import pytest
from cli_run import answer, json_answer, small_sweep
from hypothesis import given, settings
from hypothesis import strategies as st

from dse.api import make_job
from dse.content.datum import KINDS, Datum
from dse.content.gpu import list_gpus, load_gpu
from dse.content.gpu_fields import FIELDS, TENSOR
from dse.content.uncertainty import OVERHEADS, RATES, is_drawn, is_rate, relative_uncertainty
from dse.errors import UserError
from dse.fitting import fitting
from dse.job import as_float32
from dse.question import ask
from dse.runs import open_run
from dse.studies.fronts import uncertain_front as study
from dse.studies.fronts.gpu_draws import draw_gpus, uncertainties
from dse.studies.fronts.uncertain_front import front_places, uncertain_front
from dse.studies.fronts.uncertain_run import uncertain_run

AXES = ["tile_m=64,128", "tile_n=64:256", "stages=3,4", "tile_k=64B,128B", "raster=along_m:1,along_n:1,along_n:8"]
OBJECTIVES = ("latency_s", "ddr_bytes", "smem_bytes")


@pytest.fixture(scope="module")
def asked():
    return ask("2048x2048x4096")


@pytest.fixture(scope="module")
def job(asked):
    return make_job(asked, preset="triton", axes=AXES, objectives=OBJECTIVES)


@pytest.fixture(scope="module")
def schedules(job):
    return fitting(job.space, [job.problem], [job.gpu])


def uncertain_numbers(asked, **more):
    return uncertainties(asked.gpu, asked.bound, "bf16", asked.family, asked.accumulator, **more)


def twin_front(values: np.ndarray) -> list[int]:
    runs = [at for at in range(values.shape[1]) if np.isfinite(values[:, at]).all()]
    points = values[:, runs].T
    return [
        at for at, point in zip(runs, points, strict=True)
        if not ((points <= point).all(axis=1) & (points < point).any(axis=1)).any()
    ]  # fmt: skip


def test_every_kind_has_an_uncertainty_and_what_is_designed_has_none():
    assert set(RATES) == set(OVERHEADS) == set(KINDS)
    assert RATES["datasheet"] == OVERHEADS["datasheet"] == 0.0
    for table in (RATES, OVERHEADS):
        assert table["measured"] <= table["derived"] <= table["assumed"]


def test_the_table_is_what_the_packaged_files_say_twice():
    """A fitted number and what is said of it elsewhere: each is off by its share of their difference."""
    apart = {True: [], False: []}
    for name in list_gpus():
        for field, datum in load_gpu(name).values.items():
            if datum.kind == "fitted" and datum.elsewhere:
                apart[is_rate(FIELDS[field])].append(abs(np.log(datum.number / datum.elsewhere)))
    for rate, table in ((True, RATES), (False, OVERHEADS)):
        assert len(apart[rate]) >= 10
        assert np.median(apart[rate]) / 0.6745 / np.sqrt(2.0) == pytest.approx(table["fitted"], rel=0.25)


def test_counts_and_capacities_are_known():
    drawn = {name for name, field in FIELDS.items() if is_drawn(field)}
    assert not drawn & {"sm_count", "l2_capacity_bytes", "smem_per_sm_bytes", "gpc_sms", "registers_per_sm", "l2_ways"}
    assert {"l2_bytes_per_s", "ddr_latency_s", "tensor_efficiency"} <= drawn
    assert is_rate(TENSOR)
    assert [is_rate(FIELDS[name]) for name in ("boost_hz", "joule_per_ddr_byte", "drift_jitter_steps")] == [1, 0, 0]
    assert relative_uncertainty("sm_count", Datum(132, "SMs", "assumed", "x")) == 0.0


def test_a_files_own_uncertainty_goes_before_its_kinds(tmp_path):
    line = '{ value = 5e12, kind = "measured", source = "mine", uncertainty = 0.25 }'
    path = tmp_path / "mine.toml"
    path.write_text(f'base = "h200_sxm"\ntitle = "mine"\n[l2]\nl2_bytes_per_s = {line}\n')
    gpu = load_gpu(path)
    assert relative_uncertainty("l2_bytes_per_s", gpu.values["l2_bytes_per_s"]) == 0.25
    assert gpu.to_dict()["values"]["l2_bytes_per_s"]["uncertainty"] == 0.25
    assert "uncertainty" not in gpu.to_dict()["values"]["boost_hz"]
    path.write_text(path.read_text().replace("0.25", "0.5"))
    assert load_gpu(path).hash == gpu.hash


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ('[l2]\nl2_bytes_per_s = { value = 5e12, kind = "measured", source = "x", uncertainty = 5 }',
         "l2.l2_bytes_per_s: uncertainty is 5; allowed: a relative standard deviation from 0 to 1, e.g. 0.05"),
        ('[engine]\nsm_count = { value = 132, kind = "datasheet", source = "x", uncertainty = 0.1 }',
         "engine.sm_count: uncertainty is for measured numbers, not for counts and capacities: leave it out"),
    ],
)  # fmt: skip
def test_an_uncertainty_that_cannot_be_is_refused(tmp_path, line, text):
    path = tmp_path / "mine.toml"
    path.write_text(f'base = "h200_sxm"\ntitle = "mine"\n{line}\n')
    with pytest.raises(UserError) as error:
        load_gpu(path)
    assert text in str(error.value)


def test_what_is_drawn(asked):
    found = uncertain_numbers(asked)
    assert found["l2_bytes_per_s"] == RATES["measured"]
    assert found["ddr_bytes_per_s"] == RATES["fitted"]
    assert found["clock_hz"] == relative_uncertainty("boost_hz", asked.gpu.values["boost_hz"])
    assert "quantise_bytes_per_s" not in found  # 0 on this GPU for bf16
    assert "tensor_flop_per_clock_sm" not in found  # a datasheet's
    assert not {name for name in found if name in FIELDS and FIELDS[name].whole}
    changed = uncertain_numbers(
        asked, given={"l2_bytes_per_s": 0.3, "tensor_flop_per_clock_sm": 0.1}, fixed=("clock_hz",)
    )
    assert (changed["l2_bytes_per_s"], changed["tensor_flop_per_clock_sm"]) == (0.3, 0.1)
    assert "clock_hz" not in changed
    assert "boost_hz" not in uncertain_numbers(asked, fixed=("boost_hz",))
    assert "clock_hz" not in uncertain_numbers(asked, fixed=("boost_hz",))


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"l2_bytes_per_sec": 0.1}, "unknown uncertain number 'l2_bytes_per_sec'.*did you mean 'l2_bytes_per_s'"),
        ({"sm_count": 0.1}, "counts, capacities and limits are known exactly"),
        (
            {"l2_bytes_per_s": 1.5},
            "uncertainty of l2_bytes_per_s = 1.5 is not allowed: a relative deviation from 0 to 1",
        ),
    ],
)
def test_an_uncertainty_of_something_else_is_refused(asked, given, text):
    with pytest.raises(UserError, match=text):
        uncertain_numbers(asked, given=given)


def test_draws_are_log_normal_around_the_files_number(asked):
    gpus = draw_gpus(asked.bound, {"l2_bytes_per_s": 0.2, "tensor_efficiency": 0.1}, 4000, seed=3)
    rates = np.log([float(gpu.l2_bytes_per_s) / float(asked.bound.l2_bytes_per_s) for gpu in gpus])
    sigma = np.sqrt(np.log1p(0.2**2))
    assert abs(np.mean(rates)) < 4 * sigma / np.sqrt(4000)
    assert np.std(rates) == pytest.approx(sigma, rel=0.06)
    shares = np.array([float(gpu.tensor_efficiency) for gpu in gpus])
    assert shares.max() == 1.0
    assert abs(np.corrcoef(rates, shares)[0, 1]) < 4 / np.sqrt(4000)
    assert {float(gpu.ddr_bytes_per_s) for gpu in gpus} == {float(asked.bound.ddr_bytes_per_s)}
    more = draw_gpus(asked.bound, {"l2_bytes_per_s": 0.2, "ddr_latency_s": 1.0}, 50, seed=3)
    assert [float(gpu.l2_bytes_per_s) for gpu in more] == [float(gpu.l2_bytes_per_s) for gpu in gpus[:50]]
    assert all(float(gpu.ddr_latency_s) >= float(gpu.l2_latency_s) for gpu in more)
    assert draw_gpus(asked.bound, {"l2_bytes_per_s": 0.2}, 1, seed=4)[0].l2_bytes_per_s != gpus[0].l2_bytes_per_s


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**31), objectives=st.integers(1, 3), grid=st.integers(1, 40), known=st.integers(0, 30))
def test_pivots_never_change_a_front(seed, objectives, grid, known):
    random = np.random.default_rng(seed)
    values = random.integers(0, grid, (objectives, 300)).astype(np.float32)
    values[:, random.random(300) < 0.1] = np.inf
    previous = random.integers(0, 300, known)
    few, study.FEW = study.FEW, 16
    try:
        assert front_places(values, previous).tolist() == twin_front(values)
    finally:
        study.FEW = few


def test_fronts_probabilities_and_regrets_equal_brute_force(asked, job, schedules):
    gpus = draw_gpus(job.gpu, uncertain_numbers(asked), 12, seed=1)
    found = uncertain_front(schedules, job.problem, gpus, OBJECTIVES)
    counted = np.zeros(len(schedules))
    regrets = []
    for draw, gpu in enumerate(gpus):
        values = schedules.values(as_float32(job.problem.arrays()), as_float32(gpu), OBJECTIVES)
        front = twin_front(values)
        counted[front] += 1
        assert found.front_sizes[draw] == len(front)
        assert found.best_latency_s[draw] == values[0].min()
        regrets.append(values[0].astype(np.float64) / values[0].min() - 1.0)
    assert found.places.tolist() == sorted(found.places)
    assert set(np.flatnonzero(counted)) <= set(found.places)
    assert found.probability == pytest.approx(counted[found.places] / 12)
    assert found.standard_error == pytest.approx(np.sqrt(found.probability * (1 - found.probability) / 12))
    expected = np.array(regrets)
    assert found.expected_regret == pytest.approx(expected.mean(axis=0)[found.places], abs=2e-6)
    assert found.worst_regret == pytest.approx(expected.max(axis=0)[found.places], abs=2e-6)
    assert found.regret_95 == pytest.approx(np.sort(expected, axis=0)[11][found.places], abs=2e-6)
    assert found.expected_regret[found.most_robust] == pytest.approx(expected.mean(axis=0).min(), abs=2e-6)
    alone = uncertain_front(schedules, job.problem, gpus, OBJECTIVES, workers=1)
    for name in ("places", "probability", "front_sizes", "best_latency_s"):
        assert (getattr(alone, name) == getattr(found, name)).all()
    assert alone.expected_regret == pytest.approx(found.expected_regret, abs=1e-12)


def test_without_uncertainty_the_front_is_the_fronts_own(job, schedules):
    found = uncertain_front(schedules, job.problem, [job.gpu] * 3, OBJECTIVES)
    own = twin_front(schedules.values(as_float32(job.problem.arrays()), job.gpu, OBJECTIVES))
    assert found.places[found.probability > 0].tolist() == own
    assert set(found.probability) <= {0.0, 1.0}
    assert (found.standard_error == 0).all()
    assert found.expected_regret.min() == found.worst_regret[found.most_robust] == 0.0


def test_a_draw_in_which_nothing_runs_is_named(job, schedules):
    cannot = replace(job.gpu, smem_per_cta_max_bytes=np.float32(1.0))
    with pytest.raises(UserError, match="in draw 1 no schedule can run"):
        uncertain_front(schedules, job.problem, [job.gpu, cannot], OBJECTIVES)
    with pytest.raises(UserError, match="0 draws are not allowed"):
        uncertain_front(schedules, job.problem, [], OBJECTIVES)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    from dse.cli import main

    folder = tmp_path_factory.mktemp("front") / "run"
    assert main(small_sweep(folder)) == 0
    return folder


def test_a_runs_table_holds_the_schedules_and_their_own_costs(run):
    opened = open_run(run)
    found = uncertain_run(opened, 8, seed=2)
    table = found.table
    assert (np.diff(table["probability"]) <= 0).all()
    assert table["expected_regret"].min() == table.loc[found.most_robust, "expected_regret"]
    assert table["regret_95"].min() == table.loc[found.safest, "regret_95"]
    assert set(table["index"]) >= {opened.top["index"].iloc[0]}
    own = opened.front.set_index("index")["latency_s"]
    shared = table[table["index"].isin(own.index)]
    assert len(shared)
    assert shared["latency_s"].to_numpy() == pytest.approx(own.loc[shared["index"]].to_numpy(), rel=1e-6)


def test_front_draws_on_the_command_line(run, capsys):
    code, out, _ = answer(capsys, "front", run, "--draws", "8", "--uncertainty", "l2_bytes_per_s=20%", "-n", "5")
    assert code == 0
    assert "8 draws (seed 0) of " in out
    assert "each with its exact front over latency_s, ddr_bytes, smem_bytes" in out
    assert "l2_bytes_per_s 20 %" in out
    assert "most robust: the least expected regret, and the least regret in 95 % of the draws" in out
    content = json_answer(capsys, "front", run, "--draws", "8", "--seed", "1")
    assert (content["draws"], content["seed"], len(content["front_sizes"])) == (8, 1, 8)
    assert all(0.0 <= row["probability"] <= 1.0 for row in content["schedules"])


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (
            ["--draws", "8", "--knees"],
            "--knees is of the front of the file's own numbers: leave --draws out, or --knees",
        ),
        (["--uncertainty", "l2_bytes_per_s=0.1"], "--uncertainty and --gpu say what is drawn: add --draws 256"),
        (["--draws", "8", "--uncertainty", "l2_bytes_per_s"], "write FIELD=SHARE, e.g. l2_bytes_per_s=0.1 or 10%"),
        (["--draws", "8", "--uncertainty", "a=1", "--uncertainty", "a=1"], "--uncertainty a is given twice"),
        (["--draws", "8", "--seed", "-1"], "seed = -1 is not allowed: 0 or more"),
        (["--draws", "8", "--uncertainty", "a=1"], "unknown uncertain number 'a'"),
    ],
)
def test_errors_of_draws(run, capsys, words, text):
    code, _, err = answer(capsys, "front", run, *words)
    assert code == 2
    assert text in err


def test_a_run_on_an_unknown_gpu_needs_its_file(tmp_path, capsys):
    from dse.cli import main

    file = tmp_path / "mine.toml"
    file.write_text('base = "h200_sxm"\ntitle = "mine"\n')
    folder = tmp_path / "run"
    assert main(small_sweep(folder, "--gpu", str(file))) == 0
    code, _, err = answer(capsys, "front", folder, "--draws", "2")
    assert code == 2
    assert "the run's GPU 'mine' is no known file" in err
    assert "--gpu FILE.toml" in err
    assert answer(capsys, "front", folder, "--draws", "2", "--gpu", file)[0] == 0


def test_front_measures_on_the_command_line(run, tmp_path, capsys):
    code, out, _ = answer(capsys, "front", run, "--size", "3", "--figure", tmp_path / "front.svg")
    assert code == 0
    assert "hypervolume 0." in out
    assert "(1.1 times the front's worst in each objective)" in out
    assert "% of every point of the front in every objective" in out
    text = (tmp_path / "front.svg").read_text()
    assert all(words in text for words in ("latency_s, us", "ddr_bytes, MB", "smem_bytes, kB", "chosen"))
    content = json_answer(capsys, "front", run, "--knees")
    assert [row["latency_s"] for row in content["front"]] == pytest.approx(
        [json_answer(capsys, "front", run)["front"][knee["place"]]["latency_s"] for knee in content["knees"]]
    )
    assert content["hypervolume"]["rule"] == "1.1 times the front's worst in each objective"
    assert len(json_answer(capsys, "front", run, "--size", "3")["representatives"]["places"]) <= 3
    given = json_answer(capsys, "front", run, "--reference", "1,1e12,1e9")["hypervolume"]
    assert (given["rule"], given["reference"]) == ("given", [1.0, 1e12, 1e9])


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (
            ["--reference", "1,x,2"],
            "write a finite number an objective, 3 in the order latency_s, ddr_bytes, smem_bytes",
        ),
        (["--reference", "1,2"], "--reference 1,2: write a finite number an objective, 3 in the order"),
        (["--figure", "front.gif"], "a figure ends in .png, .svg, .pdf"),
    ],
)
def test_errors_of_measures(run, capsys, words, text):
    code, _, err = answer(capsys, "front", run, *words)
    assert code == 2
    assert text in err


def test_a_hypervolume_that_would_take_minutes_is_left_out_unless_asked_for(run, capsys, monkeypatch):
    monkeypatch.setattr("dse.front_measures.is_quick", lambda values: False)
    assert "give a --reference to have it all the same" in answer(capsys, "front", run)[1]
    assert json_answer(capsys, "front", run)["hypervolume"] is None
    assert "(given" in answer(capsys, "front", run, "--reference", "1,1e12,1e9")[1]
