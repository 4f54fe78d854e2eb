"""Memory-bound kernels, a few lines each: what they read, write and compute an element, and what they reduce.

All are `jaxmodel.kernels.rows` with other numbers; shapes are ROWSxCOLS. Operations are counted by hand as issue slots
of the CUDA cores: a fused multiply and add is 2 FLOP, and so is any other instruction, because it takes as long.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

from ..content.dtypes import WIDE_BYTES
from ..errors import UserError
from .choice import Choice
from .entry import Kernel
from .row_problem import OUT_DTYPE, SUM_BYTES, WARM, RowProblem

RESIDUAL = Choice("residual", "a residual is added first, and the sum written too", bool)
BIAS = Choice("bias", "a bias a column beside the gain", bool)
TABLE_BYTES = 4  # a cosine or a sine
INDEX_BYTES = 8  # a position, a slot of a cache
BLOCK_SCALE_BYTES = {"nvfp4": 1}  # e4m3


@dataclass(frozen=True)
class ElementwiseProblem(RowProblem):
    """out = f(a, b, ...), element by element.

    Attributes:
        inputs: matrices that are read.
        flop_per_element: operations on CUDA cores beside conversions.
        sfu_per_element: operations on the special function units: exp, tanh, reciprocal.
    """

    kernel: ClassVar[str] = "elementwise"
    NAME: ClassVar[str] = "elementwise"
    CHOICES: ClassVar[tuple[Choice, ...]] = (
        OUT_DTYPE,
        Choice("inputs", "matrices that are read", int, least=1, most=16),
        Choice("flop_per_element", "FLOP an element on CUDA cores", float, most=10_000),
        Choice("sfu_per_element", "operations an element on the special function units", float, most=1_000),
        WARM,
    )

    inputs: int = 2
    flop_per_element: float = 2.0
    sfu_per_element: float = 0.0

    def row_numbers(self) -> dict[str, float]:
        """See `RowProblem`."""
        return {
            "read_bytes": self.inputs * self.in_bytes,
            "cuda_flop": self.inputs * self.widening + self.flop_per_element + self.narrowing,
            "sfu_op": self.sfu_per_element,
        }


@dataclass(frozen=True)
class ReductionProblem(RowProblem):
    """A sum (or a maximum) a row: out[i] = sum over j of a[i, j]. A whole array is one row."""

    kernel: ClassVar[str] = "reduction"
    NAME: ClassVar[str] = "reduction"

    def row_numbers(self) -> dict[str, float]:
        """See `RowProblem`."""
        return {
            "write_bytes": 0,
            "row_write_bytes": self.out_bytes,
            "cuda_flop": self.widening + 2.0,
            "reductions": 1,
        }


@dataclass(frozen=True)
class SoftmaxProblem(RowProblem):
    """Softmax along rows: the maximum, the sum of exponentials, their quotient."""

    kernel: ClassVar[str] = "softmax"
    NAME: ClassVar[str] = "softmax"

    def row_numbers(self) -> dict[str, float]:
        """See `RowProblem`: maximum, multiply and subtract, exponential, sum, multiply."""
        return {"cuda_flop": self.widening + self.narrowing + 8.0, "sfu_op": 1.0, "reductions": 2, "passes": 3}


@dataclass(frozen=True)
class LayerNormProblem(RowProblem):
    """Layer norm along rows; mean and variance in one pass.

    Attributes:
        residual: whether a residual is added first; the sum is written as well.
        bias: whether there is a bias beside the gain.
    """

    kernel: ClassVar[str] = "layernorm"
    NAME: ClassVar[str] = "layer norm"
    CHOICES: ClassVar[tuple[Choice, ...]] = (OUT_DTYPE, RESIDUAL, BIAS, WARM)

    residual: bool = False
    bias: bool = True

    def row_numbers(self) -> dict[str, float]:
        """See `RowProblem`: sum, sum of squares, subtract and multiply, gain and bias."""
        return {
            **_with_residual(self, self.residual),
            "shared_bytes": self.in_bytes * (2.0 if self.bias else 1.0),
            "cuda_flop": self.widening + self.narrowing + 8.0 + 4.0 * self.residual,
            "reductions": 2,
            "passes": 2,
        }


@dataclass(frozen=True)
class RmsNormProblem(RowProblem):
    """RMS norm along rows.

    Attributes:
        residual: whether a residual is added first; the sum is written as well.
    """

    kernel: ClassVar[str] = "rmsnorm"
    NAME: ClassVar[str] = "RMS norm"
    CHOICES: ClassVar[tuple[Choice, ...]] = (OUT_DTYPE, RESIDUAL, WARM)

    residual: bool = False

    def row_numbers(self) -> dict[str, float]:
        """See `RowProblem`: sum of squares, scale, gain."""
        return {
            **_with_residual(self, self.residual),
            "shared_bytes": self.in_bytes,
            "cuda_flop": self.widening + self.narrowing + 6.0 + 4.0 * self.residual,
            "reductions": 1,
            "passes": 2,
        }


def _with_residual(problem: RowProblem, residual: bool) -> dict[str, float]:
    more = problem.in_bytes if residual else 0.0
    return {"read_bytes": problem.in_bytes + more, "write_bytes": problem.out_bytes + more}


@dataclass(frozen=True)
class RopeProblem(RowProblem):
    """Rotary position embedding in place: a row is a token's queries and keys, all heads.

    Attributes:
        head_dim: elements of a head; all heads of a token share its head_dim / 2 cosines and sines.
    """

    kernel: ClassVar[str] = "rope"
    NAME: ClassVar[str] = "RoPE"
    EXAMPLE: ClassVar[str] = "8192x5120"
    CHOICES: ClassVar[tuple[Choice, ...]] = (
        OUT_DTYPE,
        Choice("head_dim", "elements of a head", int, least=2, most=1024),
        WARM,
    )

    head_dim: int = 128

    def checked(self) -> Any:
        """See `Problem.checked`; heads must fill a row."""
        return _heads_checked(super().checked(), self.head_dim)

    def row_numbers(self) -> dict[str, float]:
        """See `RowProblem`: a pair takes two products and two fused multiply-adds; its token's position comes first."""
        return {
            "row_read_bytes": self.head_dim * TABLE_BYTES + INDEX_BYTES,
            "lookups": 1,
            "cuda_flop": self.widening + self.narrowing + 4.0,
        }


