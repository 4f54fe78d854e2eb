"""Exact twin of the hit probability: the binomial tail itself, and the polynomial that the paper's code uses."""

import math


def binomial_hit(distance_blocks: int, ways: int, capacity_blocks: float) -> float:
    """P(fewer than `ways` of `distance_blocks` blocks fall into the block's set), term by term."""
    if distance_blocks < ways:
        return 1.0
    set_share = ways / capacity_blocks
    log_other = math.log1p(-set_share)
    return math.fsum(
        math.comb(distance_blocks, a) * set_share**a * math.exp((distance_blocks - a) * log_other) for a in range(ways)
    )


def zelen_severo_phi(z: float) -> float:
    """Normal distribution function by the three-term polynomial 26.2.16 (Zelen and Severo, 1964), |error| < 1.2e-5."""
    t = 1.0 / (1.0 + 0.33267 * abs(z))
    upper_tail = math.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi) * t * (0.4361836 + t * (-0.1201676 + t * 0.9372980))
    return 1.0 - upper_tail if z >= 0 else upper_tail


def exact_phi(z: float) -> float:
    """Normal distribution function."""
    return 0.5 * math.erfc(-z / math.sqrt(2.0))


def gaussian_hit_blocks(distance_blocks: float, ways: int, capacity_blocks: float, phi=exact_phi) -> float:
    """The Gaussian form of `binomial_hit`."""
    set_share = ways / capacity_blocks
    mean = distance_blocks * set_share
    return phi((ways - 0.5 - mean) / math.sqrt(mean * (1.0 - set_share)))
