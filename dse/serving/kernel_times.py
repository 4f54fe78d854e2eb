"""Seconds of a step's kernels over many layouts: every distinct problem is tuned once, by exhaustion, and looked up."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..content.engine import Engine, KernelEntry
from ..content.gpu import GpuFile
from ..content.space import load_space
from ..errors import UserError
from ..fitting import fitting
from ..kernels.registry import get_kernel
from ..progress import Progress
from ..question import Question, ask
from ..step_operators import Operator
from ..tuning import tune
from .unique_rows import unique_rows


@dataclass(frozen=True)
class _Kind:
    """What problems that are tuned together have in common."""

    kernel: str
    dtype: str
    choices: tuple[tuple[str, Any], ...]
    head_dim: int | None


@dataclass
class KernelTimes:
    """Tuned latencies of distinct problems on one GPU with one engine's kernels; remembered from call to call.

    Attributes:
        gpu: the loaded GPU file.
        engine: which kernels are run.
        clock: "boost" or "sustained".
        once: whether a problem that comes again is looked up; False evaluates every one, for comparison.
        problems: distinct problems tuned so far.
        evaluations: schedules evaluated for them.
    """

    gpu: GpuFile
    engine: Engine
    clock: str = "boost"
    once: bool = True
    problems: int = 0
    evaluations: int = 0
    _known: dict[_Kind, dict[tuple[int, ...], float]] = field(default_factory=dict)
    _best: dict[_Kind, dict[tuple[int, ...], dict[str, int]]] = field(default_factory=dict)

    def seconds(self, operators: Sequence[Operator], points: int, progress: Progress = None) -> list[np.ndarray]:
        """Seconds of one run of each operator.

        Args:
            operators: their sizes are numbers, or arrays of `points` numbers.
            points: layouts.
            progress: as in `dse.sweep.run_sweep`; counts schedules of a kernel's problems.

        Returns:
            float64[points] each; 0 where a size is 0, infinite where no schedule of the kernel's space can run.

        Raises:
            UserError: a problem that the kernel or the GPU does not know.
        """
        asked: dict[_Kind, list[tuple[int, np.ndarray, np.ndarray]]] = {}
        for place, operator in enumerate(operators):
            rows, inverse = _distinct(operator.sizes, points, self.once)
            asked.setdefault(_kind(operator), []).append((place, rows, inverse))
        found: list[np.ndarray] = [np.zeros(points)] * len(operators)
        for kind, places in asked.items():
            names = tuple(operators[places[0][0]].sizes)
            table = self._tuned(kind, names, np.concatenate([rows for _, rows, _ in places]), progress)
            start = 0
            for place, rows, inverse in places:
                found[place] = table[start : start + len(rows)][inverse]
                start += len(rows)
        return found

    def schedule(self, operator: Operator) -> Mapping[str, int]:
        """The fastest schedule of an operator of plain sizes that was tuned before, field -> number."""
        return self._best[_kind(operator)][tuple(int(size) for size in operator.sizes.values())]

    def _tuned(self, kind: _Kind, names: tuple[str, ...], rows: np.ndarray, progress: Progress) -> np.ndarray:
        known = self._known.setdefault(kind, {}) if self.once else {}
        best = self._best.setdefault(kind, {})
        keys = [tuple(row) for row in rows.tolist()]
        wanted = [key for key in (dict.fromkeys(keys) if self.once else keys) if all(key) and key not in known]
        latency: list[float] = []
        if wanted:
            first, preset = self._question(kind, dict(zip(names, wanted[0], strict=True)))
            problems = [replace(first.problem, **dict(zip(names, key, strict=True))).checked() for key in wanted]
            space = load_space(kind.kernel, first.family, first.problem.dtype, preset)
            self.problems += len(wanted)
            try:
                schedules = fitting(space, problems, [first.bound])
            except UserError:  # nothing fits: what else is tuned with a problem must not decide what is said of it
                latency = [math.inf] * len(wanted)
            else:
                tuned = tune(schedules, [(problem, first.bound) for problem in problems], progress)
                latency = [float(value) for value in tuned.latency_s]
                self.evaluations += tuned.evaluations
                best |= dict(zip(wanted, schedules.schedules(tuned.place), strict=True))
        if not self.once:
            left = iter(latency)
            return np.array([next(left) if all(key) else 0.0 for key in keys])
        known |= dict(zip(wanted, latency, strict=True))
        return np.array([known.get(key, 0.0) for key in keys])

    def _question(self, kind: _Kind, sizes: Mapping[str, int]) -> tuple[Question, str | None]:
        """(a problem of a kind as the engine runs it, the preset of its kernels)."""
        problem = get_kernel(kind.kernel).problem(**sizes, dtype=kind.dtype, **dict(kind.choices))
        plain = ask(problem, gpu=self.gpu, clock=self.clock)
        entry = self._entry(kind, plain.family)
        changes = {"implementation": entry.implementation} if entry.implementation else {}
        if entry.multiplies_cache and problem.kv_dtype:
            changes["dtype"] = problem.kv_dtype
        if changes or entry.instructions:
            family = entry.instructions or None
            plain = ask(replace(problem, **changes), gpu=self.gpu, clock=self.clock, family=family)
        if links := dict(kind.choices).get("fabric_numbers"):  # of a fabric that a what-if changed
            plain = replace(plain, problem=replace(plain.problem, fabric_numbers=links))
        return plain, entry.preset or None

    def _entry(self, kind: _Kind, family: str) -> KernelEntry:
        names, cache_dtype = (self.gpu.name, *self.gpu.bases), dict(kind.choices).get("kv_dtype", "")
        return self.engine.entry(kind.kernel, family, kind.dtype, kind.head_dim, names, cache_dtype)


def _kind(operator: Operator) -> _Kind:
    head_dim = operator.sizes.get("head_dim")
    return _Kind(operator.kernel, operator.dtype, operator.choices, None if head_dim is None else int(head_dim))


def _distinct(sizes: Mapping[str, Any], points: int, once: bool) -> tuple[np.ndarray, np.ndarray]:
    """(distinct rows of sizes, int64[rows, sizes]; which row each point is of)."""
    columns = [np.asarray(size, np.int64) for size in sizes.values()]
    if not once:
        return np.stack([np.broadcast_to(column, points) for column in columns], axis=1), np.arange(points)
    return unique_rows(columns, points)
