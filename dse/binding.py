"""Which of a GPU's numbers a problem's kernel runs on: input type, accumulator and instruction family."""

from typing import Any

from .content.dtypes import default_accumulator
from .content.gpu import GpuFile
from .content.space import space_families
from .errors import UserError, unknown
from .kernels.entry import Kernel
from .kernels.registry import kernel_of

PLAIN = "bf16"  # the type whose record a kernel without tensor instructions takes on a GPU that lacks its own


def accumulator_of(kernel: Kernel, dtype: str, accumulator: str | None = None) -> str:
    """The accumulator type: as given, else int32 for integers and fp32 for floating types.

    Raises:
        UserError: one is given for a kernel that runs no tensor instruction.
    """
    if accumulator is not None and not kernel.tensor_cores:
        raise UserError(f"--accumulator {accumulator}: {kernel.name} runs no tensor instruction, leave it out")
    return accumulator or default_accumulator(dtype)


def family_of(kernel: Kernel, gpu: GpuFile, dtype: str, accumulator: str, family: str | None = None) -> str:
    """The family of spaces for a question: as given, else the GPU's fastest for which the kernel has a space.

    Raises:
        UserError: the GPU or the kernel has no such family, or they have none in common.
    """
    spaces = space_families(kernel.name)
    if not kernel.tensor_cores:
        if family is not None and family not in spaces:
            raise unknown(f"family of {kernel.name}", family, spaces)
        return family or next(iter(spaces), "")
    if family is not None:
        return family
    has = gpu.families(dtype, accumulator)
    common = [name for name in has if name in spaces] if spaces else list(has)
    if not common:
        raise UserError(
            f"{kernel.name} has spaces for {', '.join(spaces)}, but {gpu.name} runs {dtype} by {', '.join(has)}: "
            "choose another --dtype or --gpu"
        )
    return common[0]


def families_of(problem: Any, gpu: GpuFile, accumulator: str | None = None) -> tuple[str, ...]:
    """The families that a problem's schedules may be of on a GPU, the fastest first."""
    kernel = kernel_of(problem)
    spaces = space_families(kernel.name)
    if not kernel.tensor_cores:
        return spaces
    has = gpu.families(problem.dtype, accumulator) or gpu.families(problem.dtype)
    return tuple(name for name in has if name in spaces) or has


def bind(
    gpu: GpuFile, problem: Any, accumulator: str | None = None, family: str | None = None, clock: str = "boost"
) -> Any:
    """The model's record of a GPU for a problem, `jaxmodel.machine.Gpu`.

    A kernel without tensor instructions takes the record of its type with whatever instructions the GPU has for it, or
    of bf16 where there are none.

    Raises:
        UserError: the part has no such type, accumulator, family or clock; the message says what it has.
    """
    if kernel_of(problem).tensor_cores:
        return gpu.bind(problem.dtype, accumulator, family, clock=clock)
    has = gpu.dtypes()
    dtype = next((name for name in (problem.dtype, PLAIN) if name in has), has[0])
    return gpu.bind(dtype, gpu.accumulators(dtype)[0], clock=clock)
