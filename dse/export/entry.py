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
        reason: what binds, in words.
        interval_s: (low, high) of the measured latency, by the residuals; None: there are none.
        level: share of measured kernels that the interval is made to hold.
        index: in the space; a text in a space of more than 2^64; None: of no space.
    """

    schedule: Mapping[str, int]
    latency_s: float
    tflop_per_s: float
    bound: str
    label: str
    reason: str = ""
    interval_s: tuple[float, float] | None = None
    level: float = 0.9
    index: int | str | None = None

    @property
    def remark(self) -> str:
        """`812.3 us (90 %: 750.1 to 880.0), 676 TFLOP/s, tensor binds: the tensor cores, busy for 86% of the latency,
        index 81234`, in one line."""
        interval = ""
        if self.interval_s:
            low, high = (end * 1e6 for end in self.interval_s)
            interval = f" ({100 * self.level:g} %: {low:.1f} to {high:.1f})"
        predicted = f"{self.latency_s * 1e6:.1f} us{interval}, {self.tflop_per_s:.0f} TFLOP/s"
        reason = f": {self.reason}" if self.reason else ""
        return f"{predicted}, {self.bound} binds{reason}, {self.label}"


@dataclass(frozen=True)
class Exported:
    """The text of an export.

    Attributes:
        text: what goes into the file.
        written: how many entries it holds.
        skipped: why the others are not in it -> how many.
        from_front: how many of them come from the front, because the table asked for held too few.
        repeated: how many others were left out because their group is there already.
        note: what whoever runs it must know.
    """

    text: str
    written: int
    skipped: Mapping[str, int]
    from_front: int = 0
    repeated: int = 0
    note: str = ""

    @property
    def summary(self) -> str:
        """One line: what was written and what was left out."""
        text = f"{self.written} schedule{'' if self.written == 1 else 's'}"
        if self.from_front:
            text += f", {self.from_front} of them from the front, by latency, as the best that the run kept are too few"
        if self.repeated:
            text += f"; {self.repeated} more are of a group that is there (--distinct)"
        if self.note:
            text += f"; {self.note}"
        if not self.skipped:
            return text
        left = ", ".join(f"{count} with {what}" for what, count in self.skipped.items())
        return f"{text}; left out, as the target cannot express them: {left}"
