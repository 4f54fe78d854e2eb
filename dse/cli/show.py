"""How commands show numbers: plain tables, quantities with units, JSON."""

import json
import math
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..schedule_words import words_of
from ..text import byte_text
from ..text import table as table

if TYPE_CHECKING:
    import pandas as pd

    from ..job import SweepJob
    from ..trust import TrustLabel


def schedule_rows(
    frame: "pd.DataFrame",
    more: Sequence[str] = (),
    trust: "TrustLabel | None" = None,
    kernel: str = "gemm",
    before: Sequence[Mapping[str, str]] = (),
) -> str:
    """Schedules with what is predicted of them, one a line, and under them whose residuals their intervals come from.

    Args:
        frame: rows of a result.
        more: names further quantities to show.
        trust: the label of the frame's intervals; None: it has none.
        kernel: whose schedules; what stands in the columns of a schedule, its words say.
        before: cells of each row that stand before the schedule's.
    """
    level = trust.level if trust else 0.0
    found = frame.to_dict("records")
    cells, same = words_of(kernel).cells(found)
    rows = [
        {
            **_cost_cells(str(place), row, level),
            **(before[place] if before else {}),
            **own,
            **{name: f"{row[name]:.6g}" for name in more},
        }
        for place, (row, own) in enumerate(zip(found, cells, strict=True))
    ]
    text = table(rows, left=("binds", "tile", "raster", "launch")) + (f"\n{same}" if same else "")
    return "\n".join([text, *trust.about()]) if trust and rows else text


def interval_cell(interval_s: tuple[float, float] | None, level: float) -> dict[str, str]:
    """The column of an interval, e.g. {"90 % interval": "33.10 to 39.02"} in microseconds; none without a label."""
    if not level:
        return {}
    low, high = interval_s or (math.nan, math.nan)
    return {f"{100 * level:g} % interval": interval_text({"latency_low_s": low, "latency_high_s": high})}


def interval_text(row: Mapping[Any, Any]) -> str:
    """`33.10 to 39.02`, in microseconds, of a row that has an interval; "" of others."""
    low, high = row.get("latency_low_s"), row.get("latency_high_s")
    if low is None or high is None or math.isnan(low):
        return ""
    return f"{low * 1e6:.2f} to {high * 1e6:.2f}"


def _cost_cells(place: str, row: Mapping[Any, Any], level: float) -> dict[str, str]:
    return {
        "#": place,
        "latency us": f"{row['latency_s'] * 1e6:.2f}",
        **interval_cell((row["latency_low_s"], row["latency_high_s"]) if "latency_low_s" in row else None, level),
        "TFLOP/s": f"{row['flop'] / row['latency_s'] / 1e12:.1f}",
        "binds": str(row["bound_name"]),
        "L2 hit": f"{row['l2_hit']:.1%}",
        "L1.5 hit": f"{row['l15_hit']:.1%}",
        "DDR": byte_text(row["ddr_bytes"]),
        "CTA/SM": f"{row['ctas_per_sm']:.0f}",
    }


def about_job(job: "SweepJob") -> dict[str, Any]:
    """What a sweep or a search was of, as plain values: what their JSON begins with."""
    return {
        "kernel": job.space.kernel,
        "shape": job.problem_name,
        "gpu": job.gpu_name,
        "gpu_changes": list(job.gpu_changes),
        "clock": job.clock,
        "space": job.space.name,
        "space_hash": job.space.hash,
    }


def print_json(content: Any) -> None:
    """One JSON document on standard output; numbers that JSON lacks become null."""
    json.dump(plain(content), sys.stdout, indent=1, allow_nan=False)
    sys.stdout.write("\n")


def plain(value: Any) -> Any:
    """Mappings, sequences, pandas tables and numbers as what JSON knows."""
    if hasattr(value, "to_dict") and hasattr(value, "columns"):
        return [plain(row) for row in value.to_dict("records")]
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(entry) for entry in value]
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, (str, int, float, bool)) or value is None else str(value)
