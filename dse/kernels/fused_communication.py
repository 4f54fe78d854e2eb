"""GEMMs that communicate while they compute, as users ask for them.

Sizes are of the whole product over all ranks; what is computed, its operations and bytes, are of one rank.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from ..errors import UserError
from .choice import Choice
from .entry import Kernel
from .fabric_problem import FABRIC_CHOICES, FabricProblem
from .gemm import CACHE, LAYOUT, OUT_DTYPE, OUT_DTYPES, GemmProblem

if TYPE_CHECKING:
    from jaxmodel.kernels.fused_gemm_types import FusedGemm

LARGE = 65536


@dataclass(frozen=True)
class FusedGemmProblem(FabricProblem):
    """A product M x N x K that several GPUs work on.

    Attributes:
        m, n, k: of the whole product.
        dtype, out_dtype: of operands, and of what is written and sent.
        layout, cache: as of a GEMM.
        ranks, fabric, fabric_numbers: see `FabricProblem`.
    """

    kernel: ClassVar[str] = "ag_gemm"
    NAME: ClassVar[str] = "all-gather + GEMM"
    SHARED: ClassVar[str] = "n"  # the size that the ranks share
    SIZES: ClassVar[tuple[str, ...]] = ("m", "n", "k")
    FORM: ClassVar[str] = "MxNxK"
    EXAMPLE: ClassVar[str] = "8192x28672x8192"
    CHOICES: ClassVar[tuple[Choice, ...]] = (
        *FABRIC_CHOICES,
        OUT_DTYPE,
        LAYOUT,
        CACHE,
    )

    m: int
    n: int
    k: int
    dtype: str = "bf16"
    out_dtype: str = "bf16"
    layout: str = "tn"
    cache: str = "a_warm"
    ranks: int = 8
    fabric: str = ""
    fabric_numbers: tuple[tuple[str, float], ...] = ()

    @classmethod
    def from_shape(cls, text: str, **choices: Any) -> Self:
        """See `Problem.from_shape`; an output type that is not given is that of a GEMM."""
        if choices.get("out_dtype") is None:
            choices["out_dtype"] = OUT_DTYPES.get(choices.get("dtype") or "bf16", "bf16")
        return super().from_shape(text, **choices)

    def checked(self) -> Self:
        """See `Problem.checked`; the ranks share n (all-gather) or k evenly."""
        super().checked()
        size = getattr(self, self.SHARED)
        if size % self.ranks:
            raise UserError(
                f"{self.SHARED} = {size} in shape {self.shape!r} is not shared evenly by {self.ranks} ranks: pad it to "
                f"a multiple, or choose other --ranks"
            )
        self.product.checked()
        return self

    @property
    def product(self) -> GemmProblem:
        """What one rank computes."""
        sizes = {name: getattr(self, name) for name in self.SIZES}
        sizes[self.SHARED] //= self.ranks
        return GemmProblem(**sizes, dtype=self.dtype, out_dtype=self.out_dtype, layout=self.layout, cache=self.cache)

    @property
    def title(self) -> str:
        """`all-gather + GEMM 8192x28672x8192 bf16 -> bf16, 8 ranks`."""
        on = f" on {self.fabric}" if self.fabric else ""
        return f"{self.NAME} {self.shape} {self.dtype} -> {self.out_dtype}, {self.ranks} ranks{on}"

    def described(self, accumulator: str) -> str:
        """See `KernelProblem.described`."""
        each = f"{accumulator} accumulation, layout {self.layout}, L2 {self.cache}"
        return f"{self.title}, {each}; a rank computes {self.product.shape}"

    @property
    def flop(self) -> float:
        """Useful operations of one rank."""
        return self.product.flop

    def compulsory_bytes(self, gpu: Any) -> float:
        """See `Problem.compulsory_bytes`: those of a rank's product."""
        return self.product.compulsory_bytes(gpu)

    def enlarged(self) -> Self:
        """See `KernelProblem.enlarged`: one in which no dimension keeps a schedule from running."""
        return replace(self, m=LARGE * self.ranks, n=LARGE * self.ranks, k=LARGE * self.ranks)

    def arrays(self, float_dtype: Any = np.float32) -> "FusedGemm":
        """The problem as the model's record of scalars."""
        from jaxmodel.kernels.fused_gemm_types import FusedGemm

        return FusedGemm(gemm=self.product.arrays(float_dtype), link=self.link(float_dtype))


@dataclass(frozen=True)
class AllGatherGemm(FusedGemmProblem):
    """All-gather + GEMM: A is sharded by rows over the ranks and gathered while it is multiplied; a rank has N / ranks
    columns of B and makes so many of the output, of all M rows."""


@dataclass(frozen=True)
class GemmReduceScatter(FusedGemmProblem):
    """GEMM + reduce-scatter: a rank has K / ranks of A's columns and B's rows, makes a partial M x N, and gets
    M / ranks rows of the sum over all ranks. What is sent is rounded to the output's type."""

    kernel: ClassVar[str] = "gemm_rs"
    NAME: ClassVar[str] = "GEMM + reduce-scatter"
    SHARED: ClassVar[str] = "k"
    EXAMPLE: ClassVar[str] = "8192x8192x28672"


@dataclass(frozen=True)
class GemmAllReduce(FusedGemmProblem):
    """GEMM + all-reduce: as `GemmReduceScatter`, but every rank gets the whole sum."""

    kernel: ClassVar[str] = "gemm_ar"
    NAME: ClassVar[str] = "GEMM + all-reduce"
    SHARED: ClassVar[str] = "k"
    EXAMPLE: ClassVar[str] = "8192x8192x28672"


def _entry(problem: type[FusedGemmProblem]) -> Kernel:
    return Kernel(
        problem.kernel,
        problem.NAME,
        problem,
        "jaxmodel.kernels.fused_gemm_types:FusedGemmSchedule",
        f"jaxmodel.kernels.{problem.kernel}:cost",
        advice="dse.kernels.fused_communication_advice",
        compared="published times: 10 % off for good kernels, others far slower (dse validate fused_communication)",
    )


KERNELS = tuple(_entry(problem) for problem in (AllGatherGemm, GemmReduceScatter, GemmAllReduce))
