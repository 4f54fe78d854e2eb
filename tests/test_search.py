"""Guided search: reproducible, feasible answers, schedule axes and GPU numbers alike, and clear refusals."""

import dataclasses
import importlib.util

import numpy as np
import pytest
from fake_kernel import BruteForce, FakeGpu, FakeKernel, fake_cost, fake_job, fake_space

from dse.axis import Axis
from dse.errors import UserError
from dse.search import SAMPLERS, GpuQuantity, run_search
from dse.search.machines import replaced
from dse.space import Space

BOTH = ("latency_s", "smem_bytes")


class SearchConformance:
    """What any sampler must do; a subclass names it."""

    sampler: str
    objectives: tuple[str, ...] = BOTH
    axes: dict | None = None  # GPU axes that it cannot do without

    def search(self, trials=64, seed=1, **options):
        job = options.pop("job", fake_job(objectives=self.objectives))
        gpu = {**(self.axes or {}), **options.pop("gpu", {})}
        return run_search(job, trials, self.sampler, seed, batch=16, gpu=gpu or None, **options)

    def test_same_seed_same_trials(self):
        one, two, other = self.search(), self.search(), self.search(seed=2)
        assert one.trials.equals(two.trials)
        assert not one.trials["index"].equals(other.trials["index"])

    def test_rows_are_what_the_model_says_of_their_index(self):
        result = self.search()
        assert len(result.trials) == 64
        fields = result.job.space.rows(result.trials["index"].to_numpy())
        speed = result.trials["gpu.speed"].to_numpy(np.float32) if self.axes else np.float32(1.0)
        gpu = FakeGpu(speed=speed, smem_max=np.float32(150.0))
        cost = fake_cost(result.job.problem, result.job.model.schedule(fields), gpu)
        assert result.trials["latency_s"].to_numpy() == pytest.approx(cost.latency_s, rel=1e-6)
        assert (result.trials["reason"].to_numpy() == cost.reason).all()
        assert result.feasible == (cost.reason == 0).sum()

    def test_best_and_front_are_feasible_and_not_dominated(self):
        result = self.search()
        choice = ["index", *(name for name in result.trials if name.startswith("gpu."))]
        for rows in (result.best, result.front):
            assert (rows["reason"] == 0).all()
            assert not rows.duplicated(choice).any()
        columns = list(self.objectives)
        values = result.front[columns].to_numpy()
        feasible = result.trials[result.trials["reason"] == 0][columns].to_numpy()
        for row in values:
            assert not ((feasible <= row).all(axis=1) & (feasible < row).any(axis=1)).any()
        assert result.best["latency_s"].is_monotonic_increasing
        assert result.best["latency_s"].iloc[0] == feasible[:, 0].min()

    def test_infeasible_trials_are_constrained_in_the_study(self):
        result = self.search()
        broken = [max(trial.constraints.values()) for trial in result.study.trials]
        assert broken == [float(reason != 0) for reason in result.trials["reason"]]
        told = np.array([trial.values[0] for trial in result.study.trials])
        same = told == result.trials["latency_s"].to_numpy()
        runs = result.trials["reason"].to_numpy() == 0
        assert same[runs].all()
        if SAMPLERS[self.sampler].constraints:
            assert same.all()
        else:  # told as the worst so far
            assert (told[~runs] >= told[runs].min()).all()

    def test_gpu_numbers_are_searched_with_the_schedule(self):
        gpu = (
            {"speed": (0.5, 2.0)} if not SAMPLERS[self.sampler].names else {"speed": (0.5, 2.0), "smem_max": [40, 150]}
        )
        result = self.search(gpu=gpu)
        assert result.trials["gpu.speed"].between(0.5, 2.0).all()
        assert result.trials["gpu.speed"].nunique() > 10
        if "smem_max" in gpu:
            assert set(result.trials["gpu.smem_max"]) == {40.0, 150.0}
            fits = result.trials["smem_bytes"] <= result.trials["gpu.smem_max"]
            assert (fits == (result.trials["reason"] != 6)).all()
        row = result.trials.iloc[0]
        fields = {name: np.array([row[name]]) for name in result.job.model.schedule_fields}
        chosen = replaced(result.job.gpu, {name: row[f"gpu.{name}"] for name in gpu})
        cost = fake_cost(result.job.problem, result.job.model.schedule(fields), chosen)
        assert row["latency_s"] == pytest.approx(cost.latency_s.item(), rel=1e-6)

    def test_first_tries_what_it_is_told(self):
        result = self.search(first=[5, 77])
        assert result.trials["index"].tolist()[:2] == [5, 77]

    def test_interrupt_keeps_the_trials(self):
        def interrupt(snapshot):
            if not snapshot.finished:
                raise KeyboardInterrupt

        result = self.search(progress=interrupt)
        assert result.incomplete
        assert len(result.trials) == 16

    def test_progress_says_how_many_and_how_good(self):
        seen = []
        result = self.search(progress=seen.append)
        assert [snapshot.done for snapshot in seen] == [16, 32, 48, 64, 64]
        assert seen[-1].finished
        assert seen[-1].best == result.best["latency_s"].iloc[0]
        if len(self.objectives) > 1:
            assert seen[-1].front == len(result.front[list(self.objectives)].drop_duplicates())

    def test_limits_are_constraints(self):
        result = self.search(limits={"smem_bytes": 60})
        within = result.trials["smem_bytes"] <= 60
        assert (result.trials["within_limits"] == within).all()
        assert not within.all()
        for rows in (result.best, result.front):
            assert (rows["smem_bytes"] <= 60).all()
        assert result.feasible == (within & (result.trials["reason"] == 0)).sum()
        trial = result.study.trials[3]
        assert trial.constraints["smem_bytes <= 60"] == pytest.approx(result.trials["smem_bytes"][3] / 60 - 1)


