"""The folder of a portfolio: what a build, a dispatcher and a reader take."""

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...provenance import how_made, model_hash
from ...schedule_text import FIELDS
from ..answer_folder import write_table, write_text
from .choice import value_of
from .decision_tree import Leaf, Tree, leaves
from .dispatch import Loss
from .figure import knee
from .rule_text import c_source, python_source, rule_text
from .study import Portfolio

if TYPE_CHECKING:
    import pandas as pd

FILES = ("portfolio.json", "portfolio.parquet", "dispatch.csv", "rule.py", "rule.h", "rule.txt", "summary.json")
COLUMNS: dict[str, tuple[str, str]] = {  # of portfolio.parquet: column -> (unit, meaning)
    "kernel": ("text", "name of the compiled kernel"),
    "family": ("text", "instruction family"),
    "shapes": ("1", "shapes of the list that it runs"),
    "weight": ("1", "their share of the list's weight"),
    "schedule": ("text", "one of its schedules: that of the shape that counts most"),
}


def write_portfolio(found: Portfolio, folder: Path, command_line: str = "") -> None:
    """Writes all files.

    * portfolio.json: the schedules that the list runs, as `dse rank FILE` and other tools read candidates;
    * portfolio.parquet: a row a compiled kernel;
    * dispatch.csv: a row a shape: kernel, run-time parameters, latencies, regret;
    * rule.txt, rule.py, rule.h: the decision rule to read, to import and to compile;
    * summary.json: every number, and how it was made.

    Raises:
        UserError: a file cannot be written.
    """
    made = {"schema_version": 1, "model_hash": model_hash(), **how_made(command_line)}
    about = _about(found)
    write_text(folder / "portfolio.json", json.dumps(schedules(found), indent=1) + "\n")
    write_table(folder / "portfolio.parquet", kernel_table(found), _described, made)
    write_text(folder / "dispatch.csv", dispatch_frame(found).to_csv(index=False, lineterminator="\n"))
    write_text(folder / "rule.txt", rule_text(found.rule.tree, found.kernel_names) + "\n")
    source = python_source(about, found.rule, found.kernel_names, found.problems, found.dispatch)
    write_text(folder / "rule.py", source)
    write_text(folder / "rule.h", c_source(about, found.rule, found.kernel_names))
    write_text(
        folder / "summary.json", json.dumps(as_dict(found) | {"provenance": made}, indent=1, allow_nan=False) + "\n"
    )


def schedules(found: Portfolio) -> list[dict[str, Any]]:
    """The distinct schedules that the list runs, as candidates (`dse.candidates.read_candidates`)."""
    entries: dict[tuple[int, str], dict[str, Any]] = {}
    for shape, row in enumerate(found.dispatch):
        schedule = found.variants.schedule(shape, row.variant)
        fields = {name: schedule[name] for name in FIELDS}
        entries.setdefault((row.variant, row.schedule), {"family": found.variants.family[row.variant], **fields})
    return list(entries.values())


def dispatch_frame(found: Portfolio) -> "pd.DataFrame":
    """A row a shape."""
    import pandas as pd

    rows = []
    for name, problem, weight, row in zip(found.names, found.problems, found.weight, found.dispatch, strict=True):
        rows.append(
            {
                "name": name,
                "m": problem.m,
                "n": problem.n,
                "k": problem.k,
                "batch": problem.batch,
                "weight": weight,
                "kernel": found.kernel_names[row.kernel],
                "run_time": row.run_time,
                "latency_s": row.latency_s,
                "best_s": row.best_s,
                "regret": row.regret,
                "schedule": row.schedule,
            }
        )
    return pd.DataFrame(rows)


def kernel_table(found: Portfolio) -> "pd.DataFrame":
    """A row a kernel, the one that counts for most first."""
    import pandas as pd

    rows = []
    for kernel, name in enumerate(found.kernel_names):
        own = [shape for shape, row in enumerate(found.dispatch) if row.kernel == kernel]
        first = max(own, key=lambda shape: found.weight[shape])
        row = found.dispatch[first]
        schedule = found.variants.schedule(first, row.variant)
        share = float(found.weight[own].sum())
        family = found.variants.family[row.variant]
        rows.append(
            {"kernel": name, "family": family, "shapes": len(own), "weight": share, "schedule": row.schedule}
            | {field: schedule[field] for field in FIELDS}
        )
    return pd.DataFrame(rows)


def as_dict(found: Portfolio) -> dict[str, Any]:
    """Every number as plain values, for JSON."""
    rule, choice = found.rule, found.choice
    curve = found.curve
    values = [value_of(at, found.regret) for at in curve]
    losses = ("listed", "fixed", "held_out", "between", "portfolio_between")
    return {
        "title": found.title,
        "gpu": found.questions[0].gpu.name,
        "gpu_changes": list(found.questions[0].gpu.changes),
        "clock": found.questions[0].clock,
        "source": found.source,
        "counted": found.counted,
        "candidates": found.kernel_count,
        "schedules": found.schedule_count,
        "skipped": list(found.skipped),
        "regret": found.regret,
        "kernels": kernel_table(found)[list(COLUMNS)].to_dict("records"),
        "mean_regret": choice.mean,
        "worst_regret": choice.worst,
        "bound": choice.bound,
        "proven": choice.proven,
        "curve": [
            {"kernels": at.count, "mean": _finite(at.mean), "worst": _finite(at.worst), "proven": at.proven}
            | {"bound": _finite(at.bound)}
            for at in curve
        ],
        "knee": knee([at.count for at in curve], values),
        "dispatch": dispatch_frame(found).to_dict("records"),
        "rule": _tree(rule.tree, found.kernel_names),
        "rule_regret": {name: _loss(getattr(rule, name)) for name in losses},
    }


def _finite(regret: float) -> float | None:
    """JSON has no infinity: where a kernel is chosen that cannot run a shape there is no regret."""
    return regret if math.isfinite(regret) else None


def _tree(tree: Tree, names: tuple[str, ...]) -> dict[str, Any]:
    if isinstance(tree, Leaf):
        return {"kernel": names[tree.kernel], "shapes": len(tree.shapes)}
    sides = {"low": _tree(tree.low, names), "high": _tree(tree.high, names)}
    return {"feature": tree.feature, "threshold": tree.threshold, **sides}


def _loss(loss: Loss | None) -> dict[str, Any] | None:
    return None if loss is None else {"mean": _finite(loss.mean), "worst": _finite(loss.worst), "shapes": loss.shapes}


def _about(found: Portfolio) -> list[str]:
    rule = found.rule
    return [
        f"Which kernel runs a shape: tilesweep's prediction for {found.questions[0].gpu.name}.",
        "",
        f"{found.title}; {len(found.kernel_names)} of {found.kernel_count:,} {found.counted} of {found.source}.",
        f"Mean regret {100 * found.choice.mean:.2f} % with each shape's best of them, {100 * rule.listed.mean:.2f} % "
        f"by the rule, which has {sum(1 for _ in leaves(rule.tree))} leaves.",
    ]


def _described(column: str) -> tuple[str, str]:
    from ...columns import describe

    return COLUMNS.get(column) or describe(column)
