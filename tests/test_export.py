"""Exports: Triton configs read back to the schedules they came from; CUTLASS names and arguments as documented."""

import re

import pytest
from cli_run import answer, json_answer, small_sweep
from hypothesis import given, settings
from hypothesis import strategies as st

from dse.content.space import load_space
from dse.export import Entry, export_cutlass, export_triton
from dse.export.cutlass import Call, call_of
from dse.problem import gemm_problem
from dse.schedule_text import FIELDS, distinct_raster
from dse.triton_config import TritonConfig, TritonGpu, config_of, schedule_of

PROBLEM = gemm_problem("4096x4096x4096")
GPUS = {
    "wgmma": TritonGpu(("wgmma", "mma_sync"), 132),
    "tcgen05": TritonGpu(("tcgen05", "mma_sync"), 148),
    "mma_sync": TritonGpu(("mma_sync",), 108),
}
SPACES = {family: load_space("gemm", family, "bf16") for family in GPUS}
PRESETS = {family: load_space("gemm", family, "bf16", preset="triton") for family in GPUS}

# cutlass3x_sm90_tensorop_gemm_<A>_<B>_<acc>_<C>_<D>_<tile>_<cluster>_<stages>_<layout>_align<n><schedule>, as the
# profiler's documentation takes names apart ("CUTLASS 3.0 GEMM procedural names")
NAME_3X = re.compile(
    r"cutlass3x_sm(90|100)_tensorop_(tf32)?gemm(_(bf16|f16|e4m3|s8|f32|s32|void)){5}"
    r"_\d+x\d+x\d+_\d+x\d+x1_0_[nt]{3}_align\d+"
    r"((_stream_k)?(_warpspecialized(_cooperative|_pingpong)?_epi_(tma|nosmem)|\*_[12]sm\*))"
)
NAME_2X = re.compile(
    r"cutlass_tensorop_((bf16|f16)_)?[shi]168(8|16|32)(tf32)?gemm(_\w+?)?_\d+x\d+_\d+x\d+_[nt]{2}_align\d+"
)
ARGUMENTS = {  # documented names of the profiler's GEMM arguments
    *("m", "n", "k", "A", "B", "C", "D", "alpha", "beta", "split_k_mode", "split_k_slices", "batch_count", "op_class"),
    *("accum", "cta_m", "cta_n", "cta_k", "cluster_m", "cluster_n", "cluster_k", "stages", "warps_m", "warps_n"),
    *("warps_k", "raster_order", "swizzle_size", "operation", "kernels"),
}


@pytest.mark.parametrize("family", GPUS)
@settings(deadline=None)
@given(data=st.data())
def test_a_triton_config_reads_back_to_its_schedule(family, data):
    space = data.draw(st.sampled_from([SPACES[family], PRESETS[family]]))
    schedule = space.schedule(data.draw(st.integers(0, space.size - 1)))
    config = config_of(schedule, family, PROBLEM, GPUS[family])
    if isinstance(config, TritonConfig):
        compiled, back = schedule_of(config, PROBLEM, GPUS[family])
        assert compiled == family
        assert back == distinct_raster({name: schedule[name] for name in FIELDS}, PROBLEM.m, PROBLEM.n)


