"""Narrow types: scales are traffic, promotion is CUDA-core work, the quantisation of A is a part of the latency."""

import dataclasses
import shutil

import fit_lowprec
import jax
import numpy as np
import pytest
from cli_run import answer, json_answer

from dse import explain, load_gpu, load_space
from dse.best_schedule import preset_of
from dse.calibrate import ReadOptions, read_measurements
from dse.calibrate.fit_measured import predict
from dse.content.dtypes import BLOCK_SCALED, instruction_dtype
from dse.errors import UserError
from dse.kernels.gemm import GemmProblem, gemm_problem
from dse.validation.measured import load_measured_gemm
from dse.validation.validate import validate_gemm
from jaxmodel.kernels import gemm
from jaxmodel.kernels.gemm_scaling import quantise_seconds

SHAPE = "1024x4096x4096"
HOPPER = "tile=128x128x128 stages=5 warps=8 cluster=2x1 launch=persistent"
BLACKWELL = "tile=128x128x256 stages=5 cluster=2x1 launch=persistent"


def cost_of(dtype, gpu="h100_sxm", schedule=HOPPER, **choices):
    return explain(schedule, shape=SHAPE, dtype=dtype, gpu=gpu, **choices)


def test_a_block_scaled_type_runs_on_its_instruction():
    assert instruction_dtype("fp8_block") == "fp8"
    assert instruction_dtype("bf16") == "bf16"
    hopper, blackwell = load_gpu("h100_sxm"), load_gpu("b200_sxm")
    assert hopper.peak_flop_per_s("fp8_block") == hopper.peak_flop_per_s("fp8")
    assert blackwell.peak_flop_per_s("nvfp4") == 4 * blackwell.peak_flop_per_s("bf16")
    assert "nvfp4" not in hopper.dtypes()
    assert "fp8_block" not in load_gpu("a100_sxm").dtypes()
    with pytest.raises(UserError, match="h100_sxm has no tensor rate for 'nvfp4'"):
        hopper.bind("nvfp4")


def test_scales_are_read_held_and_counted():
    plain = cost_of("fp4", "b200_sxm", BLACKWELL)
    scaled = cost_of("nvfp4", "b200_sxm", BLACKWELL)
    # one byte for 16 elements of half a byte: an eighth more to fetch
    assert scaled.cost["l15_bytes"] - plain.cost["l15_bytes"] == pytest.approx(
        (plain.cost["l15_bytes"] - 2 * 1024 * 4096) / 8, rel=1e-5
    )
    buffers = 5 * (128 + 128) * 256 / 16
    assert scaled.cost["smem_bytes"] - plain.cost["smem_bytes"] == pytest.approx(buffers)
    wide = "tile=128x256x256 stages=3 launch=persistent epilogue=overlapped"
    assert cost_of("fp4", "b200_sxm", wide).feasible
    assert cost_of("nvfp4", "b200_sxm", wide).why_not.startswith("TMEM")


def test_promotion_asks_cuda_cores_and_a_second_set_of_accumulators_where_they_are_in_registers():
    plain, scaled = cost_of("fp8"), cost_of("fp8_block")
    assert scaled.cost["registers_per_thread"] - plain.cost["registers_per_thread"] == 128 * 128 / 256
    gpu = load_gpu("h100_sxm")
    rate = gpu["sm_count"] * gpu["cuda_flop_per_clock_sm"] * gpu["boost_hz"]
    promoted_s = 2 * 1024 * 4096 * 4096 / 128 / rate
    assert scaled.pipelines["cuda"] - plain.pipelines["cuda"] == pytest.approx(promoted_s, rel=1e-4)
    blackwell = "tile=128x128x128 stages=5 launch=persistent"
    on_tcgen05 = [cost_of(dtype, "b200_sxm", blackwell).pipelines["cuda"] for dtype in ("fp8", "fp8_block")]
    assert on_tcgen05[0] == on_tcgen05[1]


@pytest.mark.parametrize(("dtype", "passes"), [("fp8", 2), ("fp8_block", 1), ("nvfp4", 1)])
def test_quantisation_is_a_part_of_the_latency_and_of_nothing_else(dtype, passes):
    schedule = BLACKWELL if dtype == "nvfp4" else "tile=128x128x128 stages=5 cluster=2x1 launch=persistent"
    without = cost_of(dtype, "b200_sxm", schedule)
    with_it = cost_of(dtype, "b200_sxm", schedule, quantise_a=True)
    seconds = with_it.phases["helpers"]
    assert without.phases["helpers"] == 0
    assert with_it.latency_s - without.latency_s == pytest.approx(seconds, rel=1e-4)
    assert sum(with_it.phases.values()) == pytest.approx(with_it.latency_s, rel=1e-5)
    gpu = load_gpu("b200_sxm").bind(dtype)
    assert seconds >= passes * float(gpu.quantise_launch_s)
    for name in ("energy_j", "ddr_bytes", "l2_bytes"):
        assert with_it.cost[name] == without.cost[name]
    assert "helpers" in str(with_it)


