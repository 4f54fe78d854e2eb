"""How many schedules to benchmark: the choice against brute force, its chances, its claims on measured tables."""

import json
from itertools import combinations, pairwise
from pathlib import Path

import numpy as np
import pytest
from cli_run import answer, json_answer, small_sweep
from hypothesis import given, settings
from hypothesis import strategies as st

from dse.content.gpu import load_gpu
from dse.errors import UserError
from dse.runs import open_run
from dse.studies.benchmark.shortlist_size import choose_shortlist, shortlist_of
from dse.trust.within_shape import WithinShape, draw_log_latencies
from dse.validation.ranking import rank_measured
from dse.validation.schedule_tables import read_cute_sweep, read_cutlass_sweep
from dse.validation.shortlist_claims import held_out_claims, shape_of
from dse.validation.within_shape_fit import SchedulesOfShape, schedules_of

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT.parent / "shared/data/measured"
RATES = {"tile": 1.0, "stages": 0.05, "order": 0.01, "structure": 0.2, "algorithm": 1.0}
MODEL = WithinShape(0.06, RATES, (0.01,), spread=0.05)


def random_candidates(seed: int, count: int):
    random = np.random.default_rng(seed)
    columns = {
        "tile_m": random.choice([64, 128, 256], count),
        "tile_n": random.choice([64, 128, 256], count),
        "stages": random.choice([3, 4], count),
        "swizzle": random.choice([1, 8], count),
    }
    return columns, 1e-5 * np.exp(random.uniform(0.0, 0.1, count))


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**20), count=st.integers(1, 9), within=st.sampled_from([0.0, 0.02, 0.05]))
def test_chances_are_counted_on_fresh_draws_and_the_choice_is_near_the_best(seed, count, within):
    columns, predicted_s = random_candidates(seed, count)
    found = choose_shortlist(columns, predicted_s, within, 0.9, draws=400, seed=seed, model=MODEL)
    fresh = draw_log_latencies(columns, predicted_s, 400, 2 * seed + 1, model=MODEL)
    near = fresh <= np.log1p(np.float32(within)) + fresh.min(axis=1, keepdims=True)
    for length in range(1, len(found.places) + 1):
        listed = list(found.places[:length])
        assert found.chances[length - 1] == pytest.approx(near[:, listed].any(axis=1).mean(), abs=0.003)
    assert len(set(found.places)) == len(found.places)
    assert (np.diff(found.chances) >= 0).all()
    seen = draw_log_latencies(columns, predicted_s, 400, 2 * seed, model=MODEL)
    near = seen <= np.log1p(np.float32(within)) + seen.min(axis=1, keepdims=True)
    for length in range(1, min(4, len(found.places)) + 1):
        best = max(near[:, list(some)].any(axis=1).mean() for some in combinations(range(count), length))
        mine = near[:, list(found.places[:length])].any(axis=1).mean()
        assert best * (1 - 1 / np.e) - 0.003 <= mine <= best + 0.003
        if length == 1:
            assert mine == pytest.approx(best, abs=0.003)


def test_the_list_ends_where_the_chance_is_reached():
    columns, predicted_s = random_candidates(3, 40)
    found = choose_shortlist(columns, predicted_s, 0.05, 0.9, draws=500, model=MODEL)
    assert found.count is not None
    assert len(found.listed) == found.count
    assert found.chances[found.count - 1] >= 0.9
    assert found.count == 1 or found.chances[found.count - 2] < 0.9
    short = choose_shortlist(columns, predicted_s, 0.0, 0.999, draws=500, most=2, model=MODEL)
    assert short.count is None
    assert len(short.listed) == 2
    assert "; for 99.9 % more than 2 are needed: ask for less, or restrict the space" in short.sentence("of all")


def test_copies_of_one_kernel_add_nothing():
    """Twelve orders of the fastest tile and one schedule of another tile: the second to benchmark is the other tile."""
    columns = {
        "tile_m": np.array([128] * 12 + [64]),
        "tile_n": np.array([256] * 12 + [64]),
        "swizzle": np.array([1, 2, 4, 8, 16, 32] * 2 + [1]),
    }
    predicted_s = np.array([1.0 + 0.0005 * at for at in range(12)] + [1.03])
    found = choose_shortlist(columns, predicted_s, 0.02, 0.95, draws=2000, model=MODEL)
    assert 12 in found.places[:2]
    assert found.chances[1] > found.by_prediction[11] + 0.1


