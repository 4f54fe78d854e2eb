"""Dispatch and combine of a mixture of experts, as users ask for them: rows between the ranks that hold the experts.

Tokens are those of all ranks; what is timed is one rank, all others do the same. Experts are chosen evenly.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from ..content.default_fabric import default_fabric
from ..content.dtypes import DTYPE_BYTES
from ..content.fabric import load_fabric
from ..content.implementation import NONE, implementation_defaults
from ..errors import UserError
from .choice import Choice
from .entry import Kernel
from .expert_holders import limited_holders
from .fabric_problem import FABRIC_CHOICES, FabricProblem, split_overrides
from .problem import IMPLEMENTATION as WHOSE

if TYPE_CHECKING:
    from jaxmodel.kernels.moe_exchange_types import Exchange

NUMBERS_OF = "moe_exchange"  # the folder of hardware/implementations that both kernels read
SCALE_BYTES = 4.0 / 128.0  # of an 8-bit element: one of 4 bytes for 128 elements


def check_shared(problem: Any) -> None:
    """Raises UserError where a problem's `ranks` do not have as many of its `tokens`, and of its `experts`, each."""
    for name in ("tokens", "experts"):
        if getattr(problem, name) % problem.ranks:
            raise UserError(
                f"{name} = {getattr(problem, name)} in shape {problem.shape!r} are not shared evenly by "
                f"{problem.ranks} ranks: choose --ranks that divide them"
            )


