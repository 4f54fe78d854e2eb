"""What a sweep found, as a value."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .histogram import Histogram
from .job import SweepJob
from .machines import Machine
from .trust import TrustLabel

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class SweepResult:
    """What a sweep found.

    Attributes:
        job: what was asked.
        top: the best by `job.rank_by`, ascending, ties by index: at least `job.top` rows where so many are feasible,
            more where several tie with the last. Columns as `dse.rows.evaluate_rows`,
            and `dse.columns.TRUST_COLUMNS` where there are residuals.
        front: the exact non-dominated front over `job.objectives`, sorted by them in order.
        declared: points of the space.
        evaluated: points of it that were evaluated.
        skipped: points of it that were not, because their lower bounds cannot be among the best or on the front; 0
            unless the job is pruned. `feasible`, `reasons` and `histogram` cover what was evaluated.
        feasible: of the points evaluated, those that can run.
        reasons: why the others cannot: name of the reason -> points, most frequent first.
        histogram: feasible points by latency.
        top_ties: points that tie with the last of the best, kept or not.
        top_ties_dropped, front_ties_dropped: points left out of `top` and `front` because more than `job.tie_limit`
            tie with one that is there.
        front_points: points on the front, kept or not.
        seconds: wall time of the evaluation.
        rate: candidates evaluated or skipped a second, in this run.
        incomplete: whether an interrupt ended the sweep early; `top` and `front` then hold for what was evaluated.
        next_index: the first index that was not evaluated; None where all were.
        executor: its name and number of workers.
        folder: where the results were written; None: nowhere.
        trust: what the intervals in the tables come from, and what they extrapolate; None: there are none.
        machines: the kinds of machines that evaluated it; values of several agree to `dse.machines.MIX_TOLERANCE`.
    """

    job: SweepJob
    top: "pd.DataFrame"
    front: "pd.DataFrame"
    declared: int
    evaluated: int
    feasible: int
    reasons: dict[str, int]
    histogram: Histogram
    top_ties: int
    top_ties_dropped: int
    front_ties_dropped: int
    front_points: int
    seconds: float
    rate: float
    incomplete: bool
    next_index: int | None
    executor: str
    folder: str | None = None
    trust: TrustLabel | None = None
    skipped: int = 0
    machines: tuple[Machine, ...] = ()