class TestRandom(SearchConformance):
    sampler = "random"


class TestTpe(SearchConformance):
    sampler = "tpe"

    def test_finds_a_better_schedule_than_random_sampling(self):
        job = fake_job(fake_space(64, 8, 16, 8), objectives=("smem_bytes",), rank_by="smem_bytes")
        found = {
            sampler: np.mean([run_search(job, 96, sampler, seed).best["smem_bytes"].iloc[0] for seed in range(4)])
            for sampler in ("tpe", "random")
        }
        assert found["tpe"] < found["random"]


class TestNsga2(SearchConformance):
    sampler = "nsga2"


class TestNsga3(SearchConformance):
    sampler = "nsga3"


class TestQmc(SearchConformance):
    sampler = "qmc"


class TestCmaes(SearchConformance):
    sampler = "cmaes"
    objectives = ("latency_s",)


class TestLocal(SearchConformance):
    sampler = "local"

    def test_no_point_is_tried_twice(self):
        result = self.search(trials=400)
        assert not result.trials["index"].duplicated().any()

    def test_finds_the_best_of_a_smooth_space_by_steps(self):
        job = fake_job(fake_space(64, 8, 16, 8), objectives=("smem_bytes",), rank_by="smem_bytes")
        best = [self.search(trials=256, seed=seed, job=job).best["smem_bytes"].iloc[0] for seed in range(4)]
        assert max(best) <= 3

    def test_a_space_smaller_than_the_budget_is_searched_through(self):
        job = fake_job(fake_space(3, 2, 2, 1), objectives=("latency_s",))
        result = self.search(trials=64, job=job)
        assert result.trials["index"].nunique() == 12


class TestGradient(SearchConformance):
    sampler = "gradient"
    axes = {"speed": (0.5, 2.0)}  # noqa: RUF012  fixed

    def test_goes_down_the_slope_to_the_end_of_a_range(self):
        job = fake_job(objectives=("latency_s",))
        result = self.search(trials=160, job=job, gpu={"speed": (0.5, 2.0, "log")})
        assert result.best["gpu.speed"].iloc[0] == 0.5

    def test_derivatives_are_counted(self):
        assert self.search().evaluations > 64

    def test_a_limit_on_a_quantity_is_kept_to_and_made_use_of(self):
        price = GpuQuantity("price", lambda numbers: 100.0 / numbers["speed"])
        options = {"gpu": {"speed": (0.5, 2.0, "log")}, "quantities": [price], "limits": {"price": 125.0}}
        result = self.search(trials=240, job=fake_job(objectives=("latency_s",)), **options)
        assert result.best["gpu.price"].iloc[0] == pytest.approx(125.0, rel=0.02)
        assert result.trials["within_limits"].mean() > 0.5


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="Optuna's Gaussian process needs torch")
class TestGp(SearchConformance):
    sampler = "gp"


