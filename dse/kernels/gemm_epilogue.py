"""GEMM with a fused epilogue: bias, activation, residual, quantised output -> problems as the model takes them."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from ..content.dtypes import DTYPE_BYTES
from ..errors import UserError, unknown
from .choice import Choice
from .entry import Kernel
from .gemm import CACHE, LAYOUT, OUT_DTYPE, OUT_DTYPES, GemmProblem
from .problem import KernelProblem

if TYPE_CHECKING:
    from jaxmodel.kernels.gemm_epilogue_types import GemmEpilogue

# activation -> (CUDA-core slots, SFU operations) an element: relu a maximum; gelu as 0.5 x (1 + tanh(...)) with the
# hardware's tanh; silu x / (1 + 2^(-x log2 e)) with the hardware's exponential and reciprocal
ACTIVATIONS: dict[str, tuple[float, float]] = {"none": (0, 0), "relu": (1, 0), "gelu": (6, 1), "silu": (3, 2)}
BLOCK = 128  # results of a row that share an fp8 scale
SCALE_BYTES = 4
# none; a given scale of the whole tensor: multiply, clamp; a scale of every 1 x 128: absolute value, maximum over the
# block's lanes and registers, multiply, clamp
QUANTISE_SLOTS: dict[str, float] = {"none": 0, "tensor": 2, "block": 5}
LARGE = 65536


@dataclass(frozen=True)
class GemmEpilogueProblem(KernelProblem):
    """One GEMM whose results are finished before they are written: out = quantise(activation(A B + bias) + residual).

    Attributes:
        m, n, k: dimensions.
        dtype: input type.
        out_dtype: of the output; fp8 where it is quantised.
        layout, cache: as of a GEMM.
        bias: whether a number a column is added.
        activation: none, relu, gelu, silu.
        add_residual: whether a matrix of the output's size, in 16 bits, is read and added.
        quantise_out: none; tensor: to fp8 with a scale that is known before; block: to fp8 with fp32 scales of 1 x 128.
    """

    kernel: ClassVar[str] = "gemm_epilogue"
    NAME: ClassVar[str] = "GEMM with epilogue"
    SIZES: ClassVar[tuple[str, ...]] = ("m", "n", "k")
    FORM: ClassVar[str] = "MxNxK"
    EXAMPLE: ClassVar[str] = "4096x14336x4096"
    CHOICES: ClassVar[tuple[Choice, ...]] = (
        OUT_DTYPE,
        LAYOUT,
        CACHE,
        Choice("bias", "a bias a column is added", bool),
        Choice("activation", "of the results", allowed=tuple(ACTIVATIONS)),
        Choice("add_residual", "a 16-bit matrix of the output's size is read and added", bool),
        Choice("quantise_out", "to fp8, with a known scale or scales of 1 x 128", allowed=tuple(QUANTISE_SLOTS)),
    )

    m: int
    n: int
    k: int
    dtype: str = "bf16"
    out_dtype: str = "bf16"
    layout: str = "tn"
    cache: str = "a_warm"
    bias: bool = False
    activation: str = "none"
    add_residual: bool = False
    quantise_out: str = "none"

    @classmethod
    def from_shape(cls, text: str, **choices: Any) -> Self:
        """See `Problem.from_shape`; an output type that is not given is fp8 where results are quantised, else as of a
        GEMM."""
        if choices.get("out_dtype") is None:
            quantised = choices.get("quantise_out") not in (None, "none")
            choices["out_dtype"] = "fp8" if quantised else OUT_DTYPES.get(choices.get("dtype") or "bf16", "bf16")
        return super().from_shape(text, **choices)

    def checked(self) -> Self:
        """See `Problem.checked`; a quantised output is fp8."""
        super().checked()
        self.product.checked()
        if self.activation not in ACTIVATIONS:
            raise unknown("activation", self.activation, ACTIVATIONS)
        if self.quantise_out != "none" and self.out_dtype != "fp8":
            raise UserError(
                f"quantise_out {self.quantise_out} with out_dtype {self.out_dtype}: results are quantised to fp8; "
                "leave out_dtype"
            )
        return self

    @property
    def product(self) -> GemmProblem:
        """The GEMM without its epilogue, writing what the epilogue writes."""
        return GemmProblem(self.m, self.n, self.k, 1, self.dtype, self.out_dtype, self.layout, cache=self.cache)

    @property
    def read_bytes(self) -> float:
        """A residual's, an element of the output."""
        return 2.0 if self.add_residual else 0.0

    @property
    def scale_bytes(self) -> float:
        """Scales that are written, an element of the output."""
        return SCALE_BYTES / BLOCK if self.quantise_out == "block" else 0.0

    @property
    def flop(self) -> float:
        """Useful operations: those of the product."""
        return self.product.flop

    def compulsory_bytes(self, gpu: Any) -> float:
        """See `Problem.compulsory_bytes`."""
        elements = float(self.m) * float(self.n)
        bias = self.n * DTYPE_BYTES["bf16"] if self.bias else 0.0
        return self.product.compulsory_bytes(gpu) + elements * (self.read_bytes + self.scale_bytes) + bias

    def enlarged(self) -> Self:
        """See `KernelProblem.enlarged`: one in which no dimension keeps a schedule from running."""
        return replace(self, m=LARGE, n=LARGE, k=LARGE)

    def arrays(self, float_dtype: Any = np.float32) -> "GemmEpilogue":
        """The problem as the model's record of scalars."""
        from jaxmodel.kernels.gemm_epilogue_types import GemmEpilogue

        slots, sfu_op = ACTIVATIONS[self.activation]
        numbers = {
            "slots": slots + self.bias + self.add_residual + QUANTISE_SLOTS[self.quantise_out],
            "sfu_op": sfu_op,
            "read_bytes": self.read_bytes,
            "column_bytes": DTYPE_BYTES["bf16"] if self.bias else 0,
            "scale_bytes": self.scale_bytes,
            "scale_block": BLOCK if self.quantise_out == "block" else 1,
        }
        return GemmEpilogue(
            gemm=self.product.arrays(float_dtype), **{name: float_dtype(value) for name, value in numbers.items()}
        )


KERNELS = (
    Kernel(
        "gemm_epilogue",
        "GEMM with epilogue",
        GemmEpilogueProblem,
        "jaxmodel.types:GemmSchedule",
        "jaxmodel.kernels.gemm_epilogue:cost",
        compiled_fields=("stream_k",),
        open_fields=("raster_along_n", "swizzle"),
        one_order="dse.kernels.gemm_order:ORDER_OF_GEMM",
        compared="its parts, each as a kernel (dse validate gemm_epilogue)",
    ),
)