@pytest.mark.parametrize("family", GPUS)
def test_most_of_the_triton_preset_can_be_said(family):
    space = PRESETS[family].restrict({"epilogue": "staged"})
    step = max(1, space.size // 997)
    configs = [config_of(space.schedule(index), family, PROBLEM, GPUS[family]) for index in range(0, space.size, step)]
    said = sum(isinstance(config, TritonConfig) for config in configs)
    assert said > len(configs) // 8
    reasons = {config for config in configs if isinstance(config, str)}
    assert reasons <= {"a warp layout that Triton does not choose", "panels of tile columns (raster along_m)"}


@pytest.mark.parametrize("family", GPUS)
@settings(deadline=None)
@given(data=st.data())
def test_cutlass_names_follow_the_documented_grammar(family, data):
    dtype = data.draw(st.sampled_from(["bf16", "fp16", "fp8", "int8", "tf32"]))
    accumulator = "int32" if dtype == "int8" else "fp32"
    problem = gemm_problem("4096x4096x4096", dtype=dtype, out_dtype="int32" if dtype == "int8" else "bf16")
    space = SPACES[family]
    call = call_of(space.schedule(data.draw(st.integers(0, space.size - 1))), problem, family, accumulator)
    if isinstance(call, Call):
        assert (NAME_2X if family == "mma_sync" else NAME_3X).fullmatch(call.kernel)
        assert set(call.arguments) <= ARGUMENTS
        assert call.arguments["swizzle_size"] in (1, 2, 4, 8)


EXPORTED = [(f, p) for f in GPUS for p in ("triton", "cutlass")] + [("wgmma", "cutlass_pingpong")]


@pytest.mark.parametrize(("family", "preset"), EXPORTED)
def test_presets_hold_what_their_target_can_say(family, preset):
    """All but what depends on several axes at once: Triton's warp layouts, CUTLASS 2's walk along n of a wide grid."""
    space = load_space("gemm", family, "bf16", preset=preset)
    drawn = [space.schedule(index) for index in range(0, space.size, max(1, space.size // 997))]
    if preset == "triton":
        said = [config_of(at, family, PROBLEM, GPUS[family]) for at in drawn]
        rest = {"a warp layout that Triton does not choose"}
    else:
        said = [call_of(at, PROBLEM, family, "fp32") for at in drawn]
        rest = {"a raster along n (CUTLASS 2 swizzles along m)"} if family == "mma_sync" else set()
    assert {why for why in said if isinstance(why, str)} <= rest


@pytest.mark.parametrize(("family", "preset"), EXPORTED)
def test_what_a_preset_finds_can_be_exported(family, preset, tmp_path, capsys):
    gpu = {"wgmma": "h200_sxm", "tcgen05": "b200_sxm", "mma_sync": "a100_sxm"}[family]
    words = ["sweep", "gemm", "--shape", "2048x2048x4096", "--gpu", gpu, "--preset", preset, "--out", tmp_path / "run"]
    words += ["--axis", "tile_n=64,128", "--axis", "tile_k=64B,128B", "--axis", "stages=3,4"]
    assert answer(capsys, *words, "--quiet")[0] == 0
    code, _, err = answer(capsys, "export", tmp_path / "run", "--to", preset.partition("_")[0], "--count", "5")
    assert code == 0
    assert err.startswith("dse: 5 schedules")


def test_cutlass_2_says_a_walk_along_n_of_a_narrow_grid_as_a_panel():
    at = dict.fromkeys(FIELDS, 0) | {
        "tile_m": 128,
        "tile_n": 128,
        "tile_k": 32,
        "stages": 3,
        "warps_m": 2,
        "warps_n": 2,
    }
    at |= {"cluster_m": 1, "cluster_n": 1, "swizzle": 1, "split_k": 1, "epilogue": 1, "raster_along_n": 1}
    narrow = gemm_problem("4096x768x4096")
    call = call_of(at, narrow, "mma_sync", "fp32")
    assert isinstance(call, Call)
    panel = at | {"raster_along_n": 0, "swizzle": call.arguments["swizzle_size"]}
    assert distinct_raster(panel, narrow.m, narrow.n) == at
    assert call_of(at, PROBLEM, "mma_sync", "fp32") == "a raster along n (CUTLASS 2 swizzles along m)"


def test_a_known_kernel_gets_its_published_name():
    problem = gemm_problem("8192x8192x8192", dtype="fp16", out_dtype="fp16")
    at = dict.fromkeys(FIELDS, 0) | {
        "tile_m": 128,
        "tile_n": 256,
        "tile_k": 64,
        "stages": 4,
        "warps_m": 8,
        "warps_n": 1,
    }
    at |= {"cluster_m": 2, "cluster_n": 1, "swizzle": 1, "persistent": 1, "split_k": 1, "epilogue": 1}
    call = call_of(at, problem, "wgmma", "fp32")
    assert isinstance(call, Call)
    assert call.kernel == (
        "cutlass3x_sm90_tensorop_gemm_f16_f16_f32_void_f16_128x256x64_2x1x1_0_tnt_align8"
        "_warpspecialized_cooperative_epi_tma"
    )
    pair = at | {"tile_n": 256, "cta_pair": 1, "warps_m": 4, "epilogue": 2}
    call = call_of(pair, problem, "tcgen05", "fp32")
    assert isinstance(call, Call)
    assert call.kernel == (
        "cutlass3x_sm100_tensorop_gemm_f16_f16_f32_void_f16_256x256x64_2x1x1_0_tnt_align8*_2sm*"
    )  # a pair's tile is twice as high
    ampere = at | {
        "tile_n": 128,
        "tile_k": 32,
        "stages": 3,
        "warps_m": 2,
        "warps_n": 2,
        "cluster_m": 1,
        "persistent": 0,
    }
    call = call_of(ampere, gemm_problem("8192x8192x8192"), "mma_sync", "fp32")
    assert isinstance(call, Call)
    assert call.kernel == "cutlass_tensorop_bf16_s16816gemm_bf16_128x128_32x3_tn_align8"


def test_what_cannot_be_said_is_counted():
    base = PRESETS["wgmma"].schedule(0)
    odd = [base | {"tile_n": 96}, base | {"tile_n": 160}, base | {"stream_k": 1, "persistent": 1}]
    entries = [Entry(schedule, 1e-3, 500.0, "tensor", "index 0") for schedule in odd]
    made = export_triton(entries, PROBLEM, "wgmma", GPUS["wgmma"], "h200_sxm")
    assert made.written == 0
    assert made.skipped == {"a tile side that is no power of two": 2, "stream-K": 1}
    assert "# left out: 2 with a tile side that is no power of two" in made.text
    made = export_cutlass([Entry(base | {"sms_free": 4}, 1e-3, 1.0, "ddr", "")], PROBLEM, "wgmma", "fp32", "h200_sxm")
    assert made.skipped == {"SMs left free": 1}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    from dse.cli import main

    folder = tmp_path_factory.mktemp("export") / "run"
    assert main(small_sweep(folder, "--top", "40", "--axis", "epilogue=staged")) == 0
    return folder


def test_the_exported_module_ranks_as_it_was_predicted(run, tmp_path, capsys):
    module = tmp_path / "configs.py"
    code, _, err = answer(capsys, "export", run, "--to", "triton", "--count", "30", "-o", module)
    assert code == 0
    written = int(re.search(r"(\d+) schedules", err).group(1))
    assert written == 30
    top = [*json_answer(capsys, "top", run, "-n", "300"), *json_answer(capsys, "front", run)["front"]]
    ranked = json_answer(capsys, "rank", module, "--shape", "2048x2048x4096")["candidates"]
    assert len(ranked) == written
    known = {tuple(row[name] for name in FIELDS): row["latency_s"] for row in top}
    for row in ranked:
        assert row["latency_s"] == pytest.approx(known[tuple(row[name] for name in FIELDS)], rel=1e-6)


def test_the_module_is_python_and_says_what_was_predicted(run, capsys):
    _, out, _ = answer(capsys, "export", run, "--to", "triton")
    compile(out, "configs.py", "exec")
    assert "import triton" in out
    assert re.search(r"# [\d.]+ us, \d+ TFLOP/s, \w+ binds, index \d+", out)


def test_cutlass_script(run, capsys):
    told = json_answer(capsys, "export", run, "--to", "cutlass", "--what", "front")
    lines = [line for line in told["text"].splitlines() if line.startswith('"$profiler"')]
    assert len(lines) == told["written"]
    for line in lines:
        assert set(re.findall(r"--([A-Za-z_]+)=", line)) <= ARGUMENTS
        assert "--m=2048 --n=2048 --k=4096" in line


def test_a_count_is_of_what_can_be_said_and_the_front_goes_on():
    good = PRESETS["wgmma"].schedule(0) | {"tile_m": 128, "tile_n": 128, "epilogue": 1, "swizzle": 1}
    said = [Entry(good, 1e-3, 500.0, "tensor", f"index {place}") for place in range(4)]
    odd = Entry(good | {"stream_k": 1, "persistent": 1, "epilogue": 2}, 1e-3, 500.0, "tensor", "index 9")

    def triton(entries, **options):
        return export_triton(entries, PROBLEM, "wgmma", GPUS["wgmma"], "gpu", **options)

    def cutlass(entries, **options):
        return export_cutlass(entries, PROBLEM, "wgmma", "fp32", "gpu", **options)

    good["warps_m"], good["persistent"] = 8, 1
    for export in (triton, cutlass):
        made = export([odd, *said], count=2)
        assert (made.written, made.from_front, sum(made.skipped.values())) == (2, 0, 1)
        assert "index 1" in made.text
        assert "index 2" not in made.text
        made = export([odd, said[0]], count=3, fallback=[odd, said[0], *said[1:]])
        assert (made.written, made.from_front, sum(made.skipped.values())) == (3, 2, 1)
        assert "# the last 2 are from the front, by latency" in made.text
        assert "2 of them from the front" in made.summary
        assert export([odd, said[0]], fallback=said).from_front == 0
        assert export([odd], fallback=said).from_front == 4


def test_wrong_targets(run, tmp_path, capsys):
    assert answer(capsys, "export", run, "--to", "tritn")[2].count("did you mean 'triton'?") == 1
    assert "unknown table 'best'" in answer(capsys, "export", run, "--to", "triton", "--what", "best")[2]
    code, _, err = answer(capsys, "export", run, "--to", "triton", "-o", tmp_path / "no" / "such.py")
    assert code == 2
    assert "cannot write" in err
