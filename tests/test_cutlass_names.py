"""Exported profiler calls, read by an independent checker of CUTLASS's documented names and arguments."""

import re
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.cutlass_names import (
    LAYOUTS,
    SM80_TILES,
    SM90_TILES,
    TYPES,
    Kernel,
    parse_call,
    parse_name,
    selected,
)

from dse.content.dtypes import DTYPE_BYTES
from dse.content.space import load_space
from dse.cutlass_call import CutlassCall, call_of
from dse.cutlass_kernel import read_script, schedule_of
from dse.errors import UserError
from dse.export import Entry, export_cutlass
from dse.kernels.gemm import gemm_problem
from dse.schedule_text import FIELDS, distinct_raster

FAMILIES = ("wgmma", "tcgen05", "mma_sync")
DTYPES = {"bf16": ("bf16", "fp32"), "fp16": ("fp16", "fp32"), "fp8": ("bf16",), "int8": ("int32",), "tf32": ("fp32",)}
SPACES = {
    family: [load_space("gemm", family, "bf16"), load_space("gemm", family, "bf16", preset="cutlass")]
    for family in FAMILIES
}
ELEMENTS = {"bf16": "bf16", "fp16": "f16", "fp8": "e4m3", "int8": "s8", "tf32": "f32", "fp32": "f32", "int32": "s32"}


@st.composite
def problems(draw):
    dtype = draw(st.sampled_from(list(DTYPES)))
    shape = "x".join(str(draw(st.integers(1, 80)) * draw(st.sampled_from([1, 8, 64]))) for _ in "mnk")
    out = draw(st.sampled_from(DTYPES[dtype]))
    layout = draw(st.sampled_from(["tn", "nn", "tt", "nt"]))
    return gemm_problem(shape, dtype=dtype, out_dtype=out, layout=layout, beta=draw(st.booleans()))


@pytest.mark.parametrize("family", FAMILIES)
@settings(deadline=None, max_examples=30)
@given(data=st.data(), problem=problems())
def test_every_exported_line_is_a_documented_call_that_agrees_with_its_schedule(family, data, problem):
    space = data.draw(st.sampled_from(SPACES[family]))
    indices = data.draw(st.lists(st.integers(0, space.size - 1), min_size=1, max_size=20, unique=True))
    entries = [Entry(space.schedule(index), 1e-3, 500.0, "tensor", f"index {index}") for index in indices]
    accumulator = "int32" if problem.dtype == "int8" else "fp32"
    made = export_cutlass(entries, problem, family, accumulator, "gpu")
    lines = [line for line in made.text.splitlines() if line.startswith('"$profiler"')]
    marks = re.findall(r"^# .*index (\d+)$", made.text, re.M)
    assert len(lines) == len(marks) == made.written == len(entries) - sum(made.skipped.values())
    filters = set()
    for line, mark in zip(lines, marks, strict=True):
        kernels, flags = parse_call(line)
        filters.add(kernels)
        at = distinct_raster({name: space.schedule(int(mark))[name] for name in FIELDS}, problem.m, problem.n)
        _agree(parse_name(kernels), kernels, flags, at, problem, family)
    build = re.search(r'-DCUTLASS_LIBRARY_KERNELS="(.*)"', made.text)
    assert build
    assert set(build[1].split(",")) - {""} == filters


