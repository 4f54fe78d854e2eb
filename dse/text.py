"""Numbers and tables as plain text."""

import re
from collections.abc import Iterable, Mapping, Sequence

CONTROL = re.compile("[\\x00-\\x1f\\x7f-\\x9f\\u2028\\u2029]+")
BYTE_UNITS = (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3))


def table(rows: Sequence[Mapping[str, str]], left: Iterable[str] = ()) -> str:
    """Rows as columns of text under a head; columns named in `left` are flush left, the others right."""
    if not rows:
        return "(none)"
    rows = [{name: one_line(cell) for name, cell in row.items()} for row in rows]
    names = list(rows[0])
    width = {name: max(len(name), *(len(row[name]) for row in rows)) for name in names}
    flush = set(left)

    def line(cells: Mapping[str, str]) -> str:
        return "  ".join(
            cells[name].ljust(width[name]) if name in flush else cells[name].rjust(width[name]) for name in names
        ).rstrip()

    return "\n".join([line({name: name for name in names}), *(line(row) for row in rows)])


def one_line(text: str) -> str:
    """The text with a space for line ends and other control characters: as a comment it cannot end early, in a table
    it stays one row, on a terminal it commands nothing."""
    return CONTROL.sub(" ", text)


def byte_text(count: float) -> str:
    """`1.34 GB`."""
    for unit, scale in BYTE_UNITS:
        if count >= scale:
            return f"{count / scale:.3g} {unit}" if count / scale < 1000 else f"{count / scale:.0f} {unit}"
    return f"{count:.0f} B"


def seconds_text(seconds: float) -> str:
    """`812.30 us`."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.2f} {unit}"
    return f"{seconds * 1e9:.0f} ns" if seconds else "0"


def unit_scale(value: float, unit: str) -> tuple[float, str]:
    """What a number of about this size is divided by to be shown, and its unit then: (1e6, "MB") for 5e7 bytes.

    Args:
        value: in `unit`.
        unit: in words, as `dse.content.gpu_fields` has it; others than bytes, seconds, hertz and their rates stay.
    """
    kinds = {"bytes": "B", "bytes per second": "B/s", "hertz": "Hz", "seconds": "s", "FLOP per second": "FLOP/s"}
    if unit not in kinds or not value:
        return 1.0, kinds.get(unit, unit)
    for prefix, scale in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3), ("", 1.0), ("m", 1e-3), ("u", 1e-6)):
        if abs(value) >= scale:
            return scale, f"{prefix}{kinds[unit]}"
    return 1e-9, f"n{kinds[unit]}"


def quantity_text(value: float, unit: str) -> str:
    """`96.5 MB`, `4.2 TB/s`, `132 SMs`: a number of a GPU with its unit."""
    scale, short = unit_scale(value, unit)
    return f"{value / scale:.4g} {short}"


def what_if_lines(changes: Iterable[str], clock: str) -> list[str]:
    """What a result assumes of its GPU: `what if   sm_count: 132 -> 198 (1.5x)`, `clock     sustained`."""
    lines = [f"what if   {change}" for change in changes]
    return lines if clock == "boost" else [*lines, f"clock     {clock}"]
