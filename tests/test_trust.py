"""Labels: whose residuals speak for a prediction, what it extrapolates, and how wide its interval then is."""

import json

import numpy as np
import pytest
from trust_tables import FILES, packaged, residual_table, residuals, unfitted

from dse import load_gpu
from dse.api import ask, make_job
from dse.errors import UserError
from dse.trust import label_of, packaged_residuals
from dse.trust.elsewhere import elsewhere_cells, expected_quantiles
from dse.trust.nearest import HEADLINES, nearest_validated, record_numbers
from dse.trust.residuals import PROBABILITIES, from_dict, read_residuals
from dse.validation.residual_table import build_residuals

TABLE = residual_table()
SHAPE = "4096x4096x4096"


def label(gpu="h100_sxm", shape=SHAPE, dtype="bf16", table=TABLE, level=0.9, **question):
    return label_of(make_job(ask(shape, dtype, gpu, **question)), level, table)


def wider(one, other):
    """Whether no interval of a label is inside of another's."""
    return all(
        wide.low <= narrow.low and wide.high >= narrow.high
        for wide, narrow in zip(one.buckets, other.buckets, strict=True)
        if narrow.rows
    )


def test_inside_of_what_was_validated_nothing_is_extrapolated():
    found = label()
    assert (found.validated_gpu, found.validated_dtype, found.shape_class) == ("h100_sxm", "bf16", "square")
    assert found.extrapolates == ()
    low, high = found.interval(np.array([2e-5, 2e-4]))
    assert (low < [2e-5, 2e-4]).all()
    assert (high > [2e-5, 2e-4]).all()
    rows = TABLE.of("h100_sxm", "bf16").cells["square"]["100-1000"].rows
    assert found.line(2e-4) == (
        f"90 % interval {low[1] * 1e6:.4g} to {high[1] * 1e6:.4g} us: residuals of {rows} measured shapes "
        "(h100_sxm, bf16, square, 100-1000 us)"
    )
    assert found.about() == ["90 % intervals from residuals on h100_sxm, bf16; shape class square"]


