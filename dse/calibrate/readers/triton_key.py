"""From a Triton autotuning key to the problem that was tuned.

A key is the values of the arguments named in `@triton.autotune(key=[...])`, in that order, followed by the types of
the kernel's tensors in the order of its arguments. Which of the values are m, n and k only the user knows.
"""

from collections.abc import Sequence
from typing import Any

from ...errors import UserError
from ...kernels.gemm import GemmProblem
from .entry import ReadOptions, input_and_output, problem_at, torch_dtypes, whole

EXAMPLE = "--key m,n,k,_ (a position that is none of them is _)"


def parse_key(text: str) -> tuple[str, ...]:
    """`m,n,k,_` as positions.

    Raises:
        UserError: a position that is none of m, n, k, _, or one of the three missing or given twice.
    """
    positions = tuple(part.strip().lower() for part in text.split(","))
    for position in positions:
        if position not in ("m", "n", "k", "_"):
            raise UserError(f"--key {text}: {position!r} is none of m, n, k, _; write e.g. {EXAMPLE}")
    for name in "mnk":
        if positions.count(name) != 1:
            raise UserError(f"--key {text}: {name} stands there {positions.count(name)} times; write e.g. {EXAMPLE}")
    return positions


def problem_of_key(key: Sequence[Any], where: str, options: ReadOptions) -> GemmProblem:
    """The tuned problem; cold, as Triton's benchmark clears L2 before every run.

    Without `options.key` the key must hold three whole numbers: m, n, k.

    Raises:
        UserError: a key that cannot be mapped, with the key and the fix; types that the model does not have.
    """
    sizes = _by_position(key, options.key, where) if options.key else _three_numbers(key, where)
    dtype, out_dtype = input_and_output(torch_dtypes(map(str, key), where), options.dtype, where)
    return problem_at(where, **sizes, dtype=dtype, out_dtype=out_dtype, layout=options.layout, cache="cold")


def _by_position(key: Sequence[Any], positions: Sequence[str], where: str) -> dict[str, int]:
    if len(key) < len(positions):
        raise UserError(
            f"{where}: the key {list(key)} has {len(key)} entries, --key names {len(positions)}; write e.g. {EXAMPLE}"
        )
    named = zip(positions, key, strict=False)
    return {name: whole(value, where, f"{name} of the key") for name, value in named if name != "_"}


def _three_numbers(key: Sequence[Any], where: str) -> dict[str, int]:
    numbers = [value for value in key if str(value).isdecimal() and not isinstance(value, bool)]
    if len(numbers) != 3:
        raise UserError(
            f"{where}: the key {list(key)} holds {len(numbers)} whole numbers, not three: say which are m, n and k, "
            f"e.g. {EXAMPLE}"
        )
    return {name: whole(value, where, f"{name} of the key") for name, value in zip("mnk", numbers, strict=True)}
