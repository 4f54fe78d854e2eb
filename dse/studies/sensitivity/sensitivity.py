"""Sensitivity of schedules to their machine: elasticities of one schedule, of the tuned ones of a list of shapes, or of
every schedule of a front; and what 10 % of a number buys where schedules are tuned anew.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ...fitting import fitting
from ...job import as_float32
from ...platform import configure_jax
from ...progress import Progress
from ...schedule_words import words_of
from ...tuning import tune
from ..cases import Case
from .elasticities import COLUMNS, KINK, Elasticities, central, elasticities_of
from .gpu_numbers import LESS_IS_BETTER, moved, ranges, ten_percent
from .precise_costs import make_rows, number_names

if TYPE_CHECKING:
    import pandas as pd

CASE_COLUMNS: dict[str, tuple[str, str]] = {
    "case": ("text", "name of the shape, or place in the front"),
    "shape": ("text", "MxNxK or BATCHxMxNxK"),
    "gpu": ("text", "GPU file"),
    "share": ("1", "how much the case counts in the whole"),
    "latency_s": ("s", "latency of the schedule"),
    "bound": ("text", "what binds it"),
    "schedule": ("text", "the schedule"),
    "retuned_buys_10": ("1", "latency saved by 10 % of it in the better direction with the schedule tuned anew"),
}
TOTAL_COLUMNS: dict[str, tuple[str, str]] = {
    "least": ("1", "smallest elasticity of a case"),
    "most": ("1", "largest elasticity of a case"),
}


SUMMED = (
    *("elasticity_up", "elasticity_down", "change_plus_10", "change_minus_10"),
    *("buys_10", "change_step", "retuned_buys_10"),
)


@dataclass(frozen=True, eq=False)
class Sensitivity:
    """Elasticities of one or more schedules, and of the whole.

    Attributes:
        cases: what was asked.
        found: one `Elasticities` a case.
        shares: float64[cases], how much each counts in the whole; they add up to 1.
        whole: one row a number like a case's table, without what only a case has: of shapes the elasticity of the
            total time (each latency times its weight), of a front the mean of its schedules.
    """

    cases: tuple[Case, ...]
    found: tuple[Elasticities, ...]
    shares: np.ndarray
    whole: "pd.DataFrame"

    @property
    def table(self) -> "pd.DataFrame":
        """One row a (case, number), with the columns `CASE_COLUMNS` and those of the elasticities."""
        import pandas as pd

        parts = []
        for case, found, share in zip(self.cases, self.found, self.shares, strict=True):
            about = {"case": case.name, "shape": case.job.problem_name, "gpu": case.job.gpu_name, "share": share}
            text = words_of(case.job.space.kernel).format(found.schedule)
            about |= {"latency_s": found.latency_s, "bound": found.bound, "schedule": text}
            parts.append(found.table.assign(**about)[[*about, *found.table.columns]])
        return pd.concat(parts, ignore_index=True)


def sensitivity(
    cases: Sequence[Case],
    *,
    mean: bool = False,
    bottlenecks: bool = True,
    retune: bool = False,
    progress: Progress = None,
) -> Sensitivity:
    """Elasticities of every case and of the whole.

    Args:
        cases: at least one.
        mean: the whole is the plain mean (of a front's schedules); False: it is the weighted total time.
        bottlenecks: whether the distance to the next bottleneck is looked for.
        retune: whether what 10 % of a number buys is found with the schedule tuned anew as well: every schedule of each
            case's space is evaluated some 45 times.
        progress: of re-tuning, as in `dse.sweep.run_sweep`.

    Raises:
        UserError: a schedule that cannot run.
    """
    import jax

    found: list[Any] = [None] * len(cases)
    # what one problem has and another lacks (scales of narrow types) makes another record
    kinds = [jax.tree.structure(case.job.problem.arrays()) for case in cases]
    for kind in dict.fromkeys(kinds):
        places = [place for place, own in enumerate(kinds) if own == kind]
        jobs = [cases[place].job for place in places]
        group = elasticities_of(
            [job.problem for job in jobs],
            [cases[place].schedule for place in places],
            [job.gpu for job in jobs],
            bottlenecks=bottlenecks,
            clock=cases[0].job.clock,
        )
        for place, entry in zip(places, group, strict=True):
            found[place] = entry
    if retune:
        found = [with_retuned(case, entry, progress) for case, entry in zip(cases, found, strict=True)]
    times = np.array([1.0 if mean else case.weight * entry.latency_s for case, entry in zip(cases, found, strict=True)])
    shares = times / times.sum()
    return Sensitivity(tuple(cases), tuple(found), shares, whole_of(found, shares))


def with_retuned(case: Case, entry: Elasticities, progress: Progress = None) -> Elasticities:
    """The elasticities with the column `retuned_buys_10`: every schedule of the job's space is evaluated with each
    number 10 % better, and the fastest is compared with the fastest of the GPU as it is.

    Empty where a number is off or stands at the end of its range.
    """
    configure_jax()
    job = case.job
    table = entry.table
    rows = make_rows([job.problem], [case.schedule], [job.gpu], job.space.kernel)
    names = np.array(number_names(rows.gpu), object)
    values = np.array([float(getattr(rows.gpu, name)[0]) for name in names])
    ends = ranges(rows.gpu, names)
    sign = np.where([name in LESS_IS_BETTER for name in names], -1.0, 1.0)
    better = np.where(sign > 0, *(ten_percent(names, values, way, *(end[0] for end in ends)) for way in (1.0, -1.0)))
    asked = np.flatnonzero((values != 0.0) & (better != values))
    changed = moved(rows.take(np.zeros(len(asked), int)), names[asked], better[asked])
    gpus = [job.gpu, *(_record(changed.gpu, place) for place in range(len(asked)))]
    schedules = fitting(job.space, [job.problem], gpus)
    latency_s = tune(schedules, [(job.problem, gpu) for gpu in gpus], progress).latency_s.astype(np.float64)
    saved = dict(zip(names[asked], 1.0 - latency_s[1:] / latency_s[0], strict=True))
    return replace(entry, table=table.assign(retuned_buys_10=[saved.get(name, np.nan) for name in table["number"]]))


def whole_of(found: Sequence[Elasticities], shares: np.ndarray) -> "pd.DataFrame":
    """The elasticities of a sum of which each case is a share; changes of latency likewise.

    A number that is a kink for one case is one for the whole, unless both sides of the whole agree.
    """
    import pandas as pd

    tables = [entry.table.set_index("number") for entry in found]
    first, names = tables[0], tables[0].index
    tables = [table.loc[names] for table in tables]
    kinds = np.stack([table["kind"].to_numpy(str) for table in tables])
    off_for_some = (kinds == "zero") & ~(kinds == "zero").all(axis=0)
    each = np.stack([central(table).to_numpy(float) for table in tables])
    columns = {}
    for name in (name for name in SUMMED if name in first.columns):
        values = np.stack([table[name].to_numpy(float) for table in tables])
        columns[name] = shares @ np.where(off_for_some, 0.0, values)
    exact = np.isin(kinds, ("smooth", "kink")) | off_for_some
    kink = (kinds == "kink").any(axis=0)
    kink &= np.abs(columns["elasticity_up"] - columns["elasticity_down"]) > KINK
    smooth = exact.all(axis=0) & ~kink
    whole = pd.DataFrame(
        {
            "number": names,
            "value": first["value"].to_numpy(),
            **{name: first[name].to_numpy() for name in ("unit", "file", "better", "step")},
            "kind": np.where(kink, "kink", np.where(smooth, "smooth", first["kind"].to_numpy(str))),
            "elasticity": np.where(smooth, shares @ each, np.nan),
            **columns,
            "least": each.min(axis=0),
            "most": each.max(axis=0),
        }
    )
    sides = whole[["elasticity", "elasticity_up", "elasticity_down"]].abs().max(axis=1).fillna(0.0)
    whole["size"] = sides
    order = [name for name in (*COLUMNS, *TOTAL_COLUMNS, "retuned_buys_10") if name in whole.columns]
    return whole[order].sort_values(["size", "buys_10"], ascending=False, kind="stable", ignore_index=True)


def _record(gpu: Any, place: int) -> Any:
    import jax

    return as_float32(jax.tree.map(lambda leaf: leaf[place], gpu))
