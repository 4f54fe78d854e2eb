"""The streaming sweep against brute force on materialised spaces: any chunking, range, objectives, workers, device."""

import dataclasses

import jax
import numpy as np
import pytest
from fake_kernel import OBJECTIVES, BruteForce, FakeGpu, FakeKernel, fake_cost, fake_job, fake_space

from dse.content.gpu import load_gpu
from dse.content.space import load_space
from dse.errors import UserError
from dse.executors.serial import SerialExecutor
from dse.executors.worker import ChunkRunner, cut, tasks
from dse.job import SweepJob
from dse.kernels.gemm import gemm_problem
from dse.rows import evaluate_rows
from dse.state import BoundsKeeper, Collector, SweepState
from dse.sweep import run_sweep
from jaxmodel.reasons import Reason


def assert_equals_brute_force(job, result):
    expected = BruteForce.of(job)
    indices, ties = expected.top(job.top, job.tie_limit)
    assert result.top["index"].tolist() == indices
    assert result.top_ties == ties
    indices, points = expected.front(job.tie_limit)
    assert result.front["index"].tolist() == indices
    assert result.front_points == points
    assert result.front_ties_dropped == points - len(indices)
    assert result.evaluated == job.candidates
    assert result.feasible == len(expected.index)
    counts = np.bincount(expected.reason.astype(int), minlength=64)
    assert result.reasons == {Reason(code).name: int(counts[code]) for code in (6, 12) if counts[code]}
    assert result.histogram.counts.sum() == result.feasible
    assert not result.incomplete
    assert result.next_index is None


@pytest.mark.parametrize("lanes", [256, 1024, 2**12])
@pytest.mark.parametrize("objectives", [OBJECTIVES[:1], OBJECTIVES[1:2], OBJECTIVES[:3], OBJECTIVES])
@pytest.mark.parametrize("tie_limit", [0, 2, 1000])
def test_equals_brute_force(lanes, objectives, tie_limit):
    job = fake_job(chunk_lanes=lanes, objectives=objectives, tie_limit=tie_limit)
    assert_equals_brute_force(job, run_sweep(job))


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("span", [(0, 1), (17, 18), (250, 770), (1000, 3185), (3184, 3185)])
def test_any_range_and_any_number_of_workers(workers, span):
    job = fake_job(start=span[0], stop=span[1], rank_by="ddr_bytes", top=5)
    assert_equals_brute_force(job, run_sweep(job, workers=workers))


def test_top_larger_than_the_space():
    job = fake_job(stop=40, top=100)
    assert_equals_brute_force(job, run_sweep(job))


def test_nothing_feasible_gives_empty_tables():
    job = fake_job()
    job = dataclasses.replace(job, gpu=FakeGpu(speed=1.0, smem_max=0.0))
    result = run_sweep(job)
    assert result.feasible == len(result.top) == len(result.front) == 0
    assert result.reasons == {"SMEM": job.candidates}
    assert result.histogram.nonempty() == []
    assert "latency_s" in result.top


def test_values_in_the_tables_are_the_models():
    job = fake_job()
    result = run_sweep(job)
    for table in (result.top, result.front):
        fields = job.space.rows(table["index"].to_numpy())
        cost = fake_cost(job.problem, job.model.schedule(fields), job.gpu)
        for name in OBJECTIVES:
            assert table[name].tolist() == np.asarray(getattr(cost, name), float).tolist()
        assert table["pipeline"].tolist() == [f"s{stages}" for stages in fields["stages"]]
        assert (table["reason_name"] == "OK").all()


def test_candidates_that_are_not_finite_are_counted_and_nowhere_else():
    job = fake_job(kernel=FakeKernel(cost_function=_nan_where_order_is_3))
    result = run_sweep(job)
    fields = job.space.rows(np.arange(job.candidates))
    cost = fake_cost(job.problem, job.model.schedule(fields), job.gpu)
    assert result.reasons["NOT_FINITE"] == ((cost.reason == 0) & (fields["order"] == 3)).sum()
    assert (result.front["order"] != 3).all()
    assert np.isfinite(result.front["ddr_bytes"]).all()


def _nan_where_order_is_3(problem, schedule, gpu):
    import jax.numpy as jnp

    cost = fake_cost(problem, schedule, gpu)
    return dataclasses.replace(cost, ddr_bytes=jnp.where(schedule.order == 3, jnp.nan, cost.ddr_bytes))


