"""A table of measurements, a file of the user's own or a packaged sample."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import UserError

if TYPE_CHECKING:
    import pandas as pd


def read_measured_table(path: Path, columns: Sequence[str]) -> "pd.DataFrame":
    """The rows of a Parquet file, or of CSV in a .csv file.

    Args:
        path: the file.
        columns: that it should have, for the message where it is missing; whether it has them, `require_columns` looks:
            some tables call them otherwise.

    Raises:
        UserError: no such file, or one that cannot be read.
    """
    import pandas as pd
    import pyarrow as pa

    if not path.is_file():
        raise UserError(f"no table at {path}; give a Parquet or CSV file with the columns {', '.join(columns)}")
    try:
        return pd.read_csv(path) if path.suffix == ".csv" else pd.read_parquet(path.absolute())
    except (OSError, ValueError, pa.ArrowException) as error:
        raise UserError(
            f"{path} is not a readable table ({error}); give a Parquet file, or CSV in a .csv file"
        ) from None


def require_columns(path: Path | str, rows: "pd.DataFrame", columns: Sequence[str]) -> None:
    """Looks whether a table has its columns.

    Raises:
        UserError: some are missing; the message names them and all that are needed.
    """
    missing = [name for name in columns if name not in rows.columns]
    if missing:
        raise UserError(f"{path} has no column {', '.join(missing)}; needed: {', '.join(columns)}")
