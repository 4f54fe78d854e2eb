"""The model's functions of a few numbers, called on columns of layouts of any length without compiling for each."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from ..compiled import jit

LEAST = 64  # lanes


def padded_call(function: Callable[..., Any], *columns: Any) -> Any:
    """An elementwise function of the model in float32, compiled once a power of two of lanes.

    Args:
        function: of arrays of one length; known by its identity.
        columns: numbers, or arrays of one length.

    Returns:
        What the function returns, each array of it as NumPy's, as long as the columns.
    """
    import jax

    arrays = np.broadcast_arrays(*(np.atleast_1d(np.asarray(column, np.float32)) for column in columns))
    count = len(arrays[0])
    lanes = max(LEAST, 1 << max(count - 1, 0).bit_length())
    filled = (np.concatenate([array, np.ones(lanes - count, np.float32)]) for array in arrays)
    return jax.tree.map(lambda values: np.asarray(values)[:count], _compiled(function)(*filled))


@lru_cache(maxsize=16)
def _compiled(function: Callable[..., Any]) -> Any:
    return jit(function)
