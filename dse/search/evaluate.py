"""The cost of a batch of candidates, each with its own GPU, in one call of one compiled function."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from ..columns import cost_columns, in_order
from ..compiled import jit
from ..job import CostModel, SweepJob
from ..rows import as_numbers, table
from ..space import Space
from .candidates import Candidates
from .goals import PREFIX, Goals
from .machines import Machines, stacked

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Evaluated:
    """What a batch cost.

    Attributes:
        columns: of the table of trials, beside the candidates' own: array[n] each, `reason` among them.
        values: float64[n, objectives].
        violations: float64[n, constraints], see `dse.search.Searcher.tell`.
        evaluations: evaluations of the model.
    """

    columns: Mapping[str, np.ndarray]
    values: np.ndarray
    violations: np.ndarray
    evaluations: int


class Evaluator(Protocol):
    """Says what candidates cost, and makes the table of them."""

    def __call__(self, candidates: Candidates) -> Evaluated:
        """The costs of a batch."""
        ...

    def rows(self, candidates: Candidates, columns: Mapping[str, np.ndarray]) -> "pd.DataFrame":
        """The table of trials, one row a candidate."""
        ...

    def notes(self, evaluated: Evaluated) -> list[dict[str, Any]]:
        """What to keep with each trial in a file, so that it needs no second search for its cost."""
        ...

    def recalled(self, candidates: Candidates, notes: Sequence[Mapping[str, Any]]) -> Evaluated:
        """The costs of candidates that were evaluated before, from their notes."""
        ...

    def confirmed(self, candidates: Candidates) -> Evaluated | None:
        """Better costs of candidates, in the order of the first objective, where those told are bounds; else None."""
        ...

    def unchanged(self, candidate: Candidates) -> Evaluated:
        """What the GPU without the search's changes costs, which need not keep to limits."""
        ...


class BatchEvaluator:
    """Evaluates schedules, each on its GPU, in batches of one size; see `Evaluator`.

    Args:
        job: problem, GPU, kernel and space.
        goals: objectives and limits.
        machines: the GPUs.
        size: candidates a batch; smaller batches are padded, larger ones cut.
    """

    def __init__(self, job: SweepJob, goals: Goals, machines: Machines, size: int) -> None:
        self._job, self._goals, self._machines, self._size = job, goals, machines, size

    def __call__(self, candidates: Candidates) -> Evaluated:
        """See `Evaluator`."""
        blocks = [self._block(_part(candidates, start, self._size)) for start in range(0, len(candidates), self._size)]
        columns = {name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]}
        columns |= self._machines.quantity_columns(candidates)
        goals = self._goals
        return Evaluated(columns, goals.values(columns), goals.violations(columns), len(candidates))

    def rows(self, candidates: Candidates, columns: Mapping[str, np.ndarray]) -> "pd.DataFrame":
        """See `Evaluator`: the columns of `dse.rows.evaluate_rows`."""
        own = {name: values for name, values in columns.items() if not name.startswith(PREFIX)}
        space = self._job.space
        return table(space, [space.index_of(row) for row in candidates.digits.tolist()], own)

    def notes(self, evaluated: Evaluated) -> list[dict[str, Any]]:
        """See `Evaluator`: none."""
        return [{} for _ in evaluated.values]

    def recalled(self, candidates: Candidates, notes: Sequence[Mapping[str, Any]]) -> Evaluated:
        """See `Evaluator`."""
        return self(candidates)

    def confirmed(self, candidates: Candidates) -> Evaluated | None:
        """See `Evaluator`."""
        return None

    def unchanged(self, candidate: Candidates) -> Evaluated:
        """See `Evaluator`."""
        return self(candidate)

    def _block(self, candidates: Candidates) -> dict[str, np.ndarray]:
        schedules = fields_of(self._job.space, candidates.digits)
        gpus = stacked(self._machines.records(candidates), self._size) if candidates.gpu else self._job.gpu
        padded = {name: np.resize(values.astype(np.float32), self._size) for name, values in schedules.items()}
        evaluate = compiled_batch(self._job.model, bool(candidates.gpu))
        costs = in_order(evaluate(padded, self._job.problem_arrays, gpus))
        return as_numbers(schedules | {name: np.asarray(costs[name])[: len(candidates)] for name in costs}, schedules)


def fields_of(space: Space, digits: np.ndarray) -> dict[str, np.ndarray]:
    """Schedule fields of rows of digits: field -> int64[n]."""
    columns: dict[str, np.ndarray] = {}
    for place, axis in enumerate(space.axes):
        columns |= dict(zip(axis.fields, axis.table()[:, digits[:, place]], strict=True))
    return columns | {name: np.full(len(digits), value) for name, value in space.fixed.items()}


def _part(candidates: Candidates, start: int, size: int) -> Candidates:
    here = slice(start, start + size)
    return Candidates(candidates.digits[here], {name: values[here] for name, values in candidates.gpu.items()})


@lru_cache(maxsize=16)
def compiled_batch(model: CostModel, own_gpus: bool) -> Callable[..., dict[str, Any]]:
    """`evaluate(schedules, problem, gpus)`: cost columns of schedules, each on its own GPU or all on one."""
    import jax

    def one(schedule: dict[str, Any], problem: Any, gpu: Any) -> dict[str, Any]:
        return cost_columns(model.cost(problem, model.schedule(schedule), gpu))

    return jit(jax.vmap(one, in_axes=(0, None, 0 if own_gpus else None)))
