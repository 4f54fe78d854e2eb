"""`dse search` as a command: what it says, files it goes on with, and one message for what does not fit."""

import json

import pytest
from cli_run import answer, json_answer

WORDS = ["search", "softmax", "--shape", "1024x4096", "--trials", "24", "--sampler", "local", "--seed", "3", "--quiet"]
GPUS = ["--gpu-axis", "sm_count=66,132", "--gpu-axis", "ddr_bytes_per_s=0.5x:2x:log"]


def test_regret_and_hypervolume_are_printed_where_the_space_can_be_swept(capsys):
    words = [*WORDS, "--objectives", "latency_s,registers_per_thread"]
    code, out, _ = answer(capsys, *words)
    assert code == 0
    assert "24 trials with local, seed 3" in out
    assert "compared with a sweep of all" in out
    assert "% of the exhaustive front's; 99 %" in out
    told = json_answer(capsys, *words)
    quality = told["quality"]
    assert quality["regret"] == pytest.approx(quality["best"] / quality["true_best"] - 1)
    assert 0 < quality["hypervolume_share"] <= 1
    assert len(quality["reference"]) == 2
    assert told["evaluations"] == 24
    assert 0 <= told["asking_s"] <= told["seconds"]
    alone = json_answer(capsys, *words, "--reference", "none")
    assert alone["quality"] is None
    assert alone["best"] == told["best"]


def test_a_long_front_is_shown_by_points_that_stand_for_it(capsys):
    words = [*WORDS, "--gpu-axis", "ddr_bytes_per_s=0.5x:4x:log", "--objectives", "latency_s,area_mm2"]
    words = [word if word != "local" else "random" for word in words] + ["--trials", "200"]
    front = json_answer(capsys, *words)["front"]
    assert len(front) > 12
    _, out, _ = answer(capsys, *words)
    assert f"area_mm2: 12 of its {len(front)} points (--json has all" in out
    assert "these 12 are within" in out


def test_a_file_is_gone_on_with_and_says_what_differs(tmp_path, capsys):
    words = [*WORDS, "--storage", tmp_path / "s.journal", "--study-name", "mine"]
    unnamed = [word for word in words if word not in ("--sampler", "local")]
    first = json_answer(capsys, *words)
    more = json_answer(capsys, *words, "--trials", "40")
    assert (first["trials"], more["trials"]) == (24, 40)
    assert more["best"][0]["latency_s"] <= first["best"][0]["latency_s"]
    _, out, _ = answer(capsys, *words, "--trials", "40")
    assert "already 40 of 40 trials: nothing is added" in out
    _, out, _ = answer(capsys, *words, "--trials", "48")
    assert "of them 40 were in the file, 8 are of this process" in out
    assert json_answer(capsys, *words, "--trials", "48", "--sampler", "random")["sampler_by"] == "given"
    by_file = json_answer(capsys, *unnamed, "--trials", "48")
    assert (by_file["sampler"], by_file["sampler_by"], by_file["trials_in_file"]) == ("random", "storage", 48)
    code, _, err = answer(capsys, *words, "--gpu", "a100_sxm")
    assert code == 2
    assert "gpu is h200_sxm there, a100_sxm here" in err
    assert "give another --storage or --study-name (there: mine)" in err


def test_gpus_with_swept_schedules_at_an_area_budget(tmp_path, capsys):
    path = tmp_path / "trials.parquet"
    words = [*WORDS, *GPUS, "--inner", "sweep", "--objectives", "latency_s,area_mm2", "--at-most", "area_mm2=700"]
    told = json_answer(capsys, *words, "--out", path)
    assert told["limits"] == {"area_mm2": 700}
    assert all(row["gpu.area_mm2"] <= 700 for row in told["front"])
    assert told["evaluations"] > 1000
    code, out, _ = answer(capsys, *words)
    assert code == 0
    assert "limit     area_mm2 at most 700" in out
    assert "are allowed" in out
    code, out, _ = answer(capsys, *words[:-1], "area_mm2=1")
    assert code == 1
    assert "no trial is allowed: raise a limit" in out
    two = [*words, "--shape", "2048x8192"]
    summed = json_answer(capsys, *two, "--out", tmp_path / "two.csv")
    row = summed["best"][0]
    assert row["latency_s"] == pytest.approx(row["latency_s 1024x4096"] + row["latency_s 2048x8192"], rel=1e-5)
    code, out, _ = answer(capsys, *two)
    assert "latency us 2048x8192" in out


