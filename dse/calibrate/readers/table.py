"""Measured latencies from Parquet or CSV with the project's columns."""

import csv
import io
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ...errors import UserError, unknown
from ...schedule_text import FIELDS, distinct_raster, parse_schedule
from ...triton_config import NAMES, config_from, is_triton
from ...validation.measured import PARTS
from .entry import Content, Entry, Named, ReadOptions, default_output, problem_at, seconds, shown, whole
from .triton_cache import named_by

UNITS = {"latency_us": 1e-6, "latency_ms": 1e-3, "latency_s": 1.0}
NEEDED = ("m", "n", "k")
OF_PROBLEM = ("dtype", "out_dtype", "layout", "cache", "batch", "beta", "quantise_a")
OPTIONAL = (*OF_PROBLEM, "system", "part", "source", "family", "schedule")
TRITON_COLUMNS = frozenset(name for names in NAMES.values() for name in (*names, *map(str.upper, names)))
_TRUE, _FALSE = ("1", "true", "yes"), ("", "0", "false", "no", "0.0")


def read_table(path: Path, content: bytes, options: ReadOptions) -> Content:
    """Rows of a table: columns m, n, k, one of latency_us, latency_ms, latency_s, and any of `OPTIONAL`.

    A schedule is named by a column `schedule` (words as in `dse.schedule_text`), by columns of its fields, or by those
    of a Triton config (block_m, num_warps, ...); a row whose cells there are empty names none. Rows that say why they
    did not run (`why`) or that they are wrong (`correct` 0), as scripts/calibrate_gpu/measure_gemm.py writes them, are
    left out.

    Raises:
        UserError: what is missing, unknown or not readable, with its line and column.
    """
    rows = list(_parquet_rows(path) if content[:4] == b"PAR1" else _csv_rows(path, content))
    if not rows:
        raise UserError(f"{path} has no row below its column names: at least two pairs (n, k) are needed")
    names = set(rows[0][1])
    unit = _unit(path, names)
    missing = [name for name in NEEDED if name not in names]
    if missing:
        raise UserError(f"{path} has no column {', '.join(missing)}; needed: m, n, k and one of {', '.join(UNITS)}")
    mine = _of_system(path, rows, options)
    good = [(where, row) for where, row in mine if not _text(row, "why") and _text(row, "correct") not in ("0", "0.0")]
    if not good:
        raise UserError(f"{path}: no kernel ran and was correct: the columns why and correct say so of every row")
    counts = {
        "rows of another GPU": len(rows) - len(mine),
        "kernels that did not run or were wrong": len(mine) - len(good),
    }
    left_out = Counter({why: count for why, count in counts.items() if count})
    return Content([_entry(where, row, unit, options, path) for where, row in good], left_out)


def _csv_rows(path: Path, content: bytes) -> Iterator[tuple[str, dict[str, Any]]]:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8 text: byte {error.start}; save it as UTF-8") from None
    reader = csv.DictReader(io.StringIO(text), skipinitialspace=True)
    reader.fieldnames = [name.strip() for name in reader.fieldnames or ()]
    for row in reader:
        where = f"{path}, line {reader.line_num}"
        if None in row:
            raise UserError(f"{where}: more values than line 1 names columns: quote values that hold a comma")
        if None in row.values():
            raise UserError(f"{where}: {len(row) - list(row.values()).count(None)} values for {len(row)} columns")
        yield where, row


def _parquet_rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    import pandas as pd
    import pyarrow as pa

    try:
        frame = pd.read_parquet(path.absolute())
    except (OSError, ValueError, pa.ArrowException) as error:
        raise UserError(f"{path} is not a readable Parquet file ({error}): write it again") from None
    for place, row in enumerate(frame.to_dict("records")):
        yield f"{path}, row {place}", {str(name): value for name, value in row.items()}


def _unit(path: Path, names: set[str]) -> str:
    found = [name for name in UNITS if name in names]
    if len(found) != 1:
        said = f"both {' and '.join(found)}" if found else "no latency"
        raise UserError(f"{path} has {said} among its columns: give one of {', '.join(UNITS)}")
    return found[0]


def _of_system(
    path: Path, rows: list[tuple[str, dict[str, Any]]], options: ReadOptions
) -> list[tuple[str, dict[str, Any]]]:
    if "system" not in rows[0][1]:
        return rows
    wanted = options.system or options.gpu.name
    mine = [(where, row) for where, row in rows if row["system"] == wanted]
    if not mine:
        known = {str(row["system"]) for _, row in rows}
        raise unknown(f"GPU in {path}", wanted, known, "say what the file calls it with --system")
    return mine


def _entry(where: str, row: Mapping[str, Any], unit: str, options: ReadOptions, path: Path) -> Entry:
    dtype = _text(row, "dtype") or options.dtype
    problem = problem_at(
        where,
        **{name: whole(row[name], where, name) for name in NEEDED},
        batch=whole(row.get("batch") or 1, where, "batch"),
        dtype=dtype,
        out_dtype=_text(row, "out_dtype") or default_output(dtype),
        layout=_text(row, "layout") or options.layout,
        cache=_text(row, "cache") or "a_warm",
        beta=_flag(row, "beta", where),
        quantise_a=_flag(row, "quantise_a", where),
    )
    part = _text(row, "part")
    if part and part not in PARTS:
        raise UserError(f"{where}: part is {part!r}: one of {', '.join(PARTS)} is needed")
    return Entry(
        where=where,
        problem=problem,
        latency_s=seconds(row[unit], UNITS[unit], where, unit),
        source=_text(row, "source") or path.name,
        system=_text(row, "system"),
        part=part,
        named=_named(where, row, dtype, problem, options),
    )


def _named(where: str, row: Mapping[str, Any], dtype: str, problem: Any, options: ReadOptions) -> Named | None:
    text = _text(row, "schedule")
    config = {name: value for name, value in row.items() if name in TRITON_COLUMNS and shown(value) != "empty"}
    if is_triton(config) and not text:
        absent = [name for name, value in config.items() if name.lower() == "num_sms" and str(value) in ("0", "0.0")]
        config = {name: value for name, value in config.items() if name not in absent}
        return named_by(config_from(config, where), where, problem, options)
    fields = {name: row[name] for name in FIELDS if name in row and shown(row[name]) != "empty"}
    if not text and not fields:
        return None
    if text and fields:
        raise UserError(f"{where}: the schedule stands in the column schedule and in {', '.join(fields)}: say it once")
    families = options.gpu.families(dtype)
    family = _text(row, "family") or (families[0] if families else "")
    if family not in families:
        raise unknown(f"family in {where}", family, families, f"these {options.gpu.name} has for {dtype}")
    try:
        schedule = parse_schedule(text or fields, family)
    except UserError as error:
        raise UserError(f"{where}: {error}") from None
    return family, distinct_raster(schedule, problem.m, problem.n)


def _text(row: Mapping[str, Any], name: str) -> str:
    value = row.get(name)
    return "" if shown(value) == "empty" else str(value).strip()


def _flag(row: Mapping[str, Any], name: str, where: str) -> bool:
    text = _text(row, name).lower()
    if text not in (*_TRUE, *_FALSE, "1.0"):
        raise UserError(f"{where}: {name} is {row[name]!r}: 0 or 1 is needed")
    return text not in _FALSE
