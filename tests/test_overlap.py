"""Overlap of tiles and transfers against the same played event by event, and the laws of both."""

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import overlap as twin

from jaxmodel.overlap import (
    WaveEnds,
    arrival_seconds,
    departure_seconds,
    posted_seconds,
    staircase_maximum,
)

# in units of 1/64 s, exact in float64, so that ties are ties on both sides
TIMES = st.integers(0, 640).map(lambda ticks: ticks / 64)
TILES, SLOTS = st.integers(1, 400), st.integers(1, 70)
MANY = settings(max_examples=300, deadline=None)


@pytest.fixture(autouse=True)
def _double():
    with jax.enable_x64(True):
        yield


@MANY
@given(st.integers(1, 300), TIMES, TIMES, st.integers(0, 5000), st.integers(0, 5000), st.integers(1, 500))
def test_descent_finds_the_best_step_of_a_staircase(count, slope, tread, step, offset, width) -> None:
    found = staircase_maximum(*map(float, (count, slope, tread, step, offset, width)), levels=18)
    assert float(found) == pytest.approx(twin.staircase(count, slope, tread, step, offset, width), abs=1e-9)


def test_six_levels_are_enough_for_chunks_and_slots_as_kernels_have_them() -> None:
    random = np.random.default_rng(0)
    count = random.choice([1, 2, 7, 14, 28, 56, 112, 224], 4000)
    width = random.choice([66, 78, 108, 112, 116, 124, 130, 132, 144, 148, 264], 4000)
    step = random.choice([1, 2, 4, 8, 16, 32, 64], 4000) * random.integers(1, 129, 4000)
    tread = random.uniform(1.0, 50.0, 4000)
    slope = tread * step / width * np.exp(random.normal(0.0, 0.3, 4000))
    offset = random.integers(0, 1000, 4000)
    step, offset, width = (a.astype(float) for a in (step, offset, width))
    found = staircase_maximum(count.astype(float), slope, tread, step, offset, width)
    exact = [twin.staircase(*row) for row in zip(count, slope, tread, step, offset, width, strict=True)]
    np.testing.assert_allclose(found, exact, rtol=1e-9, atol=1e-9)


