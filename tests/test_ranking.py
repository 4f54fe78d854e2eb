"""Schedules ranked by the model against measured ones: the arithmetic, the readers, and the published sweeps."""

import argparse
import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dse.cli import Parser, validate_schedules
from dse.content.gpu import load_gpu
from dse.errors import UserError
from dse.kernels.gemm import GemmProblem
from dse.schedule_text import parse_schedule
from dse.validation.ranking import KEPT_PERCENT, gains, rank_measured, rank_quality
from dse.validation.schedule_tables import read_cute_sweep, read_cutlass_sweep, read_schedule_table

MEASURED = Path(__file__).resolve().parents[2] / "shared/data/measured"
PROBLEM = GemmProblem(1024, 1024, 1024)
OWN = """tile, stages, warps, raster, launch, latency_us
128x128x64, 4, 2wg, along_m:4, persistent, 11.5
128x256x64, 4, 2wg, along_n:1, persistent, 9.25
64x64x64, 4, 1wg, along_m:1, data_parallel, 20
"""


def published(name: str) -> Path:
    path = MEASURED / name
    if not path.is_file():
        pytest.skip(f"the published sweep {path} is not here: it may not be copied into the repository")
    return path


def written(folder: Path, text: str) -> Path:
    path = folder / "table.csv"
    path.write_text(text)
    return path


def test_a_right_order_regrets_nothing_and_keeps_all():
    measured = np.array([3.0, 1.0, 2.0, 4.0])
    found = rank_quality(10 * measured, measured)
    assert found.spearman == pytest.approx(1.0)
    assert found.top1_regret == 0.0
    assert set(found.retained.values()) == {100.0}
    assert found.mape == pytest.approx(900.0)


def test_a_reversed_order_picks_the_slowest():
    measured = np.array([1.0, 2.0, 4.0])
    found = rank_quality(measured[::-1], measured)
    assert found.spearman == pytest.approx(-1.0)
    assert found.top1_regret == pytest.approx(300.0)
    assert found.retained[15] == pytest.approx(25.0)


def test_what_cannot_run_counts_as_slowest_and_has_no_error():
    found = rank_quality(np.array([1.1, np.inf, 1.8, np.inf]), np.array([1.0, 9.0, 2.0, 8.0]))
    assert (found.count, found.runnable) == (4, 2)
    assert found.spearman == pytest.approx(np.corrcoef([1, 3.5, 2, 3.5], [1, 4, 2, 3])[0, 1])
    assert found.spearman_runnable == pytest.approx(1.0)
    assert (found.mape, found.bias) == (pytest.approx(10.0), pytest.approx(0.0))


def test_ties_of_the_prediction_are_broken_against_it():
    found = rank_quality(np.array([1.0, 1.0, 2.0]), np.array([1.0, 1.5, 1.2]))
    assert found.top1_regret == pytest.approx(50.0)
    assert np.isnan(rank_quality(np.ones(3), np.array([1.0, 2.0, 3.0])).spearman)


def test_the_kept_share_is_rounded_up_to_whole_schedules():
    measured = np.array([5.0, *np.arange(20.0, 0.0, -1.0)])  # 21 schedules; predicted order is the table's
    found = rank_quality(np.arange(21.0) + 1, measured)
    assert found.retained == {1: 20.0, 5: 20.0, 10: 20.0, 15: 20.0}
    found = rank_quality(np.arange(20.0) + 1, measured[1:])
    assert found.retained == pytest.approx({1: 100 / 20, 5: 100 / 20, 10: 100 / 19, 15: 100 / 18})


@given(st.lists(st.tuples(st.integers(1, 50), st.integers(1, 50)), min_size=2, max_size=40), st.randoms())
def test_the_judgement_depends_on_the_order_alone_and_keeping_more_never_loses(pairs, random):
    predicted, measured = np.array(pairs, float).T
    found = rank_quality(predicted, measured)
    stretched = rank_quality(predicted**3 + 7, measured)
    shuffled = pairs.copy()
    random.shuffle(shuffled)
    permuted = rank_quality(*np.array(shuffled, float).T)
    for other in (stretched, permuted):
        assert other.spearman == pytest.approx(found.spearman, nan_ok=True)
        assert other.top1_regret == pytest.approx(found.top1_regret)
        assert other.retained == pytest.approx(found.retained)
    kept = [found.retained[part] for part in KEPT_PERCENT]
    assert kept == sorted(kept)
    assert 0 < kept[0] <= kept[-1] <= 100
    assert found.top1_regret >= 0


