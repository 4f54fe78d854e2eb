"""The cost of rows that each have a problem, a schedule and a GPU of their own."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from .columns import cost_columns, in_order
from .compiled import jit
from .job import CostModel, as_float32
from .kernels.registry import get_kernel
from .rows import as_numbers

ROWS = 256  # one compiled shape


def paired_costs(
    problems: Sequence[Any], schedules: Mapping[str, np.ndarray], gpus: Sequence[Any], kernel_name: str = "gemm"
) -> dict[str, np.ndarray]:
    """The whole breakdown of every row.

    Args:
        problems: the user's, one a row (anything with `arrays()`).
        schedules: every schedule field -> numbers[rows].
        gpus: the model's records, one a row.
        kernel_name: of the cost model.

    Returns:
        Cost column (`dse.columns.COST_COLUMNS`) -> array[rows]; where `reason` is not 0 the numbers are not to be used.
    """
    import jax

    records = [as_float32(problem.arrays()) for problem in problems]
    machines = [as_float32(gpu) for gpu in gpus]
    # what one has and another lacks (scales of narrow types, drift) makes another record
    held = [jax.tree.structure(pair) for pair in zip(records, machines, strict=True)]
    found: dict[str, np.ndarray] = {}
    for kind in dict.fromkeys(held):
        rows = np.array([row for row, other in enumerate(held) if other == kind])
        fields = {name: np.asarray(values)[rows] for name, values in schedules.items()}
        costs = _costs([records[row] for row in rows], fields, [machines[row] for row in rows], kernel_name)
        for name, values in costs.items():
            found.setdefault(name, np.zeros(len(records), values.dtype))[rows] = values
    return found


def _costs(
    records: Sequence[Any], schedules: Mapping[str, np.ndarray], machines: Sequence[Any], kernel_name: str
) -> dict[str, np.ndarray]:
    evaluate = _compiled(get_kernel(kernel_name))
    blocks = []
    for start in range(0, len(records), ROWS):
        at = np.minimum(np.arange(start, start + ROWS), len(records) - 1)
        fields = {name: np.asarray(values, np.float32)[at] for name, values in schedules.items()}
        costs = evaluate(_stacked(records, at), fields, _stacked(machines, at))
        used = min(ROWS, len(records) - start)
        blocks.append({name: np.asarray(values)[:used] for name, values in costs.items()})
    return as_numbers(in_order({name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]}), ())


def _stacked(records: Sequence[Any], at: np.ndarray) -> Any:
    import jax

    return jax.tree.map(lambda *leaves: np.stack(leaves), *(records[row] for row in at))


@lru_cache(maxsize=4)
def _compiled(kernel: CostModel) -> Any:
    import jax

    def one(problem: Any, fields: dict[str, Any], gpu: Any) -> dict[str, Any]:
        return cost_columns(kernel.cost(problem, kernel.schedule(fields), gpu))

    return jit(jax.vmap(one))
