"""Does the model put schedules in the right order? Predicted against measured latency, schedule by schedule."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..content.gpu import GpuFile
from ..content.space import load_space
from ..errors import UserError, unknown
from ..explain import costs_of
from ..job import SweepJob
from ..schedule_text import FIELDS
from .schedule_tables import MeasuredSchedules

if TYPE_CHECKING:
    import pandas as pd

KEPT_PERCENT = (1, 5, 10, 15)
LAUNCHES = ("graph", "host")


@dataclass(frozen=True)
class RankQuality:
    """How good a predicted order is. Latencies the model calls impossible count as slower than all others.

    Ties of the prediction are broken against the model: of schedules with one predicted latency the slowest measured
    comes first.

    Attributes:
        count: schedules.
        runnable: of them those that the model lets run.
        spearman: rank correlation over all schedules, equal predictions sharing a rank; nan where all are equal.
        spearman_runnable: the same over the runnable ones.
        top1_regret: per cent by which the schedule predicted fastest is slower than the fastest measured.
        retained: per cent kept -> per cent of the best performance that is left when only the predicted best
            so many per cent of the schedules (at least one) are measured.
        mape: mean absolute error of the runnable ones' latencies, per cent of the measured one.
        bias: mean signed error (negative: predicted too fast).
    """

    count: int
    runnable: int
    spearman: float
    spearman_runnable: float
    top1_regret: float
    retained: dict[int, float]
    mape: float
    bias: float


@dataclass(frozen=True)
class ProblemRanking:
    """One problem's ranking.

    Attributes:
        problem: shape, layout and type.
        quality: the numbers.
        rows: one schedule a row: name, family, measured_us, predicted_us (infinite where it cannot run), the schedule
            and the cost columns.
    """

    problem: str
    quality: RankQuality
    rows: "pd.DataFrame"


@dataclass(frozen=True)
class ScheduleRanking:
    """The rankings of all problems of a table on one GPU.

    Attributes:
        gpu: name.
        problems: one a problem.
    """

    gpu: str
    problems: tuple[ProblemRanking, ...]

    @property
    def mean(self) -> RankQuality:
        """Means over the problems for which a number is defined, each counting once; counts are sums."""
        found = [problem.quality for problem in self.problems]

        def mean(name: str) -> float:
            defined = [value for quality in found if not np.isnan(value := getattr(quality, name))]
            return float(np.mean(defined)) if defined else float("nan")

        return RankQuality(
            count=sum(quality.count for quality in found),
            runnable=sum(quality.runnable for quality in found),
            spearman=mean("spearman"),
            spearman_runnable=mean("spearman_runnable"),
            top1_regret=mean("top1_regret"),
            retained={part: float(np.mean([quality.retained[part] for quality in found])) for part in KEPT_PERCENT},
            mape=mean("mape"),
            bias=mean("bias"),
        )

    def to_dict(self) -> dict[str, Any]:
        """Numbers only, for JSON: no rows."""
        problems = [{"problem": entry.problem, **asdict(entry.quality)} for entry in self.problems]
        return {"gpu": self.gpu, "problems": problems, "mean": asdict(self.mean)}

    def table_rows(self) -> list[dict[str, str]]:
        """One row a problem and one of means, as text."""
        rows = [(entry.problem, entry.quality) for entry in self.problems]
        return [_text(name, quality) for name, quality in (*rows, ("mean", self.mean))]


def rank_measured(
    tables: Sequence[MeasuredSchedules],
    gpu: GpuFile,
    launch: str = "graph",
    clock: str = "boost",
    accumulator: str | None = None,
) -> ScheduleRanking:
    """Predicts every measured schedule and judges the order.

    Args:
        tables: `dse.validation.schedule_tables.read_schedule_table`.
        gpu: a loaded GPU file.
        launch: "graph": the measured calls were replayed or queued back to back; "host": each was launched by the host
            and waited for, so `host_launch_overhead_s` stands in for `launch_overhead_s`.
        clock: "boost" or "sustained".
        accumulator: accumulator type; None: fp32, or int32 for integers.

    Raises:
        UserError: no table, an unknown launch or clock, or a type or family that the GPU lacks.
    """
    if launch not in LAUNCHES:
        raise unknown("launch", launch, LAUNCHES)
    if not tables:
        raise UserError("no measured schedules to rank: give at least one problem's")
    extra_s = gpu["host_launch_overhead_s"] - gpu["launch_overhead_s"] if launch == "host" else 0.0

    def bind(table: MeasuredSchedules, family: str) -> Any:
        return gpu.bind(table.problem.dtype, accumulator, family, clock=clock)

    return ScheduleRanking(gpu.name, tuple(_rank(table, gpu.name, bind, extra_s) for table in tables))


def rank_quality(predicted: np.ndarray, measured: np.ndarray) -> RankQuality:
    """Judges predicted against measured latencies of one problem's schedules, same unit.

    Args:
        predicted: infinite for a schedule that the model says cannot run.
        measured: above 0.
    """
    predicted, measured = np.asarray(predicted, float), np.asarray(measured, float)
    runs = np.isfinite(predicted)
    order = np.lexsort((-measured, predicted))
    best = measured.min()
    left = {
        part: 100.0 * best / measured[order[: max(1, -(-len(measured) * part // 100))]].min() for part in KEPT_PERCENT
    }
    errors = 100.0 * (predicted[runs] / measured[runs] - 1.0)
    return RankQuality(
        count=len(measured),
        runnable=int(runs.sum()),
        spearman=_spearman(predicted, measured),
        spearman_runnable=_spearman(predicted[runs], measured[runs]),
        top1_regret=100.0 * float(measured[order[0]] / best - 1.0),
        retained={part: float(value) for part, value in left.items()},
        mape=float(np.abs(errors).mean()) if runs.any() else float("nan"),
        bias=float(errors.mean()) if runs.any() else float("nan"),
    )


def gains(rows: "pd.DataFrame", field: str, start: int, stop: int, names: Sequence[str] = ()) -> "pd.DataFrame":
    """What a change of one schedule field gains, predicted and measured.

    Args:
        rows: `ProblemRanking.rows`.
        field: of the schedule, e.g. "swizzle".
        start, stop: its values before and after.
        names: further columns by which pairs are told apart, where rows share a schedule.

    Returns:
        One row a pair of schedules that agree in all other fields and in `names`: those fields that vary, and
        predicted_gain and measured_gain, per cent of the latency after the change.
    """
    others = [name for name in (*FIELDS, *names) if name != field]
    before, after = (
        rows[rows[field] == value].groupby(others)[["predicted_us", "measured_us"]].mean() for value in (start, stop)
    )
    pairs = before.add_suffix("_before").join(after.add_suffix("_after"), how="inner")
    for kind in ("predicted", "measured"):
        pairs[f"{kind}_gain"] = 100.0 * (pairs[f"{kind}_us_before"] / pairs[f"{kind}_us_after"] - 1.0)
    pairs = pairs[["predicted_gain", "measured_gain"]].reset_index()
    varying = [name for name in others if pairs[name].nunique() > 1]
    return pairs[[*varying, "predicted_gain", "measured_gain"]]


def _rank(
    table: MeasuredSchedules, gpu_name: str, bind: Callable[[MeasuredSchedules, str], Any], extra_s: float
) -> ProblemRanking:
    import pandas as pd

    costs: list[dict[str, Any]] = [{}] * len(table.schedules)
    for family in dict.fromkeys(table.families):
        space = load_space("gemm", family, table.problem.dtype)
        job = SweepJob(space, table.problem, bind(table, family), gpu_name=gpu_name)
        places = [place for place, used in enumerate(table.families) if used == family]
        found = costs_of(job, [table.schedules[place] for place in places])
        for place, cost in zip(places, found, strict=True):
            costs[place] = cost
    frame = pd.DataFrame(
        {"name": table.names, "family": table.families, "measured_us": table.latency_us}
        | {name: [schedule[name] for schedule in table.schedules] for name in FIELDS}
        | {name: [cost[name] for cost in costs] for name in costs[0]}
    )
    frame.insert(3, "predicted_us", _predicted_us(frame, extra_s))
    return ProblemRanking(table.title, rank_quality(frame["predicted_us"].to_numpy(), table.latency_us), frame)


def _predicted_us(frame: "pd.DataFrame", extra_s: float) -> np.ndarray:
    from jaxmodel.reasons import Reason

    runs = frame["reason"].isin([int(Reason.OK), int(Reason.SAME_ORDER)])  # a renamed launch order runs all the same
    return np.where(runs, (frame["latency_s"] + extra_s) * 1e6, np.inf)


def _spearman(predicted: np.ndarray, measured: np.ndarray) -> float:
    if len(predicted) < 2 or np.ptp(measured) == 0 or (predicted == predicted[0]).all():
        return float("nan")
    from scipy.stats import rankdata

    return float(np.corrcoef(rankdata(predicted), rankdata(measured))[0, 1])


def _text(name: str, quality: RankQuality) -> dict[str, str]:
    kept: Mapping[int, float] = quality.retained
    return {
        "problem": name,
        "schedules": str(quality.count),
        "can run": str(quality.runnable),
        "Spearman": f"{quality.spearman:.2f}",
        "of runnable": f"{quality.spearman_runnable:.2f}",
        "regret %": f"{quality.top1_regret:.1f}",
        **{f"best {part} %": f"{left:.1f}" for part, left in kept.items()},
        "MAPE": f"{quality.mape:.1f}",
        "bias": f"{quality.bias:+.1f}",
    }
