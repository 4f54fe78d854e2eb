"""What a comparison says, as text and as plain values."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..text import byte_text, seconds_text, table, what_if_lines

if TYPE_CHECKING:
    from ..studies.cases import Case
    from ..studies.compare.compare import Comparison

PIPELINES = ("tensor", "cuda", "smem", "l15", "l2", "ddr")
NOTHING = 5e-4  # share of the difference below which a term is left out of the text


def comparison_text(found: "Comparison") -> str:
    """What A and B are, the sentence, side by side, by phase, by cause."""
    a, b = found.a, found.b
    lines = [a.job.problem.title]
    lines += [line for letter, case in (("A", a), ("B", b)) for line in _side_lines(letter, case)]
    lines += ["", found.sentence, "", _side_by_side(found), "", _phases(found)]
    if len(found.by_cause):
        lines += ["", *_causes(found)]
    return "\n".join(lines)


def as_dict(found: "Comparison") -> dict[str, Any]:
    """Everything as plain values and pandas tables, for JSON."""
    sides = {
        letter: {
            "name": case.name,
            "gpu": case.job.gpu_name,
            "gpu_changes": list(case.job.gpu_changes),
            "clock": case.job.clock,
            "schedule": case.schedule_text,
            "costs": costs,
        }
        for letter, case, costs in (("a", found.a, found.costs_a), ("b", found.b, found.costs_b))
    }
    return {
        "shape": found.a.job.problem.shape,
        "dtype": found.a.job.problem.dtype,
        **sides,
        "difference_s": found.difference_s,
        "sentence": found.sentence,
        "by_phase": found.by_phase,
        "by_cause": found.by_cause,
        "mixtures": found.mixtures,
        "impossible": found.impossible,
    }


def _side_lines(letter: str, case: "Case") -> list[str]:
    tuned = ", the fastest of its space" if case.tuned else ""
    lines = [f"{letter}         {case.schedule_text} on {case.job.gpu_name}{tuned}"]
    return lines + [f"  {line}" for line in what_if_lines(case.job.gpu_changes, case.job.clock)]


def _side_by_side(found: "Comparison") -> str:
    left, right = _quantities(found.costs_a), _quantities(found.costs_b)
    return table([{"": name, "A": left[name], "B": right[name]} for name in left], left=("",))


def _quantities(costs: Mapping[str, Any]) -> dict[str, str]:
    return {
        "latency": seconds_text(costs["latency_s"]),
        "TFLOP/s": f"{costs['flop'] / costs['latency_s'] / 1e12:.1f}",
        "binds": str(costs["bound_name"]),
        "L2 hit": f"{costs['l2_hit']:.1%}",
        "L1.5 hit": f"{costs['l15_hit']:.1%}",
        "requested": byte_text(costs["l15_bytes"]),
        "through L2": byte_text(costs["l2_bytes"]),
        "DDR read": byte_text(costs["ddr_read_bytes"]),
        "DDR written": byte_text(costs["ddr_write_bytes"]),
        **{f"{name} busy": f"{costs[f'pipeline_{name}_s'] / costs['latency_s']:.1%}" for name in PIPELINES},
        "waves": f"{costs['waves']:.2f}",
        "SMs used": f"{costs['sms_used']:.0f}",
        "CTAs an SM": f"{costs['ctas_per_sm']:.0f} ({costs['occupancy_limiter_name']})",
        "registers a thread": f"{costs['registers_per_thread']:.0f}",
        "shared memory": byte_text(costs["smem_bytes"]),
        "workspace": byte_text(costs["workspace_bytes"]),
        "energy": f"{costs['energy_j']:.3g} J",
    }


def _phases(found: "Comparison") -> str:
    rows = [
        {
            "phase": row["phase"],
            "A": seconds_text(row["a_s"]),
            "B": seconds_text(row["b_s"]),
            "B - A": _signed(row["difference_s"]),
        }
        for row in found.by_phase.to_dict("records")
        if row["a_s"] or row["b_s"]
    ]
    a_s, b_s = found.costs_a["latency_s"], found.costs_b["latency_s"]
    rows.append(
        {"phase": "latency", "A": seconds_text(a_s), "B": seconds_text(b_s), "B - A": _signed(found.difference_s)}
    )
    return table(rows, left=("phase",))


def _causes(found: "Comparison") -> list[str]:
    from ..studies.compare.compare import COMMUNICATION, PHASES

    largest = found.by_cause["difference_s"].abs().max()
    known = [name for name in (*PHASES, COMMUNICATION) if name in found.by_cause]
    phases = [name for name in known if found.by_cause[name].abs().max() > NOTHING * largest]
    rows = [
        {
            "cause": row["cause"],
            "B - A": _signed(row["difference_s"]),
            **{name.removesuffix("_s"): _signed(row[name]) for name in phases},
            "A to B": row["change"],
        }
        for row in found.by_cause.to_dict("records")
    ]
    rows.append(
        {"cause": "sum", "B - A": _signed(found.by_cause["difference_s"].sum())} | dict.fromkeys(list(rows[0])[2:], "")
    )
    lines = [table(rows, left=("cause", "A to B"))]
    lines.append(f"each in the mean over all orders of changing A into B, {found.mixtures:,} mixtures")
    if found.impossible:
        lines[-1] += f", of which {found.impossible:,} could not run and have a cost all the same"
    return lines


def _signed(seconds: float) -> str:
    if abs(seconds) < 5e-13:
        return "0"
    return f"{'-' if seconds < 0 else '+'}{seconds_text(abs(seconds))}"