def test_the_gpu_as_it_is_stands_beside_the_best(capsys):
    words = [word for word in WORDS if word not in ("--sampler", "local")]
    words += ["--gpu-axis", "ddr_bytes_per_s=0.5x:2x:log", "--gpu-axis", "sm_count=66,132"]
    swept = json_answer(capsys, "sweep", "softmax", "--shape", "1024x4096", "--quiet")["top"][0]
    for inner in ([], ["--inner", "sweep"], ["--inner", "shortlist"]):
        told = json_answer(capsys, *words, *inner, "--top", "30")
        assert (told["sampler"], told["sampler_by"]) == ("gradient" if inner else "local", "auto")
        assert told["now"] == {"latency_s": pytest.approx(swept["latency_s"], rel=1e-6)}
        first = next(row for row in told["best"] if row["trial"] == 0)  # a known-good candidate
        assert first["gpu.sm_count"] == 132
        assert first["latency_s"] == pytest.approx(told["now"]["latency_s"], rel=1e-6)
    _, out, _ = answer(capsys, *words)
    assert "24 trials with local (chosen, --sampler names another: schedules are searched), seed 3" in out
    assert "on h200_sxm unchanged, with its fastest schedule" in out
    assert "times what it is now" in out
    head = next(line for line in out.splitlines() if line.startswith("#"))
    assert head.index("ddr_bytes_per_s") < head.index("sm_count") < head.index("cta_threads")
    assert " TB/s" in out
    following = out.splitlines()[-1]
    assert following.startswith("next: dse whatif softmax --shape 1024x4096 --vary ddr_bytes_per_s=")
    assert following.endswith("--vary sm_count=66,132 --grid")
    beyond = [*words[:-4], "--gpu-axis", "ddr_bytes_per_s=3x:4x:log", "--gpu-axis", "sm_count=66,132"]
    beyond += ["--inner", "sweep", "--objectives", "latency_s,area_mm2"]
    told = json_answer(capsys, *beyond)  # outside of the ranges: compared with, and no trial
    assert told["now"]["latency_s"] == pytest.approx(swept["latency_s"], rel=1e-6)
    assert told["now"]["area_mm2"] > 0
    assert min(row["gpu.ddr_bytes_per_s"] for row in told["front"]) > 1e13


def test_known_schedules_are_tried_first(capsys):
    words = [*WORDS, "--top", "40", "--first", "17", "--first", "cta_threads=256 vector_bytes=16 unroll=4 stages=1"]
    tried = {row["trial"]: row for row in json_answer(capsys, *words)["best"]}
    assert tried[0]["index"] == 17
    assert (tried[1]["cta_threads"], tried[1]["vector_bytes"], tried[1]["unroll"]) == (256, 16, 4)


def test_events_of_progress_tell_the_front(capsys):
    words = [word for word in WORDS if word != "--quiet"]
    code, _, err = answer(capsys, *words, "--objectives", "latency_s,registers_per_thread", "--progress", "json")
    assert code == 0
    last = json.loads(err.strip().splitlines()[-1])
    assert last["event"] == "finished"
    assert last["done"] == 24
    assert last["front"] >= 1
    assert 0 < last["hypervolume"] <= 1


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--at-most", "area_mm2"], "--at-most area_mm2: write NAME=NUMBER, e.g. --at-most area_mm2=861"),
        (["--at-most", "area_mm2=861"], "area_mm2 is the same in every trial: no --gpu-axis moves it (sm_count, "),
        (["--at-most", "smem_bytes=1", "--at-most", "smem_bytes=2"], "--at-most smem_bytes is given twice"),
        (["--sampler", "gradient"], "sampler gradient follows derivatives by the GPU's numbers, and none is searched"),
        (["--sampler", "cmaes", "--objectives", "latency_s,energy_j"], "sampler cmaes minimises one objective, but 2"),
        (["--inner", "sweep"], "--inner sweep sweeps the schedules of every GPU tried, and none is searched"),
        (["--shape", "64x64"], "2 shapes at once need --inner sweep: one schedule does not serve all of them"),
        (["--gpu-axis", "sm_count=132"], "GPU field sm_count: one value, 132, is no choice: fix it with --set"),
        ([*GPUS, "--set", "sm_count=100"], "GPU field sm_count is both set (--set sm_count) and searched"),
        (["--first", "no_such_run"], "--first no_such_run: no schedule in words"),
        (["--first", "²"], "--first ²: no schedule in words"),
        (["--first", ""], "--first : no schedule in words"),
        (["--objectives", ","], "no objective: name at least one of latency_s, "),
        (["--gpu-axis", "sm_count=66:132", "--gpu-axis", "sm_count=9:10"], "--gpu-axis sm_count is given twice"),
        (["--gpu-axis", "sm_count=66:132:lin"], "GPU field sm_count: the scale 'lin' is unknown"),
        (["--gpu-axis", "sm_count=1.5,2.5"], "GPU field sm_count: the value 2 is there twice: keep one"),
        (
            [*GPUS[:2], "--gpu-axis", "ddr_bytes_per_s=0:1x"],
            "the ranges of --gpu-axis hold a GPU that cannot be, sm_count = 66, ddr_bytes_per_s = 0: ddr_",
        ),
        (["--at-most", "latency_s=1e-30"], "limit latency_s = 1e-30 is below what any schedule has (a sweep of all "),
        (["--out", "no_such_folder/x.csv"], "there is no folder no_such_folder; make it, or choose another"),
        (["--reference", "no_such_run"], "no run at"),
        (["--study-name", "mine"], "--study-name mine names a study in a file: give --storage FILE too"),
        (["--storage", "."], "is a folder: give a file"),
        (["--storage", "/dev/full"], "--storage /dev/full is a device or a pipe: give a file"),
    ],
)
def test_one_message_for_what_does_not_fit(words, text, capsys):
    code, out, err = answer(capsys, *WORDS, *words)
    assert code == 2
    assert text in err
    assert "Traceback" not in err
    assert not out
