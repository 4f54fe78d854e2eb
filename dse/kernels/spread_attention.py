"""Attention that several GPUs share, as users ask for it: Ulysses and ring attention.

Sizes are of the whole problem over all ranks; what is computed, its operations and bytes, are of one of them: any with
Ulysses, the one with the most work in a ring.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from ..content.dtypes import DTYPE_BYTES
from ..errors import UserError
from .attention import TYPES, AttentionProblem
from .choice import Choice
from .entry import Kernel
from .fabric_problem import FABRIC_CHOICES, FabricProblem, split_overrides
from .heads_problem import HeadsProblem
from .problem import IMPLEMENTATION as WHOSE

if TYPE_CHECKING:
    from jaxmodel.kernels.spread_attention_types import RingAttention, Ulysses

FORM = "BxH[/KVH]xTOKENSxD[/DV]"
ORDERS = ("zigzag", "ring", "striped")


@dataclass(frozen=True)
class SpreadAttention(HeadsProblem, FabricProblem):
    """softmax(Q K^T + mask) V of sequences whose tokens lie on several GPUs, as many on each.

    Attributes:
        batch, heads, kv_heads, head_dim, v_dim, dtype, out_dtype, causal: as of `AttentionProblem`.
        q_tokens, kv_tokens: tokens a sequence, over all ranks; the same.
        ranks, fabric, fabric_numbers: see `FabricProblem`.
        implementation: whose attention kernel runs on each GPU; `attention_numbers`: its numbers.
    """

    FORM: ClassVar[str] = FORM
    EXAMPLE: ClassVar[str] = "1x32/8x65536x128"
    CHOICES: ClassVar[tuple[Choice, ...]] = (
        *FABRIC_CHOICES,
        Choice("out_dtype", "type of the output (default: bf16, or what suits --dtype)", allowed=TYPES),
        Choice("causal", "a query sees no key after its own", bool),
        WHOSE,
    )

    dtype: str = "bf16"
    out_dtype: str | None = None
    causal: bool = True
    ranks: int = 8
    fabric: str = ""
    fabric_numbers: tuple[tuple[str, float], ...] = ()
    implementation: str = "none"
    attention_numbers: tuple[tuple[str, float], ...] = ()

    def checked(self) -> Self:
        """See `Problem.checked`; also every query has its key, and ranks have as many tokens each."""
        super().checked()
        if self.q_tokens != self.kv_tokens:
            raise UserError(f"shape {self.shape!r}: {self.kernel} has as many keys as queries; write {FORM}")
        if self.q_tokens % self.parts:
            raise UserError(
                f"tokens = {self.q_tokens} in shape {self.shape!r} are no multiple of {self.parts}, the parts that "
                f"{self.ranks} ranks cut them into: pad them, or choose other --ranks"
            )
        return self

    @property
    def parts(self) -> int:
        """Equal parts that the tokens must come in."""
        return self.ranks

    @property
    def tokens(self) -> int:
        """Of one rank."""
        return self.q_tokens // self.ranks

    def on(self, gpu: Any, overrides: Mapping[str, str | float] | None = None) -> Self:
        """See `FabricProblem.on`; also with the numbers of the attention kernel's implementation."""
        of_fabric, rest = split_overrides(overrides)
        numbers = self.loaded_numbers("attention", gpu, rest)
        placed = super().on(gpu, of_fabric)
        return replace(placed, attention_numbers=numbers)

    def described(self, accumulator: str) -> str:
        """See `Problem.described`; whether there is a causal mask doubles or halves the work, so it is always said."""
        return f"{self.title}{', causal' if self.causal else ''}, {accumulator} accumulation"

    def attention(self, q_tokens: int, kv_tokens: int, causal: bool, heads: int, kv_heads: int) -> AttentionProblem:
        """What one launch computes."""
        return AttentionProblem(
            batch=self.batch,
            heads=heads,
            kv_heads=kv_heads,
            q_tokens=q_tokens,
            kv_tokens=kv_tokens,
            head_dim=self.head_dim,
            v_dim=self.v_dim,
            dtype=self.dtype,
            out_dtype=self.out_dtype,
            causal=causal,
            implementation=self.implementation,
            implementation_numbers=self.attention_numbers,
        )