def test_what_quantising_costs_is_compared_where_it_runs_only():
    changed = {"overrides": {"quantise_launch_s": "9e-6"}}
    assert label(**changed).extrapolates == ()
    numbers = TABLE.of("h100_sxm", "bf16").numbers | {"quantise_launch_s": 9e-6}
    asked = TABLE, numbers, "bf16", "wgmma", "h100_sxm", "boost"
    assert list(nearest_validated(*asked, quantise_a=True).differences) == ["quantise_launch_s"]
    assert nearest_validated(*asked, quantise_a=False).differences == {}


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        ({"gpu": "l40s"}, "l40s was not measured: a100_sxm is the nearest that was"),
        ({"gpu": "h100_pcie"}, "h100_pcie was not measured: h100_sxm is the nearest that was"),
        ({"gpu": "rtx_5090"}, "rtx_5090 was not measured: a100_sxm is the nearest that was"),
        (
            {"overrides": {"l2_capacity": "2x"}},
            "h100_sxm was validated with other numbers, more than 10% off: l2_capacity_bytes is 2 x",
        ),
        ({"family": "mma_sync"}, "mma_sync was not validated on h100_sxm: wgmma was"),
        ({"dtype": "fp8"}, "fp8 was not validated on h100_sxm: the residuals are those of bf16"),
    ],
)
def test_a_machine_that_was_not_validated_has_the_errors_of_gpus_without_a_fit(asked, text):
    found = label(**asked)
    assert text in found.extrapolates
    assert f"extrapolates: {text}" in found.about()
    assert found.about()[0] == (
        "90 % intervals from residuals on GPUs that nothing was fitted for (a100_sxm, h100_sxm, h200_sxm); "
        f"nearest validated: {found.validated_gpu}, bf16; shape class square"
    )
    assert "residuals on GPUs that nothing was fitted for (a100_sxm, h100_sxm, h200_sxm; " in found.line(2e-5)
    assert wider(found, label(found.validated_gpu))


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        ({"dtype": "fp16"}, "fp16 was not validated on h100_sxm: the residuals are those of bf16"),
        ({"clock": "sustained"}, "the sustained clock was not validated: boost was"),
        ({"shape": f"8x{SHAPE}"}, "batch 8 was not validated: single GEMMs were"),
        ({"layout": "nn"}, "layout nn was not validated: tn was"),
        ({"cache": "cold"}, "L2 at the start cold was not validated: a_warm was"),
        ({"beta": True}, "a C that is read and added was not validated: plain outputs were"),
        ({"out_dtype": "fp32"}, "output fp32 was not validated: bf16 was"),
        ({"align_bytes": 16}, "rows aligned to 16 B were not validated: packed rows were"),
        (
            {"shape": "4096x4096x200000"},
            "k = 200000 is outside of what was measured on h100_sxm, 128 to 16384",
        ),
    ],
)
def test_a_problem_that_was_not_validated_has_the_widest_errors_of_its_gpu(asked, text):
    found = label(**asked)
    assert text in found.extrapolates
    assert f"extrapolates: {text}" in found.about()
    assert ", the widest of any class and length; shape class" in found.about()[0]
    assert found.line(2e-5).endswith("the widest residuals of any class and length (h100_sxm, bf16)")
    for shape in (SHAPE, "1x4096x4096", "64x4096x4096", "64x64x8192", "4096x4096x128"):
        assert wider(found, label(shape=shape))
    cells = [cell for buckets in TABLE.of("h100_sxm", "bf16").cells.values() for cell in buckets.values() if cell.rows]
    lowest = np.exp(min(cell.bounds(0.9)[0] for cell in cells))
    assert max(at.low for at in found.buckets) == pytest.approx(lowest)


def test_small_changes_and_copies_of_a_file_are_the_validated_gpu(tmp_path):
    assert label(overrides={"ddr_bytes_per_s": "+5%"}).extrapolates == ()
    copy = tmp_path / "my_gpu.toml"
    copy.write_text('base = "h200_sxm"\ntitle = "mine"\n')
    found = label(str(copy))
    assert (found.validated_gpu, found.extrapolates) == ("h200_sxm", ())
    copy.write_text(
        'base = "h200_sxm"\ntitle = "mine"\n[engine]\nsm_count = { value = 66, kind = "assumed", source = "half" }\n'
        '[clusters]\ngpc_sms = { value = [18, 16, 16, 16], kind = "assumed", source = "half" }\n'
    )
    assert label(str(copy)).extrapolates[0] == "my_gpu was not measured: h200_sxm is the nearest that was"


def test_many_changed_numbers_are_counted_and_those_of_the_type_left_out_for_another_type():
    changes = {
        "l2_capacity": "2x",
        "ddr_bytes_per_s": "2x",
        "l2_bytes_per_s": "2x",
        "sm_port": "2x",
        "cta_launch": "3x",
    }
    (text,) = label(overrides=changes).extrapolates
    assert text.count(" is 2 x") + text.count(" is 3 x") == 4
    assert text.endswith(", 1 more")
    faster = label(dtype="fp16", overrides={"tensor_flop_per_clock_sm": "2x"}).extrapolates
    assert faster == ("fp16 was not validated on h100_sxm: the residuals are those of bf16",)


def test_the_rule_for_the_nearest_gpu():
    numbers = record_numbers(load_gpu("h200_sxm").bind("bf16"))
    assert nearest_validated(TABLE, numbers, "bf16", "wgmma", "a100_sxm").gpu == "a100_sxm"  # the name comes first
    assert nearest_validated(TABLE, numbers, "bf16", "wgmma", "other").gpu == "h200_sxm"
    halfway = {name: value * (0.99 if name in HEADLINES else 1.0) for name, value in numbers.items()}
    near = nearest_validated(TABLE, halfway, "bf16", "wgmma")
    assert (near.gpu, near.same_gpu) == ("h200_sxm", True)
    assert nearest_validated(TABLE, numbers, "bf16", "mma_sync", "other").gpu == "a100_sxm"  # the family weighs more


