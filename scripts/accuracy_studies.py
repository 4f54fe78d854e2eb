"""Sections of docs/accuracy.md beside the bf16 validation: speed-ups, other predictors, other data types."""

import numpy as np
from accuracy_text import Validation, markdown_table, metrics_of, percent_text

from dse.cli.validation_text import interval_text
from dse.trust.label import LEVEL
from dse.validation.coverage import Coverage, coverage, with_intervals, with_intervals_elsewhere
from dse.validation.error_tables import errors_of
from dse.validation.latency_errors import errors
from dse.validation.residual_table import with_residuals
from dse.validation.speedup import speedups
from dse.validation.validate import all_rows


def speed_up(of: Validation) -> str:
    """The natural experiment between two GPUs, where the sample has both."""
    base, other = of.speedup
    if not {base, other} <= {result.gpu for result in of.results}:
        return ""
    found = speedups(of.rows, base, other)
    names = {"model": "tilesweep", "constant": "the median for every shape (hindsight)"}
    lines = [
        {
            "predicted by": names.get(method, method),
            "mean absolute error": interval_text(errors, "mape"),
            "bias": interval_text(errors, "bias", signed=True),
            "p90": f"{errors.p90:.1f}",
            "rank correlation": f"{found.spearman[method]:.2f}" if method in found.spearman else "",
        }
        for method, errors in found.errors.items()
    ]
    low, high = found.measured_range
    return (
        f"## The speed-up from {base} to {other}\n\n{found.errors['model'].count} shapes were measured on both: "
        f"{found.measured_median:.3f} times at the median, 90 % of them within {low:.2f} to {high:.2f}. Errors in per "
        f"cent of the measured speed-up, row by row.\n\n{markdown_table(lines)}"
    )


def nvmatmul_heuristics(of: Validation) -> str:
    """NVIDIA's closed predictor on the same rows, where its package was installed when the page was made."""
    asked = [result for result in of.results if "nvmatmul" in result.errors]
    if not asked:
        return ""
    lines = []
    for result in asked:
        rows = result.rows[result.rows["nvmatmul_us"].notna()]
        measured, own = rows["latency_us"].to_numpy(float), rows["nvmatmul_us"].to_numpy(float)
        scaled = errors(own * np.median(measured / own), measured)
        lines.append(
            {
                "GPU": result.gpu,
                "rows": str(len(rows)),
                "its MAPE": interval_text(result.errors["nvmatmul"], "mape"),
                "its bias": interval_text(result.errors["nvmatmul"], "bias", signed=True),
                "its median": f"{result.errors['nvmatmul'].p50:.1f}",
                "its MAPE times one factor": f"{scaled.mape:.1f}",
                "tilesweep": f"{errors_of(rows)['model'].mape:.1f}",
                "same CTA tile": percent_text(result.same_tile or 0.0),
            }
        )
    return (
        "## Beside nvMatmulHeuristics\n\nIts own time for its first choice (generic target, selection by its "
        "performance model), on the same rows. It is made to order kernels, and absolute times are not what it is for; "
        "so beside them stands its error once a GPU's times are multiplied by the median of measured over its own. "
        f"The last column: rows where both pick the same CTA tile.\n\n{markdown_table(lines)}"
    )


def zero_shot(of: Validation) -> str:
    """GPUs predicted with files that nothing was fitted for, where the page was made with any."""
    if not of.zero_shot:
        return ""
    fitted = {result.gpu: result for result in of.results}
    lines = [
        {
            "GPU": result.gpu,
            "GPU file": f"`{result.gpu_file}`",
            **metrics_of(result.errors),
            "MAPE fitted": f"{fitted[result.gpu].model.mape:.1f}" if result.gpu in fitted else "",
        }
        for result in of.zero_shot
    ]
    return (
        "## Without a fit on the GPU in question\n\nThe same rows, predicted with files in which every number that was "
        "fitted on the GPU is replaced: by what a datasheet or a microbenchmark says, times the share that fits reach "
        f"on other GPUs, else by the other GPUs' fits (`scripts/zero_shot.py`).\n\n{markdown_table(lines)}"
    )


def intervals(of: Validation) -> str:
    """Whether the intervals that every prediction carries hold what they promise, where there are residuals."""
    table = of.residuals
    known = [one for one in (*of.results, *of.low_precision) if table and table.of(one.gpu, one.dtype)]
    if table is None or not known:
        return ""
    judged = with_intervals(table, with_residuals(all_rows(known)))
    groups = [coverage(judged), *(coverage(judged, [axis]) for axis in ("gpu", "dtype", "latency", "class"))]
    spoke = table.made_from["parts"]
    blocks = [
        f"## Intervals\n\n{percent_text(LEVEL)} intervals, made of the residuals of the parts {' and '.join(spoke)}, "
        f"held against the part {of.part}{' (one of these: not a test)' if of.part in spoke else ''}. Latency is the "
        "predicted one. How they are made: [how-far-to-trust-a-number.md](how-far-to-trust-a-number.md).\n\n"
        f"{markdown_table(_coverage_line(at) for group in groups for at in group)}"
    ]
    if of.zero_shot_files:
        left_out = with_intervals_elsewhere(table, with_residuals(all_rows(of.zero_shot)), of.zero_shot_files)
        blocks.append(
            "GPUs left out: predicted with the files of the section above, intervals as if the GPU had never been "
            f"measured.\n\n{markdown_table(_coverage_line(at) for at in coverage(left_out, ['gpu']))}"
        )
    return "\n\n".join(blocks)


def _coverage_line(at: Coverage) -> dict[str, str]:
    between = f" [{100 * at.interval[0]:.1f}, {100 * at.interval[1]:.1f}]" if at.interval else ""
    return {
        "of": ", ".join(at.at.values()) or "all",
        "rows": str(at.rows),
        "(n, k)": str(at.pairs),
        "covered, %": f"{100 * at.covered:.1f}{between}",
        "faster than the interval": f"{100 * at.below:.1f}",
        "slower": f"{100 * at.above:.1f}",
        "high over low, median": f"{1 + at.width:.2f}",
    }


def low_precision(of: Validation) -> str:
    """Other data types than bf16, each over its own space, where their table is packaged."""
    if not of.low_precision:
        return ""
    lines = [
        {"GPU": one.gpu, "type": one.dtype, "timed by": ", ".join(one.sources), **metrics_of(one.errors)}
        for one in of.low_precision
    ]
    return f"## Low precision\n\n{markdown_table(lines)}"


def what_is_not_modelled(of: Validation) -> str:
    """Where to read on."""
    return (
        "## What is not modelled\n\n[What the model does not model](what-the-model-does-not-model.md) lists it, with "
        "the direction in which each omission errs. Rows carry no schedule, so this page judges the best over a space: "
        "a library's heuristic may pick something slower, and a low error here does not prove the order of schedules."
    )
