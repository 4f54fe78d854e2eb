"""Schedule spaces: index <-> digits <-> schedule, decoding under jit, sub-spaces, files, and the text of errors."""

import dataclasses
import functools
import pickle
import re
import subprocess
import sys

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dse.axis import Axis
from dse.content.space import list_spaces, load_space
from dse.decode import decode
from dse.errors import UserError
from dse.restrict import Between, parse_axes, parse_axis
from dse.space import Space
from jaxmodel.types import EPILOGUE_OVERLAPPED, GemmSchedule

FAMILIES = ("mma_sync", "wgmma", "tcgen05")
LANES = 4097  # 2^12 + 1: a vector loop with a remainder


def long_space() -> Space:
    """3.5e12 points: radices above a table's size, fields that need two words, an axis with one entry."""
    wide = Axis(
        "wide", ("a", "b", "c"), tuple((i * 7919 % 2**20, 2**19 + i, i) for i in range(50)), tuple(map(str, range(50)))
    )
    axes = (
        Axis.of("outer", range(0, 9000, 3)),
        wide,
        Axis.of("one", [5]),
        Axis.of("d", range(1, 4801)),
        Axis.of("e", range(4871)),
    )
    return Space("long", "gemm", "none", "bf16", axes, {"f": 3})


@functools.cache
def space_called(name: str) -> Space:
    return long_space() if name == "long" else load_space("gemm", name)


@functools.cache
def decoder(name: str, lanes: int = LANES):
    return jax.jit(lambda digits: decode(space_called(name), digits, lanes))


def points(name: str):
    return st.integers(0, space_called(name).size - 1)


def error_of(call, *args, **kwargs) -> str:
    with pytest.raises(UserError) as caught:
        call(*args, **kwargs)
    return str(caught.value)


@pytest.mark.parametrize("name", [*FAMILIES, "long"])
@given(data=st.data())
def test_index_digits_and_schedule_are_one_to_one(name, data):
    space = space_called(name)
    index = data.draw(points(name))
    digits = space.digits(index)
    assert space.index_of(digits) == index
    assert sum(d * s for d, s in zip(digits, space.strides, strict=True)) == index
    schedule = space.schedule(index)
    assert space.index_of_schedule(schedule) == index
    assert tuple(sorted(schedule)) == tuple(sorted(space.fields))
    assert {key: int(column[0]) for key, column in space.rows([index]).items()} == schedule
    assert space.restrict(space.labels(index)).size == 1


@pytest.mark.parametrize("name", [*FAMILIES, "long"])
@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_decode_under_jit_equals_the_rows(name, data):
    space = space_called(name)
    carry = data.draw(st.sampled_from(space.strides)) * data.draw(st.integers(1, 50)) - data.draw(st.integers(0, LANES))
    start = data.draw(st.one_of(points(name), st.just(max(0, min(carry, space.size - 1)))))
    decoded = decoder(name)(space.start_digits(start))
    rows = space.rows([(start + lane) % space.size for lane in range(LANES)])  # past the end: from the beginning
    assert set(decoded) == set(space.fields)
    for field, column in rows.items():
        assert decoded[field].dtype == np.float32
        np.testing.assert_array_equal(np.broadcast_to(decoded[field], LANES), column, err_msg=field)


def test_decode_goes_past_32_bits_and_compiles_once():
    space = space_called("long")
    assert space.size > 2**40
    traces = []
    compiled = jax.jit(lambda digits: traces.append(1) or decode(space, digits, 16))
    for start in (0, 2**31 - 8, 2**32 - 8, 2**40 + 12345, space.size - 16):
        rows = space.rows(range(start, start + 16))
        decoded = compiled(space.start_digits(start))
        assert all((np.broadcast_to(decoded[field], 16) == rows[field]).all() for field in rows)
    assert len(traces) == 1


def test_a_field_with_one_value_decodes_to_a_scalar():
    decoded = decode(load_space(axes={"tile_m": 128}), np.zeros(9, np.int32), 8)
    assert decoded["tile_m"].shape == decoded["cta_pair"].shape == ()
    assert decoded["tile_n"].shape == (8,)


def test_decode_in_float64():
    space = load_space("gemm", "wgmma")
    with jax.enable_x64(True):
        decoded = decode(space, space.start_digits(12345), 8, dtype="float64")
        assert {column.dtype for column in decoded.values()} == {np.dtype("float64")}
        assert float(decoded["tile_k"][0]) == space.schedule(12345)["tile_k"]


