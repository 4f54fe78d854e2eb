"""GEMM: shapes and choices as users write them -> problems as the model takes them."""

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from ..content.dtypes import BLOCK_SCALED, DTYPE_BYTES, WIDE_BYTES
from ..errors import UserError, unknown
from .choice import Choice
from .entry import Kernel
from .problem import KernelProblem, parse_dimension, row_alignment

if TYPE_CHECKING:
    from jaxmodel.types import Gemm, Scaling

LAYOUTS = {  # (A contiguous along k, B contiguous along k), BLAS letters: transposed or not, column-major view
    "tn": (1.0, 1.0),
    "nn": (0.0, 1.0),
    "tt": (1.0, 0.0),
    "nt": (0.0, 0.0),
}
CACHE_STATES = {"cold": (0.0, 0.0), "a_warm": (1.0, 0.0), "b_warm": (0.0, 1.0), "warm": (1.0, 1.0)}
OUT_DTYPES = {"fp16": "fp16", "tf32": "fp32", "fp32": "fp32", "int8": "int32"}  # any other: bf16
LARGE = 65536
OUT_DTYPE = Choice("out_dtype", "type of the output (default: bf16, or what suits --dtype)", allowed=tuple(DTYPE_BYTES))
LAYOUT = Choice("layout", "operands contiguous along k (tn both, nn B, tt A, nt neither)", allowed=tuple(LAYOUTS))
CACHE = Choice("cache", "what L2 holds at the start", allowed=tuple(CACHE_STATES), noun="cache state")