@dataclass(frozen=True)
class CacheWriteProblem(RowProblem):
    """New keys and values written to a paged cache: a row is a token's keys and values of all KV heads.

    Attributes:
        head_dim: elements of a head.
        page_tokens: tokens one after the other that go to the same page, which a table names; 1: every token has a slot
            of its own, as in decode.
        layout: of a page: "nhd" a token's heads one after the other, "hnd" a head's tokens.
    """

    kernel: ClassVar[str] = "kv_cache_write"
    NAME: ClassVar[str] = "KV cache write"
    EXAMPLE: ClassVar[str] = "8192x2048"
    CHOICES: ClassVar[tuple[Choice, ...]] = (
        OUT_DTYPE,
        Choice("head_dim", "elements of a head", int, least=2, most=1024),
        Choice("page_tokens", "tokens of a page; 1: every token has its own slot", int, least=1, most=2**16),
        Choice("page_layout", "of a page: nhd a token's heads together, hnd a head's tokens", allowed=("nhd", "hnd")),
        WARM,
    )

    head_dim: int = 128
    page_tokens: int = 1
    page_layout: str = "nhd"

    def checked(self) -> Any:
        """See `Problem.checked`; keys and values of whole heads must fill a row."""
        return _heads_checked(super().checked(), 2 * self.head_dim, "keys and values of heads")

    @property
    def kv_heads(self) -> int:
        """Heads of keys, and of values."""
        return self.cols // (2 * self.head_dim)

    def row_numbers(self) -> dict[str, float]:
        """See `RowProblem`: slots come with the data, a page is looked up before."""
        together = self.cols / 2 if self.page_layout == "nhd" else self.head_dim
        same = self.out_bytes == self.in_bytes
        return {
            "row_read_bytes": INDEX_BYTES / self.page_tokens,
            "lookups": 1 if self.page_tokens > 1 else 0,
            "run_bytes": together * self.page_tokens * self.out_bytes,
            "cuda_flop": 0.0 if same else self.widening + self.narrowing + 2.0,
        }