def test_wider_errors_need_longer_lists():
    columns, predicted_s = random_candidates(5, 60)
    counts = [
        len(choose_shortlist(columns, predicted_s, 0.03, 0.9, draws=1000, scale=scale, model=MODEL).listed)
        for scale in (0.2, 1.0, 2.0)
    ]
    assert counts[0] < counts[1] <= counts[2]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"within": 1.5}, "within = 1.5 is not allowed: from 0 to below 1, e.g. 0.05 for 5 %"),
        ({"draws": 0}, "draws = 0 is not allowed: 1 or more"),
        ({"most": 0}, "most = 0 is not allowed: 1 or more"),
        ({"chance": 1.0}, "chance = 1 is not allowed: above 0, below 1, e.g. 0.95 for 95 %"),
    ],
)
def test_shares_out_of_range(options, text):
    columns, predicted_s = random_candidates(0, 3)
    with pytest.raises(UserError, match=text):
        choose_shortlist(columns, predicted_s, **options, model=MODEL)


def test_nothing_to_benchmark():
    columns, _ = random_candidates(0, 3)
    with pytest.raises(UserError, match="no schedule can run, so there is nothing to benchmark"):
        choose_shortlist(columns, np.full(3, np.inf), model=MODEL)


def synthetic(name: str, seed: int, truth: WithinShape) -> SchedulesOfShape:
    columns, predicted_s = random_candidates(seed, 30)
    logs = draw_log_latencies(columns, predicted_s, 1, seed, noise=True, model=truth)[0]
    return SchedulesOfShape(name, columns, predicted_s, np.exp(logs.astype(float)))


def test_claims_hold_on_problems_that_the_model_drew():
    claimed, held = [], 0
    for seed in range(150):
        problem = synthetic("1x1x1 nt", seed, MODEL)
        found = choose_shortlist(
            problem.columns, problem.predicted_s, 0.03, 0.8, draws=300, seed=seed, noise=True, model=MODEL
        )
        near = problem.measured_s <= problem.measured_s.min() * 1.03
        claimed.append(found.chances[len(found.listed) - 1])
        held += near[list(found.listed)].any()
    assert abs(held - sum(claimed)) < 3.0 * np.sqrt(150 * 0.8 * 0.2)


def test_a_shape_is_judged_by_a_model_that_has_not_seen_it(monkeypatch):
    from dse.validation import shortlist_claims

    problems = [synthetic(f"{shape}x1x1 {layout}", at, MODEL) for at, (shape, layout) in enumerate(
        [(1, "nt"), (1, "nn"), (2, "nt"), (3, "nt")])]  # fmt: skip
    fitted = []
    monkeypatch.setattr(shortlist_claims, "fit_within_shape", lambda some, spread: fitted.append(some) or MODEL)
    claims = held_out_claims(problems, choose_shortlist, withins=(0.03,), chance=0.8)
    assert [[problem.name for problem in some] for some in fitted] == [
        ["2x1x1 nt", "3x1x1 nt"], ["1x1x1 nt", "1x1x1 nn", "3x1x1 nt"], ["1x1x1 nt", "1x1x1 nn", "2x1x1 nt"]
    ]  # fmt: skip
    assert [claim.problem for claim in claims] == [problem.name for problem in problems]
    for claim, problem in zip(claims, problems, strict=True):
        fastest = np.argsort(problem.predicted_s)[: claim.listed]
        best = problem.measured_s.min()
        assert claim.by_prediction_held == (problem.measured_s[fastest].min() <= 1.03 * best)
        assert claim.schedules == 30
        assert claim.claimed >= 0.8
    assert shape_of(problems[1]) == "1x1x1"


