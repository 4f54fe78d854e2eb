"""The maximum of a falling line plus a rising staircase over whole numbers, by descent as in Euclid's algorithm.

    G = max over whole x, 0 <= x < count, of  tread floor((step x + offset) / width) - slope x

Whole steps of the staircase are a line: with q = floor(step / width) the slope falls by q tread, with floor(offset /
width) all rises. If the slope is then no longer above 0, the last x is best. Otherwise each height y is reached best by
the smallest x that has it, ceil((width y - offset) / step), and the maximum over y = Y, Y - 1, ..., 1 is again a
falling line (tread) plus a rising staircase (slope), whose step and width have changed places and whose count is Y, the
largest height. Every level offers its first and its last x, so that a descent cut short is a lower bound.
"""

import jax.numpy as jnp

from .._exact import ceil_div_by_reciprocal, floor_div_by_reciprocal
from ..types import Floats

LEVELS = 6


def staircase_maximum(
    count: Floats, slope: Floats, tread: Floats, step: Floats, offset: Floats, width: Floats, levels: int = LEVELS
) -> Floats:
    """The maximum G above.

    Args:
        count: of x, whole, at least 1.
        slope, tread: of the line that falls and of a step of the staircase, at least 0.
        step, offset, width: whole numbers, step and offset at least 0, width at least 1; step count + offset + width
            below 2^22.
        levels: of the descent. Two levels more than halve the count, so that 2 log2(count) are always enough; for
            steps and widths as tiles and slots have them 8 are, up to some hundred x (tests/test_overlap.py).

    Returns:
        the maximum, of the unit of `slope` and `tread`.
    """
    below = floor_div_by_reciprocal(offset, width)
    offset = offset - below * width
    risen, best, going = tread * below, None, True
    for level in range(levels):
        whole = floor_div_by_reciprocal(step, width)
        step = step - whole * width
        slope = slope - whole * tread
        last = count - 1.0
        top = floor_div_by_reciprocal(step * last + offset, width)
        ends = risen + jnp.maximum(tread * top - slope * last, 0.0)
        best = ends if best is None else jnp.where(going, jnp.maximum(best, ends), best)
        if level == levels - 1:
            break
        going = going & (slope > 0) & (top >= 1)  # where it is not, what follows is finite and not used
        reach, step = width * top - offset, jnp.maximum(step, 1.0)
        first = ceil_div_by_reciprocal(reach, step)  # the smallest x of the largest height
        risen = risen + tread * top - slope * first
        count, slope, tread = top, tread, slope
        step, offset, width = width, first * step - reach, step
    return best
