"""How far a number of a GPU file may be off: stated in the file, or what numbers of its kind are off by.

The table was made from what the packaged files say twice. A fitted number with an `elsewhere` has two sources: for the
rates of GEMM fits and microbenchmarks they lie 6 % apart, for latencies, losses and energies 43 % (medians of the
absolute logarithm over 0.67), and each of the two is off by its share, 1 / sqrt(2). Published microbenchmarks of one
rate lie 4 to 10 % apart (H200: L2 9.2, 9.7 and 11.2 TB/s, DDR 3.9 and 4.2). What is derived takes one of these through
a formula. What is assumed has no number to be held against: a rate follows from how the part is built, an overhead may
be half or twice.
"""

from .datum import KINDS, Datum
from .gpu_fields import FIELDS, TENSOR, Field

RATES = {"datasheet": 0.0, "measured": 0.05, "derived": 0.05, "fitted": 0.04, "assumed": 0.15}
OVERHEADS = {"datasheet": 0.0, "measured": 0.15, "derived": 0.2, "fitted": 0.3, "assumed": 0.5}
SHARES_OF_A_RATE = ("tensor_efficiency", "l2_effective_ratio")
assert set(RATES) == set(OVERHEADS) == set(KINDS)


def is_drawn(field: Field) -> bool:
    """Whether a field is uncertain at all: counts, capacities and what decides what fits are known."""
    return not field.whole and not field.listed


def is_rate(field: Field) -> bool:
    """Whether a field is a rate, or a share of one, rather than a latency, a loss or an energy."""
    of_time = any(word in field.unit for word in ("per second", "per clock", "hertz"))
    return of_time or field.name in SHARES_OF_A_RATE


def relative_uncertainty(name: str, datum: Datum) -> float:
    """The relative standard deviation of a number: its own, or that of its kind.

    Args:
        name: a field of a GPU file, or "tensor" for a tensor rate.
        datum: the number.
    """
    field = FIELDS.get(name, TENSOR)
    if not is_drawn(field):
        return 0.0
    if datum.uncertainty is not None:
        return datum.uncertainty
    return (RATES if is_rate(field) else OVERHEADS)[datum.kind]