@dataclass(frozen=True)
class GemmProblem(KernelProblem):
    """One (batched) GEMM as a user states it.

    Attributes:
        m, n, k, batch: dimensions; out[b] = A[b] (m x k) B[b] (k x n).
        dtype: input type, a key of DTYPE_BYTES.
        out_dtype: output type.
        layout: which operands are contiguous along k, BLAS letters: "tn" both (weights stored n x k), "nn" B only,
            "tt" A only, "nt" neither.
        beta: whether C is read and added.
        cache: what L2 holds at the start: "cold", "a_warm" (activations), "b_warm", "warm".
        align_bytes: alignment of every row's start; None: what the leading dimensions give (at most 16).
        quantise_a: whether kernels that make A of a bf16 one go before, as in a layer that quantises its activations:
            one for block scales, one more for the scale of a whole tensor, which needs its largest value first.
    """

    kernel: ClassVar[str] = "gemm"
    NAME: ClassVar[str] = "GEMM"
    SIZES: ClassVar[tuple[str, ...]] = ("m", "n", "k", "batch")
    FORM: ClassVar[str] = "MxNxK or BATCHxMxNxK"
    EXAMPLE: ClassVar[str] = "8192x8192x8192"
    CHOICES: ClassVar[tuple[Choice, ...]] = (
        OUT_DTYPE,
        LAYOUT,
        Choice("beta", "C is read and added", bool),
        CACHE,
        Choice("align_bytes", "bytes that divide every row's start", int, least=-(2**24), spelled="--align"),
        Choice("quantise_a", "count the kernels that make a narrow A of a bf16 one before the GEMM", bool),
    )

    m: int
    n: int
    k: int
    batch: int = 1
    dtype: str = "bf16"
    out_dtype: str = "bf16"
    layout: str = "tn"
    beta: bool = False
    cache: str = "a_warm"
    align_bytes: int | None = None
    quantise_a: bool = False

    @classmethod
    def from_shape(cls, text: str, **choices: Any) -> Self:
        """See `Problem.from_shape`; an output type that is not given suits the input's: fp16 for fp16, fp32 for tf32
        and fp32, int32 for int8, else bf16."""
        if choices.get("out_dtype") is None:
            choices["out_dtype"] = OUT_DTYPES.get(choices.get("dtype") or "bf16", "bf16")
        return super().from_shape(text, **choices)

    @classmethod
    def read_shape(cls, text: str) -> dict[str, int]:
        """The sizes in MxNxK or BATCHxMxNxK."""
        parts = re.split(r"[xX,*]", text.strip())
        if len(parts) not in (3, 4):
            raise UserError(f"shape {text!r} has {len(parts)} dimension(s); a GEMM is MxNxK, or BATCHxMxNxK")
        names = ("m", "n", "k") if len(parts) == 3 else ("batch", "m", "n", "k")
        return {name: parse_dimension(name, part, text) for name, part in zip(names, parts, strict=True)}

    def checked(self) -> Self:
        """See `Problem.checked`."""
        for name in self.SIZES:
            parse_dimension(name, getattr(self, name), self.shape)
        for name, table in (("dtype", DTYPE_BYTES), ("out_dtype", DTYPE_BYTES)):
            if getattr(self, name) not in table:
                raise unknown(name, getattr(self, name), table)
        if self.layout not in LAYOUTS:
            raise unknown("layout", self.layout, LAYOUTS)
        if self.cache not in CACHE_STATES:
            raise unknown("cache state", self.cache, CACHE_STATES)
        if self.quantise_a and DTYPE_BYTES[self.dtype] >= WIDE_BYTES:
            narrow = ", ".join(name for name, size in DTYPE_BYTES.items() if size < WIDE_BYTES)
            raise UserError(
                f"quantise_a with dtype {self.dtype}: A is quantised to one of {narrow}; choose one or leave it"
            )
        align = self.align_bytes
        if align is not None and (align < 1 or align > 128 or align & (align - 1)):
            raise UserError(f"align_bytes = {align}: a power of two between 1 and 128 is allowed")
        return self

    @property
    def shape(self) -> str:
        """The shape as it is written on the command line: MxNxK, or BxMxNxK."""
        dims = (self.m, self.n, self.k) if self.batch == 1 else (self.batch, self.m, self.n, self.k)
        return "x".join(map(str, dims))

    @property
    def title(self) -> str:
        """`GEMM 8192x8192x8192 bf16 -> bf16`."""
        return f"GEMM {self.shape} {self.dtype} -> {self.out_dtype}"

    def described(self, accumulator: str) -> str:
        """See `KernelProblem.described`."""
        c = " + C" if self.beta else ""
        types = f"{self.dtype} -> {self.out_dtype}{c}, {accumulator} accumulation"
        return f"GEMM {self.shape}, {types}, layout {self.layout}, L2 {self.cache}"

    def enlarged(self) -> Self:
        """One in which no dimension keeps a schedule from running."""
        return replace(self, m=LARGE, n=LARGE, k=LARGE, batch=1)

    @property
    def flop(self) -> float:
        """Useful operations."""
        return 2.0 * float(self.batch) * float(self.m) * float(self.n) * float(self.k)

    def compulsory_bytes(self, gpu: Any) -> float:
        """See `Problem.compulsory_bytes`."""
        record = self.arrays()
        m, n, k, batch = (float(getattr(self, name)) for name in self.SIZES)
        a_bytes, b_bytes = batch * m * k * float(record.a_bytes), batch * n * k * float(record.b_bytes)
        warm = float(record.a_warm) * a_bytes + float(record.b_warm) * b_bytes
        in_l2 = min(warm, float(gpu.l2_capacity_bytes) * float(gpu.l2_effective_ratio))
        outputs = batch * m * n * (float(record.out_bytes) + float(record.c_in_bytes))
        return a_bytes + b_bytes - in_l2 + outputs

    def arrays(self, float_dtype: Any = np.float32) -> "Gemm":
        """The problem as the model's record of scalars."""
        from jaxmodel.types import Gemm

        a_k_major, b_k_major = LAYOUTS[self.layout]
        a_warm, b_warm = CACHE_STATES[self.cache]
        size, out_size = DTYPE_BYTES[self.dtype], DTYPE_BYTES[self.out_dtype]
        numbers = {
            "m": self.m,
            "n": self.n,
            "k": self.k,
            "batch": self.batch,
            "a_bytes": size,
            "b_bytes": size,
            "out_bytes": out_size,
            "c_in_bytes": out_size if self.beta else 0,
            "a_k_major": a_k_major,
            "b_k_major": b_k_major,
            "a_align_bytes": self._row_alignment(self.k if a_k_major else self.m, size),
            "b_align_bytes": self._row_alignment(self.k if b_k_major else self.n, size),
            "out_align_bytes": self._row_alignment(self.n, out_size),
            "a_warm": a_warm,
            "b_warm": b_warm,
        }
        scaling = self._scaling(float_dtype) if size < WIDE_BYTES else None
        return Gemm(scaling=scaling, **{name: float_dtype(value) for name, value in numbers.items()})

    def _scaling(self, float_dtype: Any) -> "Scaling":
        from jaxmodel.types import Scaling

        blocks = BLOCK_SCALED.get(self.dtype)
        numbers = {
            "a_scale_bytes": blocks.scale_bytes / blocks.a_elements if blocks else 0,
            "b_scale_bytes": blocks.scale_bytes / blocks.b_elements if blocks else 0,
            "promote_k": blocks.promote_k if blocks else 0,
            "quantise_passes": (1 if blocks else 2) if self.quantise_a else 0,
            "quantise_source_bytes": WIDE_BYTES,
        }
        return Scaling(**{name: float_dtype(value) for name, value in numbers.items()})

    def _row_alignment(self, row_elements: int, element_bytes: float) -> float:
        return row_alignment(row_elements, element_bytes) if self.align_bytes is None else float(self.align_bytes)


def gemm_problem(shape: str, **choices: Any) -> GemmProblem:
    """A GEMM problem from "MxNxK" or "BxMxNxK" and the other attributes of `GemmProblem`.

    Raises:
        UserError: a dimension that is not a whole number between 1 and 2^24 - 1, or an unknown dtype, layout or state.
    """
    return GemmProblem(**GemmProblem.read_shape(shape), **choices).checked()


KERNELS = (
    Kernel(
        "gemm",
        "GEMM",
        GemmProblem,
        "jaxmodel.types:GemmSchedule",
        "jaxmodel.kernels.gemm:cost",
        compiled_fields=("stream_k",),
        open_fields=("raster_along_n", "swizzle"),
        words="dse.kernels.gemm_words:WORDS_OF_GEMM",
        one_order="dse.kernels.gemm_order:ORDER_OF_GEMM",
        reason_numbers="dse.kernels.gemm_reasons:reason_numbers",
        advice="dse.kernels.gemm_advice",
    ),
)