def test_without_a_name_the_sampler_is_one_for_what_is_searched():
    found = run_search(fake_job(), 16, batch=16)
    assert (found.sampler, found.choice.by, found.choice.why) == ("local", "auto", "schedules are searched")
    assert run_search(fake_job(), 16, "random", batch=16).choice.by == "given"


def test_every_sampler_has_its_conformance_test():
    assert {test.sampler for test in SearchConformance.__subclasses__()} == set(SAMPLERS)


def test_one_compilation_a_search():
    traces = []

    def counted(problem, schedule, gpu):
        traces.append(1)
        return fake_cost(problem, schedule, gpu)

    job = fake_job(kernel=FakeKernel(cost_function=counted))
    run_search(job, 70, "random", batch=16, gpu={"speed": (1.0, 2.0)})
    run_search(job, 70, "random", batch=16, gpu={"speed": (1.0, 3.0)})
    assert len(traces) == 1


def test_random_search_over_everything_reaches_the_optimum():
    job = fake_job(fake_space(5, 3, 2, 2), objectives=("latency_s",))
    result = run_search(job, 400, "random")
    expected = BruteForce.of(job)
    assert result.best["latency_s"].iloc[0] == expected.rank.min()
    assert sorted(result.front["index"].tolist()) == sorted(expected.front(10**6)[0])


def test_the_first_objective_ranks():
    result = run_search(fake_job(), 64, "random", objectives=("smem_bytes", "latency_s"))
    assert result.best["smem_bytes"].is_monotonic_increasing
    assert not result.best["latency_s"].is_monotonic_increasing


def test_quantities_of_the_gpu_are_objectives():
    price = GpuQuantity("price", lambda numbers: 1.0 / numbers["speed"])
    options = {"gpu": {"speed": (0.5, 2.0)}, "quantities": [price], "objectives": ("latency_s", "price")}
    result = run_search(fake_job(), 64, "nsga2", 1, **options)
    assert result.trials["gpu.price"].to_numpy() == pytest.approx(1 / result.trials["gpu.speed"].to_numpy())
    assert result.front["gpu.price"].is_monotonic_decreasing
    assert [trial.values[1] for trial in result.study.trials] == result.trials["gpu.price"].tolist()


def test_an_objective_that_decides_nothing_is_named():
    job = fake_job(fake_space(splits=1), objectives=("latency_s", "workspace_bytes"))
    assert run_search(job, 48, "random").constant_objectives == ["workspace_bytes"]
    assert run_search(fake_job(), 48, "random").constant_objectives == []