def test_indices_have_no_upper_limit():
    axes = tuple(Axis.of(f"x{place}", range(1000)) for place in range(8))
    space = Space("huge", "gemm", "none", "bf16", axes)
    index = 10**23 + 987654321
    assert space.size == 10**24
    assert space.index_of(space.digits(index)) == index
    assert [int(column[1]) for column in space.rows([0, index]).values()] == list(space.digits(index))
    assert index + 3 == space.index_of([int(c[3]) for c in decode(space, space.start_digits(index), 4).values()])


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("dtype", ["fp4", "fp8", "bf16", "fp32"])
def test_spaces_fill_every_field_of_a_schedule(name, dtype):
    space = load_space("gemm", name, dtype)
    assert set(space.fields) == {field.name for field in dataclasses.fields(GemmSchedule)}
    assert space.size > 1_000_000
    size = {"fp4": 0.5, "fp8": 1, "bf16": 2, "fp32": 4}[dtype]
    assert [value * size for value in space.axis("tile_k").column("tile_k")] == [32, 64, 128, 256]


@pytest.mark.parametrize("name", FAMILIES)
def test_no_two_indices_are_the_same_schedule(name):
    space = load_space("gemm", name)
    coarse = {
        axis.name: axis.labels[:3]
        for axis in space.axes
        if axis.name not in ("operands", "raster", "launch", "cluster", "warps")
    }
    part = space.restrict(coarse)
    assert part.size > 10_000
    rows = np.stack(list(part.rows(np.arange(part.size)).values()), axis=1)
    assert len(np.unique(rows, axis=0)) == part.size


@pytest.mark.parametrize("name", FAMILIES)
def test_launches_do_not_contradict_themselves(name):
    launch = load_space("gemm", name).axis("launch")
    rows = dict(zip(launch.fields, launch.table(), strict=True))
    assert not ((rows["epilogue"] == EPILOGUE_OVERLAPPED) & (rows["persistent"] == 0)).any()
    assert not ((rows["sms_free"] > 0) & (rows["persistent"] == 0)).any()
    assert not ((rows["split_k"] > 1) & (rows["stream_k"] == 1)).any()
    assert not ((rows["stream_k"] == 1) & (rows["persistent"] == 0)).any()
    assert set(launch.column("split_k")) >= {1, 2, 32}


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("preset", ["triton", "cutlass", "library", "quick"])
def test_presets_are_sub_spaces(name, preset):
    whole, part = load_space("gemm", name), load_space("gemm", name, preset=preset)
    assert 0 < part.size < whole.size / 5
    last = np.unique(np.linspace(0, part.size - 1, 50).astype(np.int64))
    for index in last:
        assert whole.schedule(whole.index_of_schedule(part.schedule(int(index)))) == part.schedule(int(index))
    # wide panels on a narrow grid are the same order as these two, and are kept under these names only
    assert {"along_m:1", "along_n:1"} <= set(part.axis("raster").labels)
    limits = {"library": (1_000, 60_000), "quick": (70_000, 150_000)}.get(preset, (20_000, 2_000_000))
    assert limits[0] <= part.size <= limits[1]


@pytest.mark.parametrize("name", FAMILIES)
def test_triton_configs_have_powers_of_two_and_one_warp_layout_each(name):
    space = load_space("gemm", name, preset="triton")
    for field in ("tile_m", "tile_n", "tile_k"):
        values = space.axis(field).column(field) if field not in space.fixed else (space.fixed[field],)
        assert all(value & (value - 1) == 0 and value >= 16 for value in values)
    if "warps_m" not in space.fixed:
        warps = [m * n for m, n in space.axis("warps").values]
        assert len(set(warps)) == len(warps)


def test_a_field_inside_a_compound_axis_restricts_it():
    space = load_space("gemm", "tcgen05", axes={"split_k": [1, 2], "swizzle": 8, "cta_pair": 1, "epilogue": "staged"})
    assert set(space.axis("split_k").column("split_k")) == {1, 2}
    assert space.axis("raster").labels == ("along_m:8", "along_n:8")
    assert all(label.startswith("pair:") for label in space.axis("cluster").labels)
    assert set(space.axis("launch").column("epilogue")) == {1}
    assert (
        space.axis("cluster").labels
        == load_space("gemm", "tcgen05", axes={"cluster": space.axis("cluster").labels}).axis("cluster").labels
    )


