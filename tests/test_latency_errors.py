"""Errors and their intervals against hand-computed values and against the bootstrap written out."""

import numpy as np
import pandas as pd
import pytest

from dse.errors import UserError
from dse.latency_bucket import latency_bucket
from dse.shape_class import CLASSES, shape_classes
from dse.validation.error_tables import (
    breakdown,
    errors_of,
    mean_of_gpus,
    pooled_bias,
    source_spread,
)
from dse.validation.latency_errors import LEVEL, METRICS, drawn_times, errors


def test_errors_are_what_a_hand_computes():
    found = errors(np.array([1.1, 4.0, 30.0]), np.array([1.0, 5.0, 30.0]))
    assert found.count == 3
    assert found.mape == pytest.approx((10 + 20 + 0) / 3)
    assert found.weighted_mape == pytest.approx(100 * (0.1 + 1.0) / 36.0)
    assert found.bias == pytest.approx((10 - 20 + 0) / 3)
    assert found.p50 == pytest.approx(10.0)
    assert found.p90 == pytest.approx(10 + 0.8 * 10)  # place 0.9 x 2 = 1.8 between 10 and 20
    assert found.p99 == pytest.approx(10 + 0.98 * 10)
    assert found.pairs == 0
    assert not found.interval


def test_the_bootstrap_draws_whole_pairs_and_judges_each_draw_like_the_rows():
    rng = np.random.default_rng(3)
    measured = rng.lognormal(3.0, 1.0, 61)
    predicted = measured * rng.uniform(0.7, 1.4, 61)
    pairs = rng.integers(0, 9, 61) * 100
    found = errors(predicted, measured, pairs, draws=200)
    labels, group = np.unique(pairs, return_inverse=True)
    times = drawn_times(len(labels), 200)
    assert (times.sum(axis=1) == len(labels)).all()
    drawn = []
    for repeats in times:
        place = np.repeat(np.arange(61), repeats[group])
        drawn.append(errors(predicted[place], measured[place]))
    for metric in METRICS:
        values = [getattr(one, metric) for one in drawn]
        low, high = np.quantile(values, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
        assert found.interval[metric] == pytest.approx((low, high)), metric


def test_intervals_cover_the_truth_where_rows_of_a_pair_share_their_error():
    rng = np.random.default_rng(5)
    covered = naive = 0
    for _ in range(200):
        shared = np.repeat(rng.normal(0.0, 0.06, 60), 15)
        predicted, measured = 1.0 + shared + rng.normal(0.0, 0.02, 900), np.ones(900)
        low, high = errors(predicted, measured, np.repeat(np.arange(60), 15), draws=300).interval["bias"]
        covered += low <= 0.0 <= high
        low, high = errors(predicted, measured, np.arange(900), draws=300).interval["bias"]
        naive += low <= 0.0 <= high
    assert covered / 200 > 0.88
    assert naive / 200 < 0.75  # rows as if independent: what the pairs are there to prevent


def test_one_pair_has_no_interval():
    found = errors(np.array([1.1, 1.2]), np.array([1.0, 1.0]), np.array([7, 7]))
    assert found.pairs == 1
    assert not found.interval
    assert found.to_dict()["interval"] == {}


def test_the_thresholds_of_the_shape_classes():
    cases = {
        (17, 4096, 4096): "decode",
        (17, 4096, 128): "decode",
        (18, 4096, 4096): "skinny",
        (257, 4096, 4096): "skinny",
        (258, 4096, 4096): "square",
        (4096, 257, 4096): "skinny",
        (4096, 258, 4096): "square",
        (4096, 4096, 256): "shallow-K",
        (4096, 4096, 257): "square",
        (64, 64, 256): "shallow-K",
        (1024, 4096, 12288): "deep-K",
        (1024, 4096, 12287): "square",
        (64, 1024, 4096): "deep-K",
        (8192, 8192, 28672): "deep-K",
    }
    m, n, k = np.array(list(cases)).T
    assert shape_classes(m, n, k).tolist() == list(cases.values())
    assert set(cases.values()) == set(CLASSES)
    assert str(shape_classes(np.array(1), np.array(8), np.array(8))) == "decode"


def test_an_edge_belongs_to_the_slower_bucket():
    us = [9.99, 10.0, 29.9, 30.0, 99.9, 100.0, 999.0, 1000.0]
    assert latency_bucket(np.array(us)).tolist() == [
        "<10", "10-30", "10-30", "30-100", "30-100", "100-1000", "100-1000", ">1000",
    ]  # fmt: skip


def _rows() -> pd.DataFrame:
    """GPU a has three rows, b one: pooled by rows and by GPUs differ."""
    return pd.DataFrame(
        {
            "system": ["a", "a", "a", "b"],
            "dtype": "bf16",
            "m": [1, 2, 3, 1],
            "n": [64, 64, 128, 64],
            "k": [64, 64, 64, 64],
            "latency_us": [5.0, 5.0, 5.0, 50.0],
            "model_us": [5.5, 5.5, 5.5, 40.0],
            "roofline_us": [10.0, 10.0, 10.0, 100.0],
            "latency_bucket": ["<10", "<10", "<10", "<10"],
            "shape_class": ["decode", "square", "decode", "square"],
            "spread": [1.1, 1.0, 1.3, 1.0],
            "n_sources": [2, 1, 3, 1],
        }
    )


def test_bias_over_gpus_by_rows_and_with_equal_weights():
    (found,) = pooled_bias(_rows())
    assert (found.dtype, found.bucket, found.count, found.gpus) == ("bf16", "<10", 4, 2)
    assert found.by_rows.value == pytest.approx((3 * 10 - 20) / 4)
    assert found.by_gpus.value == pytest.approx((10 - 20) / 2)
    assert found.by_gpus.interval == pytest.approx((-5.0, 10.0))  # draws of pair (128, 64) alone hold only GPU a
    means = mean_of_gpus(_rows())["bf16"]
    assert means["model"].value == pytest.approx((10 + 20) / 2)
    assert means["roofline"].value == pytest.approx(100.0)


def test_the_spread_stands_beside_the_errors_on_rows_that_were_timed_more_than_once():
    (found,) = source_spread(_rows())
    assert found.at == {"gpu": "a"}
    assert (found.count, found.all_rows) == (2, 3)
    assert found.spread == pytest.approx(20.0)
    assert found.errors["model"].mape == pytest.approx(10.0)
    assert source_spread(_rows().drop(columns="spread")) == []


def test_a_breakdown_has_a_cell_for_every_combination_in_natural_order():
    rows = _rows().assign(latency_bucket=["10-30", "<10", ">1000", "<10"])
    assert [cell.at["latency"] for cell in breakdown(rows, ["latency"])] == ["<10", "10-30", ">1000"]
    cells = breakdown(rows, ["gpu", "class"])
    assert [tuple(cell.at.values()) for cell in cells] == [("a", "decode"), ("a", "square"), ("b", "square")]
    assert [cell.errors["model"].count for cell in cells] == [2, 1, 1]
    (whole,) = breakdown(rows, [])
    assert whole.errors["model"].count == 4
    with pytest.raises(UserError, match="unknown axis 'gpus'; known: class, dtype, gpu, latency; did you mean 'gpu'"):
        breakdown(rows, ["gpus"])


def test_a_method_without_some_predictions_is_judged_on_the_others():
    rows = _rows().assign(nvmatmul_us=[6.0, np.nan, np.nan, np.nan])
    found = errors_of(rows)
    assert found["nvmatmul"].count == 1
    assert found["nvmatmul"].mape == pytest.approx(20.0)
    assert "nvmatmul" not in mean_of_gpus(rows)["bf16"]
    assert "nvmatmul" not in errors_of(_rows())