def test_a_users_table_is_ranked_with_the_latencies_that_explain_gives(tmp_path):
    from dse.api import explain

    gpu = load_gpu("h100_sxm")
    (measured,) = read_schedule_table(written(tmp_path, OWN), gpu, PROBLEM)
    assert measured.latency_us.tolist() == [11.5, 9.25, 20.0]
    assert measured.names == ("line 2", "line 3", "line 4")
    (entry,) = rank_measured([measured], gpu).problems
    alone = [explain(schedule, shape=PROBLEM, gpu=gpu).latency_s * 1e6 for schedule in measured.schedules]
    assert entry.rows["predicted_us"].tolist() == pytest.approx(alone, rel=1e-6)
    hosted = rank_measured([measured], gpu, launch="host").problems[0]
    extra_us = (gpu["host_launch_overhead_s"] - gpu["launch_overhead_s"]) * 1e6
    assert (hosted.rows["predicted_us"] - entry.rows["predicted_us"]).tolist() == pytest.approx(
        [extra_us] * 3, rel=1e-3
    )


def test_rows_bring_their_own_problems_and_triton_configs(tmp_path):
    text = """m,n,k,BLOCK_M,BLOCK_N,BLOCK_K,GROUP_M,num_warps,num_stages,latency_us
512,512,512,128,128,64,8,8,4,5
4096,4096,4096,128,256,64,8,8,3,250
512,512,512,64,128,64,8,4,4,6
"""
    gpu = load_gpu("h100_sxm")
    first, second = read_schedule_table(written(tmp_path, text), gpu, PROBLEM, sized=False)
    assert (first.problem.m, second.problem.m) == (512, 4096)
    assert first.latency_us.tolist() == [5.0, 6.0]
    assert first.schedules[1]["tile_m"] == 64
    assert second.schedules[0]["tile_n"] == 256
    assert rank_measured([first, second], gpu).mean.count == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tile,stages\n128x128x64,4\n", "has no column latency_us; needed: latency_us and a schedule"),
        ("tile,stages,latency_us\n", "holds no row: one schedule with its latency a line is needed"),
        ("tile,stages,latency_us\n128x128x64,4,-1\n", "line 2: latency_us = '-1' is not a number above 0"),
        ("tile,stages,latency_us\n128x128x64,4,fast\n", "line 2: latency_us = 'fast' is not a number above 0"),
        ("m,tile,stages,latency_us\n8,128x128x64,4,1\n", "has a column m but not all of m, n, k: give all three"),
        ("tile,stages,latency_us\n128x128x64,4,1\n", "has no columns m, n, k: give the shape of its rows, --shape"),
        (
            "size,config_name,median_time_ms\n64,fast,1\n",
            "'fast' is not a name like 128x256x64_DataParallel_RasterM_Swz8",
        ),
    ],
)
def test_unusable_tables_say_what_is_missing(tmp_path, text, message):
    with pytest.raises(UserError, match=re.escape(message)):
        read_schedule_table(written(tmp_path, text), load_gpu("h100_sxm"), PROBLEM, sized=False)


def test_wrong_arguments_are_named(tmp_path):
    with pytest.raises(UserError, match=r"no table of measured schedules at .*nowhere\.csv; give a CSV file"):
        read_schedule_table(tmp_path / "nowhere.csv", load_gpu("h100_sxm"), PROBLEM)
    (measured,) = read_schedule_table(written(tmp_path, OWN), load_gpu("h100_sxm"), PROBLEM)
    with pytest.raises(UserError, match="unknown launch 'hosts'; known: graph, host; did you mean 'host'"):
        rank_measured([measured], load_gpu("h100_sxm"), launch="hosts")
    with pytest.raises(UserError, match="no measured schedules to rank"):
        rank_measured([], load_gpu("h100_sxm"))


def test_a_problem_without_a_rank_correlation_does_not_spoil_the_mean(tmp_path):
    gpu = load_gpu("h100_sxm")
    (three,) = read_schedule_table(written(tmp_path, OWN), gpu, PROBLEM)
    (one,) = read_schedule_table(written(tmp_path, "\n".join(OWN.splitlines()[:2])), gpu, PROBLEM)
    found = rank_measured([three, one], gpu)
    assert np.isnan(found.problems[1].quality.spearman)
    assert found.mean.spearman == found.problems[0].quality.spearman
    assert found.mean.count == 4


def test_cutlass_rows_that_split_k_go_and_equal_ones_are_averaged(tmp_path):
    text = """size,config_name,median_time_ms
1024,128x128x64_DataParallel_RasterM_Swz2,0.010
1024,128x128x64_SplitK_RasterM_Swz2_Spl1,0.014
1024,128x128x64_SplitK_RasterM_Swz2_Spl2,0.5
1024,128x128x64_StreamK_RasterM_Swz2,0.5
1024,128x128x64_Heuristic_RasterN_Swz1,0.011
2048,128x256x64_DataParallel_RasterH_Swz1,0.02
"""
    small, large = read_schedule_table(written(tmp_path, text), load_gpu("h100_sxm"), PROBLEM)
    assert small.names == ("128x128x64 DataParallel RasterM 2", "128x128x64 Heuristic RasterN 1")
    assert small.latency_us == pytest.approx([12.0, 11.0])
    # the sweep's numbers for its names are one off CUTLASS's: RasterM ran by the heuristic, which is along n here
    assert [schedule["raster_along_n"] for schedule in small.schedules] == [1, 0]
    assert (large.problem.m, large.problem.layout, large.problem.cache) == (2048, "tt", "warm")
    assert large.schedules[0]["stages"] == 4
    with pytest.raises(UserError, match=r"no data-parallel rows of size 4096; it has \[1024, 2048\]"):
        read_cutlass_sweep(tmp_path / "table.csv", [4096])


