"""What is judged and what the baseline is fitted on: a table of measured latencies, by data type, source and part."""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..content.files import content_files
from ..errors import UserError, unknown
from .deal import with_sample_parts
from .measured import PARTS, load_measured_gemm

if TYPE_CHECKING:
    import pandas as pd


DTYPE_COLUMNS = ("dtype", "gemm_dtype")


def judged_and_fitted(
    table: str | os.PathLike[str] | None = None,
    part: str = "check",
    dtypes: Sequence[str] | None = None,
    source: str | None = None,
    same_split: bool = False,
) -> "tuple[pd.DataFrame, pd.DataFrame]":
    """Rows that are judged, and rows that the roofline is fitted on; both with a column `dtype`.

    Args:
        table: Parquet or CSV file, or the name of a packaged table (`gemm_lowprec`); None: the packaged bf16 sample.
            The data type is in a column `dtype` or `gemm_dtype`; rows without are bf16.
        part: of the judged rows; the fitted ones are the part "fit". A table without a column `part` is judged and
            fitted on as a whole.
        dtypes: only these data types; None: all.
        source: only rows of that source (column `source`); None: all.
        same_split: give every row the part that its (n, k) has in the packaged sample, and leave out the rows of other
            pairs (`dse.validation.deal.with_sample_parts`).

    Raises:
        UserError: whatever `load_measured_gemm` raises; an unknown data type, source or part; no row left to judge.
    """
    rows = load_measured_gemm(_path_of(table), part=None)
    name = os.fspath(table) if table is not None else "the packaged sample"
    rows = rows.assign(dtype=_dtypes(rows))
    for wanted in dtypes or ():
        if wanted not in set(rows["dtype"]):
            raise unknown(f"dtype in {name}", wanted, sorted(rows["dtype"].unique()), _other_tables())
    if dtypes:
        rows = rows[rows["dtype"].isin(dtypes)]
    if source is not None:
        if "source" not in rows:
            raise UserError(f"{name} has no column source, so --source {source} chooses nothing; leave it away")
        if source not in set(rows["source"]):
            raise unknown(f"source in {name}", source, sorted(map(str, rows["source"].dropna().unique())))
        rows = rows[rows["source"] == source]
    if same_split:
        rows = with_sample_parts(rows)
    if "part" not in rows:
        return rows, rows
    if part not in PARTS:
        raise unknown("part", part, PARTS)
    judged = rows[rows["part"] == part]
    if judged.empty:
        raise UserError(f"{name} has no row in the part {part}; it has {', '.join(sorted(rows['part'].unique()))}")
    return judged.reset_index(drop=True), rows[rows["part"] == "fit"].reset_index(drop=True)


def _dtypes(rows: "pd.DataFrame") -> "pd.Series | str":
    for name in DTYPE_COLUMNS:
        if name in rows:
            return rows[name].astype(object).fillna("bf16").astype(str)
    return "bf16"


def _path_of(table: str | os.PathLike[str] | None) -> str | os.PathLike[str] | None:
    return None if table is None else _packaged().get(os.fspath(table), table)


def _packaged() -> dict[str, os.PathLike[str]]:
    return {name: path for name, path in content_files("studies/measured", ".parquet").items() if "gemm" in name}


def _other_tables() -> str:
    return f"or another --table: a file, or one of the packaged {', '.join(_packaged())}"
