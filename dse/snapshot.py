"""Where a piece of work stands, and how that is said in a line."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Snapshot:
    """Where a piece of work stands.

    Attributes:
        done, total: candidates (or trials); `done` may pass `total` where several processes share a search.
        seconds: since this run began.
        rate: a second; what `reporter` passes on is that of the last 10 s, without compilation (`dse.pace`), and at the
            end the mean. 0: not known yet.
        best: best value of `best_name` so far; None: none yet.
        best_name: what is ranked, e.g. "latency_s".
        front: rows on the front so far; None: no front is kept.
        finished: the last snapshot of the run.
        hypervolume: of the front so far, as a share of the box between zero and a reference point that stays what it is
            while the run goes on (`dse.front_measures.GrowingHypervolume`), 0 to 1; None: not measured.
        phase: what is being done: "bounding", then "compiling" until the first chunk is done, then "evaluating"; None:
            the only thing there is to do.
    """

    done: int
    total: int
    seconds: float
    rate: float
    best: float | None
    best_name: str
    front: int | None
    finished: bool = False
    hypervolume: float | None = None
    phase: str | None = None

    @property
    def share(self) -> float:
        """Done of the total, 0 to 1."""
        return min(self.done / max(self.total, 1), 1.0)

    @property
    def eta_s(self) -> float | None:
        """Seconds to go at this rate, never negative; None where the rate is not known."""
        return max(self.total - self.done, 0) / self.rate if self.rate > 0 else None


def describe(snapshot: Snapshot) -> str:
    """A snapshot in one line."""
    return ", ".join(
        [f"{_phase(snapshot)}{snapshot.done:,} of {snapshot.total:,} ({_percent(snapshot)})", *_rest(snapshot)]
    )


def descriptions(snapshot: Snapshot) -> list[str]:
    """The same, said ever shorter for a narrow terminal: without counts, then without words that can be spared."""
    brief = ", ".join([f"{_phase(snapshot)}{_percent(snapshot)}", *_rest(snapshot)])
    quantity = f"best {snapshot.best_name.removesuffix('_s')} "
    return [describe(snapshot), brief, brief.replace(quantity, "best ").replace("hypervolume", "HV")]


def _phase(snapshot: Snapshot) -> str:
    waiting = snapshot.done == 0 and snapshot.rate == 0 and not snapshot.finished  # for the first chunk
    phase = snapshot.phase or ("compiling" if waiting else None)
    return f"{phase}: " if phase else ""


def _percent(snapshot: Snapshot) -> str:
    return f"{100.0 if snapshot.share >= 1.0 else min(100 * snapshot.share, 99.9):.1f} %"


def _rest(snapshot: Snapshot) -> list[str]:
    parts = [format_rate(snapshot.rate)] if snapshot.rate > 0 else []
    eta = snapshot.eta_s
    if eta is not None and not snapshot.finished and snapshot.done < snapshot.total:
        parts.append(f"{format_duration(eta)} to go")
    if snapshot.best is not None:
        parts.append(f"best {format_quantity(snapshot.best_name, snapshot.best)}")
    if snapshot.front is not None:
        parts.append(f"front {snapshot.front:,}")
    if snapshot.hypervolume is not None:
        parts.append(f"hypervolume {100 * snapshot.hypervolume:.2f} %")
    return parts


def format_rate(rate: float) -> str:
    """How many a second, e.g. "25.0 M/s", "3.1 k/s" or "8.2/s"."""
    for prefix, scale in ((" M", 1e6), (" k", 1e3)):
        if rate >= scale / 10.0:
            return f"{rate / scale:.1f}{prefix}/s"
    return f"{rate:.1f}/s"


def format_duration(seconds: float) -> str:
    """Seconds as "90 s", "12 min" or "2.5 h"."""
    for unit, scale, digits in (("h", 3600.0, 1), ("min", 60.0, 0)):
        if seconds >= 2.0 * scale:
            return f"{seconds / scale:.{digits}f} {unit}"
    return f"{seconds:.0f} s"


def format_quantity(name: str, value: float) -> str:
    """A quantity with its unit, e.g. "latency 1.234 ms"."""
    if name.endswith("_s"):
        for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
            if abs(value) >= scale:
                return f"{name[:-2]} {value / scale:.4g} {unit}"
        return f"{name[:-2]} {value * 1e9:.4g} ns"
    return f"{name} {value:.4g}"
