"""Exact pruning: the best, ties included, and the front of a sweep that skips blocks are those of one that does not."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cli_run import answer

from dse import sweep
from dse.api import make_job
from dse.bounding import needed_ranges
from dse.bounding.lower_bound import MONOTONE_OVERDRAW, blocks_of, bounding_job, overdraw
from dse.content.space import load_space
from dse.errors import UserError
from dse.question import ask
from dse.sweep import run_sweep

NARROW = {"tile_m": [64, 128], "tile_n": [32, 128, 256], "stages": [2, 4], "sms_free": 0, "split_k": [1, 2, 8]}
PAIRS = ("latency_s", "smem_bytes")
CASES = [
    ("gemm", "4096x4096x4096", "h200_sxm", NARROW, PAIRS),
    ("gemm", "48x8192x8192", "h100_sxm", NARROW, ("latency_s", "ddr_bytes", "smem_bytes")),
    ("gemm", "8192x512x256", "b200_sxm", {"tile_n": [64, 256], "stages": [2, 4], "split_k": 1, "sms_free": 0}, PAIRS),
    ("gemm", "1000x1000x1000", "a100_sxm", {"tile_m": 128, "tile_n": [64, 128], "stages": [2, 3]}, PAIRS),
    ("gemm_epilogue", "512x4096x2048", "h200_sxm", NARROW, ("latency_s",)),
    ("grouped_gemm", "512x4096x2048x8x2", "h100_sxm", {"tile_m": 64, "tile_n": [32, 128], "stages": [3, 4]}, PAIRS),
    ("dequant_gemm", "16x8192x8192", "h100_sxm", {"tile_n": [64, 128], "stages": [3, 4], "split_k": [1, 4]}, PAIRS),
]  # fmt: skip


def both(kernel: str, shape: str, gpu: str, axes: dict, objectives: tuple[str, ...], **options) -> tuple:
    job = make_job(ask(shape, gpu=gpu, kernel=kernel), axes=axes, objectives=objectives, chunk_lanes=256, **options)
    return run_sweep(job), run_sweep(replace(job, prune=True))


@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(case[:3]))
def test_the_answer_is_that_of_the_whole_space(case: tuple) -> None:
    whole, pruned = both(*case, tie_limit=7)
    pd.testing.assert_frame_equal(pruned.top, whole.top)
    pd.testing.assert_frame_equal(pruned.front, whole.front)
    for name in ("top_ties", "top_ties_dropped", "front_points", "front_ties_dropped", "declared"):
        assert getattr(pruned, name) == getattr(whole, name), name
    assert pruned.skipped + pruned.evaluated == whole.evaluated
    assert not pruned.incomplete


def test_most_of_a_space_is_skipped() -> None:
    _, pruned = both("gemm", "4096x4096x4096", "h200_sxm", NARROW, PAIRS)
    assert pruned.skipped > 0.7 * pruned.declared


def test_another_measure_may_rank() -> None:
    whole, pruned = both("gemm", "48x8192x8192", "h200_sxm", NARROW, ("latency_s",), rank_by="ddr_bytes", top=3)
    pd.testing.assert_frame_equal(pruned.top, whole.top)
    pd.testing.assert_frame_equal(pruned.front, whole.front)


def test_a_part_of_the_space() -> None:
    job = make_job(ask("4096x4096x4096"), axes=NARROW, objectives=PAIRS, chunk_lanes=256)
    _, length = bounding_job(job)
    part = replace(job, start=40 * length, stop=240 * length)
    whole, pruned = run_sweep(part), run_sweep(replace(part, prune=True))
    pd.testing.assert_frame_equal(pruned.top, whole.top)
    assert pruned.skipped + pruned.evaluated == 200 * length


def test_progress_tells_bounding_from_compiling_and_evaluating() -> None:
    seen = []
    job = make_job(ask("4096x4096x4096"), axes=NARROW, objectives=PAIRS, chunk_lanes=256, prune=True)
    result = run_sweep(job, progress=seen.append)
    assert [at.phase for at in seen if at.finished] == ["bounding", "evaluating"]
    assert [at.phase for at in seen] == sorted(at.phase for at in seen)
    left = result.evaluated
    assert left < job.candidates
    assert [(at.done, at.total) for at in seen if at.finished] == [(job.candidates, job.candidates), (left, left)]
    waiting = [at for at in seen if at.phase == "compiling"]
    assert {(at.done, at.total, at.rate, at.eta_s, at.front) for at in waiting} <= {(0, left, 0.0, None, None)}


def test_ranges_and_what_is_skipped_make_up_the_job() -> None:
    job = make_job(ask("4096x4096x4096"), axes=NARROW, objectives=PAIRS, chunk_lanes=256)
    found = needed_ranges(job)
    edges = sorted((*found.ranges, *found.skipped))
    assert [stop for _, stop in edges[:-1]] == [start for start, _ in edges[1:]]
    assert (edges[0][0], edges[-1][1]) == (0, job.space.size)


def test_bounds_are_below_every_schedule_of_a_block() -> None:
    """Of latency, DDR and L2 bytes, for every schedule of a space with every kind of launch."""
    from dse.rows import evaluate_rows

    for shape, gpu in (("4096x4096x512", "h200_sxm"), ("64x8192x8192", "b200_sxm")):
        objectives = ("latency_s", "ddr_bytes", "l2_bytes", "smem_bytes")
        job = make_job(ask(shape, gpu=gpu), preset="quick", objectives=objectives)
        bounds, length = bounding_job(job)
        blocks = np.random.default_rng(0).choice(bounds.space.size, 300, replace=False)
        known = evaluate_rows(job, (blocks[:, None] * length + np.arange(length)).ravel())
        lowest = evaluate_rows(bounds, blocks)
        runs = known["reason"].to_numpy().reshape(-1, length) == 0
        assert not np.any(runs.any(axis=1) & (lowest["reason"].to_numpy() > 0))
        for name in objectives:
            least = np.where(runs, known[name].to_numpy().reshape(-1, length), np.inf).min(axis=1)
            assert np.all(lowest[name].to_numpy() <= least), name
        near = np.where(runs, known["latency_s"].to_numpy().reshape(-1, length), np.nan)
        tight = lowest["latency_s"].to_numpy()[runs.any(axis=1)] / np.nanmin(near[runs.any(axis=1)], axis=1)
        assert np.median(tight) > 0.9


def test_no_gpu_draws_so_much_that_the_power_limit_turns_times_round() -> None:
    from dse.content.gpu import list_gpus, load_gpu

    for name in list_gpus():
        file = load_gpu(name)
        assert overdraw(file.bind(file.dtypes(file.families("bf16")[0])[0])) < MONOTONE_OVERDRAW, name


def test_a_gpu_that_does_is_bounded_without_the_limit() -> None:
    job = make_job(ask("4096x4096x4096"), axes=NARROW)
    hot = replace(job.gpu, joule_per_tensor_flop=job.gpu.joule_per_tensor_flop * np.float32(20))
    assert overdraw(hot) > MONOTONE_OVERDRAW
    assert bounding_job(replace(job, gpu=hot))[0].gpu.power_time_s == 0


def test_what_has_no_bound_is_said() -> None:
    with pytest.raises(UserError, match=r"--prune: energy_j has no lower bound; .*choose --objectives among them"):
        sweep("gemm", shape="512x512x512", objectives=("latency_s", "energy_j"), axes=NARROW, prune=True)
    with pytest.raises(UserError, match=r"--prune: attention has no lower bounds: sweep without it"):
        sweep("attention", shape="1x8x512x128", preset="quick", objectives=("latency_s",), prune=True)
    job = make_job(ask("4096x4096x4096"), axes=NARROW)
    with pytest.raises(UserError, match="cuts blocks of 10 schedules"):
        bounding_job(replace(job, start=3))
    turned = replace(job.space, axes=job.space.axes[::-1])
    with pytest.raises(UserError, match="put that axis last"):
        blocks_of(turned, ("raster_along_n", "swizzle"))


def test_a_sweep_that_skipped_nothing_says_so(capsys, tmp_path) -> None:
    words = ["gemm", "--shape", "512x512x512", "--preset", "quick", "--axis", "stages=4", "--out", tmp_path / "run"]
    _, text, _ = answer(capsys, "sweep", *words, "--prune", "--top", "30", "--quiet")
    assert "--prune skipped nothing: " in text
    assert "try --objectives latency_s,smem_bytes" in text
    assert "the best 20 of 30 kept by latency_s" in text


def test_the_pages_fine_space(tmp_path) -> None:
    page = (Path(__file__).parent.parent / "docs" / "skipping-what-cannot-win.md").read_text()
    (tmp_path / "fine.toml").write_text(page.split("```toml\n")[1].split("```")[0])
    space = load_space(tmp_path / "fine.toml")
    assert f"{space.size / 1e6:.0f} million schedules" in page
    assert space.axis("raster").labels[-1] == "along_n:64"


def test_rows_of_a_pruned_sweep_are_refused(tmp_path) -> None:
    with pytest.raises(UserError, match="--prune skips rows"):
        sweep("gemm", shape="512x512x512", axes=NARROW, prune=True, keep="all", out=tmp_path / "run")