def test_another_problem_gpu_or_bound_does_not_trace_again():
    traces = []

    def counted(problem, schedule, gpu):
        traces.append(1)
        return fake_cost(problem, schedule, gpu)

    kernel = FakeKernel(cost_function=counted)
    for speed, work in ((1.0, 5.0), (2.0, 7.0), (3.5, 11.0)):
        run_sweep(fake_job(kernel=kernel, speed=speed, work=work))
    assert len(traces) <= 2  # the chunk, and the rows of the report


@pytest.mark.parametrize("packed", [True, False])
def test_compact_reduction_as_for_an_accelerator_gives_the_same(packed, monkeypatch):
    monkeypatch.setattr("dse.reduce.COMPACT_ROWS", 4096 if packed else 3)
    job = fake_job(chunk_lanes=512)
    runner = ChunkRunner(job, jax.devices("cpu")[0], compact=True)
    state, keeper, collector = SweepState.empty(job), BoundsKeeper(job), Collector(job)
    for start, stop in cut(0, job.end, 512):
        runner.run(start, stop, keeper.bounds, collector)
        found, survivors = collector.take()
        state = state.merge(found)
        keeper.update(state, survivors)
    expected = BruteForce.of(job)
    assert state.top.positions.tolist() == expected.top(job.top, job.tie_limit)[0]
    assert state.front.positions.tolist() == expected.front(job.tie_limit)[0]
    assert state.counts.sum() == job.candidates


def test_sweep_on_a_named_device_equals_the_default():
    job = fake_job()
    named = run_sweep(job, SerialExecutor(2, device=jax.devices("cpu")[0]))
    assert named.front.equals(run_sweep(job).front)


def test_few_candidates_leave_the_device_once_bounds_are_tight():
    job = fake_job(fake_space(64, 32, 32, 16), chunk_lanes=2**12, objectives=("latency_s", "smem_bytes"), tie_limit=2)
    runner = ChunkRunner(job)
    keeper, collector, state = BoundsKeeper(job), Collector(job), SweepState.empty(job)
    survivors = []
    for start, stop in cut(0, job.end, 2**12):
        runner.run(start, stop, keeper.bounds, collector)
        found, objectives = collector.take()
        state = state.merge(found)
        keeper.update(state, objectives)
        survivors.append(len(objectives))
    assert sum(survivors[len(survivors) // 2 :]) < 0.05 * job.candidates / 2


def test_indices_far_beyond_64_bits():
    wide = fake_space()
    axes = tuple(dataclasses.replace(axis, name=f"x{i}", fields=(f"x{i}",)) for i, axis in enumerate(wide.axes * 6))
    space = dataclasses.replace(wide, axes=(*axes, *wide.axes))
    assert space.size > 2**64
    start = space.size - 3185 * 2 - 5
    result = run_sweep(fake_job(space, start=start, stop=space.size))
    near = run_sweep(fake_job(wide))
    assert result.evaluated == 2 * 3185 + 5
    assert result.top["latency_s"].iloc[0] == near.top["latency_s"].iloc[0]
    best = [int(index) for index in result.top["index"]]
    assert all(start <= index < space.size for index in best)
    assert [index % 3185 for index in best if index >= space.size - 3185] == [
        int(index) for index in near.top["index"]
    ][: sum(index >= space.size - 3185 for index in best)]
    with pytest.raises(
        UserError, match="too many to sweep: restrict the space, give start and stop, or use dse search"
    ):
        fake_job(space)


def test_tasks_cover_what_is_missing_once():
    job = fake_job()
    done = dataclasses.replace(SweepState.empty(job), ranges=((100, 300), (1000, 2500)))
    for state in (done, SweepState.empty(job)):
        seen = np.zeros(job.end, int)
        for start, stop in state.ranges:
            seen[start:stop] += 1
        for start, stop in tasks(job, state, 1024, 256):
            seen[start:stop] += 1
        assert (seen == 1).all()


def test_state_survives_its_bytes():
    job = fake_job()
    runner, collector = ChunkRunner(job), Collector(job)
    for start, stop in ((0, 256), (512, 768)):
        runner.run(start, stop, BoundsKeeper(job).bounds, collector)
    state, _ = collector.take()
    again = SweepState.from_bytes(state.to_bytes())
    assert again.ranges == ((0, 256), (512, 768))
    assert again.missing(0, 800) == [(256, 512), (768, 800)]
    assert (again.counts == state.counts).all()
    assert again.top.ties == state.top.ties
    assert (again.front.weights == state.front.weights).all()


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"objectives": ("latency",)}, r"unknown objective 'latency'; known: .*; did you mean 'latency_s'\?"),
        ({"objectives": ("latency_s", "latency_s")}, "name each once"),
        ({"objectives": ()}, "0 objectives are not allowed: 1 to 6"),
        ({"rank_by": "speed"}, "unknown rank_by quantity 'speed'; known: "),
        ({"top": 0}, "top = 0 is not allowed: 1 or more"),
        ({"tie_limit": -1}, "tie_limit = -1 is not allowed: 0 or more"),
        ({"chunk_lanes": 1000}, r"chunk_lanes = 1000 is not allowed: a power of two from 2\^8 to 2\^24"),
        ({"start": 50, "stop": 50}, "range 50 to 50 is not allowed: the space fake/all has the indices 0 to 3184"),
        ({"stop": 3186}, "range 0 to 3186 is not allowed"),
    ],
)
def test_bad_jobs(changes, text):
    with pytest.raises(UserError, match=text):
        fake_job(**changes)


