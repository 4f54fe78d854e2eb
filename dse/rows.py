"""Full rows of chosen schedules: labels, schedule fields and the whole cost breakdown as a table."""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from .columns import CODES, code_names, cost_columns, in_order
from .compiled import jit
from .job import CostModel, SweepJob
from .space import Space

if TYPE_CHECKING:
    import pandas as pd

ROWS = 1024  # one compiled shape


def evaluate_rows(job: SweepJob, indices: Sequence[int] | np.ndarray) -> "pd.DataFrame":
    """The rows of schedules given by index: what they are and what they cost.

    Args:
        job: problem, GPU and space.
        indices: of the space, any order, repeats allowed.

    Returns:
        One row an index, in the given order: `index`, a column of labels for each axis that sets several fields, the
        schedule fields, the cost columns (`dse.columns`) and the words for the codes among them. Infeasible schedules
        have a `reason` other than 0 and numbers that are not to be used.

    Raises:
        UserError: an index outside the space.
    """
    indices = [int(index) for index in indices]
    return table(job.space, indices, evaluate_schedules(job, job.space.rows(indices)))


def evaluate_schedules(job: SweepJob, schedules: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Schedule fields and cost columns of schedules given by their fields, whether or not a space holds them.

    Args:
        job: problem and GPU; the space is not used.
        schedules: every schedule field -> numbers[n].

    Returns:
        Column -> array[n], the schedule fields first.
    """
    evaluate = _compiled_rows(job.model)
    arrays = {name: np.asarray(values, np.float32) for name, values in schedules.items()}
    count = len(next(iter(arrays.values())))
    blocks: list[dict[str, np.ndarray]] = []
    for start in range(0, max(count, 1), ROWS):
        block = {name: values[start : start + ROWS] for name, values in arrays.items()}
        used = len(next(iter(block.values())))
        again = np.arange(ROWS) % max(used, 1)
        padded = {name: values[again] if used else np.ones(ROWS, np.float32) for name, values in block.items()}
        costs = evaluate(padded, job.problem_arrays, job.gpu)
        blocks.append({name: np.asarray(values)[:used] for name, values in costs.items()})
    costs = in_order({name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]})
    return as_numbers(dict(schedules) | costs, schedules)


def table(space: Space, indices: Sequence[int], columns: Mapping[str, np.ndarray]) -> "pd.DataFrame":
    """A table of rows of a space: index, labels, the given columns, and words for the codes."""
    import pandas as pd

    front = {"index": index_column(indices, space.size)} | label_columns(space, indices)
    return pd.DataFrame(front | dict(columns) | code_names(columns))


def index_column(indices: Sequence[int], size: int) -> np.ndarray:
    """Indices as uint64, or as decimal strings in a space that has more."""
    if size <= 2**64:
        return np.array(indices, np.uint64)
    return np.array([str(index) for index in indices], object)


def label_columns(space: Space, indices: Sequence[int]) -> dict[str, np.ndarray]:
    """Axis -> labels, for the axes that set several fields; the others' values say the same."""
    labels = [space.labels(index) for index in indices]
    names = [axis.name for axis in space.axes if axis.name not in axis.fields]
    return {name: np.array([row[name] for row in labels], object) for name in names}


def as_numbers(columns: Mapping[str, Any], schedules: Collection[str]) -> dict[str, np.ndarray]:
    """Columns with the types they have in tables and files: schedule fields and codes int32, the rest float32."""
    return {
        name: np.asarray(values, np.int32 if name in schedules or name in CODES else np.float32)
        for name, values in columns.items()
    }


@lru_cache(maxsize=16)
def _compiled_rows(model: CostModel) -> Callable[..., dict[str, Any]]:
    import jax.numpy as jnp

    def costs(schedules: dict[str, Any], problem: Any, gpu: Any) -> dict[str, Any]:
        columns = cost_columns(model.cost(problem, model.schedule(schedules), gpu))
        return {name: jnp.broadcast_to(jnp.asarray(values), (ROWS,)) for name, values in columns.items()}

    return jit(costs)
