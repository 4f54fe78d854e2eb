"""Result tables as Parquet: one schema, units and meanings in the field metadata, provenance in the file metadata."""

import base64
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from .columns import CODES, COST_COLUMNS, SCHEDULE_COLUMNS, TRUST_COLUMNS, describe, schedule_columns
from .errors import UserError

METADATA_KEY = b"tilesweep"
ARROW_SCHEMA_KEY = b"ARROW:schema"  # where Arrow's readers look for what Parquet itself cannot say of a column
ROW_GROUP_ROWS = 2**17

# Every file of rows types a column by its name alone, so that a folder of files reads as one table.
COLUMN_TYPES: dict[str, pa.DataType] = {
    "index": pa.uint64(),
    **dict.fromkeys(SCHEDULE_COLUMNS, pa.int32()),
    **dict.fromkeys((*COST_COLUMNS, *TRUST_COLUMNS), pa.float32()),
    **dict.fromkeys(CODES, pa.int32()),
}
TEXT = pa.string()  # labels of axes and words for codes


def row_schema(columns: Mapping[str, Any], big_index: bool = False, kernel: str = "gemm") -> pa.Schema:
    """The schema of a file of rows: types by name, and for other kernels' schedule fields and costs by kind.

    Args:
        columns: name -> values.
        big_index: the space has more than 2^64 points: indices are decimal strings.
        kernel: whose schedules, for units and meanings.
    """
    schedule = schedule_columns(kernel)
    return pa.schema([_field(name, values, big_index, schedule) for name, values in columns.items()])


def as_table(columns: Mapping[str, Any], big_index: bool = False, kernel: str = "gemm") -> pa.Table:
    """Columns, one array each, with the row schema."""
    schema = row_schema(columns, big_index, kernel)
    arrays = [as_arrow(columns[field.name], field.type) for field in schema]
    return pa.Table.from_arrays(arrays, schema=schema)


def _field(name: str, values: Any, big_index: bool, schedule: Mapping[str, tuple[str, str]]) -> pa.Field:
    unit, meaning = describe(name, schedule)
    if isinstance(values, pa.DictionaryArray):
        kind = values.type
    elif name == "index" and big_index:
        kind = TEXT
    elif name in COLUMN_TYPES:
        kind = COLUMN_TYPES[name]
    elif isinstance(values, pa.Array) or np.asarray(values).dtype.kind not in "iuf":
        kind = TEXT
    else:
        kind = pa.float32() if np.asarray(values).dtype.kind == "f" else pa.int32()
    return pa.field(name, kind, nullable=False, metadata={"unit": unit, "description": meaning})


def as_arrow(values: Any, kind: pa.DataType) -> pa.Array:
    """A column as Arrow has it; an array of NumPy that has the type already is not copied."""
    return values if isinstance(values, pa.Array) else pa.array(np.asarray(values), kind, from_pandas=False)


def write_rows(path: str | os.PathLike[str], table: pa.Table, provenance: Mapping[str, Any]) -> None:
    """Writes a table made by `as_table`, whole or not at all.

    Raises:
        UserError: the file cannot be written.
    """
    with row_writer(path, table.schema, provenance) as writer:
        writer.write_table(table, ROW_GROUP_ROWS)


@contextmanager
def row_writer(
    path: str | os.PathLike[str], schema: pa.Schema, provenance: Mapping[str, Any]
) -> Iterator[pq.ParquetWriter]:
    """A Parquet writer whose file appears under its name only once the block has ended without an error.

    Encodings are what was measured to be quickest at nearly the least size (2^17 rows of a GEMM sweep, a core of an
    EPYC): floats split by byte, 3 ns a value; whole numbers plain, 2.5 ns against 4 with a dictionary; indices as
    differences, 7 ns against 18; texts as a dictionary without statistics. All is compressed with zstd at level 1.

    Args:
        path: of the file.
        schema: of the tables that will be written. Text may come as dictionary arrays, each with the same entries in
            all tables: it is written four times as fast as text written out, and every reader finds plain text.
        provenance: how the rows were made, as JSON has it.

    Raises:
        UserError: the file cannot be written (no permission, disk full).
    """
    path = Path(path).absolute()  # pyarrow takes `~/x` and `gs:x` for other places
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    floats = [field.name for field in schema if pa.types.is_floating(field.type)]
    texts = [field.name for field in schema if not pa.types.is_primitive(field.type)]
    numbers = [field.name for field in schema if field.name not in texts]
    encodings = dict.fromkeys(floats, "BYTE_STREAM_SPLIT")
    if "index" in numbers:
        encodings["index"] = "DELTA_BINARY_PACKED"
    read = pa.schema([_as_read(field) for field in schema], {METADATA_KEY: json.dumps(dict(provenance))})
    try:
        with pq.ParquetWriter(
            unfinished,
            schema.remove_metadata(),
            compression="zstd",
            compression_level=1,
            use_dictionary=texts,  # pyright: ignore[reportArgumentType] (a list of columns is allowed)
            write_statistics=numbers,  # pyright: ignore[reportArgumentType] (likewise)
            column_encoding=encodings,
            store_schema=False,
        ) as writer:
            described = base64.b64encode(read.serialize().to_pybytes())
            writer.add_key_value_metadata({**(read.metadata or {}), ARROW_SCHEMA_KEY: described})
            yield writer
        os.replace(unfinished, path)
    except OSError as error:
        raise UserError(
            f"cannot write {path}: {error.strerror or error}; make room or choose another folder with --out"
        ) from error
    finally:
        unfinished.unlink(missing_ok=True)


def _as_read(field: pa.Field) -> pa.Field:
    return field.with_type(field.type.value_type) if pa.types.is_dictionary(field.type) else field


def read_rows(path: str | os.PathLike[str]) -> pa.Table:
    """One file of rows.

    Raises:
        UserError: the file is missing, or is not a whole Parquet file of ours.
    """
    with _parquet(path) as file:
        return file.read()


def read_provenance(path: str | os.PathLike[str]) -> dict[str, Any]:
    """How a file of rows was made; raises as `read_rows`."""
    with _parquet(path) as file:
        return json.loads((file.schema_arrow.metadata or {})[METADATA_KEY])


def count_rows(path: str | os.PathLike[str]) -> int | None:
    """Rows of a file, from its footer; None where it is missing or not whole."""
    try:
        return pq.read_metadata(Path(path).absolute()).num_rows
    except (pa.ArrowException, OSError):
        return None


@contextmanager
def _parquet(path: str | os.PathLike[str]) -> Iterator[pq.ParquetFile]:
    fix = "write it again by running the same command, or start anew with --overwrite"
    try:
        with pq.ParquetFile(Path(path).absolute()) as file:
            if METADATA_KEY not in (file.schema_arrow.metadata or {}):
                raise UserError(f"{path} was not written by tilesweep: it has no provenance in its metadata")
            yield file
    except FileNotFoundError as error:
        raise UserError(f"{path} does not exist; run dse sweep with --out first") from error
    except (pa.ArrowInvalid, pa.ArrowException, OSError) as error:
        raise UserError(f"{path} is truncated or damaged ({error}); {fix}") from error
