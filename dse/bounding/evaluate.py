"""Schedules evaluated wherever they stand in the space, many at once, with what rounding may take from their values.

An ordinary sweep evaluates neighbours; the blocks that get past their bounds lie all over the space. So their fields
are decoded on the host, and the model is compiled once for `POINTS` schedules, which repeat where fewer are left.
"""

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from ..compiled import jit
from ..job import CostModel, SweepJob
from .lower_bound import lowered

POINTS = 2**14  # schedules evaluated at once


class Evaluated(NamedTuple):
    """What the model says of n schedules.

    Attributes:
        positions: int64[n] from the job's start on.
        values: float32[n, columns] as the job's columns.
        lowest: the same less what another compiled form of the model may round differently.
        runs: bool[n], which can run and have finite values.
    """

    positions: np.ndarray
    values: np.ndarray
    lowest: np.ndarray
    runs: np.ndarray


def evaluate(job: SweepJob, positions: np.ndarray) -> Evaluated:
    """Evaluates the schedules at these positions, at least one, counted from the job's start."""
    model = _compiled(job.model, job.columns)
    schedules = {name: values.astype(np.float32) for name, values in _rows(job, positions).items()}
    blocks = []
    for first in range(0, len(positions), POINTS):
        some = {name: np.resize(values[first : first + POINTS], POINTS) for name, values in schedules.items()}
        used = min(POINTS, len(positions) - first)
        blocks.append(np.asarray(model(some, job.problem_arrays, job.gpu))[:, :used])
    found = np.concatenate(blocks, axis=1)
    many = len(job.columns)
    values, lowest = (np.ascontiguousarray(part.T) for part in (found[:many], found[many:-1]))
    return Evaluated(positions, values, lowest, (found[-1] == 0) & np.isfinite(values).all(axis=1))


def _rows(job: SweepJob, positions: np.ndarray) -> dict[str, np.ndarray]:
    if job.end < 2**63:
        return job.space.rows(positions + job.start)
    return job.space.rows([job.start + int(position) for position in positions])


@lru_cache(maxsize=16)
def _compiled(model: CostModel, columns: tuple[str, ...]) -> Any:
    import jax.numpy as jnp

    def model_of(schedules: dict[str, Any], problem: Any, gpu: Any) -> Any:
        cost = model.cost(problem, model.schedule(schedules), gpu)
        least = lowered(cost)
        wanted = [*(getattr(cost, name) for name in columns), *(getattr(least, name) for name in columns), cost.reason]
        return jnp.stack([jnp.broadcast_to(jnp.asarray(value, jnp.float32), (POINTS,)) for value in wanted])

    return jit(model_of)
