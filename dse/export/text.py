"""The parts of an exported file that every target has."""

from collections.abc import Sequence
from typing import Any

from ..text import one_line
from .choose import Chosen
from .entry import Exported


def headline(problem: Any, family: str, gpu_name: str, what_if: Sequence[str]) -> list[str]:
    """What the schedules are for, and what was changed of the GPU."""
    about = f"GEMM {problem.shape} {problem.dtype} on {gpu_name}, {family}"
    return [f"{about}: predicted by tilesweep, best first.", *what_if]


def comment(lines: Sequence[str], chosen: Chosen) -> list[str]:
    """A head of comment lines that ends in where the schedules come from and what was left out."""
    front, repeated = chosen.from_fallback, chosen.repeated
    more = [f"the last {front} are from the front, by latency: the best that the run kept are too few"] if front else []
    more += [f"{repeated} more are of a group that is there"] if repeated else []
    left = [f"left out: {count} with {what}" for what, count in chosen.skipped.items()]
    return [f"# {one_line(line)}".rstrip() for line in (*lines, *more, *left)]


def exported(lines: Sequence[str], chosen: Chosen, note: str = "") -> Exported:
    """The export with these lines, and what whoever runs it must know."""
    text = "\n".join(lines) + "\n"
    return Exported(text, len(chosen.made), chosen.skipped, chosen.from_fallback, chosen.repeated, note)
