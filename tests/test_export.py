"""Exports: what each format says reads back to the schedules it came from; Triton's documented constraints hold.

CUTLASS's names and arguments are checked in test_cutlass_names.py.
"""

import csv
import json
import re
from collections import Counter

import pytest
from cli_run import answer, json_answer, small_sweep
from hypothesis import given, settings
from hypothesis import strategies as st

from dse.candidates import read_candidates
from dse.content.space import load_space
from dse.cutlass_call import CutlassCall, call_of
from dse.export import Entry, export_csv, export_cutlass, export_json, export_tilelang, export_triton
from dse.kernels.gemm import gemm_problem
from dse.schedule_text import FIELDS, distinct_raster
from dse.stand_in import run_file
from dse.triton_config import TritonConfig, TritonGpu, config_of, schedule_of

PROBLEM = gemm_problem("4096x4096x4096")
GPUS = {
    "wgmma": TritonGpu(("wgmma", "mma_sync"), 132),
    "tcgen05": TritonGpu(("tcgen05", "mma_sync"), 148),
    "mma_sync": TritonGpu(("mma_sync",), 108),
}
SPACES = {family: load_space("gemm", family, "bf16") for family in GPUS}
PRESETS = {family: load_space("gemm", family, "bf16", preset="triton") for family in GPUS}


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


EXPORTED = [(f, p) for f in GPUS for p in ("triton", "cutlass")] + [("wgmma", "cutlass_pingpong")]


