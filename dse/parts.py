"""Every row of a sweep, in parts that workers write by themselves: one file a task, named by its first index."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from .machines import Machine
from .row_layout import RowLayout
from .space import Space
from .store import ROW_GROUP_ROWS, row_writer
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
        columns: which of the rows' columns are written (`dse.row_layout.chosen_columns`); None: all.
    """

    path: Path
    space: Space
    provenance: Mapping[str, Any]
    part_rows: int = PART_ROWS
    trust: TrustLabel | None = None
    columns: tuple[str, ...] | None = None

    def on(self, machine: Machine) -> "PartFolder":
        """The same for a worker on such a machine: its parts say so."""
        return replace(self, provenance={**self.provenance, **machine.to_dict()})

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
        self._layout: RowLayout | None = None
        self._file: Any = None
        self._waiting: list[pa.Table] = []

    def add(self, columns: dict[str, np.ndarray]) -> None:
        """The next rows: schedule fields and cost columns, one array each, at least those that are written."""
        folder = self._folder
        self._layout = self._layout or RowLayout(folder.space, columns, folder.trust, folder.columns)
        table = self._layout.table(self._next, columns)
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
