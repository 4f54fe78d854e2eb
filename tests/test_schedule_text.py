"""Schedules as words: what is read, what is written back, what is refused."""

from dataclasses import fields

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dse.content.space import load_space
from dse.errors import UserError
from dse.schedule_text import EXAMPLE, FIELDS, default_warps, distinct_raster, format_schedule, parse_schedule
from jaxmodel.types import GemmSchedule


def test_fields_are_the_records():
    assert tuple(f.name for f in fields(GemmSchedule)) == FIELDS


def test_the_example_is_read():
    at = parse_schedule(EXAMPLE, "wgmma")
    assert (at["tile_m"], at["tile_n"], at["tile_k"], at["stages"]) == (128, 256, 64, 4)
    assert (at["warps_m"], at["warps_n"], at["cluster_m"], at["cluster_n"]) == (8, 1, 2, 1)
    assert (at["raster_along_n"], at["swizzle"], at["persistent"], at["epilogue"]) == (0, 8, 1, 1)


@pytest.mark.parametrize("family", ["mma_sync", "wgmma", "tcgen05"])
@settings(deadline=None)
@given(data=st.data())
def test_every_schedule_of_a_space_reads_back(family, data):
    space = load_space("gemm", family, "bf16")
    schedule = space.schedule(data.draw(st.integers(0, space.size - 1)))
    assert parse_schedule(format_schedule(schedule), family) == {name: schedule[name] for name in FIELDS}
    assert parse_schedule(schedule, family) == {name: schedule[name] for name in FIELDS}


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("tile=128x128 stages=4", "tile=128x128 is not MxNxK, e.g. 128x256x64"),
        ("tile=128x128x64", "the schedule lacks stages"),
        ("stages=4", "the schedule lacks tile_m, tile_n, tile_k"),
        ("tile=128x128x64 stages=0", "stages=0 is not allowed: a whole number from 1 to 2^24"),
        ("tile=128x128x64 stages=4 stages=5", "gives stages twice"),
        ("tile=128x128x64 stages=4 tile_m=64", "sets tile_m to 128 and to 64"),
        ("tile=128x128x64 stages=4 luanch=persistent", "did you mean 'launch'?"),
        ("tile=128x128x64 stages=4 launch=persist", "did you mean 'persistent'?"),
        ("tile=128x128x64 stages=4 launch=split_k", "lacks the number of splits"),
        ("tile=128x128x64 stages=4 raster=m", "raster=m is not along_m:W or along_n:W"),
        ("tile=128x128x64 stages=4 epilogue=stage", "did you mean 'staged'?"),
        ("tile=128x128x64 4", "cannot read '4' in the schedule"),
        ('{"tile": "128x128x64", ', "not readable JSON"),
    ],
)
def test_what_cannot_be_read(words, text):
    with pytest.raises(UserError) as error:
        parse_schedule(words, "wgmma")
    assert text in str(error.value)


def test_json_and_words_say_the_same():
    words = parse_schedule("tile=64x96x32 stages=5 launch=stream_k:free8:overlapped raster=along_n:4", "wgmma")
    as_json = '{"tile": "64x96x32", "stages": 5, "launch": "stream_k:free8:overlapped", "raster": "along_n:4"}'
    assert parse_schedule(as_json, "wgmma") == words
    assert words["sms_free"] == 8
    assert words["epilogue"] == 2


def test_an_epilogue_of_its_own_has_the_last_say():
    for words in ("launch=persistent:staged epilogue=overlapped", "epilogue=overlapped launch=persistent:staged"):
        assert parse_schedule(f"tile=128x128x64 stages=4 {words}", "wgmma")["epilogue"] == 2


def test_measured_numbers_are_kept():
    words = "tile=128x128x64 stages=4 registers=168 smem_bytes=98304"
    at = parse_schedule(words, "wgmma")
    assert (at["registers_measured"], at["smem_measured_bytes"]) == (168, 98304)
    assert parse_schedule(format_schedule(at), "wgmma") == at


@pytest.mark.parametrize(
    ("family", "tile", "warps", "expected"),
    [
        ("mma_sync", (128, 128), 4, (2, 2)),  # as Triton documents for a 128 x 128 dot
        ("mma_sync", (128, 128), 8, (2, 4)),
        ("mma_sync", (256, 64), 8, (4, 2)),
        ("mma_sync", (16, 256), 4, (1, 4)),
        ("wgmma", (64, 256), 4, (4, 1)),
        ("wgmma", (128, 256), 8, (8, 1)),
        ("wgmma", (64, 256), 8, (4, 2)),
        ("tcgen05", (128, 256), 8, (4, 2)),
    ],
)
def test_warps_are_laid_out_by_the_stated_rule(family, tile, warps, expected):
    assert default_warps(family, *tile, warps) == expected


@settings(deadline=None)
@given(m=st.integers(1, 2400), n=st.integers(1, 2400), along_n=st.booleans(), swizzle=st.sampled_from([1, 2, 4, 8, 16]))
def test_a_renamed_raster_is_the_same_launch_order(m, n, along_n, swizzle):
    words = f"tile=128x128x64 stages=4 raster=along_{'n' if along_n else 'm'}:{swizzle}"
    renamed = distinct_raster(parse_schedule(words, "wgmma"), m, n)
    rows, cols = -(-m // 128), -(-n // 128)
    assert _walk(rows, cols, along_n, swizzle) == _walk(rows, cols, renamed["raster_along_n"], renamed["swizzle"])
    narrow = rows if renamed["raster_along_n"] else cols
    assert renamed["swizzle"] == 1 or renamed["swizzle"] < narrow


def _walk(rows, cols, along_n, swizzle):
    """Launch order by definition: panels in turn, the walk inside a panel, the panel's own axis fastest."""
    long, narrow = (cols, rows) if along_n else (rows, cols)
    order = []
    for start in range(0, narrow, swizzle):
        for walked in range(long):
            for across in range(start, min(start + swizzle, narrow)):
                order.append((across, walked) if along_n else (walked, across))
    return order
