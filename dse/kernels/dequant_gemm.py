"""Dequantised GEMM: 16-bit activations times weights of 4 or 8 bits -> problems as the model takes them.

How many instruction slots make a 16-bit weight of a stored one is counted from the routines that Marlin's descendants
use (vLLM, csrc/quantization/marlin/dequant.h, after FasterTransformer's interleaved_numeric_conversion.h): bit
operations that drop a narrow number into the fields of a wide one, two weights at a time, and one
subtraction or multiplication a pair. A plain conversion (shift, mask, to float, to 16 bits, scale) takes 4 or 5.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from ..errors import UserError, unknown
from .choice import Choice
from .entry import Kernel
from .gemm import CACHE, CACHE_STATES
from .problem import KernelProblem, row_alignment

if TYPE_CHECKING:
    from jaxmodel.kernels.dequant_gemm_types import DequantGemm

WIDE = "wide"
WIDE_BYTES = 2
SCALE_BYTES = 2  # fp16 or bf16, as the activations
SCALE_SLOTS = 0.5  # a multiplication a pair of weights
LARGE = 65536
WIDE_DTYPES = ("bf16", "fp16")


@dataclass(frozen=True)
class WeightType:
    """How weights are stored.

    Attributes:
        stored_bytes: of a weight.
        group: weights of a column that share a scale, where the user does not say.
        scale_bytes: of a scale.
        fixed_group: whether the type has no other group.
        zero_bytes: of a zero point; 0: it cannot have one.
        slots: activation type -> instruction slots of a weight, without its scale's.
        zero_slots: activation type -> the same with a zero point to subtract.
    """

    stored_bytes: float
    group: int
    scale_bytes: float
    fixed_group: bool
    zero_bytes: float
    slots: dict[str, float]
    zero_slots: dict[str, float]


WEIGHTS: dict[str, WeightType] = {
    # four weights: 2 lop3, 1 sub, 1 fma (bf16: another shift); a shift for every eight
    "int4": WeightType(
        0.5, 128, SCALE_BYTES, False, 0.5, {"fp16": 1.125, "bf16": 1.375}, {"fp16": 1.375, "bf16": 1.375}
    ),
    # four weights: 2 prmt and 2 sub; to bf16 by way of fp32: 4 prmt, 4 sub, 2 prmt
    "int8": WeightType(1, 0, SCALE_BYTES, False, 1, {"fp16": 1.0, "bf16": 2.5}, {"fp16": 1.0, "bf16": 3.0}),
    # four weights: twice mask, shift and lop3, and a shift; the exponent's bias is in the scale
    "fp8": WeightType(1, 0, SCALE_BYTES, False, 0, {"fp16": 1.75, "bf16": 1.75}, {}),
    # the same, and a shift for every eight; scales are powers of two, one byte a block of 32 (OCP MX v1.0)
    "mxfp4": WeightType(0.5, 32, 1, True, 0, {"fp16": 1.875, "bf16": 1.875}, {}),
    WIDE: WeightType(WIDE_BYTES, 0, 0, False, 0, {"fp16": 0.0, "bf16": 0.0}, {}),
}


@dataclass(frozen=True)
class DequantGemmProblem(KernelProblem):
    """One GEMM with narrow weights: out (m x n) = A (m x k) B (k x n).

    Attributes:
        m, n, k: dimensions.
        dtype: type of activations and output, bf16 or fp16.
        weights: how B is stored: int4, int8, fp8, mxfp4, or wide (as A, an ordinary GEMM).
        group: weights along k that share a scale, 0: a whole column; None: what the type has (int4 128, mxfp4 32,
            else a column).
        zeros: whether every group has a zero point too.
        dequant_slots: CUDA-core instruction slots that make a 16-bit weight of a stored one; None: as counted for the
            type in `WEIGHTS`, and half a slot for its scale where a group has one.
        cache: what L2 holds at the start: "cold", "a_warm" (activations), "b_warm", "warm".
    """

    kernel: ClassVar[str] = "dequant_gemm"
    NAME: ClassVar[str] = "dequantised GEMM"
    SIZES: ClassVar[tuple[str, ...]] = ("m", "n", "k")
    FORM: ClassVar[str] = "MxNxK"
    EXAMPLE: ClassVar[str] = "16x8192x8192"
    CHOICES: ClassVar[tuple[Choice, ...]] = (
        Choice("weights", "how weights are stored", allowed=tuple(WEIGHTS), noun="weight type"),
        Choice("group", "weights along k that share a scale, 0: a column (default: the type's)", int),
        Choice("zeros", "every group of weights has a zero point", bool),
        Choice("dequant_slots", "CUDA-core slots to widen one weight (default: the type's)", float, most=1000),
        CACHE,
    )

    m: int
    n: int
    k: int
    dtype: str = "bf16"
    weights: str = "int4"
    group: int | None = None
    zeros: bool = False
    dequant_slots: float | None = None
    cache: str = "a_warm"

    def checked(self) -> Self:
        """See `Problem.checked`; activations have 16 bits, mxfp4 has blocks of 32 and no zero points."""
        super().checked()
        if self.dtype not in WIDE_DTYPES:
            raise UserError(f"dtype {self.dtype}: activations of a dequantised GEMM are {' or '.join(WIDE_DTYPES)}")
        if self.weights not in WEIGHTS:
            raise unknown("weight type", self.weights, WEIGHTS)
        stored = WEIGHTS[self.weights]
        if self.group is not None and stored.fixed_group and self.group != stored.group:
            raise UserError(f"group = {self.group}: {self.weights} has blocks of {stored.group}; leave it")
        if self.group and not stored.scale_bytes:
            raise UserError(f"group = {self.group}: {self.weights} weights have no scales; leave it")
        if self.zeros and not stored.zero_bytes:
            narrow = ", ".join(name for name, weights in WEIGHTS.items() if weights.zero_bytes)
            raise UserError(f"zeros with {self.weights} weights: zero points are of {narrow}")
        return self

    @property
    def weights_a_scale(self) -> int:
        """Weights that share one scale, and one zero point."""
        group = WEIGHTS[self.weights].group if self.group is None else self.group
        return min(group or self.k, self.k)

    @property
    def overhead_bytes(self) -> float:
        """Of scales and zero points, a weight."""
        stored = WEIGHTS[self.weights]
        return (stored.scale_bytes + (stored.zero_bytes if self.zeros else 0)) / self.weights_a_scale

    @property
    def slots(self) -> float:
        """Instruction slots a weight: what was given, else the type's; a scale of a whole column waits for the end."""
        if self.dequant_slots is not None:
            return self.dequant_slots
        stored = WEIGHTS[self.weights]
        grouped = bool(stored.scale_bytes) and self.weights_a_scale < self.k
        return (stored.zero_slots if self.zeros else stored.slots)[self.dtype] + (SCALE_SLOTS if grouped else 0.0)

    @property
    def flop(self) -> float:
        """Useful operations: those of the product."""
        return 2.0 * float(self.m) * float(self.n) * float(self.k)

    def compulsory_bytes(self, gpu: Any) -> float:
        """See `Problem.compulsory_bytes`."""
        a_warm, b_warm = CACHE_STATES[self.cache]
        a_bytes = float(self.m) * self.k * WIDE_BYTES
        b_bytes = float(self.k) * self.n * (WEIGHTS[self.weights].stored_bytes + self.overhead_bytes)
        in_l2 = min(a_warm * a_bytes + b_warm * b_bytes, float(gpu.l2_capacity_bytes) * float(gpu.l2_effective_ratio))
        return a_bytes + b_bytes - in_l2 + float(self.m) * self.n * WIDE_BYTES

    def enlarged(self) -> Self:
        """See `KernelProblem.enlarged`: one in which no dimension keeps a schedule from running."""
        return replace(self, m=LARGE, n=LARGE, k=LARGE)

    def arrays(self, float_dtype: Any = np.float32) -> "DequantGemm":
        """The problem as the model's record of scalars."""
        from jaxmodel.kernels.dequant_gemm_types import DequantGemm
        from jaxmodel.types import Gemm, Scaling

        stored = WEIGHTS[self.weights]
        a_warm, b_warm = CACHE_STATES[self.cache]
        gemm = {
            "m": self.m,
            "n": self.n,
            "k": self.k,
            "batch": 1,
            "a_bytes": WIDE_BYTES,
            "b_bytes": stored.stored_bytes,
            "out_bytes": WIDE_BYTES,
            "c_in_bytes": 0,
            "a_k_major": 1,
            "b_k_major": 1,
            "a_align_bytes": row_alignment(self.k, WIDE_BYTES),
            "b_align_bytes": row_alignment(self.k, stored.stored_bytes),
            "out_align_bytes": row_alignment(self.n, WIDE_BYTES),
            "a_warm": a_warm,
            "b_warm": b_warm,
        }
        scaling = {
            "a_scale_bytes": 0,
            "b_scale_bytes": self.overhead_bytes,
            "promote_k": 0,
            "quantise_passes": 0,
            "quantise_source_bytes": WIDE_BYTES,
        }
        scales = Scaling(**{name: float_dtype(value) for name, value in scaling.items()})
        return DequantGemm(
            gemm=Gemm(scaling=scales, **{name: float_dtype(value) for name, value in gemm.items()}),
            dequant_slots=float_dtype(self.slots),
        )


KERNELS = (
    Kernel(
        "dequant_gemm",
        "dequantised GEMM",
        DequantGemmProblem,
        "jaxmodel.kernels.dequant_gemm_types:DequantSchedule",
        "jaxmodel.kernels.dequant_gemm:cost",
        compiled_fields=("stream_k",),
        open_fields=("raster_along_n", "swizzle"),
        one_order="dse.kernels.gemm_order:ORDER_OF_GEMM",
        compared="a few published times (dse validate dequant_gemm)",
    ),
)