def test_depths_in_bytes_and_in_elements():
    assert load_space(dtype="fp8", axes={"tile_k": ["128B"]}).axis("tile_k").values == ((128,),)
    assert load_space(dtype="bf16", axes={"tile_k": "128B"}) == load_space(dtype="bf16", axes={"tile_k": 64})


def test_restrictions_as_text():
    assert parse_axis("tile_m=64,128") == ("tile_m", (64, 128))
    assert parse_axis("tile_n=64:256:64") == ("tile_n", (64, 128, 192, 256))
    assert parse_axis(" stages = 2, 4:6 ") == ("stages", (2, Between(4, 6)))
    assert parse_axis("raster=along_m:4") == ("raster", ("along_m:4",))
    space = load_space(
        axes=parse_axes(["stages=2:5,8", "tile_n=8:256:64,256", "epilogue=overlapped", "cta_pair=0"]) | {}
    )
    assert space.axis("stages").column("stages") == (2, 3, 4, 5, 8)
    assert space.axis("tile_n").column("tile_n") == (8, 72, 136, 200, 256)
    assert set(space.axis("launch").column("epilogue")) == {2}


def test_the_hash_follows_what_an_index_means():
    space = load_space()
    assert space.hash == load_space().hash == load_space(dtype="fp16").hash
    renamed = [dataclasses.replace(axis, labels=tuple(f"x{label}" for label in axis.labels)) for axis in space.axes]
    assert dataclasses.replace(space, axes=tuple(renamed), name="other").hash == space.hash
    turned = [*space.axes[1:], space.axes[0]]
    others = [
        load_space(dtype="fp8"), load_space("gemm", "tcgen05"), load_space(axes={"tile_m": [64, 128]}),
        dataclasses.replace(space, axes=tuple(turned)),
        dataclasses.replace(space, axes=(space.axes[0].keep([1, 0]), *space.axes[1:])),
        dataclasses.replace(space, fixed={**space.fixed, "cta_pair": 1}),
    ]  # fmt: skip
    assert len({space.hash, *(other.hash for other in others)}) == len(others) + 1


def test_spaces_travel_to_other_processes():
    space = load_space("gemm", "mma_sync", preset="quick")
    copy = pickle.loads(pickle.dumps(space))
    assert copy == space
    assert copy.hash == space.hash
    assert hash(copy) == hash(space)


