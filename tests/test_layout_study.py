"""Studies of layouts: files and what is wrong with them, answers of every machine, the folder, the two commands."""

import json

import pandas as pd
import pyarrow.parquet as pq
import pytest
from cli_run import answer, json_answer

import dse
from dse.content.layout_study import LayoutStudy
from dse.content.study import load_study, study_text
from dse.errors import UserError
from dse.studies.layouts.study import TABLE, best_at, run_layout_study

STUDY = """
title = "Links"
kernel = "sharding"
preset = "plain"
users = [60]

[restrict]
tp = [1, 8]
pp = 1
batch = [1, 16, 64]

[[service]]
model = "llama3_8b"
gpu = "h100_sxm"
gpus = 8
phase = "decode"

[[axis]]
field = "fabric.link"
values = ["0.5x", "4x"]

[[axis]]
field = "engine.step_s"
values = ["0x"]
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    path = tmp_path_factory.mktemp("study") / "links.toml"
    path.write_text(STUDY)
    return run_layout_study(load_study(path))


def test_a_study_says_itself_again(tmp_path) -> None:
    path = tmp_path / "links.toml"
    path.write_text(STUDY + '[set]\nfabric.latency = "0.5x"\nl2_capacity = "2x"\n')
    study = load_study(path)
    assert isinstance(study, LayoutStudy)
    assert study.overrides == {"fabric.latency": "0.5x", "l2_capacity": "2x"}
    path.write_text(study_text(study))
    assert load_study(path) == study


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "service: is missing: write [[service]] with model"),
        ("", "axis: nothing is varied: write [[axis]] with a field, e.g. fabric.link"),
        ('shapes = "llama3_70b"', "shapes: is not a key of a study of layouts"),
        ("users = [0]", "users: [0] is not a list of tokens a second for a user, e.g. [20, 50]"),
        ("title = 3", "title: 3 is not a text"),
        ('[[service]]\nmodel = "llama3_8b"', "service 1.gpus: is missing"),
        ('[[service]]\nmodel = "a"\ngpu = "b"\ngpus = "8"', "service 1.gpus: '8' is not a whole number"),
        ('[[service]]\nmodel = "a"\ngpu = "b"\ngpus = true', "service 1.gpus: True is not a whole number"),
        ("[[service]]\ninput_token = 3", "service 1.input_token: is not known; did you mean 'input_tokens'?"),
        (
            '[[axis]]\nfield = "fabric.link"\nvalues = [2]',
            "axis 1: axis fabric.link: numbers of a fabric are varied by",
        ),
        (
            '[[axis]]\nfield = "engine.step_s"\nvalues = [0]',
            "axis 1: axis engine.step_s: numbers of an engine are varied",
        ),
    ],
)
def test_everything_wrong_with_a_study_is_said(tmp_path, text: str, said: str) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(f'kernel = "sharding"\n{text}')
    with pytest.raises(UserError) as error:
        load_study(path)
    assert said in str(error.value)


def test_every_machine_gets_the_layout_that_is_best_on_it(found) -> None:
    table = found.table
    assert list(table.columns) == list(TABLE)
    machines = {
        "now": {},
        "fabric.link 0.5 times today's": {"fabric.link": "0.5x"},
        "fabric.link 4 times today's": {"fabric.link": "4x"},
        "engine.step_s 0 times today's": {"engine.step_s": 0},
    }
    assert list(dict.fromkeys(table["label"])) == list(machines)
    for label, overrides in machines.items():
        every = dse.serve(
            "llama3_8b", "h100_sxm", 8, tp=[1, 8], batch=[1, 16, 64], phase="decode", overrides=overrides
        ).runs
        for row in table[table["label"] == label].to_dict("records"):
            own = every[every["tokens_per_s_per_user"] >= row["level"]]["tokens_per_s_per_gpu"].max()
            assert row["tokens_per_s_per_gpu"] == pytest.approx(own)


def test_the_layout_kept_is_no_better_than_the_best(found) -> None:
    table = found.table
    assert (table["kept_gain"] <= table["gain"] * (1 + 1e-12)).all()
    assert (table[table["machine"] == 0][["gain", "kept_gain"]] == 1.0).all(axis=None)
    faster = table[table["label"] == "fabric.link 4 times today's"]
    slower = table[table["label"] == "fabric.link 0.5 times today's"]
    assert (faster["gain"] >= 1.0).all()
    assert (slower["gain"] <= 1.0).all()


def test_kernels_are_tuned_once_for_machines_of_one_gpu(found) -> None:
    (one,) = found.services
    first = one.results[0]
    assert one.kernel_problems == first.kernel_problems
    assert one.schedules == first.schedules


def test_the_best_at_a_level_is_the_best_of_those_that_reach_it() -> None:
    front = pd.DataFrame({"tokens_per_s_per_user": [50.0, 20.0, 5.0], "tokens_per_s_per_gpu": [1.0, 2.0, 3.0]})
    assert [(best_at(front, level) or {}).get("tokens_per_s_per_gpu") for level in (0, 20, 30, 60)] == [3, 2, 1, None]


def test_the_command_leaves_a_folder_that_gives_the_same_answer(capsys, tmp_path) -> None:
    path = tmp_path / "links.toml"
    path.write_text(STUDY)
    first = json_answer(capsys, "study", path, "--out", tmp_path / "a", "--quiet")
    names = {"table.parquet", "fronts.parquet", "answer.json", "study.toml", "figure.svg", "figure.png"}
    assert {file.name for file in (tmp_path / "a").iterdir()} == names
    again = json_answer(
        capsys, "study", tmp_path / "a" / "study.toml", "--out", tmp_path / "b", "--quiet", "--no-figure"
    )
    assert again["table"] == first["table"]
    assert not (tmp_path / "b" / "figure.svg").exists()
    schema = pq.read_schema(tmp_path / "a" / "fronts.parquet")
    assert all(field.metadata[b"unit"] for field in schema)
    assert json.loads((tmp_path / "a" / "answer.json").read_text())["provenance"]["study"].startswith("title")
    code, told, err = answer(capsys, "query", str(tmp_path / "a"), "select count(*) as machines from answers")
    assert (code, err) == (0, "")
    assert "machines" in told
    code, _, err = answer(capsys, "report", str(tmp_path / "a"))
    assert code == 2
    assert "holds the answer of a what-if or a study, no run: read answer.json, figure.svg, or ask dse query" in err


def test_whatif_sharding_asks_the_same(capsys, tmp_path) -> None:
    words = ["whatif", "sharding", "--model", "llama3_8b", "--gpu", "h100_sxm", "--gpus", "8", "--preset", "plain"]
    words += ["--axis", "tp=1,8", "--axis", "pp=1", "--axis", "batch=1,16,64", "--phase", "decode", "--users", "60"]
    words += ["--vary", "fabric.link=0.5x,4x", "--vary", "engine.step_s=0x", "--quiet", "--out", str(tmp_path / "w")]
    code, out, _ = answer(capsys, *words)
    assert code == 0
    assert "at 60 tokens/s a user" in out
    assert "fabric.link 4 times today's" in out
    table = pd.read_parquet(tmp_path / "w" / "table.parquet")
    path = tmp_path / "links.toml"
    path.write_text(STUDY)
    same = run_layout_study(load_study(path)).table
    assert table["tokens_per_s_per_gpu"].tolist() == same["tokens_per_s_per_gpu"].tolist()
    assert load_study(tmp_path / "w" / "study.toml").services[0]["model"] == "llama3_8b"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--gpu", "h200_sxm"], "--gpu is of studies of kernels: edit the [[service]] of a copy"),
        (["--shapes", "llama3_70b"], "--shapes is of studies of kernels"),
        (["--preset", "simple"], "unknown preset"),
    ],
)
def test_what_the_command_cannot_replace_is_said(capsys, tmp_path, words: list[str], said: str) -> None:
    code, out, err = answer(capsys, "study", "faster_links", *words, "--out", tmp_path / "x", "--quiet")
    assert (code, out) == (2, "")
    assert said in err
    assert not (tmp_path / "x").exists()


def test_the_list_of_studies_holds_it(capsys) -> None:
    rows = json_answer(capsys, "study")
    assert {"faster_links", "bigger_l2"} <= {row["study"] for row in rows}


def test_services_that_would_be_called_the_same_are_told_apart(tmp_path) -> None:
    path = tmp_path / "twice.toml"
    own = '[[service]]\nmodel = "llama3_8b"\ngpu = "h100_sxm"\ngpus = 8\nphase = "prefill"\n'
    text = STUDY.replace("users = [60]", "users = [60, 60]").replace("batch = [1, 16, 64]", "batch = [1]")
    path.write_text(text.replace('[[axis]]\nfield = "engine.step_s"\nvalues = ["0x"]', own))
    found = run_layout_study(load_study(path))
    titles = [one.title for one in found.services]
    assert titles == ["Llama 3 8B on 8 x h100_sxm", "Llama 3 8B on 8 x h100_sxm, service 2"]
    rows = found.table.groupby("service")["level"].agg(list)
    assert rows[titles[0]] == [0, 60] * 3  # a level that is asked twice counts once
    assert rows[titles[1]] == [0] * 3


@pytest.mark.filterwarnings("error")
def test_a_study_in_which_nothing_runs_is_answered(capsys, tmp_path) -> None:
    path = tmp_path / "none.toml"
    path.write_text(STUDY.replace("batch = [1, 16, 64]", "batch = [16384]"))
    code, out, _ = answer(capsys, "study", path, "--out", tmp_path / "a", "--quiet")
    assert code == 0
    assert "none runs" in out
    assert (tmp_path / "a" / "figure.svg").exists()
