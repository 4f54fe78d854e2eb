"""How many schedules to benchmark: the list that most likely holds one near the best of a whole space.

The fastest schedules by prediction are often one kernel in many orders, which err together: if the first is slow, so
are the next eleven. A list is worth what its members add to each other.
"""

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import UserError
from ...figure_file import COLOURS, drawn
from ...fitting import fitting
from ...job import SweepJob
from ...kernels.registry import check_served
from ...rows import evaluate_rows
from ...trust import label_of
from ...trust.within_shape import KINDS, SIZES, WithinShape, draw_log_latencies, packaged_within_shape

if TYPE_CHECKING:
    import pandas as pd

ONE_SIGMA = 0.68
BEYOND = 4.0  # standard deviations of a difference: what is predicted slower is not looked at
MOST_CANDIDATES = 4000
MOST_LISTED = 100
DRAWS, MOST_DRAWS = 2000, 20_000


@dataclass(frozen=True, eq=False)
class Shortlist:
    """Schedules to benchmark, in the order in which they add most.

    Attributes:
        places: of the candidates, `count` of them or more.
        chances: float64, entry n - 1: chance that one of the first n is within `within` of the best candidate.
        by_prediction: the same of the n predicted fastest.
        count: how many reach `chance`; None: `len(places)` do not.
        within, chance: what was asked for.
        draws: behind each chance, whose standard error is sqrt(p (1 - p) / draws).
    """

    places: tuple[int, ...]
    chances: np.ndarray
    by_prediction: np.ndarray
    count: int | None
    within: float
    chance: float
    draws: int

    @property
    def listed(self) -> tuple[int, ...]:
        """The places to benchmark: the first `count`, or all where these do not reach the chance."""
        return self.places[: self.count]

    def sentence(self, of: str) -> str:
        """`benchmark these 12 for a 95 % chance that one of them is within 5 % of the best of OF`."""
        number = len(self.listed)
        reached = float(self.chances[number - 1])
        these = "this one" if number == 1 else f"these {number}"
        one = "it" if number == 1 else "one of them"
        text = f"benchmark {these} for a {100 * reached:.0f} % chance that {one} is within {100 * self.within:g} %"
        text += f" of the best {of}"
        if self.count is None:
            text += f"; for {100 * self.chance:g} % more than {number} are needed: ask for less, or restrict the space"
        return text


def choose_shortlist(
    schedules: Any,
    predicted_s: np.ndarray,
    within: float = 0.05,
    chance: float = 0.95,
    *,
    draws: int = DRAWS,
    seed: int = 0,
    scale: float = 1.0,
    noise: bool = False,
    most: int = MOST_LISTED,
    model: WithinShape | None = None,
) -> Shortlist:
    """Chooses schedules one by one, each the one that is near the best in most of the draws in which none yet is.

    That is the greedy choice for maximum coverage: no list of the same length covers more than 1 / (1 - 1/e) times as
    much. The chances are counted on draws that the choice has not seen.

    Args:
        schedules, predicted_s, seed, scale, noise, model: as `dse.trust.within_shape.draw_log_latencies` takes them.
        within: how near the best is near enough, 0.05 for 5 %.
        chance: wanted, between 0 and 1.
        draws: to choose by, and as many to count by.
        most: of the list.

    Raises:
        UserError: a number out of its range, or no schedule that can run.
    """
    if not 0.0 <= within < 1.0:
        raise UserError(f"within = {within:g} is not allowed: from 0 to below 1, e.g. 0.05 for 5 %")
    if not 0.0 < chance < 1.0:
        raise UserError(f"chance = {chance:g} is not allowed: above 0, below 1, e.g. 0.95 for 95 %")
    for name, value, least in (("draws", draws, 1), ("seed", seed, 0), ("most", most, 1)):
        if value < least:
            raise UserError(f"{name} = {value} is not allowed: {least} or more")
    if draws > MOST_DRAWS:
        raise UserError(
            f"draws = {draws} is not allowed: at most {MOST_DRAWS:,}, of which 95 % have a standard error of 0.15 %"
        )
    predicted_s = np.asarray(predicted_s, np.float64)
    if not np.isfinite(predicted_s).any():
        raise UserError("no schedule can run, so there is nothing to benchmark")

    def near_best(of_seed: int) -> np.ndarray:
        logs = draw_log_latencies(schedules, predicted_s, draws, of_seed, scale=scale, noise=noise, model=model)
        return logs <= logs.min(axis=1, keepdims=True) + np.float32(np.log1p(within))

    order = np.argsort(predicted_s, kind="stable")
    places = _greedy(near_best(2 * seed), order, most)
    counted = near_best(2 * seed + 1)
    chances = _cumulative(counted[:, places])
    enough = np.flatnonzero(chances >= chance)
    return Shortlist(
        places=tuple(int(place) for place in places),
        chances=chances,
        by_prediction=_cumulative(counted[:, order[: len(places)]]),
        count=int(enough[0]) + 1 if len(enough) else None,
        within=within,
        chance=chance,
        draws=draws,
    )