def _agree(kernel: Kernel, kernels: str, flags: dict, at: dict, problem, family: str) -> None:
    assert kernel.arch == {"wgmma": "90", "tcgen05": "100", "mma_sync": "80"}[family]
    a, out = ELEMENTS[problem.dtype], ELEMENTS[problem.out_dtype]
    assert kernel.types[:2] == (a, a)
    assert kernel.types[2] == flags["accum"]
    assert kernel.types[4] == out
    assert kernel.mma == ("tf32" if problem.dtype == "tf32" else "")
    assert [flags["A"], flags["B"]] == [f"{a}:{LAYOUTS[letter]}" for letter in problem.layout]
    assert kernel.layouts[:2] == problem.layout
    assert kernel.align * TYPES[kernel.types[0]] <= 16
    assert kernel.tile == ((1 + at["cta_pair"]) * at["tile_m"], at["tile_n"], at["tile_k"])
    if family == "mma_sync":
        assert int(flags["stages"]) == at["stages"]
    else:  # the library's own number runs; the schedule's is a column beside it
        assert "stages" not in flags
        assert flags["tags"] == f"predicted_stages:{at['stages']}"
    assert (flags["m"], flags["n"], flags["k"]) == (str(problem.m), str(problem.n), str(problem.k))
    assert float(flags["beta"]) == problem.beta
    assert int(flags.get("split_k_slices", 1)) == at["split_k"]
    assert not at["swap_ab"]
    assert not at["sms_free"]
    for axis in "mnk":
        assert int(flags.get(f"cta_{axis}", at[f"tile_{axis}"])) == at[f"tile_{axis}"]
    stored = "column" if family != "tcgen05" else "row"
    if family == "mma_sync":
        assert (int(flags["warps_m"]), int(flags["warps_n"])) == (at["warps_m"], at["warps_n"])
        assert kernel.stages == at["stages"]
        assert flags["C"] == f"{out}:{stored}"
        assert (at["persistent"], at["epilogue"]) == (0, 1)
        panel = at | {"raster_along_n": 0, "swizzle": int(flags["swizzle_size"])}
        assert distinct_raster(panel, problem.m, problem.n) == at
        return
    assert kernel.stages == 0
    assert LAYOUTS[kernel.layouts[2]] == stored
    assert kernel.types[3] == (out if problem.beta else "void")
    assert flags["C"] == f"{out if problem.beta else 'void'}:{stored}"
    assert flags["D"] == f"{out}:{stored}"
    assert kernel.cluster == (at["cluster_m"], at["cluster_n"], 1)
    assert flags["raster_order"] == ("along_n" if at["raster_along_n"] else "along_m")
    assert int(flags["swizzle_size"]) == at["swizzle"]
    runs = selected(kernels)
    assert runs
    assert {scheduler for scheduler, _, _ in runs} == {"_stream_k" if at["stream_k"] or at["split_k"] > 1 else ""}
    if family == "tcgen05":
        assert {mainloop for _, mainloop, _ in runs} == {"_2sm" if at["cta_pair"] else "_1sm"}
        return
    ((_, mainloop, epilogue),) = runs
    assert epilogue == ("_epi_nosmem" if at["epilogue"] == 0 else "_epi_tma")
    groups = {
        4: "_warpspecialized_pingpong" if at["persistent"] else "_warpspecialized",
        8: "_warpspecialized_cooperative",
    }
    assert mainloop == groups[at["warps_m"]]


def test_the_checker_reads_the_names_of_the_documentation():
    kernel = parse_name("cutlass3x_sm90_tensorop_gemm_f16_f16_f16_void_f16_128x128x64_1x1x1_0_nnn_align8_warpspecialized_cooperative_epi_tma")  # fmt: skip # noqa: E501
    assert kernel.types == ("f16", "f16", "f16", "void", "f16")
    assert (kernel.tile, kernel.cluster, kernel.stages) == ((128, 128, 64), (1, 1, 1), 0)
    assert (kernel.layouts, kernel.align, kernel.end) == ("nnn", 8, "_warpspecialized_cooperative_epi_tma")
    kernel = parse_name("cutlass3x_sm90_tensorop_tf32gemm_f32_f32_f32_f32_f32_128x128x32_2x1x1_0_tnn_align4")
    assert (kernel.mma, kernel.cluster, kernel.align) == ("tf32", (2, 1, 1), 4)
    kernel = parse_name("cutlass_tensorop_s16816gemm_f16_256x128_32x3_nn_align8")
    assert (kernel.types, kernel.tile, kernel.stages) == (("f16", "f16", "f32", "f32", "f32"), (256, 128, 32), 3)


@pytest.mark.parametrize(
    "line",
    [
        '"$profiler" --operation=Gemm --kernels=x --swizzle_size=3',
        '"$profiler" --operation=Gemm --kernels=x --swizle_size=4',
        '"$profiler" --operation=Gemm --kernels=x --A=bf16:rows',
        '"$profiler" --operation=Gemm --kernels=x --m=0',
    ],
)
def test_the_checker_refuses_what_is_not_documented(line):
    with pytest.raises(AssertionError):
        parse_call(line)


def test_a_filter_runs_one_kind_of_kernel_only():
    stem = "cutlass3x_sm100_tensorop_gemm_bf16_bf16_f32_void_bf16_128x256x64_1x1x1_0_tnt_align8"
    assert {scheduler for scheduler, _, _ in selected(f"{stem}*_1sm*")} == {"", "_stream_k"}  # what must not be written
    assert {scheduler for scheduler, _, _ in selected(f"{stem}_1sm*")} == {""}


@pytest.mark.parametrize("family", FAMILIES)
@settings(deadline=None, max_examples=60)
@given(data=st.data(), problem=problems())
def test_a_call_reads_back_to_its_schedule(family, data, problem):
    space = data.draw(st.sampled_from(SPACES[family]))
    schedule = {name: space.schedule(data.draw(st.integers(0, space.size - 1)))[name] for name in FIELDS}
    call = call_of(schedule, problem, family, "int32" if problem.dtype == "int8" else "fp32")
    if isinstance(call, CutlassCall):
        runs_on, back = schedule_of(call, problem, "line 1")
        assert runs_on == family
        assert distinct_raster(back, problem.m, problem.n) == distinct_raster(schedule, problem.m, problem.n)


