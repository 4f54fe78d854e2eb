"""What `dse search` says: the best, the front, and how close the search came where the exhaustive answer is known."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..kernels.registry import get_kernel
from ..representatives import representatives
from ..text import what_if_lines

if TYPE_CHECKING:
    import pandas as pd

    from ..search import Quality, SearchResult

SHOWN_ROWS = 12  # of a front


def as_text(result: "SearchResult") -> str:
    """The answer for people."""
    job = result.job
    lines = [
        f"{get_kernel(job.space.kernel).title} {job.problem_name} on {job.gpu_name}, space {job.space.name}: "
        f"{job.space.size:,} points",
        *what_if_lines(job.gpu_changes, job.clock),
        *(f"limit     {limit.name} at most {limit.most:g}" for limit in result.goals.limits),
        f"{len(result.trials):,} trials with {result.sampler}, seed {result.seed}: {result.feasible:,} "
        f"{'can run' if not result.goals.limits else 'are allowed'}, {result.seconds:.1f} s"
        + (f", {result.evaluations:,} evaluations" if result.evaluations != len(result.trials) else ""),
        "",
    ]
    if not len(result.best):
        fix = "raise a limit, or try more" if result.goals.limits else "restrict the space, or try more"
        what = "is allowed" if result.goals.limits else "can run"
        return "\n".join([*lines, f"no trial {what}: {fix}"])
    columns = result.goals.columns()
    lines += [f"the best {len(result.best)} by {result.goals.objectives[0]}", _table(result, result.best, columns)]
    if len(columns) > 1:
        lines += ["", *_front_lines(result, columns)]
    lines += ["", *quality_lines(result.quality, result.compared)]
    for name in result.constant_objectives:
        lines.append(f"{name} is the same in all trials that are allowed: as an objective it decides nothing")
    if result.quality is None:
        lines.append("a search samples: the best may have been missed; dse sweep looks at every schedule")
    return "\n".join(lines)


def quality_lines(quality: "Quality | None", compared: str) -> list[str]:
    """Regret and hypervolume in words."""
    if quality is None:
        return [compared] if compared != "not compared" else []
    near = quality.trials_to_1_percent
    lines = [
        f"compared with {compared}: the best found is {100 * quality.regret:.2f} % above the true best; within 1 % "
        + (f"after {near:,} trials" if near else "never")
    ]
    if len(quality.reference) > 1:
        most = quality.trials_to_99_percent
        lines.append(
            f"hypervolume {100 * quality.hypervolume_share:.2f} % of the exhaustive front's; 99 % "
            + (f"after {most:,} trials" if most else "not reached")
        )
    return lines


def as_dict(result: "SearchResult") -> dict[str, Any]:
    """The answer for programs."""
    from .show import about_job

    return about_job(result.job) | {
        "objectives": list(result.goals.objectives),
        "limits": {limit.name: limit.most for limit in result.goals.limits},
        "sampler": result.sampler,
        "seed": result.seed,
        "trials": len(result.trials),
        "feasible": result.feasible,
        "evaluations": result.evaluations,
        "seconds": result.seconds,
        "asking_s": result.asking_s,
        "incomplete": result.incomplete,
        "quality": result.quality.to_dict() if result.quality else None,
        "compared": result.compared,
        "constant_objectives": result.constant_objectives,
        "best": result.best,
        "front": result.front,
    }


def _front_lines(result: "SearchResult", columns: Sequence[str]) -> list[str]:
    about = f"front of the trials over {', '.join(result.goals.objectives)}"
    rows = result.front.drop_duplicates(list(columns))
    if len(rows) <= SHOWN_ROWS:
        return [about, _table(result, result.front.head(SHOWN_ROWS), columns)]
    chosen = representatives(rows[list(columns)], SHOWN_ROWS)
    return [
        f"{about}: {SHOWN_ROWS} of its {len(result.front):,} points (--json has all, --out every trial)",
        _table(result, rows.iloc[list(chosen.places)], columns),
        chosen.sentence(),
    ]


def _table(result: "SearchResult", rows: "pd.DataFrame", objectives: Sequence[str]) -> str:
    from .show import schedule_rows

    gpu = [str(name) for name in rows if str(name).startswith("gpu.")]
    more = [name for name in objectives if name not in ("latency_s", "ddr_bytes", *gpu)]
    if "index" in rows:
        return schedule_rows(rows, [*more, *gpu], kernel=result.job.space.kernel)
    shown = [
        *dict.fromkeys(("latency_s", *more, *gpu)),
        *(str(name) for name in rows if str(name).startswith("latency_s ")),
    ]
    return rows[shown].to_string(index=False, float_format=lambda value: f"{value:.4g}")
