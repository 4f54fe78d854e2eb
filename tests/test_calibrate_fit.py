"""A fit over rows of every kind at once: named schedules, a preset's fastest, two data types, two families."""

import numpy as np
import pytest

from dse import explain
from dse.best_schedule import best_schedules
from dse.calibrate.fit_measured import Predictor, fit_measured, predict
from dse.calibrate.free import FREE, NUMBERS_MAX, free_parameters
from dse.calibrate.measurements import Measurements, joined, measurements
from dse.calibrate.write_toml import fitted_gpu
from dse.content import list_gpus, load_gpu
from dse.content.gpu_fields import FIELDS
from dse.content.space import load_space
from dse.errors import UserError
from dse.schedule_text import parse_schedule

GPU = load_gpu("h100_sxm")
SHAPES = [(m, n, k) for m in (32, 512, 4096) for n, k in ((1024, 4096), (8192, 1024), (4096, 4096))]
FAMILY, WORDS = "mma_sync", "tile=64x64x32 stages=3 warps=2x2"
TRUTH = {"tensor_efficiency": 0.92, "launch_overhead_s": 2.9e-6}


@pytest.fixture(scope="module")
def mixed() -> Measurements:
    """18 rows in no order: each shape by a library in fp16 and by a named schedule in bf16; latencies of `TRUTH`."""
    m, n, k = np.array(SHAPES).T
    library = measurements(m, n, k, 1.0, dtype="fp16", out_dtype="fp16")
    named = measurements(m, n, k, 1.0, family=FAMILY, schedule=parse_schedule(WORDS, FAMILY))
    return joined([library, named]).take(np.random.default_rng(0).permutation(18))


@pytest.fixture(scope="module")
def predictor(mixed: Measurements) -> Predictor:
    predictor = Predictor(GPU, mixed)
    mixed.latency_s[:] = predictor(fitted_gpu(GPU, TRUTH))
    return predictor


def test_each_row_is_compared_with_what_it_names(mixed: Measurements, predictor: Predictor):
    latency_s = predictor(GPU)
    library = np.flatnonzero(~mixed.has_schedule)
    space = load_space("gemm", "wgmma", "fp16", preset="library")
    best = best_schedules(mixed.take(library).problems(), space, GPU)
    assert latency_s[library] == pytest.approx(best.latency_s, rel=1e-5)
    for row in np.flatnonzero(mixed.has_schedule)[:3]:
        alone = explain(WORDS, shape=mixed.problems()[row].shape, gpu="h100_sxm", family=FAMILY)
        assert latency_s[row] == pytest.approx(alone.latency_s, rel=1e-5)


def test_a_fit_of_mixed_rows_lowers_the_error_of_all(mixed: Measurements, predictor: Predictor):
    found = fit_measured(GPU, predictor, free_parameters(GPU, tuple(TRUTH)), evaluations=300)
    assert found.start_error == pytest.approx(predictor.error(GPU))
    assert found.error < found.start_error / 4
    assert found.error == pytest.approx(predictor.error(fitted_gpu(GPU, found.values)), abs=1e-6)
    assert set(found.sensitivity) == set(TRUTH)
    assert found.sensitivity["launch_overhead_s"].elasticity > 0.05


@pytest.mark.parametrize("method", ["gradient", "optuna"])
def test_other_searches_find_the_way_where_schedules_are_named(mixed: Measurements, predictor: Predictor, method: str):
    named = mixed.take(mixed.has_schedule)
    assert np.isfinite(predictor(GPU)).all()
    parameters = free_parameters(GPU, tuple(TRUTH))
    found = fit_measured(GPU, Predictor(GPU, named), parameters, method=method, evaluations=300)
    assert found.error < found.start_error / 3


@pytest.mark.parametrize("name", list_gpus())
def test_every_gpu_starts_within_its_bounds(name: str):
    gpu = load_gpu(name)
    parameters = free_parameters(gpu)
    for item in parameters:
        assert item.low < item.high
        off = gpu[item.name] == 0 and not FIELDS[item.name].positive  # a part that the file switches off starts small
        assert off or item.low <= gpu[item.name] * (1 + 1e-9), f"{name}: {item.name}"
        assert gpu[item.name] <= item.high * (1 + 1e-9), f"{name}: {item.name}"
        assert item.name in gpu.bind("bf16").__dataclass_fields__
        assert item.meaning


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (
            ("sm_count",),
            "unknown number that can be fitted 'sm_count'; known: cta_launch_s, .*; others stay as the GPU",
        ),
        (("tensor_eficiency",), "did you mean 'tensor_efficiency'"),
        (("ddr_latency_s", "ddr_latency_s"), "the free number ddr_latency_s is given twice: give it once"),
        ((), "no number is free: give some of tensor_efficiency, "),
    ],
)
def test_bad_free_numbers_are_named(names, message):
    with pytest.raises(UserError, match=message):
        free_parameters(GPU, names)


def test_at_most_twelve_numbers_are_free():
    assert {item.name for item in free_parameters(GPU)} < set(FREE)
    assert len(free_parameters(GPU)) <= NUMBERS_MAX == 12
    with pytest.raises(UserError, match="13 free numbers: at most 12; leave out l2_bytes_per_s"):
        free_parameters(GPU, tuple(FREE))


def test_a_type_that_the_gpu_does_not_have_is_named():
    rows = measurements([64, 64], [64, 128], 64, 1e-5, dtype="fp4")
    with pytest.raises(UserError, match="h100_sxm has no tensor rate for 'fp4'; it has bf16"):
        predict(GPU, rows)


def test_a_gpu_that_runs_nothing_of_the_preset_is_named(mixed: Measurements):
    tiny = load_gpu("h100_sxm", {"registers_per_sm": 1024})
    with pytest.raises(UserError, match="no schedule of preset library can run on h100_sxm in fp16: choose an"):
        Predictor(tiny, mixed.take(np.flatnonzero(~mixed.has_schedule)))
