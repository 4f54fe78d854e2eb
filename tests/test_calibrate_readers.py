"""Readers of measured latencies: tables and profiler runs; what cannot be used is counted or named."""

from pathlib import Path

import pandas as pd
import pytest

from dse.calibrate.readers import FORMATS, ReadOptions, read_measurements
from dse.content import load_gpu
from dse.content.space import load_space
from dse.cutlass_call import CutlassCall, call_of
from dse.errors import UserError
from dse.kernels.gemm import gemm_problem
from dse.schedule_text import FIELDS, distinct_raster, format_schedule, parse_schedule

GPU = load_gpu("h100_sxm")
OPTIONS = ReadOptions(GPU)
PLAIN = "m,n,k,latency_us\n128,4096,4096,12.5\n256,8192,4096,40\n"
CUTLASS_COLUMNS = (
    "Problem,Provider,OperationKind,Operation,Disposition,Status,gemm_kind,m,n,k,A,B,C,D,alpha,beta,split_k_mode,"
    "split_k_slices,batch_count,raster_order,swizzle_size,op_class,accum,cta_m,cta_n,cta_k,cluster_m,cluster_n,"
    "cluster_k,stages,warps_m,warps_n,warps_k,inst_m,inst_n,inst_k,min_cc,max_cc,Bytes,Flops,Flops/Byte,Runtime,GB/s,"
    "GFLOPs"
)
NAME_3X = "cutlass3x_sm90_tensorop_gemm_bf16_bf16_f32_void_bf16_128x256x64_2x1x1_0_tnt_align8_warpspecialized_"


def test_a_csv_needs_four_columns_and_no_more(tmp_path):
    found = read(tmp_path, "mine.csv", PLAIN)
    measured = found.measured
    assert measured.m.tolist() == [128, 256]
    assert measured.latency_s.tolist() == pytest.approx([12.5e-6, 40e-6])
    assert set(measured.dtype) == {"bf16"}
    assert set(measured.cache) == {"a_warm"}
    assert set(measured.source) == {"mine.csv"}
    assert not measured.has_schedule.any()
    assert measured.origin.startswith("mine.csv (2 rows, sha256 ")
    assert not found.left_out


@pytest.mark.parametrize(
    ("unit", "value"), [("latency_us", "12.5"), ("latency_ms", "0.0125"), ("latency_s", "1.25e-5")]
)
def test_latencies_come_in_three_units(tmp_path, unit, value):
    measured = read(tmp_path, "mine.csv", f"m,n,k,{unit}\n8,8,8,{value}\n").measured
    assert measured.latency_s[0] == pytest.approx(12.5e-6)


def test_parquet_and_csv_of_one_table_are_the_same_measurements(tmp_path):
    frame = pd.DataFrame(
        {
            "system": ["h100_sxm", "a100_sxm", "h100_sxm"],
            "m": [1, 2, 3],
            "n": [64, 64, 128],
            "k": [256] * 3,
            "latency_us": [3.5, 4.5, 5.5],
            "part": ["fit", "fit", "check"],
            "spread": [1.0, 1.1, float("nan")],
        }
    )
    frame.to_parquet(tmp_path / "t.parquet")
    frame.to_csv(tmp_path / "t.csv", index=False)
    for name in ("t.parquet", "t.csv"):
        found = read_measurements([tmp_path / name], OPTIONS)
        assert found.measured.m.tolist() == [1, 3]
        assert found.measured.part.tolist() == ["fit", "check"]
        assert found.left_out == {"rows of another GPU": 1}


def test_rows_may_name_their_schedule_in_words_or_fields(tmp_path):
    words = "tile=128x256x64 stages=4 warps=8x1 cluster=2x1 raster=along_m:8 launch=persistent"
    text = f"m,n,k,latency_us,schedule\n4096,4096,4096,200,{words}\n4096,4096,4096,190,\n"
    measured = read(tmp_path, "a.csv", text).measured
    assert measured.has_schedule.tolist() == [True, False]
    assert measured.family.tolist() == ["wgmma", ""]
    expected = parse_schedule(words, "wgmma")
    assert {name: measured.schedule[name][0] for name in FIELDS} == expected
    fields = "m,n,k,latency_us,tile_m,tile_n,tile_k,stages,family\n4096,4096,4096,200,128,128,32,3,mma_sync\n"
    measured = read(tmp_path, "b.csv", fields).measured
    assert measured.family.tolist() == ["mma_sync"]
    assert measured.schedule["tile_m"].tolist() == [128]


