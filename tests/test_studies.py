"""Studies as files and commands: what is wrong with one, its folder, and the same answer from the study it leaves."""

import json

import numpy as np
import pyarrow.parquet as pq
import pytest
from cli_run import answer

from dse.content.study import list_studies, load_study, study_text
from dse.errors import UserError
from dse.studies.answer_folder import cleared, new_folder


def test_every_packaged_study_loads_and_says_itself_again(tmp_path) -> None:
    studies = list_studies()
    assert {"bigger_l2", "memory_bandwidth", "more_sms", "shared_memory", "tensor_rate", "launch_overhead"} <= set(
        studies
    )
    for path in studies.values():
        study = load_study(path)
        copy = tmp_path / path.name
        copy.write_text(study_text(study))
        assert load_study(copy) == study, path


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            'gpu = "h200_sxm"\nshapes = "llama3_70b"',
            "axis: nothing is varied: write [[axis]] with a field, or several gpus",
        ),
        ('shapes = "llama3_70b"', 'gpu: give one of gpu = "h200_sxm" and gpus = ["h100_sxm", "h200_sxm"]'),
        (
            'gpu = "h200_sxm"\n[[axis]]\nfield = "l2_ways"\nvalues = [2]',
            "shapes: is missing: the name or path of a list",
        ),
        ('gpu = "h200_sxm"\nshape = "x"\n', "shape: is not a key of a study; did you mean 'shapes'?"),
        ('gpu = 3\nshapes = "llama3_70b"', "gpu: 3 is not a text"),
        (
            'gpu = "h200_sxm"\nshapes = "a"\n[[axis]]\nfield = "l2way"\nvalues = [2]',
            "axis 1: unknown GPU field 'l2way'",
        ),
        ('figures = "no"', "figures: 'no' is neither true nor false"),
        ("clock = 3", "clock: 3 is not a text"),
        ('align_bytes = "16"', "align_bytes: '16' is not a whole number of bytes, e.g. 16"),
        ('dtype = "fp8"\n[measured]', "dtype: says nothing beside [measured], whose GPUs are compared as they were"),
        ('gpu = "h100_sxm"\n[measured]\npart = "check"', "measured: compares GPUs with their measurements: give gpus"),
    ],
)
def test_everything_wrong_with_a_study_is_said(tmp_path, text: str, said: str) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(text)
    with pytest.raises(UserError) as error:
        load_study(path)
    assert said in str(error.value)


def test_the_command_answers_and_leaves_a_study_that_answers_the_same(capsys, tmp_path) -> None:
    options = ["--axis", "tile_m=64,128", "--axis", "stages=2,4", "--preset", "quick", "--quiet"]
    one = ("whatif", "--vary", "l2_capacity=2x", "--shape", "4096x4096x4096", "--out", str(tmp_path / "one"), *options)
    code, out, err = answer(capsys, *one)
    assert (code, err) == (0, "")
    assert "at 104.9 MB (2x) the total is" in out
    assert "shape by shape, l2_capacity_bytes 104.9 MB" in out
    again = ("study", str(tmp_path / "one" / "study.toml"), "--out", str(tmp_path / "two"), "--json", "--quiet")
    code, out, _ = answer(capsys, *again)
    assert code == 0
    first, second = (pq.read_table(tmp_path / name / "table.parquet") for name in ("one", "two"))
    assert first.equals(second)
    assert json.loads(out)["totals"][1]["speedup"] == pytest.approx(first["speedup"][1].as_py())
    field = first.schema.field("latency_s")
    assert field.metadata[b"unit"] == b"s"
    made = json.loads(pq.read_schema(tmp_path / "one" / "totals.parquet").metadata[b"tilesweep"])
    assert made["command_line"].startswith("dse whatif --vary l2_capacity=2x")
    assert made["spaces"]
    assert (tmp_path / "one" / "figure.svg").read_text().startswith("<?xml")


