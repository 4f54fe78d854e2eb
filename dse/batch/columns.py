"""The columns of a batch's files: whose schedule a row is, then what a sweep's best rows have."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..columns import CODES, COST_COLUMNS, OF_SOME_KERNELS, TRUST_COLUMNS, code_names, describe, schedule_columns
from ..kernels.registry import get_kernel
from ..rows import evaluate_schedules, index_column
from ..schedule_words import words_of
from ..store import COLUMN_TYPES, TEXT
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
    "schedule": ("string", "text", "the whole schedule in its kernel's words, as dse explain reads it"),
}


def case_columns(case: Case, index: np.ndarray, schedules: dict[str, np.ndarray], latency_s: np.ndarray) -> dict:
    """The best schedules of one problem on one GPU, as `SweepResult.top` has them.

    Args:
        case: the problem.
        index: int64[n], of the schedules in the space.
        schedules: every schedule field -> numbers[n].
        latency_s: float32[n], of the evaluation that ranked them.

    Returns:
        Column -> array[n]; in place of a sweep's labels of axes, which other kernels' fields may be called like, stands
        `schedule`, the whole schedule in its kernel's words.
    """
    job = case.job
    costs = evaluate_schedules(job, schedules)
    costs["latency_s"] = np.asarray(latency_s, np.float32)  # the sweep's own bits, see `dse.sweep`
    fields = job.model.schedule_fields
    found = [{name: int(schedules[name][at]) for name in fields} for at in range(len(index))]
    texts = [words_of(job.space.kernel).format(schedule) for schedule in found]
    columns = {"schedule": np.array(texts, object), "index": index_column([int(at) for at in index], job.space.size)}
    columns |= costs | code_names(costs)
    trust = label_of(job)
    return columns | (trust.columns(costs["latency_s"]) if trust else {})


def part_table(part: Part, rows: Sequence[BatchRow], kernels: Sequence[str], found: Sequence[dict]) -> "pa.Table":
    """The table of one file: for every row of every case its best schedules, the fastest first.

    Args:
        part: the cases.
        rows: of the whole batch.
        kernels: of the whole batch: every file has the schedule fields of all, so that any reader takes the folder as
            one table; those of other kernels are null.
        found: `case_columns` of every case; an empty mapping where no schedule can run.
    """
    import pyarrow as pa

    own: list[dict[str, Any]] = []
    taken: list[dict] = []
    for case, columns in zip(part.cases, found, strict=True):
        for place in case.rows if columns else ():
            taken.append(columns)
            own += [
                {"row": place, "rank": rank, "schedule": text, **_about(rows[place])}
                for rank, text in enumerate(columns["schedule"])
            ]
    schema = batch_schema(kernels, part.kernel, part.space.size > 2**64)
    arrays = []
    for field in schema:
        if field.name in OWN:
            values: Any = [entry[field.name] for entry in own]
        elif not taken or field.name not in taken[0]:
            values = [None] * len(own)
        else:
            values = np.concatenate([columns[field.name] for columns in taken])
        arrays.append(pa.array(values, field.type, from_pandas=False))
    return pa.Table.from_arrays(arrays, schema=schema)


def batch_schema(kernels: Sequence[str], kernel: str, big_index: bool = False) -> "pa.Schema":
    """The columns of a batch's files, the same in all of them but for what a kernel calls a field that others have too.

    Args:
        kernels: of the whole batch.
        kernel: whose file it is.
        big_index: its space has more than 2^64 points: indices are decimal strings.
    """
    import pyarrow as pa

    fields = [
        pa.field(name, getattr(pa, kind)(), nullable=False, metadata={"unit": unit, "description": meaning})
        for name, (kind, unit, meaning) in OWN.items()
    ]
    words = [f"{name}_name" for name in CODES]
    of_kernels = {name: one for one in (*kernels, kernel) for name in get_kernel(one).schedule_fields}
    for name in ("index", *of_kernels, *COST_COLUMNS, *words, *TRUST_COLUMNS):
        unit, meaning = describe(name, schedule_columns(of_kernels.get(name, kernel)))
        kind = TEXT if name in words or (name == "index" and big_index) else COLUMN_TYPES.get(name, pa.int32())
        missing = name in of_kernels or name in TRUST_COLUMNS or name in OF_SOME_KERNELS
        fields.append(pa.field(name, kind, nullable=missing, metadata={"unit": unit, "description": meaning}))
    return pa.schema(fields)


def _about(row: BatchRow) -> dict[str, Any]:
    names = ("name", "model", "phase", "tp", "ep", "tokens", "context", "layer", "shape", "dtype", "count")
    return {name: getattr(row, name) for name in names} | {"choices": row.choices_text}
