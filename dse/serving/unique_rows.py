"""Rows of several columns that come again: found once, so that each is tuned or priced once."""

from collections.abc import Sequence

import numpy as np


def unique_rows(columns: Sequence[np.ndarray], points: int) -> tuple[np.ndarray, np.ndarray]:
    """The distinct rows of columns.

    Args:
        columns: of one type, each one number or `points` of them.
        points: rows; may be 0.

    Returns:
        The rows [distinct, columns], in ascending order of the columns, the first before the second; and which of them
        each point has, int64[points].
    """
    code, count = np.zeros(points, np.int64), min(points, 1)
    for column in columns:
        if column.ndim and points:
            _, digit = np.unique(column, return_inverse=True)
            values, code = np.unique(code * (int(digit.max()) + 1) + digit, return_inverse=True)
            count = len(values)
    first = np.zeros(count, np.int64)
    first[code[::-1]] = np.arange(points - 1, -1, -1)
    return np.stack([np.broadcast_to(column, points)[first] for column in columns], axis=1), code
