"""Whole-number division that stays exact in float32 under `jit`.

XLA rewrites `x / constant` as a multiplication with the rounded reciprocal, so `ceil(x / 7)` is wrong for 9 % of the
whole numbers in float32. The quotient is therefore corrected by its remainder, which is exact.
"""

import jax.numpy as jnp

from .types import Array, Bools, Floats

RECIPROCAL_EXACT = 2.0**22  # `*_by_reciprocal` divide whole numbers below it exactly


def floor_div(a: Array, b: Array) -> Array:
    """Largest whole q with q b <= a, for whole numbers held as floats.

    Args:
        a: whole numbers, 0 <= a < 2^24 (float32) or < 2^53 (float64); any shape.
        b: whole numbers, 1 <= b, same bound, broadcastable against `a`; may be a Python constant or traced.

    Returns:
        a float array, exact under `jit` and eagerly alike. Raises nothing; b < 1 gives an undefined value.
    """
    quotient = jnp.floor(a / b)
    remainder = a - quotient * b
    return quotient + (remainder >= b) - (remainder < 0)


def ceil_div(a: Array, b: Array) -> Array:
    """Smallest whole q with q b >= a. Same arguments, bounds and exactness as `floor_div`."""
    quotient = floor_div(a, b)
    return quotient + (a - quotient * b > 0)


def floor_div_by_reciprocal(a: Array, b: Array) -> Array:
    """`floor_div` for a < 2^22: one multiplication where several quotients share the divisor.

    The added half keeps the quotient of whole numbers further from the next whole number than float32 can err. Beyond
    2^22 it may be one off. Arguments and result as in `floor_div`.
    """
    return jnp.floor((a + 0.5) * (1.0 / b))


def ceil_div_by_reciprocal(a: Array, b: Array) -> Array:
    """`ceil_div` for a + b < 2^22, at the price of `floor_div_by_reciprocal`."""
    return floor_div_by_reciprocal(a + (b - 1.0), b)


def uneven(extent: Array, part: Array) -> Bools:
    """Where `part` does not divide `extent`. Arguments and bounds as in `floor_div_by_reciprocal`."""
    return extent - floor_div_by_reciprocal(extent, part) * part > 0


def power_of_two_gcd(a: Array, b: Array) -> Array:
    """Largest power of two that divides both: their greatest common divisor where either is a power of two.

    Args:
        a, b: whole numbers, 1 <= a, b < 2^24, broadcastable.

    Returns:
        a float array of the arguments' common type. Raises nothing.
    """
    dtype = jnp.result_type(a, b)
    a, b = jnp.asarray(a).astype(jnp.int32), jnp.asarray(b).astype(jnp.int32)
    return jnp.minimum(a & -a, b & -b).astype(dtype)


def cheap_gcd(a: Array, b: Array) -> Array:
    """Greatest common divisor where one number divides the other or either is a power of two, else a divisor of it.

    Tile counts, panel widths and waves rarely share more than that, and Euclid's loop costs as much as the whole reuse
    model. Arguments and result as in `power_of_two_gcd`, below 2^22.
    """
    large, small = jnp.maximum(a, b), jnp.minimum(a, b)
    divides = large == floor_div_by_reciprocal(large, small) * small
    return jnp.where(divides, small, power_of_two_gcd(a, b))


def is_zero(value: Floats) -> bool:
    """Whether a number is 0 already when the model is traced: what is made of it need not be computed at all."""
    return isinstance(value, int | float) and bool(value == 0)  # np.float64 is a float, whose == gives np.bool