SCOPES = ("group", "row", "tensor", "given")


@dataclass(frozen=True)
class QuantiseProblem(RowProblem):
    """Activations quantised: each scope's largest value makes its scale.

    Attributes:
        scope: what shares a scale: "group" (`group_size` elements of a row), "row" (a token), "tensor" (a first kernel
            finds the largest value of all), "given" (the scale is known).
        group_size: elements of a group.
    """

    kernel: ClassVar[str] = "quantise"
    NAME: ClassVar[str] = "quantise"
    CHOICES: ClassVar[tuple[Choice, ...]] = (
        OUT_DTYPE,
        Choice("scope", "what shares a scale", allowed=SCOPES),
        Choice("group_size", "elements of a row that share a scale, with scope group", int, least=1, most=2**16),
        WARM,
    )

    out_dtype: str | None = "fp8"
    scope: str = "group"
    group_size: int = 128

    def checked(self) -> Any:
        """See `Problem.checked`; the output must be narrower, and groups must fill a row."""
        super().checked()
        if self.in_bytes < WIDE_BYTES or self.out_bytes >= self.in_bytes:
            raise UserError(
                f"quantise {self.dtype} -> {self.out_dtype}: from fp32, bf16 or fp16 to a narrower type, e.g. fp8"
            )
        if self.scope == "group" and self.cols % self.group_size:
            raise UserError(
                f"group_size = {self.group_size} does not divide the {self.cols} columns of {self.shape}: "
                "choose one that does, or scope = row"
            )
        return self

    def row_numbers(self) -> dict[str, float]:
        """See `RowProblem`: largest magnitude, scale, clamp from both sides."""
        scales = {"group": self.cols / self.group_size, "row": 1}.get(self.scope, 0)
        return {
            "row_write_bytes": scales * BLOCK_SCALE_BYTES.get(str(self.out_dtype), SUM_BYTES),
            "cuda_flop": self.widening + self.narrowing + (8.0 if self.scope in ("group", "row") else 6.0),
            "reductions": 1 if self.scope in ("group", "row") else 0,
            "group_cols": self.group_size if self.scope == "group" else 0,
            "passes": 2 if self.scope == "row" else 1,
            "first_pass": 1 if self.scope == "tensor" else 0,
        }


def _heads_checked(problem: RowProblem, unit: int, what: str = "heads") -> RowProblem:
    if problem.cols % unit:
        raise UserError(
            f"{problem.cols} columns of {problem.shape} are no whole {what} of head_dim = "
            f"{problem.head_dim}: choose a multiple of {unit}, or another head_dim"  # type: ignore[attr-defined]
        )
    return problem


PROBLEMS: tuple[type[RowProblem], ...] = (
    ElementwiseProblem,
    ReductionProblem,
    SoftmaxProblem,
    LayerNormProblem,
    RmsNormProblem,
    RopeProblem,
    CacheWriteProblem,
    QuantiseProblem,
)
KERNELS = tuple(
    Kernel(
        problem.kernel,
        problem.NAME,
        problem,
        "jaxmodel.kernels.rows_types:RowSchedule",
        "jaxmodel.kernels.rows:cost",
        tensor_cores=False,
        reason_numbers="dse.kernels.rows_reasons:reason_numbers",
        advice="dse.kernels.rows_advice",
        compared="two limits and a few published times (dse validate memory_bound)",
    )
    for problem in PROBLEMS
)