def test_quantisation_of_a_large_activation_is_bound_by_memory():
    gpu = load_gpu("h100_sxm").bind("fp8", float_dtype=np.float64)
    gpu = dataclasses.replace(gpu, quantise_launch_s=0.0, quantise_bytes_per_s=0.0)
    record = GemmProblem(65536, 128, 65536, dtype="fp8", quantise_a=True).arrays(np.float64)
    with jax.enable_x64(True):
        seconds = float(quantise_seconds(record, gpu))
    moved = 65536**2 * (2 * 2 + float(gpu.ddr_write_cost))
    assert seconds == pytest.approx(moved / float(gpu.ddr_bytes_per_s), rel=1e-6)


def test_many_short_rows_take_the_time_of_their_ctas():
    gpu = load_gpu("b200_sxm").bind("nvfp4")
    gpu = dataclasses.replace(gpu, quantise_launch_s=np.float32(0.0), quantise_bytes_per_s=np.float32(0.0))
    seconds = [
        float(quantise_seconds(GemmProblem(m, 512, 32, dtype="nvfp4", quantise_a=True).arrays(), gpu))
        for m in (2**14, 2**15)
    ]
    assert seconds[1] == pytest.approx(2 * seconds[0], rel=1e-5)
    assert seconds[0] == pytest.approx(2**14 / (16 * 148) * float(gpu.cta_launch_s + gpu.l2_latency_s), rel=1e-5)


def test_no_scaling_is_a_scaling_of_zeros():
    space = load_space("gemm", "tcgen05", "fp8", preset="library")
    index = np.arange(0, space.size, space.size // 500)
    from dse.kernels.registry import get_kernel

    kernel = get_kernel("gemm")
    columns = {name: values.astype(np.float32) for name, values in space.rows(index).items()}
    record = gemm_problem(SHAPE, dtype="fp8").arrays()
    bare = dataclasses.replace(record, scaling=None)
    gpu = load_gpu("b200_sxm").bind("fp8")
    costs = [gemm.cost(problem, kernel.schedule(columns), gpu) for problem in (record, bare)]
    for with_zeros, without in zip(*map(jax.tree.leaves, costs), strict=True):
        np.testing.assert_array_equal(np.asarray(with_zeros), np.asarray(without))


def test_wide_types_hold_nothing_of_it():
    assert gemm_problem(SHAPE).arrays().scaling is None
    with pytest.raises(UserError, match="quantise_a with dtype bf16: A is quantised to one of fp8, fp8_block, int8"):
        gemm_problem(SHAPE, quantise_a=True)


def test_the_command_line_counts_it_when_asked(capsys):
    question = ["explain", "--shape", SHAPE, "--gpu", "h100_sxm", "--schedule", HOPPER]
    narrow = [*question, "--dtype", "fp8_block"]
    without, with_it = (json_answer(capsys, *words) for words in (narrow, [*narrow, "--quantise-a"]))
    assert without["phases_s"]["helpers"] == 0
    assert with_it["latency_s"] - without["latency_s"] == pytest.approx(with_it["phases_s"]["helpers"], rel=1e-4)
    code, _, err = answer(capsys, *question, "--quantise-a")
    assert code == 2
    assert "quantise_a with dtype bf16" in err


def test_numbers_by_dtype(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(
        'base = "h100_sxm"\n[by_dtype.fp8]\ntensor_efficiency = { value = 0.5, kind = "assumed", source = "a test" }\n'
    )
    gpu, base = load_gpu(path), load_gpu("h100_sxm")
    assert float(gpu.bind("fp8").tensor_efficiency) == 0.5
    assert gpu.bind("bf16").tensor_efficiency == base.bind("bf16").tensor_efficiency
    assert gpu.hash != base.hash
    assert gpu.to_dict()["by_dtype"]["fp8"]["tensor_efficiency"]["value"] == 0.5

    doubled = load_gpu(path, {"tensor_efficiency": "0.8x"})
    assert float(doubled.bind("fp8").tensor_efficiency) == pytest.approx(0.4)
    assert "tensor_efficiency (fp8): 0.5 -> 0.4 (0.8x)" in doubled.changes

    below = tmp_path / "below.toml"  # what a file says of all types replaces what its base says of one
    below.write_text(
        'base = "mine.toml"\n[engine]\ntensor_efficiency = { value = 0.9, kind = "assumed", source = "a test" }\n'
    )
    assert float(load_gpu(below).bind("fp8").tensor_efficiency) == pytest.approx(0.9)


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ("[by_dtype.fp7]\nx = 1", "by_dtype.fp7: unknown dtype; known: fp32"),
        (
            '[by_dtype.fp8]\nsm_count = { value = 1, kind = "assumed", source = "a test" }',
            "by_dtype.fp8.sm_count: cannot differ by dtype; allowed: tensor_efficiency",
        ),
        ("[by_dtype]\nfp8 = 3", "by_dtype.fp8: must be a table of numbers, not 3"),
        ("by_dtype = 3", "by_dtype: must hold tables [by_dtype.<dtype>], not 3"),
    ],
)
def test_wrong_numbers_by_dtype_say_what_is_wrong(tmp_path, table, expected):
    path = tmp_path / "mine.toml"
    path.write_text(f'base = "h100_sxm"\n{table}\n')
    with pytest.raises(UserError) as raised:
        load_gpu(path)
    assert expected in str(raised.value)


