"""The user's own candidates: read from Python, JSON and CSV, ranked, and refused with a reason."""

import json
import sys

import pytest
from cli_run import answer, json_answer

from dse import rank
from dse.cli import main
from dse.errors import UserError
from dse.kernels.gemm import gemm_problem
from dse.triton_config import TritonConfig, TritonGpu, config_of, schedule_of

SHAPE = "4096x4096x4096"
CONFIGS = """
import torch
import triton
import triton.language as tl

SIZE = 128


def make():
    return [
        triton.Config({"BLOCK_SIZE_M": SIZE, "BLOCK_SIZE_N": 256, "BLOCK_SIZE_K": 64, "GROUP_SIZE_M": 8}, num_warps=8),
        triton.Config({"BLOCK_SIZE_M": 32, "BLOCK_SIZE_N": 64, "BLOCK_SIZE_K": 32, "GROUP_SIZE_M": 800}, num_warps=2),
        triton.Config({"BLOCK_SIZE_M": 256, "BLOCK_SIZE_N": 256, "BLOCK_SIZE_K": 128, "EVEN_K": True}, num_stages=4),
    ]


@triton.autotune(configs=make(), key=["M"])
@triton.jit
def matmul(a, b, M, BLOCK_SIZE_M: tl.constexpr, out: torch.Tensor | None = None):
    tl.store(a, b)


extra = [triton.Config({"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 64, "SPLIT_K": 4}, num_warps=4)]
"""


@pytest.fixture
def configs(tmp_path):
    path = tmp_path / "my_configs.py"
    path.write_text(CONFIGS)
    return path


def test_a_python_file_is_read_without_triton(configs):
    ranked = rank(configs, shape=SHAPE)
    assert set(ranked["name"]) == {"matmul[0]", "matmul[1]", "matmul[2]", "extra[0]"}
    assert ranked["feasible"].tolist() == [True, True, True, False]
    assert ranked["latency_s"][:3].is_monotonic_increasing
    assert ranked["slowdown"][0] == 1.0
    last = ranked.iloc[3]
    assert last["name"] == "matmul[2]"
    assert last["why"] == (
        "SMEM: needs 524352 B of shared memory, 232448 B available: fewer stages or a smaller tile_k"
    )
    assert "triton" not in sys.modules


def test_triton_decides_the_family(configs):
    families = rank(configs, shape=SHAPE).set_index("name")["family"]
    assert families.to_dict() == {
        "matmul[0]": "wgmma",
        "matmul[1]": "mma_sync",  # 32 rows are too few for wgmma
        "matmul[2]": "wgmma",
        "extra[0]": "wgmma",
    }
    assert set(rank(configs, shape=SHAPE, gpu="a100_sxm")["family"]) == {"mma_sync"}


def test_a_panel_wider_than_the_grid_is_no_obstacle(configs):
    ranked = rank(configs, shape=SHAPE).set_index("name")
    assert ranked.loc["matmul[1]", "feasible"]
    assert (ranked.loc["matmul[1]", "raster_along_n"], ranked.loc["matmul[1]", "swizzle"]) == (0, 1)


def test_objects_texts_and_mappings_rank_alike():
    config = {"BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": 64, "GROUP_M": 8, "num_warps": 8, "num_stages": 3}
    words = "tile=128x256x64 stages=3 warps=8x1 raster=along_n:8"
    nested = {"kwargs": {"BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": 64, "GROUP_M": 8}, "num_warps": 8}
    ranked = rank([config, words, nested], shape=SHAPE)
    assert ranked["name"].tolist() == ["candidates[0]", "candidates[1]", "candidates[2]"]
    assert ranked["latency_s"].nunique() == 1


def test_measured_resources_replace_the_estimate():
    config = {"BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": 64, "num_warps": 8, "num_stages": 3}
    ranked = rank([config, {**config, "shared": 230000, "n_regs": 200}, {**config, "shared": 240000}], shape=SHAPE)
    by_name = ranked.set_index("name")
    assert by_name.loc["candidates[1]", "smem_bytes"] == 230000
    assert by_name.loc["candidates[1]", "registers_per_thread"] == 200
    assert by_name.loc["candidates[0]", "smem_bytes"] != 230000
    assert by_name.loc["candidates[2]", "why"].startswith("SMEM: needs 240000 B of shared memory, 232448 B available")


def test_csv_and_json_files(tmp_path, capsys):
    entry = {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64, "num_warps": 4, "num_stages": 4}
    (tmp_path / "a.json").write_text(json.dumps([entry, {"tile": "64x64x64", "stages": 3}]))
    (tmp_path / "a.csv").write_text("BLOCK_M,BLOCK_N,BLOCK_K,num_warps,num_stages\n128,128,64,4,4\n64,64,64,4,3\n")
    from_json = json_answer(capsys, "rank", tmp_path / "a.json", "--shape", SHAPE)["candidates"]
    from_csv = json_answer(capsys, "rank", tmp_path / "a.csv", "--shape", SHAPE)["candidates"]
    assert {at["name"] for at in from_json} == {"entry 0", "entry 1"}
    assert {at["name"] for at in from_csv} == {"line 2", "line 3"}
    assert from_json[0]["latency_s"] == from_csv[0]["latency_s"]
    # a row of a batch: its schedule is the candidate, whatever costs stand beside it
    (tmp_path / "b.csv").write_text('name,schedule,smem_bytes,tile_m\ndown,"tile=64x64x64 stages=3",41040,128\n')
    row = json_answer(capsys, "rank", tmp_path / "b.csv", "--shape", SHAPE)["candidates"]
    assert [at["latency_s"] for at in row] == [at["latency_s"] for at in from_json if at["name"] == "entry 1"]


