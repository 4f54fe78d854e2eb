"""Derivatives that the gradient search follows: those of the model by differences, what moves along included."""

import numpy as np
import pytest

from dse.api import make_job
from dse.gpu_axes import gpu_choices, gpu_file_maker, gpu_maker
from dse.job import as_float32
from dse.question import ask
from dse.search import GpuQuantity, SearchSpace, search_space
from dse.search.candidates import joined
from dse.search.evaluate import BatchEvaluator
from dse.search.goals import make_goals
from dse.search.machines import Machines
from dse.search.slopes import Slopes
from dse.studies.gpu_quantities import gpu_quantities

SHAPES = {"softmax": "16384x8192"}
AXES = {
    "ddr_bytes_per_s": ("0.5x", "2x", "log"),
    "l2_bytes_per_s": ("0.5x", "2x"),
    "ddr_latency_s": ("1x", "2x", "log"),
    "clock_hz": ("0.5x", "1x", "log"),
    "sm_count": (66.0, 132.0, "log"),
}


def parts(kernel: str):
    asked = ask(SHAPES[kernel], gpu="h200_sxm", kernel=kernel)
    job = make_job(asked)
    axes = gpu_choices(AXES, asked.gpu)
    space = search_space(job.space, axes)
    file_of, (area, moved_by) = gpu_file_maker("h200_sxm", {}), gpu_quantities()["area_mm2"]
    quantity = GpuQuantity("area_mm2", lambda numbers: area(file_of(numbers)), tuple(moved_by))
    goals = make_goals(("latency_s", "energy_j", "area_mm2"), [quantity], {}, list(axes))
    machines = Machines(job.gpu, gpu_maker(asked, "h200_sxm", {}), goals.used)
    slopes = Slopes(job.model, [as_float32(asked.problem.arrays())], [1.0], space, goals, machines)
    return job, space, goals, machines, slopes


@pytest.mark.parametrize("kernel", ["softmax"])
def test_slopes_are_those_of_differences(kernel):
    job, space, goals, machines, slopes = parts(kernel)
    evaluate = BatchEvaluator(job, goals, machines, 32)
    rng = np.random.default_rng(5)
    names = [axis.name for axis in space.gpu]
    checked = 0
    for index in rng.integers(0, job.space.size, 12).tolist():
        digits = np.array(job.space.digits(index))
        numbers = np.array([3.6e12, 7e12, 9e-7, 1.4e9, 100.0])
        points = [numbers]
        for at, name in enumerate(names):
            factor = 1.1 if name == "sm_count" else 1.02
            points += [np.where(np.arange(len(names)) == at, numbers * step, numbers) for step in (1 / factor, factor)]
        found = evaluate(joined(space, np.tile(digits, (len(points), 1)), np.stack(points)))
        if (found.columns["reason"] != 0).any():
            continue
        got = slopes.objectives([job.space.schedule(index)], numbers)
        values = found.values
        for at, name in enumerate(names):
            low, high = values[1 + 2 * at], values[2 + 2 * at]
            steps = np.log(high / values[0]), np.log(values[0] / low)
            if name != "sm_count" and not np.allclose(*steps, rtol=0.05, atol=2e-4):
                continue  # a kink in between
            expected = np.log(high / low) / np.log(points[2 + 2 * at][at] / points[1 + 2 * at][at])
            assert got[:, at] == pytest.approx(expected, abs=0.03), (index, name)
            checked += 1
    assert checked > 12
    assert slopes.evaluations > 5


def test_numbers_that_are_taken_whole_are_differenced_and_others_are_not():
    _, space, _, _, slopes = parts("softmax")
    whole = {axis.name for axis, is_whole in zip(space.gpu, slopes._whole, strict=True) if is_whole}
    assert whole == {"sm_count"}


def test_several_problems_weigh_by_their_latencies():
    job, space, goals, machines, one = parts("softmax")
    numbers = np.array([3.6e12, 7e12, 9e-7, 1.4e9, 100.0])
    schedule = next(s for s in map(job.space.schedule, range(job.space.size)) if s["stages"] == 1)
    other = as_float32(ask("64x4096", gpu="h200_sxm", kernel="softmax").problem.arrays())
    first = one._problems[0]
    singles = [Slopes(job.model, [p], [1.0], space, goals, machines) for p in (first, other)]
    both = Slopes(job.model, [first, other], [1.0, 3.0], space, goals, machines)
    seconds = [own._of_problem(p, schedule, numbers)[0][0] for own, p in zip(singles, (first, other), strict=True)]
    alone = [own.objectives([schedule], numbers)[0] for own in singles]
    expected = (seconds[0] * alone[0] + 3 * seconds[1] * alone[1]) / (seconds[0] + 3 * seconds[1])
    assert both.objectives([schedule, schedule], numbers)[0] == pytest.approx(expected, rel=1e-5)


def test_a_space_of_gpus_alone_has_no_digits():
    space = SearchSpace(None, search_space(make_job(ask("64x4096", kernel="softmax")).space, {"a": (1.0, 2.0)}).gpu)
    assert space.radices == ()
    assert joined(space, np.zeros((3, 0)), np.ones((3, 1))).digits.shape == (3, 0)