@dataclass(frozen=True)
class RunShortlist:
    """A shortlist of a run's space.

    Attributes:
        found: places among the candidates, and chances.
        table: one row a listed schedule, in the order of the list: chance of the list up to it, schedule, cost.
        runnable: schedules of the space that can run.
        candidates: kernels that were looked at: those that differ in more than the order of their tiles, each in its
            fastest order, predicted near enough to the fastest to be the best.
        scale: factor on the errors within a shape.
        spread: half of the 68 % interval of tuned kernels' residuals that it comes from.
    """

    found: Shortlist
    table: "pd.DataFrame"
    runnable: int
    candidates: int
    scale: float
    spread: float

    def sentence(self) -> str:
        """What to benchmark, for which chance."""
        return self.found.sentence(f"of {self.runnable:,} schedules")


def shortlist_of(
    job: SweepJob, within: float = 0.05, chance: float = 0.95, *, draws: int = DRAWS, seed: int = 0
) -> RunShortlist:
    """Chooses schedules of a job's whole space to benchmark.

    Where tuned kernels' residuals are wider than where the errors within a shape were measured (another class of
    shapes, a GPU that nothing was fitted for), these errors are taken to be wider in proportion.

    Raises:
        UserError: what `dse.fitting.fitting` and `choose_shortlist` raise, or a kernel other than GEMM: how its
            schedules err against each other nobody measured.
    """
    check_served(job.space.kernel, "dse shortlist")
    model = packaged_within_shape()
    schedules = fitting(job.space, [job.problem], [job.gpu])
    latency_s = schedules.values(job.problem_arrays, job.gpu)[0]
    runs = np.isfinite(latency_s)
    if not runs.any():
        raise UserError("no schedule can run, so there is nothing to benchmark")
    spread = _spread(job, float(latency_s.min()), model)
    scale = model.scaled_to(spread)
    furthest = latency_s.min() * np.exp(BEYOND * np.sqrt(2.0) * scale * model.sigma)
    near = np.flatnonzero(latency_s <= furthest)
    near = near[np.lexsort((near, latency_s[near]))]
    kernels = near[_first_of_each_kernel(schedules.fields(near))][:MOST_CANDIDATES]
    found = choose_shortlist(
        schedules.fields(kernels), latency_s[kernels], within, chance, draws=draws, seed=seed, scale=scale, model=model
    )
    table = evaluate_rows(job, schedules.index[kernels[list(found.listed)]].tolist())
    table.insert(1, "chance", found.chances[: len(table)])
    return RunShortlist(found, table, int(runs.sum()), len(kernels), scale, spread)


def draw_chances(answer: RunShortlist, path: str | os.PathLike[str]) -> None:
    """Writes the figure: the chance against the length of the list, and that of the predicted fastest.

    Args:
        answer: a shortlist.
        path: .png, .svg or .pdf.

    Raises:
        UserError: what `dse.figure_file.check_figure_path` raises.
    """
    found = answer.found
    numbers = np.arange(1, len(found.chances) + 1)
    with drawn(path, 5.6, 3.6) as figure:
        panel = figure.subplots()
        panel.plot(numbers, 100 * found.chances, color=COLOURS[0], marker=".", label="chosen for what each adds")
        panel.plot(numbers, 100 * found.by_prediction, color=COLOURS[1], linestyle="--", label="the predicted fastest")
        panel.axhline(100 * found.chance, color="black", linewidth=0.8, linestyle=":")
        if found.count is not None:
            panel.axvline(found.count, color="black", linewidth=0.8, linestyle=":")
            panel.annotate(str(found.count), (found.count, 100 * found.chance), xytext=(4, -12),
                           textcoords="offset points")  # fmt: skip
        panel.set_xscale("log")
        panel.xaxis.set_major_formatter("{x:g}")
        panel.set_ylim(0, 100)
        panel.set_xlabel("schedules benchmarked")
        panel.set_ylabel(f"chance of one within {100 * found.within:g} % of the best, %")
        panel.grid(alpha=0.25)
        panel.legend(loc="lower right", fontsize=8)


def _greedy(near_best: np.ndarray, order: np.ndarray, most: int) -> list[int]:
    """Places in the order in which they cover most draws not yet covered; of equal ones the predicted fastest. Where
    all are covered, they are covered once more: the draws are a sample."""
    cover = near_best[:, order].astype(np.float32)
    left, chosen = cover, []
    while len(chosen) < min(most, cover.shape[1]):
        if not len(left):
            cover[:, chosen] = 0.0
            left = cover
        counts = left.sum(axis=0)
        counts[chosen] = -1.0
        chosen.append(int(counts.argmax()))
        left = left[left[:, chosen[-1]] == 0.0]
    return [int(order[place]) for place in chosen]


def _cumulative(near_best: np.ndarray) -> np.ndarray:
    return np.maximum.accumulate(near_best, axis=1).mean(axis=0)


def _first_of_each_kernel(columns: dict[str, np.ndarray]) -> np.ndarray:
    """Places of the first schedule of each kernel, ascending: the order of tiles is an argument, not another kernel."""
    groups = {**SIZES, **KINDS}
    names = [name for name in columns if groups.get(name, "order") != "order"]
    key = np.zeros(len(next(iter(columns.values()))), np.int64)
    for name in names:
        _, place = np.unique(columns[name], return_inverse=True)
        key = key * (int(place.max(initial=0)) + 1) + place.reshape(-1)
        _, key = np.unique(key, return_inverse=True)
    return np.sort(np.unique(key, return_index=True)[1])


def _spread(job: SweepJob, latency_s: float, model: WithinShape) -> float:
    label = label_of(job, ONE_SIGMA)
    if label is None:
        return model.spread
    low, high = label.interval(latency_s)
    return float(np.log(high / low)) / 2.0
