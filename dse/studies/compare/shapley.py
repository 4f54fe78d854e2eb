"""Shapley values: how much each change contributes to what all of them do together, whatever the order.

Lloyd Shapley, A value for n-person games, 1953: a change is credited with what it adds, in the mean over all orders in
which the changes can be made. The credits add up to the whole effect, equal changes get equal credit, and one that adds
nothing in any order gets none.
"""

from math import comb

import numpy as np

MOST_CHANGES = 16  # 2^16 mixtures


def shapley_values(effects: np.ndarray) -> np.ndarray:
    """Credits from the effect of every mixture of changes.

    Args:
        effects: float64[2^changes, quantities]; row m holds the mixture in which change i is made where bit i of m is
            set, so row 0 is before and the last row after all changes.

    Returns:
        float64[changes, quantities]; its sum over the changes is the last row less the first, to rounding.
    """
    count = len(effects).bit_length() - 1
    masks = np.arange(len(effects))
    made = np.array([int(mask).bit_count() for mask in masks])
    found = np.zeros((count, effects.shape[1]))
    for change in range(count):
        without = masks[(masks >> change) & 1 == 0]
        weight = np.array([1.0 / (count * comb(count - 1, size)) for size in made[without]])
        found[change] = weight @ (effects[without | (1 << change)] - effects[without])
    return found