def test_the_command_says_that_it_runs_the_file(configs, capsys):
    code, out, err = answer(capsys, "rank", configs, "--shape", SHAPE)
    assert code == 0
    assert f"running {configs}" in err
    assert "1 of 4 cannot run" in out
    assert "not used by the model: EVEN_K" in out


@pytest.mark.parametrize(
    ("name", "content", "text"),
    [
        ("a.txt", "x", "is none of .py, .json, .csv"),
        ("a.py", "x = 1\n", "binds no list of triton.Config at module level"),
        ("a.py", "import triton\n\n1 / 0\n", "a.py, line 3: running the file raised ZeroDivisionError"),
        ("a.py", "def f(:\n", "a.py, line 1: "),
        ("a.json", "{", "is not readable JSON"),
        ("a.json", "{}", "must hold a list of objects"),
        ("a.json", "[]", "holds no candidate"),
        ("a.json", '[{"BLOCK_M": 64}]', "entry 0 lacks BLOCK_N, BLOCK_K"),
        (
            "a.json",
            '[{"BLOCK_M": 64.5, "BLOCK_N": 64, "BLOCK_K": 64}]',
            "entry 0: BLOCK_M = 64.5 is not a whole number",
        ),
        ("a.json", '[{"BLOCK_M": 0, "BLOCK_N": 64, "BLOCK_K": 64}]', "entry 0: BLOCK_M = 0 is not allowed"),
        ("a.json", '[{"tile": "64x64", "stages": 3}]', "entry 0: tile=64x64 is not MxNxK"),
        ("a.json", "[3]", "entry 0 is 3: neither a Triton config nor a schedule"),
        ("a.csv", "m,n,k\n1,2,3\n", "the schedule lacks tile_m"),
    ],
)
def test_unreadable_candidates(tmp_path, name, content, text):
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(UserError) as error:
        rank(path, shape=SHAPE)
    assert text in str(error.value)


HOPPER = TritonGpu(("wgmma", "mma_sync"), 132)
BLACKWELL = TritonGpu(("tcgen05", "mma_sync"), 148)


def test_num_sms_is_a_persistent_grid():
    config = TritonConfig({"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64, "NUM_SMS": 124})
    _, schedule = schedule_of(config, gemm_problem(SHAPE), HOPPER)
    assert (schedule["persistent"], schedule["sms_free"]) == (1, 8)


def test_two_ctas_on_blackwell_are_a_pair():
    config = TritonConfig({"BLOCK_M": 256, "BLOCK_N": 128, "BLOCK_K": 64, "GROUP_M": 4}, num_ctas=2)
    family, schedule = schedule_of(config, gemm_problem(SHAPE), BLACKWELL)
    assert family == "tcgen05"
    assert (schedule["cta_pair"], schedule["tile_m"], schedule["cluster_m"]) == (1, 128, 2)
    assert config_of(schedule, family, gemm_problem(SHAPE), BLACKWELL) == config


def test_what_a_python_file_prints_is_not_part_of_the_answer(configs, capfd):
    noise = 'print("printed")\nimport subprocess\nsubprocess.run(["echo", "by a child"])\n'
    configs.write_text(noise + CONFIGS)
    assert main(["rank", str(configs), "--shape", SHAPE, "--json"]) == 0
    shown = capfd.readouterr()
    assert len(json.loads(shown.out)["candidates"]) == 4
    assert "printed" in shown.err
    assert "by a child" in shown.err


@pytest.mark.parametrize("line", ["raise RuntimeError('boom')", "import sys; sys.exit(0)"])
def test_a_python_file_that_ends_early_names_its_line(line, tmp_path, monkeypatch, capsys):
    (tmp_path / "mine.py").write_text(f"x = 1\n{line}\n")
    monkeypatch.chdir(tmp_path)
    code, out, err = answer(capsys, "rank", "mine.py", "--shape", SHAPE)
    assert (code, out) == (2, "")
    assert "mine.py, line 2: running the file raised" in err


BLOCKS = "BLOCK_M,BLOCK_N,BLOCK_K"


@pytest.mark.parametrize(
    ("name", "content", "text"),
    [
        ("a.json", b"[" * 100_000, "is not readable JSON"),
        ("a.json", b'[{"BLOCK_M":1e400,"BLOCK_N":64,"BLOCK_K":64}]', "BLOCK_M = inf is not a whole number"),
        ("a.json", b'[{"BLOCK_M":"\xff"}]', "is not readable JSON"),
        ("a.csv", f"{BLOCKS}\n64,64,64,1\n".encode(), "a.csv, line 2: more values than line 1 names columns"),
        ("a.csv", f"{BLOCKS}\n64,".encode() + b"\xff,64\n", "a.csv is not UTF-8 text"),
    ],
)
def test_unreadable_files(name, content, text, tmp_path, capsys):
    (tmp_path / name).write_bytes(content)
    code, out, err = answer(capsys, "rank", tmp_path / name, "--shape", SHAPE)
    assert (code, out) == (2, "")
    assert text in err


def test_files_as_spreadsheets_write_them(tmp_path, capsys):
    (tmp_path / "a.csv").write_bytes(b"\xef\xbb\xbfBLOCK_M, BLOCK_N , BLOCK_K\r\n64, 64, 64\r\n\r\n")
    (tmp_path / "a.json").write_bytes(b'\xef\xbb\xbf[{"BLOCK_M": 64, "BLOCK_N": "64", "BLOCK_K": 64}]')
    for name in ("a.csv", "a.json"):
        (row,) = json_answer(capsys, "rank", tmp_path / name, "--shape", SHAPE)["candidates"]
        assert (row["tile_m"], row["tile_n"], row["tile_k"]) == (64, 64, 64)
