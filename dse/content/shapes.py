"""Shape lists: a CSV file with the columns m, n, k and, as wanted, batch, name, dtype and a weight.

For kernels other than GEMM a column `shape` holds the shape in the kernel's grammar, and columns named like its choices
hold those.

Lines that begin with `#` are comments; a list says there where its shapes come from.
"""

import csv
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import UserError, unknown
from .dtypes import DTYPE_BYTES
from .files import find_content

FOLDER = "studies/shapes"
NEEDED = ("m", "n", "k")
WEIGHTS = ("weight", "count")  # two names of one thing: how much a shape counts, how often it runs
COLUMNS = (*NEEDED, "batch", "name", "dtype", *WEIGHTS)
SHAPE = "shape"  # in place of m, n, k
DIMENSION_MAX = 2**24 - 1  # of a problem's sides: float32 holds every whole number up to here


@dataclass(frozen=True)
class ShapeRow:
    """One line of a shape list.

    Attributes:
        name: as given, else the shape and what is chosen.
        shape: MxNxK or BATCHxMxNxK, or as the kernel writes it.
        dtype: input type; None: whatever the command says.
        weight: how much the shape counts, e.g. how often it runs; 1 where the list has no such column.
        choices: of the kernel, name -> text; those that the line leaves empty are not there.
    """

    name: str
    shape: str
    dtype: str | None
    weight: float = 1.0
    choices: Mapping[str, str] = field(default_factory=dict)


def load_shapes(name_or_path: str | Path, choices: Sequence[str] | None = None) -> list[ShapeRow]:
    """The shapes of a CSV file, given by path or, for those that come with tilesweep, by name.

    Args:
        name_or_path: of the file.
        choices: names of a kernel's choices, which may be columns beside `shape`; None: a list of GEMMs, m, n, k.

    Raises:
        UserError: no such file, an unknown or missing column, a dimension that is no whole number from 1 to 2^24 - 1,
            an unknown type, a weight that is no finite number above 0, or no line at all. The message names file, line
            and column.
    """
    path = find_content("shape list", FOLDER, str(name_or_path), suffix=".csv")
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            lines = _Uncommented(file)
            reader = csv.DictReader(lines, skipinitialspace=True)
            columns = [str(column).strip().lower() for column in reader.fieldnames or ()]
            _check_columns(path, max(lines.number, 1), columns, choices)
            reader.fieldnames = columns
            rows = [_row(path, lines.number, row, choices) for row in reader if any(row.values())]
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8 text: byte {error.start}") from error
    except (OSError, csv.Error) as error:
        raise UserError(f"cannot read {path}: {error}") from error
    if not rows:
        under = "8192,8192,8192 under m,n,k" if choices is None else "4096x4096 under shape, as the kernel writes it"
        raise UserError(f"{path} holds no shape: write a line such as {under}")
    return rows


class _Uncommented(Iterator[str]):
    """The lines of a file that are no comments; `number` is where in the file the last of them stands, from 1."""

    def __init__(self, file: Iterable[str]) -> None:
        self._lines = enumerate(file, start=1)
        self.number = 0

    def __next__(self) -> str:
        for self.number, line in self._lines:  # noqa: B020
            if not line.startswith("#"):
                return line
        raise StopIteration


def _check_columns(path: Path, line: int, columns: list[str], choices: Sequence[str] | None) -> None:
    needed = NEEDED if choices is None else (SHAPE,)
    known = COLUMNS if choices is None else tuple(dict.fromkeys((SHAPE, "name", "dtype", *choices, *WEIGHTS)))
    for column in columns:
        if column not in known:
            raise unknown(f"column in {path}, line {line}:", column, known)
    repeated = next((column for place, column in enumerate(columns) if column in columns[:place]), None)
    if repeated:
        raise UserError(f"{path}, line {line}: the column {repeated} is there twice: keep one")
    if all(name in columns for name in WEIGHTS):
        raise UserError(f"{path}, line {line}: weight and count both say how much a shape counts: keep one")
    missing = [name for name in needed if name not in columns]
    if missing:
        raise UserError(
            f"{path}, line {line}: the column(s) {', '.join(missing)} are missing; a shape list starts with "
            f"{','.join(needed)}"
        )


def _row(path: Path, line: int, row: dict[Any, Any], choices: Sequence[str] | None) -> ShapeRow:
    if None in row:
        raise UserError(f"{path}, line {line}: more values than line 1 names columns")
    given: dict[str, str] = {}
    if choices is None:
        dims = [_dimension(path, line, name, row[name]) for name in NEEDED]
        batch = _dimension(path, line, "batch", row["batch"]) if row.get("batch") else 1
        shape = "x".join(str(size) for size in ([batch] if batch > 1 else []) + dims)
    else:
        shape = (row[SHAPE] or "").strip()
        if not shape:
            raise UserError(f"{path}, line {line}, column {SHAPE}: is empty, write the shape")
        given = {name: row[name].strip() for name in choices if (row.get(name) or "").strip()}
    dtype = (row.get("dtype") or "").strip() or None
    if dtype is not None and dtype not in DTYPE_BYTES:
        raise unknown(f"dtype in {path}, line {line}, column dtype:", dtype, DTYPE_BYTES)
    weight = next((_weight(path, line, name, row[name]) for name in WEIGHTS if name in row), 1.0)
    chosen = " ".join([shape, *(f"{name}={value}" for name, value in given.items())])
    return ShapeRow((row.get("name") or "").strip() or chosen, shape, dtype, weight, given)


def _dimension(path: Path, line: int, column: str, text: str | None) -> int:
    try:
        number = int(str(text).strip())
    except ValueError:
        number = 0
    if not 1 <= number <= DIMENSION_MAX:
        raise UserError(
            f"{path}, line {line}, column {column}: {text!r} is not a whole number from 1 to {DIMENSION_MAX}"
        )
    return number


def _weight(path: Path, line: int, column: str, text: str | None) -> float:
    try:
        number = float(str(text).strip())
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise UserError(f"{path}, line {line}, column {column}: {text!r} is not a finite number above 0")
    return number
