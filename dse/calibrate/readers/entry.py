"""One measured kernel as a reader hands it on, what all readers are told, and how cells become numbers."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...content.dtypes import DTYPE_BYTES
from ...content.gpu import GpuFile
from ...content.shapes import DIMENSION_MAX
from ...errors import UserError, unknown
from ...kernels.gemm import GemmProblem
from ...schedule_text import FIELDS
from ..measurements import PROBLEM_COLUMNS, Measurements, measurements

Shape = tuple[int, int, int]
Named = tuple[str, Mapping[str, int]]  # instruction family and schedule

TORCH_TYPES = {  # as PyTorch writes them -> dtypes of the model
    "torch.bfloat16": "bf16",
    "torch.float16": "fp16",
    "torch.float32": "tf32",  # what a tensor core makes of it
    "torch.float8_e4m3fn": "fp8",
    "torch.float8_e5m2": "fp8",
    "torch.int8": "int8",
}


@dataclass(frozen=True)
class ReadOptions:
    """What a file does not say.

    Attributes:
        gpu: the GPU that is calibrated.
        system: what the file calls it; None: the GPU's name.
        dtype: input type of rows that name none.
        layout: operand layout of rows that name none, a key of `dse.kernels.gemm.LAYOUTS`.
        key: what each position of a Triton key is: m, n, k or "_" for anything else; None: three numbers, m, n, k.
    """

    gpu: GpuFile
    system: str | None = None
    dtype: str = "bf16"
    layout: str = "tn"
    key: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Entry:
    """One measured kernel.

    Attributes:
        where: file and line, for messages.
        problem: what it computed.
        latency_s: how long it took.
        source: who measured it.
        system, part: as in `Measurements`, "" where the file does not say.
        named: family and schedule, None where the file names none.
    """

    where: str
    problem: GemmProblem
    latency_s: float
    source: str
    system: str = ""
    part: str = ""
    named: Named | None = None


@dataclass(frozen=True)
class Content:
    """What a file holds.

    Attributes:
        entries: its measured kernels.
        left_out: why other rows were not taken -> how many.
        winners: shape -> schedule, from a log that says which schedule won but not how long it took.
    """

    entries: Sequence[Entry] = ()
    left_out: Mapping[str, int] = field(default_factory=Counter)
    winners: Mapping[Shape, Named] = field(default_factory=dict)


def stacked(entries: Sequence[Entry], origin: str = "") -> Measurements:
    """The entries as arrays."""
    problems = [entry.problem for entry in entries]
    columns: dict[str, Any] = {name: [getattr(problem, name) for problem in problems] for name in PROBLEM_COLUMNS}
    columns |= {name: [getattr(entry, name) for entry in entries] for name in ("latency_s", "source", "system", "part")}
    columns["family"] = [entry.named[0] if entry.named else "" for entry in entries]
    schedules = [entry.named[1] if entry.named else {} for entry in entries]
    schedule = {name: [at.get(name, 0) for at in schedules] for name in FIELDS}
    return measurements(**columns, schedule=schedule, origin=origin)


def problem_at(where: str, **choices: Any) -> GemmProblem:
    """A problem that the model takes.

    Raises:
        UserError: naming the place, the attribute, its value and what is allowed.
    """
    try:
        return GemmProblem(**choices).checked()
    except UserError as error:
        raise UserError(f"{where}: {error}") from None


def whole(value: Any, where: str, column: str, high: int = DIMENSION_MAX) -> int:
    """A cell as a whole number from 1.

    Raises:
        UserError: naming the place, the column and what is allowed.
    """
    number = _number(value)
    if not (math.isfinite(number) and number == int(number) and 1 <= number <= high):
        raise UserError(f"{where}: {column} is {shown(value)}: a whole number from 1 to {high} is needed")
    return int(number)


def seconds(value: Any, unit_s: float, where: str, column: str) -> float:
    """A cell as a time above 0.

    Raises:
        UserError: naming the place, the column and what is allowed.
    """
    number = _number(value)
    if not (math.isfinite(number) and number > 0):
        raise UserError(f"{where}: {column} is {shown(value)}: a time above 0 is needed; leave out kernels that failed")
    return number * unit_s


def torch_dtypes(names: Iterable[str], where: str) -> list[str]:
    """PyTorch's type names among `names`, as the model's dtypes.

    Raises:
        UserError: a PyTorch type that the model does not have.
    """
    found = [str(name) for name in names if str(name).startswith("torch.")]
    for name in found:
        if name not in TORCH_TYPES:
            raise unknown(f"type in {where}", name, TORCH_TYPES)
    return [TORCH_TYPES[name] for name in found]


def input_and_output(dtypes: Sequence[str], default: str, where: str) -> tuple[str, str]:
    """(input type, output type) of a kernel from its tensors' types in the order A, B, output; any may be missing.

    Raises:
        UserError: A and B differ.
    """
    a, b, out = (*dtypes[:3], *[""] * (3 - len(dtypes[:3])))
    if b and a != b:
        raise UserError(f"{where}: A is {a} and B is {b}: the model has one input type; leave this kernel out")
    dtype = a or default
    out = "fp32" if out == "tf32" else out
    return dtype, out or default_output(dtype)


def default_output(dtype: str) -> str:
    """The output type of a kernel that names none: the input's where that is 16 or 32 bits wide, else bf16 or int32."""
    if dtype == "int8":
        return "int32"
    return {"tf32": "fp32"}.get(dtype, dtype if DTYPE_BYTES.get(dtype, 2) >= 2 else "bf16")


def shown(value: Any) -> str:
    """A cell in a message."""
    return "empty" if value is None or value == "" or value != value else repr(value)


def _number(value: Any) -> float:
    try:
        return float(str(value).strip())
    except ValueError:
        return math.nan
