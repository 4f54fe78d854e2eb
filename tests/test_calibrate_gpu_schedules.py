"""Measured schedules: lists that a matmul can run, tables joined with predictions, Nsight Compute's counters.

No GPU is needed, and all tables here are synthetic.
"""

import importlib.util
import json
import math
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr

from dse.content import load_gpu
from dse.errors import UserError
from dse.kernels.gemm import gemm_problem
from scripts.calibrate_gpu import compare_gemm, measure_gemm
from scripts.calibrate_gpu.agreement import agreement, spearman
from scripts.calibrate_gpu.ncu import METRICS, Counted, combine, ncu_command, parse_ncu
from scripts.calibrate_gpu.schedules import OPTIONS, key_of, plan

FOLDER = Path(__file__).resolve().parent.parent / "scripts" / "calibrate_gpu"
CONFIGS = [
    {"BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": 64, "GROUP_M": 8, "num_warps": 8, "num_stages": 3},
    {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64, "GROUP_M": 8, "num_warps": 8, "num_stages": 4},
    {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 64, "GROUP_M": 1, "num_warps": 4, "num_stages": 2},
    {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64, "GROUP_M": 8, "SPLIT_K": 4, "num_warps": 8, "num_stages": 4},
]


def test_lists_of_schedules_in_every_form(tmp_path):
    gpu, problem = load_gpu("h200_sxm"), gemm_problem("4096x4096x4096")
    (tmp_path / "a.json").write_text(json.dumps(CONFIGS))
    planned, left = plan(tmp_path / "a.json", problem, gpu)
    assert not left
    assert [one.options["SPLIT_K"] for one in planned] == [1, 1, 1, 4]
    assert planned[0].key == (
        "BLOCK_M=128 BLOCK_N=256 BLOCK_K=64 GROUP_M=8 SPLIT_K=1 NUM_SMS=0 num_warps=8 num_stages=3 num_ctas=1"
    )
    # A run's table has the model's columns beside the schedule, one of them with a schedule word's name (smem_bytes).
    rows = [{**one.schedule, "smem_bytes": 1.0, "latency_s": 1e-3, "index": 7} for one in planned]
    pd.DataFrame(rows).to_parquet(tmp_path / "b.parquet")
    pd.DataFrame(rows).to_csv(tmp_path / "c.csv", index=False)
    (tmp_path / "d.py").write_text(
        f"import triton\ngiven = {CONFIGS}\nconfigs = [triton.Config({{k: v for k, v in c.items() if k.isupper()}}, "
        "num_warps=c['num_warps'], num_stages=c['num_stages']) for c in given]\n"
    )
    for name in ("b.parquet", "c.csv", "d.py"):
        assert [one.key for one in plan(tmp_path / name, problem, gpu)[0]] == [one.key for one in planned], name
    rows[0]["stream_k"], rows[1] = 1, rows[2]
    (tmp_path / "e.json").write_text(json.dumps(rows))
    planned, left = plan(tmp_path / "e.json", problem, gpu)
    assert len(planned) == 2  # equal ones once
    assert left == {"stream-K": 1}


def test_lists_that_cannot_be_run(tmp_path):
    gpu, problem = load_gpu("h200_sxm"), gemm_problem("4096x4096x4096")
    (tmp_path / "a.json").write_text(json.dumps([{"tile": "128x192x64", "stages": 3, "warps": 8}]))
    with pytest.raises(UserError, match=r"Triton can run none .* \(1 with a tile side that is no power of two\)"):
        plan(tmp_path / "a.json", problem, gpu)
    with pytest.raises(UserError, match="no list of schedules at"):
        plan(tmp_path / "b.json", problem, gpu)
    (tmp_path / "c.json").write_text("{}")
    with pytest.raises(UserError, match="holds no list of schedules"):
        plan(tmp_path / "c.json", problem, gpu)


def test_the_packaged_list_can_be_run():
    for name in ("a100_sxm", "h200_sxm", "b200_sxm"):
        planned, left = plan(FOLDER / "schedules.csv", gemm_problem("4096x4096x4096"), load_gpu(name))
        assert len(planned) >= 30
        assert not left


def test_measuring_without_its_software_is_one_message(capsys):
    if all(importlib.util.find_spec(name) for name in measure_gemm.NEEDED):
        pytest.skip("PyTorch and Triton are installed here")
    words = [str(FOLDER / "schedules.csv"), "--shape", "256x256x256", "--gpu", "h200_sxm"]
    assert measure_gemm.main(words) == 2
    said = capsys.readouterr().err
    assert said.startswith("measure_gemm: measuring needs ")
    assert "not installed here; install PyTorch with CUDA" in said
    assert len(said.splitlines()) == 1


def synthetic_table(tmp_path, slowdown=1.1):
    """Not measured: latencies are the model's, times a factor; one row was wrong, one failed, one is the library's."""
    gpu, problem = load_gpu("h200_sxm"), gemm_problem("4096x4096x4096")
    (tmp_path / "list.json").write_text(json.dumps(CONFIGS))
    planned, _ = plan(tmp_path / "list.json", problem, gpu)
    rows = [
        measure_gemm.row_of(problem, one, measure_gemm.outcome_of([1.0, 3.0, 2.0], 1e-3, 1e-2, 168, 98304))
        for one in planned
    ]
    rows[0] |= {"l2_hit": 0.5, "ddr_read_bytes": 2.0 * 4096 * 4096 * 2, "ddr_write_bytes": 4096 * 4096 * 2}
    rows += [measure_gemm.row_of(problem, planned[0], measure_gemm.outcome_of([1.0], math.nan, 1e-2, 168, 98304))]
    rows += [measure_gemm.row_of(problem, planned[1], {"why": "OutOfResources: shared memory"})]
    rows += [rows[0] | {"family": "library", "name": "library"}]
    measure_gemm.write_table(rows, tmp_path / "first.csv")
    compared = compare_gemm.compare(compare_gemm.read_measured(tmp_path / "first.csv"), gpu)
    for row, predicted in zip(rows, compared["predicted_latency_s"], strict=False):
        row["latency_s"] = predicted * slowdown
    measure_gemm.write_table(rows, tmp_path / "measured.csv")
    return tmp_path / "measured.csv"


