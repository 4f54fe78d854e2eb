"""What `dse search` says: the best, the front, and how close the search came where the exhaustive answer is known."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..content.gpu_fields import FIELDS
from ..content.overrides import CLOCK
from ..kernels.registry import get_kernel
from ..representatives import representatives
from ..text import quantity_text, table, what_if_lines

if TYPE_CHECKING:
    import pandas as pd

    from ..search import Quality, SearchResult

SHOWN_ROWS = 12  # of a front


def as_text(result: "SearchResult", asked: int | None = None) -> str:
    """The answer for people.

    Args:
        result: what was found.
        asked: how many trials were wanted; None: as many as there are.
    """
    job = result.job
    lines = [
        f"{get_kernel(job.space.kernel).title} {job.problem_name} on {job.gpu_name}, space {job.space.name}: "
        f"{job.space.size:,} points",
        *what_if_lines(job.gpu_changes, job.clock),
        *(f"limit     {limit.name} at most {limit.most:g}" for limit in result.goals.limits),
        f"{len(result.trials):,} trials with {result.sampler}{_why(result)}, seed {result.seed}: {result.feasible:,} "
        f"{'can run' if not result.goals.limits else 'are allowed'}, {result.seconds:.1f} s"
        + (f", {result.evaluations:,} evaluations" if result.evaluations != len(result.trials) else ""),
        *_file_lines(result, asked),
        *_now_lines(result),
        "",
    ]
    if not len(result.best):
        fix = "raise a limit, or try more" if result.goals.limits else "restrict the space, or try more"
        what = "is allowed" if result.goals.limits else "can run"
        return "\n".join([*lines, f"no trial {what}: {fix}"])
    columns = result.goals.columns()
    lines += [
        f"the best {len(result.best)} by {result.goals.objectives[0]}{_gain(result)}",
        _table(result, result.best, columns),
    ]
    if len(columns) > 1:
        lines += ["", *_front_lines(result, columns)]
    lines += ["", *quality_lines(result.quality, result.compared)]
    for name in result.constant_objectives:
        lines.append(f"{name} is the same in all trials that are allowed: as an objective it decides nothing")
    if result.quality is None:
        lines.append("a search samples: the best may have been missed; dse sweep looks at every schedule")
    return "\n".join(lines)


def _why(result: "SearchResult") -> str:
    choice = result.choice
    return f" (chosen, --sampler names another: {choice.why})" if choice.why else ""


def _file_lines(result: "SearchResult", asked: int | None) -> list[str]:
    """What of the trials a file held, and what other processes added to it."""
    done = len(result.trials)
    wanted = done if asked is None else asked
    if result.in_file and done == result.in_file:
        return [f"already {done:,} of {wanted:,} trials: nothing is added"] if done >= wanted else []
    parts = [f"{result.in_file:,} were in the file"] if result.in_file else []
    parts += [f"{result.others:,} are of other processes, added meanwhile"] if result.others else []
    own = done - result.in_file - result.others
    return [f"of them {', '.join([*parts, f'{own:,} are of this process'])}"] if parts else []


def _now_lines(result: "SearchResult") -> list[str]:
    """The GPU as it is, to read the gain by."""
    gpus = any(str(name).startswith("gpu.") for name in result.trials)
    what = f"{result.job.gpu_name} {'as set' if result.job.gpu_changes else 'unchanged'}"
    if result.now is None:
        return [f"now: not known for {what}: no preset that is swept at once, or nothing runs"] if gpus else []
    if not math.isfinite(result.now["latency_s"]):
        return [f"now: no schedule can run on {what}"]
    values = [f"{result.now['latency_s'] * 1e6:.2f} us"]
    values += [f"{name} {value:.4g}" for name, value in result.now.items() if name != "latency_s"]
    return [f"now: {', '.join(values)} on {what}, with {result.now_how}"]


def _gain(result: "SearchResult") -> str:
    first = result.goals.objectives[0]
    now = (result.now or {}).get(first, math.nan)
    if not (math.isfinite(now) and now > 0):
        return ""
    return f": the first has {float(result.best[result.goals.columns()[0]].iloc[0]) / now:.4g} times what it is now"


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
        "sampler_by": result.choice.by,
        "sampler_why": result.choice.why,
        "seed": result.seed,
        "trials": len(result.trials),
        "trials_in_file": result.in_file,
        "trials_of_others": result.others,
        "feasible": result.feasible,
        "evaluations": result.evaluations,
        "seconds": result.seconds,
        "asking_s": result.asking_s,
        "incomplete": result.incomplete,
        "now": dict(result.now) if result.now is not None else None,
        "now_with": result.now_how,
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
    found = rows.to_dict("records")
    numbers = [{name.removeprefix("gpu."): _number_text(name, row[name]) for name in gpu} for row in found]
    if "index" in rows:
        return schedule_rows(rows, more, kernel=result.job.space.kernel, before=numbers)
    own = [str(name) for name in rows if str(name).startswith("latency_s ")]
    cells = [
        {
            "#": str(place),
            **{name.replace("latency_s", "latency us"): f"{row[name] * 1e6:.2f}" for name in ("latency_s", *own)},
            **numbers[place],
            **{name: f"{row[name]:.6g}" for name in more},
        }
        for place, row in enumerate(found)
    ]
    return table(cells)


def _number_text(column: str, value: float) -> str:
    """`50 MB`, `4.8 TB/s`: a number of a GPU; one whose unit is a rate by the clock or a share stands alone."""
    name = column.removeprefix("gpu.")
    unit = "hertz" if name == CLOCK else FIELDS[name].unit if name in FIELDS else ""
    if unit in ("bytes", "bytes per SM", "bytes per CTA", "bytes per group"):
        return quantity_text(value, "bytes")
    return quantity_text(value, unit) if unit in ("bytes per second", "hertz", "seconds") else f"{value:.6g}"
