"""What `dse batch` prints: the problems it would evaluate, and how long each step takes."""

import shlex
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ..text import seconds_text, table

if TYPE_CHECKING:
    from ..batch import BatchResult, Plan


def plan_text(plan: "Plan") -> str:
    """The problems, a line each, and how much work they are."""
    shown = [
        {
            "step": step_text(row.step),
            "name": row.name,
            "kernel": row.kernel,
            "shape": row.shape,
            "dtype": row.dtype,
            "choices": row.choices_text,
            "count": f"{row.count:g}",
        }
        for row in plan.rows
    ]
    lines = [table(shown, left=("step", "name", "kernel", "shape", "dtype", "choices")), ""]
    lines.append(plan.work_text)
    return "\n".join([*lines, *plan.notes])


def plan_as_dict(plan: "Plan") -> dict[str, Any]:
    """The problems as plain values, for JSON."""
    rows = [{**asdict(row), "choices": dict(row.choices)} for row in plan.rows]
    return {
        "rows": rows,
        "gpus": plan.gpus,
        "notes": list(plan.notes),
        "problems": plan.cases,
        "candidates": plan.candidates,
    }


def step_text(step: Any) -> str:
    """A step in words: `llama3_70b decode tp 8, 64 x 4096 keys`."""
    if not step.model:
        return "all shapes"
    degrees = f"tp {step.tp}" + (f" ep {step.ep}" if step.ep > 1 else "")
    of = f"{step.tokens} tokens a prompt" if step.phase == "prefill" else f"{step.tokens} x {step.context} keys"
    return f"{step.model} {step.phase} {degrees}, {of}"


def result_text(result: "BatchResult") -> str:
    """How long each step takes on each GPU, what has no schedule, and where the files are."""
    from ..batch import Step

    lines: dict[Step, dict[str, str]] = {}
    for entry in result.steps:
        step = Step(*(entry[name] for name in Step.__dataclass_fields__))
        line = lines.setdefault(step, {"step": step_text(step), "problems": str(entry["problems"])})
        seconds, missing = entry["seconds"], f"{entry['missing']} missing"
        line[entry["gpu"]] = missing if seconds is None else seconds_text(seconds)
    text = [table(list(lines.values()), left=("step",)), "", "time: sum of count x latency of the best schedules"]
    for lost in result.none_fits[:10]:
        text.append(f"no schedule can run {lost['name']} ({lost['kernel']} {lost['shape']}) on {lost['gpu']}")
    if len(result.none_fits) > 10:
        text.append(f"... and {len(result.none_fits) - 10} more")
    run = result.run
    if run and not run.get("problems_now"):
        text.append(f"already finished, {run['problems']:,} of {run['problems']:,} problem(s): nothing was evaluated")
    if run.get("candidates_now"):
        rate = run["candidates_now"] / max(run["seconds"], 1e-9)
        text.append(
            f"{run['problems_now']} problems, {run['candidates_now']:,} points in {run['seconds']:.1f} s, "
            f"{rate / 1e6:.1f} M points/s; {run['evaluated_now']:,} evaluated, the others fit no GPU whatever the size"
        )
    folder = shlex.quote(str(result.folder))
    text.append(f"written to {result.folder}/best (Parquet); next: dse query {folder}")
    return "\n".join(text)


def as_dict(result: "BatchResult", plan: "Plan") -> dict[str, Any]:
    """A batch as plain values, for JSON: steps, what has no schedule, and the fastest schedule of every problem."""
    best = result.best
    return {
        "folder": str(result.folder),
        "gpus": list(result.question["gpus"]),
        "notes": list(plan.notes),
        **result.run,
        "steps": result.steps,
        "none_fits": result.none_fits,
        "best": [
            {name: value for name, value in row.items() if value is not None and value == value}
            for row in best[best["rank"] == 0].to_dict("records")
        ],
    }
