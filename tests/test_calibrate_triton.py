"""Readers of measured latencies: Triton's cache and what autotuning prints."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from dse.calibrate.readers import ReadOptions, parse_key, read_measurements
from dse.content import load_gpu
from dse.errors import UserError
from dse.kernels.gemm import gemm_problem
from dse.schedule_text import FIELDS
from dse.triton_config import TritonGpu, config_from, schedule_of

GPU = load_gpu("h100_sxm")
OPTIONS = ReadOptions(GPU)
PLAIN = "m,n,k,latency_us\n128,4096,4096,12.5\n256,8192,4096,40\n"
TUNED = {
    "key": ["512", "1024", "2048", "torch.bfloat16", "torch.bfloat16", "torch.bfloat16"],
    "configs_timings": [
        [
            {
                "kwargs": {"BLOCK_SIZE_M": 128, "BLOCK_SIZE_N": 256, "BLOCK_SIZE_K": 64, "GROUP_SIZE_M": 8},
                "num_warps": 8,
                "num_ctas": 1,
                "num_stages": 4,
                "maxnreg": None,
                "pre_hook": None,
                "ir_override": None,
            },
            [0.0123, 0.0121, 0.0131],
        ],
        [
            {"kwargs": {"BLOCK_SIZE_M": 64, "BLOCK_SIZE_N": 64, "BLOCK_SIZE_K": 32}, "num_warps": 4, "num_stages": 3},
            0.02,
        ],
        [{"kwargs": {"BLOCK_SIZE_M": 256, "BLOCK_SIZE_N": 256, "BLOCK_SIZE_K": 256}}, [math.inf] * 3],
    ],
}
INDUCTOR = """\
some other line
AUTOTUNE mm(512x2048, 2048x1024)
strides: [2048, 1], [1, 2048]
dtypes: torch.bfloat16, torch.bfloat16
  mm 0.0111 ms 100.0%
  triton_mm_7 0.0140 ms 79.3% ACC_TYPE='tl.float32', ALLOW_TF32=False, BLOCK_K=64, BLOCK_M=128, BLOCK_N=128, \
EVEN_K=True, GROUP_M=8, num_stages=4, num_warps=8
  triton_mm_8 inf ms 0.0% ACC_TYPE='tl.float32', BLOCK_K=64, BLOCK_M=128, BLOCK_N=128, num_stages=9, num_warps=8
SingleProcess AUTOTUNE benchmarking takes 0.7 seconds and 2.0 seconds precompiling for 3 choices
AUTOTUNE addmm(64x768, 64x256, 256x768)
strides: [0, 1], [256, 1], [768, 1]
dtypes: torch.float16, torch.float16, torch.float16
  bias_addmm 0.0052 ms 100.0%
AUTOTUNE convolution(1x3x8x8, 4x3x1x1)
  convolution 0.01 ms 100.0%
