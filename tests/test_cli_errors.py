"""Bad input: one clear message on standard error, exit code 2, no traceback."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from cli_run import answer, small_sweep

from dse.api import folder_name
from dse.cli import main
from dse.run_files import claimed

SHAPE = ["--shape", "4096x4096x4096"]


def refused(capsys, *words: str) -> str:
    code, out, err = answer(capsys, *words)
    assert code == 2, err
    assert out == ""
    assert err.startswith("dse: ")
    assert "Traceback" not in err
    assert err.count("\n") == 1 or "\n  " in err
    return err


@pytest.mark.parametrize(
    ("words", "texts"),
    [
        (
            ["--gpu", "h10O_sxm"],
            ["unknown GPU 'h10O_sxm'; known: a100_sxm", "did you mean 'h100_sxm'?", "docs/add-a-gpu"],
        ),
        (["--gpu", "a100_sxm", "--dtype", "fp8"], ["a100_sxm has no tensor rate for 'fp8'; it has "]),
        (["--gpu", "a100_sxm", "--family", "wgmma"], ["a100_sxm has no 'wgmma' for bf16; it has mma_sync"]),
        (["--gpu", "my_gpu.toml"], ["no GPU file at my_gpu.toml"]),
        (["--dtype", "bf61"], ["unknown dtype 'bf61'", "did you mean 'bf16'?"]),
        (["--accumulator", "fp16"], ["h200_sxm does not accumulate bf16 in 'fp16'; it accumulates in fp32"]),
        (["--layout", "tnn"], ["unknown layout 'tnn'; known: nn, nt, tn, tt"]),
        (["--cache", "hot"], ["unknown cache state 'hot'; known: a_warm, b_warm, cold, warm"]),
        (["--clock", "turbo"], ["unknown clock 'turbo'; known: boost, sustained"]),
        (["--align", "3"], ["align_bytes = 3: a power of two between 1 and 128 is allowed"]),
        (["--preset", "tritn"], ["did you mean 'triton'?"]),
        (["--space", "gemm/wgma"], ["unknown gemm space 'wgma'", "did you mean 'wgmma'?"]),
        (["--axis", "tile_m=65"], ["tile_m = 65 is not in the space gemm/wgmma; allowed: 64, 128, 192, 256"]),
        (["--axis", "tile_o=64"], ["unknown axis 'tile_o'", "did you mean 'tile_"]),
        (["--axis", "tile_m"], ["cannot read the axis 'tile_m': write NAME=VALUE"]),
        (["--axis", "tile_m=64", "--axis", "tile_m=128"], ["axis 'tile_m' is given twice"]),
        (["--axis", "split_k=2", "--axis", "stream_k=1"], ["has no value left", "contradict each other"]),
        (["--axis", f"tile_m={'9' * 5000}"], ["is not in the space gemm/wgmma; allowed: 64, 128, 192, 256"]),
        (["--axis", "tile_m=0:99999999999:1"], ["the range '0:99999999999:1' lists more than 65536 values"]),
        (
            ["--space", "gemm/tcgen05"],
            ["gemm/tcgen05 is for tcgen05, but", "h200_sxm has wgmma, mma_sync"],
        ),
        (["--space", "gemm/mma_sync"], ["gemm/mma_sync is for mma_sync, but wgmma", "add --family mma_sync"]),
        (["--space", "/"], ["/ is a folder; a space is one .toml file"]),
        (["--axis", "stages=9"], ["stages = 9 is not in the space"]),
        (["--objectives", "latency"], ["unknown objective 'latency'", "did you mean 'latency_s'?"]),
        (["--objectives", "ddr_bytes,ddr_bytes"], ["name each once"]),
        (["--set", "l2_capacity"], ["--set l2_capacity: write FIELD=VALUE"]),
        (["--set", "l2_capacty=2x"], ["unknown field", "did you mean"]),
        (["--set", "l2_capacity_mb=60"], ["wrong unit: the field is l2_capacity_bytes"]),
        (["--set", "sm_count=2x", "--set", "sm_count=3x"], ["--set sm_count is given twice"]),
        (["--executor", "threads"], ["unknown executor 'threads'; known: auto, ray, serial"]),
        (["--executor", "ray", "--address", "127.0.0.1:1"], ["cannot be reached", "ray start --head", "RAY_ADDRESS"]),
        (["--executor", "serial", "--address", "a:1"], ["--address a:1 is a Ray cluster's: it needs --executor ray"]),
        (["--keep", "some"], ["unknown keep 'some'; known: all, best"]),
        (["--top", "0"], ["'0' is not a whole number from 1"]),
        (["--top", "²"], ["'²' is not a whole number from 1"]),
        (["--top", "9" * 5000], [f"'{'9' * 40}' is not a whole number from 1"]),
        (["--no-such-option"], ["unrecognized arguments: --no-such-option"]),
    ],
)
def test_bad_choices(words, texts, tmp_path, capsys):
    err = refused(capsys, "sweep", "gemm", *SHAPE, "--out", tmp_path / "run", "--quiet", *words)
    for text in texts:
        assert text in err, err


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--sampler", "tep"], "nsga3, qmc, random, tpe; did you mean 'tpe'?"),
        (["--gpu-axis", "sm_count"], "--gpu-axis sm_count: write FIELD=FROM:TO"),
        (["--gpu-axis", "l2_capacity_bytes=2e8:3e7"], "the range 2e+08 to 3e+07 is empty"),
        (["--gpu-axis", "l2_capacity_bytes=2e8:3e8:lg"], "the scale 'lg' is unknown"),
        (["--gpu-axis", "l3_bytes=1:2", "--trials", "2"], "unknown GPU field 'l3_bytes'"),
        (["--out", "trials.txt"], "end the name in .parquet or .csv"),
        (["--seed", "-1"], "seed = -1 is not allowed: a whole number from 0 to 2^32 - 1"),
        (["--trials", "0"], "'0' is not a whole number from 1"),
    ],
)
def test_bad_searches(words, text, capsys):
    assert text in refused(capsys, "search", "gemm", *SHAPE, "--preset", "quick", "--quiet", *words)


@pytest.mark.parametrize(
    ("shape", "text"),
    [
        ("0x128x128", "m = 0 in shape '0x128x128': a dimension is at least 1"),
        ("128x-5x128", "n = -5 in shape '128x-5x128': a dimension is at least 1"),
        ("128x128x12.5", "k = '12.5' in shape '128x128x12.5' is not a whole number"),
        ("128x128", "has 2 dimension(s); a GEMM is MxNxK"),
        ("16777216x8x8", "past 16777215 (2^24 - 1)"),
        (f"8x{'9' * 5000}x8", "past 16777215 (2^24 - 1)"),
        ("axbxc", "m = 'a' in shape 'axbxc' is not a whole number"),
    ],
)
def test_bad_shapes(shape, text, capsys):
    assert text in refused(capsys, "sweep", "gemm", f"--shape={shape}")


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (
            "m,n,k\n128,128,128\n128,x,128\n",
            "shapes.csv, line 3, column n: 'x' is not a whole number from 1 to 16777215",
        ),
        ("m,n,k\n128,0,128\n", "shapes.csv, line 2, column n: '0' is not a whole number"),
        ("m,n\n128,128\n", "shapes.csv, line 1: the column(s) k are missing"),
        ("m,n,k,dtpe\n1,1,1,bf16\n", "did you mean 'dtype'?"),
        ("m,n,k,dtype\n1,1,1,bf61\n", "shapes.csv, line 2, column dtype: 'bf61'"),
        ("m,n,k\n", "holds no shape"),
        ("m,n,k\n64,64,64,2\n", "shapes.csv, line 2: more values than line 1 names columns"),
        ("m,n,k,m\n64,64,64,2\n", "shapes.csv, line 1: the column m is there twice"),
        ("m,n,k,name\n64,64,64,a\n64,64,64,a\n", "two shapes are called 'a'"),
    ],
)
def test_bad_shape_lists(content, text, tmp_path, capsys):
    path = tmp_path / "shapes.csv"
    path.write_text(content)
    assert text in refused(capsys, "sweep", "gemm", "--shapes", path, "--preset", "quick", "--out", tmp_path / "run")


def test_a_negative_dimension_in_front_is_no_option(capsys):
    err = refused(capsys, "sweep", "gemm", "--shape", "-8x8x8")
    assert "m = -8 in shape '-8x8x8': a dimension is at least 1" in err


def test_a_shape_list_that_is_not_text(tmp_path, capsys):
    path = tmp_path / "shapes.csv"
    path.write_bytes(b"m,n,k,name\n64,64,64,\xff\n")
    assert "shapes.csv is not UTF-8 text: byte 20" in refused(capsys, "sweep", "gemm", "--shapes", path)


def test_a_shapes_folder_stays_in_the_folder_of_the_list(tmp_path):
    for name in ("..", ".", ".hidden", "a/../..", "../x"):
        assert (tmp_path / folder_name(name)).resolve().parent == tmp_path.resolve()


def test_no_problem_or_two(capsys, tmp_path):
    assert "give the problem as --shape" in refused(capsys, "sweep", "gemm")
    assert "give the problem as --shape" in refused(capsys, "sweep", "gemm", *SHAPE, "--shapes", tmp_path / "a.csv")


def test_unknown_kernel_and_command(capsys):
    said = refused(capsys, "sweep", "gem", *SHAPE)
    assert re.search(r"unknown kernel 'gem'; known: .*, gemm, .*; did you mean 'gemm'\?", said)
    assert "unknown command 'sweeep'" in refused(capsys, "sweeep")


def test_an_unwritable_folder(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    words = small_sweep(tmp_path / "file" / "run")
    assert "cannot write into the folder" in refused(capsys, *words)


def test_a_used_folder(tmp_path, capsys):
    words = small_sweep(tmp_path / "run")
    assert main(words) == 0
    assert main(words) == 0  # the same run is finished: nothing is evaluated anew
    other = [word.replace("2048x2048x4096", "2048x2048x2048") for word in words]
    for more in ([], ["--resume"]):
        assert "is another one, results would not mix" in refused(capsys, *other, *more)
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "thesis.tex").write_text("")
    assert "holds no run of tilesweep" in refused(
        capsys, *[w.replace(str(tmp_path / "run"), str(foreign)) for w in words], "--overwrite"
    )
    assert (foreign / "thesis.tex").exists()


def test_damaged_runs(tmp_path, capsys):
    assert "no run at" in refused(capsys, "explain", tmp_path / "nothing")
    both = ("explain", tmp_path, "--schedule", "tile=128x128x64 stages=4")
    assert "give either a RUN or --schedule, not both" in refused(capsys, *both)
    assert "holds no finished run" in refused(capsys, "top", tmp_path)
    run = tmp_path / "run"
    assert main(small_sweep(run)) == 0
    assert "rank 99 is not there" in refused(capsys, "explain", run, "99")
    assert "is not in the space" in refused(capsys, "explain", run, "--index", "99999999")
    parquet = run / "top.parquet"
    parquet.write_bytes(parquet.read_bytes()[:1000])
    for command in (["top", run], ["explain", run], ["export", run, "--to", "triton"]):
        err = refused(capsys, *command)
        assert "top.parquet is truncated or damaged" in err
        assert "--overwrite" in err


@pytest.mark.parametrize("content", ["{}", "[]", "", "\x00"])
def test_damaged_summaries(content, tmp_path, capsys):
    run = tmp_path / "run"
    assert main(small_sweep(run)) == 0
    (run / "summary.json").write_text(content)
    for command in (["top", run], ["front", run], ["explain", run], ["export", run, "--to", "triton"]):
        assert "summary.json is damaged" in refused(capsys, *command)
    (run / "run.json").write_text("[]")
    assert "run.json is damaged" in refused(capsys, *small_sweep(run), "--resume")


def test_a_folder_in_the_home_folder(tmp_path, monkeypatch, capsys):
    """`--out=~/run` reaches us as it is; pyarrow and pathlib would read it differently."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    assert main(small_sweep(Path("~/run"))) == 0
    assert (tmp_path / "home" / "run" / "top.parquet").exists()
    assert answer(capsys, "top", "~/run")[0] == 0
    assert main(small_sweep(Path("~nobody-of-that-name"))) == 0
    assert (tmp_path / "~nobody-of-that-name" / "top.parquet").exists()
    assert "no GPU file at ~nobody" in refused(capsys, "gpus", "~nobody-of-that-name/a.toml")


