"""`dse sweep sharding`: the answer, its files, query, report, disaggregated serving, errors in one line."""

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from cli_run import answer, json_answer
from layout_runs import MODEL, SMALL, TINY, axes, layout_sweep

import dse
from dse.report.layouts.report import layout_sections, make_layout_report
from dse.report.layouts.time import group_sums
from dse.serving.layouts import FIELDS
from dse.serving.outcomes import COLUMNS
from dse.store import read_provenance
from dse.studies.layouts.files import open_layouts
from dse.studies.layouts.points import chosen_rows


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return layout_sweep(tmp_path_factory.mktemp("layouts") / "run")


@pytest.fixture(scope="module")
def run(folder):
    return open_layouts(folder)


def test_files_have_units_meanings_and_how_they_were_made(folder, run) -> None:
    assert {path.name for path in folder.iterdir()} == {
        "front.parquet",
        "best.parquet",
        "parts.parquet",
        "summary.json",
    }
    for name in ("front", "best", "parts"):
        schema = pq.read_schema(folder / f"{name}.parquet")
        assert all(field.metadata[b"unit"] and field.metadata[b"description"] for field in schema)
        made = read_provenance(folder / f"{name}.parquet")
        assert made["command_line"].startswith("dse sweep sharding --model mixtral_8x7b")
        assert {"schema_version", "versions", "model_hash", "space_hash", "fabric_hash"} <= set(made)
    assert set(FIELDS) | set(COLUMNS) <= set(run.front.columns)
    assert sum(run.summary["reasons"].values()) == run.summary["layouts"]
    assert run.summary["provenance"]["command_line"].startswith("dse sweep sharding --model mixtral_8x7b")


def test_the_front_is_that_of_every_layout_by_itself(run) -> None:
    degrees = {"tp": [1, 2, 8], "dp": [1, 4], "pp": [1, 2], "batch": [8, 64, 256], "chunk": [0, 1024]}
    more = {"experts_tp": [1, 2, 4, 8, 16], "exchange": [0, 1], "micro_batches": [1, 2]}
    every = dse.serve("mixtral_8x7b", "h100_sxm", 8, **degrees, **more).runs
    assert len(every) == run.summary["reasons"]["runs"]
    rates = every[["tokens_per_s_per_gpu", "tokens_per_s_per_user"]].to_numpy()
    beaten = (rates[:, None] <= rates[None]).all(-1) & (rates[:, None] < rates[None]).any(-1)
    front = {tuple(np.round(row, 6)) for row in rates[~beaten.any(1)]}
    found = run.front[["tokens_per_s_per_gpu", "tokens_per_s_per_user"]].to_numpy()
    assert {tuple(np.round(row, 6)) for row in found} == front
    assert run.best["tokens_per_s_per_gpu"].iloc[0] == pytest.approx(every["tokens_per_s_per_gpu"].max())


def test_query_reads_every_view(capsys, folder) -> None:
    views = json_answer(capsys, "query", str(folder))
    assert {view["view"] for view in views} == {"best", "front", "parts"}
    rows = json_answer(
        capsys, "query", str(folder), "select layout, tokens_per_s_per_gpu rate from best order by 2 desc"
    )
    best = pd.read_parquet(folder / "best.parquet")
    assert [row["rate"] for row in rows] == best["tokens_per_s_per_gpu"].tolist()
    (row,) = json_answer(capsys, "query", str(folder.parent), "select count(*) n, any_value(run) run from best")
    assert row == {"n": len(best), "run": "run"}


def test_text_and_json_say_the_same(capsys) -> None:
    found = json_answer(capsys, *SMALL, *axes(TINY))
    code, out, _ = answer(capsys, *SMALL, *axes(TINY))
    assert code == 0
    assert f"{found['layouts']:,} layouts, {found['reasons']['runs']['layouts']:,} can run" in out
    for name, about in found["reasons"].items():
        if name != "runs":
            assert re.search(rf"{name} +{about['layouts']:,}  {re.escape(about['meaning'])}", out)
    assert found["best"][0]["layout"] in out
    assert f"{found['kernel_problems']:,} distinct kernel problems" in out