def test_listing_and_loading_import_no_jax():
    code = (
        "import sys; from dse.content.space import list_spaces, load_space; list_spaces(); load_space(); "
        "print('jax' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


def test_the_list_of_spaces():
    entries = {entry.name: entry for entry in list_spaces()}
    assert set(entries) >= {"gemm/mma_sync", "gemm/wgmma", "gemm/tcgen05"}
    assert all(entry.text and all(entry.presets.values()) for entry in entries.values())
    assert load_space("gemm/wgmma") == load_space("gemm", "wgmma")


BAD_RESTRICTIONS = {
    "tilem=64": "unknown axis 'tilem'; known: cluster, cluster_m, cluster_n, cta_pair, epilogue, launch,",
    "tile_n=64,100,7": "tile_n = 100, 7 is not in the space gemm/wgmma; allowed: 8, 16, 24, 32,",
    "epilogue=overlaped": "epilogue = overlaped is not in the space gemm/wgmma; allowed: direct, staged, overlapped",
    "raster=along_m:3": "raster = along_m:3 is not in the space gemm/wgmma; allowed: along_m:1, along_m:2,",
    "launch=4:8": "launch = 4:8 is not in the space gemm/wgmma; allowed: data_parallel:direct,",
    "stages=13:20": "stages = 13:20 is not in the space gemm/wgmma; allowed: 2, 3, 4, 5, 6, 7, 8, 10, 12",
    "cta_pair=1": "cta_pair = 1 is not in the space gemm/wgmma; allowed: 0 (fixed in this space)",
    "tile_m": "cannot read the axis 'tile_m': write NAME=VALUE,VALUE,... or NAME=FROM:TO:STEP",
    "tile_m=64,,128": "cannot read the axis 'tile_m=64,,128': write NAME=VALUE",
    "tile_m=256:64": "axis 'tile_m': the range '256:64' is empty: write FROM:TO or FROM:TO:STEP with FROM <= TO",
    "tile_m=64:256:0": "axis 'tile_m': the range '64:256:0' is empty",
}


@pytest.mark.parametrize("text", BAD_RESTRICTIONS)
def test_wrong_restrictions_say_what_is_wrong(text):
    message = error_of(lambda: load_space(axes=parse_axes([text])))
    assert message.startswith(BAD_RESTRICTIONS[text])


def test_other_errors():
    space = load_space()
    assert "did you mean 'tile_m'?; of the space gemm/wgmma" in error_of(space.restrict, {"tilem": 64})
    assert error_of(space.restrict, {"split_k": 2, "stream_k": 1}).startswith(
        "axis 'launch' of the space gemm/wgmma has no value left: split_k=2 and stream_k=1 contradict each other; "
        "its values: data_parallel:direct, "
    )
    assert error_of(space.restrict, {"tile_m": []}) == (
        "axis 'tile_m' of the space gemm/wgmma is restricted to nothing: give at least one value"
    )
    assert error_of(parse_axes, ["a=1", "a=2"]) == "axis 'a' is given twice: write a=VALUE,VALUE,... once"
    assert error_of(load_space, dtype="bf61").startswith("unknown dtype 'bf61'; known: bf16,")
    assert re.match(r"unknown kernel 'gem'; known: .*, gemm, .*; did you mean 'gemm'\?", error_of(load_space, "gem"))
    assert error_of(load_space, "gemm", "wgma").startswith(
        "unknown gemm space 'wgma'; known: mma_sync, tcgen05, wgmma;"
    )
    assert error_of(load_space, "no/such.toml").startswith("no space file at no/such.toml")
    assert error_of(load_space, preset="quik").startswith(
        "unknown preset of the space gemm/wgmma 'quik'; known: cutlass,"
    )
    assert error_of(load_space, preset="triton", axes={"tile_n": 24}).endswith(
        "(of what the preset triton keeps of the space)"
    )
    size = space.size
    for index in (-1, size, 2**70):
        assert error_of(space.digits, index) == f"index {index} is not in the space gemm/wgmma: 0 to {size - 1}"
        assert error_of(space.rows, [0, index]) == f"index {index} is not in the space gemm/wgmma: 0 to {size - 1}"
    assert error_of(space.index_of, [0] * 7) == "the space gemm/wgmma has 9 axes, but 7 digits were given"
    assert error_of(space.index_of, [0, 0, 0, 0, 0, 9, 0, 0, 0]) == "digit 9 of axis 'stages' is not allowed: 0 to 8"
    assert error_of(space.axis, "stage").startswith("unknown axis 'stage'; known:")
    twice = (space.axes[0], space.axes[0])
    assert "sets the axis 'launch' twice" in error_of(dataclasses.replace, space, axes=twice)
    assert "axis 'x': '1' must set a, b, but sets (1,)" in error_of(Axis, "x", ("a", "b"), ((1,),), ("1",))
    assert "1 values but 2 labels" in error_of(Axis, "x", ("a",), ((1,),), ("1", "2"))
    assert "must be one or more different names" in error_of(Axis, "x", ("a", "a"), ((1, 1),), ("1",))


def test_schedules_that_are_not_in_the_space():
    space = load_space()
    schedule = space.schedule(4711)
    assert space.index_of_schedule({**schedule, "epilogue": "direct"} | {"persistent": 0, "sms_free": 0, "split_k": 1})
    assert error_of(space.index_of_schedule, {**schedule, "tile": 3}).startswith(
        "unknown schedule field 'tile'; known:"
    )
    assert error_of(space.index_of_schedule, {**schedule, "tile_m": 65}) == (
        "tile_m = 65 is not in the space gemm/wgmma; axis 'tile_m' has: 64, 128, 192, 256"
    )
    assert error_of(space.index_of_schedule, {**schedule, "cta_pair": 1}) == (
        "cta_pair = 1 is not in the space gemm/wgmma; allowed: 0"
    )
    del schedule["swizzle"]
    assert error_of(space.index_of_schedule, schedule) == (
        "the schedule leaves out swizzle, which the space gemm/wgmma varies: add it"
    )