@st.composite
def arriving(draw):
    """tiles, slots, tile_s, own tiles, chunks, tiles a chunk, first, pace and last of a chunk."""
    tiles, slots, tile_s = draw(TILES), draw(SLOTS), draw(TIMES)
    own, chunk_tiles = draw(st.integers(0, tiles)), draw(st.integers(1, 120))
    chunks = -(-(tiles - own) // chunk_tiles)
    pace_s = draw(TIMES)
    return (
        tiles,
        slots,
        tile_s,
        own,
        chunks,
        chunk_tiles,
        draw(TIMES),
        pace_s,
        draw(st.sampled_from([0.25, 1.0])) * pace_s,
    )


def _arrive(case) -> float:
    names = ("own_tiles", "chunks", "chunk_tiles", "first_s", "chunk_s", "last_chunk_s")
    tiles, slots, tile_s, *rest = map(float, case)
    return float(arrival_seconds(tiles, slots, tile_s, **dict(zip(names, rest, strict=True)), levels=18))


@MANY
@given(arriving())
def test_even_arrivals_end_when_the_played_tiles_do(case) -> None:
    assert _arrive(case) == pytest.approx(twin.arriving(*case), abs=1e-9)


@MANY
@given(arriving())
def test_arrivals_end_between_the_longer_of_both_and_their_sum(case) -> None:
    tiles, slots, tile_s, _, chunks, _, first_s, pace_s, last_s = case
    work_s = -(-tiles // slots) * tile_s
    moved_s = (first_s + max(chunks - 2, 0) * pace_s + (last_s if chunks > 1 else 0.0)) if chunks else 0.0
    assert max(work_s, moved_s + (tile_s if chunks else 0.0)) - 1e-9 <= _arrive(case) <= work_s + moved_s + 1e-9


@st.composite
def waves(draw):
    """tiles, slots, and the times of a tile in the middle, in the first and in the last wave."""
    tile_s = draw(TIMES)
    first_s = tile_s + draw(st.sampled_from([0, 0, 1, 3])) * draw(TIMES)
    last_s = tile_s * draw(st.sampled_from([0.25, 0.5, 1.0, 1.25]))
    return draw(TILES), draw(SLOTS), tile_s, first_s, last_s


def _ends(case) -> WaveEnds:
    tiles, slots, tile_s, first_s, last_s = case
    number = -(-tiles // slots)
    all_s = first_s if number == 1 else first_s + (number - 2) * tile_s + last_s
    return WaveEnds(first_s=first_s, tile_s=tile_s, all_s=all_s)


@st.composite
def departing(draw):
    """waves; sent tiles, tiles a chunk, chunk, last chunk, after."""
    case = draw(waves())
    chunk_s = draw(TIMES)
    shorter = draw(st.sampled_from([0.25, 1.0]))
    return case, (draw(st.integers(0, case[0])), draw(st.integers(1, 120)), chunk_s, shorter * chunk_s, draw(TIMES))


def _depart(case) -> float:
    of_waves, (sent, chunk_tiles, chunk_s, last_s, after_s) = case
    return float(
        departure_seconds(
            float(of_waves[0]), float(of_waves[1]), _ends(of_waves), sent_tiles=float(sent),
            chunks=float(-(-sent // chunk_tiles)), chunk_tiles=float(chunk_tiles), chunk_s=chunk_s,
            last_chunk_s=last_s, after_s=after_s, levels=18,
        )
    )  # fmt: skip


@MANY
@given(departing())
def test_departures_end_when_the_played_chunks_do(case) -> None:
    of_waves, sent = case
    tiles, slots, *_ = of_waves
    played = twin.departing(tiles, slots, twin.wave_times(*of_waves), *sent)
    assert _depart(case) == pytest.approx(played, abs=1e-9)


@MANY
@given(departing())
def test_departures_end_between_the_longer_of_both_and_their_sum(case) -> None:
    of_waves, (sent, chunk_tiles, chunk_s, last_s, after_s) = case
    work_s, chunks = _ends(of_waves).all_s, -(-sent // chunk_tiles)
    moved_s = (chunks - 1) * chunk_s + last_s + after_s if chunks else 0.0
    assert max(work_s, moved_s) - 1e-9 <= _depart(case) <= work_s + moved_s + 1e-9


@st.composite
def posting(draw):
    """waves; remote tiles, write_s, queue, after_s."""
    case = draw(waves())
    return case, (draw(st.integers(0, case[0])), draw(TIMES) / 16, draw(st.integers(1, 90)), draw(TIMES))


def _post(case) -> float:
    of_waves, (remote, write_s, queue, after_s) = case
    return float(
        posted_seconds(
            float(of_waves[0]), float(of_waves[1]), _ends(of_waves), remote_tiles=float(remote), write_s=write_s,
            queue=float(queue), after_s=after_s,
        )
    )  # fmt: skip


@settings(max_examples=1500, deadline=None)
@given(posting())
def test_posted_writes_end_when_the_played_ones_do(case) -> None:
    of_waves, writes = case
    tiles, slots, *_ = of_waves
    assert _post(case) == pytest.approx(twin.posted(tiles, slots, twin.wave_times(*of_waves), *writes), abs=1e-9)


@MANY
@given(posting(), st.integers(1, 50))
def test_a_deeper_queue_is_never_slower_and_the_end_lies_between_the_longer_and_the_sum(case, more) -> None:
    of_waves, (remote, write_s, queue, after_s) = case
    found = _post(case)
    assert _post((of_waves, (remote, write_s, queue + more, after_s))) <= found + 1e-9
    work_s, moved_s = _ends(of_waves).all_s, (remote * write_s + after_s if remote else 0.0)
    assert max(work_s, moved_s) - 1e-9 <= found <= work_s + moved_s + 1e-9


def test_a_short_queue_holds_slots_back() -> None:
    """Two waves of which the first writes: a queue of one makes the second wave start late, one of four does not."""
    alike = (8, 4, 10.0, 10.0, 10.0)
    assert _post((alike, (4, 5.0, 1, 0.0))) == 35.0
    assert _post((alike, (4, 5.0, 4, 0.0))) == 30.0


def test_links_much_faster_or_slower_leave_compute_or_the_link_alone() -> None:
    work_s, after_s = 4 * 10.0, 1.0
    alike = (16, 4, 10.0, 10.0, 10.0)
    assert _post((alike, (12, 1e-9, 4, 0.0))) == pytest.approx(work_s)
    assert _post((alike, (12, 1e6, 4, after_s))) == pytest.approx(10.0 + 12e6 + after_s)
    assert _arrive((16, 4, 10.0, 4, 3, 4, 1e-9, 1e-9, 1e-9)) == pytest.approx(work_s)
    assert _arrive((16, 4, 10.0, 4, 3, 4, 1e6, 1e6, 1e6)) == pytest.approx(3e6 + 10.0)
    assert _depart((alike, (12, 4, 1e-9, 1e-9, 0.0))) == pytest.approx(work_s)
    assert _depart((alike, (12, 4, 1e6, 1e6, 0.0))) == pytest.approx(10.0 + 3e6)