NAMED = Space("fake/named", "fake", "none", "bf16", (Axis("way", ("tile",), ((3,), (1,)), ("down", "up")),), {})
PRICE = [GpuQuantity("price", lambda numbers: 1.0, ("smem_max",))]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"trials": 0}, "trials = 0 is not allowed: a whole number, 1 or more"),
        ({"trials": 8.5}, "trials = 8.5 is not allowed: a whole number, 1 or more"),
        ({"batch": 0}, "batch = 0 is not allowed: a whole number, 1 or more"),
        ({"seed": 1.5}, "seed = 1.5 is not allowed: a whole number from 0"),
        ({"limits": {"smem_bytes": "3"}}, "limit smem_bytes = 3 is not allowed: a number above 0"),
        ({"seed": 2**32}, r"seed = 4294967296 is not allowed: a whole number from 0 to 2\^32 - 1"),
        ({"sampler": "tpee"}, r"unknown sampler 'tpee'; known: auto, cmaes, gp, .*, tpe; did you mean 'tpe'\?"),
        (
            {"sampler": "cmaes", "objectives": BOTH},
            "sampler cmaes minimises one objective, but 2 are given; for several",
        ),
        ({"sampler": "gradient"}, "none is searched: give --gpu-axis FIELD=FROM:TO:log, or choose sampler local"),
        (
            {"sampler": "cmaes", "objectives": ("latency_s",), "gpu": {"speed": [1, 2]}},
            "not among names or listed values of speed: keep one value of each",
        ),
        ({"objectives": ("latency_s", "latency_s")}, "objectives latency_s, latency_s: name each once"),
        ({"objectives": ()}, "no objective: name at least one of latency_s, "),
        ({"objectives": ("latency",)}, r"unknown objective 'latency'; known: .*; did you mean 'latency_s'\?"),
        (
            {"objectives": ("latency_s", "price"), "quantities": PRICE, "gpu": {"speed": (1.0, 2.0)}},
            r"price is the same in every trial: no --gpu-axis moves it \(smem_max would\); leave it out",
        ),
        ({"limits": {"price": 3}, "quantities": PRICE}, "price is the same in every trial"),
        ({"limits": {"smem": 3}}, r"unknown limit 'smem'; .*did you mean 'smem_bytes'\?"),
        ({"limits": {"smem_bytes": 0}}, "limit smem_bytes = 0 is not allowed: a number above 0"),
        ({"inner": "sweep"}, "--inner sweep sweeps the schedules of every GPU tried, and none is searched"),
        ({"inner": "swep", "gpu": {"speed": (1.0, 2.0)}}, r"unknown inner 'swep'; .*did you mean 'sweep'\?"),
        ({"inner": "sweep", "gpu": {"speed": (1.0, 2.0)}, "first": [3]}, "--first gives schedules, but with --inner"),
        ({"problems": [1, 2]}, "2 shapes at once need --inner sweep"),
        ({"study_name": "mine"}, "--study-name mine names a study in a file: give --storage FILE too"),
        ({"gpu": {"sped": (1, 2)}}, r"unknown GPU field 'sped'; known: smem_max, speed; did you mean 'speed'\?"),
        ({"gpu": {"speed": (2, 1)}}, "GPU field speed: the range 2 to 1 is empty; give the lower bound first"),
        ({"gpu": {"speed": (1, 1)}}, "GPU field speed: the range 1 to 1 is one value: fix it with --set instead"),
        ({"gpu": {"speed": [1]}}, "GPU field speed: one value, 1, is no choice: fix it"),
        ({"gpu": {"speed": [1, 2, 1]}}, "GPU field speed: the value 1 is there twice: keep one"),
        ({"gpu": {"speed": (0, 1, "log")}}, "GPU field speed: a logarithmic range cannot start at 0"),
        ({"gpu": {"speed": (1, 2, "lin")}}, "GPU field speed: the scale 'lin' is unknown"),
        ({"gpu": {"speed": []}}, r"GPU field speed: \[\] is not a list of numbers; write \(low, high\)"),
        ({"gpu": {"speed": 3}}, r"GPU field speed: 3 is no range; write \(low, high\)"),
        ({"gpu": {"speed": (1, float("inf"))}}, r"GPU field speed: \(1, inf\) is no range"),
    ],
)
def test_bad_searches(arguments, text):
    with pytest.raises(UserError, match=text):
        run_search(fake_job(), **({"trials": 10} | arguments))


def test_names_and_spaces_of_one_schedule_are_refused_where_they_do_not_fit():
    with pytest.raises(UserError, match="not among names or listed values of way: keep one value of each"):
        run_search(fake_job(NAMED, objectives=("latency_s",)), 10, "cmaes")
    with pytest.raises(UserError, match="nothing is left to choose: the space has one schedule and no --gpu-axis"):
        run_search(fake_job(fake_space(1, 1, 1, 1)), 10, "random")


@pytest.mark.skipif(importlib.util.find_spec("torch") is not None, reason="torch is installed")
def test_what_a_sampler_needs_is_said():
    with pytest.raises(UserError, match="sampler gp needs torch, which is not installed: pip install torch"):
        run_search(fake_job(), 10, "gp")


def test_more_sms_bring_their_clusters_along():
    @dataclasses.dataclass(frozen=True)
    class Machine:
        sm_count: np.ndarray
        cluster_sms: np.ndarray

    gpu = Machine(np.float32(132), np.array([132, 132, 132, 128, 112], np.float32))
    twice = replaced(gpu, {"sm_count": 264.0})
    assert twice.cluster_sms.tolist() == [264, 264, 264, 256, 224]
    assert replaced(gpu, {"sm_count": 100.0}).cluster_sms.tolist() == [100, 100, 100, 96, 80]
