"""TileLang configs: read as TileLang compiles them, written back, refused with a reason."""

import math
import sys

import pytest
from cli_run import json_answer
from hypothesis import given
from hypothesis import strategies as st

from dse.candidates import read_candidates
from dse.errors import UserError
from dse.kernels.gemm import gemm_problem
from dse.schedule_text import FIELDS, parse_schedule
from dse.tilelang_config import (
    POLICIES,
    TileLangConfig,
    config_of,
    is_tilelang,
    schedule_of,
    tilelang_from,
    warp_layout,
)
from dse.triton_config import TritonGpu

PROBLEM = gemm_problem("4096x4096x4096")
HOPPER, AMPERE = TritonGpu(("wgmma", "mma_sync"), 132), TritonGpu(("mma_sync",), 108)
PLAIN = {"block_M": 128, "block_N": 256, "block_K": 64, "num_stages": 3, "thread_num": 256}
MODULE = """
import itertools
import tilelang
import tilelang.language as T
from tilelang.autotuner import AutoTuner

sizes = {"block_M": 128}


def make():
    return [
        {"block_M": m, "block_N": 128, "block_K": 32, "num_stages": 2, "thread_num": 128, "enable_rasteration": r}
        for m, r in itertools.product([64, 128], [True, False])
    ]


@tilelang.autotune(configs=make())
@tilelang.jit(out_idx=[-1])
def matmul(M, N, K, block_M=128, block_N=128, block_K=32, thread_num=128, num_stages=3):
    @T.prim_func
    def kernel(A: T.Tensor((M, K), "float16")):
        with T.Kernel(T.ceildiv(N, block_N), threads=thread_num) as bx:
            T.use_swizzle(10)

    return kernel


more = [
    dict(block_M=128, block_N=256, block_K=64, num_stages=0, threads=256, policy=T.GemmWarpPolicy.FullRow, k_pack=1),
]
tuner = AutoTuner.from_kernel(kernel=matmul, configs=more)
"""


def test_a_module_is_read_without_tilelang(tmp_path, capsys):
    path = tmp_path / "tuned.py"
    path.write_text(MODULE)
    rows = json_answer(capsys, "rank", path, "--shape", "4096x4096x4096", "--gpu", "h200_sxm")["candidates"]
    assert {row["name"] for row in rows} == {"matmul[0]", "matmul[1]", "matmul[2]", "matmul[3]", "more[0]"}
    assert "tilelang" not in sys.modules
    found = {row["name"]: row for row in rows}
    assert [found["matmul[0]"][name] for name in ("raster_along_n", "swizzle")] == [1, 10]  # TileLang's own panels
    assert [found["matmul[1]"][name] for name in ("raster_along_n", "swizzle")] == [1, 1]
    assert [found["more[0]"][name] for name in ("warps_m", "warps_n", "stages")] == [8, 1, 1]
    (unused,) = {c.unused for c in read_candidates(path, PROBLEM, HOPPER) if c.name == "more[0]"}
    assert unused == ("k_pack",)


def test_the_same_config_in_json_and_csv_and_as_objects(tmp_path):
    (tmp_path / "a.json").write_text(
        '[{"block_M": 128, "block_N": 256, "block_K": 64, "num_stages": 3, "thread_num": 256, "policy": "FullRow", '
        '"enable_rasteration": true, "panel_size": 4, "order": "column"}]'
    )
    (tmp_path / "a.csv").write_text(
        "block_M,block_N,block_K,num_stages,threads,policy,enable_rasterization,panel_size,order\n"
        "128,256,64,3,256,T.GemmWarpPolicy.FullRow,True,4,column\n"
    )
    given = {**PLAIN, "policy": 1, "enable_rasteration": 1, "panel_size": 4, "order": "column"}
    expected = parse_schedule("tile=128x256x64 stages=3 warps=8x1 raster=along_m:4", "wgmma")
    for source in (tmp_path / "a.json", tmp_path / "a.csv", [given]):
        (candidate,) = read_candidates(source, PROBLEM, HOPPER)
        assert (candidate.family, dict(candidate.schedule)) == ("wgmma", expected)


def test_hopper_takes_wgmma_where_it_can():
    assert schedule_of(tilelang_from(PLAIN, "x"), PROBLEM, HOPPER)[0] == "wgmma"
    assert schedule_of(tilelang_from({**PLAIN, "block_M": 32}, "x"), PROBLEM, HOPPER)[0] == "mma_sync"
    assert schedule_of(tilelang_from({**PLAIN, "thread_num": 64}, "x"), PROBLEM, HOPPER)[0] == "mma_sync"
    assert schedule_of(tilelang_from(PLAIN, "x"), PROBLEM, AMPERE)[0] == "mma_sync"
    assert schedule_of(tilelang_from(PLAIN, "x"), PROBLEM, TritonGpu(("tcgen05", "mma_sync"), 148))[0] == "mma_sync"


