"""What a sensitivity says, as text."""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..kernels.registry import get_kernel
from ..schedule_words import words_of
from ..text import quantity_text, seconds_text, table, what_if_lines

if TYPE_CHECKING:
    import pandas as pd

    from ..studies.sensitivity.sensitivity import Sensitivity

MATTERS = 5e-4  # elasticity from which a number is shown, and ten times the change of the latency by 10 % of it
MOST_CASES = 40
COLUMNS_A_CASE = 5  # numbers that the table of cases has a column for


def sensitivity_text(found: "Sensitivity", everything: bool = False) -> str:
    """The question, the whole, and where there are several cases each of them."""
    from ..studies.sensitivity.next_bottleneck import WORDS

    lines = [case_title(found), *what_if_lines(found.cases[0].job.gpu_changes, found.cases[0].job.clock)]
    if len(found.cases) == 1:
        case, entry = found.cases[0], found.found[0]
        tuned = ", the fastest of its space" if case.tuned else ""
        lines += [f"schedule  {words_of(case.job.space.kernel).format(entry.schedule)}{tuned}"]
        lines += [f"latency   {seconds_text(entry.latency_s)}; {_binds(WORDS[entry.bound])}", ""]
        lines += _numbers(entry.table, everything)
    else:
        lines += ["", *_numbers(found.whole, everything), "", *_cases(found)]
    return "\n".join(lines + _notes(found))


def case_title(found: "Sensitivity") -> str:
    """One line for heads and figures."""
    job = found.cases[0].job
    problem = job.problem
    if len(found.cases) == 1:
        return f"{problem.title} on {job.gpu_name}, {job.space.family}"
    front = found.cases[0].name.startswith("front ")
    what = (
        f"the front of {get_kernel(problem.kernel).title} {problem.shape} {problem.dtype}"
        if front
        else f"{len(found.cases)} shapes"
    )
    return (
        f"{what} on {job.gpu_name}: {'mean of the schedules' if front else 'total time, each latency times its weight'}"
    )


def _numbers(rows: "pd.DataFrame", everything: bool) -> list[str]:
    change = rows[["change_plus_10", "change_minus_10"]].abs().max(axis=1).fillna(0.0)
    kept = rows if everything else rows[(rows["size"] >= MATTERS) | (10.0 * change >= MATTERS)]
    cells = [_cells(row) for row in kept.to_dict("records")]
    lines = [table(cells, left=("number", "until what binds changes"))]
    left = len(rows) - len(kept)
    return [*lines, f"{left} more matter less than {MATTERS:g} (--all)"] if left else lines


def _cells(row: Mapping[Any, Any]) -> dict[str, str]:
    cells = {
        "number": row["number"],
        "value": quantity_text(row["value"], row["unit"]),
        "elasticity": _elasticity(row),
    }
    if "least" in row:
        cells["of the cases"] = f"{_three(row['least'])} to {_three(row['most'])}"
    cells["10 % buys"] = _buys(row["buys_10"], row["better"])
    if "retuned_buys_10" in row:
        cells["re-tuned"] = _buys(row["retuned_buys_10"], row["better"])
    if "next" in row:
        cells["until what binds changes"] = row["next"]
    return cells


def _elasticity(row: Mapping[Any, Any]) -> str:
    if row["kind"] == "smooth":
        return _three(row["elasticity"])
    if row["kind"] == "zero":
        return "off"
    up, down = (
        _three(value) if math.isfinite(value) else "-" for value in (row["elasticity_up"], row["elasticity_down"])
    )
    return f"{up} up, {down} down, {row['kind']}"


def _three(value: float) -> str:
    return f"{value + 0.0:.3f}".replace("-0.000", "0.000")


def _buys(share: float, better: str) -> str:
    return "-" if math.isnan(share) else f"{100.0 * share:+.2f} % ({'+' if better == 'more' else '-'})"


def _cases(found: "Sensitivity") -> list[str]:
    from ..studies.sensitivity.elasticities import central

    names = list(found.whole["number"].head(COLUMNS_A_CASE))
    rows = []
    for case, entry, share in zip(found.cases[:MOST_CASES], found.found, found.shares, strict=False):
        of = dict(zip(entry.table["number"], central(entry.table), strict=True))
        rows.append(
            {
                "case": case.name,
                "latency": seconds_text(entry.latency_s),
                "share": f"{share:.1%}",
                "binds": entry.bound,
                **{name: _three(of[name]) for name in names},
                "schedule": words_of(case.job.space.kernel).format(entry.schedule),
            }
        )
    lines = [table(rows, left=("case", "binds", "schedule"))]
    left = len(found.cases) - len(rows)
    return [*lines, f"{left} more are in --json and -o"] if left else lines


def _notes(found: "Sensitivity") -> list[str]:
    kinds = set(found.whole["kind"])
    lines = ["", "10 % buys: latency saved by 10 % more (+) or less (-) of it, evaluated, the schedule kept"]
    if "kink" in kinds:
        lines.append("kink: more and less of it weigh differently, so that there is no derivative")
    if "count" in kinds:
        lines.append("count: taken whole, in waves and residents: over 10 % more, over 10 % less")
    return lines


def _binds(words: str) -> str:
    return f"{words} bind{'' if words.endswith('s') else 's'}"