def test_a_table_of_triton_configs_is_read_and_what_did_not_run_is_left_out(tmp_path):
    head = "m,n,k,dtype,family,block_m,block_n,block_k,num_warps,num_stages,NUM_SMS,latency_s,correct,registers,why"
    rows = ["512,512,512,fp16,wgmma,128,128,64,8,3,0,1e-5,1,90,", "512,512,512,fp16,wgmma,128,128,64,8,9,1,,,,SMEM"]
    rows.append("512,512,512,fp16,wgmma,128,128,64,8,4,1,1e-5,0,90,")
    found = read(tmp_path, "measured.csv", "\n".join([head, *rows]))
    assert found.left_out == {"kernels that did not run or were wrong": 2}
    schedule = {name: int(found.measured.schedule[name][0]) for name in FIELDS}
    order = "cluster=1x1 raster=along_n:1 launch=data_parallel epilogue=staged"
    assert format_schedule(schedule) == f"tile=128x128x64 stages=3 warps=8x1 {order} registers=90"
    assert found.measured.dtype.tolist() == ["fp16"]
    with pytest.raises(UserError, match=r"measured.csv: no kernel ran and was correct: the columns why and correct"):
        read(tmp_path, "measured.csv", "\n".join([head, *rows[1:]]))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("m,n,latency_us\n8,8,1\n", r"mine.csv has no column k; needed: m, n, k and one of latency_us, latency_ms"),
        ("m,n,k\n8,8,8\n", r"has no latency among its columns: give one of latency_us, latency_ms, latency_s"),
        ("m,n,k,latency_us,latency_ms\n8,8,8,1,1\n", "has both latency_us and latency_ms among its columns"),
        ("m,n,k,latency_us\n8,8,8,fast\n", "mine.csv, line 2: latency_us is 'fast': a time above 0 is needed"),
        ("m,n,k,latency_us\n8,8,8,\n", "mine.csv, line 2: latency_us is empty: a time above 0 is needed"),
        ("m,n,k,latency_us\n8,8,8,1\n8,8,8,-1\n", "mine.csv, line 3: latency_us is '-1': a time above 0"),
        ("m,n,k,latency_us\n8,8.5,8,1\n", r"line 2: n is '8.5': a whole number from 1 to 16777215 is needed"),
        ("m,n,k,latency_us,dtype\n8,8,8,1,bf61\n", "line 2: unknown dtype 'bf61'; known: bf16, .*did you mean 'bf16'"),
        ("m,n,k,latency_us,part\n8,8,8,1,test\n", "line 2: part is 'test': one of fit, check, report is needed"),
        ("m,n,k,latency_us,beta\n8,8,8,1,2\n", "line 2: beta is '2': 0 or 1 is needed"),
        ("m,n,k,latency_us,quantise_a\n8,8,8,1,maybe\n", "line 2: quantise_a is 'maybe': 0 or 1 is needed"),
        ("m,n,k,latency_us,quantise_a\n8,8,8,1,1\n", "line 2: quantise_a with dtype bf16: A is quantised to one of"),
        ("m,n,k,latency_us,schedule\n8,8,8,1,tile=8\n", "line 2: tile=8 is not MxNxK"),
        ("m,n,k,latency_us,schedule,family\n8,8,8,1,tile=64x64x64 stages=2,tcgen05\n", "unknown family in .*line 2 "),
        ("m,n,k,latency_us,schedule,stages\n8,8,8,1,tile=8x8x8,2\n", "stands in the column schedule and in stages"),
        ("m,n,k,latency_us\n8,8,8,1,2\n", "mine.csv, line 2: more values than line 1 names columns"),
        ("m,n,k,latency_us\n8,8,8\n", "mine.csv, line 2: 3 values for 4 columns"),
        ("m,n,k,latency_us\n", "mine.csv has no row below its column names"),
        ("system,m,n,k,latency_us\nh100,8,8,8,1\n", "unknown GPU in .*'h100_sxm'; known: h100; .*with --system"),
        ("nothing of the kind", "cannot tell what .*mine.csv holds; known: Parquet, .*; name it with --format"),
    ],
)
def test_bad_tables_are_named(tmp_path, text, message):
    with pytest.raises(UserError, match=message):
        read(tmp_path, "mine.csv", text)


