"""What a what-if says, as text."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..text import quantity_text, table, what_if_lines

if TYPE_CHECKING:
    import pandas as pd

    from ..studies.what_if.knees import BoundMove, Curve
    from ..studies.what_if.study import Answer

MOST_ROWS = 16  # of a curve; longer ones are thinned out evenly
MOST_SHAPES = 40
NOTHING = 5e-5  # a relative change of the total that is none


def answer_text(answer: "Answer") -> str:
    """The question, then every axis (or every machine), then every shape where there are few machines."""
    study, found = answer.study, answer.found
    shapes = found.table["shape_name"].nunique()
    where = study.shapes if isinstance(study.shapes, str) else ", ".join(study.shapes)
    lines = [study.title] if study.title else []
    lines += [study.question] if study.question else []
    lines += [
        f"{answer.baseline.gpu.title} ({answer.baseline.gpu.name}), {shapes} shape{'s' if shapes > 1 else ''}: {where}"
    ]
    lines += what_if_lines(answer.baseline.gpu.changes, answer.baseline.clock)
    for name, (declared, fit) in found.spaces.items():
        lines.append(f"space {name}: {declared:,} schedules, {fit:,} fit some machine, all tuned over on every machine")
    if (found.table["weight"] != 1).any():
        lines.append("total: the sum over the shapes of latency times how often each runs (the list's count or weight)")
    if answer.curves:
        for curve in answer.curves:
            lines += ["", *curve_lines(curve)]
    else:
        lines += ["", _machines(answer)]
    if len(found.machines) <= 3:
        lines += ["", *_shape_lines(answer)]
    lines += _power_lines(answer)
    lines += ["", f"{found.evaluations / 1e6:,.1f} M schedules evaluated in {found.seconds:.1f} s"]
    lines.append("mm2 are assumed, first order (docs/area-and-power.md); speed-ups are predictions (docs/back-test.md)")
    return "\n".join(lines)


def _power_lines(answer: "Answer") -> list[str]:
    """What to make of watts above the power limit."""
    over = answer.found.totals[answer.found.totals["power_w"] > answer.found.totals["tdp_w"]]
    if not len(over):
        return []
    limit = f"{over['tdp_w'].iloc[0]:.0f}"
    return ["", f"W above the limit ({limit} W): kernels this short feel it in part; many in a row would clock lower"]


def curve_lines(curve: "Curve") -> list[str]:
    """One axis: its table, and its knees in words."""
    unit = curve.axis.unit
    follow = "".join(f", {name} with its power {power:g}" for name, power in curve.axis.follow.items())
    field = f"{curve.axis.field}, " if curve.axis.name else ""
    head = f"{curve.axis.title} ({field}now {quantity_text(curve.now, unit)}{follow})"
    rows = [_curve_row(row, curve) for row in curve.totals.to_dict("records")]
    shown = _thinned(rows, [row["machine"] == 0 for row in curve.totals.to_dict("records")])
    lines = [head, table(shown, left=("binds",))]
    if len(shown) < len(rows):
        lines.append(f"{len(shown)} of {len(rows)} values; all are in the files")
    return lines + _knee_lines(curve)


def move_text(move: "BoundMove", unit: str) -> str:
    """`past 96.5 MB the bound moves from ddr to tensor for 7 of 9 shapes (between 64 MB and 128 MB)`."""
    span = ""
    if move.first != move.last:
        span = f" (the first past {quantity_text(move.first, unit)}, the last past {quantity_text(move.last, unit)})"
    shapes = f"{move.shapes} of {move.of} shapes" if move.of > 1 else "the shape"
    return (
        f"past {quantity_text(move.below, unit)} the bound moves from {move.before} to {move.after} for {shapes}{span}"
    )


def _knee_lines(curve: "Curve") -> list[str]:
    unit = curve.axis.unit
    totals = curve.totals
    if len(totals) == 1:
        return ["no value differs from the one it has now"]
    if not any(_moves(totals[name]) for name in ("latency_s", "frozen_s")) and not totals["frozen_s"].isna().any():
        if _moves(totals["energy_j"]):
            return ["no latency changes, energy does"]
        return ["nothing changes: the kernels do not feel this number, or the model does not use it"]
    lines = [_headline(curve)]
    lines += [move_text(move, unit) for move in curve.moves] or [_no_moves(curve)]
    if curve.enough is not None:
        lines.append(f"from {quantity_text(curve.enough, unit)} on, twice as much buys less than 1 %")
    ran = totals[totals["retuning_gain"].notna()].to_dict("records")
    if ran:
        best = max(ran, key=lambda row: row["retuning_gain"])
        at = f" (at {quantity_text(float(best['value']), unit)})" if best["retuning_gain"] > 1 + NOTHING else ""
        lines.append(f"tuning anew buys at most {100 * (best['retuning_gain'] - 1):.1f} %{at}")
    cannot = curve.table[curve.table["frozen_reason"] != ""]
    if len(cannot):
        machines = cannot["machine"].nunique()
        lines.append(
            f"on {machines} of the machines a schedule of the baseline cannot run ({cannot['frozen_reason'].iloc[0]})"
        )
    return lines


def _moves(totals: "pd.Series") -> bool:
    return bool(totals.max() / totals.min() - 1 >= NOTHING)


def _no_moves(curve: "Curve") -> str:
    if curve.table.groupby("shape_name", sort=False)["bound"].nunique().max() == 1:
        return "what binds stays the same for every shape"
    return "what binds is the same at both ends for every shape, but not in between"


def _headline(curve: "Curve") -> str:
    """`at 104.9 MB (2x) the total is 0.23 % faster, 0.18 % faster with the schedules kept`, of the value that buys
    most; of the one that costs most where none buys anything."""
    changed = curve.totals[curve.totals["machine"] != 0].to_dict("records")
    best = max(changed, key=lambda row: row["speedup"])
    none = best["speedup"] < 1 + NOTHING
    best = min(changed, key=lambda row: row["speedup"]) if none else best

    def text(speedup: float) -> str:
        if abs(speedup - 1) < NOTHING:
            return "as fast as now"
        return f"{100 * (speedup - 1):.2f} % faster" if speedup >= 1 else f"{100 * (1 / speedup - 1):.2f} % slower"

    kept = best["frozen_speedup"]
    with_kept = f", {text(kept)} with the schedules kept" if kept == kept else ""
    factor = f" ({best['value'] / curve.now:.3g}x)" if curve.now else ""
    most = "" if len(changed) == 1 else "no value is faster; at worst, " if none else "at most, "
    where = quantity_text(best["value"], curve.axis.unit)
    return f"{most}at {where}{factor} the total is {text(best['speedup'])}{with_kept}{_silicon(curve, best)}"


def _silicon(curve: "Curve", row: dict[Any, Any]) -> str:
    now = curve.totals[curve.totals["machine"] == 0].iloc[0]
    more = row["area_mm2"] - now["area_mm2"]
    return f", for {more:+.0f} mm2" if abs(more) >= 0.5 else ""


def _curve_row(row: dict[Any, Any], curve: "Curve") -> dict[str, str]:
    bounds = curve.table[curve.table["machine"] == row["machine"]]["bound"].value_counts()
    factor = f"{row['value'] / curve.now:.3g}x" if curve.now else ""
    return {
        "value": quantity_text(row["value"], curve.axis.unit) + (" (now)" if row["machine"] == 0 else ""),
        "factor": factor,
        **_numbers(row),
        "binds": ", ".join(f"{name} {count}" for name, count in bounds.items()),
    }


def _numbers(row: dict[Any, Any]) -> dict[str, str]:
    kept = "cannot run" if row["frozen_s"] != row["frozen_s"] else f"{row['frozen_speedup']:.4f}x"
    numbers = {
        "total us": f"{row['latency_s'] * 1e6:.1f}",
        "speed-up": f"{row['speedup']:.4f}x",
        "schedules kept": kept,
        "W": f"{row['power_w']:.0f}",
    }
    if row.get("area_mm2") is not None and row["area_mm2"] == row["area_mm2"]:
        numbers["mm2"] = f"{row['area_mm2']:.0f}"
    if "on_front" in row:
        numbers["front"] = "*" if row["on_front"] else ""
    return numbers


def _machines(answer: "Answer") -> str:
    names = [machine.gpu.name if not machine.values else machine.label for machine in answer.found.machines]
    rows = []
    for name, row in zip(names, answer.found.totals.to_dict("records"), strict=True):
        bounds = answer.found.table[answer.found.table["machine"] == row["machine"]]["bound"].value_counts()
        binds = ", ".join(f"{bound} {count}" for bound, count in bounds.items())
        rows.append({"machine": name, **_numbers(row), "binds": binds})
    return table(rows, left=("machine", "binds"))


def _shape_lines(answer: "Answer") -> list[str]:
    found = answer.found.table
    lines = []
    for number in range(1, len(answer.found.machines)):
        machine = answer.found.machines[number]
        before, after = (found[found["machine"] == at].to_dict("records") for at in (0, number))
        rows = [_shape_row(one, other) for one, other in zip(before, after, strict=True)]
        label = machine.label if machine.values else f"{answer.baseline.gpu.name} -> {machine.gpu.name}"
        lines += [
            f"shape by shape, {label}",
            table(rows[:MOST_SHAPES], left=("shape", "binds", "then", "schedule then")),
        ]
        if len(rows) > MOST_SHAPES:
            lines.append(f"{MOST_SHAPES} of {len(rows)} shapes; all are in the files")
    return lines


def _shape_row(before: dict[Any, Any], after: dict[Any, Any]) -> dict[str, str]:
    kept = after["frozen_speedup"]
    return {
        "shape": str(before["shape_name"]),
        "now us": f"{before['latency_s'] * 1e6:.2f}",
        "then us": f"{after['latency_s'] * 1e6:.2f}",
        "speed-up": f"{after['speedup']:.4f}x",
        "schedule kept": f"{kept:.4f}x" if kept == kept else f"cannot run: {after['frozen_reason']}",
        "binds": str(before["bound"]),
        "then": str(after["bound"]) if after["bound"] != before["bound"] else "",
        "schedule then": str(after["schedule"]) if after["schedule"] != before["schedule"] else "the same",
    }


def _thinned(rows: list[dict[str, str]], keep: Sequence[bool]) -> list[dict[str, str]]:
    if len(rows) <= MOST_ROWS:
        return rows
    chosen = {round(at * (len(rows) - 1) / (MOST_ROWS - 2)) for at in range(MOST_ROWS - 1)}
    return [row for place, row in enumerate(rows) if place in chosen or keep[place]]
