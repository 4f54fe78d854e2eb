"""Guided search: reproducible, feasible answers, schedule axes and GPU numbers alike, and clear refusals."""

import dataclasses

import numpy as np
import pytest
from fake_kernel import BruteForce, FakeKernel, fake_cost, fake_job, fake_space

from dse.errors import UserError
from dse.search import SAMPLERS, run_search
from dse.search.evaluate import replaced


class SearchConformance:
    """What any sampler must do; a subclass names it."""

    sampler: str

    def search(self, trials=64, seed=1, **options):
        job = options.pop("job", fake_job(objectives=("latency_s", "smem_bytes")))
        return run_search(job, trials, self.sampler, seed, batch=16, **options)

    def test_same_seed_same_trials(self):
        one, two, other = self.search(), self.search(), self.search(seed=2)
        assert one.trials.equals(two.trials)
        assert not one.trials["index"].equals(other.trials["index"])

    def test_rows_are_what_the_model_says_of_their_index(self):
        result = self.search()
        assert len(result.trials) == 64
        fields = result.job.space.rows(result.trials["index"].to_numpy())
        cost = fake_cost(result.job.problem, result.job.model.schedule(fields), result.job.gpu)
        assert (result.trials["latency_s"].to_numpy() == cost.latency_s).all()
        assert (result.trials["reason"].to_numpy() == cost.reason).all()
        assert result.feasible == (cost.reason == 0).sum()

    def test_best_and_front_are_feasible_and_not_dominated(self):
        result = self.search()
        for rows in (result.best, result.front):
            assert (rows["reason"] == 0).all()
            assert not rows["index"].duplicated().any()
        values = result.front[["latency_s", "smem_bytes"]].to_numpy()
        feasible = result.trials[result.trials["reason"] == 0][["latency_s", "smem_bytes"]].to_numpy()
        for row in values:
            assert not ((feasible <= row).all(axis=1) & (feasible < row).any(axis=1)).any()
        assert result.best["latency_s"].is_monotonic_increasing
        assert result.best["latency_s"].iloc[0] == feasible[:, 0].min()

    def test_infeasible_trials_are_constrained_in_the_study(self):
        result = self.search()
        broken = [max(trial.constraints.values()) for trial in result.study.trials]
        assert broken == [float(reason != 0) for reason in result.trials["reason"]]

    def test_gpu_numbers_are_searched_with_the_schedule(self):
        gpu = {"speed": (0.5, 2.0), "smem_max": [40.0, 150.0]}
        result = self.search(gpu=gpu)
        assert result.trials["gpu.speed"].between(0.5, 2.0).all()
        assert result.trials["gpu.speed"].nunique() > 10
        assert set(result.trials["gpu.smem_max"]) == {40.0, 150.0}
        assert ((result.trials["smem_bytes"] <= result.trials["gpu.smem_max"]) == (result.trials["reason"] != 6)).all()
        row = result.trials.iloc[0]
        fields = {name: np.array([row[name]]) for name in result.job.model.schedule_fields}
        chosen = replaced(result.job.gpu, {"speed": row["gpu.speed"], "smem_max": row["gpu.smem_max"]})
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


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"trials": 0}, "trials = 0 is not allowed: 1 or more"),
        ({"batch": 0}, "batch = 0 is not allowed: 1 or more"),
        ({"sampler": "tpee"}, r"unknown sampler 'tpee'; known: nsga2, random, tpe; did you mean 'tpe'\?"),
        ({"gpu": {"sped": (1, 2)}}, r"unknown GPU field 'sped'; known: smem_max, speed; did you mean 'speed'\?"),
        ({"gpu": {"speed": (2, 1)}}, "GPU field speed: the range 2 to 1 is empty; give the lower bound first"),
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


def test_more_sms_bring_their_clusters_along():
    @dataclasses.dataclass(frozen=True)
    class Machine:
        sm_count: np.ndarray
        cluster_sms: np.ndarray

    gpu = Machine(np.float32(132), np.array([132, 132, 132, 128, 112], np.float32))
    twice = replaced(gpu, {"sm_count": 264.0})
    assert twice.cluster_sms.tolist() == [264, 264, 264, 256, 224]
    assert replaced(gpu, {"sm_count": 100.0}).cluster_sms.tolist() == [100, 100, 100, 96, 80]
