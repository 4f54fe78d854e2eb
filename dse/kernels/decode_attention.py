"""Decode attention: shapes and choices as users write them -> problems as the model takes them."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from ..content.dtypes import DTYPE_BYTES
from ..errors import UserError, unknown
from .choice import Choice
from .entry import Kernel
from .heads_problem import HeadsProblem
from .problem import IMPLEMENTATION

if TYPE_CHECKING:
    from jaxmodel.kernels.decode_attention_types import DecodeAttention

FORM = "BxH[/KVH]xQ:KVxD[/DV]"
TYPES = tuple(DTYPE_BYTES)
LONG = 2**20  # tokens: every space's splits times its blocks are fewer


@dataclass(frozen=True)
class DecodeAttentionProblem(HeadsProblem):
    """Attention of a few queries a sequence over keys and values in a cache.

    Attributes:
        batch: sequences.
        heads, kv_heads: of queries, and of keys and values; the one is a multiple of the other.
        q_tokens: queries a sequence: 1, more in speculative decoding and chunked prefill.
        kv_tokens: keys a sequence, those of the queries included; the mean where they differ.
        head_dim, v_dim: of queries and keys, and of values.
        dtype: of queries, and of what the tensor cores multiply.
        kv_dtype: of the cache; None: as `dtype`. A narrower one is widened by CUDA cores.
        out_dtype: of the result; None: bf16.
        shared_kv: whether the values are the first `v_dim` numbers of the keys (MLA); None: where v_dim < head_dim.
        causal: whether a query sees no key after its own.
        window: keys that a query sees at most; 0: all.
        page_tokens: tokens a page of the cache; 0: contiguous.
        context_spread: standard deviation of the sequences' kv_tokens over their mean.
        kv_warm: whether L2 holds the cache at the start, as far as it fits.
        implementation, implementation_numbers: see `KernelProblem`.
    """

    kernel: ClassVar[str] = "decode_attention"
    NAME: ClassVar[str] = "decode attention"
    FORM: ClassVar[str] = FORM
    EXAMPLE: ClassVar[str] = "64x32/8x1:8192x128"
    KEYS_NEEDED: ClassVar[bool] = True
    CHOICES: ClassVar[tuple[Choice, ...]] = (
        Choice("kv_dtype", "type of keys and values in the cache (default: as --dtype)", allowed=TYPES),
        Choice("out_dtype", "type of the output (default: bf16, or what suits --dtype)", allowed=TYPES),
        Choice("shared_kv", "values are the first numbers of the keys, as in MLA", bool),
        Choice("causal", "a query sees no key after its own", bool),
        Choice("window", "keys that a query sees at most; 0: all", int, least=0),
        Choice("page_tokens", "tokens a page of the KV cache; 0: contiguous", int, least=0),
        Choice("context_spread", "standard deviation of the sequences' keys over their mean", float, most=0.57),
        Choice("kv_warm", "keys and values are in L2 when the kernel starts, as far as they fit", bool),
        IMPLEMENTATION,
    )

    dtype: str = "bf16"
    kv_dtype: str | None = None
    out_dtype: str | None = None
    shared_kv: bool | None = None
    causal: bool = True
    window: int = 0
    page_tokens: int = 16
    context_spread: float = 0.0
    kv_warm: bool = False
    implementation: str = "none"
    implementation_numbers: tuple[tuple[str, float], ...] = ()

    def checked(self) -> Self:
        """See `Problem.checked`; also KV heads divide heads, queries are among the keys, and shared values fit."""
        super().checked()
        if self.shares_kv and self.v_dim > self.head_dim:
            raise UserError(
                f"shared_kv with v_dim = {self.v_dim} above head_dim = {self.head_dim}: values are part of the keys"
            )
        if DTYPE_BYTES[self.cache_dtype] > DTYPE_BYTES[self.dtype]:
            allowed = [name for name, size in DTYPE_BYTES.items() if size <= DTYPE_BYTES[self.dtype]]
            raise unknown("kv_dtype", self.cache_dtype, allowed, f"for dtype {self.dtype}: the cache is no wider")
        return self

    def enlarged(self) -> Self:
        """One in which no context is too short for a schedule's splits."""
        return replace(self, batch=1, kv_tokens=max(LONG, self.q_tokens), window=0, context_spread=0.0, kv_warm=False)

    @property
    def cache_dtype(self) -> str:
        """Type of keys and values."""
        return self.kv_dtype or self.dtype

    @property
    def shares_kv(self) -> bool:
        """Whether values are part of the keys."""
        return self.v_dim < self.head_dim if self.shared_kv is None else self.shared_kv

    @property
    def cache_bytes(self) -> float:
        """Of the keys and values of all sequences."""
        elements = self.head_dim + (0 if self.shares_kv else self.v_dim)
        return float(self.batch) * self.kv_heads * self.kv_tokens * elements * DTYPE_BYTES[self.cache_dtype]

    @property
    def flop(self) -> float:
        """Of Q K^T and P V over the keys that queries see."""
        keys = max(self.kv_tokens - (0.5 * (self.q_tokens - 1.0) if self.causal else 0.0), 1.0)
        keys = min(keys, self.window) if self.window else keys
        return 2.0 * self.batch * self.heads * self.q_tokens * keys * (self.head_dim + self.v_dim)

    def compulsory_bytes(self, gpu: Any) -> float:
        """See `Problem.compulsory_bytes`: queries, results, and keys and values within the window that L2 lacks."""
        rows = float(self.batch) * self.q_tokens * self.heads
        moved = rows * (self.head_dim * DTYPE_BYTES[self.dtype] + self.v_dim * DTYPE_BYTES[self.result_dtype])
        seen = min(self.window + self.q_tokens - 1.0, self.kv_tokens) if self.window else self.kv_tokens
        held = float(gpu.l2_capacity_bytes * gpu.l2_effective_ratio) if self.kv_warm else 0.0
        return moved + max(self.cache_bytes * seen / self.kv_tokens - held, 0.0)

    @property
    def result_dtype(self) -> str:
        """Type of the result."""
        return self.out_dtype or "bf16"

    def arrays(self, float_dtype: Any = np.float32) -> "DecodeAttention":
        """The problem as the model's record of scalars."""
        from jaxmodel.kernels.decode_attention_types import DecodeAttention, DecodeNumbers

        numbers = {name: float(getattr(self, name)) for name in self.SIZES}
        numbers |= {name: float(getattr(self, name)) for name in ("causal", "window", "page_tokens", "context_spread")}
        numbers |= {
            "shared_kv": float(self.shares_kv),
            "q_bytes": DTYPE_BYTES[self.dtype],
            "kv_bytes": DTYPE_BYTES[self.cache_dtype],
            "out_bytes": DTYPE_BYTES[self.result_dtype],
            "kv_warm": float(self.kv_warm),
        }
        return DecodeAttention(
            **{name: float_dtype(value) for name, value in numbers.items()},
            numbers=DecodeNumbers(**{name: float_dtype(value) for name, value in self.numbers.items()}),
        )


KERNELS = (
    Kernel(
        "decode_attention",
        "decode attention",
        DecodeAttentionProblem,
        "jaxmodel.kernels.decode_attention_types:DecodeAttentionSchedule",
        "jaxmodel.kernels.decode_attention:cost",
        compared="library schedules, a preset with its implementation (dse validate decode_attention)",
    ),
)
