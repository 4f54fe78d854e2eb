"""Every command, on a small space: what it prints, what it says as JSON, and that its parts fit together."""

import json
import os
import subprocess
import sys

import pandas as pd
import pytest
from cli_run import SHAPE, TINY, answer, json_answer, small_sweep

from dse.cli import COMMANDS, main
from dse.content.gpu import load_gpu
from dse.store import read_provenance, read_rows

HEAVY = {"jax", "ray", "optuna", "pandas", "pyarrow", "rich", "numpy"}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cli") / "run"
    assert main(small_sweep(folder)) == 0
    return folder


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["sweep", "--help"], ["rank", "--help"], []])
def test_help_imports_nothing_heavy(words):
    code = (
        "import sys; from dse.cli import main; code = main(sys.argv[1:]); "
        "print(','.join(sorted({name.partition('.')[0] for name in sys.modules})), file=sys.stderr); sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    of_kernels = {"numpy"} if len(words) > 1 else set()  # problems say their numbers' type; a command lists choices
    assert not (HEAVY - of_kernels) & set(done.stderr.strip().split(","))
    assert "dse" in done.stdout or "tilesweep" in done.stdout


def test_importing_dse_imports_nothing_heavy():
    code = "import sys, dse; print(','.join({name.partition('.')[0] for name in sys.modules}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not HEAVY & set(done.stdout.strip().split(","))


def test_xla_keeps_quiet_about_its_own_cache_however_dse_is_used():
    """jax reads the variable when it is first imported, which importing `dse.explain` already does."""
    environment = {name: value for name, value in os.environ.items() if name != "TF_CPP_MIN_LOG_LEVEL"}
    code = "import dse.errors, os, sys; print('jax' in sys.modules, os.environ['TF_CPP_MIN_LOG_LEVEL'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.split() == ["False", "3"]


def test_help_lists_every_command(capsys):
    code, out, _ = answer(capsys, "--help")
    assert code == 0
    for name in COMMANDS:
        assert f"  {name}" in out


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(name, capsys):
    code, out, _ = answer(capsys, name, "--help")
    assert code == 0
    assert f"usage: dse {name}" in out
    assert "--json" in out


def test_a_sweep_says_what_it_found(run, tmp_path, capsys):
    code, out, err = answer(capsys, *small_sweep(tmp_path / "again"))
    assert code == 0
    assert err == ""
    assert "space gemm/wgmma:" in out
    assert "SMEM" in out
    assert "fewer stages or a smaller tile_k" in out
    assert "the best" in out
    assert "front over latency_s, ddr_bytes, smem_bytes:" in out
    assert f"next: dse explain {tmp_path / 'again'} 0" in out
    assert {path.name for path in run.iterdir()} >= {"top.parquet", "front.parquet", "summary.json", "question.json"}


def test_json_of_a_sweep_agrees_with_its_files(tmp_path, capsys):
    told = json_answer(capsys, *small_sweep(tmp_path / "run"))
    assert told["declared"] == told["evaluated"] == told["feasible"] + sum(told["reasons"].values())
    assert len(told["top"]) >= 10
    assert sum(bin["points"] for bin in told["histogram"]) == told["feasible"]
    top = pd.read_parquet(tmp_path / "run" / "top.parquet")
    assert [row["index"] for row in told["top"]] == top["index"].tolist()
    latencies = [row["latency_s"] for row in told["top"]]
    assert latencies == sorted(latencies)


def test_progress_goes_to_standard_error(tmp_path, capsys):
    words = [word for word in small_sweep(tmp_path / "run") if word != "--quiet"]
    code, out, err = answer(capsys, *words, "--json")
    assert code == 0
    json.loads(out)
    assert f"GEMM {SHAPE}" in err
    assert "points" in err


def test_top_front_and_explain_read_the_run(run, capsys):
    top = json_answer(capsys, "top", run, "-n", "3")
    assert len(top) == 3
    code, out, _ = answer(capsys, "top", run, "-n", "3")
    assert code == 0
    assert f"GEMM {SHAPE} bf16 -> bf16 on h200_sxm" in out
    front = json_answer(capsys, "front", run)
    assert front["points"] >= len(front["front"]) > 0
    told = json_answer(capsys, "explain", run, "2")
    assert told["latency_s"] == pytest.approx(top[2]["latency_s"], rel=1e-6)
    by_index = json_answer(capsys, "explain", run, "--index", top[2]["index"])
    assert by_index["schedule"] == told["schedule"]
    typed = json_answer(capsys, "explain", "--shape", SHAPE, "--schedule", told["schedule_text"])
    assert typed["latency_s"] == told["latency_s"]


def test_explain_shows_every_part(run, capsys):
    code, out, _ = answer(capsys, "explain", run)
    assert code == 0
    for word in ("latency", "roofline", "binds", "change", "tensor cores", "prologue", "tail", "DDR read", "occupancy"):
        assert word in out


def test_an_infeasible_schedule_exits_with_1(capsys):
    code, out, _ = answer(capsys, "explain", "--shape", SHAPE, "--schedule", "tile=256x256x128 stages=4")
    assert code == 1
    assert "cannot run: SMEM: needs 524352 B of shared memory, 232448 B available: fewer stages or a smaller" in out


def test_gpus_and_spaces(capsys):
    names = {row["name"] for row in json_answer(capsys, "gpus")}
    assert {"a100_sxm", "h100_sxm", "h200_sxm", "b200_sxm"} <= names
    _, out, _ = answer(capsys, "gpus", "h200_sxm")
    assert "l2_capacity_bytes" in out
    assert "datasheet" in out
    spaces = {space["name"]: space for space in json_answer(capsys, "spaces")}
    assert set(spaces) >= {"gemm/mma_sync", "gemm/wgmma", "gemm/tcgen05"}
    assert spaces["gemm/wgmma"]["size"] > 1_000_000
    assert {"triton", "cutlass", "library", "quick"} <= set(spaces["gemm/wgmma"]["presets"])
    _, out, _ = answer(capsys, "spaces")
    assert "--preset triton" in out


def test_many_shapes(tmp_path, capsys):
    shapes = tmp_path / "shapes.csv"
    shapes.write_text("name,m,n,k,batch\nup,2048,2048,4096,1\nattention,512,512,128,16\n")
    words = ["sweep", "gemm", "--shapes", shapes, *TINY, "--out", tmp_path / "many", "--quiet", "--set", "tdp=1.5x"]
    code, out, _ = answer(capsys, *words)
    assert code == 0
    assert out.startswith("what if   tdp_w: 700 -> 1050 (1.5x)\n")
    assert "16x512x512x128" in out
    summary = pd.read_csv(tmp_path / "many" / "summary.csv")
    assert summary["name"].tolist() == ["up", "attention"]
    assert set(summary["gpu_changes"]) == {"tdp_w: 700 -> 1050 (1.5x)"}
    assert (tmp_path / "many" / "attention" / "front.parquet").exists()
    told = json_answer(capsys, *words, "--overwrite")
    assert [row["name"] for row in told["summary"]] == ["up", "attention"]


def test_of_many_shapes_one_fits_nowhere(tmp_path, capsys):
    shapes, folder = tmp_path / "shapes.csv", tmp_path / "many"
    shapes.write_text("name,m,n,k\nodd,2048,2048,4095\nup,2048,2048,4096\n")
    words = ["sweep", "gemm", "--shapes", shapes, *TINY, "--out", folder, "--quiet"]
    code, out, _ = answer(capsys, *words)
    assert code == 1
    assert "odd: no schedule fits, mostly for ALIGNMENT" in out
    assert "TMA needs rows aligned to 16 bytes" in out
    assert "up: no schedule" not in out
    head, odd, up = (folder / "summary.csv").read_text().splitlines()
    assert "ALIGNMENT" in odd
    tile = up.split(",")[head.split(",").index("tile_m")]
    assert tile in ("64", "128")
    told = json_answer(capsys, *words, "--overwrite")["summary"]
    assert told[0]["tile_m"] is None
    assert told[0]["none_fits"].startswith("ALIGNMENT")
    assert isinstance(told[1]["tile_m"], int)
    for command in (["top"], ["front"], ["explain"], ["export", "--to", "triton"]):
        code, _, err = answer(capsys, command[0], folder, *command[1:])
        assert code == 2
        assert f"holds 2 runs: {folder / 'odd'}, {folder / 'up'}; give one of these" in err
    assert answer(capsys, "top", folder / "up")[0] == 0


def test_nothing_fits(tmp_path, capsys):
    words = [word.replace(SHAPE, "2048x2048x4095") for word in small_sweep(tmp_path / "run")]
    code, out, _ = answer(capsys, *words)
    assert code == 1
    assert "ALIGNMENT" in out
    assert "TMA needs rows aligned to 16 bytes: pad the leading dimension or use the mma_sync space" in out
    assert "no schedule fits" in out
    assert answer(capsys, "export", tmp_path / "run", "--to", "triton")[0] == 1
    assert "none of the 2,304 schedules can run: widen the space" in answer(capsys, "front", tmp_path / "run")[1]


def test_what_if_overrides_reach_the_model(tmp_path, capsys):
    slow = json_answer(capsys, *small_sweep(tmp_path / "a", "--set", "clock_hz=0.5x"))
    base = json_answer(capsys, *small_sweep(tmp_path / "b"))
    assert slow["top"][0]["latency_s"] > 1.5 * base["top"][0]["latency_s"]


def test_what_if_results_say_so_everywhere(tmp_path, capsys):
    folder, changes = tmp_path / "run", ["--set", "sm_count=1.1x", "--clock", "sustained"]
    lines = ("what if   sm_count: 132 -> 145 (1.1x, rounded to a whole number)", "clock     sustained")
    words = [word for word in small_sweep(folder, *changes) if word != "--quiet"]
    _, out, err = answer(capsys, *words)
    rank_me = tmp_path / "mine.csv"
    rank_me.write_text("tile,stages\n128x128x64,4\n")
    texts = [out, err]
    for more in (["explain", folder], ["top", folder], ["front", folder]):
        texts.append(answer(capsys, *more)[1])
    texts.append(answer(capsys, "rank", rank_me, "--shape", SHAPE, *changes)[1])
    typed = ["explain", "--shape", SHAPE, "--schedule", "tile=128x128x64 stages=4", *changes]
    texts.append(answer(capsys, *typed)[1])
    for target in ("triton", "cutlass"):
        texts.append(answer(capsys, "export", folder, "--to", target)[1])
    for text in texts:
        assert all(line in text for line in lines), text
    kept = json.loads((folder / "question.json").read_text())
    summary = json.loads((folder / "summary.json").read_text())["provenance"]
    told = json_answer(capsys, *typed)
    for about in (kept, summary, read_provenance(folder / "top.parquet"), told):
        assert about["gpu_changes"][0] == lines[0].removeprefix("what if   ")
        assert about["clock"] == "sustained"
    assert summary["gpu"] == "h200_sxm"


def test_search(tmp_path, capsys):
    words = ["search", "gemm", "--shape", SHAPE, *TINY, "--trials", "40", "--seed", "3", "--quiet"]
    words += ["--objectives", "latency_s,energy_j", "--gpu-axis", "sm_count=108:160", "--out", tmp_path / "trials.csv"]
    words += ["--gpu-axis", "l2_capacity_bytes=3e7:2e8:log"]
    told = json_answer(capsys, *words)
    again = json_answer(capsys, *words)
    assert told["best"] == again["best"]
    trials = pd.read_csv(tmp_path / "trials.csv")
    assert len(trials) == told["trials"] == 40
    assert set(trials["gpu.sm_count"]) <= set(range(108, 161))
    assert trials["gpu.l2_capacity_bytes"].between(3e7, 2e8).all()
    used = trials[(trials["reason"] == 0) & (trials["waves"] >= 1) & (trials["sms_free"] == 0)]
    assert (used["sms_used"] <= used["gpu.sm_count"]).all()
    code, out, _ = answer(capsys, *words)
    assert code == 0
    assert "40 trials with local (chosen, " in out
    assert ", seed 3: " in out
    assert "front of the trials over latency_s, energy_j" in out


def test_a_search_takes_factors_of_the_gpus_own_numbers(tmp_path, capsys):
    path = tmp_path / "trials.csv"
    words = ["search", "gemm", "--shape", SHAPE, *TINY, "--trials", "8", "--sampler", "random", "--quiet"]
    axes = ["--gpu-axis", "l2_capacity=1x:2x", "--gpu-axis", "sm_count=1x,+50%", "--gpu-axis", "clock=0.5x,1x"]
    axes += ["--gpu-axis", "hbm_bandwidth=1x:2x"]
    json_answer(capsys, *words, *axes, "--out", path)
    trials = pd.read_csv(path)
    gpu = load_gpu("h200_sxm")
    capacity = gpu["l2_capacity_bytes"]
    assert trials["gpu.l2_capacity_bytes"].between(capacity, 2 * capacity).all()
    assert trials["gpu.l2_capacity_bytes"].nunique() > 1
    assert set(trials["gpu.sm_count"]) <= {132, 198}
    assert trials["gpu.ddr_bytes_per_s"].between(gpu["ddr_bytes_per_s"], 2 * gpu["ddr_bytes_per_s"]).all()
    assert set(trials["gpu.clock_hz"]) <= {gpu["boost_hz"] / 2, gpu["boost_hz"]}
    _, _, refused = answer(capsys, *words, "--gpu-axis", "tensor_flop_per_clock=1x:2x")
    assert "has no number of its own, so 1x of it is nothing: write values in the field's unit" in refused
    _, _, refused = answer(capsys, *words, "--gpu-axis", "smem_capacity=1x:2x")
    assert "unknown GPU field 'smem_capacity'; did you mean" in refused
    _, _, refused = answer(capsys, *words, "--gpu-axis", "tdp=1x:2x", "--gpu-axis", "tdp_w=700:800")
    assert "tdp_w is given twice" in refused


def test_trials_say_how_they_were_made(tmp_path, capsys):
    path = tmp_path / "trials.parquet"
    words = ["search", "gemm", "--shape", SHAPE, *TINY, "--trials", "8", "--sampler", "random", "--seed=5", "--quiet"]
    told = json_answer(capsys, *words, "--gpu-axis", "l2_capacity_bytes=3e7:2e8:log", "--out", path)
    assert len(pd.read_parquet(path)) == told["trials"] == 8
    made = read_provenance(path)
    assert (made["sampler"], made["seed"], made["trials"]) == ("random", 5, 8)
    assert made["command_line"].startswith("dse search gemm")
    about = {field.name: field.metadata for field in read_rows(path).schema}
    assert about["gpu.l2_capacity_bytes"][b"unit"] == b"bytes"
    assert about["trial"][b"description"].startswith(b"number of the trial")


def test_every_row_and_resume(tmp_path, capsys):
    columns = "latency_s, reason_name,latency_low_s"
    words = small_sweep(tmp_path / "all", "--keep", "all", "--columns", columns)
    first = json_answer(capsys, *words)
    rows = pd.concat(pd.read_parquet(path) for path in (tmp_path / "all").glob("rows-*.parquet"))
    assert list(rows) == ["index", "latency_s", "reason_name", "latency_low_s"]
    assert len(rows) == first["evaluated"]
    assert (rows["latency_low_s"] < rows["latency_s"]).all()
    again = json_answer(capsys, *words, "--resume")
    assert again["top"] == first["top"]
    assert again["points_per_s"] == first["points_per_s"]  # a finished run is told again, not done again


def test_five_lines_of_python(run):
    from dse import explain, sweep

    axes = {
        "tile_m": [64, 128],
        "tile_n": [64, 128, 256],
        "tile_k": ["64B", "128B"],
        "stages": [3, 7],
        "swizzle": [1, 8],
    }
    result = sweep("gemm", shape=SHAPE, dtype="bf16", gpu="h200_sxm", preset="triton", axes=axes)
    table = pd.read_parquet(run / "top.parquet")
    assert result.top["index"].tolist() == table["index"].tolist()
    told = explain(result, rank=1)
    assert told.latency_s == pytest.approx(result.top["latency_s"][1], rel=1e-6)


def test_a_shape_that_comes_twice_has_two_folders(tmp_path):
    from dse import sweep_shapes

    axes = {"tile_m": 64, "tile_n": 64, "tile_k": "64B", "stages": 3}
    results, table = sweep_shapes(["256x256x256"] * 2, out=tmp_path, preset="quick", axes=axes)
    assert list(results) == table["name"].tolist() == ["256x256x256", "256x256x256 (1)"]
    assert table["folder"].nunique() == 2


def test_names_of_the_package_survive_imports_of_its_modules():
    import dse.rank
    from dse.sweep import run_sweep  # noqa: F401

    for name in ("sweep", "rank", "explain", "load_gpu", "SweepResult"):
        assert callable(getattr(dse, name)), name
    assert "sweep" in dir(dse)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = dse.nothing


def test_a_reader_that_leaves_is_no_error():
    command = [sys.executable, "-m", "dse", "spaces", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=os.environ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        err = process.stderr.read()
        assert process.wait() in (0, 141)
    assert b"Traceback" not in err
