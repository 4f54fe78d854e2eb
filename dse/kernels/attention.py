"""Attention forward (prefill): shapes and choices as users write them -> problems as the model takes them."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from ..content.dtypes import DTYPE_BYTES
from ..errors import UserError
from .attention_lengths import Lengths, read_lengths, spread_lengths
from .choice import Choice
from .entry import Kernel
from .heads_problem import HeadsProblem
from .problem import IMPLEMENTATION

if TYPE_CHECKING:
    from jaxmodel.kernels.attention_types import Attention

FORM = "BxH[/KVH]xQ[:KV]xD[/DV]"
ROWS_MAX = 2**24  # keys of a sequence times query heads a KV head: counted exactly below it
TYPES = tuple(DTYPE_BYTES)


@dataclass(frozen=True)
class AttentionProblem(HeadsProblem):
    """softmax(Q K^T + mask) V of whole prompts, or of a prompt's last part over the keys before it.

    Attributes:
        batch: sequences.
        heads, kv_heads: of queries, and of keys and values; the one is a multiple of the other.
        q_tokens: queries a sequence; the longest where they differ.
        kv_tokens: keys a sequence, those of the queries included.
        head_dim, v_dim: of queries and keys, and of values.
        dtype: of queries, keys and values.
        out_dtype: of the result; None: bf16.
        causal: whether a query sees no key after its own.
        window: keys that a query sees at most, itself included; 0: all. Causal only.
        lengths: queries of each sequence where they differ, e.g. "4096,1024*3"; None: all alike.
        length_spread: standard deviation of the sequences' lengths over their mean, instead of a list.
        page_tokens: tokens a page of the KV cache; 0: contiguous.
        q_warm, kv_warm: whether L2 holds them at the start, as far as they fit.
        implementation, implementation_numbers: see `KernelProblem`.
    """

    kernel: ClassVar[str] = "attention"
    NAME: ClassVar[str] = "attention"
    FORM: ClassVar[str] = FORM
    EXAMPLE: ClassVar[str] = "4x32/8x4096x128"
    CHOICES: ClassVar[tuple[Choice, ...]] = (
        Choice("out_dtype", "type of the output (default: bf16, or what suits --dtype)", allowed=TYPES),
        Choice("causal", "a query sees no key after its own", bool),
        Choice("window", "keys that a query sees at most; 0: all", int, least=0),
        Choice("lengths", "queries of each sequence where they differ, e.g. 4096,1024*3"),
        Choice("length_spread", "standard deviation of the sequences' lengths over their mean", float, most=0.8),
        Choice("page_tokens", "tokens a page of the KV cache; 0: contiguous", int, least=0),
        Choice("q_warm", "queries are in L2 when the kernel starts, as far as they fit", bool),
        Choice("kv_warm", "keys and values are in L2 when the kernel starts, as far as they fit", bool),
        IMPLEMENTATION,
    )

    dtype: str = "bf16"
    out_dtype: str | None = None
    causal: bool = True
    window: int = 0
    lengths: str | None = None
    length_spread: float = 0.0
    page_tokens: int = 0
    q_warm: bool = True
    kv_warm: bool = False
    implementation: str = "none"
    implementation_numbers: tuple[tuple[str, float], ...] = ()

    def checked(self) -> Self:
        """See `Problem.checked`; also KV heads divide heads, queries are among the keys, lengths match the shape."""
        super().checked()
        if self.kv_tokens * (self.heads // self.kv_heads) >= ROWS_MAX:
            raise UserError(
                f"kv_tokens x heads / kv_heads in shape {self.shape!r} is 2^24 or more, past what the model's float32 "
                "counts exactly; take shorter sequences or fewer heads"
            )
        if self.window and not self.causal:
            raise UserError(f"window = {self.window} needs a causal mask: take --causal true, or --window 0")
        if self.lengths is not None and self.length_spread:
            raise UserError("lengths and length_spread both say how sequences differ: give one of them")
        self.sequences()
        return self

    def described(self, accumulator: str) -> str:
        """See `Problem.described`; whether there is a causal mask doubles or halves the work, so it is always said."""
        return f"{self.title}{', causal' if self.causal else ''}, {accumulator} accumulation"

    def sequences(self) -> Lengths:
        """(sequences, queries each) of at most four lengths, the longest first; keys are `kv_tokens` - `q_tokens`
        more.

        Raises:
            UserError: lengths that are not whole numbers, or do not match the shape.
        """
        if self.lengths is not None:
            return read_lengths(self.lengths, self.batch, self.q_tokens)
        return spread_lengths(self.batch, self.q_tokens, self.length_spread)

    @property
    def result_dtype(self) -> str:
        """Type of the result."""
        return self.out_dtype or ("fp16" if self.dtype == "fp16" else "bf16")

    @property
    def flop(self) -> float:
        """Of Q K^T and P V over the pairs of query and key that the mask leaves."""
        prefix = self.kv_tokens - self.q_tokens
        pairs = 0.0
        for count, tokens in self.sequences():
            if not self.causal:
                pairs += float(count) * tokens * (tokens + prefix)
                continue
            window = self.window or tokens + prefix
            short = min(max(window - prefix, 0), tokens)  # queries that see less than a window
            pairs += count * (short * (prefix + 0.5 * (short + 1.0)) + (tokens - short) * float(window))
        return 2.0 * pairs * self.heads * (self.head_dim + self.v_dim)

    def compulsory_bytes(self, gpu: Any) -> float:
        """See `Problem.compulsory_bytes`: queries, results, keys and values that some query sees and L2 lacks."""
        prefix = self.kv_tokens - self.q_tokens
        tokens = float(sum(count * length for count, length in self.sequences()))
        unseen = max(prefix + 1 - self.window, 0) if self.window else 0
        keys = tokens + self.batch * (prefix - min(unseen, prefix))
        held = float(gpu.l2_capacity_bytes * gpu.l2_effective_ratio)
        q_bytes = tokens * self.heads * self.head_dim * DTYPE_BYTES[self.dtype]
        kv_bytes = keys * self.kv_heads * (self.head_dim + self.v_dim) * DTYPE_BYTES[self.dtype]
        written = tokens * self.heads * self.v_dim * DTYPE_BYTES[self.result_dtype]
        q_read = max(q_bytes - held, 0.0) if self.q_warm else q_bytes
        return written + q_read + (max(kv_bytes - held, 0.0) if self.kv_warm else kv_bytes)

    def arrays(self, float_dtype: Any = np.float32) -> "Attention":
        """The problem as the model's record of scalars."""
        from jaxmodel.kernels.attention_types import Attention, AttentionNumbers, SequenceClass

        prefix = self.kv_tokens - self.q_tokens
        (batch, q_tokens), *more = self.sequences()
        values = {
            **{name: float(getattr(self, name)) for name in ("heads", "kv_heads", "head_dim", "v_dim", "causal")},
            "batch": float(batch),
            "q_tokens": float(q_tokens),
            "kv_tokens": float(q_tokens + prefix),
            "window": float(self.window),
            "q_bytes": DTYPE_BYTES[self.dtype],
            "kv_bytes": DTYPE_BYTES[self.dtype],
            "out_bytes": DTYPE_BYTES[self.result_dtype],
            "kv_page_tokens": float(self.page_tokens),
            "q_warm": float(self.q_warm),
            "kv_warm": float(self.kv_warm),
        }
        return Attention(
            **{name: float_dtype(value) for name, value in values.items()},
            numbers=AttentionNumbers(**{name: float_dtype(value) for name, value in self.numbers.items()}),
            more=tuple(
                SequenceClass(
                    batch=float_dtype(count), q_tokens=float_dtype(tokens), kv_tokens=float_dtype(tokens + prefix)
                )
                for count, tokens in more
            ),
        )


KERNELS = (
    Kernel(
        "attention",
        "attention",
        AttentionProblem,
        "jaxmodel.kernels.attention_types:AttentionSchedule",
        "jaxmodel.kernels.attention:cost",
        reason_numbers="dse.kernels.attention_reasons:reason_numbers",
        advice="dse.kernels.attention_advice",
        compared="library schedules, a preset with its implementation (dse validate attention)",
    ),
)
