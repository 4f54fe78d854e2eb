"""In what a question leaves the ground that was validated, in words."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..content.dtypes import DTYPE_BYTES
from .nearest import SAME_SHARE, Nearest

if TYPE_CHECKING:
    from ..kernels.gemm import GemmProblem

SHOWN_NUMBERS = 4
DIMENSIONS = ("m", "n", "k")


def sizes_of(problem: "GemmProblem") -> dict[str, float]:
    """The sizes whose measured ranges are kept: dimensions, FLOP and compulsory bytes of one problem of the batch."""
    m, n, k = float(problem.m), float(problem.n), float(problem.k)
    size, out = DTYPE_BYTES[problem.dtype], DTYPE_BYTES[problem.out_dtype]
    return {"m": m, "n": n, "k": k, "FLOP": 2.0 * m * n * k, "bytes": size * (m * k + n * k) + out * m * n}


def extrapolations(
    problem: "GemmProblem", nearest: Nearest, gpu_name: str, family: str, clock: str = "boost"
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What was not validated, one text each; both empty where the question lies inside of the measured.

    Args:
        problem: what is asked.
        nearest: the validated GPU that speaks for it.
        gpu_name, family, clock: of the machine asked for.

    Returns:
        (of the machine: numbers that no measurement backs, of the problem and of how it is run: numbers that were
        validated, asked of something else than what was measured).
    """
    machine = _machine(nearest, gpu_name, family)
    other_type = _type(nearest, problem.dtype)
    if not nearest.same_rates:
        machine, other_type = machine + other_type, []
    return tuple(machine), (*other_type, *_how(problem, nearest, clock), *_size(problem, nearest))


def _machine(nearest: Nearest, gpu_name: str, family: str) -> list[str]:
    found = []
    validated = nearest.validated
    if not nearest.same_gpu:
        found.append(f"{gpu_name or 'this GPU'} was not measured: {nearest.gpu} is the nearest that was")
    elif nearest.differences:
        found.append(_numbers(nearest))
    if family != validated.family:
        found.append(f"{family} was not validated on {nearest.gpu}: {validated.family} was")
    return found


def _type(nearest: Nearest, dtype: str) -> list[str]:
    was = nearest.validated.dtype
    return [] if dtype == was else [f"{dtype} was not validated on {nearest.gpu}: the residuals are those of {was}"]


def _numbers(nearest: Nearest) -> str:
    shown = [
        f"{name} is {asked / was:.3g} x" if was else f"{name} is {asked:g} in place of 0"
        for name, (asked, was) in list(nearest.differences.items())[:SHOWN_NUMBERS]
    ]
    more = len(nearest.differences) - len(shown)
    shown += [f"{more} more"] if more else []
    return f"{nearest.gpu} was validated with other numbers, more than {SAME_SHARE:.0%} off: {', '.join(shown)}"


def _how(problem: "GemmProblem", nearest: Nearest, clock: str) -> list[str]:
    """How the measured kernels were run is in studies/measured/README.md."""
    found = [] if clock == "boost" else [f"the {clock} clock was not validated: boost was"]
    if problem.batch > 1:
        found.append(f"batch {problem.batch} was not validated: single GEMMs were")
    for what, value, was in (("layout", problem.layout, "tn"), ("L2 at the start", problem.cache, "a_warm")):
        if value != was:
            found.append(f"{what} {value} was not validated: {was} was")
    if problem.beta:
        found.append("a C that is read and added was not validated: plain outputs were")
    if DTYPE_BYTES[problem.out_dtype] != DTYPE_BYTES["bf16"]:
        found.append(f"output {problem.out_dtype} was not validated: bf16 was")
    if problem.dtype == nearest.validated.dtype and problem.quantise_a != nearest.validated.quantise_a:
        found.append(
            "kernels that quantise A before the GEMM were not validated: the GEMM alone was"
            if problem.quantise_a
            else "the GEMM alone was not validated: kernels that quantise A were measured with it (--quantise-a)"
        )
    if problem.align_bytes is not None:
        found.append(f"rows aligned to {problem.align_bytes} B were not validated: packed rows were")
    return found


def _size(problem: "GemmProblem", nearest: Nearest) -> list[str]:
    """FLOP and bytes only where every dimension lies inside: else they follow from it."""
    ranges: Mapping[str, tuple[float, float]] = nearest.validated.ranges
    outside = {
        name: f"{name} = {_number(value)} is outside of what was measured on {nearest.gpu}, {_number(ranges[name][0])} "
        f"to {_number(ranges[name][1])}"
        for name, value in sizes_of(problem).items()
        if name in ranges and not ranges[name][0] <= value <= ranges[name][1]
    }
    return [outside[side] for side in DIMENSIONS if side in outside] or list(outside.values())


def _number(value: float) -> str:
    return f"{value:.0f}" if value < 1e6 else f"{value:.3g}"