def test_a_folder_with_something_else_in_it_is_left_alone(capsys, tmp_path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    code, _, err = answer(
        capsys, "whatif", "--vary", "l2_capacity=2x", "--shape", "8x8x8", "--out", str(tmp_path), "--overwrite"
    )
    assert code == 2
    assert f"{tmp_path} is not empty (mine.txt): choose another with --out" in err
    assert (tmp_path / "mine.txt").read_text() == "mine"


def test_a_shape_that_nothing_runs_is_named(capsys, tmp_path) -> None:
    words = ("whatif", "--vary", "l2_capacity=2x", "--shape", "33x3001x700", "--out", str(tmp_path / "x"), "--quiet")
    code, _, err = answer(capsys, *words, "--preset", "quick")
    assert code == 2
    assert "no schedule of the space can run 33x3001x700 on h200_sxm: widen the space or its preset" in err


@pytest.mark.usefixtures("compiled_as_for_users")
def test_a_change_that_happened(capsys, tmp_path) -> None:
    code, out, err = answer(capsys, "study", "h100_to_h200", "--out", str(tmp_path / "back"))
    assert code == 0
    assert err.splitlines() == [
        "h100_sxm bf16: 900 shapes over the preset library",
        "h200_sxm bf16: 900 shapes over the preset library",
    ]
    assert "h100_sxm -> h200_sxm: 900 shapes" in out
    rows = pq.read_table(tmp_path / "back" / "table.parquet").to_pandas()
    assert len(rows) == 900
    np.testing.assert_allclose(rows["error"], rows["model"] / rows["measured"] - 1)
    assert 100 * np.abs(rows["error"]).mean() < 6  # the accuracy page says what it is


def test_what_was_measured_has_its_own_shapes(capsys) -> None:
    code, _, err = answer(capsys, "study", "h100_to_h200", "--shapes", "llama3_70b")
    assert code == 2
    assert "--shapes cannot replace what was measured: edit a copy of the study file" in err


def test_the_list_of_studies(capsys) -> None:
    code, out, _ = answer(capsys, "study")
    assert code == 0
    assert "bigger_l2" in out
    code, _, err = answer(capsys, "study", "biger_l2")
    assert code == 2
    assert "did you mean 'bigger_l2'?" in err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--front", "latency"], "unknown quantity of a front of machines 'latency'"),
        (["--preset", "nope"], "unknown preset of the space gemm/wgmma 'nope'"),
        (["--dtype", "fp7"], "unknown dtype 'fp7'"),
    ],
)
def test_an_older_answer_is_there_until_the_new_one_is(capsys, tmp_path, options, said) -> None:
    old = tmp_path / "old"
    old.mkdir()
    (old / "answer.json").write_text("{}")
    words = ("whatif", "--vary", "l2_capacity=2x", "--shape", "512x512x512", "--quiet", *options)
    code, _, err = answer(capsys, *words, "--out", str(old), "--overwrite")
    assert (code, said in err) == (2, True), err
    assert (old / "answer.json").read_text() == "{}"
    assert answer(capsys, *words, "--out", str(tmp_path / "new"))[0] == 2
    assert not (tmp_path / "new").exists()  # no empty folder is left of bad input


def test_what_was_left_half_written_is_replaced(tmp_path) -> None:
    (tmp_path / ".table.parquet.77.tmp").write_text("x")
    (tmp_path / "figure.svg").write_text("x")
    with pytest.raises(UserError, match="replace it with --overwrite"):
        new_folder(tmp_path)
    assert len(list(tmp_path.iterdir())) == 2
    cleared(new_folder(tmp_path, overwrite=True))
    assert not list(tmp_path.iterdir())


def test_a_title_may_hold_anything(capsys, tmp_path) -> None:
    """Dollars are no mathematics, quotes and controls survive, and the study says itself again."""
    study = tmp_path / "s.toml"
    study.write_text(
        'title = "$5 \\\\frac{ \\"quoted\\" é 漢 😀 \\u007f\\u0001\\n$x_$"\ngpu = "h200_sxm"\n'
        'shapes = ["512x512x512"]\npreset = "quick"\nfigures = true\nbeta = true\n[set]\n'
        'tensor.wgmma.bf16_fp32 = "2x"\n[restrict]\nstages = [2, 3]\n'
        '[[axis]]\nname = "$a_"\nfield = "l2_capacity_bytes"\nvalues = ["2x"]\nfollow = { tdp_w = 1 }\n'
    )
    code, out, err = answer(capsys, "study", str(study), "--out", str(tmp_path / "a"), "--quiet")
    assert code == 0, err
    assert "tensor.wgmma.bf16_fp32: 4096 -> 8192 (2x)" in out
    first, again = load_study(study), load_study(tmp_path / "a" / "study.toml")
    assert again.title == first.title
    assert study_text(again) == study_text(first)
    assert again.overrides == {"tensor.wgmma.bf16_fp32": "2x"}
    code, _, err = answer(
        capsys, "study", str(tmp_path / "a" / "study.toml"), "--out", str(tmp_path / "b"), "--no-figure"
    )
    assert code == 0, err
    assert pq.read_table(tmp_path / "a/table.parquet").equals(pq.read_table(tmp_path / "b/table.parquet"))
    assert "figures = false" in (tmp_path / "b/study.toml").read_text()
    assert not load_study(tmp_path / "b/study.toml").figures
