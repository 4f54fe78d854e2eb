"""What every command and function is asked: a problem on a GPU, with an instruction family and a clock."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from .binding import accumulator_of, bind, family_of
from .content.gpu import GpuFile, load_gpu
from .content.overrides import ENGINE, FABRIC, IMPLEMENTATION, split_overrides
from .errors import UserError
from .kernels.problem import FABRIC_NUMBERS, NUMBERS, Problem
from .kernels.registry import check_choices, get_kernel, kernel_of
from .text import what_if_lines


@dataclass(frozen=True)
class Question:
    """A problem on a GPU.

    Attributes:
        problem: what is computed, with what depends on the GPU resolved.
        gpu: the loaded GPU file, with overrides.
        family: which of the kernel's spaces: an instruction family, for kernels that run tensor instructions.
        accumulator: accumulator type.
        clock: "boost" or "sustained".
        problem_changes: what was changed of the implementation's and the fabric's numbers, a line a number.
    """

    problem: Any
    gpu: GpuFile
    family: str
    accumulator: str
    clock: str = "boost"
    problem_changes: tuple[str, ...] = ()

    @cached_property
    def bound(self) -> Any:
        """The model's record of the GPU, `jaxmodel.machine.Gpu`."""
        return bind(self.gpu, self.problem, self.accumulator, self.family, self.clock)

    @property
    def title(self) -> str:
        """One line for heads of reports."""
        return f"{self.problem.described(self.accumulator)}, on {self.gpu.title} ({self.gpu.name}), {self.family}"

    @property
    def changes(self) -> tuple[str, ...]:
        """What was changed of the GPU, of the implementation's and of the fabric's numbers, a line a number."""
        return (*self.gpu.changes, *self.problem_changes)

    @property
    def what_if(self) -> list[str]:
        """What was changed, a line a number, and a clock other than boost; empty for the GPU as it is."""
        return what_if_lines(self.changes, self.clock)


def ask(
    shape: Any,
    dtype: str = "bf16",
    gpu: str | GpuFile = "h200_sxm",
    *,
    kernel: str | None = None,
    overrides: Mapping[str, str | float] | None = None,
    family: str | None = None,
    accumulator: str | None = None,
    clock: str = "boost",
    **choices: Any,
) -> Question:
    """Reads a question as users put it.

    Args:
        shape: text in the kernel's grammar ("MxNxK" or "BATCHxMxNxK" for gemm), the numbers as a sequence, or a problem
            (then `dtype` and choices are its own).
        dtype: input type.
        gpu: name or path of a GPU file, or a loaded one.
        kernel: e.g. "attention"; None: the problem's, or gemm for a text.
        overrides: what-if changes of the GPU, see `dse.content.gpu.load_gpu`, of the implementation's numbers, as
            "implementation.NAME", and of the fabric's, as "fabric.NAME" (`dse.content.fabric.load_fabric`).
        family: instruction family; None: the GPU's fastest for the type that the kernel has a space for.
        accumulator: None: fp32, or int32 for integers.
        clock: "boost" or "sustained".
        choices: of the kernel, e.g. out_dtype, layout, beta, cache, align_bytes for gemm; None: not given.

    Raises:
        UserError: whatever of this is wrong, with what is allowed.
    """
    problem = _problem(shape, dtype, kernel, choices)
    chosen = kernel_of(problem)
    own, of_gpu = split_overrides(overrides)
    of_engine = next((name for name in own if name.startswith(ENGINE)), None)
    if of_engine is not None:
        raise UserError(f"--set {of_engine}: a kernel has no engine; dse serve and dse sweep sharding do")
    if isinstance(gpu, GpuFile) and of_gpu:
        raise UserError("overrides apply to a GPU given by name or path: load_gpu(name, overrides) makes one")
    machine = gpu if isinstance(gpu, GpuFile) else load_gpu(gpu, of_gpu)
    accumulates = accumulator_of(chosen, problem.dtype, accumulator)
    bind(machine, problem, accumulates, family, clock)
    resolved = problem.on(machine, {name.removeprefix(IMPLEMENTATION): value for name, value in own.items()})
    return Question(
        resolved,
        machine,
        family_of(chosen, machine, problem.dtype, accumulates, family),
        accumulates,
        clock,
        _moved(problem.on(machine), resolved) if own else (),
    )


def _problem(shape: Any, dtype: str, kernel: str | None, choices: Mapping[str, Any]) -> Any:
    if isinstance(shape, Problem):
        if kernel is not None and kernel != shape.kernel:
            raise UserError(f"the problem {shape.title} is of {shape.kernel}, not of {kernel}: ask for one of them")
        return shape.checked()
    chosen = get_kernel(kernel or "gemm")
    given = {name: value for name, value in choices.items() if value is not None}
    check_choices(chosen, given)
    text = shape if isinstance(shape, str) else "x".join(str(size) for size in shape)
    return chosen.problem.from_shape(text, dtype=dtype, **given)


def _moved(before: Any, after: Any) -> tuple[str, ...]:
    found: list[str] = []
    for prefix, attribute in ((IMPLEMENTATION, NUMBERS), (FABRIC, FABRIC_NUMBERS)):
        old = dict(getattr(before, attribute, ()))
        new = dict(getattr(after, attribute, ()))
        found += [f"{prefix}{name}: {old[name]:g} -> {new[name]:g}" for name in new if new[name] != old[name]]
    return tuple(found)
