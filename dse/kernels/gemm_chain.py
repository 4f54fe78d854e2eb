"""Two GEMMs in a chain, E = f(A B) D: shapes and choices as users write them -> problems as the model takes them."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from ..content.dtypes import DTYPE_BYTES
from ..errors import UserError, unknown
from .choice import Choice
from .entry import Kernel
from .gemm import CACHE_STATES, GemmProblem
from .gemm_epilogue import ACTIVATIONS, GemmEpilogueProblem
from .problem import KernelProblem, row_alignment

if TYPE_CHECKING:
    from jaxmodel.kernels.gemm_chain_types import GemmChain

WIDE_DTYPES = ("bf16", "fp16")
STATES = ("cold", "a_warm")
LARGE = 65536


@dataclass(frozen=True)
class GemmChainProblem(KernelProblem):
    """Two GEMMs, the second on the first one's results: E (m x l) = f(A (m x k) B (k x n)) D (n x l).

    Attributes:
        m, n, k, l: dimensions; n is the intermediate's.
        dtype: type of all operands and of E, bf16 or fp16.
        activation: f: none, relu, gelu, silu.
        cache: whether A is in L2 at the start: "cold", "a_warm".
    """

    kernel: ClassVar[str] = "gemm_chain"
    NAME: ClassVar[str] = "GEMM chain"
    SIZES: ClassVar[tuple[str, ...]] = ("m", "n", "k", "l")
    FORM: ClassVar[str] = "MxNxKxL"
    EXAMPLE: ClassVar[str] = "65536x256x256x256"
    CHOICES: ClassVar[tuple[Choice, ...]] = (
        Choice("activation", "of the results", allowed=tuple(ACTIVATIONS)),
        Choice("cache", "what L2 holds at the start", allowed=STATES, noun="cache state"),
    )

    m: int
    n: int
    k: int
    l: int  # noqa: E741 - the shape's letter
    dtype: str = "bf16"
    activation: str = "none"
    cache: str = "a_warm"

    def checked(self) -> Self:
        """See `Problem.checked`; operands have 16 bits."""
        super().checked()
        if self.dtype not in WIDE_DTYPES:
            raise UserError(f"dtype {self.dtype}: operands of a GEMM chain are {' or '.join(WIDE_DTYPES)}")
        for name, value, allowed in (
            ("activation", self.activation, ACTIVATIONS),
            ("cache state", self.cache, STATES),
        ):
            if value not in allowed:
                raise unknown(name, value, allowed)
        return self

    @property
    def products(self) -> tuple[GemmEpilogueProblem, GemmProblem]:
        """The two products as kernels of their own, the activation in the first one's epilogue."""
        first = GemmEpilogueProblem(
            self.m, self.n, self.k, self.dtype, self.dtype, cache=self.cache, activation=self.activation
        )
        return first, GemmProblem(self.m, self.l, self.n, 1, self.dtype, self.dtype, cache="a_warm")

    @property
    def flop(self) -> float:
        """Useful operations: those of both products."""
        return 2.0 * float(self.m) * float(self.n) * (float(self.k) + float(self.l))

    def compulsory_bytes(self, gpu: Any) -> float:
        """See `Problem.compulsory_bytes`: A, B, D and E; the intermediate need not move."""
        m, n, k, l = (float(getattr(self, name)) for name in self.SIZES)  # noqa: E741
        size = DTYPE_BYTES[self.dtype]
        in_l2 = min(
            CACHE_STATES[self.cache][0] * m * k * size, float(gpu.l2_capacity_bytes) * float(gpu.l2_effective_ratio)
        )
        return size * (m * k + k * n + n * l + m * l) - in_l2

    def enlarged(self) -> Self:
        """See `KernelProblem.enlarged`: rows beyond any tile; the other sides decide what fits."""
        return replace(self, m=LARGE)

    def arrays(self, float_dtype: Any = np.float32) -> "GemmChain":
        """The problem as the model's record of scalars."""
        from jaxmodel.kernels.gemm_chain_types import GemmChain

        size = DTYPE_BYTES[self.dtype]
        slots, sfu_op = ACTIVATIONS[self.activation]
        numbers = {
            "m": self.m,
            "n": self.n,
            "k": self.k,
            "l": self.l,
            "element_bytes": size,
            "out_bytes": size,
            "k_align_bytes": row_alignment(self.k, size),
            "n_align_bytes": row_alignment(self.n, size),
            "out_align_bytes": row_alignment(self.l, size),
            "a_warm": CACHE_STATES[self.cache][0],
            "slots": slots,
            "sfu_op": sfu_op,
        }
        return GemmChain(**{name: float_dtype(value) for name, value in numbers.items()})


KERNELS = (
    Kernel(
        "gemm_chain",
        "GEMM chain",
        GemmChainProblem,
        "jaxmodel.kernels.gemm_chain_types:ChainSchedule",
        "jaxmodel.kernels.gemm_chain:cost",
        compiled_fields=("order",),
        compared="a few published times (dse validate gemm_chain)",
    ),
)
