"""Problems as users state them: what every kernel's problem offers, and what most of them share.

`Problem` is what the engine asks for. `KernelProblem` is the usual way to get there: a frozen dataclass that inherits
it names its sizes (`SIZES`) and its choices (`CHOICES`), brings `arrays`, `flop` and `compulsory_bytes`, and has the
rest. A kernel whose shapes are not sizes joined by `x` overrides `read_shape` and `shape`.
"""

import re
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, ClassVar, Protocol, Self, runtime_checkable

import numpy as np

from ..content.dtypes import DTYPE_BYTES
from ..content.implementation import NONE, implementation_defaults, load_implementation
from ..content.overrides import FABRIC
from ..content.shapes import DIMENSION_MAX
from ..errors import UserError, unknown
from .choice import Choice

IMPLEMENTATION = Choice(
    "implementation",
    "whose kernel it is: fitted numbers in hardware/implementations; none: a bare ideal kernel",
)
NUMBERS = "implementation_numbers"  # the attribute that holds them
FABRIC_NUMBERS = "fabric_numbers"  # of problems of several GPUs, see `dse.kernels.fabric_problem`


@runtime_checkable
class Problem(Protocol):
    """What the engine asks of a problem: a frozen, hashable, picklable dataclass of plain values.

    Attributes:
        kernel: name of its kernel.
        CHOICES: what users may set of it beside shape and `dtype`; each is an attribute.
    """

    kernel: ClassVar[str]
    CHOICES: ClassVar[tuple[Choice, ...]]

    @classmethod
    def from_shape(cls, text: str, **choices: Any) -> Self:
        """The checked problem of a shape in the kernel's grammar; choices are `dtype` and those of `CHOICES`, as text
        or as values; None means what is not given.

        Raises:
            UserError: an unreadable shape, or a choice that is not allowed.
        """
        ...

    def checked(self) -> Self:
        """Itself, once every attribute is one that the model knows.

        Raises:
            UserError: naming the attribute, its value and what is allowed.
        """
        ...

    def on(self, gpu: Any, overrides: Mapping[str, str | float] | None = None) -> Self:
        """The problem with what depends on the GPU (`dse.content.gpu.GpuFile`) resolved: an implementation's numbers,
        those of the fabric that joins several.

        Args:
            gpu: the loaded GPU file.
            overrides: what-if changes of those numbers: "2x", "+10%" or a number; a fabric's as "fabric.NAME".
        """
        ...

    @property
    def shape(self) -> str:
        """The shape as text, which `from_shape` reads back; two problems of one kind that differ in size differ in
        it."""
        ...

    @property
    def title(self) -> str:
        """What heads call it: kernel, shape, types and what matters, e.g. "GEMM 4096x4096x4096 bf16 -> bf16"."""
        ...

    def described(self, accumulator: str) -> str:
        """The line above results, without the machine: the title and what else decides the numbers.

        Args:
            accumulator: accumulator type of the question; a kernel without tensor instructions does not name it.
        """
        ...

    @property
    def dtype(self) -> str:
        """The input type whose tensor instruction runs (`GpuFile.bind`)."""
        ...

    def arrays(self, float_dtype: Any = np.float32) -> Any:
        """The model's record of numbers."""
        ...

    @property
    def flop(self) -> float:
        """Useful operations, for the roofline: a fused multiply and add counts two."""
        ...

    def compulsory_bytes(self, gpu: Any) -> float:
        """Bytes that DRAM must move: inputs that are not in L2 at the start read once, outputs written once.

        Args:
            gpu: the model's record (`jaxmodel.machine.Gpu`): how much of what is warm L2 can hold.
        """
        ...


