"""Quantities as a report writes them: SI prefixes, units, and the short names of schedules."""

from collections.abc import Mapping
from typing import Any

from ..columns import describe
from ..schedule_text import EPILOGUES, cluster_label, launch_label, raster_label, warps_label

PREFIXES = (
    (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""),
    (1e-3, "m"), (1e-6, "µ"), (1e-9, "n"), (1e-12, "p"),
)  # fmt: skip
SHORT_UNITS = {
    "bytes": "B", "bytes per second": "B/s", "hertz": "Hz", "seconds": "s", "watts": "W", "joules per byte": "J/B",
    "joules per FLOP": "J/FLOP", "FLOP per second": "FLOP/s",
}  # fmt: skip
OBJECTIVE_NAMES = {
    "latency_s": "latency", "ddr_bytes": "DDR traffic", "smem_bytes": "shared memory a CTA", "energy_j": "energy",
    "registers_per_thread": "registers a thread", "workspace_bytes": "workspace", "l2_bytes": "L2 traffic",
    "l15_bytes": "requested bytes", "ddr_read_bytes": "DDR reads", "ddr_write_bytes": "DDR writes",
    "threads": "threads a CTA", "sms_used": "SMs used",
}  # fmt: skip
NO_BREAK = "\u00a0"  # between a number and its unit
UNITS_IN_SI = ("s", "B", "J", "FLOP")


def si(value: float, unit: str, digits: int = 4) -> str:
    """`1.426 GB`, `812.3 µs`; plain where the unit is a pure number."""
    if not unit or unit == "1":
        return f"{value:,.0f}" if value == round(value) and abs(value) < 1e15 else f"{value:.{digits}g}"
    if value == 0:
        return f"0{NO_BREAK}{unit}"
    scale, prefix = next((at for at in PREFIXES if abs(value) >= at[0] * 0.9999995), PREFIXES[-1])
    return f"{_plain(value / scale, digits)}{NO_BREAK}{prefix}{unit}"


def bytes_si(value: float) -> str:
    """A capacity or an amount of bytes, three digits."""
    return si(value, "B", 3)


def micros(seconds: float) -> str:
    """Microseconds without their unit, four digits or two places: columns of latencies."""
    us = seconds * 1e6
    return f"{us:,.2f}" if us >= 1 else f"{us:.4g}"


def share(part: float, whole: float = 1.0) -> str:
    """`12.3 %`."""
    return f"{100 * part / whole if whole else 0.0:.1f}{NO_BREAK}%"


def quantity_name(column: str) -> str:
    """What people call a column: `DDR traffic`."""
    return OBJECTIVE_NAMES.get(column, column.rsplit("_", 1)[0].replace("_", " ") if column.endswith("_s") else column)


def quantity_unit(column: str) -> str:
    """The unit of a column; "" for pure numbers and codes."""
    unit = describe(column)[0]
    return unit if unit in UNITS_IN_SI else ""


def tile_name(row: Mapping[Any, Any]) -> str:
    """`256x152x128`, with `swapped` where its rows run along n."""
    swapped = " swapped" if row.get("swap_ab") else ""
    return f"{int(row['tile_m'])}x{int(row['tile_n'])}x{int(row['tile_k'])}{swapped}"


def schedule_words(row: Mapping[Any, Any]) -> dict[str, str]:
    """The columns that name a schedule in a table."""
    return {
        "tile": tile_name(row),
        "stages": str(int(row["stages"])),
        "warps": warps_label(row),
        "cluster": cluster_label(row),
        "raster": raster_label(row),
        "launch": f"{launch_label(row)} {EPILOGUES[int(row['epilogue'])]}",
    }


def counted(count: int, what: str) -> str:
    """`1 schedule`, `12,345 schedules`."""
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def _plain(value: float, digits: int) -> str:
    text = f"{value:.{digits}g}"
    return f"{value:.0f}" if "e" in text else text
