"""What is exported: schedules with what was predicted of them, and what could not be expressed."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Entry:
    """One schedule to export.

    Attributes:
        schedule: field -> number.
        latency_s: predicted.
        tflop_per_s: predicted.
        bound: what binds, a word.
        label: where it comes from, e.g. "index 81234".
    """

    schedule: Mapping[str, int]
    latency_s: float
    tflop_per_s: float
    bound: str
    label: str

    @property
    def remark(self) -> str:
        """`812.3 us, 676 TFLOP/s, tensor binds, index 81234`."""
        predicted = f"{self.latency_s * 1e6:.1f} us, {self.tflop_per_s:.0f} TFLOP/s"
        return f"{predicted}, {self.bound} binds, {self.label}"


@dataclass(frozen=True)
class Exported:
    """The text of an export.

    Attributes:
        text: what goes into the file.
        written: how many entries it holds.
        skipped: why the others are not in it -> how many.
    """

    text: str
    written: int
    skipped: Mapping[str, int]

    @property
    def summary(self) -> str:
        """One line: what was written and what was left out."""
        if not self.skipped:
            return f"{self.written} schedules"
        left = ", ".join(f"{count} with {what}" for what, count in self.skipped.items())
        return f"{self.written} schedules; left out, as the target cannot express them: {left}"


def counted(reasons: Iterable[str]) -> dict[str, int]:
    """Reasons with how often each was met, the most frequent first."""
    return dict(Counter(reasons).most_common())


def comment(lines: Sequence[str], skipped: Mapping[str, int]) -> list[str]:
    """A head of comment lines that ends in what was left out."""
    left = [f"left out: {count} with {what}" for what, count in skipped.items()]
    return [f"# {line}".rstrip() for line in (*lines, *left)]
