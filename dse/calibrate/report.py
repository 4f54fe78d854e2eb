"""A calibration as text: each number, what it means and how well the rows fix it; the errors before and after."""

from collections.abc import Mapping

from ..content.gpu_fields import FIELDS
from ..text import table
from ..validation.latency_errors import Errors
from .calibration import Calibration, Judged
from .parameters import Parameter

WEAK = 1e-4  # change of the error, as a share, by 10 % below which the rows do not fix a number


def calibration_text(found: Calibration, left_out: Mapping[str, int] | None = None) -> str:
    """What the command prints.

    Args:
        found: the calibration.
        left_out: rows that were not read: why -> how many.
    """
    errors = [*_error_rows("train", found.train), *_error_rows("test", found.test)]
    return "\n".join(
        [
            f"{found.gpu.title}, calibrated on {found.origin or 'measured rows'}",
            *_rows_said(found, left_out or {}),
            "",
            table([_number_row(found, item) for item in found.parameters], left=("number", "unit", "bound", "is")),
            "",
            *_remarks(found),
            "",
            "absolute error, per cent of the measured latency; 95 % interval over weight shapes; bias < 0: too fast",
            table(errors, left=("rows", "numbers")),
        ]
    )


def _rows_said(found: Calibration, left_out: Mapping[str, int]) -> list[str]:
    train, test = found.train.fitted.count, found.test.fitted.count
    said = [
        f"{train} train and {test} test rows, no pair (n, k) in both; {found.with_schedule} of {train + test} name "
        f"their schedule, the others are compared with the fastest of preset {found.preset}"
    ]
    said += [f"left out: {count} rows: {why}" for why, count in sorted(left_out.items())]
    if found.cannot_run:
        said.append(f"left out: {found.cannot_run} rows: a schedule that the model says cannot run")
    return said


def _number_row(found: Calibration, item: Parameter) -> dict[str, str]:
    moved = found.sensitivity[item.name]
    return {
        "number": item.name,
        "start": f"{found.start[item.name]:.4g}",
        "fitted": f"{found.values[item.name]:.4g}",
        "low": f"{item.low:.4g}",
        "high": f"{item.high:.4g}",
        "bound": found.at_bound(item.name),
        "1 %": _points(moved.error_small),
        "10 %": _points(moved.error_large),
        "elasticity": f"{moved.elasticity:+.2f}",
        "unit": FIELDS[item.name].unit,
        "is": item.meaning,
    }


def _points(share: float) -> str:
    return f"{100.0 * share:+.2f}"


def _remarks(found: Calibration) -> list[str]:
    said = ["1 %, 10 %: points of train error that moving the number costs; elasticity: of the latency, mean over rows"]
    bound = [item.name for item in found.parameters if found.at_bound(item.name)]
    weak = [item.name for item in found.parameters if abs(found.sensitivity[item.name].error_large) < WEAK]
    if bound:
        said.append(f"at a bound: {', '.join(bound)}: the rows ask for more than is plausible; see docs/calibrate.md")
    if weak:
        said.append(f"not fixed by these rows: {', '.join(weak)}: hold them with --free, or measure where they bind")
    if found.test.fitted.mape > found.test.start.mape:
        said.append("the test error rose: the fitted numbers are no better than the file's; keep the file's")
    return said


def _error_rows(name: str, judged: Judged) -> list[dict[str, str]]:
    return [
        {"rows": f"{name} ({errors.count})", "numbers": when, **_error_cells(errors)}
        for when, errors in (("start", judged.start), ("fitted", judged.fitted))
    ]


def _error_cells(errors: Errors) -> dict[str, str]:
    bounds = errors.interval.get("mape")
    return {
        "MAPE": f"{errors.mape:.2f}",
        "interval": f"{bounds[0]:.2f} to {bounds[1]:.2f}" if bounds else "",
        "bias": f"{errors.bias:+.2f}",
        "median": f"{errors.p50:.2f}",
        "p90": f"{errors.p90:.2f}",
    }