@dataclass(frozen=True)
class UlyssesProblem(SpreadAttention):
    """Ulysses attention: an all-to-all of Q, K and V gives each rank all tokens of its heads, another gives the outputs
    back. Fewer KV heads than ranks are kept by several."""

    kernel: ClassVar[str] = "ulysses"
    NAME: ClassVar[str] = "Ulysses attention"

    def checked(self) -> Self:
        """See `Problem.checked`; also the ranks share the heads evenly."""
        super().checked()
        if self.heads % self.ranks:
            raise UserError(
                f"heads = {self.heads} in shape {self.shape!r} are not shared evenly by {self.ranks} ranks: choose "
                "--ranks that divide them"
            )
        if self.kv_heads % self.ranks and self.ranks % self.kv_heads:
            raise UserError(
                f"kv_heads = {self.kv_heads} in shape {self.shape!r} and {self.ranks} ranks: the one must divide the "
                "other"
            )
        return self

    @property
    def launch(self) -> AttentionProblem:
        """A rank's attention, all chunks of heads together."""
        kv_heads = max(self.kv_heads // self.ranks, 1)
        return self.attention(self.q_tokens, self.q_tokens, self.causal, self.heads // self.ranks, kv_heads)

    @property
    def flop(self) -> float:
        """Useful operations of one rank."""
        return self.launch.flop

    def compulsory_bytes(self, gpu: Any) -> float:
        """See `Problem.compulsory_bytes`: those of a rank's attention."""
        return self.launch.compulsory_bytes(gpu)

    def arrays(self, float_dtype: Any = np.float32) -> "Ulysses":
        """The problem as the model's record of scalars."""
        from jaxmodel.kernels.spread_attention_types import Ulysses

        launch = self.launch
        others = float(self.batch * (self.q_tokens - self.tokens))  # tokens
        q, kv = launch.heads * self.head_dim, launch.kv_heads * (self.head_dim + self.v_dim)
        out = launch.heads * self.v_dim * DTYPE_BYTES[launch.result_dtype]
        return Ulysses(
            attention=launch.arrays(float_dtype),
            q_bytes=float_dtype(others * q * DTYPE_BYTES[self.dtype]),
            kv_bytes=float_dtype(others * kv * DTYPE_BYTES[self.dtype]),
            out_bytes=float_dtype(others * out),
            link=self.link(float_dtype),
        )


@dataclass(frozen=True)
class RingAttentionProblem(SpreadAttention):
    """Ring attention: each rank keeps its queries, and shards of keys and values go around.

    Attributes:
        order: which tokens are a rank's, with a causal mask. "ring": the next ones, so that the last rank sees every
            shard whole; "zigzag": one part from the front and one from the back, half of every pair of shards is seen;
            "striped": every p-th token, each shard is seen under a causal mask.
    """

    kernel: ClassVar[str] = "ring_attention"
    NAME: ClassVar[str] = "ring attention"
    CHOICES: ClassVar[tuple[Choice, ...]] = (
        *SpreadAttention.CHOICES,
        Choice("order", "which tokens are a rank's, with a causal mask", allowed=ORDERS),
    )

    order: str = "zigzag"

    @property
    def parts(self) -> int:
        """Equal parts that the tokens must come in."""
        return 2 * self.ranks if self.causal and self.order == "zigzag" else self.ranks

    @property
    def own(self) -> AttentionProblem:
        """A rank's queries over its own keys."""
        return self.attention(self.tokens, self.tokens, self.causal, self.heads, self.kv_heads)

    @property
    def step(self) -> AttentionProblem:
        """A rank's queries over what they see of a shard of another's keys: of zigzag half of it, as if always the
        first half of the keys; of the other half of all steps it is the second half of the queries."""
        masked = self.causal and self.order == "striped"
        whole = self.attention(self.tokens, self.tokens, masked, self.heads, self.kv_heads)
        if self.causal and self.order == "zigzag":
            return replace(whole, kv_tokens=self.tokens // 2)
        return whole

    @property
    def flop(self) -> float:
        """Useful operations of the busiest rank."""
        half = 0.5 if self.causal and self.order == "zigzag" else 1.0
        return self.own.flop + (self.ranks - 1.0) * half * replace(self.step, kv_tokens=self.tokens).flop

    def compulsory_bytes(self, gpu: Any) -> float:
        """See `Problem.compulsory_bytes`: those of the rank's own shard."""
        return self.own.compulsory_bytes(gpu)

    def arrays(self, float_dtype: Any = np.float32) -> "RingAttention":
        """The problem as the model's record of scalars."""
        from jaxmodel.kernels.spread_attention_types import RingAttention

        a_token = self.kv_heads * (self.head_dim + self.v_dim) * DTYPE_BYTES[self.dtype]
        return RingAttention(
            own=self.own.arrays(float_dtype) if self.causal else None,
            step=self.step.arrays(float_dtype),
            shard_bytes=float_dtype(float(self.batch * self.tokens) * a_token),
            link=self.link(float_dtype),
        )


def _entry(problem: type[SpreadAttention], schedule: str) -> Kernel:
    return Kernel(
        problem.kernel,
        problem.NAME,
        problem,
        f"jaxmodel.kernels.spread_attention_types:{schedule}",
        f"jaxmodel.kernels.{problem.kernel}:cost",
        advice="dse.kernels.spread_advice",
        compared="published times: 14 % off in the mean, most slower than predicted (dse validate fused_communication)",
    )


KERNELS = (_entry(UlyssesProblem, "UlyssesSchedule"), _entry(RingAttentionProblem, "RingSchedule"))