def test_the_sample_keeps_the_split_of_bf16():
    narrow, wide = (load_measured_gemm(table, part=None) for table in (_sample(), None))
    parts = wide[["n", "k", "part"]].drop_duplicates().set_index(["n", "k"])["part"]
    assert (narrow["part"].to_numpy() == parts.loc[list(zip(narrow["n"], narrow["k"], strict=True))].to_numpy()).all()
    assert narrow.groupby("dtype")["source"].nunique().eq(1).all()
    assert set(narrow["dtype"]) == {"fp8", *BLOCK_SCALED}


def test_validation_and_calibration_take_a_types_own_preset_and_count_quantisation(tmp_path):
    assert preset_of("tcgen05", "nvfp4", "library") == "library_nvfp4"
    assert preset_of("wgmma", "bf16", "library") == "library"
    rows = load_measured_gemm(_sample(), part=None)
    few = rows[(rows["system"] == "h100_sxm") & (rows["dtype"] == "fp8_block") & (rows["part"] == "fit")].head(4)
    predicted = []
    for quantise_a in (True, False):
        few.assign(quantise_a=quantise_a).to_parquet(tmp_path / "rows.parquet")
        (found,) = validate_gemm(table=tmp_path / "rows.parquet", part="fit")
        predicted.append(found.rows["model_us"].to_numpy())
        read = read_measurements([tmp_path / "rows.parquet"], ReadOptions(load_gpu("h100_sxm")))
        assert predict(load_gpu("h100_sxm"), read.measured) * 1e6 == pytest.approx(predicted[-1], rel=1e-5)
    assert (predicted[0] > predicted[1]).all()


def test_a_types_fitted_numbers_are_written_beside_the_common_ones(tmp_path, monkeypatch):
    rows = load_measured_gemm(_sample(), part="fit").head(4)
    taken = fit_lowprec.measured(rows, "fp8")
    assert taken.quantise_a.all()
    assert [problem.shape for problem in taken.problems()] == [
        f"{m}x{n}x{k}" for m, n, k in rows[["m", "n", "k"]].values
    ]
    assert taken.latency_s * 1e6 == pytest.approx(rows["latency_us"].to_numpy())
    file = tmp_path / "hardware/gpus/h100_sxm.toml"
    file.parent.mkdir(parents=True)
    shutil.copy(fit_lowprec.ROOT / "hardware/gpus/h100_sxm.toml", file)
    monkeypatch.setattr(fit_lowprec, "ROOT", tmp_path)
    values = {item.name: (item.low * item.high) ** 0.5 for item in fit_lowprec.FREE["wgmma", "fp8"]}
    fit_lowprec.write("h100_sxm", "fp8", values)
    written, before = load_gpu(file), load_gpu("h100_sxm")
    assert {name: datum.number for name, datum in written.by_dtype["fp8"].items()} == pytest.approx(values, rel=1e-3)
    assert {datum.kind for datum in written.by_dtype["fp8"].values()} == {"fitted"}
    assert written.values == before.values
    assert written.by_dtype["fp8_block"] == before.by_dtype["fp8_block"]


def _sample():
    from dse.content.files import content_files

    return content_files("studies/measured", ".parquet")["gemm_lowprec"]