def test_cute_rows_are_problems_by_layout_with_the_kernels_own_panels(tmp_path):
    text = """M,N,K,L,a_major,b_major,c_major,cta_m,cta_n,cta_k,stages,atom_m,atom_n,atom_k,avg_us,gflops
1024,2048,512,1,m,n,n,128,128,32,3,2,2,1,50,1
1024,2048,512,1,k,n,n,128,128,32,4,2,2,1,60,1
1024,512,512,1,m,n,n,128,128,32,4,2,2,1,30,1
"""
    tables = read_cute_sweep(written(tmp_path, text))
    assert [table.problem.layout for table in tables] == ["nt", "tt", "nt"]
    wanted = parse_schedule("tile=128x128x32 stages=3 warps=2x2 raster=along_m:8", "mma_sync")
    assert tables[0].schedules[0] == wanted
    assert tables[2].schedules[0]["raster_along_n"] == 1  # a panel of 4 is the whole width: walked along n


def test_gains_pair_schedules_that_differ_in_one_field():
    fields = parse_schedule("tile=128x128x64 stages=4 warps=2wg", "wgmma")
    rows = [
        {**fields, "swizzle": swizzle, "tile_n": tile, "predicted_us": predicted, "measured_us": measured}
        for tile, swizzle, predicted, measured in ((128, 1, 11.0, 24.0), (128, 8, 10.0, 20.0), (256, 1, 9.0, 18.0))
    ]
    found = gains(pd.DataFrame(rows), "swizzle", 1, 8)
    assert len(found) == 1
    assert found["predicted_gain"][0] == pytest.approx(10.0)
    assert found["measured_gain"][0] == pytest.approx(20.0)


def parsed(*words: str) -> argparse.Namespace:
    parser = Parser(prog="dse validate schedules")
    validate_schedules.add_arguments(parser)
    return parser.parse_args(words)


def test_the_command_prints_a_table_and_json(tmp_path, capsys):
    path = str(written(tmp_path, OWN))
    words = ("--table", path, "--gpu", "h100_sxm", "--shape", "1024x1024x1024")
    assert validate_schedules.run(parsed(*words)) == 0
    text = capsys.readouterr().out
    assert "measured schedules on NVIDIA H100 SXM5 80 GB" in text
    assert "1024x1024x1024 tn bf16" in text
    assert validate_schedules.run(parsed(*words, "--json", "--set", "l2_capacity=2x")) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["mean"]["count"] == 3
    assert found["gpu_changes"]
    with pytest.raises(UserError, match="has no columns m, n, k: give the shape of its rows, --shape MxNxK"):
        validate_schedules.run(parsed("--table", path, "--gpu", "h100_sxm"))


def test_the_register_rule_refuses_the_spilling_tiles_of_the_published_cute_sweep_and_the_rest_rank_well():
    found = rank_measured(read_cute_sweep(published("cutedsl_rtx3090_schedules.csv")), load_gpu("rtx_3090"))
    assert len(found.problems) == 15
    for entry in found.problems:
        slow = entry.rows["measured_us"] > 2 * entry.rows["measured_us"].min()
        assert (slow == np.isinf(entry.rows["predicted_us"])).all(), entry.problem
    assert found.mean.top1_regret <= 8.0
    assert found.mean.spearman >= 0.7


def test_the_published_cutlass_sweep_is_two_sizes_of_48_schedules():
    tables = read_cutlass_sweep(published("cutlass_h100_schedules.csv"), [2048, 6144])
    assert [len(table.schedules) for table in tables] == [48, 48]
    assert all((table.latency_us < 1200).all() for table in tables)


def test_the_published_cutlass_sweep_is_ranked_and_its_swizzle_pays_where_it_was_measured_to():
    tables = read_cutlass_sweep(published("cutlass_h100_schedules.csv"), [2048, 6144])
    found = rank_measured(tables, load_gpu("h100_sxm"), launch="host")
    for entry, least, most in zip(found.problems, (-2.0, 4.0), (2.0, 14.0), strict=True):  # measured: 0 to 1, 4 to 11
        predicted = entry.rows.groupby("tile_n")["predicted_us"]
        assert predicted.max()[256] < predicted.min()[128]
        assert entry.quality.retained[15] >= 97.0
        rows = entry.rows.assign(label=[" ".join(name.split()[1:3]) for name in entry.rows["name"]])
        gain = gains(rows[rows["tile_n"] == 128], "swizzle", 1, 8, ["label"])["predicted_gain"]
        assert gain.between(least, most).all()