def test_measured_rows_are_joined_with_predictions(tmp_path, capsys):
    path = synthetic_table(tmp_path)
    compared = compare_gemm.compare(compare_gemm.read_measured(path), load_gpu("h200_sxm"))
    assert [key_of(row) for row in compared[list(OPTIONS)].to_dict("records")] == [
        one.key for one in plan(tmp_path / "list.json", gemm_problem("4096x4096x4096"), load_gpu("h200_sxm"))[0]
    ]
    (summary,) = compare_gemm.summarize(compared)
    assert summary["count"] == 4
    assert summary["mape"] == pytest.approx(1 - 1 / 1.1, rel=1e-6)
    assert summary["bias"] == pytest.approx(1 / 1.1 - 1, rel=1e-6)
    assert summary["spearman"] == pytest.approx(1)
    assert summary["top1_regret"] == pytest.approx(0)
    assert summary["l2_hit_difference"] == pytest.approx(compared["predicted_l2_hit"][0] - 0.5)
    assert summary["ddr_read_ratio"] > 0
    assert compare_gemm.main([str(path), "--gpu", "h200_sxm", "-o", str(tmp_path / "joined.csv")]) == 0
    assert "4096x4096x4096 bf16" in capsys.readouterr().out
    assert len(pd.read_csv(tmp_path / "joined.csv")) == 4


def test_tables_that_cannot_be_compared(tmp_path, capsys):
    (tmp_path / "a.csv").write_text("m,n\n1,2\n")
    assert compare_gemm.main([str(tmp_path / "a.csv"), "--gpu", "h200_sxm"]) == 2
    assert "has no column k, dtype, family, BLOCK_M" in capsys.readouterr().err
    path = synthetic_table(tmp_path)
    table = pd.read_csv(path)
    table["correct"] = 0
    table.to_csv(path, index=False)
    assert compare_gemm.main([str(path), "--gpu", "h200_sxm"]) == 2
    assert "no row of the table ran and was right" in capsys.readouterr().err


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=3, max_size=30))
def test_rank_correlation_is_scipys(pairs):
    left, right = zip(*pairs, strict=True)
    if len(set(left)) > 1 and len(set(right)) > 1:
        assert spearman(left, right) == pytest.approx(spearmanr(left, right).statistic, abs=1e-9)
    else:
        assert math.isnan(spearman(left, right))


def test_regret_is_what_the_predicted_best_costs():
    found = agreement([1.0, 2.0, 3.0], [1.2, 1.0, 3.0])
    assert found.top1_regret == pytest.approx(0.2)
    assert found.retained == pytest.approx(1 / 1.2)
    assert found.mape == pytest.approx((1 / 6 + 1 + 0) / 3)


NCU = """==PROF== Connected to process 77
4096x4096x4096 some line of the program
"ID","Process ID","Kernel Name","Block Size","{0}","{1}","{2}"
"","","","","%","byte","{unit}"
"0","77","tilesweep_matmul","(256, 1, 1)","75.5","1,000","2"
"1","77","tilesweep_matmul","(256, 1, 1)","50.0","3000","4"
"2","77","tilesweep_add_parts","(128, 1, 1)","99.0","10","n/a"
==PROF== Disconnected
"""


def test_counters_are_read_in_the_order_of_the_kernels():
    text = NCU.format(*METRICS.values(), unit="Kbyte")
    counted = parse_ncu(text)
    assert counted[0] == Counted("tilesweep_matmul", 0.755, 1000.0, 2000.0)
    assert math.isnan(counted[2].ddr_write_bytes)
    one, two = combine(counted, [1, 2])
    assert one.ddr_read_bytes == 1000
    assert (two.l2_hit, two.ddr_read_bytes) == (0.5, 3010)
    with pytest.raises(UserError, match="ncu saw 3 kernels, 2 ran"):
        combine(counted, [1, 1])


def test_counters_that_are_not_there_are_told():
    with pytest.raises(UserError, match="ncu gave no counters: ==ERROR== ERR_NVGPUCTRPERM"):
        parse_ncu("==ERROR== ERR_NVGPUCTRPERM\n")
    with pytest.raises(UserError, match=f"ncu's table lacks {METRICS['ddr_read_bytes']}"):
        parse_ncu(NCU.format(METRICS["l2_hit"], "other", METRICS["ddr_write_bytes"], unit="byte"))


def test_the_profiler_is_asked_for_cold_caches_and_leaves_clocks_alone():
    command = ncu_command(["python", "x.py"], "tilesweep_.*")
    assert command[0] == "ncu"
    assert command[-2:] == ["python", "x.py"]
    assert command[command.index("--clock-control") + 1] == "none"
    assert command[command.index("--cache-control") + 1] == "all"
    assert set(METRICS.values()) <= set(command[command.index("--metrics") + 1].split(","))