def test_panels_are_as_wide_as_the_grid_allows():
    at = SPACES["wgmma"][1].schedule(0) | {
        "tile_m": 128,
        "tile_n": 128,
        "cluster_m": 1,
        "cluster_n": 1,
        "persistent": 1,
    }
    at |= {"tile_k": 64, "raster_along_n": 1, "swizzle": 8, "split_k": 1, "stream_k": 0, "epilogue": 1, "warps_m": 8}
    assert isinstance(call_of(at, gemm_problem("4096x4096x4096"), "wgmma", "fp32"), CutlassCall)
    narrow = gemm_problem("4096x640x4096")  # five columns: CUTLASS takes panels of 4
    assert call_of(at, narrow, "wgmma", "fp32") == "a raster panel that CUTLASS narrows on a grid of so few tiles"
    wide = gemm_problem("4096x4096x4096")
    call = call_of(at, wide, "wgmma", "fp32")
    assert isinstance(call, CutlassCall)
    assert schedule_of(call, narrow, "line 1")[1]["swizzle"] == 4


SCRIPT = """#!/bin/sh
# comment with --kernels=nothing \\
profiler=cutlass_profiler
"$profiler" --operation=Gemm \\
--kernels='cutlass3x_sm90_tensorop_gemm_bf16_bf16_f32_void_bf16_64x256x64_2x1x1_0_tnt_align8_warpspecialized_pingpong'\\
  --stages=4 --raster_order=along_n
cutlass_profiler --kernels=cutlass_tensorop_bf16_s16816gemm_bf16_128x128_32x3_tn_align8 --swizzle_size=8
"""


def test_scripts_that_others_wrote():
    (first, ping), (second, ampere) = read_script(SCRIPT)
    assert (first, second) == (4, 7)
    problem = gemm_problem("4096x4096x4096")
    family, at = schedule_of(ping, problem, "line 4")
    assert family == "wgmma"
    assert (at["tile_n"], at["cluster_m"], at["stages"], at["warps_m"], at["epilogue"]) == (256, 2, 4, 4, 2)
    assert (at["raster_along_n"], at["swizzle"], at["persistent"]) == (1, 1, 1)
    family, at = schedule_of(ampere, problem, "line 7")
    assert family == "mma_sync"
    assert (at["tile_k"], at["stages"], at["warps_m"] * at["warps_n"], at["swizzle"]) == (32, 3, 4, 8)


@pytest.mark.parametrize(
    ("kernel", "arguments", "said"),
    [
        ("cutlass_simt_sgemm_128x128_8x2_nn_align1", {}, "no name of a tensor-core GEMM"),
        (f"cutlass3x_sm90_tensorop_gemm_{'bf16_' * 5}64x64x64_1x1x1_0_tnt_align8_cpasync", {"stages": 2},
         "kernels that end in '_cpasync' are not known"),
        (f"cutlass3x_sm90_tensorop_gemm_{'bf16_' * 5}64x64x64_1x1x1_0_tnt_align8_warpspecialized", {},
         "does not say stages: add --stages=..."),
        (f"cutlass3x_sm100_tensorop_gemm_{'bf16_' * 5}128x64x64_1x1x1_0_tnt_align8_1sm", {"stages": "2:4"},
         "stages=2:4 is not one whole number"),
        (f"cutlass3x_sm90_tensorop_gemm_{'bf16_' * 5}64x64x64_1x1x1_0_tnt_align8_warpspecialized_cooperative",
         {"stages": 2, "split_k_slices": 2}, "splits nothing"),
        (f"cutlass3x_sm90_tensorop_gemm_{'f16_' * 5}64x64x64_1x1x1_0_tnt_align8_warpspecialized",
         {"stages": 2, "A": "f16:row"}, "line 9 multiplies f16, the question is about bf16 (bf16): add --dtype fp16"),
    ],
)  # fmt: skip
def test_calls_that_cannot_be_read_say_why(kernel, arguments, said):
    with pytest.raises(UserError) as error:
        schedule_of(CutlassCall(kernel, arguments), gemm_problem("512x512x512"), "line 9")
    assert said in str(error.value)


def test_types_have_the_bytes_of_ours():
    for ours, theirs in ELEMENTS.items():
        assert TYPES[theirs] == DTYPE_BYTES[ours]


PLAIN = dict.fromkeys(FIELDS, 0) | {"cluster_m": 1, "cluster_n": 1, "swizzle": 1, "split_k": 1, "warps_n": 1}
SQUARE = gemm_problem("8192x8192x8192")
COOPERATIVE = {"warps_m": 8, "persistent": 1, "epilogue": 1}
KINDS = {
    "_warpspecialized_epi_nosmem": {"warps_m": 4},
    "_warpspecialized_epi_tma": {"warps_m": 4, "epilogue": 1},
    "_warpspecialized_pingpong_epi_tma": {"warps_m": 4, "persistent": 1, "epilogue": 2},
    "_warpspecialized_cooperative_epi_tma": COOPERATIVE,
    "_stream_k_warpspecialized_cooperative_epi_tma": COOPERATIVE | {"stream_k": 1},
}


