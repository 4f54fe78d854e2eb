"""A sweep of many shapes, summed up: one row a shape."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from .columns import TRUST_COLUMNS
from .result import SweepResult

if TYPE_CHECKING:
    import pandas as pd

NUMBERS = ("tflop_per_s", "latency_s", "latency_low_s", "latency_high_s", "l2_hit")


def summary_table(results: Iterable[tuple[str, SweepResult]]) -> "pd.DataFrame":
    """One row a shape with its best schedule; of a shape for which nothing fits, `none_fits` says why.

    Args:
        results: name and result of each shape.

    Returns:
        Columns name, shape, feasible, tflop_per_s, latency_s, its interval latency_low_s and latency_high_s (missing
        without residuals), bound_name, l2_hit, the schedule's fields, front, folder, none_fits, gpu, gpu_changes
        (separated by "; "), clock, and where there are residuals validated_gpu, shape_class and extrapolates. Whole
        numbers are Int64, missing where nothing fits.
    """
    import pandas as pd

    listed = list(results)
    table = pd.DataFrame([_row(name, result) for name, result in listed])
    schedule = {field: None for _, result in listed for field in result.job.model.schedule_fields}
    whole = dict.fromkeys(("feasible", *schedule, "front"), "Int64")
    return table.astype(whole | dict.fromkeys(NUMBERS, "float64"))


def why_none_fits(result: SweepResult) -> str:
    """The reason that rules out most of a space, how often, and what helps; "" where something fits."""
    if len(result.top) or not result.reasons:
        return ""
    name, count = next(iter(result.reasons.items()))
    return f"{name} ({count:,} of {result.evaluated:,}): {advice(name, result.job.space.kernel)}"


def advice(reason: str, kernel: str = "gemm") -> str:
    """What helps against a reason, by its name."""
    from jaxmodel.reasons import Reason

    from .infeasible import advice_of

    known = reason in Reason.__members__
    return advice_of(Reason[reason], kernel) if known else "an objective is no finite number"


def _row(name: str, result: SweepResult) -> dict[str, Any]:
    row: dict[str, Any] = {"name": name, "shape": result.job.problem_name, "feasible": result.feasible}
    fields = result.job.model.schedule_fields
    row |= dict.fromkeys((*NUMBERS[:-1], "bound_name", "l2_hit", *fields))
    if len(result.top):
        best = result.top.iloc[0]
        row |= {"tflop_per_s": best["flop"] / best["latency_s"] / 1e12}
        row |= {key: best[key] for key in ("latency_s", "bound_name", "l2_hit")}
        row |= {key: best[key] for key in TRUST_COLUMNS if key in best}
        row |= {key: int(best[key]) for key in fields}
    row |= {"front": len(result.front), "folder": result.folder, "none_fits": why_none_fits(result)}
    job = result.job
    return (
        row
        | {"gpu": job.gpu_name, "gpu_changes": "; ".join(job.gpu_changes), "clock": job.clock}
        | (result.trust.words() if result.trust else {})
    )
