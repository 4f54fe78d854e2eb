"""The few schedules of a space that can be a problem's fastest, so that a fit costs milliseconds a trial.

A fit asks again and again for the fastest schedule of each problem on a slightly different GPU. Which schedules can
win changes little: those that win on the GPU as it is, those that win inside each kind of launch, and those that win
when a number is moved to either of its bounds. The fit minimises over these and takes a new shortlist at its end, until
both agree (`dse.calibrate.fit_measured`).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..compiled import jit
from ..kernels.entry import Kernel
from .latency_matrix import ScheduleGroup, compiled_apart, problem_batches, runnable_latency_s

LEADERS = 6  # fastest schedules a problem that are kept, whatever their kind


@dataclass(frozen=True)
class Shortlist:
    """For each problem the schedules that may be its fastest.

    Attributes:
        constants: as in `ScheduleGroup`.
        columns: schedule field -> (problems, width); a problem with fewer candidates repeats its first.
    """

    constants: Mapping[str, Any]
    columns: Mapping[str, np.ndarray]


class Shortlister:
    """Finds shortlists; keeps what is compiled.

    Args:
        kernel: whose cost is minimised.
        columns: the schedules of the space that some problem could run.
        problems: stacked, leaves of shape (problems, 1) (`dse.calibrate.latency_matrix.stack_problems`).
    """

    def __init__(self, kernel: Kernel, columns: Mapping[str, np.ndarray], problems: Any) -> None:
        self._kernel = kernel
        self._problems = problems
        self._parts = compiled_apart(columns, kernel)
        self._latency = [_latency_of(kernel, part.constants) for part in self._parts]

    def __call__(self, gpu: Any, moved: Sequence[Any], kept: Iterable[Shortlist] | None = None) -> list[Shortlist]:
        """A shortlist a compiled kind.

        Args:
            gpu: the GPU as it is.
            moved: the same GPU with a number moved, one after the other.
            kept: an earlier shortlist, whose schedules stay.
        """
        earlier = list(kept) if kept is not None else [None] * len(self._parts)
        return [
            self._shortlist(part, latency, gpu, moved, before)
            for part, latency, before in zip(self._parts, self._latency, earlier, strict=True)
        ]

    def fastest(self, gpu: Any) -> np.ndarray:
        """Seconds of each problem's fastest schedule over the whole space."""
        found = [
            np.concatenate([np.min(seconds, axis=1) for seconds in self._batches(part, latency, gpu)])
            for part, latency in zip(self._parts, self._latency, strict=True)
        ]
        return np.min(found, axis=0)

    def _shortlist(
        self, part: ScheduleGroup, latency: Any, gpu: Any, moved: Sequence[Any], before: Shortlist | None
    ) -> Shortlist:
        kinds = _kinds_of_launch(part)
        winners: list[np.ndarray] = []
        for seconds in self._batches(part, latency, gpu):
            leaders = np.argpartition(seconds, min(LEADERS, seconds.shape[1] - 1), axis=1)[:, :LEADERS]
            by_kind = [kind[np.argmin(seconds[:, kind], axis=1)] for kind in kinds]
            winners.append(np.concatenate([leaders, np.stack(by_kind, axis=1)], axis=1))
        found = [np.concatenate(winners)]
        for other in moved:
            best = [np.argmin(seconds, axis=1) for seconds in self._batches(part, latency, other)]
            found.append(np.concatenate(best)[:, None])
        chosen = _distinct(np.concatenate(found, axis=1))
        columns = {name: values[chosen] for name, values in part.columns.items()}
        if before is not None:
            columns = {name: np.concatenate([before.columns[name], values], axis=1) for name, values in columns.items()}
        return Shortlist(part.constants, columns)

    def _batches(self, part: ScheduleGroup, latency: Any, gpu: Any) -> Iterable[np.ndarray]:
        columns = {name: values[None, :] for name, values in part.columns.items()}
        for which, problems in problem_batches(self._problems, len(part.places)):
            yield np.asarray(latency(problems, columns, gpu))[: which.stop - which.start]


def shortlist_latency(kernel: Kernel, shortlists: Sequence[Shortlist], problems: Any, gpu: Any) -> Any:
    """Seconds of each problem's fastest schedule among its shortlist; pure, usable under `jit` and `grad`.

    Args:
        problems: stacked, leaves of shape (problems, 1).
        gpu: the model's record.
    """
    import jax.numpy as jnp

    found = [runnable_latency_s(kernel, problems, {**part.columns, **part.constants}, gpu) for part in shortlists]
    return jnp.min(jnp.concatenate(found, axis=1), axis=1)


def _latency_of(kernel: Kernel, constants: Mapping[str, Any]) -> Any:

    return jit(lambda problems, columns, gpu: runnable_latency_s(kernel, problems, {**columns, **constants}, gpu))


def _kinds_of_launch(part: ScheduleGroup) -> list[np.ndarray]:
    """Places of the schedules of each kind: split_k, persistent and epilogue together."""
    launches = np.stack([part.columns[name] for name in ("split_k", "persistent", "epilogue")], axis=1)
    _, kinds = np.unique(launches, axis=0, return_inverse=True)
    kinds = kinds.reshape(-1)
    return [np.flatnonzero(kinds == kind) for kind in range(kinds.max() + 1)]


def _distinct(places: np.ndarray) -> np.ndarray:
    """Each row's distinct entries, the first of them repeated up to the widest row."""
    ordered = np.sort(places, axis=1)
    fresh = np.concatenate([np.ones((len(ordered), 1), bool), ordered[:, 1:] != ordered[:, :-1]], axis=1)
    width = int(fresh.sum(axis=1).max())
    order = np.argsort(~fresh, axis=1, kind="stable")[:, :width]
    kept = np.take_along_axis(ordered, order, axis=1)
    return np.where(np.take_along_axis(fresh, order, axis=1), kept, ordered[:, :1])
