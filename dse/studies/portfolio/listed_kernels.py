"""The user's own candidates as kernels that a portfolio is chosen from."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ...candidate_files import listed_entries, read_entries
from ...candidates import Candidate, candidates_of
from ...content.gpu import GpuFile
from ...content.space import load_space
from ...errors import UserError
from ...job import SweepJob
from ...kernels.gemm import GemmProblem
from ...progress import Progress
from ...rows import evaluate_schedules
from ...schedule_text import FIELDS
from ...triton_config import TritonGpu
from .kernel_matrix import RUN_TIME_FIELDS, Variants

LARGE = 2**20  # a side of a problem on which every launch order is one of its own


@dataclass(frozen=True, eq=False)
class ListedKernels:
    """Candidates of a file or list, each as what it is on each shape.

    Attributes:
        entries: what was read (`dse.candidate_files.read_entries`).
        example: a problem of the type and layout asked for.
        gpu: a loaded GPU file.
        accumulator, clock: how it is bound.
        family: of candidates that are schedules; None: the GPU's fastest.
        counted: "schedules": each candidate is a kernel; "kernels": those that differ in run-time parameters alone are
            one.
    """

    entries: Sequence[tuple[str, Any]]
    example: GemmProblem
    gpu: GpuFile
    accumulator: str
    clock: str
    family: str | None
    counted: str

    @property
    def count(self) -> int:
        """Kernels."""
        return int(self._kernel.max()) + 1

    @property
    def schedule_count(self) -> int:
        """Candidates."""
        return len(self.entries)

    def latencies(self, problems: Sequence[GemmProblem], progress: Progress = None) -> np.ndarray:
        """float32[shapes, kernels]: of each kernel its fastest candidate; infinite where none can run."""
        found = np.full((len(problems), self.count), np.inf, np.float32)
        for row, problem in zip(found, problems, strict=True):
            np.minimum.at(row, self._kernel, self._latency_s(self._candidates(problem), problem))
        return found

    def variants(self, kernels: Sequence[int], problems: Sequence[GemmProblem]) -> Variants:
        """All candidates of some kernels, evaluated on every shape, each as it runs there."""
        place_of = {number: place for place, number in enumerate(kernels)}
        places = [at for at, number in enumerate(self._kernel.tolist()) if number in place_of]
        members = [[self._candidates(problem)[at] for at in places] for problem in problems]
        fields = {
            name: np.array([[candidate.schedule[name] for candidate in row] for row in members], np.int64)
            for name in FIELDS
        }
        latency_s = np.stack([self._latency_s(row, problem) for row, problem in zip(members, problems, strict=True)])
        owner = np.array([place_of[int(self._kernel[at])] for at in places], np.int64)
        families = tuple(candidate.family for candidate in members[0])
        return Variants(owner, families, fields, latency_s, tuple(candidate.name for candidate in members[0]))

    @cached_property
    def _kernel(self) -> np.ndarray:
        if self.counted == "schedules":
            return np.arange(len(self.entries))
        compiled = [name for name in FIELDS if name not in RUN_TIME_FIELDS]
        numbers: dict[tuple[Any, ...], int] = {}
        return np.array(
            [
                numbers.setdefault(
                    (at.family, at.schedule["split_k"] > 1, *(at.schedule[n] for n in compiled)), len(numbers)
                )
                for at in self._candidates(replace(self.example, m=LARGE, n=LARGE))
            ]
        )

    def _candidates(self, problem: GemmProblem) -> list[Candidate]:
        about = TritonGpu(self._families, int(self.gpu["sm_count"]))
        return candidates_of(self.entries, problem, about, self.family)

    @cached_property
    def _families(self) -> tuple[str, ...]:
        dtype = self.example.dtype
        return tuple(self.gpu.families(dtype, self.accumulator) or self.gpu.families(dtype))

    def _latency_s(self, members: Sequence[Candidate], problem: GemmProblem) -> np.ndarray:
        found = np.empty(len(members), np.float32)
        for family in dict.fromkeys(candidate.family for candidate in members):
            places = np.array([at for at, candidate in enumerate(members) if candidate.family == family])
            own = {name: np.array([members[at].schedule[name] for at in places]) for name in FIELDS}
            gpu = self.gpu.bind(problem.dtype, self.accumulator, family, clock=self.clock)
            costs = evaluate_schedules(SweepJob(load_space("gemm", family, problem.dtype), problem, gpu), own)
            found[places] = np.where(costs["reason"] == 0, costs["latency_s"], np.inf)
        return found


def listed_kernels(
    source: str | Path | Sequence[Any],
    example: GemmProblem,
    gpu: GpuFile,
    accumulator: str,
    clock: str = "boost",
    family: str | None = None,
    counted: str = "schedules",
) -> ListedKernels:
    """Reads candidates (`dse.candidates.read_candidates` says what they may be; a Python file is run).

    Raises:
        UserError: unreadable candidates; the message says where.
    """
    entries = read_entries(source) if isinstance(source, (str, Path)) else listed_entries("candidates", list(source))
    if not entries:
        raise UserError(f"{source} holds no candidate: a list of at least one is needed")
    return ListedKernels(tuple(entries), example, gpu, accumulator, clock, family, counted)