@pytest.mark.parametrize(("family", "preset"), EXPORTED)
def test_presets_hold_what_their_target_can_say(family, preset):
    """All but what depends on several axes at once: Triton's warp layouts, CUTLASS's launch orders and epilogues."""
    space = load_space("gemm", family, "bf16", preset=preset)
    drawn = [space.schedule(index) for index in range(0, space.size, max(1, space.size // 997))]
    if preset == "triton":
        said = [config_of(at, family, PROBLEM, GPUS[family]) for at in drawn]
        rest = {"a warp layout that Triton does not choose"}
    else:
        said = [call_of(at, PROBLEM, family, "fp32") for at in drawn]
        rest = {
            "mma_sync": {
                "a raster along n (CUTLASS 2 swizzles along m)",
                "a tile, K-step and stages that no CUTLASS 2 kernel of the library has",
                "warps that no CUTLASS 2 kernel of this tile has",
            },
            "tcgen05": {
                "a persistent tcgen05 kernel without overlapped epilogue",
                "a K-step other than 128 bytes (the library's sm100 kernels have no other)",
            },
            "wgmma": {
                "a raster other than along_m:1 of a kernel that is not persistent",
                "a K-step other than 128, 256 or 512 bytes (the library's sm90 kernels have no other)",
                "a K-step that the library counts as too deep for the tile",
                "a staged epilogue of a kernel that is not persistent",
                "two warpgroups on 64 rows",
            },
        }[family]
    assert {why for why in said if isinstance(why, str)} <= rest


@pytest.mark.parametrize(("family", "preset"), EXPORTED)
def test_what_a_preset_finds_can_be_exported(family, preset, tmp_path, capsys):
    gpu = {"wgmma": "h200_sxm", "tcgen05": "b200_sxm", "mma_sync": "a100_sxm"}[family]
    depth = "128B" if preset.startswith("cutlass") and family != "mma_sync" else "64B,128B"
    words = ["sweep", "gemm", "--shape", "2048x2048x4096", "--gpu", gpu, "--preset", preset, "--out", tmp_path / "run"]
    words += ["--axis", "tile_n=64,128", "--axis", f"tile_k={depth}", "--axis", "stages=3,4", "--top", "500"]
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
    assert isinstance(call, CutlassCall)
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
    assert isinstance(call, CutlassCall)
    assert call.kernel == (
        "cutlass3x_sm90_tensorop_gemm_f16_f16_f32_void_f16_128x256x64_2x1x1_0_tnn_align8"
        "_warpspecialized_cooperative_epi_tma"
    )
    pair = at | {"tile_n": 256, "cta_pair": 1, "warps_m": 4, "epilogue": 2}
    call = call_of(pair, problem, "tcgen05", "fp32")
    assert isinstance(call, CutlassCall)
    assert call.kernel == (
        "cutlass3x_sm100_tensorop_gemm_f16_f16_f32_void_f16_256x256x64_2x1x1_0_tnt_align8_2sm*"
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
    assert isinstance(call, CutlassCall)
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
    assert re.search(r"# [\d.]+ us \(90 %: [\d.]+ to [\d.]+\), \d+ TFLOP/s, \w+ binds: .+, index \d+", out)


def test_a_count_is_of_what_can_be_said_and_the_front_goes_on():
    good = PRESETS["wgmma"].schedule(0) | {"tile_m": 128, "tile_n": 128, "tile_k": 64, "epilogue": 1}
    good |= {"raster_along_n": 1, "swizzle": 1, "warps_m": 8, "persistent": 1}
    said = [Entry(good | {"swizzle": 2**at}, 1e-3, 500.0, "tensor", f"index {at}") for at in range(4)]
    odd = Entry(good | {"stream_k": 1, "persistent": 1, "epilogue": 2}, 1e-3, 500.0, "tensor", "index 9")

    def triton(entries, **options):
        return export_triton(entries, PROBLEM, "wgmma", GPUS["wgmma"], "gpu", **options)

    def cutlass(entries, **options):
        return export_cutlass(entries, PROBLEM, "wgmma", "fp32", "gpu", **options)

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


def test_a_wrong_word_of_distinct_is_named(run, capsys):
    code, _, err = answer(capsys, "export", run, "--to", "json", "--distinct", "tiles")
    assert code == 2
    assert err.startswith("dse: unknown word to tell schedules apart by 'tiles'; known: cluster, cluster_m,")
    assert "did you mean 'tile'?" in err


def _entries(space, indices):
    return [
        Entry(
            space.schedule(index),
            1e-3,
            500.0,
            "tensor",
            f"index {index}",
            "the tensor cores",
            (9e-4, 1.2e-3),
            0.9,
            index,
        )
        for index in indices
    ]


def _written(family, problem, entries, target):
    about = (entries, problem, family)
    if target in ("json", "csv"):
        return (export_json if target == "json" else export_csv)(*about, "gpu", what_if=["what if   l2: 1 -> 2"])
    if target == "cutlass":
        return export_cutlass(*about, "fp32", "gpu")
    return (export_triton if target == "triton" else export_tilelang)(*about, GPUS[family], "gpu")


SUFFIX = {"triton": ".py", "tilelang": ".py", "cutlass": ".sh", "json": ".json", "csv": ".csv"}


@pytest.mark.parametrize("target", SUFFIX)
@pytest.mark.parametrize("family", GPUS)
@settings(deadline=None, max_examples=15)
@given(data=st.data())
def test_what_was_exported_reads_back_to_the_same_schedules(family, target, tmp_path_factory, data):
    """Written and left out make up what was given; what was written is the same schedules, no other."""
    shape = "x".join(str(data.draw(st.integers(1, 5000))) for _ in "mnk")
    problem = gemm_problem(shape)
    space = data.draw(st.sampled_from([SPACES[family], PRESETS[family], load_space("gemm", family, "bf16", "cutlass")]))
    indices = data.draw(st.lists(st.integers(0, space.size - 1), min_size=1, max_size=25, unique=True))
    made = _written(family, problem, _entries(space, indices), target)
    assert made.written + sum(made.skipped.values()) == len(indices)
    assert not (made.skipped and target in ("json", "csv"))
    if not made.written:
        return
    path = tmp_path_factory.mktemp("back") / f"schedules{SUFFIX[target]}"
    path.write_text(made.text)
    back = read_candidates(path, problem, GPUS[family])
    assert len(back) == made.written
    assert {candidate.family for candidate in back} == {family}
    assert not any(candidate.unused for candidate in back)
    marks = [int(mark) for mark in re.findall(MARKS[target], made.text, re.M)]
    expected = [distinct_raster({n: space.schedule(at)[n] for n in FIELDS}, problem.m, problem.n) for at in marks]
    assert [dict(candidate.schedule) for candidate in back] == expected
    assert len(set(marks)) == len(marks) == made.written


MARKS = dict.fromkeys(("triton", "tilelang", "cutlass"), r"^ *# .*, index (\d+)$")
MARKS |= {"json": r'^ \{"index": (\d+),', "csv": r"^(\d+),gpu"}


@pytest.mark.parametrize("target", SUFFIX)
def test_every_entry_says_its_latency_and_its_reason(target):
    space = PRESETS["wgmma"] if target != "cutlass" else load_space("gemm", "wgmma", "bf16", "cutlass")
    made = _written("wgmma", PROBLEM, _entries(space, range(0, space.size, 97)), target)
    assert made.written > 10
    if target in ("json", "csv"):
        rows = json.loads(made.text) if target == "json" else list(csv.DictReader(made.text.splitlines()))
        assert len(rows) == made.written
        for row in rows:
            assert (float(row["latency_s"]), float(row["latency_low_s"]), float(row["latency_high_s"])) == (
                1e-3, 9e-4, 1.2e-3,
            )  # fmt: skip
            assert (row["reason"], row["bound"], float(row["tflop_per_s"])) == ("the tensor cores", "tensor", 500.0)
            assert (row["gpu"], row["family"], str(row["m"])) == ("gpu; what if l2: 1 -> 2", "wgmma", "4096")
        return
    remark = "# 1000.0 us (90 %: 900.0 to 1200.0), 500 TFLOP/s, tensor binds: the tensor cores, index "
    lines = made.text.splitlines()
    said = [place for place, line in enumerate(lines) if line.strip().startswith(remark)]
    assert len(said) == made.written
    mark = {"triton": "triton.Config(", "tilelang": '{"block_M":', "cutlass": '"$profiler" '}[target]
    assert all(lines[place + 1].strip().startswith(mark) for place in said)


@pytest.mark.parametrize("family", GPUS)
@settings(deadline=None, max_examples=15)
@given(data=st.data())
def test_triton_configs_meet_what_triton_documents(family, tmp_path_factory, data):
    """Blocks are ranges of `tl.arange`: powers of two, of at most 1048576 elements together (triton-lang.org,
    python-api/generated/triton.language.arange); operands of `tl.dot` have sides of at least 16
    (.../triton.language.dot); num_warps is a power of two (CUDAOptions in third_party/nvidia/backend/compiler.py), at
    most 1024 threads; num_ctas above 1 on SM90 and later only (.../triton.Config)."""
    space = PRESETS[family]
    indices = data.draw(st.lists(st.integers(0, space.size - 1), min_size=30, max_size=60, unique=True))
    made = export_triton(_entries(space, indices), PROBLEM, family, GPUS[family], "gpu")
    path = tmp_path_factory.mktemp("triton") / "configs.py"
    path.write_text(made.text)
    module = run_file(path)
    kinds = {"configs": set(), "configs_persistent": {"NUM_SMS"}, "configs_split_k": {"SPLIT_K"}}
    assert sum(len(module[name]) for name in kinds) == made.written
    for name, more in kinds.items():
        for config in module[name]:
            assert set(config.kwargs) == {"BLOCK_M", "BLOCK_N", "BLOCK_K", "GROUP_M"} | more
            m, n, k = (config.kwargs[f"BLOCK_{axis}"] for axis in "MNK")
            assert all(size >= 16 and size.bit_count() == 1 for size in (m, n, k))
            assert max(m * n, m * k, n * k) <= 1048576
            assert config.num_warps.bit_count() == 1
            assert config.num_warps <= 32
            assert config.num_stages >= 1
            assert config.num_ctas.bit_count() == 1
            assert config.num_ctas <= 16
            assert config.num_ctas == 1 or family != "mma_sync"
            assert config.kwargs["GROUP_M"] >= 1
            assert 1 <= config.kwargs.get("NUM_SMS", 1) <= GPUS[family].sm_count
            assert config.kwargs.get("SPLIT_K", 2) >= 2


def test_of_each_group_the_best_that_can_be_said_is_exported():
    base = PRESETS["wgmma"].schedule(0) | {"tile_m": 128, "tile_n": 128, "epilogue": 1, "swizzle": 1}
    odd, other = base | {"stream_k": 1, "persistent": 1}, base | {"tile_n": 256}
    given = [odd, base | {"stages": 2}, base | {"stages": 3}, other, other | {"stages": 2}]
    entries = [Entry(at, 1e-3, 500.0, "tensor", f"index {place}") for place, at in enumerate(given)]

    def tile(entry):
        return tuple(entry.schedule[name] for name in ("tile_m", "tile_n", "tile_k"))

    made = export_triton(entries, PROBLEM, "wgmma", GPUS["wgmma"], "gpu", group=tile)
    assert re.findall(r"index (\d)", made.text) == ["1", "3"]
    assert (made.written, made.repeated, made.skipped) == (2, 2, {"stream-K": 1})
    assert "2 more are of a group that is there (--distinct)" in made.summary


def test_distinct_on_the_command_line(run, tmp_path, capsys):
    tiles = [(r["tile_m"], r["tile_n"], r["tile_k"]) for r in json_answer(capsys, "top", run, "-n", "300")]
    assert Counter(tiles).most_common()[0][1] > 1
    kept = json_answer(capsys, "top", run, "-n", "300", "--distinct", "tile")
    found = [(r["tile_m"], r["tile_n"], r["tile_k"]) for r in kept]
    assert len(set(found)) == len(found)
    assert found[: len(set(tiles))] == list(dict.fromkeys(tiles))
    out = answer(capsys, "top", run, "-n", "300", "--distinct", "tile")[1]
    assert f"{len(set(tiles))} distinct by tile among the {len(tiles)} best that the run kept" in out
    assert answer(capsys, "export", run, "--to", "csv", "--distinct", "tile", "-o", tmp_path / "a.csv")[0] == 0
    rows = list(csv.DictReader((tmp_path / "a.csv").open()))
    assert [tuple(int(r[f"tile_{axis}"]) for axis in "mnk") for r in rows] == list(dict.fromkeys(tiles))


@pytest.mark.parametrize("target", SUFFIX)
def test_a_run_exported_ranks_as_it_was_predicted(target, run, tmp_path, capsys):
    path = tmp_path / f"schedules{SUFFIX[target]}"
    code, _, err = answer(capsys, "export", run, "--to", target, "--count", "12", "-o", path)
    assert code == 0
    written = int(re.search(r"(\d+) schedules", err).group(1))
    known = [*json_answer(capsys, "top", run, "-n", "300"), *json_answer(capsys, "front", run)["front"]]
    latency = {tuple(row[name] for name in FIELDS): row["latency_s"] for row in known}
    ranked = json_answer(capsys, "rank", path, "--shape", "2048x2048x4096")["candidates"]
    assert len(ranked) == written > 0
    for row in ranked:
        assert row["latency_s"] == pytest.approx(latency[tuple(row[name] for name in FIELDS)], rel=1e-6)
