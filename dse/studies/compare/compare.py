"""Two kernels of one problem, side by side, and their difference in time attributed term by term.

Two schedules on one machine, one schedule on two machines, or each machine's own schedule. By phase the difference is
a subtraction. By cause it is a Shapley value over the groups in which the two differ (`causes.py`): what changing the
group adds, in the mean over all orders in which one kernel can be turned into the other. That needs every mixture of
the two, also ones that could not run, e.g. a large tile with the stages of a small one; the model has a cost for them
too, and how many there were is said.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ...any_order import one_order
from ...columns import code_names
from ...content.dtypes import default_accumulator
from ...errors import UserError
from ...infeasible import why_not
from ...text import byte_text, seconds_text
from ..cases import Case
from ..sensitivity.next_bottleneck import WORDS
from ..sensitivity.precise_costs import precise_costs
from .causes import Cause, causes_of, mixtures, one_row
from .shapley import shapley_values

if TYPE_CHECKING:
    import pandas as pd

PHASES = ("prologue_s", "steady_s", "epilogue_s", "tail_s", "reduction_s", "launch_s", "helpers_s")
COMMUNICATION = "communication_s"  # a further phase of kernels that communicate
SAME = 5e-5  # relative difference of two latencies that are one in four digits
WORTH_A_WORD = 0.1  # share of the largest credit from which a cause is named in the sentence


@dataclass(frozen=True, eq=False)
class Comparison:
    """Two kernels and where their difference comes from. Differences are B less A, in seconds.

    Attributes:
        a, b: the kernels.
        costs_a, costs_b: cost column -> number, in float64, and the words for its codes.
        by_phase: one row a phase: `phase`, `a_s`, `b_s`, `difference_s`; the differences add up to the latencies'.
        by_cause: one row a cause, the largest first: `cause`, `change` in words, `difference_s`, and one column a phase
            (`PHASES`, and `COMMUNICATION` where they communicate): rows add up to `difference_s`, columns to the
            phase's difference.
        mixtures, impossible: kernels evaluated for the causes, and how many of them could not run.
    """

    a: Case
    b: Case
    costs_a: dict[str, Any]
    costs_b: dict[str, Any]
    by_phase: "pd.DataFrame"
    by_cause: "pd.DataFrame"
    mixtures: int
    impossible: int

    @property
    def difference_s(self) -> float:
        """Latency of B less that of A."""
        return self.costs_b["latency_s"] - self.costs_a["latency_s"]

    @property
    def sentence(self) -> str:
        """Why the faster of the two is faster."""
        return _sentence(self)


def compare(a: Case, b: Case) -> Comparison:
    """Compares two kernels.

    Args:
        a, b: problem, GPU and schedule of each (`dse.studies.sensitivity.sensitivity.Case`).

    Raises:
        UserError: the problems differ, or a schedule cannot run on its machine.
    """
    import pandas as pd

    if a.job.problem != b.job.problem:
        raise UserError(
            f"A is {_problem(a)} and B is {_problem(b)}: two kernels are compared on one problem; give the same shape "
            "and types to both"
        )
    problem = a.job.problem
    plans = [one_order(side.schedule, problem)[0] for side in (a, b)]
    rows_a, rows_b = (one_row(problem, plan, side.job.gpu) for plan, side in zip(plans, (a, b), strict=True))
    causes = causes_of(plans[0], a.job.gpu, plans[1], b.job.gpu, problem.kernel)
    costs = precise_costs(mixtures(rows_a, rows_b, causes))
    ends = [{name: values[place] for name, values in costs.items()} for place in (0, -1)]
    for letter, side, plan, end in zip("AB", (a, b), plans, ends, strict=True):
        if int(end["reason"]):
            why = why_not(problem, plan, end, side.job.gpu)
            raise UserError(f"{letter} cannot run {problem.shape} on {side.job.gpu_name}: {why}")
    phases = (*PHASES, COMMUNICATION) if COMMUNICATION in costs else PHASES
    credits = shapley_values(np.stack([costs["latency_s"], *(costs[name] for name in phases)], axis=1))
    named = [{**end, **{name: words[0] for name, words in code_names(_arrays(end)).items()}} for end in ends]
    return Comparison(
        a,
        b,
        *named,
        by_phase=pd.DataFrame(
            {
                "phase": [name.removesuffix("_s") for name in phases],
                "a_s": [ends[0][name] for name in phases],
                "b_s": [ends[1][name] for name in phases],
                "difference_s": [ends[1][name] - ends[0][name] for name in phases],
            }
        ),
        by_cause=_by_cause(causes, credits, phases),
        mixtures=len(costs["reason"]),
        impossible=int(np.count_nonzero(costs["reason"])),
    )


def _by_cause(causes: tuple[Cause, ...], credits: np.ndarray, phases: tuple[str, ...]) -> "pd.DataFrame":
    import pandas as pd

    columns = {
        "cause": [cause.name for cause in causes],
        "change": [cause.change for cause in causes],
        **{name: credits[:, place] for place, name in enumerate(("difference_s", *phases))},
    }
    table = pd.DataFrame(columns)
    return table.iloc[np.argsort(-np.abs(credits[:, 0]), kind="stable")].reset_index(drop=True)


def _arrays(costs: dict[str, Any]) -> dict[str, np.ndarray]:
    return {name: np.array([value]) for name, value in costs.items()}


def _problem(case: Case) -> str:
    return case.job.problem.described(case.accumulator or default_accumulator(case.job.problem.dtype))


def _sentence(found: Comparison) -> str:
    a_s, b_s = found.costs_a["latency_s"], found.costs_b["latency_s"]
    if abs(b_s - a_s) <= SAME * a_s:
        return f"A and B take the same time, {seconds_text(a_s)}."
    sign = 1.0 if b_s > a_s else -1.0  # of a credit that favours the faster one
    fast, slow = ("A", "B") if sign > 0 else ("B", "A")
    quick, slack = (found.costs_a, found.costs_b) if sign > 0 else (found.costs_b, found.costs_a)
    head = (
        f"{fast} is {slack['latency_s'] / quick['latency_s']:.3f} times as fast as {slow} "
        f"({seconds_text(quick['latency_s'])} against {seconds_text(slack['latency_s'])})"
    )
    rows = [(row["cause"], sign * row["difference_s"]) for row in found.by_cause.to_dict("records")]
    least = WORTH_A_WORD * max(abs(saved) for _, saved in rows)
    gains = [f"its {name} {_verb('save', name)} {seconds_text(saved)}" for name, saved in rows if saved >= least]
    losses = [f"its {name} {_verb('cost', name)} {seconds_text(-saved)}" for name, saved in rows if -saved >= least]
    parts = [f"{head}: " + ", but ".join(" and ".join(each) for each in (gains, losses) if each)]
    parts += _what_changed(fast, slow, quick, slack)
    return "; ".join(parts) + "."


def _verb(verb: str, name: str) -> str:
    return verb if name.endswith("s") or " and " in name else f"{verb}s"


def _what_changed(fast: str, slow: str, quick: dict[str, Any], slack: dict[str, Any]) -> list[str]:
    parts = []
    if quick["bound_name"] != slack["bound_name"]:
        parts.append(f"{slow} is bound by {WORDS[slack['bound_name']]}, {fast} by {WORDS[quick['bound_name']]}")
    less = slack["ddr_bytes"] - quick["ddr_bytes"]
    if abs(less) > 0.1 * quick["ddr_bytes"]:
        parts.append(f"{fast} moves {byte_text(abs(less))} {'less' if less > 0 else 'more'} through DDR")
    return parts
