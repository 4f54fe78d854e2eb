"""Grouped GEMM: rows dealt over experts, as users write it -> the problem as the model takes it."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from ..content.dtypes import BLOCK_SCALED, DTYPE_BYTES, WIDE_BYTES
from ..errors import UserError
from .choice import Choice
from .entry import Kernel
from .problem import KernelProblem, row_alignment
from .routing import HELP, Classes, check_distribution, expert_classes, padded

if TYPE_CHECKING:
    from jaxmodel.kernels.grouped_gemm_types import ExpertClass, GroupedGemm
    from jaxmodel.types import Scaling

CACHE_STATES = ("cold", "a_warm")
DISTRIBUTION = Choice("distribution", HELP)
RANKS = Choice("ep", "ranks that share the experts; what is timed is the one with the most rows", int, least=1)


@dataclass(frozen=True)
class GroupedGemmProblem(KernelProblem):
    """One grouped GEMM: every row of A goes to `topk` of `experts` weight matrices of its own.

    Attributes:
        tokens: rows of A.
        n, k: columns and depth of an expert's weights, which are stored n x k.
        experts: of all ranks.
        topk: experts a row goes to.
        dtype: of A and of the weights.
        distribution: "balanced", "power_law_ALPHA", or the rows of each of this rank's experts, "5,0,3".
        ep: ranks that share the experts.
        cache: whether A is in L2 at the start.
    """

    kernel: ClassVar[str] = "grouped_gemm"
    NAME: ClassVar[str] = "grouped GEMM"
    SIZES: ClassVar[tuple[str, ...]] = ("tokens", "n", "k", "experts", "topk")
    EXAMPLE: ClassVar[str] = "4096x1536x2048x128x8"
    CHOICES: ClassVar[tuple[Choice, ...]] = (
        DISTRIBUTION,
        RANKS,
        Choice("cache", "what L2 holds at the start", allowed=CACHE_STATES, noun="cache state"),
    )

    tokens: int
    n: int
    k: int
    experts: int
    topk: int
    dtype: str = "bf16"
    distribution: str = "balanced"
    ep: int = 1
    cache: str = "a_warm"

    def checked(self) -> Self:
        """See `Problem.checked`; also `topk` and `ep` suit the experts, and given counts the tokens."""
        super().checked()
        check_experts(self)
        return self

    @property
    def classes(self) -> Classes:
        """This rank's experts by their rows."""
        return expert_classes(self.distribution, self.tokens, self.experts, self.topk, self.ep)

    @property
    def flop(self) -> float:
        """Useful operations: those of the experts' rows."""
        return 2.0 * float(self.n) * float(self.k) * rows_of(self.classes)

    def compulsory_bytes(self, gpu: Any) -> float:
        """The used experts' weights, A unless it is warm and fits, and the output."""
        size = DTYPE_BYTES[self.dtype]
        experts, rows = experts_of(self.classes), rows_of(self.classes)
        a = min(float(self.tokens), rows) * self.k * size
        held = min(float(gpu.l2_capacity_bytes * gpu.l2_effective_ratio), a) if self.cache == "a_warm" else 0.0
        return a - held + experts * self.n * self.k * size + rows * self.n * WIDE_BYTES

    def arrays(self, float_dtype: Any = np.float32) -> "GroupedGemm":
        """The problem as the model's record of scalars."""
        import jax

        from jaxmodel.kernels.grouped_gemm_types import GroupedGemm, GroupedNumbers

        size, rows = DTYPE_BYTES[self.dtype], rows_of(self.classes)
        numbers = {
            "tokens": min(float(self.tokens), rows),
            "n": self.n,
            "k": self.k,
            "a_bytes": size,
            "b_bytes": size,
            "out_bytes": WIDE_BYTES,
            "a_align_bytes": row_alignment(self.k, size),
            "b_align_bytes": row_alignment(self.k, size),
            "out_align_bytes": row_alignment(self.n, WIDE_BYTES),
            "a_warm": float(self.cache == "a_warm"),
        }
        return GroupedGemm(
            **{name: float_dtype(value) for name, value in numbers.items()},
            classes=class_records(self.classes, float_dtype),
            scaling=scaling_of(self.dtype, float_dtype),
            numbers=jax.tree.map(float_dtype, GroupedNumbers()),
        )


def check_experts(problem: Any) -> None:
    """Raises where experts, topk, ranks or a distribution do not suit each other.

    Raises:
        UserError: naming the attribute, its value and what is allowed.
    """
    if problem.topk > problem.experts:
        raise UserError(f"topk = {problem.topk}: a token goes to at most all {problem.experts} expert(s)")
    if problem.experts % problem.ep:
        raise UserError(f"--ep = {problem.ep} does not divide {problem.experts} experts: every rank has as many")
    check_distribution(problem.distribution, problem.tokens, problem.experts, problem.topk, problem.ep)


def rows_of(classes: Classes) -> float:
    """Rows of all experts."""
    return sum(rows * experts for rows, experts in classes)


def experts_of(classes: Classes) -> float:
    """Experts that get rows."""
    return sum(experts for _, experts in classes)


def class_records(classes: Classes, float_dtype: Any) -> "tuple[ExpertClass, ...]":
    """The classes as the model takes them."""
    from jaxmodel.kernels.grouped_gemm_types import ExpertClass

    return tuple(ExpertClass(rows=float_dtype(rows), experts=float_dtype(experts)) for rows, experts in padded(classes))


def scaling_of(dtype: str, float_dtype: Any) -> "Scaling | None":
    """The scales of a narrow type; None for a wide one."""
    from jaxmodel.types import Scaling

    if DTYPE_BYTES[dtype] >= WIDE_BYTES:
        return None
    blocks = BLOCK_SCALED.get(dtype)
    numbers = {
        "a_scale_bytes": blocks.scale_bytes / blocks.a_elements if blocks else 0,
        "b_scale_bytes": blocks.scale_bytes / blocks.b_elements if blocks else 0,
        "promote_k": blocks.promote_k if blocks else 0,
        "quantise_passes": 0,
        "quantise_source_bytes": WIDE_BYTES,
    }
    return Scaling(**{name: float_dtype(value) for name, value in numbers.items()})


KERNELS = (
    Kernel(
        "grouped_gemm",
        "grouped GEMM",
        GroupedGemmProblem,
        "jaxmodel.kernels.grouped_gemm_types:GroupedGemmSchedule",
        "jaxmodel.kernels.grouped_gemm:cost",
        open_fields=("raster_along_n", "swizzle"),
        compared="a few published rates (dse validate grouped_gemm)",
    ),
)
