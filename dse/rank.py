"""The user's own candidates, ranked by predicted latency; those that cannot run come last, with the reason."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .advice import what_binds
from .binding import bind, families_of
from .candidate_files import listed_entries, read_entries
from .candidates import Candidate, candidates_of
from .content.gpu import GpuFile
from .content.space import load_space
from .errors import UserError
from .explain import costs_of
from .infeasible import why_not
from .job import SweepJob
from .roofline import roofline
from .schedule_words import words_of
from .triton_config import TritonGpu
from .trust import TrustLabel, interval_of, label_of

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Ranked:
    """One candidate with what the model says of it, and how far that can be trusted (None: there are no residuals)."""

    candidate: Candidate
    kernel: str
    cost: dict[str, Any]
    why_not: str
    binds: str
    trust: TrustLabel | None = None

    @property
    def schedule_text(self) -> str:
        """The schedule in its kernel's words."""
        return words_of(self.kernel).format(self.candidate.schedule)

    @property
    def feasible(self) -> bool:
        """Whether it can run."""
        return not self.why_not

    @property
    def latency_s(self) -> float:
        """Predicted latency; infinite where it cannot run."""
        return float(self.cost["latency_s"]) if self.feasible else float("inf")

    @property
    def interval_s(self) -> tuple[float, float] | None:
        """Where a tuned kernel of this predicted latency should be measured; None where the candidate cannot run."""
        return interval_of(self.trust if self.feasible else None, self.latency_s)


def rank_candidates(
    source: str | Path | Sequence[Any],
    problem: Any,
    gpu: GpuFile,
    family: str | None = None,
    accumulator: str | None = None,
    clock: str = "boost",
) -> list[Ranked]:
    """Candidates in the order of predicted latency, equal ones in the order given; then those that cannot run.

    Args:
        source: a file (`dse.candidate_files.read_entries`; a Python file is run), or a list of Config objects, mappings
            and schedule texts.
        problem: the user's problem.
        gpu: a loaded GPU file.
        family: of candidates that are schedules; None: the GPU's fastest for the type. Triton configs follow Triton.
        accumulator: accumulator type; None: fp32, or int32 for integers.
        clock: "boost" or "sustained".

    Raises:
        UserError: unreadable candidates, or a type or family that the GPU lacks.
    """
    entries = read_entries(source) if isinstance(source, (str, Path)) else listed_entries("candidates", list(source))
    if not entries:
        raise UserError(f"{source} holds no candidate: a list of at least one is needed")
    return rank_entries(entries, problem, gpu, family, accumulator, clock)


def rank_entries(
    entries: Sequence[tuple[str, Any]],
    problem: Any,
    gpu: GpuFile,
    family: str | None = None,
    accumulator: str | None = None,
    clock: str = "boost",
) -> list[Ranked]:
    """`rank_candidates` of entries that were read before (`dse.candidate_files.read_entries`)."""
    bind(gpu, problem, accumulator, family, clock)
    about = TritonGpu(families_of(problem, gpu, accumulator), int(gpu["sm_count"]))
    candidates = candidates_of(entries, problem, about, family)
    ranked: list[Ranked] = []
    for chosen in dict.fromkeys(candidate.family for candidate in candidates):
        members = [candidate for candidate in candidates if candidate.family == chosen]
        bound = bind(gpu, problem, accumulator, chosen, clock)
        space = load_space(problem.kernel, chosen, problem.dtype)
        job = SweepJob(space, problem, bound, gpu_name=gpu.name, clock=clock)
        trust = label_of(job)
        roof = roofline(problem, bound)
        for member, cost in zip(members, costs_of(job, [member.schedule for member in members]), strict=True):
            reason = why_not(problem, member.schedule, cost, bound) if int(cost["reason"]) else ""
            binds = "" if reason else what_binds(cost, roof, problem.kernel)
            ranked.append(Ranked(member, problem.kernel, cost, reason, binds, trust))
    place = {id(candidate): at for at, candidate in enumerate(candidates)}
    return sorted(ranked, key=lambda entry: (entry.latency_s, place[id(entry.candidate)]))


def ranked_table(ranked: Sequence[Ranked]) -> "pd.DataFrame":
    """The ranking as a table: rank, name, family, feasible, slowdown against the best, why, and all columns.

    Where there are residuals also latency_low_s and latency_high_s, validated_gpu, shape_class and extrapolates.
    """
    import pandas as pd

    best = min((entry.latency_s for entry in ranked), default=float("inf"))
    rows = [
        {
            "rank": place if entry.feasible else None,
            "name": entry.candidate.name,
            "family": entry.candidate.family,
            "feasible": entry.feasible,
            "slowdown": entry.latency_s / best if entry.feasible else None,
            "why": entry.binds or entry.why_not,
            "schedule": entry.schedule_text,
            **{name: entry.candidate.schedule[name] for name in words_of(entry.kernel).fields},
            **entry.cost,
            **_trust_columns(entry),
        }
        for place, entry in enumerate(ranked, start=1)
    ]
    return pd.DataFrame(rows)


def _trust_columns(entry: Ranked) -> dict[str, Any]:
    if not entry.trust:
        return {}
    low, high = entry.interval_s or (None, None)
    return {"latency_low_s": low, "latency_high_s": high, **entry.trust.words()}