class KernelProblem:
    """What most problems share; a frozen dataclass inherits it.

    A subclass sets `kernel`, `NAME` (as heads say it, "softmax"), `SIZES` (attributes in the order of the shape's
    `x`-separated numbers), `EXAMPLE` (a shape, for help) and `CHOICES`, declares an attribute for each size, each
    choice and `dtype`, and brings `arrays`, `flop` and `compulsory_bytes`. One with another grammar says it in `FORM`.
    One with the choice `IMPLEMENTATION` declares `implementation: str = "none"` and
    `implementation_numbers: tuple[tuple[str, float], ...] = ()`, and reads `self.numbers` in `arrays`.
    """

    kernel: ClassVar[str]
    NAME: ClassVar[str]
    SIZES: ClassVar[tuple[str, ...]]
    CHOICES: ClassVar[tuple[Choice, ...]] = ()

    @classmethod
    def from_shape(cls, text: str, **choices: Any) -> Self:
        """See `Problem.from_shape`."""
        known = {choice.name: choice for choice in cls.CHOICES}
        given = {name: value for name, value in choices.items() if value is not None}
        for name in given:
            if name not in known and name != "dtype":
                raise unknown(f"choice of {cls.kernel}", name, [*known, "dtype"])
        read = {name: known[name].read(value) if name in known else value for name, value in given.items()}
        return cls(**cls.read_shape(text), **read).checked()

    @classmethod
    def read_shape(cls, text: str) -> dict[str, int]:
        """The sizes in a shape, attribute -> number."""
        parts = re.split(r"[xX,*]", text.strip())
        if len(parts) != len(cls.SIZES):
            raise UserError(f"shape {text!r} has {len(parts)} number(s); a {cls.NAME} is {shape_form(cls)}")
        return {name: parse_dimension(name, part, text) for name, part in zip(cls.SIZES, parts, strict=True)}

    def checked(self) -> Self:
        """Sizes, type and choices are allowed ones; a problem with rules of its own checks them after this."""
        for name in self.SIZES:
            parse_dimension(name, getattr(self, name), self.shape)
        if self.dtype not in DTYPE_BYTES:  # type: ignore[attr-defined]
            raise unknown("dtype", self.dtype, DTYPE_BYTES)  # type: ignore[attr-defined]
        for choice in self.CHOICES:
            choice.read(getattr(self, choice.name))
        return self

    @property
    def shape(self) -> str:
        """The sizes joined by `x`."""
        return "x".join(str(getattr(self, name)) for name in self.SIZES)

    @property
    def title(self) -> str:
        """Name, shape, type and every choice that is not at its default."""
        chosen = [f"{at.name} {_said(getattr(self, at.name))}" for at in self.CHOICES if self._differs(at)]
        return ", ".join([f"{self.NAME} {self.shape} {self.dtype}", *chosen])  # type: ignore[attr-defined]

    def described(self, accumulator: str) -> str:
        """The line above a sweep's results, without the machine: the title, unless a kernel has more to say."""
        return f"{self.title}, {accumulator} accumulation"

    def on(self, gpu: Any, overrides: Mapping[str, str | float] | None = None) -> Self:
        """The problem with its implementation's numbers on a GPU (of its file, else of the nearest it builds on).

        Raises:
            UserError: an unknown implementation, none for this GPU, or an override of a number that it has not.
        """
        of_fabric = next((name for name in overrides or {} if name.startswith(FABRIC)), None)
        if of_fabric is not None:
            raise UserError(
                f"--set {of_fabric}: {self.kernel} runs on one GPU and has no fabric; kernels with --ranks do"
            )
        if not hasattr(self, NUMBERS):
            if overrides:
                raise UserError(f"--set implementation.{next(iter(overrides))}: {self.kernel} has no implementations")
            return self
        numbers = load_implementation(self.kernel, self.implementation, (gpu.name, *gpu.bases), overrides)  # type: ignore[attr-defined]
        return replace(self, **{NUMBERS: tuple(numbers.items())})  # type: ignore[type-var]

    def enlarged(self) -> Self:
        """A problem for which the same schedules fit, as far as sizes do not matter: the same for many problems, so
        that what fits is found once for all of them. Itself, unless a kernel knows better."""
        return self

    @property
    def numbers(self) -> dict[str, float]:
        """Numbers of the implementation, by name.

        Raises:
            UserError: of one with a name they depend on the GPU, so `on` must have been asked before.
        """
        found = dict(getattr(self, NUMBERS))
        if found:
            return found
        if self.implementation != NONE:  # type: ignore[attr-defined]
            raise UserError(
                f"implementation {self.implementation!r} has other numbers on every GPU: "  # type: ignore[attr-defined]
                "take problem.on(load_gpu(...)), as dse.question.ask does"
            )
        return implementation_defaults(self.kernel)

    def _differs(self, choice: Choice) -> bool:
        return getattr(self, choice.name) != default_of(type(self), choice)


def default_of(problem: type[Any], choice: Choice) -> Any:
    """What a choice is where nothing is given."""
    return next(field.default for field in fields(problem) if field.name == choice.name)


def shape_form(problem: type[Any]) -> str:
    """How shapes of a kernel are written: `ROWSxCOLS`; a class that writes them otherwise says it in `FORM`."""
    return getattr(problem, "FORM", "") or "x".join(name.upper() for name in problem.SIZES)


def row_alignment(row_elements: int, element_bytes: float) -> float:
    """The largest power of two, at most 128, that divides the start in bytes of every row of a packed matrix."""
    row_bits = int(row_elements * element_bytes * 8)
    return min((row_bits & -row_bits) / 8.0, 128.0)


def parse_dimension(name: str, value: Any, shape: str) -> int:
    """`value` as a dimension.

    Raises:
        UserError: where it is not a whole number between 1 and DIMENSION_MAX.
    """
    text = str(value).strip()
    if not re.fullmatch(r"[+-]?\d+", text):
        raise UserError(f"{name} = {text!r} in shape {shape!r} is not a whole number; write e.g. 8192x8192x8192")
    number = float(text)  # int() refuses more than 4,300 digits
    if number < 1:
        raise UserError(f"{name} = {text} in shape {shape!r}: a dimension is at least 1")
    if number > DIMENSION_MAX:
        raise UserError(
            f"{name} = {text} in shape {shape!r} is past {DIMENSION_MAX} (2^24 - 1), the largest dimension that the "
            "model's float32 holds exactly; cut the problem, e.g. into a batch"
        )
    return int(text)


def _said(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
