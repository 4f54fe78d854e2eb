"""Numbers and tables as plain text."""

from collections.abc import Iterable, Mapping, Sequence

BYTE_UNITS = (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3))


def table(rows: Sequence[Mapping[str, str]], left: Iterable[str] = ()) -> str:
    """Rows as columns of text under a head; columns named in `left` are flush left, the others right."""
    if not rows:
        return "(none)"
    names = list(rows[0])
    width = {name: max(len(name), *(len(row[name]) for row in rows)) for name in names}
    flush = set(left)

    def line(cells: Mapping[str, str]) -> str:
        return "  ".join(
            cells[name].ljust(width[name]) if name in flush else cells[name].rjust(width[name]) for name in names
        ).rstrip()

    return "\n".join([line({name: name for name in names}), *(line(row) for row in rows)])


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


def what_if_lines(changes: Iterable[str], clock: str) -> list[str]:
    """What a result assumes of its GPU: `what if   sm_count: 132 -> 198 (1.5x)`, `clock     sustained`."""
    lines = [f"what if   {change}" for change in changes]
    return lines if clock == "boost" else [*lines, f"clock     {clock}"]