def test_records_as_numbers():
    numbers = record_numbers(load_gpu("h100_sxm").bind("bf16"))
    assert numbers["sm_count"] == 132
    assert numbers["mma.m"] == 64
    assert numbers["cluster_sms.1"] == 132
    assert numbers["drift_skew_steps"] == 0  # off, and absent in the record


@pytest.mark.parametrize("shape", [SHAPE, "4x16384x16384"])
@pytest.mark.parametrize("gpu", ["h100_sxm", "l40s"])
def test_a_higher_level_is_never_narrower(gpu, shape):
    levels = (0.1, 0.5, 0.68, 0.8, 0.9, 0.95, 0.99)
    labels = [label(gpu, shape, level=level) for level in levels]
    low = np.array([[at.low for at in found.buckets] for found in labels])
    high = np.array([[at.high for at in found.buckets] for found in labels])
    assert (np.diff(low, axis=0) <= 0).all()
    assert (np.diff(high, axis=0) >= 0).all()
    assert (np.diff(high / low, axis=0) > 0).all()


@pytest.mark.parametrize("level", [0.0, 1.0, -1.0])
def test_levels_that_are_not_allowed(level):
    with pytest.raises(UserError, match=r"level = .*: above 0, at most 0\.99"):
        label(level=level)


def test_a_gpu_without_a_fit_is_further_off_than_any_that_is_known():
    rng = np.random.default_rng(0)
    quantiles = np.sort(rng.normal(0, 0.1, (4, len(PROBABILITIES))), axis=1)
    found = expected_quantiles(quantiles)
    middle = PROBABILITIES.index(0.5)
    assert (np.diff(found) >= 0).all()
    assert (found[:middle] <= quantiles[:, :middle].min(axis=0)).all()
    assert (found[middle + 1 :] >= quantiles[:, middle + 1 :].max(axis=0)).all()
    alike = np.tile(quantiles[0], (4, 1))
    np.testing.assert_allclose(expected_quantiles(alike), alike[0])  # GPUs that do not differ add nothing
    apart = alike + np.array([0.0, 0.3, -0.3, 0.0])[:, None]
    spread = np.std([0.0, 0.3, -0.3, 0.0], ddof=1) * np.sqrt(5 / 4) * 2.3534  # Student, 3 degrees of freedom, 95 %
    own = apart.mean(axis=0)
    at = PROBABILITIES.index(0.95)
    expected = own[middle] + np.hypot(own[at] - own[middle], spread)
    assert expected_quantiles(apart)[at] == pytest.approx(expected, rel=1e-4)


def test_data_types_speak_for_themselves_where_two_gpus_have_them():
    both = TABLE.to_dict()
    for entry in TABLE.to_dict()["unfitted"][1:]:
        both["unfitted"].append(entry | {"dtype": "fp8"})
    table = from_dict(both)
    assert elsewhere_cells(table, "fp8")[1] == ("h100_sxm", "h200_sxm")
    assert elsewhere_cells(table, "int8")[1] == ("a100_sxm", "h100_sxm", "h200_sxm")
    assert elsewhere_cells(table.without("h100_sxm"), "fp8")[1] == ("a100_sxm", "h200_sxm")
    assert elsewhere_cells(table.without("h100_sxm").without("a100_sxm"), "bf16") == (None, ())