def test_the_report_shows_front_time_memory_and_reasons(run, tmp_path) -> None:
    made = make_layout_report(run, tmp_path / "page.html", tmp_path / "figures")
    page = made.page.read_text()
    assert [section.anchor for section in made.sections] == [
        "answer", "front", "time", "memory", "best", "space", "machine", "provenance",
    ]  # fmt: skip
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert "https://" not in page
    assert {path.name for path in made.figures} == {
        f"layout-{name}.{ending}" for name in ("front", "time", "memory") for ending in ("png", "svg")
    }
    assert make_layout_report(run, tmp_path / "again.html").page.read_bytes() == made.page.read_bytes()
    for row in chosen_rows(run.front):
        assert run.front["layout"].iloc[row] in page


def test_groups_of_the_report_hold_all_time_but_what_is_hidden(run) -> None:
    sums = pd.DataFrame(group_sums(run), columns=["point", "phase", "group", "seconds"])
    whole = run.parts[run.parts["kind"] != "hidden"]
    for (point, phase), part in whole.groupby(["point", "phase"]):
        own = sums[(sums["point"] == point) & (sums["phase"] == phase)]
        assert own["seconds"].sum() == pytest.approx(part["seconds"].sum())
    named = set(whole[whole["kind"] == "kernel"]["name"])
    assert {"attention", "experts", "router", "qkv"} <= named


def test_a_run_in_which_nothing_fits_is_reported_too(capsys, tmp_path) -> None:
    words = [
        *SMALL,
        "--axis",
        "tp=1",
        "--axis",
        "dp=1",
        "--axis",
        "pp=1",
        "--axis",
        "batch=8",
        "--axis",
        "experts_tp=1",
    ]
    code, out, _ = answer(capsys, *words, "--out", str(tmp_path / "none"))
    assert code == 1
    assert "no layout can run: see the reasons above" in out
    found = open_layouts(tmp_path / "none")
    assert [section.anchor for section in layout_sections(found)] == ["answer", "space", "machine", "provenance"]
    code, _, err = answer(capsys, "export", str(tmp_path / "none"), "--to", "vllm")
    assert code == 1
    assert "0 layouts as vllm; no layout can run" in err