"""
WINNERS = """\
Triton autotuning for function matmul_kernel,
with key as (128, 4096, 4096, 'torch.bfloat16', 'torch.bfloat16', 'torch.bfloat16'),
finished after 3.21s,
best config selected: BLOCK_SIZE_M: 64, BLOCK_SIZE_N: 128, BLOCK_SIZE_K: 64, GROUP_SIZE_M: 4, num_warps: 4, \
num_ctas: 1, num_stages: 4, maxnreg: None;
"""


def test_a_triton_cache_gives_every_config_with_its_schedule(tmp_path):
    found = read(tmp_path, "matmul.autotune.json", json.dumps(TUNED))
    measured = found.measured
    assert measured.m.tolist() == [512, 512]
    assert measured.n.tolist() == [1024, 1024]
    assert measured.k.tolist() == [2048, 2048]
    assert measured.latency_s.tolist() == pytest.approx([12.3e-6, 20e-6])
    assert measured.source.tolist() == ["matmul", "matmul"]
    assert found.left_out == {"configs that did not run": 1}
    config = config_from(
        {"BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": 64, "GROUP_M": 8, "num_warps": 8, "num_stages": 4}, ""
    )
    _, schedule = schedule_of(config, gemm_problem("512x1024x2048"), TritonGpu(GPU.families("bf16"), 132))
    assert {name: measured.schedule[name][0] for name in FIELDS} == schedule


def test_a_folder_stands_for_the_cached_gemms_below_it(tmp_path):
    for name, tuned in (
        ("a/mm", TUNED),
        ("b/mm", TUNED),
        ("c/softmax", {"key": ["1"], "configs_timings": [[{"kwargs": {"B": 2}}, 1]]}),
    ):
        path = tmp_path / f"{name}.autotune.json"
        path.parent.mkdir()
        path.write_text(json.dumps(tuned))
    found = read_measurements([tmp_path], OPTIONS)
    assert len(found.measured) == 4
    assert found.left_out["cached results of kernels that are no GEMM"] == 1


def test_a_key_is_mapped_by_its_positions(tmp_path):
    tuned = TUNED | {"key": ["7", "2048", "512", "1024", "True", "torch.float16", "torch.float16", "torch.float32"]}
    options = ReadOptions(GPU, key=parse_key("_,k,m,n"))
    measured = read(tmp_path, "x.json", json.dumps(tuned), options).measured
    assert (measured.m[0], measured.n[0], measured.k[0]) == (512, 1024, 2048)
    assert (measured.dtype[0], measured.out_dtype[0]) == ("fp16", "fp32")
    message = r"the key \['7', .* holds 4 whole numbers, not three: say which are m, n and k, e.g. --key m,n,k,_"
    with pytest.raises(UserError, match=message):
        read(tmp_path, "x.json", json.dumps(tuned))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("m,n", "--key m,n: k stands there 0 times; write e.g. --key m,n,k,_"),
        ("m,n,k,k", "--key m,n,k,k: k stands there 2 times"),
        ("m,n,q", "--key m,n,q: 'q' is none of m, n, k, _"),
    ],
)
def test_bad_keys_are_named(text, message):
    with pytest.raises(UserError, match=message):
        parse_key(text)


@pytest.mark.parametrize(
    ("tuned", "message"),
    [
        ({"key": [1]}, 'x.json is not an autotuning result: an object with "key"'),
        (TUNED | {"key": ["a", "1", "2"]}, "holds 2 whole numbers, not three"),
        (TUNED | {"key": ["1", "2", "3", "torch.complex64"]}, "unknown type in .*x.json 'torch.complex64'"),
        (TUNED | {"key": ["1", "2", "3", "torch.float16", "torch.int8"]}, "x.json: A is fp16 and B is int8"),
        (
            TUNED | {"configs_timings": [[{"kwargs": {"BLOCK_M": 64}}, 1]]},
            r"configs_timings\[0\] lacks BLOCK_N, BLOCK_K",
        ),
        (TUNED | {"configs_timings": [["text", 1]]}, r"configs_timings\[0\]: the config is 'text': an object with"),
        (TUNED | {"configs_timings": [7]}, r"configs_timings\[0\] is 7: \[config, times\] is needed"),
        (TUNED | {"configs_timings": TUNED["configs_timings"][2:]}, "no config ran: tune the kernel on h100_sxm again"),
        (
            TUNED | {"configs_timings": [[TUNED["configs_timings"][0][0], None]]},
            r"\[0\]: the time is empty: a time above",
        ),
        (
            TUNED
            | {"configs_timings": [[{"kwargs": {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 64, "NUM_SMS": 148}}, 1]]},
            r"configs_timings\[0\]: NUM_SMS = 148 is not allowed: the GPU has 132 SMs",
        ),
    ],
)
def test_bad_triton_caches_are_named(tmp_path, tuned, message):
    with pytest.raises(UserError, match=message):
        read(tmp_path, "x.json", json.dumps(tuned))


def test_unreadable_json_is_named(tmp_path):
    with pytest.raises(UserError, match=r"x.json is not readable JSON: "):
        read(tmp_path, "x.json", '{"key": [')


def test_inductor_choices_are_read_with_shape_types_and_layout(tmp_path):
    found = read(tmp_path, "log.txt", INDUCTOR)
    measured = found.measured
    assert measured.latency_s.tolist() == pytest.approx([11.1e-6, 14.0e-6, 5.2e-6])
    assert measured.m.tolist() == [512, 512, 64]
    assert measured.n.tolist() == [1024, 1024, 768]
    assert measured.k.tolist() == [2048, 2048, 256]
    assert measured.layout.tolist() == ["tn", "tn", "tt"]
    assert measured.dtype.tolist() == ["bf16", "bf16", "fp16"]
    assert measured.has_schedule.tolist() == [False, True, False]
    assert measured.schedule["tile_k"].tolist() == [0, 64, 0]
    assert not measured.beta.any()
    assert found.left_out["choices that did not run"] == 1
    assert found.left_out["choices of convolution or of a shape that is not fixed"] == 1


def test_a_log_of_winners_names_the_schedules_of_rows_that_name_none(tmp_path):
    (tmp_path / "log.txt").write_text(WINNERS)
    (tmp_path / "mine.csv").write_text(PLAIN)
    measured = read_measurements([tmp_path / "mine.csv", tmp_path / "log.txt"], OPTIONS).measured
    assert measured.has_schedule.tolist() == [True, False]
    assert measured.schedule["tile_m"].tolist() == [64, 0]
    with pytest.raises(
        UserError, match=r"Triton prints which config won, not how long it took. Give the latencies as w"
    ):
        read_measurements([tmp_path / "log.txt"], OPTIONS)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "Triton autotuning for function f finished after 1.00s; best config selected: BLOCK_M: 64, num_warps: 4;",
            "x.log, line 1: the line names no key, so the shape is not known: a newer Triton prints it",
        ),
        (WINNERS.replace("(128,", "(x y,"), r"x.log, line 1: the key \(x y, .* is not readable"),
        (
            "Autotuning kernel f with config BLOCK_M: 64",
            "x.log holds no result of autotuning a GEMM: give what PyTorch",
        ),
        (INDUCTOR.replace("torch.bfloat16", "torch.float64"), "unknown type in .*x.log, line 2 'torch.float64'"),
    ],
)
def test_bad_logs_are_named(tmp_path, text, message):
    with pytest.raises(UserError, match=message):
        read(tmp_path, "x.log", text)


def test_several_files_are_one_set(tmp_path):
    (tmp_path / "a.csv").write_text(PLAIN)
    (tmp_path / "b.json").write_text(json.dumps(TUNED))
    measured = read_measurements([tmp_path / "a.csv", tmp_path / "b.json"], OPTIONS).measured
    assert len(measured) == 4
    assert np.array_equal(measured.has_schedule, [False, False, True, True])
    assert "a.csv (2 rows" in measured.origin
    assert "b.json (2 rows" in measured.origin


def read(folder: Path, name: str, text: str, options: ReadOptions = OPTIONS):
    path = folder / name
    path.write_text(text)
    return read_measurements([path], options)