def test_explain_needs_something_to_explain(capsys):
    assert "give a RUN folder, or --shape MxNxK and --schedule" in refused(capsys, "explain")
    assert "give a RUN folder" in refused(capsys, "explain", *SHAPE)
    assert "did you mean 'stages'?" in refused(capsys, "explain", *SHAPE, "--schedule", "tile=64x64x64 stage=3")


def test_gpus_names_an_unknown_one(capsys):
    assert "did you mean 'h200_sxm'?" in refused(capsys, "gpus", "h200sxm")


def dse_process(*words: object, stdout: Any = subprocess.PIPE, **environment: str) -> subprocess.CompletedProcess:
    root = Path(__file__).resolve().parent.parent
    return subprocess.run(
        [sys.executable, "-m", "dse", *map(str, words)],
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(root), **environment},
    )


def test_a_device_that_is_not_there(tmp_path):
    done = dse_process(*small_sweep(tmp_path / "run"), JAX_PLATFORMS="abacus")
    assert (done.returncode, done.stdout) == (2, "")
    assert "jax finds no device (JAX_PLATFORMS='abacus'): set JAX_PLATFORMS=cpu" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_nowhere_to_print_to():
    with open("/dev/full", "w") as full:
        done = dse_process("gpus", stdout=full)
    assert done.returncode == 2
    assert done.stderr == "dse: [Errno 28] No space left on device\n"


def test_a_search_into_a_folder_that_is_not_there(tmp_path, capsys):
    words = ["search", "gemm", *SHAPE, "--preset", "quick", "--trials", "4", "--quiet", "--out"]
    for name in ("trials.csv", "trials.parquet"):
        err = refused(capsys, *words, tmp_path / "none" / name)
        assert f"{tmp_path / 'none' / name}: there is no folder {tmp_path / 'none'}; make it" in err
        assert "None" not in err


def test_a_folder_that_another_process_writes_into(tmp_path, capsys):
    words = small_sweep(tmp_path / "run")
    with claimed(tmp_path / "run"):
        for more in ([], ["--resume"], ["--overwrite"]):
            assert "another process writes a run into the folder" in refused(capsys, *words, *more)
    assert main(words) == 0
    assert main([*words, "--resume"]) == 0


def test_a_run_is_not_explained_on_another_machine(tmp_path, capsys):
    assert main(["explain", str(tmp_path), "0", "--gpu", "a100_sxm", "--set", "l2_capacity=2x"]) == 2
    assert "so --gpu, --set cannot be given with it" in capsys.readouterr().err