@dataclass(frozen=True)
class ExchangeProblem(FabricProblem):
    """Rows of tokens between ranks.

    Attributes:
        tokens: of all ranks, as many on each.
        hidden: elements of a row.
        experts: of all ranks, as many on each.
        topk: experts a token goes to.
        dtype: of a row as it travels.
        ranks, fabric, fabric_numbers: see `FabricProblem`; `fabric` is a node's.
        network: what joins nodes, by name or path, where there are more ranks than a node has.
        group_limit: nodes that a token's experts lie on at most; 0: any.
        implementation: whose exchange it is; `exchange_numbers`: its numbers.
        inside: ranks of a node, once it is known.
        network_numbers: bytes a second and seconds a hop between nodes.
    """

    NAME: ClassVar[str]
    SIZES: ClassVar[tuple[str, ...]] = ("tokens", "hidden", "experts", "topk")
    EXAMPLE: ClassVar[str] = "32768x7168x256x8"
    COMBINES: ClassVar[bool] = False
    CHOICES: ClassVar[tuple[Choice, ...]] = (
        *FABRIC_CHOICES,
        Choice("network", "what joins nodes, where ranks are more than one has: a level by name or path"),
        Choice("group_limit", "nodes that a token's experts lie on at most; 0: any", int, least=0),
        WHOSE,
    )

    tokens: int
    hidden: int
    experts: int
    topk: int
    dtype: str = "bf16"
    ranks: int = 8
    fabric: str = ""
    fabric_numbers: tuple[tuple[str, float], ...] = ()
    network: str = ""
    group_limit: int = 0
    implementation: str = "none"
    exchange_numbers: tuple[tuple[str, float], ...] = ()
    inside: int = 0
    network_numbers: tuple[float, float] = (0.0, 0.0)

    def checked(self) -> Self:
        """See `Problem.checked`; also ranks have as many tokens and as many experts each."""
        super().checked()
        check_shared(self)
        if self.topk > self.experts:
            raise UserError(f"topk = {self.topk}: a token goes to at most all {self.experts} expert(s)")
        return self

    def on(self, gpu: Any, overrides: Mapping[str, str | float] | None = None) -> Self:
        """See `FabricProblem.on`; also with the network's numbers and those of the exchange's implementation.

        Raises:
            UserError: as there; or more ranks than a node has and no network, or no whole nodes.
        """
        of_fabric, rest = split_overrides(overrides)
        node = int(load_fabric(self.fabric or default_fabric(gpu)).levels[0]["ranks_max"])
        inside = min(self.ranks, node)
        if self.ranks > node and (not self.network or self.ranks % node):
            raise UserError(
                f"--ranks {self.ranks}: a node has {node} GPUs; name --network, e.g. infiniband_ndr, for whole nodes"
            )
        between = (0.0, 0.0)
        if self.ranks > node:
            level = load_fabric(self.network).levels[0]
            between = (level["simple.bytes_per_s"], level["ll.hop_s"])
        placed = super(ExchangeProblem, replace(self, ranks=inside)).on(gpu, of_fabric)
        numbers = self.loaded_numbers(NUMBERS_OF, gpu, rest)
        return replace(placed, ranks=self.ranks, inside=inside, network_numbers=between, exchange_numbers=numbers)

    @property
    def holders(self) -> tuple[float, float]:
        """Expected distinct ranks and nodes of a token's experts."""
        nodes = self.ranks // (self.inside or self.ranks)
        return limited_holders(self.experts, nodes, self.ranks, self.topk, self.group_limit)

    @property
    def row_bytes(self) -> float:
        """Of a token as it travels: 8-bit types with their scales."""
        size = DTYPE_BYTES[self.dtype]
        return self.hidden * (size + (SCALE_BYTES if size <= 1 else 0.0))

    @property
    def flop(self) -> float:
        """Useful operations: sums of a combine, one for each row beyond a token's first."""
        added = self.topk - 1.0 if self.COMBINES else 0.0
        return added * self.tokens / self.ranks * self.hidden

    def compulsory_bytes(self, gpu: Any) -> float:
        """See `Problem.compulsory_bytes`: a rank's tokens, and a row for each rank that they go to."""
        return self.tokens / self.ranks * (1.0 + self.holders[0]) * self.row_bytes

    def arrays(self, float_dtype: Any = np.float32) -> "Exchange":
        """The problem as the model's record of scalars."""
        from jaxmodel.kernels.moe_exchange_types import Exchange, ExchangeNumbers, Network

        numbers = dict(self.exchange_numbers)
        if not numbers and self.implementation != NONE:
            raise UserError(
                f"implementation {self.implementation!r} has numbers of a GPU: take problem.on(load_gpu(...)), as "
                "dse.question.ask does"
            )
        numbers = numbers or implementation_defaults(NUMBERS_OF)
        tokens = self.tokens / self.ranks
        ranks, nodes = self.holders
        rate, hop_s = self.network_numbers
        link = replace(self.link(float_dtype), ranks=float_dtype(self.inside or self.ranks))
        values = {
            "tokens": tokens,
            "expert_rows": tokens * self.topk,
            "rank_rows": tokens * ranks,
            "node_rows": tokens * nodes,
            "row_bytes": self.row_bytes,
            "combine": float(self.COMBINES),
            "ranks": self.ranks,
        }
        return Exchange(
            **{name: float_dtype(value) for name, value in values.items()},
            link=link,
            network=Network(bytes_per_s=float_dtype(rate), hop_s=float_dtype(hop_s)),
            numbers=ExchangeNumbers(**{name: float_dtype(value) for name, value in numbers.items()}),
        )


@dataclass(frozen=True)
class MoeDispatch(ExchangeProblem):
    """Dispatch: every token's row goes to the ranks of its experts."""

    kernel: ClassVar[str] = "moe_dispatch"
    NAME: ClassVar[str] = "MoE dispatch"


@dataclass(frozen=True)
class MoeCombine(ExchangeProblem):
    """Combine: results come back to the token's rank and are added up."""

    kernel: ClassVar[str] = "moe_combine"
    NAME: ClassVar[str] = "MoE combine"
    COMBINES: ClassVar[bool] = True


def _entry(problem: type[ExchangeProblem]) -> Kernel:
    return Kernel(
        problem.kernel,
        problem.NAME,
        problem,
        "jaxmodel.kernels.moe_exchange_types:ExchangeSchedule",
        "jaxmodel.kernels.moe_exchange:cost",
        tensor_cores=False,
        advice="dse.kernels.spread_advice",
        compared="published times: 15 % off in the mean, most slower than predicted (dse validate fused_communication)",
    )


KERNELS = (_entry(MoeDispatch), _entry(MoeCombine))