def test_disaggregated(capsys, tmp_path) -> None:
    words = [*SMALL, "--axis", "tp=2,4", "--axis", "dp=1", "--axis", "pp=1", "--axis", "batch=16,64", "--disaggregated"]
    words += ["--prefill-axis", "batch=1,4", "--out", str(tmp_path / "pd")]
    found = json_answer(capsys, *words)
    assert found["front"]
    for row in found["front"]:
        assert row["prefill_batch"] in (1, 4)
        assert row["decode_batch"] in (16, 64)
        used = row["prefill_instances"] * row["prefill_tp"] + row["decode_instances"] * row["decode_tp"]
        assert used == row["gpus_used"] <= 8
    code, out, _ = answer(capsys, "export", tmp_path / "pd", "--to", "sglang", "--what", "front")
    assert code == 0
    assert out.count("python -m sglang.launch_server") == 2
    pairs = json.loads(answer(capsys, "export", tmp_path / "pd", "--to", "json")[1])["pairs"]
    assert [pair["predicted"]["tokens_per_s_per_gpu"] for pair in pairs] == sorted(
        (row["tokens_per_s_per_gpu"] for row in found["front"]), reverse=True
    )
    made = json_answer(capsys, "report", tmp_path / "pd")
    assert made["sections"] == ["answer", "front", "space", "machine", "provenance"]
    rows = json_answer(capsys, "query", str(tmp_path / "pd"), "select prefill_layout, ttft_s from front")
    assert [row["ttft_s"] for row in rows] == [row["ttft_s"] for row in found["front"]]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["sweep", "sharding"], "no model is given"),
        (["sweep", "--top", "3", "sharding"], "sharding stands first: dse sweep sharding --model NAME"),
        ([*SMALL, "--axis", "ep=8"], "--axis ep: layouts name experts_tp"),
        ([*SMALL, "--axis", "tpp=8"], "unknown axis of a layout 'tpp'; known: batch, chunk"),
        ([*SMALL, "--axis", "tp=3"], "tp"),
        ([*SMALL, "--objectives", "speed"], "unknown objective 'speed'"),
        ([*SMALL, "--prefill-axis", "batch=1"], "give --disaggregated with it"),
        ([*SMALL, "--disaggregated", "--objectives", "ttft_s"], "--objectives is not for --disaggregated"),
        ([*SMALL, "--disaggregated", "--phase", "decode"], "phase decode"),
        ([*SMALL, "--objectives", ","], "objectives none: give each once, at least one of gpus, tokens_per_s"),
        ([*SMALL, "--objectives", "ttft_s,ttft_s"], "objectives ttft_s, ttft_s: give each once"),
        ([*SMALL, "--tp", "4,8"], "--tp 4,8 is an option of dse serve: layouts that are chosen from are narrowed"),
        ([*SMALL, "--ep", "8"], "narrowed with --axis experts_tp=1"),
        (["whatif", "sharding", *MODEL, "--vary", "fabric.link=2x", "--pp", "2"], "narrowed with --axis pp=2"),
        ([*SMALL, "--disaggregated", "--axis", "chunk=512"], "--axis chunk is not for --disaggregated"),
        ([*SMALL, "--disaggregated", "--prefill-axis", "chunk=512"], "--prefill-axis chunk is not for --disaggregated"),
        ([*SMALL, "--disaggregated", "--prefill-axis", "ep=8"], "--prefill-axis ep: layouts name experts_tp"),
        ([*SMALL, "--space", "gemm/wgmma"], "the space gemm/wgmma holds schedules of gemm"),
        (["sweep", "sharding", *MODEL, "--preset", "simple", "--axis", "tp=8"], "unknown preset 'simple'"),
        (["whatif", "sharding", *MODEL, "--vary", "fabric.link=3"], "numbers of a fabric are varied by factors"),
        (["whatif", "sharding", *MODEL, "--vary", "fabric.link=2x", "--users", "-1"], "--users '-1'"),
        (["explain", "--shape", "64x64x64", "--set", "engine.step_s=0", "--schedule", "tile=64x64x64"], "no engine"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_in_one_line(capsys, words: list[str], said: str) -> None:
    code, out, err = answer(capsys, *words)
    assert (code, out) == (2, "")
    assert said in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["export", "RUN", "--to", "triton"],
            "unknown target of a sweep of layouts 'triton'; known: json, sglang, trtllm",
        ),
        (["export", "RUN", "--to", "vllm", "--distinct", "tile"], "--distinct tile is of schedules"),
        (["export", "RUN", "--to", "vllm", "--what", "all"], "unknown table 'all'; known: best, front"),
        (["top", "RUN"], "no schedules (dse sweep sharding): dse report, dse export and dse query"),
        (["status", "RUN"], "holds layouts of a model, no schedules"),
        (["explain", "RUN", "0"], "holds layouts of a model, no schedules"),
        (["report", "RUN", "--trace", "t.json"], "a sweep of layouts has no timeline of one SM"),
        (["report", "RUN", "--what-if", "quick"], "what-ifs of layouts are sweeps of their own"),
    ],
)
def test_commands_on_a_run_of_layouts_say_what_is_wrong(capsys, folder, words: list[str], said: str) -> None:
    code, _, err = answer(capsys, *[str(folder) if word == "RUN" else word for word in words])
    assert code == 2
    assert said in err


def test_a_folder_is_not_overwritten_unasked(capsys, folder) -> None:
    code, _, err = answer(capsys, *SMALL, *axes(TINY), "--out", str(folder))
    assert code == 2
    assert "is not empty" in err
    assert "--overwrite" in err
