"""A finished run's schedules, exported."""

from typing import TYPE_CHECKING, Any

from ..advice import what_binds
from ..distinct import distinct_fields, group_of
from ..errors import unknown
from ..kernels.registry import check_served
from ..roofline import roofline
from ..schedule_words import schedule_in
from ..text import what_if_lines
from ..triton_config import TritonGpu
from .cutlass import export_cutlass
from .entry import Entry, Exported
from .table import export_csv, export_json
from .tilelang import export_tilelang
from .triton import export_triton

if TYPE_CHECKING:
    import pandas as pd

    from ..runs import OpenRun

TARGETS = ("triton", "cutlass", "tilelang", "json", "csv")
TABLES = ("top", "front")


def export_run(
    opened: "OpenRun", target: str, what: str = "top", count: int | None = None, distinct: str | None = None
) -> Exported:
    """The run's schedules as the target takes them, each with its predicted latency and the reason.

    Args:
        opened: `dse.runs.open_run(folder)`.
        target: one of `TARGETS`.
        what: "top": the best schedules, the front behind them where they are too few; or "front".
        count: the first so many that can be expressed; None: all.
        distinct: words (`dse.distinct.distinct_fields`); of schedules that agree in them only the best is exported.

    Raises:
        UserError: an unknown target, table or word.
    """
    if what not in TABLES:
        raise unknown("table", what, TABLES)
    if what == "front":
        return export_table(opened, opened.front, target, count, distinct)
    by_latency = opened.front.sort_values("latency_s", kind="stable")
    return export_table(opened, opened.top, target, count, distinct, by_latency)


def export_table(
    opened: "OpenRun",
    table: "pd.DataFrame",
    target: str,
    count: int | None = None,
    distinct: str | None = None,
    fallback: "pd.DataFrame | None" = None,
) -> Exported:
    """As `export_run`, of any rows of the run's space (`dse.rows.evaluate_rows`), in their order.

    Args:
        opened, target, count, distinct: as in `export_run`.
        table: the rows.
        fallback: further rows, where `table` holds too few.

    Raises:
        UserError: an unknown target or word.
    """
    if target not in TARGETS:
        raise unknown("target", target, TARGETS)
    job = opened.job
    family, kernel = job.space.family, job.space.kernel
    if target not in ("json", "csv"):
        check_served(kernel, f"dse export --to {target}")
    entries = entries_of(opened, table)
    options: dict[str, Any] = {
        "what_if": what_if_lines(job.gpu_changes, job.clock),
        "count": count,
        "fallback": [] if fallback is None else entries_of(opened, fallback),
    }
    if distinct is not None:
        fields = distinct_fields(distinct, kernel)
        options["group"] = lambda entry: group_of(entry.schedule, fields)
    if target in ("json", "csv"):
        write = export_json if target == "json" else export_csv
        return write(entries, job.problem, family, job.gpu_name, **options)
    if target == "cutlass":
        return export_cutlass(entries, job.problem, family, opened.accumulator, job.gpu_name, **options)
    gpu = TritonGpu(opened.families, int(job.gpu.sm_count))
    write = export_triton if target == "triton" else export_tilelang
    return write(entries, job.problem, family, gpu, job.gpu_name, **options)


def entries_of(opened: "OpenRun", table: "pd.DataFrame") -> list[Entry]:
    """The rows of a run's table (`opened.top`, `opened.front`) as entries, in its order."""
    roof, kernel = roofline(opened.job.problem, opened.job.gpu), opened.job.space.kernel
    return [
        Entry(
            schedule=schedule_in(kernel, row),
            latency_s=float(row["latency_s"]),
            tflop_per_s=float(row["flop"]) / float(row["latency_s"]) / 1e12,
            bound=str(row["bound_name"]),
            label=f"index {row['index']}",
            reason=what_binds({str(name): value for name, value in row.items()}, roof, kernel),
            interval_s=_interval(row),
            index=row["index"],
        )
        for row in table.to_dict("records")
    ]


def _interval(row: Any) -> tuple[float, float] | None:
    low, high = row.get("latency_low_s"), row.get("latency_high_s")
    return None if low is None or high is None or low != low else (float(low), float(high))
