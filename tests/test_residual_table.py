"""Tables of residuals: quantiles that fall back on wider groups, and intervals that cover what they promise."""

import numpy as np
import pandas as pd
import pytest
from measured_tables import measured_table, predicted_best
from trust_tables import FILES, GPUS, residual_table, residuals, unfitted

import dse.validation.validate as validate
from dse.errors import UserError
from dse.latency_bucket import BUCKETS
from dse.shape_class import CLASSES
from dse.trust.residuals import PROBABILITIES
from dse.validation.coverage import (
    coverage,
    cross_validated,
    with_intervals,
    with_intervals_elsewhere,
    with_intervals_of_other_kinds,
)
from dse.validation.residual_table import (
    PRIOR_PAIRS,
    build_residuals,
    cells_of,
    effective_pairs,
    residual_rows,
    without_optimism,
)

MIDDLE = PROBABILITIES.index(0.5)


def build(rows):
    return build_residuals(rows, rows.iloc[:0], FILES)


def test_effective_pairs():
    assert effective_pairs(np.array([1, 1, 2, 2, 3, 3])) == pytest.approx(3.0)
    assert effective_pairs(np.array([1] * 98 + [2, 3])) == pytest.approx(100**2 / (98**2 + 2))
    assert effective_pairs(np.array([], int)) == 0.0


def rows_of(cells: dict[tuple[str, str, str], tuple[int, float]]) -> pd.DataFrame:
    """(GPU, bucket, class) -> (pairs, their log ratio): one row a pair."""
    frames = [
        pd.DataFrame({"system": gpu, "bucket": bucket, "shape_class": name, "n": np.arange(pairs), "k": place}).assign(
            log_ratio=ratio
        )
        for place, ((gpu, bucket, name), (pairs, ratio)) in enumerate(cells.items())
    ]
    return pd.concat(frames, ignore_index=True)


def test_cells_fall_back_on_their_bucket_then_their_gpu_then_on_all():
    many = 2000
    rows = rows_of(
        {
            ("a", "<10", "decode"): (many, 1.0),
            ("a", "<10", "square"): (1, 9.0),
            ("a", "10-30", "decode"): (many, 2.0),
            ("b", "<10", "decode"): (4 * many, 3.0),
        }
    )
    cells = cells_of(rows, "a")

    def median(name, bucket):
        return cells[name][bucket].log_ratio[MIDDLE]

    assert median("decode", "<10") == pytest.approx(1.0)
    assert median("decode", "10-30") == pytest.approx(2.0)
    assert median("square", "<10") == pytest.approx(1.0, abs=0.01)  # one pair against its bucket
    assert median("deep-K", "10-30") == pytest.approx(2.0)  # no rows of its own: its bucket's
    assert (cells["deep-K"]["10-30"].rows, cells["deep-K"]["10-30"].pairs) == (0, 0)
    assert 1.0 <= median("square", ">1000") <= 2.0  # nothing in the bucket: the GPU's
    stranger = cells_of(rows, "c")["square"][">1000"].log_ratio[MIDDLE]
    assert stranger == pytest.approx(3.0)  # nothing of the GPU: all
    assert set(cells) == set(CLASSES)
    assert all(set(buckets) == set(BUCKETS) for buckets in cells.values())


def test_a_group_counts_with_its_pairs_against_the_prior():
    pairs = int(PRIOR_PAIRS[2])  # as much evidence as the bucket around it counts
    rows = rows_of({("a", "<10", "decode"): (100_000, 0.0), ("a", "<10", "square"): (pairs, 1.0)})
    ratio = np.array(cells_of(rows, "a")["square"]["<10"].log_ratio)
    below = ratio[: PROBABILITIES.index(0.25) + 1]  # half of the weight is the bucket's, at 0, half its own, at 1
    np.testing.assert_allclose(below, 0.0, atol=0.01)
    np.testing.assert_allclose(ratio[PROBABILITIES.index(0.75) :], 1.0, atol=0.01)


def test_intervals_cover_unseen_pairs():
    rows = residuals(pairs=150, seed=3)
    runs = cross_validated(rows, build, seeds=range(4))
    assert np.mean([coverage(run)[0].covered for run in runs]) == pytest.approx(0.9, abs=0.03)
    for run in runs:
        judged = set(zip(run["n"], run["k"], strict=True))
        assert 0 < len(judged) < len(rows[["n", "k"]].drop_duplicates())
    low = np.mean([coverage(run)[0].covered for run in cross_validated(rows, build, seeds=range(4), level=0.5)])
    assert low == pytest.approx(0.5, abs=0.06)


def test_bias_is_part_of_the_interval():
    bias = {"a100_sxm": 0.3, "h100_sxm": 0.0, "h200_sxm": 0.0}
    rows = residuals(pairs=100, bias=bias)
    found = coverage(with_intervals(build(rows), residuals(pairs=100, seed=9, bias=bias)), ["gpu"])
    assert [at.at["gpu"] for at in found] == list(GPUS)
    for at in found:
        assert 0.85 < at.covered < 0.97
        assert at.below < 0.1
        assert at.above < 0.1
    biased = build(rows).of("a100_sxm", "bf16").cells["square"]["100-1000"].bounds(0.9)
    assert biased[0] > 0.05


