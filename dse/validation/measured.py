"""Measured latencies: the packaged sample, or a table of the user's own."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from ..content.files import content_files, home_expanded
from ..errors import UserError, unknown

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = ("system", "m", "n", "k", "latency_us")
PARTS = ("fit", "check", "report")


def load_measured_gemm(table: str | os.PathLike[str] | None = None, part: str | None = "check") -> "pd.DataFrame":
    """Measured GEMM latencies, one row a shape and GPU.

    Args:
        table: Parquet or CSV with the columns system, m, n, k, latency_us; None: the packaged sample
            (studies/measured/README.md says how it was taken).
        part: rows of that part only, where the table has a column `part`; None: all rows.

    Raises:
        UserError: no such file, one that cannot be read, a missing column, a column that holds no numbers, an unknown
            part, no row left.
    """
    import pandas as pd

    path = home_expanded(table) if table is not None else content_files("studies/measured", ".parquet")["gemm_bf16"]
    if not path.is_file():
        raise UserError(f"no table at {path}; give a Parquet or CSV file with the columns {', '.join(COLUMNS)}")
    rows = _read(path)
    missing = [name for name in COLUMNS if name not in rows.columns]
    if missing:
        raise UserError(f"{path} has no column {', '.join(missing)}; needed: {', '.join(COLUMNS)}")
    for name in ("m", "n", "k", "latency_us"):
        if not pd.api.types.is_numeric_dtype(rows[name]):
            raise UserError(f"{path}: the column {name} holds something else than numbers: look for text in it")
    if part is not None and "part" in rows.columns:
        if part not in PARTS:
            raise unknown("part", part, PARTS)
        rows = rows[rows["part"] == part]
    rows = rows[(rows["latency_us"] > 0) & (rows[["m", "n", "k"]] > 0).all(axis=1)]
    if rows.empty:
        raise UserError(f"{path} has no usable row (part {part}): latencies and dimensions must be above 0")
    return rows.reset_index(drop=True)


def _read(path: Path) -> "pd.DataFrame":
    import pandas as pd
    import pyarrow as pa

    try:
        return pd.read_csv(path) if path.suffix == ".csv" else pd.read_parquet(path.absolute())
    except (OSError, ValueError, pa.ArrowException) as error:
        raise UserError(
            f"{path} is not a readable table ({error}); give a Parquet file, or CSV in a .csv file"
        ) from None