def test_unknown_executor_and_keep():
    with pytest.raises(UserError, match="unknown executor 'dask'; known: auto, ray, serial"):
        run_sweep(fake_job(), "dask")
    with pytest.raises(UserError, match="unknown keep 'everything'; known: all, best"):
        run_sweep(fake_job(), keep="everything")
    with pytest.raises(UserError, match=r"keep = 'all' writes every row: say where with out"):
        run_sweep(fake_job(), keep="all")


def test_an_error_in_the_model_is_raised_where_the_sweep_was_called():
    def broken(problem, schedule, gpu):
        raise RuntimeError("no such engine")

    with pytest.raises(RuntimeError, match="no such engine"):
        run_sweep(fake_job(kernel=FakeKernel(cost_function=broken)))


def test_progress_gets_snapshots_and_a_last_one():
    seen = []
    job = fake_job()
    run_sweep(job, progress=seen.append)
    assert seen[-1].finished
    assert seen[-1].done == seen[-1].total == job.candidates
    assert not any(snapshot.finished for snapshot in seen[:-1])


def gemm_job(**changes):
    space = load_space("gemm", "wgmma", "bf16", preset="quick")
    gpu = load_gpu("h200_sxm").bind("bf16", family="wgmma")
    options = {"gpu_name": "h200_sxm", "chunk_lanes": 2**12} | changes
    return SweepJob(space=space, problem=gemm_problem("4096x2048x1024"), gpu=gpu, **options)


def materialised(job):
    """Every row of a job, evaluated at once in one large chunk."""
    lanes = 1 << (job.candidates - 1).bit_length()
    one = dataclasses.replace(job, chunk_lanes=lanes)
    runner = ChunkRunner(one, everything=True)
    evaluated = runner.run(job.start, job.end, BoundsKeeper(one).bounds, Collector(one))
    return {name: np.asarray(values)[: job.candidates] for name, values in evaluated.everything.items()}


def test_gemm_equals_brute_force_on_the_materialised_space():
    job = gemm_job(stop=30_000, tie_limit=3)
    rows = materialised(job)
    fits = np.flatnonzero(rows["reason"] == 0)
    values = np.stack([rows[name][fits] for name in job.objectives], axis=1).astype(np.float32)
    expected = BruteForce(fits, values.astype(float), rows["reason"], rows["latency_s"][fits].astype(float))
    result = run_sweep(job)
    indices, ties = expected.top(job.top, job.tie_limit)
    assert result.top["index"].tolist() == indices
    assert result.top_ties == ties
    indices, points = expected.front(job.tie_limit)
    assert result.front["index"].tolist() == indices
    assert result.front_points == points
    assert result.feasible == len(fits)
    for name in job.objectives:  # bit for bit
        assert (result.front[name].to_numpy(np.float32) == rows[name][indices].astype(np.float32)).all()
    assert len(result.front) > 10


def test_rows_agree_with_chunks():
    job = gemm_job()
    rows = materialised(dataclasses.replace(job, stop=30_000))
    chosen = list(range(0, 30_000, 37))
    table = evaluate_rows(job, chosen)
    assert (table["reason"].to_numpy() == rows["reason"][chosen]).all()
    for name in ("latency_s", "ddr_bytes", "smem_bytes", "energy_j", "steady_s", "l2_hit"):
        np.testing.assert_allclose(table[name], rows[name][chosen], rtol=1e-5, err_msg=name)
