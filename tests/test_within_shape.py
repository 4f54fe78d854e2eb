"""How schedules of one shape err against each other: the draws have the stated covariance, and the fit finds it."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dse.errors import UserError
from dse.trust.within_shape import (
    KINDS,
    RATES,
    SIZES,
    WithinShape,
    columns_of,
    covariance,
    draw_errors,
    draw_log_latencies,
    packaged_within_shape,
    read_within_shape,
)
from dse.validation.within_shape_fit import LEAST_NOISE, SchedulesOfShape, fit_within_shape, tile_pairs

RATE = {"tile": 1.0, "stages": 0.3, "order": 0.1, "structure": 0.2, "algorithm": 0.7}
MODEL = WithinShape(0.06, RATE, (0.01, 0.05), spread=0.05)
CHOICES = {
    **dict.fromkeys(("tile_m", "tile_n", "tile_k"), (16, 64, 96, 128, 256)),
    **dict.fromkeys(("warps_m", "warps_n", "cluster_m", "cluster_n", "swizzle"), (1, 2, 4)),
    **dict.fromkeys(("stages",), (2, 3, 4, 6)),
    **dict.fromkeys(("split_k",), (0, 1, 2, 8)),
    **dict.fromkeys(("cta_pair", "swap_ab", "persistent", "stream_k", "raster_along_n"), (0, 1)),
    **dict.fromkeys(("epilogue",), (0, 1, 2)),
    **dict.fromkeys(("sms_free",), (0, 4, 8)),
}


def random_schedules(count: int, seed: int) -> list[dict[str, int]]:
    random = np.random.default_rng(seed)
    return [{name: int(random.choice(values)) for name, values in CHOICES.items()} for _ in range(count)]


def twin_covariance(a: dict, b: dict, model: WithinShape) -> float:
    apart = 0.0
    for name in a:
        if name in SIZES:
            apart += model.rates[SIZES[name]] * abs(np.log2(max(a[name], 1)) - np.log2(max(b[name], 1)))
        elif a[name] != b[name]:
            apart += model.rates[KINDS[name]]
    return model.sigma**2 * np.exp(-apart)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**31), count=st.integers(1, 6))
def test_covariance_equals_the_sum_over_fields(seed, count):
    schedules = random_schedules(count, seed)
    expected = [[twin_covariance(a, b, MODEL) for b in schedules] for a in schedules]
    assert covariance(schedules, MODEL) == pytest.approx(np.array(expected))


@pytest.mark.parametrize("noise", [False, True])
def test_draws_have_the_covariance_and_normal_margins(noise):
    schedules = random_schedules(7, 3)
    schedules.append({**schedules[0], "swizzle": 2, "raster_along_n": 1})
    draws = 40_000
    errors = draw_errors(schedules, draws, 5, model=MODEL, noise=noise)
    expected = covariance(schedules, MODEL)
    expected += np.eye(8) * np.mean(np.square(MODEL.noise)) * noise
    error = 4.0 * expected.max() * np.sqrt(2.0 / draws)
    assert np.abs(errors.mean(axis=0)).max() < 4.0 * np.sqrt(expected.max() / draws)
    assert np.abs(np.cov(errors.T) - expected).max() < error * (1.7 if noise else 1.0)
    if not noise:
        fourth = (errors.astype(float) ** 4).mean(axis=0) / MODEL.sigma**4
        assert np.abs(fourth - 3.0).max() < 4.0 * np.sqrt(96.0 / draws)


def test_alike_schedules_share_their_error_and_unlike_ones_do_not():
    one = random_schedules(1, 0)[0]
    same = draw_errors([one, dict(one)], 200, model=MODEL)
    assert (same[:, 0] == same[:, 1]).all()
    far = replace(MODEL, rates={**RATE, "tile": 1e9})
    apart = draw_errors([one, {**one, "tile_m": one["tile_m"] * 2}], 4000, model=far)
    assert (apart[:, 0] != apart[:, 1]).all()
    assert abs(np.corrcoef(apart.T)[0, 1]) < 4.0 / np.sqrt(4000)


def test_tables_columns_and_lists_of_schedules_are_one_thing():
    import pandas as pd

    schedules = random_schedules(5, 1)
    frame = pd.DataFrame(schedules).assign(latency_s=1.0)
    by_list = draw_errors(schedules, 20, 7, model=MODEL)
    assert (draw_errors(frame, 20, 7, model=MODEL) == by_list).all()
    assert (draw_errors({name: frame[name] for name in CHOICES}, 20, 7, model=MODEL) == by_list).all()
    assert (draw_errors(schedules, 20, 8, model=MODEL) != by_list).any()
    assert set(columns_of(frame)) == set(CHOICES)


def test_log_latencies_are_the_prediction_and_the_error():
    schedules = random_schedules(3, 2)
    found = draw_log_latencies(schedules, [1e-5, 2e-5, np.inf], 50, 1, scale=2.0, model=MODEL)
    errors = draw_errors(schedules, 50, 1, model=MODEL)
    assert found[:, :2] == pytest.approx(np.log([1e-5, 2e-5]) + 2.0 * errors[:, :2], abs=1e-5)
    assert np.isposinf(found[:, 2]).all()


def test_a_seed_below_0_is_refused():
    with pytest.raises(UserError, match="seed = -1 is not allowed: 0 or more"):
        draw_errors(random_schedules(2, 0), 3, -1, model=MODEL)


def test_the_packaged_numbers_are_those_of_their_source():
    model = packaged_within_shape()
    assert set(model.rates) == set(RATES)
    assert 0.0 < model.sigma < 0.2
    assert len(model.noise) == model.made_from["problems"]
    assert all(model.rates[name] == rate for name, rate in model.made_from["assumed"].items())
    assert set(model.made_from["fitted"]) | set(model.made_from["assumed"]) == {"sigma", "noise", *RATES}


def test_wider_residuals_mean_wider_errors_and_narrower_ones_the_same():
    assert MODEL.scaled_to(0.1) == 2.0
    assert MODEL.scaled_to(0.01) == 1.0


def test_numbers_survive_their_file(tmp_path):
    path = tmp_path / "within_shape.json"
    path.write_text(json.dumps(MODEL.to_dict()))
    assert read_within_shape(path) == MODEL


@pytest.mark.parametrize("text", ["{", "{}", '{"schema_version": 99, "rates": {}}'])
def test_a_damaged_file_is_named(tmp_path, text):
    path = tmp_path / "within_shape.json"
    path.write_text(text)
    with pytest.raises(UserError, match=r"within_shape.json holds no errors within a shape .*make_within_shape.py"):
        read_within_shape(path)


def synthetic_problems(count: int, noise: float) -> list[SchedulesOfShape]:
    truth = WithinShape(
        0.08, {**RATE, "stages": 0.3, "order": 0.05, "structure": 0.2, "algorithm": 1.0}, (noise,), 0.05
    )
    problems = []
    for at in range(count):
        random = np.random.default_rng(at)
        schedules = [
            {"tile_m": m, "tile_n": n, "stages": stages, "swizzle": swizzle}
            for m in (64, 128)
            for n in (64, 256)
            for stages in (2, 4, 6)
            for swizzle in (1, 8)
        ]
        errors = random.multivariate_normal(np.zeros(len(schedules)), covariance(schedules, truth))
        errors += noise * random.standard_normal(len(schedules))
        predicted = random.uniform(1e-5, 2e-5, len(schedules))
        problems.append(
            SchedulesOfShape(str(at), columns_of(schedules), predicted, predicted * np.exp(errors + random.normal()))
        )
    return problems


def test_the_fit_finds_the_numbers_that_drew_the_problems():
    found = fit_within_shape(synthetic_problems(60, noise=0.01), spread=0.05)
    assert found.sigma == pytest.approx(0.08, rel=0.15)
    assert found.rates["stages"] == pytest.approx(0.3, rel=0.5)
    assert found.rates["order"] == pytest.approx(0.05, rel=0.6)
    assert np.median(found.noise) == pytest.approx(0.01, rel=0.3)
    assert min(found.noise) >= LEAST_NOISE


def test_the_fit_leaves_out_what_a_shape_has_in_common():
    problems = synthetic_problems(6, noise=0.01)
    moved = [
        SchedulesOfShape(p.name, p.columns, p.predicted_s, p.measured_s * factor)
        for p, factor in zip(problems, (0.1, 1.0, 3.0, 10.0, 0.5, 2.0), strict=True)
    ]
    before, after = (fit_within_shape(entry, spread=0.05) for entry in (problems, moved))
    assert after.sigma == pytest.approx(before.sigma, rel=1e-3)


def test_tile_pairs_are_differences_of_means():
    columns = {"tile_m": np.array([64, 64, 128]), "tile_n": np.array([128, 128, 64]), "tile_k": np.array([64] * 3)}
    problem = SchedulesOfShape("x", columns, np.ones(3), np.exp([0.1, 0.3, 0.5]))
    ((name, octaves, apart),) = tile_pairs([problem])
    assert (name, octaves) == ("x", 2.0)
    assert apart == pytest.approx(0.3)
