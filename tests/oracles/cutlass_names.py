"""Reads CUTLASS's kernel names and profiler calls, from its documentation alone.

Sources, all of github.com/NVIDIA/cutlass:
* media/docs/cpp/profiler.md, "CUTLASS 3.0 GEMM procedural names": the parts of a name, in order; "GEMM Arguments":
  flags and their values; "usage": --kernels takes parts of names joined by `*`; "Example Tensor Core GEMM Operations":
  a CUTLASS 2 name beside the arguments that it stands for.
* python/cutlass_library/library.py, TileSchedulerSuffixes, KernelScheduleSuffixes, EpilogueScheduleSuffixes: what may
  follow the alignment, in this order. gemm_operation.py: the tile of sm100 names is the instruction's, two CTAs high
  for 2-SM kernels.
"""

import shlex
from dataclasses import dataclass

TYPES = {"f16": 2, "bf16": 2, "f32": 4, "tf32": 4, "s8": 1, "s32": 4, "e4m3": 1, "e5m2": 1}  # bytes
SCHEDULERS = ("", "_stream_k")
MAINLOOPS = {
    "90": ("_warpspecialized", "_warpspecialized_pingpong", "_warpspecialized_cooperative"),
    "100": ("_1sm", "_2sm"),
}
EPILOGUES = ("", "_epi_nosmem", "_epi_tma")
LAYOUTS = {"n": "column", "t": "row"}
WHOLE = {
    "m", "n", "k", "split_k_slices", "batch_count", "cta_m", "cta_n", "cta_k", "cluster_m", "cluster_n", "cluster_k",
    "stages", "warps_m", "warps_n", "warps_k",
}  # fmt: skip
VALUES = {
    "split_k_mode": ("serial", "parallel"),
    "op_class": ("simt", "tensorop", "wmmatensorop", "wmma"),
    "raster_order": ("heuristic", "H", "along_m", "M", "along_n", "N"),
    "swizzle_size": ("1", "2", "4", "8"),
    "accum": tuple(TYPES),
}
# What the generator of CUTLASS 4.2 emits for bf16 in, fp32 accumulation, bf16 out, layout tn, 16-byte alignment
# (python/cutlass_library/generator.py --operations gemm --architectures 90a --kernels FILTER --instantiation-level max
# --selected-kernel-list FILE, and the same for 80, run once): tiles of sm90's kernels by cluster, the cooperative ones
# being those of 128 rows and more; and the tiles of its CUTLASS 2 kernels, with their stages.
SM90_TILES = {
    (1, 1): "64x16x64 64x16x128 64x16x256 64x32x64 64x32x128 64x32x256 64x64x64 64x64x128 64x64x256 64x128x64 "
    "64x128x128 64x256x64 64x256x128 128x16x64 128x16x128 128x32x64 128x32x128 128x64x64 128x64x128 128x128x64 "
    "128x128x128 128x256x64 128x256x128 256x16x64 256x16x128 256x32x64 256x32x128 256x64x64 256x64x128 256x128x64 "
    "256x128x128 256x256x64",
    (4, 1): "64x16x64 64x16x128 64x32x64 64x32x128 64x64x64 64x64x128 64x128x64 64x128x128 64x256x64 128x16x64 "
    "128x16x128 128x32x64 128x32x128 128x64x64 128x64x128 128x128x64 128x128x128 128x256x64 256x16x64 256x16x128 "
    "256x32x64 256x32x128 256x64x64 256x64x128 256x128x64 256x128x128 256x256x64",
}
SM80_TILES = (
    "256x128_32x3 128x256_32x3 256x64_32x3 256x64_32x4 64x256_32x4 128x128_32x3 128x128_32x4 128x128_32x5 128x64_32x6 "
    "64x128_32x6 64x64_32x10 256x128_64x3 128x256_64x3 256x64_64x4 64x256_64x4 128x128_64x4 256x64_64x3 64x256_64x3 "
    "128x128_64x3 128x64_64x3 64x128_64x3 64x64_64x5"
)

TENSORS, SCALARS = ("A", "B", "C", "D"), ("alpha", "beta")


@dataclass(frozen=True)
class Kernel:
    """What a name says.

    Attributes:
        arch: "90", "100"; "80" for CUTLASS 2 names.
        types: of A, B, accumulator, C, D.
        mma: the type that the instruction multiplies, where the name says another than A's.
        tile, cluster: elements and CTAs; CUTLASS 2 has no cluster.
        stages: 0: the collective builder's choice.
        layouts: a letter an operand.
        align: elements.
        end: scheduler, mainloop, epilogue; of a filter, with `*`.
    """

    arch: str
    types: tuple[str, ...]
    mma: str
    tile: tuple[int, ...]
    cluster: tuple[int, ...]
    stages: int
    layouts: str
    align: int
    end: str


