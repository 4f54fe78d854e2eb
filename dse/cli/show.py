"""How commands show numbers: plain tables, quantities with units, JSON."""

import json
import math
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..schedule_text import EPILOGUES, cluster_label, launch_label, raster_label, warps_label
from ..text import byte_text
from ..text import table as table

if TYPE_CHECKING:
    import pandas as pd


def schedule_rows(frame: "pd.DataFrame", more: Sequence[str] = ()) -> str:
    """Schedules with what is predicted of them, one a line; `more` names further quantities to show."""
    rows = [
        {**_schedule_row(str(place), row), **{name: f"{row[name]:.6g}" for name in more}}
        for place, row in enumerate(frame.to_dict("records"))
    ]
    return table(rows, left=("binds", "tile", "raster", "launch"))


def _schedule_row(place: str, row: Mapping[Any, Any]) -> dict[str, str]:
    swap = " swapped" if row.get("swap_ab") else ""
    return {
        "#": place,
        "latency us": f"{row['latency_s'] * 1e6:.2f}",
        "TFLOP/s": f"{row['flop'] / row['latency_s'] / 1e12:.1f}",
        "binds": str(row["bound_name"]),
        "L2 hit": f"{row['l2_hit']:.1%}",
        "L1.5 hit": f"{row['l15_hit']:.1%}",
        "DDR": byte_text(row["ddr_bytes"]),
        "CTA/SM": f"{row['ctas_per_sm']:.0f}",
        "tile": f"{row['tile_m']:.0f}x{row['tile_n']:.0f}x{row['tile_k']:.0f}{swap}",
        "stages": f"{row['stages']:.0f}",
        "warps": warps_label(row),
        "cluster": cluster_label(row),
        "raster": raster_label(row),
        "launch": f"{launch_label(row)} {EPILOGUES[int(row['epilogue'])]}",
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
