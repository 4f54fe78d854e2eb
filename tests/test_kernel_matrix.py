"""Schedules sorted into compiled kernels: schedule by schedule, across chunks, from a space and from a user's list."""

import numpy as np
import pytest
from portfolio_twins import kernels_by_hand

from dse import load_gpu, load_space
from dse.errors import UserError
from dse.fitting import fitting
from dse.job import as_float32
from dse.kernels.gemm import gemm_problem
from dse.paired import paired_costs
from dse.schedule_text import distinct_raster
from dse.studies.portfolio import kernel_matrix
from dse.studies.portfolio.kernel_matrix import RUN_TIME_FIELDS, SpaceKernels, space_kernels
from dse.studies.portfolio.listed_kernels import listed_kernels
from jaxmodel.reasons import Reason

AXES = {
    "launch": ["data_parallel:staged", "persistent:free0:staged", "persistent:free8:staged", "split_k:2:staged",
               "split_k:16:staged"],
    "tile_m": [64, 128], "tile_n": [64, 128], "tile_k": [64], "stages": [3, 4], "cluster": ["1x1", "2x1"],
    "raster": ["along_m:1", "along_m:8", "along_n:2"],
}  # fmt: skip
PROBLEMS = [gemm_problem(shape) for shape in ("4096x4096x4096", "16x8192x512", "33x3008x704")]


@pytest.fixture(scope="module")
def gpu():
    return load_gpu("h200_sxm")


def sorted_into(gpu, count: str) -> SpaceKernels:
    bound = gpu.bind("bf16")
    schedules = fitting(load_space("gemm", "wgmma", "bf16", None, AXES), PROBLEMS, [bound])
    return space_kernels("wgmma", bound, schedules, count)


def all_latencies(pool: SpaceKernels) -> np.ndarray:
    return np.stack(
        [pool.schedules.values(as_float32(problem.arrays()), as_float32(pool.gpu))[0] for problem in PROBLEMS]
    )


def test_a_kernel_costs_what_its_fastest_schedule_costs(gpu) -> None:
    pool = sorted_into(gpu, "kernels")
    by_hand = kernels_by_hand(pool.schedules.fields(range(len(pool.schedules))), all_latencies(pool), RUN_TIME_FIELDS)
    found = pool.latencies(PROBLEMS)
    assert pool.count == len(by_hand) < len(pool.schedules) / 4
    columns = [tuple(column) for column in found.T]
    assert sorted(columns) == sorted(tuple(column) for column in by_hand.values())


def test_an_order_that_a_narrow_grid_renames_runs_as_what_it_is(gpu) -> None:
    """Under every name, and only where the one name runs: what stops it must not hide behind the renaming."""
    pool = sorted_into(gpu, "schedules")
    found = pool.latencies(PROBLEMS)
    fields = pool.schedules.fields(range(len(pool.schedules)))
    for row, problem in zip(found, PROBLEMS, strict=True):
        named = [
            distinct_raster({name: int(values[at]) for name, values in fields.items()}, problem.m, problem.n)
            for at in range(len(pool.schedules))
        ]
        columns = {name: np.array([schedule[name] for schedule in named]) for name in fields}
        costs = paired_costs([problem] * len(named), columns, [pool.gpu] * len(named))
        wanted = np.where(costs["reason"] == 0, costs["latency_s"], np.inf)
        assert not (costs["reason"] == int(Reason.SAME_ORDER)).any()
        np.testing.assert_allclose(row, wanted, rtol=1e-5)
    assert np.isinf(found).any()


def test_chunks_that_cut_a_kernel_change_nothing(gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = sorted_into(gpu, "kernels").latencies(PROBLEMS)
    monkeypatch.setattr("dse.schedule_set.CPU_LANES", 64)
    monkeypatch.setattr("dse.schedule_set.CPU_BLOCK_LANES", 32)
    cut = sorted_into(gpu, "kernels")
    assert sum(group.calls for group in cut.schedules.groups) > 10
    np.testing.assert_allclose(cut.latencies(PROBLEMS), whole, rtol=1e-6)


def test_every_schedule_may_count(gpu) -> None:
    pool = sorted_into(gpu, "schedules")
    assert pool.count == len(pool.schedules)
    np.testing.assert_array_equal(pool.latencies(PROBLEMS), all_latencies(pool))


def test_variants_are_all_schedules_of_a_kernel_as_they_cost(gpu) -> None:
    pool = sorted_into(gpu, "kernels")
    chosen = [5, 0, pool.count - 1]
    found = pool.variants(chosen, PROBLEMS)
    least = pool.latencies(PROBLEMS)
    for place, number in enumerate(chosen):
        own = found.latency_s[:, found.kernel == place]
        assert own.shape[1] == (pool.kernel == number).sum()
        np.testing.assert_allclose(own.min(axis=1), least[:, number], rtol=1e-6)


def test_a_users_list_costs_what_the_space_says(gpu) -> None:
    pool = sorted_into(gpu, "kernels")
    found = pool.variants([0, 7], PROBLEMS)
    listed = [found.schedule(0, variant) for variant in range(len(found.kernel))]
    own = listed_kernels(listed, PROBLEMS[0], gpu, "fp32", counted="kernels")
    assert own.count == 2
    np.testing.assert_allclose(own.latencies(PROBLEMS), pool.latencies(PROBLEMS)[:, [0, 7]], rtol=1e-6)
    single = listed_kernels(listed, PROBLEMS[0], gpu, "fp32")
    assert single.count == len(listed)
    np.testing.assert_allclose(single.latencies(PROBLEMS), found.latency_s, rtol=1e-6)


def test_triton_configs_of_two_families_stand_beside_each_other(gpu) -> None:
    configs = [
        {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64, "GROUP_M": 8, "num_warps": 8, "num_stages": 4},
        {"BLOCK_M": 16, "BLOCK_N": 64, "BLOCK_K": 64, "GROUP_M": 8, "num_warps": 4, "num_stages": 4},
    ]
    pool = listed_kernels(configs, PROBLEMS[0], gpu, "fp32")
    found = pool.variants([0, 1], PROBLEMS)
    assert set(found.family) == {"wgmma", "mma_sync"}
    assert found.schedule(0, 0)["swizzle"] == 8  # on one row of tiles every order is the same
    assert found.schedule(1, 0)["swizzle"] == 1
    latency_s = pool.latencies(PROBLEMS)
    assert np.isfinite(latency_s).all()
    assert latency_s[0, 0] < latency_s[0, 1]


def test_more_latencies_than_memory_holds_are_refused(gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_matrix, "MATRIX_BYTES_MAX", 100)
    with pytest.raises(UserError, match=r"schedules x 3 shapes are 0\.0 GB of latencies.*: count kernels, or restrict"):
        sorted_into(gpu, "schedules").latencies(PROBLEMS)


def test_keys_of_many_fields_stay_apart() -> None:
    random = np.random.default_rng(0)
    columns = [random.integers(0, 3 * 10**6, 200) for _ in range(4)]
    columns = [np.concatenate([values, values]) for values in columns]  # every key is there twice
    keys = kernel_matrix._keys(columns)
    assert len(np.unique(keys)) == len(np.unique(np.stack(columns), axis=1).T) == 200