def test_flop_and_bytes_are_named_where_no_dimension_is_outside():
    content = TABLE.to_dict()
    for entry in content["validated"]:
        entry["ranges"] |= {"FLOP": [1.0, 1e9], "bytes": [1e9, 2e9]}
    assert label(table=from_dict(content)).extrapolates == (
        "FLOP = 1.37e+11 is outside of what was measured on h100_sxm, 1 to 1e+09",
        "bytes = 1.01e+08 is outside of what was measured on h100_sxm, 1e+09 to 2e+09",
    )


def test_a_machine_and_a_problem_outside_have_the_wider_of_both():
    both = label("l40s", "4096x4096x200000")
    assert [text.split()[0] for text in both.extrapolates] == ["l40s", "k"]
    assert both.evidence == "elsewhere"
    assert wider(both, label("l40s", "4096x4096x16384"))
    assert wider(both, label("a100_sxm", "4096x4096x200000"))
    alone = label("l40s", table=TABLE.without("h100_sxm").without("h200_sxm"))  # one GPU says nothing of others
    assert alone.evidence == "gpu"
    assert alone.about()[0].startswith("90 % intervals from residuals on a100_sxm, bf16, the widest of any class")


def test_a_gpu_left_out_is_as_if_it_had_not_been_measured():
    found = label("h200_sxm", table=TABLE.without("h200_sxm"))
    assert found.extrapolates == ("h200_sxm was not measured: h100_sxm is the nearest that was",)
    assert found.elsewhere_gpus == ("a100_sxm", "h100_sxm")
    inside = label("h200_sxm")
    for wide, narrow in zip(found.buckets, inside.buckets, strict=True):
        assert wide.high / wide.low > narrow.high / narrow.low


def test_cells_without_rows_say_so():
    content = TABLE.to_dict()
    for entry in content["validated"]:
        entry["cells"]["square"]["<10"] |= {"rows": 0, "pairs": 0}
        entry["cells"]["square"]["10-30"] |= {"rows": 1, "pairs": 1}
    found = label(table=from_dict(content))
    assert found.line(5e-6).endswith(
        "no measured shape of this class and length (square, <10 us), residuals of all of h100_sxm, bf16"
    )
    assert "residuals of 1 measured shape (h100_sxm, bf16, square, 10-30 us)" in found.line(2e-5)


def test_the_table_as_json_and_back(tmp_path, monkeypatch):
    again = from_dict(json.loads(json.dumps(TABLE.to_dict())))
    assert again.hash == TABLE.hash
    assert again.to_dict() == TABLE.to_dict()
    path = packaged(tmp_path, monkeypatch)
    assert packaged_residuals().hash == TABLE.hash
    assert label(table=None).residuals == TABLE.hash
    for text in ("{", "[]", '{"schema_version": 0}'):
        path.write_text(text)
        with pytest.raises(
            UserError, match=r"is no table of residuals .*; make it again with scripts/make_residuals.py"
        ):
            read_residuals(path)


def test_no_residuals_no_label():
    empty = from_dict(TABLE.to_dict() | {"validated": []})
    assert label(table=empty) is None


def test_kernels_that_quantise_a_are_part_of_what_was_measured():
    alone = label(table=TABLE, dtype="fp8", quantise_a=True).extrapolates
    assert not any("quantise" in text for text in alone)  # the type itself was not validated: that is said
    rows = residuals(dtype="fp8").assign(quantise_a=True)
    table = build_residuals(rows[rows["system"] != "a100_sxm"], unfitted(), FILES)
    assert table.of("h100_sxm", "fp8").quantise_a
    assert label(table=table, dtype="fp8", quantise_a=True).extrapolates == ()
    assert label(table=table, dtype="fp8").extrapolates == (
        "the GEMM alone was not validated: kernels that quantise A were measured with it (--quantise-a)",
    )
    rows = rows.assign(quantise_a=np.nan)
    table = build_residuals(rows[rows["system"] != "a100_sxm"], unfitted(), FILES)
    assert label(table=table, dtype="fp8", quantise_a=True).extrapolates == (
        "kernels that quantise A before the GEMM were not validated: the GEMM alone was",
    )
