"""A portfolio in words."""

import math
from typing import TYPE_CHECKING

from ..text import table

if TYPE_CHECKING:
    from ..studies.portfolio.dispatch import Loss
    from ..studies.portfolio.study import Portfolio

ROWS_MAX = 80  # lines of the dispatch table that are printed


def portfolio_text(found: "Portfolio") -> str:
    """What was chosen, how good it is, which shape goes where, and the rule."""
    from ..studies.portfolio.files import kernel_table
    from ..studies.portfolio.rule_text import rule_text

    letters = _letters(len(found.kernel_names))
    lines = [found.title, *found.questions[0].what_if, _source(found)]
    if found.skipped:
        lines.append(f"left out, as no schedule runs them: {', '.join(found.skipped)}")
    lines += ["", _verdict(found), "", _curve(found), ""]
    rows = [
        {
            "": letter,
            "kernel": str(row["kernel"]),
            "shapes": str(row["shapes"]),
            "weight": f"{100 * row['weight']:.1f} %",
        }
        for letter, row in zip(letters, kernel_table(found).to_dict("records"), strict=True)
    ]
    lines += [table(rows, left=("", "kernel")), "", _dispatch(found, letters), ""]
    lines += ["the rule:", rule_text(found.rule.tree, letters, "  "), "", *_losses(found)]
    return "\n".join(lines)


def _source(found: "Portfolio") -> str:
    if found.counted == "schedules":
        return f"{found.source}: {found.kernel_count:,} schedules"
    what = "candidates" if found.variants.labels else "schedules that can run"
    return f"{found.source}: {found.schedule_count:,} {what}, {found.kernel_count:,} compiled kernels"


def _verdict(found: "Portfolio") -> str:
    from ..studies.portfolio.choice import value_of

    choice = found.choice
    used = len(found.kernel_names)
    what = found.counted if used > 1 else found.counted.removesuffix("s")
    values = f"mean regret {_percent(choice.mean)}, worst {_percent(choice.worst)} ({_worst_shape(found)})"
    lines = [f"{used} {what}: {values}"]
    value, name = value_of(choice, found.regret), found.regret
    if choice.proven:
        none = "no other one has" if choice.count == 1 else f"no {choice.count} have"
        lines.append(f"proven: {none} a smaller {name} regret")
    else:
        none = "no one has" if choice.count == 1 else f"no {choice.count} have"
        lines.append(f"{none} a {name} regret below {_percent(choice.bound)}, {_percent(value)} is reached")
    return "\n".join(lines)


def _curve(found: "Portfolio") -> str:
    rows = [
        {
            found.counted: f"{at.count}{' *' if at.count == found.choice.count else '  '}",
            "mean regret": _percent(at.mean),
            "worst": _percent(at.worst),
            f"no {found.regret} below": "proven" if at.proven else _percent(at.bound),
        }
        for at in found.curve
    ]
    return table(rows)


def _dispatch(found: "Portfolio", letters: list[str]) -> str:
    rows = [
        {
            "shape": name,
            "MxNxK": problem.shape,
            "": letters[row.kernel],
            "run time": row.run_time,
            "latency us": f"{row.latency_s * 1e6:.2f}",
            "fastest": f"{row.best_s * 1e6:.2f}",
            "regret": _percent(row.regret),
        }
        for name, problem, row in zip(found.names, found.problems, found.dispatch, strict=True)
    ]
    if all(row["shape"] == row["MxNxK"] for row in rows):
        rows = [{key: value for key, value in row.items() if key != "shape"} for row in rows]
    text = table(rows[:ROWS_MAX], left=("shape", "MxNxK", "", "run time"))
    more = len(rows) - ROWS_MAX
    return text if more <= 0 else f"{text}\n{more} more: --out DIR writes them all"


def _losses(found: "Portfolio") -> list[str]:
    rule = found.rule
    lines = [
        f"rule, run-time parameters chosen a shape: {_loss(rule.listed)}",
        f"rule, with those of its leaves:           {_loss(rule.fixed)}",
    ]
    if rule.held_out:
        lines.append(f"rule on held-out shapes of the list:      {_loss(rule.held_out)}")
    if rule.between and rule.portfolio_between:
        lines.append(f"rule on {rule.between.shapes:>3} shapes between:              {_loss(rule.between)}")
        lines.append(f"portfolio there, each with its best:      {_loss(rule.portfolio_between)}")
    return lines


def _loss(loss: "Loss") -> str:
    return f"mean {_percent(loss.mean)}, worst {_percent(loss.worst)}"


def _worst_shape(found: "Portfolio") -> str:
    return max(zip(found.dispatch, found.names, strict=True), key=lambda pair: pair[0].regret)[1]


def _letters(count: int) -> list[str]:
    return [chr(ord("A") + at) if count <= 26 else f"K{at + 1}" for at in range(count)]


def _percent(share: float) -> str:
    return f"{100 * share:.2f} %" if math.isfinite(share) else "cannot run all"
