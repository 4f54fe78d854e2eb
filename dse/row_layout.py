"""Blocks of consecutive rows of a sweep as Arrow tables: which columns there are, and how each is made."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from .columns import CODES, COST_COLUMNS, TRUST_COLUMNS, code_words, cost_columns, in_order
from .errors import UserError, unknown
from .platform import configure_jax
from .space import Space

if TYPE_CHECKING:
    import pyarrow as pa

    from .job import SweepJob
    from .trust import TrustLabel

WORDS = "_name"  # what the column of words beside a column of codes ends in


class RowLayout:
    """The columns of all rows of a space and how a block of them is put together, with few copies.

    A block is consecutive indices, so the labels of axes are runs of digits and are made without a division a row;
    labels and words are dictionary arrays, which `dse.store.row_writer` writes as text.

    Args:
        space: of the rows.
        evaluated: names of the columns that a block brings: schedule fields, then cost columns.
        trust: the label that gives every row its interval; None: rows have none.
        chosen: the columns that are wanted, of `column_names`; None: all.

    Attributes:
        columns: their names, in the order of the tables: the index, labels of the axes that set several fields,
            schedule fields, costs, words for codes, the interval.
        schema: of the tables.
    """

    def __init__(
        self,
        space: Space,
        evaluated: Collection[str],
        trust: "TrustLabel | None" = None,
        chosen: Sequence[str] | None = None,
    ) -> None:
        import pyarrow as pa

        from .store import row_schema

        names = column_names(space, evaluated, trust is not None)
        self.columns = tuple(name for name in names if chosen is None or name in chosen)
        self._space, self._trust = space, trust
        words = {name + WORDS: entries for name, entries in code_words().items()}
        labels = {axis.name: axis.labels for axis in space.axes if axis.name not in axis.fields}
        self._texts = {name: pa.array(entries) for name, entries in (labels | words).items() if name in self.columns}
        self._big = space.size > 2**64
        empty = {name: self._empty(name, evaluated) for name in self.columns}
        self.schema = row_schema(empty, self._big, space.kernel)

    def table(self, start: int, evaluated: Mapping[str, np.ndarray]) -> "pa.Table":
        """The rows from an index on.

        Args:
            start: index of the first row.
            evaluated: column -> array[rows], see `evaluated_types`; more than are needed may be there.
        """
        import pyarrow as pa

        from .store import as_arrow

        count = len(next(iter(evaluated.values())))
        made: dict[str, Any] = {"index": self._indices(start, count)}
        for axis, stride in zip(self._space.axes, self._space.strides, strict=True):
            if axis.name in self._texts:
                made[axis.name] = self._text(axis.name, digits_of_run(start, count, stride, axis.radix))
        for name in self.columns:
            if name in self._texts and name not in made:
                codes = evaluated[name.removesuffix(WORDS)]
                made[name] = self._text(name, np.clip(codes, 0, len(self._texts[name]) - 1))
        if self._trust and any(name in TRUST_COLUMNS for name in self.columns):
            made |= self._trust.columns(evaluated["latency_s"])
        columns = [made.get(field.name, evaluated.get(field.name)) for field in self.schema]
        arrays = [as_arrow(values, field.type) for values, field in zip(columns, self.schema, strict=True)]
        return pa.Table.from_arrays(arrays, schema=self.schema)

    def _empty(self, name: str, evaluated: Collection[str]) -> Any:
        if name in self._texts:
            return self._text(name, np.zeros(0, np.int32))
        if name == "index":
            return self._indices(0, 0)
        return np.zeros(0, evaluated_types(self._space, evaluated).get(name, np.float32))

    def _text(self, name: str, places: np.ndarray) -> "pa.DictionaryArray":
        import pyarrow as pa

        entries = self._texts[name]
        return pa.DictionaryArray.from_arrays(pa.array(places.astype(_place_type(len(entries)), copy=False)), entries)

    def _indices(self, start: int, count: int) -> np.ndarray:
        if self._big:
            return np.array([str(index) for index in range(start, start + count)], object)
        return np.uint64(start) + np.arange(count, dtype=np.uint64)


def column_names(space: Space, evaluated: Collection[str], trust: bool) -> tuple[str, ...]:
    """The names of all columns that rows of a space have, in order.

    Args:
        space: of the rows.
        evaluated: names of the schedule fields and cost columns.
        trust: whether there are intervals.
    """
    labels = [axis.name for axis in space.axes if axis.name not in axis.fields]
    fields = [name for name in space.fields if name in evaluated]
    words = [name + WORDS for name in CODES if name in evaluated]
    intervals = list(TRUST_COLUMNS) if trust and "latency_s" in evaluated else []
    return ("index", *labels, *fields, *in_order(dict.fromkeys(evaluated)), *words, *intervals)


def evaluated_types(space: Space, evaluated: Collection[str]) -> dict[str, Any]:
    """Schedule field or cost column -> the NumPy type that it has in files."""
    return {name: np.int32 if name in space.fields or name in CODES else np.float32 for name in evaluated}


def needed_columns(space: Space, chosen: Sequence[str]) -> tuple[str, ...]:
    """The schedule fields and cost columns that must be evaluated for the chosen columns.

    At least one is named, so that a block says how many rows it has.
    """
    wanted = {"latency_s" if name in TRUST_COLUMNS else name for name in chosen}
    wanted |= {name for name in CODES if name + WORDS in chosen}
    found = tuple(name for name in (*space.fields, *COST_COLUMNS) if name in wanted)
    return found or (space.fields[0],)


def chosen_columns(job: "SweepJob", names: Sequence[str]) -> tuple[str, ...]:
    """Columns of rows by name, checked and in the order of the files; the index is always among them.

    Args:
        job: what is swept.
        names: of columns, as a user gives them.

    Raises:
        UserError: a name that rows of this job do not have, or one that is given twice.
    """
    from .trust import label_of

    known = column_names(job.space, evaluated_columns(job), label_of(job) is not None)
    for place, name in enumerate(names):
        if name not in known:
            raise unknown("column", name, known)
        if name in names[:place]:
            raise UserError(f"the column {name!r} is given twice: give it once")
    return tuple(name for name in known if name == "index" or name in names)


def with_columns(job: "SweepJob", names: Sequence[str] | None, keep: str) -> "SweepJob":
    """The job, with the choice of columns of a user; None: unchanged.

    Raises:
        UserError: as `chosen_columns`, and where no rows are kept.
    """
    if names is None:
        return job
    if keep != "all":
        raise UserError("--columns says what of every row is written: add --keep all, or leave it out")
    configure_jax()
    return replace(job, row_columns=chosen_columns(job, names))


def evaluated_columns(job: "SweepJob") -> tuple[str, ...]:
    """The names of the schedule fields and cost columns that the job's model gives."""
    import jax

    schedules = {name: jax.ShapeDtypeStruct((1,), np.float32) for name in job.space.fields}
    costs = jax.eval_shape(
        lambda fields: cost_columns(job.model.cost(job.problem_arrays, job.model.schedule(fields), job.gpu)), schedules
    )
    return (*job.space.fields, *in_order(costs))


def digits_of_run(start: int, count: int, stride: int, radix: int) -> np.ndarray:
    """The digit of one axis for consecutive indices, `index // stride % radix`, int8, int16 or int32[count].

    Args:
        start: first index, any size.
        count: how many.
        stride, radix: of the axis; the stride may be of any size.
    """
    kind = _place_type(radix)
    first, passed = divmod(start, stride)
    first %= radix
    if stride >= count:  # it turns at most once
        digits = np.full(count, first, kind)
        digits[min(stride - passed, count) :] = (first + 1) % radix
        return digits
    runs = -(-(passed + count) // stride)
    return np.repeat(((first + np.arange(runs)) % radix).astype(kind), stride)[passed : passed + count]


def _place_type(entries: int) -> Any:
    return np.int8 if entries <= 2**7 else np.int16 if entries <= 2**15 else np.int32
