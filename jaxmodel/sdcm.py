"""Hit probability of a set-associative cache from a reuse distance (the stack distance cache model).

A block is still there if fewer than A (the ways) of the D distinct blocks touched since its last use fell into its
set: a binomial tail with p = A / B, B the capacity in blocks. Its Gaussian limit depends on D / B and A alone when a
cache line is much smaller than the cache, so distances and capacities are given in bytes.
"""

import jax
import jax.numpy as jnp

from .types import Array

# Distances below this share of the capacity always hit, above it always miss (to float32), with finite gradients.
_NEAREST, _FARTHEST = 1e-4, 1e4


def phi(z: Array) -> Array:
    """Standard normal distribution function, as 0.5 + 0.5 tanh of a cubic.

    Within 1.8e-4 of the exact one, monotone, exactly 0 and 1 at the ends, smooth in between and twice as fast as
    `phi_exact`; on hit rates of whole GEMMs the difference is 2e-6 in the mean.
    """
    return 0.5 + 0.5 * jnp.tanh(z * (0.7978845608 + 0.0356774 * z * z))


def phi_exact(z: Array) -> Array:
    """Standard normal distribution function, exact to rounding: what bounds `phi`."""
    return jax.scipy.special.ndtr(z)


def hit_probability(distance_bytes: Array, capacity_bytes: Array, ways: Array) -> Array:
    """Probability that a block is still cached after `distance_bytes` distinct other bytes were touched.

    Phi((A - 1/2 - A x) / sqrt(A x)), x = distance / capacity, A = ways: equations 6 to 10 of the paper in the limit of
    fine lines. Never rises with distance, never falls with capacity.

    Args:
        distance_bytes: at least 0; infinite for a block never used before. Any shape, as are all arguments.
        capacity_bytes: at least 0; less than one byte is no cache and always misses.
        ways: associativity, at least 1.

    Returns:
        a value in [0, 1]; gradients are finite at finite distances. Raises nothing.
    """
    exists = capacity_bytes >= 1.0
    share = distance_bytes * (1.0 / jnp.where(exists, capacity_bytes, 1.0))
    share = jnp.where(exists, jnp.clip(share, _NEAREST, _FARTHEST), _FARTHEST)
    root = jnp.sqrt(ways)
    return phi(jax.lax.rsqrt(share) * (root - 0.5 / root - root * share))


def hit_probability_blocks(distance_blocks: Array, ways: Array, capacity_blocks: Array) -> Array:
    """The same with blocks that are not small against the cache: variance D p (1 - p) instead of D p.

    Phi((A - 1/2 - D p) / sqrt(D p (1 - p))), p = A / B, with the exact Phi. Within 0.025 of the binomial tail at 8 ways
    and 0.017 at 16, 0.007 and 0.003 in the mean.

    Args:
        distance_blocks: D, distinct blocks touched in between; D < A always hits.
        ways: A.
        capacity_blocks: B, at least 0; 0 is no cache. Blocks must outnumber the ways for a miss to be possible.

    Returns:
        a value in [0, 1]. Raises nothing.
    """
    set_share = jnp.minimum(ways / jnp.maximum(capacity_blocks, 1.0), 1.0)
    mean = distance_blocks * set_share
    spread = jnp.sqrt(jnp.maximum(mean * (1.0 - set_share), 1e-12))
    hit = jnp.where(distance_blocks < ways, 1.0, phi_exact((ways - 0.5 - mean) / spread))
    return jnp.where(capacity_blocks > 0, hit, 0.0)
