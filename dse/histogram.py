"""Buckets of a sweep's candidates: one byte a candidate holds either its latency's bin or why it does not fit."""

from dataclasses import dataclass
from typing import Any

import numpy as np

BINS_PER_DECADE = 16
LOWEST_S = 1e-8
DECADES = 11
BINS = BINS_PER_DECADE * DECADES

BUCKETS = 256
PADDING = 0  # lanes past the end of the range
NOT_FINITE = 63  # feasible, but an objective is NaN or infinite
FIRST_BIN = 64  # below it, a bucket is a reason code


@dataclass(frozen=True)
class Histogram:
    """Feasible candidates by latency, in bins of equal width on a logarithmic axis.

    Attributes:
        edges_s: seconds, BINS + 1 edges; bin i holds edges_s[i] <= latency < edges_s[i + 1], up to float32 rounding at
            the edges. Candidates outside all bins are counted in the first or last.
        counts: candidates a bin.
    """

    edges_s: np.ndarray
    counts: np.ndarray

    def nonempty(self) -> list[tuple[float, float, int]]:
        """(from, to, count) of the bins between the first and the last that hold something."""
        full = np.flatnonzero(self.counts)
        if not len(full):
            return []
        span = range(full[0], full[-1] + 1)
        return [(float(self.edges_s[i]), float(self.edges_s[i + 1]), int(self.counts[i])) for i in span]


def bucket(latency_s: Any, reason: Any, usable: Any, inside: Any) -> Any:
    """Each candidate's bucket, uint8; runs under `jit`.

    Args:
        latency_s: float[cfg].
        reason: int[cfg], 0 where feasible.
        usable: bool[cfg], feasible and every objective finite.
        inside: bool[cfg], false for padding.
    """
    import jax.numpy as jnp

    safe = jnp.where(usable, latency_s, LOWEST_S)
    place = jnp.floor(jnp.log2(safe / LOWEST_S) * (BINS_PER_DECADE * float(np.log10(2.0))))
    latency_bucket = FIRST_BIN + jnp.clip(place, 0, BINS - 1)
    why = jnp.where(reason == 0, NOT_FINITE, jnp.clip(reason, 1, NOT_FINITE - 1))
    return jnp.where(inside, jnp.where(usable, latency_bucket, why), PADDING).astype(jnp.uint8)


def histogram_of(counts: np.ndarray) -> Histogram:
    """The latency part of `BUCKETS` counts."""
    edges = LOWEST_S * 10 ** (np.arange(BINS + 1) / BINS_PER_DECADE)
    return Histogram(edges, counts[FIRST_BIN : FIRST_BIN + BINS].copy())


def feasible_of(counts: np.ndarray) -> int:
    """Candidates that can run."""
    return int(counts[FIRST_BIN:].sum())


def reasons_of(counts: np.ndarray) -> dict[str, int]:
    """Candidates that cannot run: name of the reason -> count, the most frequent first."""
    from jaxmodel.reasons import Reason

    known = {int(reason): reason.name for reason in Reason} | {NOT_FINITE: "NOT_FINITE"}
    found = {known.get(code, f"REASON_{code}"): int(counts[code]) for code in range(1, FIRST_BIN) if counts[code]}
    return dict(sorted(found.items(), key=lambda item: -item[1]))
