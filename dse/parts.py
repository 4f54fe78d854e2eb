"""Every row of a sweep, in parts that workers write by themselves: one file a task, named by its first index."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from .columns import code_words, in_order
from .rows import as_numbers, index_column
from .space import Space
from .store import ROW_GROUP_ROWS, as_table, row_writer
from .trust import TrustLabel

PART_ROWS = 2**20


@dataclass(frozen=True)
class PartFolder:
    """Where the parts of one run go; a `dse.executors.PartSink`, picklable.

    Attributes:
        path: the run folder.
        space: what is swept.
        provenance: goes into every part.
        part_rows: rows of one part.
        trust: the label that gives every row its interval; None: rows have none.
    """

    path: Path
    space: Space
    provenance: Mapping[str, Any]
    part_rows: int = PART_ROWS
    trust: TrustLabel | None = None

    @contextmanager
    def part(self, start: int) -> Iterator["PartWriter"]:
        """The part whose first row has the index `start`. An error inside the block leaves no file."""
        with ExitStack() as stack:
            writer = PartWriter(self, start, stack)
            yield writer
            writer.flush()


class PartWriter:
    """Gathers consecutive rows into row groups of one file."""

    def __init__(self, folder: PartFolder, start: int, stack: ExitStack) -> None:
        self._folder, self._stack = folder, stack
        self._path = part_path(folder.path, start)
        self._next = start
        self._file: Any = None
        self._waiting: list[pa.Table] = []

    def add(self, columns: dict[str, np.ndarray]) -> None:
        """The next rows: every schedule field and cost column, one array each."""
        table = block_table(self._folder.space, self._next, columns, self._folder.trust)
        self._next += table.num_rows
        self._waiting.append(table)
        if sum(block.num_rows for block in self._waiting) >= ROW_GROUP_ROWS:
            self.flush()

    def flush(self) -> None:
        """Writes what waits as one row group."""
        if not self._waiting:
            return
        table = pa.concat_tables(self._waiting)
        self._waiting = []
        if self._file is None:
            self._file = self._stack.enter_context(row_writer(self._path, table.schema, self._folder.provenance))
        self._file.write_table(table, ROW_GROUP_ROWS)


def part_path(folder: Path, start: int) -> Path:
    """The file of the part that begins at this index; names sort by index."""
    return folder / f"rows-{start:020d}.parquet"


def block_table(
    space: Space, start: int, columns: Mapping[str, np.ndarray], trust: TrustLabel | None = None
) -> pa.Table:
    """Consecutive rows from the index `start` on, with index, labels, words for codes and, given a label, intervals."""
    count = len(next(iter(columns.values())))
    costs = in_order(columns)
    numbers = as_numbers({name: columns[name] for name in space.fields} | costs, space.fields)
    indices = range(start, start + count)
    words = {
        f"{name}_name": _chosen(entries, np.clip(numbers[name], 0, len(entries) - 1))
        for name, entries in code_words().items()
        if name in numbers
    }
    labels = {
        axis.name: _chosen(axis.labels, _digits(start, count, stride, axis.radix))
        for axis, stride in zip(space.axes, space.strides, strict=True)
        if axis.name not in axis.fields
    }
    intervals = trust.columns(numbers["latency_s"]) if trust else {}
    index = {"index": index_column(indices, space.size)}
    return as_table(index | labels | numbers | words | intervals, space.size > 2**64, space.kernel)


def _digits(start: int, count: int, stride: int, radix: int) -> np.ndarray:
    if stride >= 2**62:  # the digit changes at most once in a block
        return np.array([index // stride % radix for index in range(start, start + count)])
    return (start // stride % radix + (np.arange(count) + start % stride) // stride) % radix


def _chosen(words: tuple[str, ...], places: np.ndarray) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(places.astype(np.int32)), pa.array(words)).cast(pa.string())
