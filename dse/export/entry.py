"""What is exported: schedules with what was predicted of them, and what could not be expressed."""

from collections.abc import Mapping
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
        from_front: how many of them come from the front, because the table asked for held too few.
    """

    text: str
    written: int
    skipped: Mapping[str, int]
    from_front: int = 0

    @property
    def summary(self) -> str:
        """One line: what was written and what was left out."""
        text = f"{self.written} schedules"
        if self.from_front:
            text += f", {self.from_front} of them from the front, by latency, as the best that the run kept are too few"
        if not self.skipped:
            return text
        left = ", ".join(f"{count} with {what}" for what, count in self.skipped.items())
        return f"{text}; left out, as the target cannot express them: {left}"