def test_the_fitted_part_gets_no_credit_for_its_fit():
    rows = residuals(pairs=80)
    fit = rows["k"] > 1000
    rows.loc[fit, "part"] = "fit"
    tame = rows.assign(log_ratio=np.where(fit, 0.5, 1.0) * rows["log_ratio"])
    found = without_optimism(tame)
    assert (found.index == rows.index).all()
    np.testing.assert_allclose(found.loc[~fit, "log_ratio"], tame.loc[~fit, "log_ratio"])
    median = tame.groupby("system")["log_ratio"].transform("median")
    off, was = (found["log_ratio"] - median).abs(), (tame["log_ratio"] - median).abs()
    factor = was[~fit].mean() / was[fit].mean()
    assert factor > 1.5
    np.testing.assert_allclose(off[fit], factor * was[fit])
    wild = tame.assign(log_ratio=np.where(fit, 3.0, 1.0) * rows["log_ratio"])
    np.testing.assert_allclose(without_optimism(wild)["log_ratio"], wild["log_ratio"])  # never narrowed
    for some in (tame[fit], tame[~fit]):
        np.testing.assert_array_equal(without_optimism(some)["log_ratio"], some["log_ratio"])


def test_coverage_is_what_a_hand_counts():
    rows = pd.DataFrame(
        {
            "system": ["a", "a", "a", "b"], "dtype": "bf16", "n": [1, 1, 2, 2], "k": 1, "bucket": "<10",
            "shape_class": "square", "log_ratio": [0.0, 0.5, -0.5, 0.0], "log_low": -0.1, "log_high": 0.1,
        }
    )  # fmt: skip
    (every,) = coverage(rows)
    assert (every.rows, every.pairs, every.covered, every.below, every.above) == (4, 2, 0.5, 0.25, 0.25)
    assert every.width == pytest.approx(np.expm1(0.2))
    low, high = every.interval
    assert low <= 0.5 <= high
    by_gpu = coverage(rows, ["gpu"])
    assert [(at.at, at.rows, at.covered) for at in by_gpu] == [({"gpu": "a"}, 3, 1 / 3), ({"gpu": "b"}, 1, 1.0)]
    assert by_gpu[1].interval is None
    assert by_gpu[1].to_dict()["gpu"] == "b"


def test_gpus_left_out_are_covered_by_wider_intervals():
    table = residual_table()
    fresh = unfitted(seed=11)
    found = with_intervals_elsewhere(table, fresh, FILES)
    assert all(at.covered >= 0.8 for at in coverage(found, ["gpu"]))
    inside = with_intervals(table, fresh)
    assert ((found["log_high"] - found["log_low"]) > (inside["log_high"] - inside["log_low"])).all()
    assert coverage(inside)[0].covered < coverage(found)[0].covered


def test_kinds_left_out_get_the_widest_interval_of_the_others():
    rows = residuals(pairs=100, seed=4)
    deep = rows["shape_class"] == "deep-K"
    rows.loc[deep, "log_ratio"] *= 0.5  # a tame class: the others' intervals hold it
    found = with_intervals_of_other_kinds(rows, build, "class")
    by_class = {at.at["class"]: at for at in coverage(found, ["class"])}
    assert by_class["deep-K"].covered > 0.97
    others = build(rows[~deep]).of("h100_sxm", "bf16").cells
    lowest = min(cell.bounds(0.9)[0] for buckets in others.values() for cell in buckets.values() if cell.rows)
    judged = found[(found["shape_class"] == "deep-K") & (found["system"] == "h100_sxm")]
    assert judged["log_low"].unique() == pytest.approx([lowest])


def test_the_table_says_what_it_was_made_of():
    rows = residuals()
    table = build_residuals(rows, unfitted(), FILES, {"parts": ["check"]})
    assert table.gpus == GPUS
    assert table.dtypes("h100_sxm") == ("bf16",)
    of = table.of("h100_sxm", "bf16")
    own = rows[rows["system"] == "h100_sxm"]
    assert (of.rows, of.family, of.ranges["m"]) == (len(own), "wgmma", (own["m"].min(), own["m"].max()))
    assert of.ranges["FLOP"][1] == (2.0 * own["m"] * own["n"] * own["k"]).max()
    assert sum(cell.rows for buckets in of.cells.values() for cell in buckets.values()) == len(own)
    assert table.of("h100_sxm", "fp8") is None
    assert table.made_from == {"parts": ["check"]}


def test_rows_come_from_the_validation(tmp_path, monkeypatch):
    monkeypatch.setattr(validate, "best_schedules", predicted_best)
    path = tmp_path / "table.csv"
    measured_table().to_csv(path, index=False)
    files = {name: FILES[name] for name in ("h100_sxm", "h200_sxm", "a100_sxm")}
    rows = residual_rows(files, [str(path)], ["fit", "check"])
    assert set(rows["part"]) == {"fit", "check"}
    assert set(rows["system"]) == {"h100_sxm", "h200_sxm"}  # the table has no A100
    np.testing.assert_allclose(np.exp(rows["log_ratio"]) * rows["model_us"], rows["latency_us"])
    assert (rows["bucket"][rows["model_us"] < 10] == "<10").all()
    with pytest.raises(UserError, match="none of the measured tables has rows of a100_sxm"):
        residual_rows({"a100_sxm": FILES["a100_sxm"]}, [str(path)])