@given(
    st.sampled_from([16 * m for m in range(1, 17)]),
    st.sampled_from([8 * n for n in range(1, 33)]),
    st.sampled_from([1, 2, 4, 8, 12, 16]),
    st.sampled_from(["mma_sync", "wgmma"]),
)
def test_square_is_the_even_layout_whose_share_is_most_like_the_tile(tile_m, tile_n, warps, family):
    """By brute force over all layouts, in floating point as TileLang does; of equal ones the first along m."""
    best, found = math.inf, None
    for along_m in range(1, warps + 1):
        along_n = warps // along_m
        if along_m * along_n != warps or (family == "wgmma" and along_m % 4):
            continue
        rows, columns = tile_m / (16 * along_m), tile_n / (8 * along_n)
        if rows != int(rows) or columns != int(columns):
            continue
        if abs(rows / columns - tile_m / tile_n) < best - 1e-9:
            best, found = abs(rows / columns - tile_m / tile_n), (along_m, along_n)
    assert warp_layout("Square", tile_m, tile_n, warps, family) == found


# what GemmWarpPolicy.compute_warp_partition of TileLang 0.1.15 answers (for sm_90 "cuda.wgmma", for sm_80 "cuda.mma");
# None: it refuses. Of 4,884 combinations all agreed once.
COMPILED = [
    ("FullCol", (128, 24), 8, "wgmma", (8, 1)),
    ("FullRow", (128, 24), 4, "mma_sync", (4, 1)),
    ("FullCol", (256, 8), 4, "wgmma", (4, 1)),
    ("FullRow", (256, 8), 8, "wgmma", (8, 1)),
    ("FullCol", (192, 96), 12, "mma_sync", (1, 12)),
    ("FullCol", (256, 128), 12, "mma_sync", None),
    ("FullCol", (48, 64), 2, "mma_sync", (1, 2)),
    ("FullCol", (192, 160), 4, "mma_sync", (1, 4)),
    ("FullCol", (128, 128), 2, "mma_sync", (1, 2)),
    ("FullCol", (256, 128), 8, "wgmma", (4, 2)),
    ("Square", (16, 96), 12, "mma_sync", (1, 12)),
    ("FullRow", (256, 8), 12, "wgmma", None),
    ("FullRow", (96, 256), 12, "wgmma", None),
    ("FullCol", (128, 64), 16, "mma_sync", (2, 8)),
    ("FullCol", (128, 8), 4, "wgmma", (4, 1)),
    ("FullRow", (128, 64), 4, "mma_sync", (4, 1)),
    ("FullRow", (64, 64), 4, "wgmma", (4, 1)),
    ("FullRow", (96, 256), 16, "mma_sync", (2, 8)),
    ("FullCol", (256, 128), 16, "mma_sync", (1, 16)),
    ("FullRow", (64, 128), 8, "mma_sync", (4, 2)),
    ("Square", (256, 96), 16, "mma_sync", (4, 4)),
    ("Square", (96, 128), 16, "mma_sync", (2, 8)),
    ("Square", (192, 160), 8, "wgmma", (4, 2)),
    ("FullRow", (192, 64), 16, "mma_sync", (4, 4)),
    ("FullRow", (256, 96), 2, "mma_sync", (2, 1)),
    ("FullCol", (192, 160), 4, "wgmma", (4, 1)),
    ("FullCol", (64, 64), 4, "wgmma", (4, 1)),
    ("Square", (16, 64), 4, "mma_sync", (1, 4)),
    ("FullRow", (48, 256), 2, "mma_sync", (1, 2)),
    ("FullCol", (192, 24), 2, "mma_sync", (2, 1)),
    ("FullCol", (192, 128), 8, "mma_sync", (1, 8)),
    ("Square", (256, 8), 16, "mma_sync", (16, 1)),
    ("Square", (256, 24), 2, "mma_sync", (2, 1)),
    ("FullCol", (128, 24), 12, "wgmma", (4, 3)),
    ("Square", (128, 8), 8, "mma_sync", (8, 1)),
    ("FullRow", (256, 128), 12, "wgmma", None),
    ("Square", (96, 160), 16, "wgmma", None),
    ("Square", (96, 64), 2, "mma_sync", (1, 2)),
    ("FullRow", (48, 64), 2, "mma_sync", (1, 2)),
    ("FullRow", (192, 96), 16, "mma_sync", (4, 4)),
    ("FullCol", (192, 256), 16, "mma_sync", (1, 16)),
    ("FullCol", (256, 8), 16, "mma_sync", (16, 1)),
    ("FullRow", (192, 96), 12, "mma_sync", (12, 1)),
    ("FullRow", (64, 128), 8, "wgmma", (4, 2)),
    ("FullCol", (64, 128), 16, "wgmma", (4, 4)),
    ("FullCol", (192, 8), 12, "wgmma", (12, 1)),
    ("Square", (192, 96), 8, "wgmma", (4, 2)),
    ("Square", (16, 256), 16, "mma_sync", (1, 16)),
]