def test_system_says_what_the_file_calls_the_gpu(tmp_path):
    text = "system,m,n,k,latency_us\nmy h100,8,8,8,1\nother,8,8,8,2\n"
    found = read(tmp_path, "mine.csv", text, ReadOptions(GPU, system="my h100"))
    assert found.measured.latency_s.tolist() == [1e-6]


def cutlass_row(name: str, **changes: object) -> str:
    row = dict.fromkeys(CUTLASS_COLUMNS.split(","), "0")
    row |= {"Problem": "1", "Provider": "CUTLASS", "OperationKind": "gemm", "Operation": name}
    row |= {
        "Disposition": "passed",
        "Status": "success",
        "gemm_kind": "universal",
        "m": "4096",
        "n": "2048",
        "k": "1024",
    }
    row |= {"A": "bf16:row", "B": "bf16:column", "C": "void:row", "D": "bf16:row", "split_k_slices": "1"}
    row |= {
        "batch_count": "1",
        "raster_order": "heuristic",
        "swizzle_size": "8",
        "op_class": "tensorop",
        "accum": "f32",
    }
    row |= {"cta_m": "128", "cta_n": "256", "cta_k": "64", "cluster_m": "2", "cluster_n": "1", "stages": "4"}
    row |= {"warps_m": "4", "warps_n": "2", "warps_k": "1", "Runtime": "0.05"} | {k: str(v) for k, v in changes.items()}
    return ",".join(row.values())


def cutlass(*rows: str) -> str:
    return "\n".join(["", "CSV Results:", "", CUTLASS_COLUMNS, *rows, ""])


def test_cutlass_rows_are_read_with_the_schedule_that_their_kernel_names(tmp_path):
    two_x = "cutlass_tensorop_s16816gemm_bf16_128x256_32x3_tn_align8"
    text = cutlass(
        cutlass_row(NAME_3X + "cooperative_epi_tma"),
        cutlass_row(NAME_3X + "pingpong_epi_nosmem", raster_order="along_m", swizzle_size=2),
        cutlass_row(NAME_3X.removesuffix("_")),
        cutlass_row(two_x, cta_k=32, stages=3, warps_m=2, warps_n=4, cluster_m=1, C="bf16:row", raster_order=""),
        cutlass_row(two_x, Provider="cuBLAS"),
    )
    measured = read(tmp_path, "run.gemm.csv", text).measured
    assert measured.latency_s.tolist() == [5e-5] * 5
    assert set(measured.cache) == {"cold"}
    assert set(measured.layout) == {"tn"}
    assert measured.family.tolist() == ["wgmma", "wgmma", "wgmma", "mma_sync", ""]
    said = [format_schedule({name: measured.schedule[name][row] for name in FIELDS}) for row in range(4)]
    tile = "tile=128x256x64 stages=4"
    assert said == [
        f"{tile} warps=8x1 cluster=2x1 raster=along_n:8 launch=persistent epilogue=staged",
        f"{tile} warps=4x1 cluster=2x1 raster=along_m:2 launch=persistent epilogue=overlapped",
        f"{tile} warps=4x1 cluster=2x1 raster=along_n:8 launch=data_parallel epilogue=direct",
        "tile=128x256x32 stages=3 warps=2x4 cluster=1x1 raster=along_n:1 launch=data_parallel epilogue=staged",
    ]