@pytest.mark.parametrize("chance", [0.8, 0.95])
def test_claims_hold_on_measured_shapes_that_the_fit_has_not_seen(chance):
    """17 problems of 7 shapes on two GPUs, each predicted by a model that has not seen its shape."""
    if not DATA.is_dir():
        pytest.skip(f"no measured schedules at {DATA}: the project does not carry them")
    from scipy.stats import binom

    tables = ((read_cutlass_sweep(DATA / "cutlass_h100_schedules.csv", [2048, 6144]), "h100_sxm", "host"),
              (read_cute_sweep(DATA / "cutedsl_rtx3090_schedules.csv"), "rtx_3090", "graph"))  # fmt: skip
    rankings = [rank_measured(found, load_gpu(gpu), launch) for found, gpu, launch in tables]
    problems = [problem for ranking in rankings for problem in schedules_of(ranking)]
    claims = held_out_claims(problems, choose_shortlist, chance=chance)
    for within in (0.02, 0.05):
        rows = [claim for claim in claims if claim.within == within]
        claimed = float(np.mean([claim.claimed for claim in rows]))
        held = sum(claim.held for claim in rows)
        assert len(rows) == 17
        assert binom.cdf(held, 17, claimed) > 0.05, f"{held} of 17 held, {17 * claimed:.1f} claimed, within {within}"
        assert all(claim.listed < claim.schedules for claim in rows if claim.schedules > 6)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    from dse.cli import main

    folder = tmp_path_factory.mktemp("shortlist") / "run"
    assert main(small_sweep(folder)) == 0
    return folder


def test_a_runs_list_holds_one_schedule_a_kernel(run):
    job = open_run(run).job
    found = shortlist_of(job, draws=300)
    kernels = found.table[["tile_m", "tile_n", "tile_k", "stages", "warps_m", "cluster_m", "cluster_n", "swap_ab",
                           "persistent", "split_k", "stream_k", "epilogue"]]  # fmt: skip
    assert not kernels.duplicated().any()
    assert found.candidates <= found.runnable
    assert len(found.table) == len(found.found.listed)
    assert found.table["chance"].is_monotonic_increasing
    assert found.scale >= 1.0
    assert found.table["latency_s"].max() <= open_run(run).top["latency_s"].min() * np.exp(6 * 0.063 * found.scale)


def test_shortlist_on_the_command_line(run, tmp_path, capsys):
    code, out, _ = answer(capsys, "shortlist", run, "--within", "5%", "--chance", "90%", "--figure", tmp_path / "s.svg")
    assert code == 0
    content = json_answer(capsys, "shortlist", run, "--within", "0.05", "--chance", "0.9")
    count = content["count"]
    assert content["sentence"] in out
    assert content["sentence"].startswith(f"benchmark these {count} for a ")
    assert content["sentence"].endswith(f"is within 5 % of the best of {content['runnable']:,} schedules")
    assert f"chance of the first n: 1: {100 * content['chances'][0]:.0f} %" in out
    assert len(content["schedules"]) == count
    assert all(before <= after for before, after in pairwise(content["chances"]))
    assert "schedules benchmarked" in (tmp_path / "s.svg").read_text()


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--within", "five"], "--within five: write a share, e.g. 5% or 0.05"),
        (["--seed", "-1"], "seed = -1 is not allowed: 0 or more"),
        (["--chance", "100%"], "chance = 1 is not allowed: above 0, below 1"),
        (["--figure", "s.gif"], "a figure ends in .png, .svg, .pdf"),
    ],
)
def test_errors_of_shortlist(run, capsys, words, text):
    code, _, err = answer(capsys, "shortlist", run, *words)
    assert code == 2
    assert text in err


def test_the_list_goes_to_an_autotuner_and_reads_back(capsys, tmp_path) -> None:
    run, out = tmp_path / "run", tmp_path / "list.json"
    words = ("sweep", "--shape", "2048x2048x2048", "--preset", "quick", "--axis", "stages=3,4", "--quiet")
    assert answer(capsys, *words, "--out", str(run))[0] == 0
    code, told, _ = answer(capsys, "shortlist", str(run), "--to", "json", "-o", str(out), "--json")
    assert code == 0
    chosen = json.loads(told)["schedules"]
    written = json.loads(out.read_text())
    assert [entry["index"] for entry in written] == [row["index"] for row in chosen]
    code, ranked, _ = answer(capsys, "rank", str(out), "--shape", "2048x2048x2048", "--json")
    assert code == 0
    assert len(json.loads(ranked)) == len(chosen) or len(json.loads(ranked)["candidates"]) == len(chosen)
    code, _, err = answer(capsys, "shortlist", str(run), "--to", "json")
    assert code == 2
    assert "--to says for which tool the list is written, -o where: give both" in err
