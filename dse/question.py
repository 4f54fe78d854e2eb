"""What every command and function is asked: a problem on a GPU, with an instruction family and a clock."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from .content.dtypes import default_accumulator
from .content.gpu import GpuFile, load_gpu
from .errors import UserError
from .problem import GemmProblem, checked, gemm_problem
from .text import what_if_lines

OUT_DTYPES = {"fp16": "fp16", "tf32": "fp32", "fp32": "fp32", "int8": "int32"}  # any other: bf16


@dataclass(frozen=True)
class Question:
    """A problem on a GPU.

    Attributes:
        problem: what is computed.
        gpu: the loaded GPU file, with overrides.
        family: instruction family.
        accumulator: accumulator type.
        clock: "boost" or "sustained".
    """

    problem: GemmProblem
    gpu: GpuFile
    family: str
    accumulator: str
    clock: str = "boost"

    @cached_property
    def bound(self) -> Any:
        """The model's record of the GPU, `jaxmodel.machine.Gpu`."""
        return self.gpu.bind(self.problem.dtype, self.accumulator, self.family, clock=self.clock)

    @property
    def title(self) -> str:
        """One line for heads of reports."""
        problem = self.problem
        c = " + C" if problem.beta else ""
        types = f"{problem.dtype} -> {problem.out_dtype}{c}, {self.accumulator} accumulation"
        how = f"layout {problem.layout}, L2 {problem.cache}"
        return f"GEMM {problem.shape}, {types}, {how}, on {self.gpu.title} ({self.gpu.name}), {self.family}"

    @property
    def what_if(self) -> list[str]:
        """What was changed of the GPU, a line a number, and a clock other than boost; empty for the GPU as it is."""
        return what_if_lines(self.gpu.changes, self.clock)


def ask(
    shape: str | Sequence[int] | GemmProblem,
    dtype: str = "bf16",
    gpu: str | GpuFile = "h200_sxm",
    *,
    overrides: Mapping[str, str | float] | None = None,
    family: str | None = None,
    accumulator: str | None = None,
    clock: str = "boost",
    out_dtype: str | None = None,
    **choices: Any,
) -> Question:
    """Reads a question as users put it.

    Args:
        shape: "MxNxK", "BATCHxMxNxK", the numbers as a sequence, or a problem (then `dtype` and choices are its own).
        dtype: input type.
        gpu: name or path of a GPU file, or a loaded one.
        overrides: what-if changes of the GPU, see `dse.content.gpu.load_gpu`.
        family: instruction family; None: the GPU's fastest for the type.
        accumulator: None: fp32, or int32 for integers.
        clock: "boost" or "sustained".
        out_dtype: None: fp16 for fp16, fp32 for tf32 and fp32, int32 for int8, else bf16.
        choices: further attributes of `dse.problem.GemmProblem`: layout, beta, cache, align_bytes.

    Raises:
        UserError: whatever of this is wrong, with what is allowed.
    """
    if isinstance(shape, GemmProblem):
        problem = checked(shape)
    else:
        text = shape if isinstance(shape, str) else "x".join(str(size) for size in shape)
        given = {name: value for name, value in choices.items() if value is not None}
        out = out_dtype or OUT_DTYPES.get(dtype, "bf16")
        problem = gemm_problem(text, dtype=dtype, out_dtype=out, **given)
    if isinstance(gpu, GpuFile):
        if overrides:
            raise UserError("overrides apply to a GPU given by name or path: load_gpu(name, overrides) makes one")
        machine = gpu
    else:
        machine = load_gpu(gpu, dict(overrides or {}))
    chosen = accumulator or default_accumulator(problem.dtype)
    machine.bind(problem.dtype, chosen, family, clock=clock)
    return Question(problem, machine, family or machine.families(problem.dtype, chosen)[0], chosen, clock)
