"""Trials that choose a GPU whose schedules are swept: each equals a sweep of its own; limits and shortlists."""

import numpy as np
import pytest

from dse.api import make_job
from dse.content.gpu import load_gpu
from dse.errors import UserError
from dse.gpu_axes import gpu_maker
from dse.question import ask
from dse.search import search
from dse.search.inner import CONFIRMED
from dse.studies.area_power import area_power
from dse.studies.gpu_quantities import gpu_quantities
from dse.sweep import run_sweep

SHAPES = ["16384x8192", "2048x16384"]
AXES = {
    "ddr_bytes_per_s": ("0.5x", "2x", "log"),
    "sm_count": [64, 132, 200],
    "smem_per_sm_bytes": [65536, 131072, 233472],
}
WORDS = {"kernel": "softmax", "gpu": "h200_sxm", "gpu_axes": AXES, "quantities": gpu_quantities(), "trials": 10}


def found(shape, **options):
    return search(**{**WORDS, "shape": shape, "sampler": "random", "seed": 4, "inner": "sweep", **options})


def swept(shape: str, row) -> dict[str, float]:
    """The fastest schedule of one trial's GPU, by a sweep of its own."""
    asked = ask(shape, gpu="h200_sxm", kernel="softmax")
    numbers = {name.removeprefix("gpu."): row[name] for name in row.index if name in [f"gpu.{axis}" for axis in AXES]}
    gpu = gpu_maker(asked, "h200_sxm", {})(numbers)
    job = make_job(asked)
    best = run_sweep(type(job)(job.space, job.problem, gpu, top=1, tie_limit=0)).top.iloc[0]
    return {"index": int(best["index"]), "latency_s": float(best["latency_s"]), "energy_j": float(best["energy_j"])}


def test_a_trial_is_the_fastest_schedule_of_its_gpu():
    result = found(SHAPES[0], objectives=("latency_s", "area_mm2"))
    assert len(result.trials) == 10
    for _, row in result.trials.iterrows():
        alone = swept(SHAPES[0], row)
        assert row["latency_s"] == pytest.approx(alone["latency_s"], rel=1e-6)
        assert row["energy_j"] == pytest.approx(alone["energy_j"], rel=1e-5)
        fields = {name: row[f"gpu.{name}"] for name in AXES}
        changed = load_gpu(
            "h200_sxm",
            {name: round(value) for name, value in fields.items() if name != "ddr_bytes_per_s"}
            | {"ddr_bytes_per_s": fields["ddr_bytes_per_s"]},
        )
        assert row["gpu.area_mm2"] == pytest.approx(area_power(changed).area_mm2, rel=1e-6)
    assert result.evaluations > 10 * 100  # schedules of ten GPUs


def test_latencies_of_several_shapes_add_up():
    result = found(SHAPES, objectives=("latency_s", "energy_j"), trials=4)
    for _, row in result.trials.iterrows():
        alone = [swept(shape, row) for shape in SHAPES]
        for name in ("latency_s", "energy_j"):
            assert row[name] == pytest.approx(sum(one[name] for one in alone), rel=1e-5)
        assert [row[f"latency_s {shape}"] for shape in SHAPES] == pytest.approx([one["latency_s"] for one in alone])


def test_gpus_beyond_a_limit_of_their_own_are_not_swept():
    free = found(SHAPES[0])
    areas = found(SHAPES[0], objectives=("latency_s", "area_mm2")).trials["gpu.area_mm2"]
    most = float(areas.median())
    result = found(SHAPES[0], limits={"area_mm2": most})
    assert (result.trials["within_limits"] == (areas <= most)).all()
    assert result.evaluations < 0.7 * free.evaluations
    kept = result.trials[result.trials["within_limits"]]
    assert kept["latency_s"].tolist() == free.trials["latency_s"][kept["trial"]].tolist()
    assert (result.best["gpu.area_mm2"] <= most).all()


@pytest.mark.parametrize("sampler", ["nsga2", "gradient", "local"])
def test_searchers_of_gpus_improve_on_their_beginning(sampler):
    result = found(SHAPES[0], sampler=sampler, trials=48, limits={"area_mm2": 700.0}, batch=8)
    allowed = result.trials[result.trials["within_limits"]]
    assert result.best["latency_s"].iloc[0] < allowed["latency_s"].head(8).median()


def test_a_shortlist_takes_fewer_evaluations_and_its_front_is_all_but_exact():
    options = {"objectives": ("latency_s", "area_mm2"), "trials": 60, "sampler": "local"}
    whole, short = found(SHAPES[0], **options), found(SHAPES[0], inner="shortlist", **options)
    assert short.evaluations < 0.7 * whole.evaluations
    alone = np.array([swept(SHAPES[0], row)["latency_s"] for _, row in short.front.iterrows()])
    over = short.front["latency_s"].to_numpy() / alone - 1
    assert over.min() >= -1e-6
    assert (np.abs(over) < 1e-6).sum() >= min(CONFIRMED, len(over))
    assert over.max() < 0.02
    for _, row in short.trials.head(5).iterrows():  # never faster than the whole space
        alone = swept(SHAPES[0], row)
        assert row["latency_s"] >= alone["latency_s"] * (1 - 1e-6)


@pytest.mark.parametrize("sampler", ["tpe", "local"])
def test_a_study_of_gpus_goes_on_from_its_file(sampler, tmp_path):
    options = {"storage": tmp_path / "gpus.journal", "sampler": sampler, "objectives": ("latency_s", "area_mm2")}
    first, again = found(SHAPES[0], **options), found(SHAPES[0], **options)
    columns = ["index", "latency_s", "gpu.area_mm2", "gpu.sm_count"]
    assert np.array_equal(again.trials[columns].to_numpy(), first.trials[columns].to_numpy())
    assert again.evaluations <= first.evaluations  # from notes, not swept again
    with pytest.raises(UserError, match="inner is sweep there, shortlist here"):
        found(SHAPES[0], **{**options, "inner": "shortlist"})


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (
            {"shape": SHAPES, "objectives": ("latency_s", "smem_bytes")},
            "objective smem_bytes does not add up over 2 shapes",
        ),
        ({"gpu_axes": {"sm_count": [132]}}, "GPU field sm_count: one value, 132, is no choice"),
        ({"overrides": {"sm_count": 100}}, r"GPU field sm_count is both set \(--set sm_count\) and searched"),
        ({"gpu": "no_such"}, "unknown GPU 'no_such'"),
        (
            {"limits": {"area_mm2": 3.0}, "gpu_axes": {"ddr_latency_s": (1e-6, 2e-6)}},
            "area_mm2 is the same in every trial",
        ),
        ({"reference": "runs/x"}, "--reference runs/x is of one GPU, but GPU numbers are searched"),
    ],
)
def test_what_does_not_fit_is_refused(options, text):
    with pytest.raises(UserError, match=text):
        found(**{"shape": SHAPES[0], **options})