def test_what_the_export_calls_a_kernel_is_read_back_to_its_schedule(tmp_path):
    problem = gemm_problem("4096x4096x4096", dtype="bf16")
    for family, gpu, preset in (("wgmma", "h100_sxm", "cutlass"), ("tcgen05", "b200_sxm", "cutlass")):
        space = load_space("gemm", family, "bf16", preset=preset)
        rows, expected = [], []
        for index in range(0, space.size, max(1, space.size // 997)):
            schedule = space.schedule(index)
            call = call_of(schedule, problem, family, "fp32")
            if not isinstance(call, CutlassCall) or schedule["split_k"] > 1 or schedule["stream_k"]:
                continue
            name = call.kernel.rstrip("*")
            named = {key: call.arguments[key] for key in ("cluster_m", "cluster_n", "raster_order", "swizzle_size")} | {
                "stages": schedule["stages"]
            }
            rows.append(cutlass_row(name, n=4096, k=4096, **named))
            expected.append(distinct_raster({name: schedule[name] for name in FIELDS}, problem.m, problem.n))
        options = ReadOptions(load_gpu(gpu))
        measured = read(tmp_path, f"{family}.csv", cutlass(*rows), options).measured
        found = [{name: int(measured.schedule[name][row]) for name in FIELDS} for row in range(len(measured))]
        assert len(expected) > 20
        assert found == expected


def test_cutlass_rows_that_cannot_be_used_are_counted(tmp_path):
    good = NAME_3X + "cooperative_epi_tma"
    text = cutlass(
        cutlass_row(good),
        cutlass_row(good, Disposition="incorrect"),
        cutlass_row(good, Status="invalid_problem", Runtime=0),
        cutlass_row(good, split_k_slices=4),
        cutlass_row(NAME_3X.replace("align8_", "align8_stream_k_") + "cooperative_epi_tma"),
        cutlass_row("cutlass_simt_sgemm_128x128_8x2_nn_align1"),
        cutlass_row(good, accum="f16"),
        cutlass_row(good, A="u4:row"),
        CUTLASS_COLUMNS,
    )
    left_out = read(tmp_path, "run.csv", text).left_out
    assert left_out["not run, failed or incorrect"] == 2
    assert left_out["split-K or stream-K: the profiler's time holds the clearing of their workspace"] == 2
    assert sum(left_out.values()) == 7


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (cutlass(), "run.csv has no row that can be used .there are none.: profile GEMMs of h100_sxm"),
        (
            cutlass(cutlass_row("x", Status="error_internal")),
            "no row that can be used .1: not run, failed or incorrect.",
        ),
        (
            CUTLASS_COLUMNS.replace(",Runtime", "") + "\n",
            "run.csv, line 1: no column Runtime: profile with --operation=G",
        ),
        (cutlass("1,CUTLASS,gemm"), "run.csv, line 5: 3 values for 44 columns: the line is cut off"),
        (cutlass(cutlass_row(NAME_3X + "cooperative_epi_tma", Runtime="soon")), "line 5: Runtime is 'soon'"),
        (cutlass(cutlass_row(NAME_3X + "cooperative_epi_tma", stages="")), "line 5: stages is empty: a whole number"),
        (
            cutlass(cutlass_row(NAME_3X.replace("sm90", "sm100") + "_1sm")),
            "unknown family in .*run.csv, line 5 .*'tcgen05'; known: mma_sync, wgmma; .*these h100_sxm has",
        ),
    ],
)
def test_bad_cutlass_files_are_named(tmp_path, text, message):
    with pytest.raises(UserError, match=message):
        read(tmp_path, "run.csv", text)


def test_a_format_overrides_what_the_content_says(tmp_path):
    path = tmp_path / "mine.csv"
    path.write_text(PLAIN)
    assert len(read_measurements([path], OPTIONS, "table").measured) == 2
    with pytest.raises(UserError, match=r"mine.csv has no line Problem,Provider,OperationKind"):
        read_measurements([path], OPTIONS, "cutlass")
    with pytest.raises(UserError, match="unknown format 'csv'; known: cutlass, table, triton-cache, triton-log"):
        read_measurements([path], OPTIONS, "csv")
    with pytest.raises(UserError, match=r"no table at .*nowhere; give Parquet, or CSV"):
        read_measurements([tmp_path / "nowhere"], OPTIONS)
    assert set(FORMATS) == {"table", "cutlass", "triton-cache", "triton-log"}


def read(folder: Path, name: str, text: str, options: ReadOptions = OPTIONS):
    path = folder / name
    path.write_text(text)
    return read_measurements([path], options)