def parse_call(line: str) -> tuple[str, dict[str, str]]:
    """(kernel filter, flag -> value) of a line of a shell script; every flag and value is checked."""
    words = shlex.split(line)
    assert words[0] == "$profiler"
    flags = {}
    for word in words[1:]:
        assert word.startswith("--"), word
        name, equals, value = word[2:].partition("=")
        assert equals, word
        assert name not in flags, word
        flags[name] = value
    assert flags.pop("operation") == "Gemm"
    kernels = flags.pop("kernels")
    assert "," not in kernels
    for name, value in flags.items():
        if name in WHOLE:
            assert value.isdigit(), (name, value)
            assert int(value) >= 1, (name, value)
        elif name in VALUES:
            assert value in VALUES[name], (name, value)
        elif name in TENSORS:
            element, colon, layout = value.partition(":")
            assert element in (*TYPES, "void"), (name, value)
            assert colon, (name, value)
            assert layout in LAYOUTS.values(), (name, value)
        elif name == "tags":  # --tags=<column:tag,...>: leading columns of the output
            assert all(tag.count(":") == 1 for tag in value.split(",")), value
        else:
            assert name in SCALARS, name
            float(value)
    return kernels, flags


def parse_name(name: str) -> Kernel:
    """Takes a name (or a filter whose part up to the alignment is whole) apart."""
    if name.startswith("cutlass3x_"):
        return _parse_3x(name.split("_"))
    return _parse_2x(name.split("_"))


def _parse_3x(parts: list[str]) -> Kernel:
    head, arch, op, core, *rest = parts
    assert head == "cutlass3x"
    assert arch in ("sm90", "sm100")
    assert op == "tensorop"
    assert core.endswith("gemm")
    mma = core.removesuffix("gemm")
    assert mma in ("", "tf32")
    types, (tile, cluster, stages, layouts, align) = rest[:5], rest[5:10]
    assert all(element in TYPES for element in (*types[:3], types[4]))
    assert types[3] in (*TYPES, "void")
    assert len(layouts) == 3
    assert set(layouts) <= set(LAYOUTS)
    assert align.startswith("align")
    first = align.removeprefix("align").rstrip("*")
    end = "_".join(["", *rest[10:]]) if len(rest) > 10 else ""
    assert first.isdigit(), f"{align}: the alignment is not followed by an underscore"
    return Kernel(
        arch.removeprefix("sm"), tuple(types), mma, _sizes(tile, 3), _sizes(cluster, 3), int(stages), layouts,
        int(first), end,
    )  # fmt: skip


def _parse_2x(parts: list[str]) -> Kernel:
    assert parts[:2] == ["cutlass", "tensorop"]
    place = next(at for at, part in enumerate(parts) if part.endswith("gemm"))
    core = parts[place].removesuffix("gemm")
    accumulator = {"s": "f32", "h": "f16", "i": "s32"}[core[0]]
    mma = "tf32" if core.endswith("tf32") else ""
    shape = core[1:].removesuffix("tf32")
    assert shape in ("1688", "16816", "16832"), shape  # m16n8k8, k16, k32: 32 bytes deep
    tile, depth, layouts, align = parts[-4:]
    out = parts[2] if place == 3 else accumulator
    operand = parts[place + 1] if place + 1 < len(parts) - 4 else accumulator
    assert out in TYPES
    assert operand in TYPES
    assert int(shape.removeprefix("168")) * TYPES[operand] == 32
    (tile_k, stages), (m, n) = _sizes(depth, 2), _sizes(tile, 2)
    assert len(layouts) == 2
    assert set(layouts) <= set(LAYOUTS)
    types = (operand, operand, accumulator, out, out)
    return Kernel("80", types, mma, (m, n, tile_k), (1, 1, 1), stages, layouts, int(align.removeprefix("align")), "")


def selected(kernels: str) -> list[tuple[str, str, str]]:
    """(scheduler, mainloop, epilogue) of the library's kernels, of one arch, types, tile, ..., that a filter runs."""
    kernel = parse_name(kernels)
    stem = kernels[: kernels.index("_align")] + f"_align{kernel.align}"
    return [
        (scheduler, mainloop, epilogue)
        for scheduler in SCHEDULERS
        for mainloop in MAINLOOPS[kernel.arch]
        for epilogue in EPILOGUES
        if _contains(f"{stem}{scheduler}{mainloop}{epilogue}", kernels.split("*"))
    ]


def _contains(name: str, parts: list[str]) -> bool:
    """Whether a name has these parts in this order, as the profiler filters."""
    place = 0
    for part in parts:
        found = name.find(part, place)
        if found < 0:
            return False
        place = found + len(part)
    return True


def _sizes(text: str, count: int) -> tuple[int, ...]:
    sizes = tuple(int(part) for part in text.split("x"))
    assert len(sizes) == count, text
    return sizes