@pytest.mark.parametrize("cluster", SM90_TILES)
@pytest.mark.parametrize("kind", KINDS)
def test_sm90_kernels_are_exported_exactly_where_the_library_has_them(cluster, kind):
    about = PLAIN | {"stages": 2, "cluster_m": cluster[0], "cluster_n": cluster[1]} | KINDS[kind]
    found = set()
    for m, n, k in product((64, 128, 192, 256), (8, 16, 32, 64, 128, 256), (16, 32, 64, 128, 256, 512)):
        call = call_of(about | {"tile_m": m, "tile_n": n, "tile_k": k}, SQUARE, "wgmma", "fp32")
        if isinstance(call, CutlassCall):
            assert call.kernel.endswith(kind)
            found.add(f"{m}x{n}x{k}")
    tiles = set(SM90_TILES[cluster].split())
    if "cooperative" in kind:
        tiles = {tile for tile in tiles if int(tile.split("x")[0]) >= 128}
    assert found == (set() if kind == "_warpspecialized_epi_tma" else tiles)


def test_cutlass_2_kernels_are_exported_exactly_where_the_library_has_them():
    found = set()
    sides = (16, 32, 64, 128, 256)
    for m, n, k, stages in product(sides, sides, (16, 32, 64, 128), range(1, 11)):
        for warps_m, warps_n in product((1, 2, 4), (1, 2, 4)):
            at = PLAIN | {"tile_m": m, "tile_n": n, "tile_k": k, "stages": stages, "epilogue": 1}
            call = call_of(at | {"warps_m": warps_m, "warps_n": warps_n}, SQUARE, "mma_sync", "fp32")
            if isinstance(call, CutlassCall):
                assert f"{m}x{n}_{k}x{stages}" not in found  # one layout of warps each
                found.add(f"{m}x{n}_{k}x{stages}")
    assert found == set(SM80_TILES.split())


def test_schedules_that_differ_in_their_stages_are_one_call_of_the_profiler():
    at = PLAIN | COOPERATIVE | {"tile_m": 128, "tile_n": 256, "tile_k": 64}
    entries = [Entry(at | {"stages": stages}, 1e-3, 500.0, "tensor", f"index {stages}") for stages in (3, 4, 2)]
    made = export_cutlass(entries, SQUARE, "wgmma", "fp32", "gpu")
    assert (made.written, made.skipped) == (1, {"a call that is there, but for its stages": 2})
    assert "predicted_stages:3" in made.text


def test_widths_that_are_no_powers_of_two_need_a_deeper_level():
    at = PLAIN | COOPERATIVE | {"tile_m": 128, "tile_n": 256, "tile_k": 64, "stages": 4}
    for tile_n, level in ((256, "max"), (192, "9993")):
        entries = [Entry(at | {"tile_n": tile_n}, 1e-3, 500.0, "tensor", "index 0")]
        text = export_cutlass(entries, SQUARE, "wgmma", "fp32", "gpu").text
        assert f"-DCUTLASS_LIBRARY_INSTANTIATION_LEVEL={level} " in text
        assert "# The library's kernels for this architecture write D column-major." in text


@pytest.mark.parametrize(
    ("change", "problem", "family", "said"),
    [
        ({"layout": "nt", "dtype": "fp8"}, {}, "wgmma", "8-bit operands in layout nt (the library has tn)"),
        ({"out_dtype": "fp32"}, {"tile_m": 256, "tile_n": 256, "tile_k": 64}, "wgmma",
         "a staged epilogue that the library counts as too large"),
        ({}, {"tile_k": 32}, "tcgen05", "a K-step other than 128 bytes (the library's sm100 kernels have no other)"),
        ({}, {"tile_n": 16, "cta_pair": 1, "cluster_m": 2}, "tcgen05", "a tile_n that is no multiple of 32"),
        ({"dtype": "int8", "out_dtype": "int32"}, {"tile_n": 40, "tile_k": 128}, "wgmma",
         "a tile_n that the library does not have"),
    ],
)  # fmt: skip
def test_what_the_library_does_not_have(change, problem, family, said):
    at = PLAIN | COOPERATIVE | {"tile_m": 128, "tile_n": 256, "tile_k": 64, "stages": 2}
    at |= {"warps_m": 4, "epilogue": 2} if family == "tcgen05" else {}
    assert call_of(at | problem, gemm_problem("4096x4096x4096", **change), family, "fp32") == said
