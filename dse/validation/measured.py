"""Measured latencies: the packaged sample, or a table of the user's own."""

import os
from typing import TYPE_CHECKING

from ..content.files import content_files, home_expanded
from ..errors import UserError, unknown
from .measured_table import read_measured_table, require_columns

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
    rows = read_measured_table(path, COLUMNS)
    require_columns(path, rows, COLUMNS)
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
