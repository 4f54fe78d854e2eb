"""The columns of a batch's files: whose schedule a row is, then what a sweep's best rows have."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..columns import code_names
from ..rows import evaluate_schedules, index_column, label_columns
from ..trust import label_of
from .plan import Case, Part
from .rows import BatchRow

if TYPE_CHECKING:
    import pyarrow as pa

OWN: dict[str, tuple[str, str, str]] = {  # name -> (Arrow type, unit, meaning)
    "row": ("int32", "1", "place of the problem in the batch's list, from 0"),
    "name": ("string", "text", "what the problem is called"),
    "model": ("string", "text", "whose step it belongs to; empty: a shape list"),
    "phase": ("string", "text", "prefill or decode; empty: a shape list"),
    "tp": ("int32", "1", "GPUs that share every layer"),
    "ep": ("int32", "1", "of these GPUs, those that share the experts"),
    "tokens": ("int32", "1", "tokens of a prompt in prefill, sequences in decode; 0: a shape list"),
    "context": ("int32", "1", "keys that a sequence's queries see; 0: a shape list"),
    "layer": ("string", "text", "which product of the model it is"),
    "shape": ("string", "text", "as the kernel writes it"),
    "dtype": ("string", "text", "input type"),
    "choices": ("string", "text", "what else was chosen of the kernel, name=value"),
    "count": ("float64", "1", "how often it runs in its step; the weight of a line of a shape list"),
    "rank": ("int32", "1", "place of the schedule among the problem's best, from 0"),
}


def case_columns(case: Case, index: np.ndarray, schedules: dict[str, np.ndarray], latency_s: np.ndarray) -> dict:
    """The best schedules of one problem on one GPU, as `SweepResult.top` has them.

    Args:
        case: the problem.
        index: int64[n], of the schedules in the space.
        schedules: every schedule field -> numbers[n].
        latency_s: float32[n], of the evaluation that ranked them.

    Returns:
        Column -> array[n].
    """
    job = case.job
    costs = evaluate_schedules(job, schedules)
    costs["latency_s"] = np.asarray(latency_s, np.float32)  # the sweep's own bits, see `dse.sweep`
    columns = {"index": index_column([int(at) for at in index], job.space.size)}
    columns |= label_columns(job.space, [int(at) for at in index]) | costs | code_names(costs)
    trust = label_of(job)
    return columns | (trust.columns(costs["latency_s"]) if trust else {})


def part_table(part: Part, rows: Sequence[BatchRow], found: Sequence[dict]) -> "pa.Table":
    """The table of one file: for every row of every case its best schedules, the fastest first.

    Args:
        part: the cases.
        rows: of the whole batch.
        found: `case_columns` of every case; an empty mapping where no schedule can run.
    """
    import pyarrow as pa

    from ..store import as_table

    own: list[dict[str, Any]] = []
    taken: list[dict] = []
    for case, columns in zip(part.cases, found, strict=True):
        count = len(columns["index"]) if columns else 0
        for place in case.rows if count else ():
            taken.append(columns)
            own += [{"row": place, "rank": rank, **_about(rows[place])} for rank in range(count)]
    fields = [
        pa.field(name, getattr(pa, kind)(), nullable=False, metadata={"unit": unit, "description": meaning})
        for name, (kind, unit, meaning) in OWN.items()
    ]
    if not taken:
        return pa.Table.from_pylist([], schema=pa.schema(fields))
    joined = {name: np.concatenate([columns[name] for columns in taken]) for name in taken[0]}
    costs = as_table(joined, part.space.size > 2**64, part.kernel)
    arrays = [pa.array([entry[field.name] for entry in own], field.type) for field in fields]
    return pa.Table.from_arrays([*arrays, *costs.columns], schema=pa.schema([*fields, *costs.schema]))


def _about(row: BatchRow) -> dict[str, Any]:
    names = ("name", "model", "phase", "tp", "ep", "tokens", "context", "layer", "shape", "dtype", "count")
    return {name: getattr(row, name) for name in names} | {"choices": row.choices_text}
