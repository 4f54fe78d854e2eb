"""A layer of experts that several GPUs share, as users ask for it: dispatch, both products, combine."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from ..content.dtypes import DTYPE_BYTES, WIDE_BYTES
from .choice import Choice
from .entry import Kernel
from .fabric_problem import FABRIC_CHOICES, FabricProblem, split_overrides
from .grouped_gemm import DISTRIBUTION, experts_of, rows_of
from .moe import MoeProblem
from .moe_exchange import ExchangeProblem, MoeCombine, MoeDispatch, check_shared
from .problem import IMPLEMENTATION as WHOSE

if TYPE_CHECKING:
    from jaxmodel.kernels.moe_ep_types import ExpertLayer

PARTS = ("layer", "dispatch", "combine")


@dataclass(frozen=True)
class ExpertLayerProblem(FabricProblem):
    """Experts dealt over ranks; what is timed is the rank with the most rows.

    Attributes:
        tokens: of all ranks, as many on each.
        hidden, inter, experts, topk, dtype, distribution, gated: as of `MoeProblem`.
        ranks, fabric, fabric_numbers: see `FabricProblem`; the ranks share the experts.
        part: "layer"; "dispatch": the dispatch and the first product; "combine": the second product and the combine.
        implementation: whose kernels compute; `layer_numbers`: their numbers.
    """

    kernel: ClassVar[str] = "moe_ep"
    NAME: ClassVar[str] = "MoE over GPUs"
    SIZES: ClassVar[tuple[str, ...]] = ("tokens", "hidden", "inter", "experts", "topk")
    EXAMPLE: ClassVar[str] = "8192x7168x2048x256x8"
    CHOICES: ClassVar[tuple[Choice, ...]] = (
        *FABRIC_CHOICES,
        DISTRIBUTION,
        Choice("gated", "the first product makes gate and up", bool),
        Choice("part", "the layer, or one product with its exchange", allowed=PARTS),
        WHOSE,
    )

    tokens: int
    hidden: int
    inter: int
    experts: int
    topk: int
    dtype: str = "bf16"
    ranks: int = 8
    fabric: str = ""
    fabric_numbers: tuple[tuple[str, float], ...] = ()
    distribution: str = "balanced"
    gated: bool = True
    part: str = "layer"
    implementation: str = "none"
    layer_numbers: tuple[tuple[str, float], ...] = ()

    def checked(self) -> Self:
        """See `Problem.checked`; also what `MoeProblem` and `ExchangeProblem` ask for."""
        super().checked()
        check_shared(self)  # of the shape as it was written; the exchange has no inner size
        self.exchange(MoeDispatch).checked()
        self.layer.checked()
        return self

    def on(self, gpu: Any, overrides: Mapping[str, str | float] | None = None) -> Self:
        """See `FabricProblem.on`; also with the numbers of the computing kernels' implementation.

        Raises:
            UserError: as there.
        """
        of_fabric, rest = split_overrides(overrides)
        numbers = self.loaded_numbers("moe", gpu, rest)
        placed = super().on(gpu, of_fabric)
        return replace(placed, layer_numbers=numbers)

    @property
    def layer(self) -> MoeProblem:
        """What the rank computes, as one GPU's part of a fused layer."""
        return MoeProblem(
            tokens=self.tokens,
            hidden=self.hidden,
            inter=self.inter,
            experts=self.experts,
            topk=self.topk,
            dtype=self.dtype,
            ep=self.ranks,
            distribution=self.distribution,
            gated=self.gated,
            implementation=self.implementation,
            implementation_numbers=self.layer_numbers,
        )

    def exchange(self, kind: type[ExchangeProblem]) -> ExchangeProblem:
        """One of the two exchanges: rows travel in the type of the products' operands, results in bf16."""
        return kind(
            tokens=self.tokens,
            hidden=self.hidden,
            experts=self.experts,
            topk=self.topk,
            dtype="bf16" if kind.COMBINES else self.dtype,
            ranks=self.ranks,
            fabric=self.fabric,
            fabric_numbers=self.fabric_numbers,
        )

    @property
    def flop(self) -> float:
        """Useful operations of the rank: those of the products."""
        return 2.0 * self._matrices * float(self.hidden) * float(self.inter) * rows_of(self.layer.classes)

    def compulsory_bytes(self, gpu: Any) -> float:
        """See `Problem.compulsory_bytes`: the used experts' weights and the products' outputs."""
        classes = self.layer.classes
        weights = experts_of(classes) * self._matrices * self.hidden * self.inter * DTYPE_BYTES[self.dtype]
        columns = (self.part != "combine") * (1 + self.gated) * self.inter + (self.part != "dispatch") * self.hidden
        return weights + rows_of(classes) * columns * WIDE_BYTES

    def arrays(self, float_dtype: Any = np.float32) -> "ExpertLayer":
        """The problem as the model's record of scalars."""
        from jaxmodel.kernels.moe_ep_types import ExpertLayer
        from jaxmodel.kernels.moe_exchange import scaled_rows

        mean_rows = self.tokens / self.ranks * self.topk
        busiest = float_dtype(rows_of(self.layer.classes) / mean_rows)

        def rows(kind: type[ExchangeProblem], unwanted: str) -> Any:
            return None if self.part == unwanted else scaled_rows(self.exchange(kind).arrays(float_dtype), busiest)

        return ExpertLayer(
            layer=self.layer.arrays(float_dtype),
            dispatch=rows(MoeDispatch, "combine"),
            combine=rows(MoeCombine, "dispatch"),
        )

    @property
    def _matrices(self) -> int:
        return (self.part != "combine") * (1 + self.gated) + (self.part != "dispatch")


KERNELS = (
    Kernel(
        "moe_ep",
        "MoE over GPUs",
        ExpertLayerProblem,
        "jaxmodel.kernels.moe_ep_types:ExpertLayerSchedule",
        "jaxmodel.kernels.moe_ep:cost",
        advice="dse.kernels.spread_advice",
        compared="published times: 20 % off in the mean, slower than predicted (dse validate fused_communication)",
    ),
)