@pytest.mark.parametrize(("policy", "tile", "warps", "family", "layout"), COMPILED)
def test_warps_stand_as_tilelang_places_them(policy, tile, warps, family, layout):
    assert warp_layout(policy, *tile, warps, family) == layout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("tile=128x256x64 stages=3 warps=8x1 launch=persistent", "a persistent or stream-K grid"),
        ("tile=128x256x64 stages=3 warps=8x1 launch=split_k:4", "split-K"),
        ("tile=128x256x64 stages=3 warps=8x1 cluster=2x1", "a cluster"),
        ("tile=128x256x64 stages=3 warps=8x1 swap_ab=1", "swapped operands"),
        ("tile=128x256x64 stages=3 warps=8x1 epilogue=direct", "an epilogue that does not go through shared memory"),
        ("tile=128x256x64 stages=3 warps=2x8", "a warp layout that no policy of TileLang chooses"),
    ],
)
def test_what_tilelang_cannot_say(words, said):
    assert config_of(parse_schedule(words, "wgmma"), "wgmma", PROBLEM, HOPPER) == said


def test_what_else_it_compiles_to():
    at = parse_schedule("tile=128x128x32 stages=3 warps=2x2", "mma_sync")
    assert config_of(at, "mma_sync", PROBLEM, HOPPER) == "a tile that TileLang gives to wgmma, not mma_sync"
    assert config_of(at, "mma_sync", PROBLEM, AMPERE) == TileLangConfig((128, 128, 32), 3, 128, "Square", 1, "column")
    said = config_of(at | {"tile_n": 256}, "tcgen05", PROBLEM, TritonGpu(("tcgen05",), 148))
    assert str(said).startswith("tcgen05 (a TileLang kernel of its own")


@given(
    st.sampled_from([16, 48, 64, 128, 256]),
    st.sampled_from([8, 24, 64, 128, 256]),
    st.sampled_from([1, 2, 4, 8, 16]),
    st.sampled_from([0, 1, 2, 4, 8, 16]),
    st.sampled_from(["row", "column"]),
    st.sampled_from(POLICIES),
    st.sampled_from([HOPPER, AMPERE]),
    st.integers(0, 6),
)
def test_a_config_that_compiles_is_found_again(tile_m, tile_n, warps, panel, order, policy, gpu, stages):
    """The schedule of a config has a config, and that one is the same schedule."""
    config = TileLangConfig((tile_m, tile_n, 32), stages, 32 * warps, policy, panel, order)
    try:
        family, schedule = schedule_of(config, PROBLEM, gpu)
    except UserError:
        assert warp_layout(policy, tile_m, tile_n, warps, "mma_sync") is None or gpu is HOPPER
        return
    again = config_of(schedule, family, PROBLEM, gpu)
    assert isinstance(again, TileLangConfig)
    assert schedule_of(again, PROBLEM, gpu) == (family, schedule)
    assert set(schedule) == set(FIELDS)
    assert tilelang_from(again.items(), "x") == again


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"num_stages": None}, "candidates[0] lacks num_stages"),
        ({"thread_num": 100}, "candidates[0]: thread_num = 100 is not a whole number of warps of 32"),
        ({"block_N": 12.5}, "candidates[0]: block_N = 12.5 is not a whole number from 1"),
        (
            {"policy": "Squar"},
            "unknown policy in candidates[0]: 'Squar'; known: FullCol, FullRow, Square; did you mean",
        ),
        ({"order": "rows"}, "unknown order in candidates[0]: 'rows'"),
        ({"enable_rasteration": "yes"}, "candidates[0]: enable_rasteration = 'yes' is neither True nor False"),
        (
            {"block_M": 16, "block_N": 128, "thread_num": 1024},
            "candidates[0]: policy Square cannot lay out 32 warps on a tile of 16x128",
        ),
    ],
)
def test_wrong_configs_say_what_is_wrong(change, said):
    with pytest.raises(UserError) as error:
        read_candidates([{**PLAIN, **change}], PROBLEM, AMPERE)
    assert said in str(error.value)


def test_triton_configs_are_not_taken_for_tilelang():
    assert not is_tilelang({"BLOCK_M": 128, "num_warps": 8})
    assert not is_tilelang({"block_m": 128, "num_warps": 8})
    assert is_tilelang(PLAIN)
