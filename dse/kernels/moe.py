"""Fused MoE layers: one rank's part of a layer, as users write it -> the problem as the model takes it."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from ..content.dtypes import DTYPE_BYTES, WIDE_BYTES
from ..errors import UserError
from .choice import Choice
from .entry import Kernel
from .grouped_gemm import DISTRIBUTION, RANKS, check_experts, class_records, experts_of, rows_of, scaling_of
from .problem import IMPLEMENTATION, KernelProblem, row_alignment
from .routing import Classes, expert_classes

if TYPE_CHECKING:
    from jaxmodel.kernels.moe_types import Moe


@dataclass(frozen=True)
class MoeProblem(KernelProblem):
    """A fused MoE layer on the rank that has the most rows: gate/up product, activation, down product, weighted sum.

    Attributes:
        tokens: of all ranks, as routed; with `ep` ranks this one sees them all and works on its experts' rows.
        hidden: of the model.
        inter: of an expert, of all `tp` ranks.
        experts: of all `ep` ranks.
        topk: experts a token goes to.
        dtype: of weights and of the products' operands; activations are bf16, and quantised for a narrow type.
        tp: ranks that share every expert's inter.
        ep: ranks that share the experts.
        distribution: "balanced", "power_law_ALPHA", or the rows of each of this rank's experts, "5,0,3".
        gated: whether the first product has twice `inter` columns, gate and up; else one and a plain activation.
        implementation: whose layer it is.
        implementation_numbers: see `KernelProblem`.
        given_classes: (rows, experts) in place of what `distribution` gives; empty: that.
    """

    kernel: ClassVar[str] = "moe"
    NAME: ClassVar[str] = "MoE"
    SIZES: ClassVar[tuple[str, ...]] = ("tokens", "hidden", "inter", "experts", "topk")
    EXAMPLE: ClassVar[str] = "4096x2048x768x128x8"
    CHOICES: ClassVar[tuple[Choice, ...]] = (
        Choice("tp", "ranks that share every expert's inter", int, least=1),
        RANKS,
        DISTRIBUTION,
        Choice("gated", "the first product makes gate and up", bool),
        IMPLEMENTATION,
    )

    tokens: int
    hidden: int
    inter: int
    experts: int
    topk: int
    dtype: str = "bf16"
    tp: int = 1
    ep: int = 1
    distribution: str = "balanced"
    gated: bool = True
    implementation: str = "none"
    implementation_numbers: tuple[tuple[str, float], ...] = ()
    given_classes: Classes = ()

    def checked(self) -> Self:
        """See `Problem.checked`; also `tp` divides inter, and experts, topk and distribution suit each other."""
        super().checked()
        if self.inter % self.tp:
            raise UserError(f"--tp = {self.tp} does not divide inter = {self.inter}: every rank has as many columns")
        if not self.given_classes:
            check_experts(self)
        return self

    @property
    def classes(self) -> Classes:
        """This rank's experts by their rows."""
        if self.given_classes:
            return self.given_classes
        return expert_classes(self.distribution, self.tokens, self.experts, self.topk, self.ep)

    @property
    def local_inter(self) -> int:
        """Of this rank."""
        return self.inter // self.tp

    @property
    def flop(self) -> float:
        """Useful operations: those of the two products."""
        return 2.0 * self._matrices * float(self.hidden) * float(self.local_inter) * rows_of(self.classes)

    def compulsory_bytes(self, gpu: Any) -> float:
        """The used experts' weights and the products' outputs."""
        rows = rows_of(self.classes)
        weights = experts_of(self.classes) * self._matrices * self.hidden * self.local_inter * DTYPE_BYTES[self.dtype]
        return weights + rows * ((self._matrices - 1) * self.local_inter + self.hidden) * WIDE_BYTES

    def arrays(self, float_dtype: Any = np.float32) -> "Moe":
        """The problem as the model's record of scalars."""
        from jaxmodel.kernels.grouped_gemm_types import GroupedNumbers
        from jaxmodel.kernels.moe_types import Moe, MoeNumbers

        size = DTYPE_BYTES[self.dtype]
        numbers = {
            "tokens": self.tokens,
            "routed_everywhere": self.tokens * self.topk,
            "hidden": self.hidden,
            "inter": self.local_inter,
            "gated": float(self.gated),
            "weight_bytes": size,
            "wide_bytes": WIDE_BYTES,
            "align_bytes": min(row_alignment(self.hidden, size), row_alignment(self.local_inter, size)),
        }
        known = {name: float_dtype(value) for name, value in self.numbers.items()}
        of_kernel = {name: known.pop(name) for name in GroupedNumbers.__dataclass_fields__}
        return Moe(
            **{name: float_dtype(value) for name, value in numbers.items()},
            classes=class_records(self.classes, float_dtype),
            scaling=scaling_of(self.dtype, float_dtype),
            numbers=MoeNumbers(kernel=GroupedNumbers(**of_kernel), **known),
        )

    @property
    def _matrices(self) -> int:
        return 3 if self.gated else 2


KERNELS = (
    Kernel(
        "moe",
        "MoE",
        MoeProblem,
        "jaxmodel.kernels.moe_types:MoeSchedule",
        "jaxmodel.kernels.moe:cost",
        compared="library schedules, a preset with its implementation (dse validate moe)",
    ),
)
